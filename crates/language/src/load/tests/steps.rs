//! Steps: verbs, ids, settings, and the paths through them.

use model::automation::{Verb, WaitOn};

use super::{check_step, check_steps, check_with, good, shown};

const SYNC: &str = "webhook: {mode: sync}";

#[test]
fn a_step_is_a_mapping() {
    check_steps("- log.info\n- [a]\n-\n", &["wrong-type 1:3", "wrong-type 2:4", "wrong-type 3:2"]);
}

#[test]
fn a_step_has_a_verb() {
    check_step("id: a", &["no-verb 1:3"]);
    check_step("if: a", &["no-verb 1:3"]);
    check_steps("- {}\n", &["no-verb 1:3"]);
    // An unknown key was probably meant as the verb.
    check_step("acton: log.info", &["unknown-key 1:3"]);
    check_step("stepz: [{action: log.info}]", &["unknown-key 1:3"]);
    check_step("swich: a\ncases: {b: [{action: log.info}]}", &["unknown-key 1:3"]);
}

#[test]
fn a_second_verb_is_reported_with_both_positions() {
    insta::assert_snapshot!(shown("trigger: {manual: {}}\nsteps:\n  - id: both\n    action: log.info\n    with: {message: x}\n    set: {a: 1}\n"), @r"
    error[two-verbs]: a step does one thing, but this one has `action` and `set`
     --> test.yaml:6:5
      |
    4 |     action: log.info
      |     ------ the first verb
    5 |     with: {message: x}
    6 |     set: {a: 1}
      |     ^^^ the second verb
      |
      = note: in step `both`
      = help: make a step of its own for `set`
    ");
    check_step("if: a\nthen: [{action: log.info}]\naction: log.info", &["two-verbs 3:3"]);
    check_step(
        "forEach: a\nsteps: [{action: log.info}]\nset: {a: 1}\nfail: x",
        &["two-verbs 3:3", "two-verbs 4:3"],
    );
}

#[test]
fn a_key_of_another_verb_is_reported_with_its_verb() {
    check_step("set: {a: 1}\nwith: {b: 1}", &["unknown-key 2:3"]);
    let text = "trigger: {manual: {}}\nsteps:\n  - set: {a: 1}\n    with: {b: 1}\n";
    assert!(shown(text).contains("it belongs to `action`"), "{}", shown(text));
}

#[test]
fn if_with_then_branches_and_if_with_a_verb_guards() {
    let automation = good(
        "trigger: {manual: {}}\nsteps:\n  - if: a\n    then: [{action: log.info}]\n  - if: b\n    action: log.info\n",
    );
    let shown: Vec<_> =
        automation.steps.steps.iter().map(|step| (step.verb.keyword(), step.guard.is_some())).collect();
    assert_eq!(shown, [("if", false), ("action", true)]);
    check_step("then: [{action: log.info}]", &["missing-key 1:3"]);
    check_step("if: a\nelse: [{action: log.info}]", &["missing-key 1:3"]);
    check_step("if: a\nthen: []", &["empty-steps 2:9"]);
    check_step("if: a\nthen: [{action: log.info}]\nelse: []", &["empty-steps 3:9"]);
    check_step("if: a\nthen: {action: log.info}", &["wrong-type 2:10"]);
    check_step("if: a\nthen:", &["wrong-type 2:7"]);
}

#[test]
fn an_action_is_named_by_its_connector() {
    check_step("action: info", &["invalid-action 1:11"]);
    check_step("action: a.b.c", &["invalid-action 1:11"]);
    check_step("action: '.info'", &["invalid-action 1:12"]);
    check_step("action: ${{ x }}", &["no-expression-here 1:11"]);
    check_step("action:", &["wrong-type 1:9"]);
    check_step("action: log.info\nconnection: ''", &["empty-text 2:15"]);
    check_step("action: log.info\nconnection: ${{ x }}", &["no-expression-here 2:15"]);
    check_step("action: log.info\nwith: x", &["wrong-type 2:9"]);
    check_step("action: log.info\ndebug: 1", &["wrong-type 2:10"]);
}

#[test]
fn names_must_be_valid_identifiers() {
    check_step("set: {a-b: 1}", &["invalid-name 1:9"]);
    check_step("set: {}", &["empty-set 1:8"]);
    check_step("set: [a]", &["wrong-type 1:9"]);
    check_step("parallel: {a b: [{action: log.info}]}", &["invalid-name 1:14"]);
    check_step("forEach: a\nas: b-c\nsteps: [{action: log.info}]", &["invalid-name 2:7"]);
    check_step("forEach: a\nas: steps\nsteps: [{action: log.info}]", &["reserved-name 2:7"]);
}

#[test]
fn a_loop_has_a_list_and_steps() {
    check_step("forEach: a", &["missing-key 1:3"]);
    check_step("forEach: a\nsteps: []", &["empty-steps 2:10"]);
    check_step("forEach: {a: 1}\nsteps: [{action: log.info}]", &["wrong-type 1:13"]);
    check_step("forEach: true\nsteps: [{action: log.info}]", &["wrong-type 1:12"]);
    check_step("forEach: [1, '${{ vars.a }}']\nsteps: [{action: log.info}]", &[]);
    check_step("forEach: a\nconcurrency: 0\nsteps: [{action: log.info}]", &["out-of-range 2:16"]);
    check_step("forEach: a\nfailFast: no\nsteps: [{action: log.info}]", &["wrong-type 2:13"]);
}

#[test]
fn parallel_branches_have_names() {
    check_step("parallel: {}", &["empty-steps 1:13"]);
    check_step("parallel: {a: []}", &["empty-steps 1:17"]);
    check_step("parallel: [{action: log.info}]", &["wrong-type 1:15"]);
    check_step("parallel: {a: {action: log.info}}", &["wrong-type 1:18"]);
}

#[test]
fn stop_and_fail_are_validated() {
    check_step("stop:", &["wrong-type 1:7"]);
    check_step("stop: true", &["wrong-type 1:9"]);
    check_step("stop: {value: 1}", &["unknown-key 1:10"]);
    check_step("fail: ''", &["empty-text 1:9"]);
    check_step("fail: [x]", &["wrong-type 1:10"]);
}

#[test]
fn a_respond_step_must_be_a_valid_http_response() {
    let check =
        |answer: &str, expected: &[&str]| check_with(SYNC, &format!("- respond: {answer}\n"), expected);
    check("{}", &[]);
    check("", &["wrong-type 1:10"]);
    check("{status: 199}", &["out-of-range 1:21"]);
    check("{status: '201'}", &["wrong-type 1:21"]);
    check("{status: '${{ a }}'}", &[]);
    check("{status: 204, json: 1}", &["body-not-sent 1:26"]);
    check("{body: 1, json: 2}", &["conflicting-keys 1:22"]);
    check("{file: x}", &["wrong-type 1:19"]);
    check("{contentType: text}", &["invalid-content-type 1:26"]);
    check("{contentType: '${{ a }}'}", &[]);
    check("{contentType: application/json, body: '{'}", &["invalid-json 1:51"]);
    check("{contentType: application/json, body: '{${{ a }}'}", &[]);
    check("{headers: {content-type: a/b}}", &["forbidden-header 1:23"]);
    check("{headers: {a: [1]}}", &["wrong-type 1:27"]);
    check("{headers: a}", &["wrong-type 1:22"]);
    check("{statusCode: 200}", &["unknown-key 1:13"]);
}

#[test]
fn ids_are_identifiers_and_unique() {
    check_steps("- {id: a, action: log.info}\n- {id: a, action: log.info}\n", &["duplicate-id 2:8"]);
    check_step("id: a-b\naction: log.info", &["invalid-id 1:7"]);
    check_step("id: 1\naction: log.info", &["wrong-type 1:7"]);
    check_step("id: trigger\naction: log.info", &["invalid-id 1:7"]);
    check_step("id: ''\naction: log.info", &["invalid-id 1:8"]);
    check_steps(
        "- {name: The page, action: log.info}\n- {name: the-page, action: log.info}\n",
        &["duplicate-id 2:10"],
    );
    check_steps(
        "- {id: a, action: log.info}\n- if: b\n  then:\n    - {id: a, action: log.info}\n",
        &["duplicate-id 4:12"],
    );
}

#[test]
fn a_duplicate_id_is_reported_with_both_positions() {
    insta::assert_snapshot!(shown("trigger: {manual: {}}\nsteps:\n  - id: page\n    action: log.info\nfinally:\n  - name: Page\n    action: log.info\n"), @r"
    error[duplicate-id]: two steps have the id `page`
     --> test.yaml:6:11
      |
    3 |   - id: page
      |         ---- first here
    ...
    6 |   - name: Page
      |           ^^^^ again here
      |
      = help: a step without an `id` has its name in camelCase for one; give this step an `id` of its own
    ");
}

/// The ids of a file's steps in reading order.
fn ids(text: &str) -> String {
    let automation = good(text);
    let mut ids = Vec::new();
    automation.walk(&mut |step| ids.push(step.id.to_string()));
    ids.join(" ")
}

#[test]
fn a_step_without_a_name_is_numbered_in_reading_order() {
    let text = "trigger: {manual: {}}\nsteps:\n  - if: a\n    onError:\n      - action: log.info\n    then:\n      - action: log.info\n    else:\n      - action: log.info\n  - action: log.info\nfinally: [{action: log.info}]\nonError: [{action: log.info}]\n";
    assert_eq!(ids(text), "step1 step2 step3 step4 step5 step6 step7");
}

#[test]
fn a_taken_step_number_is_skipped() {
    let text = "trigger: {manual: {}}\nsteps:\n  - action: log.info\n  - action: log.info\n  - {name: Größe, action: log.info}\nfinally:\n  - {id: step2, action: log.info}\n  - {name: step 1, action: log.info}\n";
    // `step2` and `step1` are asked for further down.
    assert_eq!(ids(text), "step3 step4 step5 step2 step1");
}

#[test]
fn settings_of_a_step_are_checked() {
    check_step("action: log.info\nneeds: [1]", &["wrong-type 2:11"]);
    check_step("action: log.info\nneeds: [a-b, '${{ a }}']", &["invalid-id 2:11", "no-expression-here 2:17"]);
    check_step("action: log.info\nneeds: {}", &["wrong-type 2:10"]);
    check_step("action: log.info\nneeds: [a, '']", &["empty-text 2:14"]);
    check_step("action: log.info\ntimeout: 10", &["invalid-duration 2:12"]);
    check_step("action: log.info\ntimeout: 0s", &["out-of-range 2:12"]);
    check_step("action: log.info\nretry: {max: 2, on: [network, 5xx, 429, all]}", &[]);
    check_step("action: log.info\nretry: {max: 2, on: '429'}", &[]);
    check_step(
        "action: log.info\nretry: {max: 2, on: [4xx, 500]}",
        &["unknown-value 2:24", "wrong-type 2:29"],
    );
    check_step("action: log.info\nretry: {max: 2, on: []}", &["empty-list 2:23"]);
    check_step("action: log.info\nretry: {max: 2, on: [all, all]}", &["duplicate-value 2:29"]);
    check_step("action: log.info\nonError: ignore", &["unknown-value 2:12"]);
    check_step("action: log.info\nonError: []", &["empty-steps 2:12"]);
    check_step("action: log.info\nonError: {}", &["wrong-type 2:12"]);
    check_step("action: log.info\nfinally: []", &["empty-steps 2:12"]);
    check_step("action: log.info\nundo: {when: begun, onCancel: true, steps: [{wait: 1s}]}", &[]);
    check_step("action: log.info\nundo: {when: started, steps: [{wait: 1s}]}", &["unknown-value 2:16"]);
    check_step("action: log.info\nundo: {when: begun}", &["missing-key 2:10"]);
    check_step("action: log.info\nundo: {steps: []}", &["empty-steps 2:17"]);
    check_step("action: log.info\nname: ''", &["empty-text 2:9"]);
}

#[test]
fn a_retry_has_defaults_and_a_cap_of_at_least_its_delay() {
    let retry = |written: &str| {
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n  - action: log.info\n    retry: {written}\n");
        let retry = good(&text).steps.steps[0].retry.clone().expect("it has policies");
        retry.only_policy().expect("it has one policy").clone()
    };
    assert_eq!(retry("3"), model::RetryPolicy::times(3));
    assert_eq!(retry("{max: 3}"), model::RetryPolicy::times(3));
    assert_eq!(retry("{max: 1, delay: 2m}").max_delay.as_secs(), 120);
    assert_eq!(retry("{max: 1, delay: 10s, maxDelay: 20s, backoff: 3}").max_delay.as_secs(), 20);
}

#[test]
fn the_number_of_steps_of_a_file_is_bounded() {
    let steps = "  - action: log.info\n".repeat(1002);
    let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}");
    assert_eq!(super::said(&text), ["too-many-steps 1003:5"]);
}

#[test]
fn steps_after_stop_or_fail_never_run() {
    check_steps("- stop: {}\n- action: log.info\n- action: log.info\n", &["never-runs 2:3"]);
    check_steps("- fail: x\n- action: log.info\n", &["never-runs 2:3"]);
    check_steps(
        "- if: a\n  then: [{stop: {}}]\n  else: [{fail: x}]\n- action: log.info\n",
        &["never-runs 4:3"],
    );
    check_steps(
        "- parallel: {a: [{fail: x}], b: [{action: log.info}]}\n- action: log.info\n",
        &["never-runs 2:3"],
    );
    for fine in [
        "- {if: a, stop: {}}\n- action: log.info\n",
        "- if: a\n  then: [{stop: {}}]\n- action: log.info\n",
        "- {fail: x, onError: continue}\n- action: log.info\n",
        "- forEach: a\n  steps: [{fail: x}]\n- action: log.info\n",
        "- {stop: {}, needs: []}\n- {action: log.info, needs: []}\n",
    ] {
        check_steps(fine, &[]);
    }
}

#[test]
fn a_respond_step_needs_a_synchronous_caller() {
    check_steps("- respond: {}\n", &["respond-without-caller 1:3"]);
    check_with("schedule: {every: 5m}", "- respond: {}\n", &["respond-without-caller 1:3"]);
    check_with("webhook: {}", "- respond: {}\n", &["respond-without-caller 1:3"]);
    assert!(super::load("trigger: {webhook: {}}\nsteps: [{respond: {}}]\n").value.is_some());
}

#[test]
fn a_path_may_respond_only_once() {
    check_with(SYNC, "- respond: {}\n- respond: {}\n", &["respond-twice 2:3"]);
    check_with(
        SYNC,
        "- if: a\n  then: [{respond: {}}]\n  else: [{respond: {}}]\n- respond: {}\n",
        &["respond-twice 4:3"],
    );
    check_with(SYNC, "- respond: {}\n- if: a\n  then: [{respond: {}}]\n", &["respond-twice 3:11"]);
    check_with(SYNC, "- forEach: a\n  steps: [{respond: {}}]\n", &["respond-twice 2:12"]);
    check_with(SYNC, "- parallel: {a: [{respond: {}}], b: [{respond: {}}]}\n", &["respond-twice 1:39"]);
    for fine in [
        "- if: a\n  then: [{respond: {}}, {stop: {}}]\n- respond: {}\n",
        "- {if: a, respond: {}}\n- {if: not a, respond: {}}\n",
        "- forEach: a\n  steps:\n    - if: item\n      then: [{respond: {}}, {stop: {}}]\n",
        "- action: log.info\n  onError: [{respond: {status: 502}}]\n",
        "- respond: {}\n  onError: [{respond: {status: 502}}]\n",
    ] {
        check_with(SYNC, fine, &[]);
    }
}

#[test]
fn a_misspelt_loop_keyword_is_reported_and_not_read_as_a_group() {
    check_step("forEahc: a\nas: b\nsteps: [{action: log.info}]", &["unknown-key 1:3"]);
    check_step("repaet: {max: 2}\nsteps: [{action: log.info}]", &["unknown-key 1:3"]);
    check_step("steps: [{action: log.info}]\nas: b", &["unknown-key 2:3"]);
}

#[test]
fn a_switch_has_cases_with_distinct_values() {
    check_step("switch: a\ncases: {}", &["empty-steps 2:10"]);
    check_step("switch: a\ncases: {b: []}", &["empty-steps 2:14"]);
    check_step("switch: a", &["missing-key 1:3"]);
    let twice = "    x: [{action: log.info}]\n    'x': [{action: log.info}]";
    check_step(&format!("switch: a\ncases:\n{twice}"), &["yaml-duplicate-key 4:7"]);
}

#[test]
fn a_switch_of_conditions_has_cases_with_a_condition_and_steps() {
    let steps = "[{action: log.info}]";
    check_step(
        &format!("switch: [{{if: a, then: {steps}}}, {{name: b, if: b, then: {steps}}}]\ndefault: {steps}"),
        &[],
    );
    check_step("switch: []", &["empty-steps 1:11"]);
    check_step(&format!("switch: [{{then: {steps}}}]"), &["missing-key 1:13"]);
    check_step("switch: [{if: a}]", &["missing-key 1:13"]);
    check_step("switch: [{if: a, then: []}]", &["empty-steps 1:26"]);
    check_step(&format!("switch: [{{if: a, then: {steps}, else: {steps}}}]"), &["unknown-key 1:48"]);
    check_step("switch: [a == 1]", &["wrong-type 1:12"]);
    check_step(
        &format!("switch: [{{if: a, then: {steps}}}]\ncases: {{b: {steps}}}"),
        &["conflicting-keys 1:3"],
    );
    let named = |name: &str| {
        format!("switch:\n- {{name: a, if: a, then: {steps}}}\n- {{name: {name}, if: b, then: {steps}}}")
    };
    check_step(&named("a"), &["duplicate-value 3:6"]);
    check_step(&named("default"), &["reserved-name 3:12"]);
    check_step(&named("b c"), &["invalid-name 3:12"]);
}

#[test]
fn steps_in_cases_of_conditions_count_and_share_the_ids_of_the_file() {
    check_steps(
        "- {id: a, action: log.info}\n- switch: [{if: x, then: [{id: a, action: log.info}]}]\n",
        &["duplicate-id 2:32"],
    );
    check_steps(
        "- switch: [{if: x, then: [{set: {y: 1}}]}]\n- {needs: [step3], set: {z: 1}}\n- {set: {z: 2}}\n",
        &[],
    );
}

#[test]
fn a_continue_takes_true_or_a_result() {
    let inside = |value: &str| format!("forEach: a\nsteps:\n- continue: {value}");
    for fine in ["true", "{result: 1}", "{result: '${{ item }}'}", "{}"] {
        check_step(&inside(fine), &[]);
    }
    check_step(&inside("false"), &["unknown-value 3:15"]);
    check_step(&inside("{value: 1}"), &["unknown-key 3:16"]);
}

#[test]
fn a_repeat_has_a_maximum() {
    check_step("repeat: {until: a}\nsteps: [{action: log.info}]", &["missing-key 1:12"]);
    check_step("repeat: {max: 0}\nsteps: [{action: log.info}]", &["out-of-range 1:17"]);
    check_step("repeat: 3\nsteps: [{action: log.info}]", &["wrong-type 1:11"]);
    check_step("repeat: {max: 2, delay: 2}\nsteps: [{action: log.info}]", &["invalid-duration 1:27"]);
    check_step("repeat: {max: 2}", &["missing-key 1:3"]);
}

#[test]
fn break_and_continue_accept_only_true() {
    check_step("forEach: a\nsteps: [{break: false}]", &["unknown-value 2:19"]);
    check_step("forEach: a\nsteps: [{continue: maybe}]", &["wrong-type 2:22"]);
}

#[test]
fn a_call_names_an_automation_by_its_id() {
    check_step("call: Other Thing", &["invalid-id 1:9"]);
    check_step("call: ${{ a }}", &["no-expression-here 1:9"]);
    check_step("call: a\nwith: [1]", &["wrong-type 2:10"]);
}

#[test]
fn a_wait_has_a_valid_duration_or_condition() {
    check_step("wait: 10", &["invalid-duration 1:9"]);
    check_step("wait: soon", &["invalid-duration 1:9"]);
    check_step("wait: {untill: a}", &["unknown-key 1:10"]);
    check_step("wait: in ${{ a }}", &["text-around-expression 1:9"]);
    check_step("waitFor: {}", &["missing-key 1:12"]);
    check_step("waitFor: {event: a, approval: {message: b}}", &["conflicting-keys 1:23"]);
    check_step("waitFor: {approval: {message: b}, if: c}", &["conflicting-keys 1:37"]);
    check_step("waitFor: {approval: {}}", &["missing-key 1:23"]);
    check_step("waitFor: {approval: {message: b, options: []}}", &["empty-list 1:45"]);
    check_step("waitFor: {event: a}\nonTimeout: continue", &["unused-setting 2:3"]);
}

#[test]
fn a_wait_for_an_event_may_look_back_and_end_at_an_instant() {
    check_step("waitFor: {event: a, since: 5m, until: inputs.at}\nonTimeout: continue", &[]);
    check_step("waitFor: {event: a, since: 7d}\ntimeout: 0s", &[]);
    check_step("waitFor: {event: a, since: 8d}\ntimeout: 1h", &["out-of-range 1:30"]);
    check_step("waitFor: {event: a, since: '${{ inputs.a }}'}\ntimeout: 1h", &["wrong-type 1:30"]);
    check_step("waitFor: {event: a, until: inputs.at}\ntimeout: 1h", &["conflicting-keys 1:23"]);
    check_step("waitFor: {approval: {message: b}, until: inputs.at}", &[]);
    check_step("waitFor: {approval: {message: b}, since: 5m}\ntimeout: 1h", &["conflicting-keys 1:37"]);
    check_step("waitFor: {approval: {message: b}}\ntimeout: 0s", &["out-of-range 2:12"]);
    check_step("wait: 1s\ntimeout: 0s", &["out-of-range 2:12"]);
    let wait = good("trigger: {manual: {}}\nsteps: [{waitFor: {event: a, since: 5m}, timeout: 0s}]\n");
    let Verb::WaitFor(wait) = &wait.steps.steps[0].verb else { panic!("a wait") };
    assert!(matches!(wait.on, WaitOn::Event { since: Some(since), .. } if since.as_secs() == 300));
}

#[test]
fn on_interrupt_has_two_values_and_undo_has_steps() {
    check_step("action: log.info\nonInterrupt: stop", &["unknown-value 2:16"]);
    check_step("action: log.info\nundo: []", &["empty-steps 2:9"]);
}

#[test]
fn a_key_of_another_tool_is_reported_and_read_as_its_equivalent() {
    check_step("uses: log.info\nwith: {message: a}", &["unknown-key 1:3"]);
    check_step("delay: 10s", &["unknown-key 1:3"]);
    check_step("delay: soon", &["unknown-key 1:3", "invalid-duration 1:10"]);
    check_step("action: log.info\nwhen: a\ndepends_on: []", &["unknown-key 2:3", "unknown-key 3:3"]);
    check_step("run: ls", &["unknown-key 1:3"]);
    let said = shown("on: push\ntrigger: {manual: {}}\nsteps:\n  - uses: log.info\n");
    assert!(said.contains("= help: what starts it stands under `trigger`"), "{said}");
    assert!(said.contains("= help: the action is named by `action`"), "{said}");
}

#[test]
fn a_fail_is_a_message_or_has_keys() {
    check_step("fail: x", &[]);
    check_step("fail: {message: x, kind: outOfStock, status: 409, code: gone, data: {a: [1]}}", &[]);
    check_step("fail: {message: x, kind: failed, status: '${{ 400 + 9 }}'}", &[]);
    check_step("fail: {kind: outOfStock}", &["missing-key 1:10"]);
    check_step("fail: {message: x, kind: timeout}", &["reserved-kind 1:28"]);
    check_step("fail: {message: x, kind: out-of-stock}", &["invalid-name 1:28"]);
    check_step("fail: {message: x, status: 99}", &["out-of-range 1:30"]);
    check_step("fail: {message: x, respond: {status: 409}}", &["respond-without-caller 1:3"]);
    let fail = "fail: {message: x, respond: {status: 409}}";
    check_with(SYNC, &format!("- {fail}\n- set: {{a: 1}}\n"), &["never-runs 2:3"]);
    check_with(SYNC, &format!("- respond: {{}}\n- {fail}\n"), &["respond-twice 2:3"]);
    check_with(SYNC, &format!("- {{{fail}, onError: continue}}\n- respond: {{}}\n"), &["respond-twice 2:3"]);
    check_with(SYNC, &format!("- {{{fail}, if: execution.id}}\n- respond: {{}}\n"), &[]);
    check_with(SYNC, &format!("- {{{fail}, if: execution.id}}\n- stop: {{}}\n"), &[]);
}

#[test]
fn a_retry_may_be_a_list_of_policies_with_conditions() {
    check_step(
        "action: log.info\nretry: [{on: 429, max: 10, delay: 30s}, {if: error.kind == 'a', max: 2}]",
        &[],
    );
    check_step("action: log.info\nretry: {if: error.status == 423, max: 2}", &[]);
    check_step("action: log.info\nretry: []", &["empty-list 2:10"]);
    check_step("action: log.info\nretry: [3]", &["wrong-type 2:11"]);
    check_step("action: log.info\nretry: [{on: 429}]", &["missing-key 2:12"]);
    check_step("action: log.info\nretry: {on: 429, if: error.code, max: 1}", &["conflicting-keys 2:20"]);
    check_step("action: log.info\nretry: [{on: 429, max: 60}, {on: all, max: 41}]", &["out-of-range 2:12"]);
    let many = vec!["{on: all, max: 1}"; 21].join(", ");
    check_step(&format!("action: log.info\nretry: [{many}]"), &["out-of-range 2:12"]);
}
