//! The top of a file: what an Automation is made of.

use std::sync::Arc;

use text::diagnostic::Source;

use super::{check, good, load, shown};

const NOTHING: &[&str] = &[];
/// A trigger, and a step that reads whatever is declared.
const REST: &str =
    "trigger: {manual: {}}\nsteps: [{action: log.info, with: {message: '${{ inputs ~ configVars }}'}}]\n";

/// The diagnostics of top-level lines in front of a trigger and a step.
#[track_caller]
fn check_top<T: AsRef<str>>(lines: &str, expected: &[T]) {
    let expected: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    check(&format!("{lines}\n{REST}"), &expected);
}

/// The diagnostics of lines beside a synchronous webhook.
#[track_caller]
fn check_sync(lines: &str, expected: &[&str]) {
    check(
        &format!("{lines}\ntrigger: {{webhook: {{mode: sync}}}}\nsteps: [{{action: log.info}}]\n"),
        expected,
    );
}

#[test]
fn all_problems_are_reported_together() {
    insta::assert_snapshot!(shown("nam: Orders\ntrigger: {webook: {}}\ntimeout: 5\nsteps:\n  - acton: log.info\n  - id: b\n    action: log.info\n    with: [1]\n"), @r"
    error[unknown-key]: unknown key `nam` in an automation
     --> test.yaml:1:1
      |
    1 | nam: Orders
      | ^^^ not a key of an automation
      |
      = note: allowed: `id`, `name`, `description`, `labels`, `enabled`, `trigger`, `triggers`, `inputs`, `configVars`, `defaults`, `steps`, `outputs`, `onError`, `finally`, `timeout`, `retry`, `concurrency`, `retention`
    help: did you mean `name`?
      |
    1 | name: Orders
      |    +

    error[unknown-key]: unknown key `webook` in a trigger
     --> test.yaml:2:11
      |
    2 | trigger: {webook: {}}
      |           ^^^^^^ not a key of a trigger
      |
      = note: allowed: `webhook`, `schedule`, `event`, `poll`, `manual`, `if`, `data`, `connection`, `with`, `every`, `start`, `deliver`, `batch`, `poison`, `consumers`, `dedup`, `inputs`, `enabled`
    help: did you mean `webhook`?
      |
    2 | trigger: {webhook: {}}
      |              +

    error[invalid-duration]: `timeout` must be a duration
     --> test.yaml:3:10
      |
    3 | timeout: 5
      |          ^
      |
      = help: `5` has no unit; write `5s` for seconds, `5m` for minutes, or `5ms` for milliseconds

    error[unknown-key]: unknown key `acton` in a step
     --> test.yaml:5:5
      |
    5 |   - acton: log.info
      |     ^^^^^ not a key of a step
      |
      = note: in step `step1`
      = note: allowed: `id`, `name`, `if`, `needs`, `retry`, `timeout`, `onError`, `onInterrupt`, `finally`, `undo`, `action`, `code`, `set`, `switch`, `forEach`, `repeat`, `parallel`, `steps`, `call`, `wait`, `waitFor`, `respond`, `break`, `continue`, `stop`, `fail`
    help: did you mean `action`?
      |
    5 |   - action: log.info
      |        +

    error[wrong-type]: expected a mapping for `with`, found a list
     --> test.yaml:8:12
      |
    8 |     with: [1]
      |            ^
      |
      = note: in step `b`
    ");
}

#[test]
fn an_empty_file_is_not_an_automation() {
    check("", &["wrong-type 1:1"]);
    check("# nothing\n", &["wrong-type 1:1"]);
    check("- a\n", &["wrong-type 1:3"]);
    check("{}", &["missing-key 1:1", "missing-key 1:1"]);
}

#[test]
fn a_missing_value_is_not_reported_twice() {
    check(
        "trigger: {manual: {}}\nsteps: [{action: log.info}]\nid: X\nname: *nobody\n",
        &["invalid-id 3:5", "yaml-unknown-anchor 4:7"],
    );
}

#[test]
fn the_id_is_the_files_stem_unless_given() {
    assert_eq!(good(REST).id.as_str(), "test");
    assert_eq!(good(REST).name, "test");
    assert_eq!(good(&format!("id: my-orders\nname: Orders\n{REST}")).id.as_str(), "my-orders");
    check_top("id: My_Orders", &["invalid-id 1:5"]);
    check_top("id: ''", &["invalid-id 1:6"]);
    check_top("id: ${{ x }}", &["no-expression-here 1:5"]);
    check_top("id: 5", &["wrong-type 1:5"]);
    let loaded = super::super::automation(Arc::new(Source::new("My Flow.yaml", REST)), "My Flow");
    let report = loaded.report.render(false);
    assert!(loaded.value.is_none() && report.contains("add `id: my-flow`"), "{report}");
}

#[test]
fn names_and_descriptions_must_be_text() {
    check_top("name: ''", &["empty-text 1:7"]);
    check_top("name: 2024", &["wrong-type 1:7"]);
    check_top("name: ${{ x }}", &["no-expression-here 1:7"]);
    check_top("description: uses ${{ }}\nlabels: [a, b]", NOTHING);
    check_top("labels: a", &["wrong-type 1:9"]);
    check_top("labels: [1]", &["wrong-type 1:10"]);
    check_top("enabled: yes", &["wrong-type 1:10"]);
}

#[test]
fn an_automation_without_steps_is_a_hint() {
    check("trigger: {manual: {}}\nsteps: []\n", &["empty-automation 2:8"]);
    assert!(load("trigger: {manual: {}}\nsteps: []\n").value.is_some());
    check("trigger: {manual: {}}\nsteps:\n", &["wrong-type 2:6"]);
    check_top("onError: []", &["empty-steps 1:10"]);
    check_top("finally: []", &["empty-steps 1:10"]);
    check_top("onError: continue", &["wrong-type 1:10"]);
}

#[test]
fn inputs_have_valid_types_options_and_bounds() {
    check_top("inputs: {a: {type: strng}}", &["unknown-value 1:20"]);
    good("inputs: {a: text, b: number}\ntrigger: {manual: {}}\nsteps: []\n");
    check_top("inputs: {a: strng}", &["unknown-value 1:13"]);
    check_top("inputs: {a: int}", &["unknown-value 1:13"]);
    check_top("inputs: {a: choice}", &["missing-key 1:13"]);
    check_top("inputs: {a: 1}", &["wrong-type 1:13"]);
    check_top("inputs: {a-b: {}}", &["invalid-name 1:10"]);
    check_top("inputs: {a: {type: choice}}", &["missing-key 1:14"]);
    check_top("inputs: {a: {type: text, options: [b]}}", &["conflicting-keys 1:26"]);
    check_top("inputs: {a: {options: []}}", &["empty-list 1:14"]);
    check_top("inputs: {a: {options: [b, b]}}", &["duplicate-value 1:14"]);
    check_top("inputs: {a: {default: '${{ x }}'}}", &["no-expression-here 1:28"]);
    check_top("inputs: {a: {required: true, default: 1}}", &["unused-setting 1:30"]);
    check_top("inputs: {a: {min: 1}}", &["unknown-key 1:14"]);
}

#[test]
fn a_default_must_match_the_type_of_its_input() {
    let check_default = |kind: &str, default: &str, fits: bool| {
        let lines = format!("inputs: {{a: {{{kind}, default: {default}}}}}");
        let refused = format!("default-type 1:{}", 25 + kind.len());
        check_top(&lines, if fits { &[][..] } else { std::slice::from_ref(&refused) });
    };
    check_default("type: text", "x", true);
    check_default("type: text", "1", false);
    check_default("type: integer", "1", true);
    check_default("type: integer", "1.5", false);
    check_default("type: integer", "'1'", false);
    check_default("type: number", "1.5", true);
    check_default("type: boolean", "true", true);
    check_default("type: boolean", "yes", false);
    check_default("type: list", "[1]", true);
    check_default("type: list", "{}", false);
    check_default("type: map", "{b: 1}", true);
    check_default("type: object", "[]", false);
    check_default("options: [b, c]", "c", true);
    check_default("options: [b, c]", "d", false);
    check_default("type: any", "null", true);
    check_default("type: text", "null", false);
}

#[test]
fn inputs_need_a_manual_trigger() {
    check("trigger: {webhook: {}}\ninputs: {a: {}}\nsteps: [{action: log.info}]\n", &["unused-setting 2:1"]);
}

#[test]
fn a_configuration_variable_is_a_value_or_the_long_form() {
    check_top(
        "configVars: {a: 1, b: [x], c: {d: 1}, e: {value: 1}, f: {value: '${{ secrets.x }}', secret: true}}",
        NOTHING,
    );
    check_top("configVars: {a: {secret: true}}", &["missing-key 1:18"]);
    check_top("configVars: {a: {value: x, secert: true}}", &["unknown-key 1:28"]);
    check_top("configVars: {a b: 1}", &["invalid-name 1:14"]);
    check_top("configVars: [a]", &["wrong-type 1:14"]);
    let vars = good(&format!("configVars: {{a: 1, b: {{value: x, secret: true}}}}\n{REST}")).config_vars;
    assert_eq!(
        vars.iter().map(|var| (var.name.name.as_str(), var.secret)).collect::<Vec<_>>(),
        [("a", false), ("b", true)]
    );
}

#[test]
fn times_and_numbers_have_bounds() {
    check_top("timeout: 0s", &["out-of-range 1:10"]);
    check_top("timeout: 1y", &["invalid-duration 1:10"]);
    check_top("retention: {days: 0}", &["out-of-range 1:19"]);
    check_top("retention: {count: 0}", &["out-of-range 1:20"]);
    check_top("retention: {failedDays: 0}", &["out-of-range 1:25"]);
    check_top("retention: {failedDays: 9, keepFailed: true}", &["conflicting-keys 1:28"]);
    check_top("retention: {failedDays: 9, count: 10}", &[""; 0]);
    check_top("concurrency: {limit: 0}", &["out-of-range 1:22"]);
    check_top("concurrency: {limit: 1, policy: wait}", &["unknown-value 1:33"]);
    check_top("concurrency: 1", &["wrong-type 1:14"]);
    check_top("retry: 101", &["out-of-range 1:8"]);
    check_top("retry: often", &["wrong-type 1:8"]);
    check_top("retry: {delay: 1s}", &["missing-key 1:9"]);
    check_top("retry: {max: 1, on: [all]}", &["unknown-key 1:17"]);
    check_top("retry: {max: 1, backoff: 0.5}", &["out-of-range 1:26"]);
    check_top("retry: {max: 1, backoff: 11}", &["out-of-range 1:26"]);
    check_top("retry: {max: 1, delay: 2d}", &["out-of-range 1:24"]);
    check_top("retry: {max: 1, delay: 10s, maxDelay: 5s}", &["out-of-range 1:39"]);
}

#[test]
fn retry_and_queueing_are_rejected_for_synchronous_webhooks() {
    check_sync("retry: 1", &["sync-retry 1:1"]);
    check_sync("concurrency: {limit: 1, policy: queue}", &["sync-queue 1:33"]);
    check_sync("concurrency: {limit: 1}", NOTHING);
    let text = "concurrency: {limit: 1}\ntrigger: {webhook: {mode: sync}}\nsteps: [{action: log.info}]\n";
    let policy = good(text).concurrency.map(|concurrency| concurrency.policy);
    assert_eq!(policy, Some(model::automation::ConcurrencyPolicy::Skip));
}

#[test]
fn defaults_are_read_with_their_places_and_their_mistakes_are_reported() {
    check_top("defaults: {connection: crm, retry: 3, timeout: 30s}", NOTHING);
    check_top("defaults: {connection: [crm, mainWiki], retry: {max: 2, on: [network]}}", NOTHING);
    check_top("defaults: {connection: null, retry: 0}", NOTHING);
    check_top("defaults: {}", NOTHING);
    check_top("defaults: {onError: continue}", &["unknown-key 1:12"]);
    check_top("defaults: {retries: 3}", &["unknown-key 1:12"]);
    check_top("defaults: {connection: []}", &["empty-list 1:24"]);
    check_top("defaults: {connection: [crm, crm]}", &["duplicate-value 1:30"]);
    check_top("defaults: {connection: }", &["wrong-type 1:22"]);
    check_top("defaults: 3", &["wrong-type 1:11"]);
}

#[test]
fn a_file_needs_the_level_of_its_latest_word() {
    let level = |text: &str| {
        let automation = good(text);
        (automation.level().number(), automation.leveled_word.map(|word| word.word))
    };
    let step = |keys: &str| {
        format!("trigger: {{manual: {{}}}}\nsteps: [{{action: http.request, with: {{url: /x}}{keys}}}]\n")
    };
    assert_eq!(level(&step("")), (1, None));
    assert_eq!(level(&step(", connection: crm, retry: 3, timeout: 5s")), (1, None));
    assert_eq!(level(&format!("defaults: {{}}\n{}", step(""))), (2, Some("defaults".to_owned())));
    assert_eq!(level(&step(", connection: null")), (2, Some("connection: null".to_owned())));
    let steps = |steps: &str| {
        let trigger =
            if steps.contains("respond") { "webhook: {mode: sync, verify: none}" } else { "manual: {}" };
        format!("trigger: {{{trigger}}}\nsteps: [{steps}]\n")
    };
    assert_eq!(
        level(&format!("concurrency: {{limit: \"${{{{ trigger.results.n }}}}\"}}\n{}", step(""))),
        (2, Some("computed `concurrency.limit`".to_owned()))
    );
    for (text, word) in [
        ("{wait: 1s}, {stop: {result: 1}}", None),
        ("{stop: {result: 1, respond: {body: a}}}", Some("stop.respond")),
        ("{forEach: [1], steps: [{continue: true}]}", None),
        ("{forEach: [1], steps: [{continue: {result: 1}}]}", Some("continue.result")),
        ("{switch: [{if: inputs.a, then: [{wait: 1s}]}]}", Some("switch with conditions")),
        ("{wait: 1s, timeout: \"${{ inputs.a }}\"}", Some("computed `timeout`")),
        ("{wait: 1s, retry: {max: \"${{ inputs.a }}\"}}", Some("computed `retry`")),
        ("{wait: 1s, retry: {max: 1, delay: \"${{ inputs.a }}\"}}", Some("computed `retry`")),
        ("{repeat: {max: \"${{ inputs.a }}\"}, steps: [{wait: 1s}]}", Some("computed `repeat`")),
        ("{repeat: {max: 2, delay: \"${{ inputs.a }}\"}, steps: [{wait: 1s}]}", Some("computed `repeat`")),
        (
            "{forEach: [1], concurrency: \"${{ inputs.a }}\", steps: [{wait: 1s}]}",
            Some("computed `concurrency`"),
        ),
        ("{action: a.b, connection: {name: \"${{ inputs.a }}\", of: [c, d]}}", Some("connection with `of`")),
        ("{call: {id: \"${{ inputs.a }}\", of: [c, d]}}", Some("call with `of`")),
        ("{action: http.request, with: {url: /x}}", None),
        ("{action: http.get, with: {url: /x}}", Some("http.get")),
        ("{action: http.delete, with: {url: /x}}", Some("http.delete")),
        ("{forEach: [1], steps: [{continue: true}]}", None),
        ("{fail: a}", None),
        ("{fail: {message: a}}", Some("fail with keys")),
        ("{call: a, retry: {max: 1, on: all}}", None),
        ("{call: a, retry: [{max: 1, on: all}]}", Some("retry with a list or a condition")),
        ("{call: a, retry: {max: 1, if: error.code == 'a'}}", Some("retry with a list or a condition")),
        ("{id: a, wait: 1s}, {wait: 1s, if: steps.a.error is none}", None),
        ("{id: a, wait: 1s}, {wait: 1s, if: steps.a.ok}", Some("steps.x.ok")),
        ("{wait: 1s, onError: [{set: {a: \"${{ error.data }}\"}}]}", Some("error.data")),
        ("{parallel: {a: [{wait: 1s}], b: [{wait: 1s}]}}", None),
        ("{parallel: {a: [{wait: 1s}], b: [{wait: 1s}]}, enough: 1}", Some("parallel.enough")),
        ("{wait: 1s, undo: [{wait: 1s}]}", None),
        ("{wait: 1s, undo: {steps: [{wait: 1s}]}}", Some("undo with keys")),
        ("{wait: 1s, finally: [{wait: 1s}]}", Some("finally of a step")),
        ("{forEach: [1], as: outcome, steps: [{set: {a: \"${{ outcome.status }}\"}}]}", None),
        ("{action: executions.cancel, with: {executionId: a}}", Some("executions.cancel")),
        ("{action: state.get, with: {key: a}}", None),
        ("{action: state.take, with: {key: a}}", Some("state.take")),
        ("{set: {a: \"${{ inputs.a | join(',') }}\"}}", None),
        ("{set: {a: \"${{ inputs.a | coalesce(1) }}\"}}", Some("coalesce")),
        ("{set: {a: \"${{ trigger.id }}\"}}", Some("trigger.id")),
    ] {
        let number = if word.is_some() { 2 } else { 1 };
        assert_eq!(level(&steps(text)), (number, word.map(str::to_owned)), "{text}");
    }
}

#[test]
fn a_wait_needs_the_level_of_its_latest_word() {
    for (text, word) in [
        ("{waitFor: {event: a}, timeout: 1s}", None),
        ("{waitFor: {event: a, since: 1s}}", Some("waitFor.since")),
        ("{waitFor: {event: a, until: inputs.a}}", Some("waitFor.until")),
        ("{waitFor: {event: a}, timeout: 0s}", Some("timeout: 0s")),
        ("{waitFor: {approval: {message: a, form: {b: {type: text}}}}}", None),
        ("{waitFor: {approval: {message: a, form: {b: text}}}}", Some("form by its types")),
    ] {
        let automation = good(&format!("trigger: {{manual: {{}}}}\nsteps: [{text}]\n"));
        assert_eq!(automation.leveled_word.map(|word| word.word).as_deref(), word, "{text}");
    }
}

#[test]
fn a_file_needs_the_level_of_the_latest_word_of_its_head() {
    for (text, word) in [
        ("triggers: [{id: main, manual: {}}]", "triggers"),
        ("inputs: {a: {}}\ntrigger: {manual: {}, inputs: {a: 1}}", "inputs of a trigger"),
        ("trigger: {manual: {}, enabled: true}", "enabled of a trigger"),
        ("trigger: {manual: {}}\ninputs: {a: text}", "inputs by their type"),
        ("trigger: {event: order.paid, data: {a: text}}", "own event"),
        ("trigger: {event: paid}", "own event"),
        ("trigger: {event: cogwork.failure}", "event of the engine"),
        ("trigger: {manual: {}}\nfinally: [{set: {a: \"${{ outcome.status }}\"}}]", "outcome"),
    ] {
        let text = format!("{text}\nsteps: [{{wait: 1s}}]\n");
        let automation = good(&text);
        let latest = automation.leveled_word.as_ref().map(|word| word.word.as_str());
        assert_eq!((automation.level().number(), latest), (2, Some(word)), "{text}");
    }
}

#[test]
fn the_project_file_may_be_empty_and_has_no_other_keys_yet() {
    let said = |text: &str| {
        let loaded = crate::load::project(Arc::new(Source::new("project.yaml", text)));
        let entries = loaded.report.entries();
        let codes: Vec<String> =
            entries.iter().map(|entry| format!("{} {}:{}", entry.code, entry.line, entry.column)).collect();
        (loaded.value.is_some(), codes)
    };
    for text in ["", "# nothing yet\n", "defaults: {}\n", "defaults: {retry: 3}\n"] {
        assert_eq!(said(text), (true, Vec::new()), "{text}");
    }
    for text in ["limits: {crm: 3}\n", "calendars: {}\n", "default: {retry: 3}\n"] {
        assert_eq!(said(text), (false, vec!["unknown-key 1:1".to_owned()]), "{text}");
    }
    assert_eq!(said("- 1\n"), (false, vec!["wrong-type 1:3".to_owned()]));
}
