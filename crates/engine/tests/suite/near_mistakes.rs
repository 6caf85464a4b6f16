//! Correct files that resemble mistakes: they have no diagnostics.

use authoring::check_text;

use crate::mistakes::{SCHEDULE, WEBHOOK, catalog, check_fine};

/// Checks that a webhook automation with these steps has no warning.
#[track_caller]
fn check_fine_steps(steps: &str) {
    check_fine(&format!("{WEBHOOK}steps:\n{steps}"));
}

#[test]
fn texts_that_are_converted_or_compared_as_texts_are_fine() {
    for condition in [
        "trigger.results.queryParameters.n | int > 5",
        "trigger.results.queryParameters.n | default(0) | int > 5",
        "trigger.results.queryParameters.n == '3'",
        "trigger.results.queryParameters.n in ['3', '4']",
        "trigger.results.queryParameters.a < trigger.results.queryParameters.b",
        "trigger.results.queryParameters.name | default('') != ''",
        "trigger.results.queryParameters.name | default('')",
        "trigger.results.queryParameters.name is defined",
        "trigger.results.queryParameters.dry | default(false) | bool",
        "trigger.results.headers['x-id'] | default('')",
        "trigger.results.body.data.n > 5",
        "trigger.results.body.data.dry",
        "parseDate(trigger.results.body.data.due) < now()",
        "state.lastRun | default('') < addDuration(now(), '-1d')",
        "parseDate(trigger.results.body.data.a) < parseDate(trigger.results.body.data.b)",
        "trigger.results.method == 'POST'",
        "trigger.results.queryParameters.tags | length > 1",
    ] {
        check_fine_steps(&format!("  - if: {condition}\n    action: log.info\n    with: {{message: hi}}\n"));
    }
    for value in [
        "trigger.results.queryParameters.a ~ trigger.results.queryParameters.b",
        "trigger.results.queryParameters.a + trigger.results.queryParameters.b",
        "trigger.results.queryParameters.tags[0]",
        "trigger.results.body.data.price * 1.19",
        "(trigger.results.body.data.price * 1.19) | round(2)",
        "trigger.results.body.data.a | int + trigger.results.body.data.b | int",
        "trigger.results.body.data.first ~ ' ' ~ trigger.results.body.data.last | upper",
        "trigger.results.body.data.a + trigger.results.body.data.b | default(0)",
    ] {
        check_fine_steps(&format!("  - action: log.info\n    with: {{message: \"${{{{ {value} }}}}\"}}\n"));
    }
    check_fine_steps(
        "  - set: {since: \"${{ addDuration(now(), '-1d') }}\"}\n  - if: vars.since < now()\n    action: log.info\n    with: {message: hi}\n",
    );
}

#[test]
fn conditions_on_statuses_and_options_that_can_hold_are_fine() {
    let get = "  - id: get\n    action: http.request\n    retry: 1\n    with: {url: \"https://a.test\"}\n";
    for condition in ["== 204", "!= 200", "in [200, 404]", "> 200"] {
        check_fine_steps(&format!(
            "{get}  - if: steps.get.results.statusCode {condition}\n    action: log.info\n    with: {{message: hi}}\n"
        ));
    }
    let ask = "  - id: ask\n    waitFor: {approval: {message: Go?, options: [go, stay]}}\n    timeout: 1d\n";
    check_fine_steps(&format!(
        "{ask}  - if: steps.ask.results.option == 'go' and steps.ask.results.form.why is defined\n    action: log.info\n    with: {{message: hi}}\n"
    ));
}

#[test]
fn own_events_that_fit_their_automations_are_fine() {
    for trigger in [
        "event: invoice.paid",
        "event: invoice.paid, data: {invoice: text, amount: integer}, if: event.data.amount is none or event.data.amount > 0",
        "event: invoice.paid, data: {invoice: {type: text, required: true}}, if: \"trigger.results.body.data.invoice != '' and event.name != ''\"",
        // No connector has this name, and nothing near it.
        "event: shipment.lost",
    ] {
        check_fine(&format!(
            "trigger: {{{trigger}}}\nsteps:\n  - {{action: log.info, with: {{message: \"${{{{ trigger.results.event.sentAt }}}}\"}}}}\n"
        ));
    }
    for with in [
        "name: invoice.paid, data: {invoice: 17, amount: '12.5', customer: 7}",
        "name: invoice.paid, data: {invoice: \"${{ trigger.results.body.data.name }}\", amount: \"${{ trigger.results.body.data.count }}\"}",
        "name: invoice.paid, data: \"${{ trigger.results.body.data.name | parseJson }}\"",
        "name: \"invoice.${{ trigger.results.body.data.name }}\"",
        "name: invoice.lost, data: {a: 1}",
    ] {
        check_fine_steps(&format!("  - {{action: events.emit, with: {{{with}}}}}\n"));
    }
}

#[test]
fn loops_events_and_state_that_lose_nothing_are_fine() {
    // The list of the loop, a loop that a `break` ends, and a step read in its own iteration.
    check_fine_steps(
        "  - id: each\n    forEach: [1, 2]\n    steps: [{id: twice, set: {n: \"${{ item * 2 }}\"}}, {action: log.info, with: {message: \"${{ steps.twice.results.n }}\"}}]\n  - {action: log.info, with: {message: \"${{ steps.each.results }}\"}}\n",
    );
    check_fine_steps(
        "  - forEach: [1, 2]\n    steps: [{id: twice, set: {n: \"${{ item * 2 }}\"}}, {if: steps.twice.results.n > 2, then: [{break: true}]}]\n  - {action: log.info, with: {message: \"${{ steps.twice.results.n }}\"}}\n",
    );
    check_fine_steps(
        "  - repeat: {max: 3}\n    steps: [{id: ask, set: {n: \"${{ index }}\"}}]\n  - {action: log.info, with: {message: \"${{ steps.ask.results.n }}\"}}\n",
    );
    // The answer has another name, and a pause in parallel with the event receives it.
    check_fine_steps(
        "  - {action: events.emit, with: {name: wanted}}\n  - {waitFor: {event: order-paid}, timeout: 1h}\n",
    );
    check_fine_steps(
        "  - parallel:\n      a: [{waitFor: {event: order-paid}, timeout: 1h}]\n      b: [{action: events.emit, with: {name: order-paid}}]\n",
    );
    let told = |head: &str, steps: &str| {
        let report = check_text(&catalog(), "automations/test.yaml", &format!("{head}steps:\n{steps}"));
        report
            .diagnostics()
            .iter()
            .map(|found| found.code)
            .filter(|code| ["lost-update", "other-scope"].contains(code))
            .count()
    };
    let sum = "  - {action: state.set, with: {key: n, value: \"${{ (state.n | default(0)) + 1 }}\"}}\n";
    assert_eq!(told(WEBHOOK, sum), 1);
    assert_eq!(told(SCHEDULE, sum), 0, "a schedule does not overlap itself");
    assert_eq!(told(&format!("{WEBHOOK}concurrency: {{limit: 1}}\n"), sum), 0);
    assert_eq!(
        told(
            WEBHOOK,
            "  - {action: state.increment, with: {key: n}}\n  - {action: log.info, with: {message: \"${{ state.n }}\"}}\n"
        ),
        0
    );
    assert_eq!(
        told(
            WEBHOOK,
            "  - {id: old, action: state.get, with: {key: n, default: 0}}\n  - {action: state.set, with: {key: n, value: \"${{ trigger.results.body.data.n }}\"}}\n"
        ),
        0
    );
    assert_eq!(
        told(
            WEBHOOK,
            "  - {id: old, action: state.get, with: {key: n, scope: shared}}\n  - {action: state.set, with: {key: n, value: 1, scope: shared}}\n"
        ),
        0
    );
}

#[test]
fn a_request_with_a_method_and_a_retry_that_covers_something_are_fine() {
    check_fine_steps(
        "  - action: http.request\n    retry: 1\n    with: {url: \"https://a.test\", method: GET, body: {a: 1}}\n",
    );
    check_fine_steps(
        "  - retry: 2\n    steps: [{if: state.ready | default(false) == false, fail: not ready}]\n",
    );
    check_fine_steps(
        "  - retry: {max: 2, on: [network, 5xx]}\n    steps: [{action: http.request, with: {url: \"https://a.test\"}}]\n",
    );
    check_fine_steps("  - {retry: 2, code: \"export default async () => 1\"}\n");
    check_fine_steps("  - {retry: {max: 2, on: all}, action: state.increment, with: {key: n}}\n");
}

#[test]
fn bodies_that_match_their_content_type_are_fine() {
    for inputs in [
        "method: POST, headers: {content-type: application/json}, body: '{\"a\": 1}'",
        "method: POST, headers: {content-type: application/json}, body: \"{\\\"index\\\": {}}\\n{\\\"a\\\": 1}\\n\"",
        "method: POST, headers: {content-type: application/json}, body: ''",
        "method: POST, headers: {content-type: application/json}, body: \"${{ trigger.results.rawBody }}\"",
        "method: POST, headers: {content-type: application/json}, body: {a: 1}",
        "method: POST, headers: {content-type: application/x-ndjson}, body: 'a: 1'",
        "method: POST, headers: {content-type: text/plain}, body: {a: 1}",
        "method: POST, headers: {content-type: application/x-www-form-urlencoded}, body: a=1&b=2",
        "method: POST, headers: {content-type: application/x-www-form-urlencoded}, form: {a: 1}",
    ] {
        check_fine_steps(&format!(
            "  - action: http.request\n    retry: 1\n    with: {{url: \"https://a.test\", {inputs}}}\n"
        ));
    }
}

#[test]
fn literal_inputs_that_their_actions_accept_are_fine() {
    for step in [
        "{action: text.match, with: {text: \"${{ trigger.results.rawBody }}\", pattern: \"([0-9]+)\"}}",
        "{action: text.replace, with: {text: a, find: \"(\", with: b}}",
        "{action: data.parseJson, with: {data: \"${{ trigger.results.rawBody }}\"}}",
        "{action: data.toCsv, with: {rows: \"${{ trigger.results.body.data }}\", columns: [a, b]}}",
        "{action: state.set, with: {key: a, value: 1, ttl: 1d}}",
        "{action: files.write, with: {path: \"reports/${{ trigger.results.pathFragment }}.csv\", content: a}}",
        "{action: files.write, with: {path: reports/a..b.csv, content: a}}",
    ] {
        check_fine_steps(&format!("  - {step}\n"));
    }
}

#[test]
fn a_whole_step_as_a_value_is_fine_in_logs_and_state() {
    let get = "  - id: get\n    action: http.request\n    retry: 1\n    onError: continue\n    with: {url: \"https://a.test\"}\n";
    let sum = "  - {id: sum, set: {n: 5}}\n";
    for step in [
        "{action: log.info, with: {message: \"what came: ${{ steps.get }}\"}}",
        "{action: log.info, with: {message: hi, data: \"${{ steps.sum }}\"}}",
        "{action: state.set, with: {key: last, value: \"${{ steps.sum }}\"}}",
        "{action: log.info, with: {message: \"n is ${{ steps.sum.results.n }}\"}}",
        "{action: log.info, with: {message: \"${{ steps.sum | tojson }}\"}}",
        "{if: steps.get is defined, action: log.info, with: {message: hi}}",
    ] {
        check_fine_steps(&format!("{get}{sum}  - {step}\n"));
    }
}

#[test]
fn plain_text_filters_and_valid_wait_instants_are_fine() {
    for value in [
        "trigger.results.body.data.name | replace('/api/v1', '')",
        "trigger.results.body.data.name | replace('[name]', 'Anna')",
        "trigger.results.body.data.name | split(', ')",
        "'a' in 'b, c'",
        "trigger.results.body.data.name or 'nobody'",
        "trigger.results.queryParameters.name | default('nobody', true)",
        "trigger.results.body.data.list.0",
        "'yes' if 'b' in trigger.results.body.data.name else 'no'",
    ] {
        check_fine_steps(&format!("  - action: log.info\n    with: {{message: \"${{{{ {value} }}}}\"}}\n"));
    }
    for until in [
        "'2030-03-01T09:00:00Z'",
        "1900000000",
        "trigger.results.body.data.due",
        "addDuration(now(), '2h')",
        "parseDate('2030-03-01 09:00', timezone='Europe/Berlin')",
    ] {
        check_fine_steps(&format!("  - wait: {{until: \"{until}\"}}\n"));
    }
}
