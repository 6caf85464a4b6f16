//! Mistakes beside those of `tests/slips`: each is reported at its position, with its cause and the fix. Correct files that are
//! close to a mistake are not reported.

use authoring::{check_project, check_text};
use catalog::Catalog;
use text::Severity;
use text::diagnostic::Report;

use crate::common::workers;

/// Returns the catalog of a project with a connection and an Automation that waits for an event.
pub(crate) fn catalog() -> Catalog {
    workers();
    let dir = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("the file is written");
    };
    write(
        "connections/api.yaml",
        "type: http.bearer\nwith: {baseUrl: \"https://api.test/v1\", token: \"${{ secrets.api }}\"}\n",
    );
    let waits = "trigger: {manual: {}}\nsteps:\n  - waitFor: {event: order-paid}\n    timeout: 1h\n";
    write("automations/waits.yaml", waits);
    let pays = "trigger: {manual: {}}\nsteps:\n  - {action: events.emit, with: {name: invoice.paid, data: {invoice: a-1}}}\n";
    write("automations/pays.yaml", pays);
    let books = "trigger: {event: invoice.paid, data: {invoice: {type: text, required: true}, amount: number}}\nsteps:\n  - {action: log.info, with: {message: paid}}\n";
    write("automations/books.yaml", books);
    check_project(dir.path(), &[]).expect("the connectors load").catalog
}

const MANUAL: &str = "trigger: {manual: {}}\ninputs: {flag: {type: boolean, required: true}, name: {type: text, required: true}, size: {type: choice, options: [small, large], required: true}, count: {type: integer, required: true}}\n";
pub(crate) const WEBHOOK: &str = "trigger: {webhook: {verify: none}}\n";
pub(crate) const SCHEDULE: &str = "trigger: {schedule: {cron: \"0 8 * * *\"}}\n";

/// Checks that a file has exactly one problem with this code, the text at its span, and words of its fix. Unused values are
/// ignored.
#[track_caller]
fn check(text: &str, code: &str, place: &str, words: &str) {
    let report = check_text(&catalog(), "automations/test.yaml", text);
    let told: Vec<_> = report.diagnostics().iter().filter(|told| told.code != "unused-value").collect();
    let shown = report.render(false);
    let [told] = told.as_slice() else { panic!("{text}\n{shown}") };
    assert_eq!((told.code, report.source().slice(told.span)), (code, place), "\n{text}\n{shown}");
    assert!(shown.contains(words), "`{words}` is not said:\n{text}\n{shown}");
}

#[track_caller]
fn check_steps(head: &str, steps: &str, code: &str, place: &str, words: &str) {
    check(&format!("{head}steps:\n{steps}"), code, place, words);
}

/// Checks a step that logs an expression.
#[track_caller]
fn check_expression(head: &str, expression: &str, code: &str, place: &str, words: &str) {
    check_steps(
        head,
        &format!("  - action: log.info\n    with: {{message: \"${{{{ {expression} }}}}\"}}\n"),
        code,
        place,
        words,
    );
}

/// Checks that a file has no errors or warnings, except for unused values.
#[track_caller]
pub(crate) fn check_fine(text: &str) {
    let report = check_text(&catalog(), "automations/test.yaml", text);
    let report: Report = report.without("unused-value").without("may-be-missing");
    let told = report.diagnostics().iter().filter(|told| told.severity != Severity::Hint).count();
    assert_eq!(told, 0, "\n{text}\n{}", report.render(false));
}

#[test]
fn expressions_of_other_tools_are_translated() {
    check_expression(MANUAL, "$json.x", "expression-syntax", "$json", "`steps.<id>.results`");
    for (text, words) in
        [("$(inputs.name)", "`${{ inputs.name }}`"), ("<%= inputs.name %>", "`${{ inputs.name }}`")]
    {
        let steps = format!("  - action: log.info\n    with: {{message: \"of {text}\"}}\n");
        check_steps(MANUAL, &steps, "foreign-template", text, words);
    }
    let fine = "  - action: log.info\n    with: {message: \"costs $5 {x} 100% $(1 + 2) ${} ${{ inputs.name }} <b>\"}\n";
    check_fine(&format!("{MANUAL}steps:\n{fine}"));
}

#[test]
fn a_body_field_without_data_is_reported_with_the_corrected_path() {
    check_expression(
        WEBHOOK,
        "trigger.results.body.orderId | default('')",
        "unknown-member",
        "orderId",
        ".data.orderId`",
    );
    check_expression(
        WEBHOOK,
        "trigger.payload.orderId",
        "unknown-member",
        "payload",
        "`trigger.results.body.data.orderId`",
    );
    check_fine(&format!(
        "{WEBHOOK}steps:\n  - action: log.info\n    with: {{message: \"${{{{ trigger.results.body.contentType }}}}\"}}\n"
    ));
}

#[test]
fn the_body_of_a_schedule_may_be_read_with_a_default() {
    check_fine(&format!(
        "{SCHEDULE}steps:\n  - action: log.info\n    with: {{message: \"${{{{ trigger.results.body.data | default('') }}}}\"}}\n"
    ));
}

#[test]
fn a_method_call_of_a_compound_value_suggests_the_equivalent_filter() {
    check_expression(MANUAL, "(inputs.name ~ 'a').trim()", "unknown-function", "trim", "`x | trim`");
}

#[test]
fn a_comparison_that_is_never_true_suggests_the_right_value() {
    let check = |condition: &str, words: &str| {
        let steps = format!("  - if: {condition}\n    action: log.info\n    with: {{message: hi}}\n");
        check_steps(MANUAL, &steps, "never-equal", condition, words);
    };
    check("inputs.flag == 'false'", "write `not inputs.flag`");
    check("inputs.flag != 'true'", "write `not inputs.flag`");
    check("inputs.size in ['huge', 'tiny']", "`'small'`, `'large'`");
    let misspelt = "  - if: inputs.size == 'Small'\n    action: log.info\n    with: {message: hi}\n";
    check_steps(MANUAL, misspelt, "never-equal", "Small", "small");
    for condition in [
        "inputs.flag == true",
        "inputs.flag == 1",
        "inputs.count == 3.0",
        "inputs.size == 'small'",
        "inputs.size in ['small', 'tiny']",
        "inputs.name == '3'",
        "'a' in inputs.name",
        "inputs.name is none or inputs.name == none",
        "inputs.name | length == 3",
    ] {
        check_fine(&format!(
            "{MANUAL}steps:\n  - if: \"{condition}\"\n    action: log.info\n    with: {{message: hi}}\n"
        ));
    }
}

#[test]
fn steps_of_a_condition_of_a_switch_suggest_then() {
    check_steps(
        MANUAL,
        "  - switch: [{if: inputs.flag, steps: [{action: log.info, with: {message: hi}}]}]\n",
        "unknown-key",
        "steps",
        "the steps of a case are `then`",
    );
}

#[test]
fn a_date_format_of_another_tool_suggests_the_equivalent_format() {
    check_expression(
        MANUAL,
        "inputs.name | formatDate('DD.MM.YYYY')",
        "date-format",
        "DD.MM.YYYY",
        "'%d.%m.%Y'",
    );
}

#[test]
fn a_literal_token_in_a_step_header_is_reported_and_not_shown() {
    let steps = "  - action: http.request\n    retry: 1\n    with: {url: \"https://a.test\", headers: {Authorization: \"Bearer sk-live-1234\"}}\n";
    let report = check_text(&catalog(), "automations/test.yaml", &format!("{MANUAL}steps:\n{steps}"));
    let told: Vec<_> = report.diagnostics().iter().filter(|told| told.code == "literal-credential").collect();
    assert_eq!(told.len(), 1, "{}", report.render(false));
    assert!(!report.render(false).contains("sk-live-1234"), "it is not shown");
    check_fine(&format!("{MANUAL}steps:\n{}", steps.replace("sk-live-1234", "${{ inputs.name }}")));
}

#[test]
fn a_url_outside_its_connection_is_an_error() {
    let steps = |url: &str| {
        format!("  - action: http.request\n    retry: 1\n    connection: api\n    with: {{url: \"{url}\"}}\n")
    };
    check_steps(
        MANUAL,
        &steps("https://api.test/v2/x"),
        "other-host",
        "\"https://api.test/v2/x\"",
        "`https://api.test/v1`",
    );
    check_steps(
        MANUAL,
        &steps("https://other.test/${{ inputs.name }}"),
        "other-host",
        "\"https://other.test/${{ inputs.name }}\"",
        "write the path alone",
    );
    for url in [
        "https://api.test/v1/x",
        "/x",
        "https://api.test/${{ inputs.name }}",
        "${{ inputs.name }}",
        "https://${{ inputs.name }}/x",
    ] {
        check_fine(&format!("{MANUAL}steps:\n{}", steps(url)));
    }
}

#[test]
fn a_secret_in_a_concurrency_key_is_reported_with_the_way_out() {
    let head = |variable: &str, key: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nconfigVars: {{account: {variable}, plain: \"${{{{ env.A }}}}\"}}\n\
             concurrency:\n  limit: 1\n  key: {key}\nsteps: [{{set: {{x: \"${{{{ configVars.account }}}}\", y: \"${{{{ configVars.plain }}}}\"}}}}]\n"
        )
    };
    let key = "shop-${{ configVars.account | upper }}";
    let place = "configVars.account | upper";
    for (variable, words) in [
        ("{value: \"${{ secrets.a }}\", secret: true}", "before a provider of secrets is asked"),
        ("{value: \"${{ secrets.a.user }}\", secret: true}", "a variable without a secret"),
        ("{value: \"${{ env.A }}\", secret: true}", "lists of executions show the key"),
    ] {
        check(&head(variable, key), "secret-in-key", place, words);
    }
    for (variable, key) in [
        ("{value: \"${{ secrets.a }}\", secret: true}", "${{ configVars.plain }}"),
        (
            "{value: \"${{ secrets.a }}\", secret: true}",
            "${{ configVars.account }} # cogwork: allow(secret-in-key)",
        ),
    ] {
        let report = check_text(&catalog(), "automations/test.yaml", &head(variable, key));
        let told = report.diagnostics().iter().find(|told| told.code == "secret-in-key");
        assert!(told.is_none(), "{}", report.render(false));
    }
}

#[test]
fn comparing_a_masked_header_is_reported() {
    let steps = |condition: &str| format!("  - if: {condition}\n    fail: not allowed\n");
    for condition in [
        "trigger.results.headers['x-partner-signature'] != 'a'",
        "(trigger.results.headers.authorization | lower) == 'bearer a'",
        "trigger.results.queryParameters.token not in ['a', 'b']",
    ] {
        check_steps(WEBHOOK, &steps(&format!("\"{condition}\"")), "masked-header", condition, "`verify`");
    }
    check_expression(
        WEBHOOK,
        "trigger.results.headers['x-api-key']",
        "masked-header",
        "trigger.results.headers['x-api-key']",
        "`webhook.code`",
    );
    let code = "  - code: |\n      export default (context, stepResults) => {\n        const { headers } = stepResults.trigger.results;\n        return headers[\"x-partner-signature\"] === \"a\";\n      };\n";
    check_steps(WEBHOOK, code, "masked-header", "x-partner-signature", "`webhook.code`");
    for fine in [
        "trigger.results.headers['x-request-id'] == 'a'",
        "trigger.results.headers['x-api-key'] is defined",
        "trigger.results.headers['idempotency-key'] == 'a'",
    ] {
        check_fine(&format!("{WEBHOOK}steps:\n{}", steps(&format!("\"{fine}\""))));
    }
    let by_code = "trigger: {webhook: {verify: none, code: 'export default () => ({payload: {headers: {token: 1}}})'}}\n";
    check_fine(&format!("{by_code}steps:\n{}", steps("trigger.results.headers.token == 2")));
    let in_trigger =
        "trigger: {webhook: {verify: none}, if: \"trigger.results.headers['x-api-key'] == 'a'\"}\n";
    check_fine(&format!("{in_trigger}steps: [{{action: log.info, with: {{message: hi}}}}]\n"));
    let own = "  - code: |\n      export default (context, stepResults) => {\n        const headers = {};\n        headers[\"x-signature\"] = stepResults.trigger.results.body.data;\n        return headers;\n      };\n";
    check_fine(&format!("{WEBHOOK}steps:\n{own}"));
}

#[test]
fn names_with_two_spellings_in_a_project_are_reported() {
    let state = "  - {action: state.set, with: {key: lastRun, value: 1}}\n  - {action: log.info, with: {message: \"${{ state.lastrun | default(0) }}\"}}\n";
    check_steps(MANUAL, state, "other-spelling", "state.lastrun | default(0)", "`lastRun`");
    check_steps(
        MANUAL,
        "  - {waitFor: {event: orderPaid}, timeout: 1h}\n",
        "other-spelling",
        "orderPaid",
        "automations/waits.yaml",
    );
    check_fine(&format!(
        "{MANUAL}steps:\n  - {{action: events.emit, with: {{name: order-paid}}}}\n  - {{action: events.emit, with: {{name: order-sent}}}}\n"
    ));
    let shared = "  - {action: state.set, with: {key: last_run, value: 1, scope: shared}}\n  - {action: log.info, with: {message: \"${{ state.lastRun | default(0) }}\"}}\n";
    check_fine(&format!("{MANUAL}steps:\n{shared}"));
}

#[test]
fn mistakes_around_own_events_are_reported() {
    let started = |trigger: &str| {
        format!("trigger: {{{trigger}}}\nsteps:\n  - {{action: log.info, with: {{message: paid}}}}\n")
    };
    check(&started("event: invoice.payed"), "nobody-sends", "invoice.payed", "`invoice.paid`");
    check(&started("event: wiki.pageChangd"), "unknown-event", "wiki.pageChangd", "`wiki.pageChanged`");
    check(&started("event: wiky.pageChanged"), "unknown-event", "wiky.pageChanged", "`wiki.pageChanged`");
    check(
        &started("event: wiki.paid, data: {a: text}"),
        "ambiguous-event",
        "wiki.paid",
        "begins with no connector",
    );
    check(&started("event: invoice.Paid"), "other-spelling", "invoice.Paid", "`invoice.paid`");
    check(&started("event: invoice.paid, data: {a: string}"), "unknown-value", "string", "`text`");
    check(
        &started("event: invoice.paid, every: 5m"),
        "unknown-event",
        "invoice.paid",
        "has none of the keys",
    );
    check(&started("event: invoice.paid, if: events.data.amount"), "unknown-name", "events", "`event`");
    let emit = |with: &str| format!("  - {{action: events.emit, with: {{{with}}}}}\n");
    let words = "automations/books.yaml";
    check_steps(MANUAL, &emit("name: invoice.paid"), "event-data", "invoice.paid", words);
    check_steps(MANUAL, &emit("name: invoice.paid, data: {invoce: a}"), "event-data", "invoce", "`invoice`");
    check_steps(
        MANUAL,
        &emit("name: invoice.paid, data: {invoice: a, amount: \"${{ inputs.flag }}\"}"),
        "event-data",
        "\"${{ inputs.flag }}\"",
        "`amount` of `invoice.paid` is true or false here; automations/books.yaml expects a number",
    );
    check_steps(MANUAL, &emit("name: cogwork.failure"), "reserved-event", "cogwork.failure", "another name");
    // A step that sends an event of the engine breaks no trigger on it.
    let both = format!("trigger: {{event: cogwork.failure}}\nsteps:\n{}", emit("name: cogwork.failure"));
    check(&both, "reserved-event", "cogwork.failure", "another name");
    let typed = started("event: invoice.paid, data: {invoice: text}, if: event.data.invoce == 'a'");
    check(&typed, "unknown-field", "invoce", "`invoice`");
}

#[test]
fn outputs_that_read_a_step_after_a_stop_without_result_are_reported() {
    let steps = |stop: &str, read: &str| {
        format!(
            "  - {{if: inputs.flag, stop: {stop}}}\n  - {{id: late, action: state.get, with: {{key: a}}}}\noutputs: \"${{{{ {read} }}}}\"\n"
        )
    };
    check_steps(MANUAL, &steps("{}", "steps.late.results"), "may-be-missing", "late", "stop: {result: …}");
    check_fine(&format!("{MANUAL}steps:\n{}", steps("{}", "steps.late.results | default(none)")));
    let told = |text: &str| {
        let report = check_text(&catalog(), "automations/test.yaml", &format!("{MANUAL}steps:\n{text}"));
        report.diagnostics().iter().any(|told| told.code == "may-be-missing")
    };
    assert!(!told(&steps("{result: early}", "steps.late.results")));
    let before = "  - {id: early, action: state.get, with: {key: a}}\n  - {if: inputs.flag, stop: {}}\noutputs: \"${{ steps.early.results }}\"\n";
    assert!(!told(before));
}

#[test]
fn calls_without_retry_get_one_hint_per_file_and_retry_zero_silences_it() {
    let call =
        |more: &str| format!("  - {{action: http.request, with: {{url: \"https://a.test\"}}{more}}}\n");
    let three = format!("{}{}{}", call(""), call(""), call(""));
    check_steps(
        MANUAL,
        &three,
        "no-retry",
        "http.request",
        "3 calls of this file have neither `retry` nor `onError` (also lines 5, 6)",
    );
    check_steps(MANUAL, &call(""), "no-retry", "http.request", "`retry: 0`");
    let report =
        check_text(&catalog(), "automations/test.yaml", &format!("{MANUAL}steps:\n{}", call(", retry: 0")));
    assert_eq!(
        report.hint_count(),
        report.diagnostics().iter().filter(|told| told.code == "unused-value").count()
    );
}

#[test]
fn a_wrong_nested_value_is_reported_at_its_own_position() {
    let find = |steps: &str| {
        let report = check_text(&catalog(), "automations/test.yaml", &format!("{MANUAL}steps:\n{steps}"));
        let told = report.diagnostics().iter().filter(|told| told.code.ends_with("-input"));
        told.map(|told| format!("{} {}", told.code, report.source().slice(told.span))).collect::<Vec<_>>()
    };
    let deep = "  - action: http.request\n    retry: 1\n    with:\n      url: https://a.test\n      headers:\n        a: b\n        c: [1]\n        d: {e: f}\n";
    assert_eq!(find(deep), ["wrong-input [1]", "wrong-input {e: f}"]);
    let computed = "  - action: http.request\n    retry: 1\n    with:\n      url: https://a.test\n      headers:\n        a: \"${{ inputs.name }}\"\n        c: {d: \"${{ inputs.name }}\"}\n";
    let found = find(computed);
    assert_eq!(found, ["wrong-input {d: \"${{ inputs.name }}\"}"], "at the value itself");
}

#[test]
fn a_broken_connector_is_reported_once_in_each_file_that_uses_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("the file is written");
    };
    write(
        "connectors/market.yaml",
        "connector: market\ntitle: Market\nversion: 1.0.0\nbaseUrl: https://m.test\nactions:\n  list: {title: List, request: /offers, example: {with: {}, request: GET /offers}}\n",
    );
    write("connections/shop.yaml", "type: market.open\n");
    write(
        "automations/a.yaml",
        "triggers:\n  - {id: hand, manual: {}}\n  - {id: sold, event: market.sold, every: 1m}\nsteps:\n  - {action: market.list}\n  - {action: market.list}\n",
    );
    let checked = check_project(dir.path(), &[]).expect("the connectors load");
    let told = |report: &Report| {
        let codes: Vec<_> = report.diagnostics().iter().map(|told| told.code).collect();
        format!("{} {}", report.source().path(), codes.join(" "))
    };
    let told: Vec<String> = checked.reports.iter().map(told).collect();
    assert_eq!(
        told,
        [
            "connectors/market.yaml invalid-request",
            "connections/shop.yaml broken-connector",
            "automations/a.yaml broken-connector"
        ]
    );
}
