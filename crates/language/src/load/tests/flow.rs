//! The paths through the steps: what never runs, who is answered, what leaves a loop.

use super::{check, check_steps, check_with};

const SYNC: &str = "webhook: {mode: sync}";

#[test]
fn steps_after_the_end_of_an_iteration_never_run() {
    check_steps("- forEach: a\n  steps:\n    - break: true\n    - action: log.info\n", &["never-runs 4:7"]);
    check_steps(
        "- repeat: {max: 2}\n  steps:\n    - continue: true\n    - action: log.info\n",
        &["never-runs 4:7"],
    );
    check_steps(
        "- forEach: a\n  steps:\n    - if: item\n      then: [{break: true}]\n      else: [{stop: {}}]\n    - action: log.info\n",
        &["never-runs 6:7"],
    );
    check_steps("- forEach: a\n  steps:\n    - {break: true, if: item}\n    - action: log.info\n", &[]);
}

#[test]
fn steps_after_branches_that_all_end_never_run() {
    check_steps(
        "- switch: a\n  cases: {x: [{stop: {}}], y: [{fail: z}]}\n  default: [{stop: {}}]\n- action: log.info\n",
        &["never-runs 4:3"],
    );
    check_steps("- switch: a\n  cases: {x: [{stop: {}}], y: [{fail: z}]}\n- action: log.info\n", &[]);
    check_steps("- steps: [{stop: {}}]\n- action: log.info\n", &["never-runs 2:3"]);
    check_steps(
        "- parallel: {x: [{stop: {}}], y: [{action: log.info}]}\n- action: log.info\n",
        &["never-runs 2:3"],
    );
}

#[test]
fn a_stop_answers_only_a_caller_who_waits_and_has_no_answer_yet() {
    let stop = "- if: a\n  stop: {respond: {status: 400, json: {error: short}}}\n- respond: {body: x}\n";
    check_with(SYNC, stop, &[]);
    check_with("manual: {}", "- stop: {respond: {status: 204}}\n", &["respond-without-caller 1:3"]);
    check_with(SYNC, "- respond: {body: x}\n- stop: {respond: {status: 204}}\n", &["respond-twice 2:3"]);
    check_with(SYNC, "- if: a\n  stop: {respond: {status: 204}}\n- stop: {}\n", &["unanswered-path 3:3"]);
    check_with(SYNC, "- stop: {respond: {status: 99}}\n", &["out-of-range 1:28"]);
}

#[test]
fn break_and_continue_do_not_end_the_steps_after_the_loop() {
    check_steps("- forEach: a\n  steps: [{break: true}]\n- action: log.info\n", &[]);
    check_steps("- repeat: {max: 2}\n  steps: [{continue: true}]\n- action: log.info\n", &[]);
    // A turn there is for certain, and it ends everything.
    check_steps("- repeat: {max: 2}\n  steps: [{stop: {}}]\n- action: log.info\n", &["never-runs 3:3"]);
    check_steps("- forEach: [1]\n  steps: [{fail: x}]\n- action: log.info\n", &["never-runs 3:3"]);
    check_steps("- forEach: a\n  steps: [{fail: x}]\n- action: log.info\n", &[]);
}

#[test]
fn break_and_continue_are_allowed_only_in_a_loop() {
    check_steps("- break: true\n", &["outside-loop 1:3"]);
    check_steps(
        "- forEach: [1]\n  steps:\n    - wait: 1s\n      finally:\n        - break: true\n",
        &["outside-loop 5:11"],
    );
    check_steps("- if: a\n  then: [{continue: true}]\n", &["outside-loop 2:11"]);
    check_steps(
        "- forEach: a\n  steps: [{if: item, then: [{break: true}]}, {steps: [{continue: true, if: index}]}]\n",
        &[],
    );
    check_steps("- forEach: a\n  steps: [{action: log.info, onError: [{break: true}]}]\n", &[]);
    check_steps(
        "- forEach: a\n  steps: [{action: log.info, undo: [{break: true}]}]\n",
        &["outside-loop 2:38"],
    );
    check_steps("- action: log.info\n  undo: [{forEach: a, steps: [{break: true}]}]\n", &[]);
}

#[test]
fn break_cannot_leave_concurrent_iterations_or_branches() {
    let loops =
        |keys: &str, word: &str| format!("- forEach: a\n  {keys}steps: [{{{word}: true, if: item}}]\n");
    check_steps(&loops("concurrency: 2\n  ", "break"), &["leaves-others 3:12"]);
    check_steps(&loops("concurrency: 2\n  ", "continue"), &[]);
    check_steps(&loops("concurrency: 1\n  ", "break"), &[]);
    for word in ["break", "continue"] {
        let inside = format!(
            "- forEach: a\n  steps: [{{parallel: {{x: [{{{word}: true}}], y: [{{action: log.info}}]}}}}]\n"
        );
        check_steps(&inside, &["leaves-others 2:28"]);
    }
    // The nearest loop is in the branch.
    check_steps("- parallel: {x: [{forEach: a, steps: [{break: true}]}]}\n", &[]);
}

#[test]
fn a_response_followed_by_break_is_sent_only_once() {
    let turn = |steps: &str| format!("- forEach: a\n  steps: [{steps}]\n- stop: {{result: 1}}\n");
    check_with(SYNC, &turn("{respond: {}}, {break: true}"), &[]);
    check_with(SYNC, &turn("{respond: {}}, {continue: true}"), &["respond-twice 2:12"]);
    check_with(SYNC, &turn("{if: item, then: [{respond: {}}, {break: true}]}"), &[]);
}

#[test]
fn a_path_without_a_response_is_reported_if_others_have_one() {
    check_with(SYNC, "- if: a\n  then: [{respond: {}}]\n- action: log.info\n", &["unanswered-path 2:11"]);
    check_with(SYNC, "- {if: a, respond: {}}\n", &["unanswered-path 1:4"]);
    check_with(SYNC, "- if: a\n  then: [{respond: {}}]\n  else: [{respond: {}}]\n", &[]);
    check_with(SYNC, "- if: a\n  then: [{respond: {}}]\n  else: [{fail: x}]\n", &[]);
    check_with(SYNC, "- if: a\n  then: [{respond: {}}]\n  else: [{stop: {}}]\n", &["unanswered-path 3:11"]);
    check_with(SYNC, "- if: a\n  then: [{respond: {}}]\n  else: [{stop: {result: 1}}]\n", &[]);
    check_with(SYNC, "- {action: log.info, onError: [{respond: {}}, {stop: {}}]}\n- respond: {}\n", &[]);
    // All who come to the end get the result.
    check_with(SYNC, "- if: a\n  then: [{respond: {}}, {stop: {}}]\n- action: log.info\n", &[]);
    // Nobody knows whether one of the two always holds.
    check_with(SYNC, "- {if: a, respond: {}}\n- {if: b, respond: {}}\n", &[]);
    // Without any answer the result is meant as one, and so is one that has a name.
    check_with(SYNC, "- if: a\n  then: [{action: log.info}]\n", &[]);
    check("trigger: {webhook: {mode: sync}}\noutputs: 1\nsteps: [{if: a, respond: {}}]\n", &[]);
    check_with("webhook: {}", "- {if: a, respond: {}}\n", &["respond-without-caller 1:4"]);
}
