//! Tests of names in expressions, by subject.

mod races;
mod several_triggers;

use std::sync::{Arc, LazyLock};

use connector::Registry;
use language::load::Unreadable;
use text::diagnostic::{Report, Source};

use crate::plan::Plan;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::builtin().expect("the connectors load"));

/// Checks a file that loads.
fn report(text: &str) -> Report {
    let loaded = language::load::automation(Arc::new(Source::new("test.yaml", text)), "test");
    let Some(automation) = loaded.value else { panic!("{text}\n{}", loaded.report.render(false)) };
    let (plan, problems) = Plan::build(&automation);
    assert!(problems.is_empty(), "{text}\n{problems:?}");
    Report::new(automation.source.clone(), super::check(&automation, Unreadable::NONE, &plan, &REGISTRY))
}

/// Formats each problem as `code text`; the text is the marked source.
fn codes(report: &Report) -> Vec<String> {
    let text = |span| report.source().slice(span).to_owned();
    report.diagnostics().iter().map(|found| format!("{} {}", found.code, text(found.span))).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let report = report(text);
    assert_eq!(codes(&report), expected, "\n{text}\n{}", report.render(false));
}

/// Checks steps under a manual trigger. A line `name: value` means a step `name` that sets `value`.
#[track_caller]
fn check_steps(steps: &str, expected: &[&str]) {
    check(&format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}"), expected);
}

/// Checks one expression in a step after the step `a`, which sets `total`.
#[track_caller]
fn check_expression(expression: &str, expected: &[&str]) {
    check(
        &format!(
            "trigger: {{manual: {{}}}}\ninputs: {{count: {{type: integer}}}}\nconfigVars: {{space: x}}\nsteps:\n  \
             - {{id: a, set: {{total: 1}}}}\n  - id: b\n    if: \"{expression}\"\n    action: log.info\n"
        ),
        expected,
    );
}

#[test]
fn existing_names_are_accepted() {
    for fine in [
        "steps.a.results.total == 1",
        "steps.a.error is none",
        "steps.a",
        "steps",
        "vars.total",
        "vars",
        "inputs.count",
        "configVars.space",
        "trigger.results.body.data.count",
        "trigger.results.inputs.count",
        "execution.id ~ execution.startedAt ~ execution.attempt",
        "automation.id ~ automation.name",
        "$.steps.a.results.total",
        "$.steps.a.results[*]",
        "range(3) | list",
        "'steps.nowhere'",
    ] {
        check_expression(fine, &[]);
    }
}

#[test]
fn a_step_that_does_not_exist_is_an_error_even_with_a_default() {
    check_expression("steps.aa.results", &["unknown-step aa"]);
    check_expression("steps.aa.results | default(1)", &["unknown-step aa"]);
    check_expression("$.steps.aa.results[*]", &["unknown-step aa"]);
    check_expression("steps['aa'].results", &["unknown-step steps['aa'].results"]);
}

#[test]
fn the_nearest_step_is_suggested() {
    let report = report(
        "trigger: {manual: {}}\nsteps:\n  - {id: createPage, action: log.info}\n  - action: log.info\n    with: {message: \"${{ steps.creatPage.results.id }}\"}\n",
    );
    assert_eq!(
        report.render(false),
        "error[unknown-step]: there is no step `creatPage`
 --> test.yaml:5:32
  |
5 |     with: {message: \"${{ steps.creatPage.results.id }}\"}
  |                                ^^^^^^^^^
  |
  = note: in step `step2`
  = note: allowed: `createPage`, `step2`
help: did you mean `createPage`?
  |
5 |     with: {message: \"${{ steps.createPage.results.id }}\"}
  |                                     +

"
    );
}

#[test]
fn a_step_has_results_and_an_error_only() {
    check_expression("steps.a.id", &["unknown-member id"]);
    check_expression("steps.a.result.total", &["unknown-member result"]);
    let text = "trigger: {manual: {}}\nsteps:\n  - {id: a, action: log.info}\n  - {action: log.info, if: steps.a.page.id}\n";
    let shown = report(text).render(false);
    assert!(shown.contains("did you mean `steps.a.results.page.id`?"), "{shown}");
}

#[test]
fn a_step_cannot_read_itself_or_later_steps() {
    check_expression("steps.b.results", &["later-step b"]);
    check_steps(
        "  - {id: a, if: steps.b.results, action: log.info}\n  - {id: b, action: log.info}\n",
        &["later-step b"],
    );
    check_steps(
        "  - {id: a, if: steps.b.results | default(1), action: log.info}\n  - {id: b, action: log.info}\n",
        &["later-step b"],
    );
    // A block's own expression is read before the steps inside it, and those run before the block ends.
    check_steps(
        "  - id: a\n    if: steps.b.results\n    then:\n      - {id: b, if: steps.a.results, action: log.info}\n",
        &["later-step b", "later-step a"],
    );
    check(
        "trigger: {manual: {}}\nsteps:\n  - {id: a, if: steps.f.results, action: log.info}\nfinally:\n  - {id: f, action: log.info}\n",
        &["later-step f"],
    );
}

#[test]
fn a_step_of_another_branch_is_unavailable() {
    check_steps(
        "  - if: true\n    then: [{id: a, action: log.info}]\n    else: [{if: steps.a.results, action: log.info}]\n",
        &["other-branch a"],
    );
    check_steps(
        "  - parallel:\n      x: [{id: a, action: log.info}]\n      y: [{if: steps.a.results, action: log.info}]\n  - {if: steps.a.results, action: log.info}\n",
        &["other-branch a"],
    );
}

#[test]
fn needs_limits_reads_to_dependencies() {
    let graph = "  - {id: a, needs: [], action: log.info}\n  - {id: b, needs: [], action: log.info}\n  \
                 - {id: c, needs: [a], if: steps.a.results, action: log.info}\n  \
                 - {id: d, needs: [c], if: steps.a.results and steps.b.results, action: log.info}\n  \
                 - {id: e, needs: [d, b], if: steps.b.results, action: log.info}\n";
    check_steps(graph, &["unwaited-step b"]);
    let inside = "  - {id: a, needs: [], action: log.info}\n  - id: b\n    needs: []\n    parallel:\n      x: [{if: steps.a.results, action: log.info}]\n";
    let report = report(&format!("trigger: {{manual: {{}}}}\nsteps:\n{inside}"));
    assert_eq!(codes(&report), ["unwaited-step a"]);
    assert!(report.render(false).contains("add `a` to the `needs` of step `b`"), "{}", report.render(false));
}

#[test]
fn a_possibly_skipped_step_needs_a_default() {
    let branch =
        "  - if: vars.x\n    then: [{id: a, action: log.info}, {if: steps.a.results.id, set: {x: 1}}]\n";
    let after = |expression: &str| {
        format!("  - set: {{x: 1}}\n{branch}  - {{if: \"{expression}\", action: log.info}}\n")
    };
    check_steps(&after("steps.a.results"), &["may-be-missing a"]);
    check_steps(&after("steps.a.results | default(1)"), &[]);
    check_steps(&after("steps.a is defined"), &[]);
    check_steps(
        "  - id: l\n    forEach: [1]\n    steps: [{id: a, action: log.info}]\n  - {if: steps.a.results, action: log.info}\n",
        &["last-iteration a"],
    );
    check_steps(
        "  - id: l\n    forEach: trigger.results.body.data\n    steps: [{id: a, action: log.info}]\n  - {if: steps.a.results, action: log.info}\n",
        &["may-be-missing a"],
    );
    check_steps(
        "  - action: log.info\n    onError: [{id: a, action: log.info}]\n  - {if: steps.a.results, action: log.info}\n",
        &["may-be-missing a"],
    );
}

#[test]
fn a_step_skipped_by_its_guard_has_null() {
    let guarded = "  - {id: a, if: execution.attempt > 1, action: log.info}\n";
    check_steps(&format!("{guarded}  - {{if: steps.a.results, action: log.info}}\n"), &[]);
    check_steps(
        &format!("{guarded}  - {{if: steps.a.results.id, action: log.info}}\n"),
        &["may-be-missing a"],
    );
}

#[test]
fn a_matching_condition_settles_the_uncertainty() {
    let guarded = "  - {id: a, if: execution.attempt > 1, action: log.info}\n";
    // The same condition, the step itself, a condition around both.
    for fine in [
        "  - {if: execution.attempt > 1, set: {x: '${{ steps.a.results.id }}'}}\n",
        "  - {if: steps.a.results, set: {x: '${{ steps.a.results.id }}'}}\n",
        "  - if: steps.a.results\n    then: [{set: {x: '${{ steps.a.results.id }}'}}]\n",
    ] {
        check_steps(&format!("{guarded}{fine}"), &[]);
    }
    let branch = "  - if: execution.attempt > 1\n    then: [{id: a, action: log.info}]\n";
    check_steps(
        &format!("{branch}  - {{if: execution.attempt > 1, set: {{x: '${{{{ steps.a.results.id }}}}'}}}}\n"),
        &[],
    );
    check_steps(
        &format!(
            "{branch}  - if: execution.attempt > 1\n    then: [{{action: log.info}}]\n    else: [{{set: {{x: '${{{{ steps.a.results.id }}}}'}}}}]\n"
        ),
        &["may-be-missing a"],
    );
}

#[test]
fn a_condition_with_a_default_asks_for_the_outcome() {
    let paused = "  - id: ask\n    waitFor: {approval: {message: Refund?}}\n    timeout: 2d\n    onTimeout: continue\n";
    let failing = "  - {id: ask, action: http.get, with: {url: 'https://a.test'}, onError: continue}\n";
    for before in [paused, failing] {
        let guarded = |condition: &str| {
            format!(
                "{before}  - {{if: \"{condition}\", set: {{x: '${{{{ steps.ask.results.option }}}}'}}}}\n"
            )
        };
        check_steps(&guarded("steps.ask.results.option | default('reject') == 'approve'"), &[]);
        check_steps(&guarded("steps.ask.results.option is defined"), &[]);
        let bare = ["may-be-missing option", "may-be-missing option"];
        check_steps(&guarded("steps.ask.results.option == 'approve'"), &bare);
    }
}

#[test]
fn a_list_that_handles_the_end_of_a_step_is_pointed_to_the_name_of_that_end() {
    for (list, name) in [("onError", "error"), ("finally", "outcome")] {
        let steps =
            format!("  - {{id: a, action: log.info, {list}: [{{if: steps.a.ok, action: log.info}}]}}\n");
        let report = report(&format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}"));
        assert_eq!(codes(&report), ["later-step a"]);
        assert!(report.render(false).contains(&format!("read `{name}`")), "{}", report.render(false));
    }
}

#[test]
fn a_default_allows_reading_the_previous_iteration() {
    let turns = |concurrency: u8| {
        format!(
            "  - forEach: [1, 2]\n    concurrency: {concurrency}\n    steps:\n      - {{id: a, set: {{sum: \"${{{{ (steps.a.results.sum | default(0)) + item }}}}\"}}}}\n      - {{id: b, set: {{all: \"${{{{ vars.late | default(0) }}}}\"}}}}\n      - {{set: {{late: 1}}}}\n"
        )
    };
    check_steps(&turns(1), &[]);
    check_steps(&turns(2), &["later-step a", "later-variable late"]);
    check_steps(
        "  - forEach: [1]\n    steps: [{id: a, if: steps.a.results, action: log.info}]\n",
        &["later-step a"],
    );
}

#[test]
fn items_exist_only_inside_loops() {
    check_steps(
        "  - forEach: [1]\n    as: page\n    steps: [{if: item and page and index, action: log.info}]\n",
        &[],
    );
    check_steps(
        "  - {if: item, action: log.info}\n  - {if: index, action: log.info}\n",
        &["name-not-here item", "name-not-here index"],
    );
    check_steps(
        "  - forEach: item\n    as: page\n    steps: [{action: log.info}]\n  - {if: page, action: log.info}\n",
        &["name-not-here item", "unknown-name page"],
    );
    check_steps(
        "  - forEach: [1]\n    as: order\n    steps:\n      - forEach: order.lines\n        steps: [{if: item.price > order.limit, action: log.info}]\n",
        &[],
    );
}

#[test]
fn an_error_exists_only_where_something_failed() {
    check_steps("  - {if: error.message, action: log.info}\n", &["name-not-here error"]);
    check_steps("  - action: log.info\n    onError: [{if: error.status == 404, action: log.info}]\n", &[]);
    check_steps(
        "  - action: log.info\n    onError: [{if: error.messag, action: log.info}]\n",
        &["unknown-member messag"],
    );
    let closing = |list: &str, expression: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps: [{{action: log.info}}]\n{list}:\n  - {{action: log.info, with: {{message: \"${{{{ {expression} }}}}\"}}}}\n"
        )
    };
    check(&closing("onError", "error.message"), &[]);
    check(&closing("finally", "error.message"), &["may-be-missing error"]);
    check(&closing("finally", "error.message | default('')"), &[]);
    check(
        "trigger: {manual: {}}\nsteps: [{action: log.info}]\nfinally:\n  - {if: error is defined, fail: \"${{ error.message }}\"}\n",
        &[],
    );
}

#[test]
fn after_a_failure_any_step_may_be_missing() {
    let file = |list: &str, expression: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps: [{{id: a, action: log.info}}]\n{list}: [{{id: z, if: \"{expression}\", action: log.info}}]\n"
        )
    };
    check(&file("onError", "steps.a.results"), &["may-be-missing a"]);
    check(&file("onError", "steps.a.results | default(1)"), &[]);
    check(&file("finally", "steps.a.results"), &["may-be-missing a"]);
    check(
        "trigger: {manual: {}}\nsteps: [{action: log.info}]\nonError: [{id: a, action: log.info}]\nfinally: [{if: steps.a.results, action: log.info}]\n",
        &["other-branch a"],
    );
}

#[test]
fn outputs_are_evaluated_at_the_end() {
    let file = |outputs: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps:\n  - {{id: a, set: {{x: 1}}}}\n  - {{id: b, action: log.info}}\noutputs: {{r: \"${{{{ {outputs} }}}}\"}}\nfinally: [{{id: f, action: log.info}}]\n"
        )
    };
    check(&file("steps.b.results.id ~ vars.x"), &[]);
    check(&file("steps.f.results"), &["later-step f"]);
    check(&file("item"), &["name-not-here item"]);
}

#[test]
fn names_that_do_not_exist_are_explained() {
    check_expression("stepz.a.results", &["unknown-name stepz"]);
    check_expression("secrets.token", &["name-not-here secrets"]);
    check_expression("env.HOME", &["name-not-here env"]);
    for (name, meant) in [
        ("total", "vars.total"),
        ("a", "steps.a.results"),
        ("count", "inputs.count"),
        ("space", "configVars.space"),
        ("body", "trigger.results.body.data"),
    ] {
        let text = format!(
            "trigger: {{manual: {{}}}}\ninputs: {{count: {{}}}}\nconfigVars: {{space: x}}\nsteps:\n  - {{id: a, set: {{total: 1}}}}\n  - {{if: {name}.x, action: log.info}}\n"
        );
        let shown = report(&text).render(false);
        assert!(shown.contains(&format!("did you mean `{meant}`?")), "{shown}");
    }
}

#[test]
fn trigger_data_that_no_start_provides_is_reported_or_null() {
    for (trigger, path, expected) in [
        ("manual: {}", "body.data.total", &["unknown-member total"][..]),
        ("manual: {}", "body.data.count", &[]),
        ("manual: {}", "body.data", &[]),
        ("manual: {}", "body.data.total | default(1)", &[]),
        ("schedule: {every: 5m}", "body.data", &["unknown-member data"]),
        ("schedule: {every: 5m}", "body.data | default({})", &[]),
        ("webhook: {verify: none}", "body.data.anything[0].at_all", &[]),
    ] {
        let text = format!(
            "trigger: {{{trigger}}}\ninputs: {{count: {{type: integer}}}}\nsteps:\n  - {{set: {{a: \"${{{{ trigger.results.{path} }}}}\", b: \"${{{{ inputs.count }}}}\"}}}}\n"
        );
        check(&text, expected);
    }
}

#[test]
fn variables_inputs_and_configuration_are_declared() {
    check_expression("vars.totl", &["unknown-variable totl"]);
    check_expression("vars.totl | default(1)", &["unknown-variable totl"]);
    check_expression("inputs.cuont", &["undeclared-input cuont"]);
    check_expression("configVars.sapce", &["undeclared-config-var sapce"]);
    check_expression("execution.number", &["unknown-member number"]);
    check_expression("automation.title", &["unknown-member title"]);
    check_steps("  - {if: vars.x, action: log.info}\n  - {set: {x: 1}}\n", &["later-variable x"]);
    // Set on either branch, so that it is there on both.
    check_steps(
        "  - if: true\n    then: [{set: {x: 1}}]\n    else: [{set: {x: 2}}]\n  - {if: vars.x, action: log.info}\n",
        &[],
    );
    check_steps(
        "  - parallel:\n      a: [{set: {x: 1}}]\n      b: [{if: vars.x, action: log.info}]\n",
        &["later-variable x"],
    );
}

#[test]
fn trigger_results_depend_on_the_trigger_kind() {
    let file = |trigger: &str, expression: &str| {
        format!("trigger: {{{trigger}}}\nsteps: [{{if: \"{expression}\", action: log.info}}]\n")
    };
    check(&file("webhook: {}", "trigger.results.headers.host"), &[]);
    check(&file("webhook: {}", "trigger.results.rawBody"), &[]);
    check(&file("webhook: {}", "trigger.results.scheduledAt"), &["unknown-member scheduledAt"]);
    check(&file("webhook: {}", "trigger.results.boddy"), &["unknown-member boddy"]);
    check(&file("webhook: {}", "trigger.body.data"), &["unknown-member body"]);
    check(&file("schedule: {every: 5m}", "trigger.results.scheduledAt"), &[]);
    check(&file("schedule: {every: 5m}", "trigger.results.headers"), &["unknown-member headers"]);
    check(&file("manual: {}", "trigger.results.inputs"), &[]);
    check(&file("manual: {}", "trigger"), &[]);
}

#[test]
fn expressions_before_the_steps_see_no_steps() {
    let file = |line: &str| {
        format!(
            "trigger: {{manual: {{}}, {line}}}\nconfigVars: {{x: 1}}\nsteps: [{{id: a, action: log.info}}]\n"
        )
    };
    check(&file("if: trigger.results.body.data and configVars.x and automation.id"), &[]);
    check(&file("if: steps.a.results"), &["name-not-here steps"]);
    check(&file("if: execution.id"), &["name-not-here execution"]);
    let key = |expression: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nconcurrency: {{limit: 1, key: \"${{{{ {expression} }}}}\"}}\nsteps: [{{id: a, action: log.info}}]\n"
        )
    };
    check(&key("trigger.results.body.data ~ execution.id"), &[]);
    check(&key("vars.x"), &["name-not-here vars"]);
}

#[test]
fn secrets_are_limited_to_secret_variables() {
    let file = |vars: &str| {
        format!("trigger: {{manual: {{}}}}\nconfigVars: {{{vars}}}\nsteps: [{{action: log.info}}]\n")
    };
    check(&file("a: \"${{ env.HOME }}\""), &[]);
    check(&file("a: {value: \"${{ secrets.token }}\", secret: true}"), &[]);
    check(&file("a: \"x ${{ secrets.token }}\""), &["exposed-secret secrets"]);
    check(&file("a: {value: \"${{ secrets.token }}\", secret: false}"), &["exposed-secret secrets"]);
    check(&file("a: \"${{ trigger.results }}\""), &["name-not-here trigger"]);
    check(&file("a: \"${{ configVars.b }}\", b: 1"), &["name-not-here configVars"]);
}

#[test]
fn a_repeated_path_is_reported_once() {
    check_expression("steps.aa.results or steps.aa.results", &["unknown-step aa"]);
}

#[test]
fn every_expression_of_a_step_is_visited() {
    let text = "trigger: {webhook: {mode: sync}}\nsteps:\n  - {if: q1, action: log.info, with: {a: {b: ['${{ q2 }}']}}}\n  - {set: {a: '${{ q3 }}'}}\n  - {if: q4, then: [{fail: '${{ q5 }}'}], else: [{stop: {result: '${{ q6 }}'}}]}\n  - forEach: ['${{ q7 }}']\n    steps: [{action: log.info, onError: [{fail: '${{ q8 }}'}]}]\n  - parallel: {x: [{fail: '${{ q9 }}'}]}\n    if: automation.id\n  - respond: {status: '${{ r1 }}', contentType: '${{ r2 }}', headers: {a: '${{ r3 }}'}, body: '${{ r4 }}'}\noutputs: ${{ r5 }}\nonError: [{fail: '${{ r6 }}'}]\nfinally: [{fail: '${{ r7 }}'}]\n";
    let names: Vec<String> = codes(&report(text))
        .iter()
        .filter_map(|codes| codes.split(' ').next_back().map(str::to_owned))
        .collect();
    assert_eq!(
        names,
        ["q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "r1", "r2", "r3", "r4", "r5", "r6", "r7"]
    );
}

#[test]
fn a_connection_reads_secrets_and_the_environment() {
    let text = "type: wiki.basic\nwith: {email: \"${{ env.EMAIL }}\", apiToken: \"${{ secret.token }}\", host: \"${{ trigger.results }}\"}\n";
    let loaded = language::load::connection(Arc::new(Source::new("c.yaml", text)), "c");
    let connection = loaded.value.expect("it loads");
    let report = Report::new(connection.source.clone(), super::connection(&connection));
    assert_eq!(codes(&report), ["name-not-here secret", "name-not-here trigger"]);
    assert!(report.render(false).contains("did you mean `secrets`?"), "{}", report.render(false));
}
