//! The effect of each verb, and the outcome of executions.

use crate::common::{Peer, Project, call, end, manual, outcome_of, outcome_with, start_with, steps_of, stop};

async fn check(steps: &str, expected: &str) {
    let found = outcome_of(&manual(steps)).await;
    assert_eq!(found, expected, "\n{steps}");
}

#[tokio::test]
async fn the_result_is_the_last_steps() {
    check("  - set: {a: 1}\n  - set: {b: \"${{ vars.a + 1 }}\"}\n", r#"{"b":2}"#).await;
}

#[tokio::test]
async fn an_execution_without_steps_returns_null() {
    let found = outcome_of("trigger: {manual: {}}\nsteps: []\n").await;
    assert_eq!(found, "null");
}

#[tokio::test]
async fn a_single_expression_keeps_its_type_and_mixed_text_is_text() {
    let steps = "  - set:\n      n: 9007199254740993\n      l: [1, \"${{ 1 + 1 }}\"]\n      t: \"n=${{ 1 + 1 }} ${{ {'a': 1} }}\"\n";
    check(steps, r#"{"n":9007199254740993,"l":[1,2],"t":"n=2 {\"a\":1}"}"#).await;
}

#[tokio::test]
async fn steps_read_the_results_of_steps_before_them() {
    let steps = "  - id: first\n    set: {a: {b: [10, 20]}}\n  - set: {c: \"${{ steps.first.results.a.b[1] }}\", d: \"${{ $.steps.first.results.a.b[*] }}\"}\n";
    check(steps, r#"{"c":20,"d":[10,20]}"#).await;
}

#[tokio::test]
async fn an_if_returns_the_result_of_the_branch_taken() {
    let steps = |n: u8| {
        format!(
            "  - set: {{n: {n}}}\n  - if: vars.n > 1\n    then:\n      - set: {{r: many}}\n    else:\n      - set: {{r: few}}\n"
        )
    };
    check(&steps(2), r#"{"r":"many"}"#).await;
    check(&steps(1), r#"{"r":"few"}"#).await;
    check("  - if: 1 > 2\n    then:\n      - set: {r: 1}\n", "null").await;
}

#[tokio::test]
async fn a_step_whose_condition_is_false_is_skipped_with_result_null() {
    check("  - set: {a: 1}\n  - if: vars.a == 2\n    set: {b: 1}\n", "null").await;
    check(
        "  - id: x\n    if: 1 == 2\n    set: {b: 1}\n  - set: {got: \"${{ steps.x.results }}\"}\n",
        r#"{"got":null}"#,
    )
    .await;
}

#[tokio::test]
async fn a_loop_returns_the_results_of_its_iterations_in_order() {
    let steps = |extra: &str| {
        format!(
            "  - forEach: range(5)\n{extra}    steps:\n      - set: {{v: \"${{{{ item * 10 + index }}}}\"}}\n"
        )
    };
    let expected = r#"[{"v":0},{"v":11},{"v":22},{"v":33},{"v":44}]"#;
    check(&steps(""), expected).await;
    check(&steps("    concurrency: 3\n"), expected).await;
    check("  - forEach: []\n    steps:\n      - set: {v: 1}\n", "[]").await;
}

#[tokio::test]
async fn nested_loops_have_their_own_item_names() {
    let steps = "  - forEach: ['a', 'b']\n    as: outer\n    steps:\n      - forEach: [1, 2]\n        as: inner\n        steps:\n          - set: {v: \"${{ outer }}${{ inner }}\"}\n  - set: {last: \"${{ vars.v }}\"}\n";
    check(steps, r#"{"last":"b2"}"#).await;
}

#[tokio::test]
async fn a_sequential_iteration_reads_variables_set_by_the_previous_one() {
    let steps = "  - set: {sum: 0}\n  - forEach: [1, 2, 3]\n    steps:\n      - set: {sum: \"${{ vars.sum + item }}\"}\n  - set: {total: \"${{ vars.sum }}\"}\n";
    check(steps, r#"{"total":6}"#).await;
}

#[tokio::test]
async fn a_failed_iteration_ends_the_loop_unless_fail_fast_is_off() {
    let steps = |extra: &str| {
        format!(
            "  - forEach: [1, 0, 2]\n{extra}    steps:\n      - if: item == 0\n        fail: zero\n      - set: {{v: \"${{{{ item }}}}\"}}\n"
        )
    };
    check(&steps(""), "failed: zero").await;
    let steps = steps("    failFast: false\n") + "  - set: {n: \"${{ vars.v }}\"}\n";
    check(&steps, r#"{"n":2}"#).await;
}

#[tokio::test]
async fn results_and_variables_of_parallel_branches_are_readable_afterwards() {
    let steps = "  - parallel:\n      left:\n        - id: l\n          set: {a: 1}\n      right:\n        - set: {b: 2}\n        - set: {c: 3}\n  - set: {seen: \"${{ steps.l.results.a + vars.c }}\"}\n";
    check(steps, r#"{"seen":4}"#).await;
}

#[tokio::test]
async fn stop_ends_in_success_and_fail_in_failure() {
    check("  - stop: {result: {done: true}}\n  - fail: never\n", r#"{"done":true}"#).await;
    check("  - fail: \"no ${{ 1 + 1 }}\"\n", "failed: no 2").await;
    check("  - forEach: [1, 2]\n    steps:\n      - stop: {result: \"${{ item }}\"}\n", "1").await;
}

#[tokio::test]
async fn on_error_continues_or_runs_steps_that_see_the_error() {
    check("  - id: x\n    fail: oh\n    onError: continue\n  - set: {e: \"${{ steps.x.error.message }}\", r: \"${{ steps.x.results }}\"}\n", r#"{"e":"oh","r":null}"#).await;
    check("  - id: x\n    fail: oh\n    onError:\n      - set: {saw: \"${{ error.message }} ${{ error.kind }} ${{ error.step }}\"}\n", r#"{"saw":"oh failed x"}"#).await;
    check("  - id: x\n    fail: oh\n    onError:\n      - fail: worse\n", "failed: worse").await;
}

#[tokio::test]
async fn missing_data_fails_the_step_and_names_the_path() {
    let found =
        outcome_of(&manual("  - set: {a: \"${{ 1 + 0 }}\"}\n  - set: {b: \"${{ vars.a.b.c }}\"}\n")).await;
    assert!(found.contains("`vars.a.b` is missing"), "{found}");
}

#[tokio::test]
async fn outputs_replace_the_last_result() {
    let yaml = "trigger: {manual: {}}\noutputs: {sum: \"${{ vars.a }}\"}\nsteps:\n  - set: {a: 1}\n  - set: {b: 2}\n";
    assert_eq!(outcome_of(yaml).await, r#"{"sum":1}"#);
}

#[tokio::test]
async fn a_stop_with_a_result_overrides_the_outputs() {
    let yaml = |stop: &str| {
        format!(
            "trigger: {{manual: {{}}}}\noutputs: ${{{{ steps.late.results.late | default('none') }}}}\nsteps:\n  - stop: {stop}\n  - {{id: late, set: {{late: 2}}}}\n"
        )
    };
    assert_eq!(outcome_of(&yaml("{result: early}")).await, r#""early""#);
    assert_eq!(outcome_of(&yaml("{}")).await, r#""none""#, "without a result `outputs` has its say");
}

#[tokio::test]
async fn a_fail_in_on_error_keeps_the_details_of_the_handled_error() {
    for (fail, message) in
        [("\"${{ error.message }}\"", "no"), ("\"${{ error }}\"", "no"), ("not booked", "not booked")]
    {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a")
            + &format!(
                "    onError:\n      - fail: {fail}\nonError:\n  - set: {{seen: \"${{{{ error.kind }}}} ${{{{ error.status }}}} ${{{{ error.body.reason }}}}\"}}\n"
            );
        let project = Project::with(&manual(&steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        peer.next_request().await.answer(404, r#"{"message": "no", "reason": "gone"}"#).await;
        let outcome = end(&engine, id).await;
        assert!(outcome.contains(message), "{outcome}");
        let steps = steps_of(&engine, id).await;
        assert!(steps.iter().any(|step| step.contains("status 404 gone")), "{fail}: {steps:?}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn inputs_are_checked_and_have_defaults() {
    let yaml = "trigger: {manual: {}}\ninputs:\n  name: {type: text, required: true}\n  count: {type: integer, default: 2}\nsteps:\n  - set: {v: \"${{ inputs.name }} ${{ inputs.count }}\"}\n";
    assert_eq!(outcome_with(yaml, r#"{"name": "a"}"#).await, r#"{"v":"a 2"}"#);
    assert_eq!(outcome_with(yaml, r#"{"name": "a", "count": 3}"#).await, r#"{"v":"a 3"}"#);
}

#[tokio::test]
async fn finally_steps_run_after_success_and_after_failure() {
    let yaml = |steps: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nonError:\n  - id: handler\n    set: {{saw: \"${{{{ error.message }}}}\"}}\nfinally:\n  - id: last\n    set: {{done: true}}\nsteps:\n{steps}"
        )
    };
    assert_eq!(outcome_of(&yaml("  - set: {a: 1}\n")).await, r#"{"a":1}"#);
    assert_eq!(outcome_of(&yaml("  - fail: oh\n")).await, "failed: oh");
    let failing = "trigger: {manual: {}}\nfinally:\n  - fail: in the end\nsteps:\n  - set: {a: 1}\n";
    assert_eq!(outcome_of(failing).await, "failed: in the end");
}
