//! `parallel` with `enough`, and the end of executions that nobody needs any more.

use model::Status;
use model::execution::ExecutionId;

use crate::checking::check_steps;
use crate::common::{
    Peer, Project, call, crash, end, manual, outcome_of, rows, start_and_suspend, start_with, steps_of, stop,
    until_async,
};

/// A `parallel` step with these lists, each with one step.
fn lists(enough: u32, lists: &str) -> String {
    format!("  - id: all\n    enough: {enough}\n    parallel:\n{lists}")
}

#[tokio::test]
async fn a_parallel_step_ends_when_enough_lists_have_succeeded_and_cut_lists_give_null() {
    let never = "      slow: [{id: slow, waitFor: {event: never}, timeout: 1h}]\n";
    let steps = lists(
        1,
        &format!("{never}      bad: [{{id: bad, fail: no}}]\n      good: [{{id: good, set: {{x: 1}}}}]\n"),
    );
    assert_eq!(outcome_of(&manual(&steps)).await, r#"{"slow":null,"bad":null,"good":{"x":1}}"#);
    let two = lists(
        2,
        &format!("{never}      a: [{{id: a, set: {{x: 1}}}}]\n      b: [{{id: b, set: {{x: 2}}}}]\n"),
    );
    assert_eq!(outcome_of(&manual(&two)).await, r#"{"slow":null,"a":{"x":1},"b":{"x":2}}"#);
}

#[tokio::test]
async fn a_parallel_step_fails_once_too_few_lists_are_left() {
    let never = "      slow: [{id: slow, waitFor: {event: never}, timeout: 1h}]\n";
    let steps =
        lists(2, &format!("{never}      a: [{{id: a, fail: first}}]\n      b: [{{id: b, fail: second}}]\n"));
    assert_eq!(outcome_of(&manual(&steps)).await, "failed: second");
    let handled = format!("{steps}    onError: [{{set: {{z: \"${{{{ error.step }}}}\"}}}}]\n");
    assert_eq!(outcome_of(&manual(&handled)).await, r#"{"z":"b"}"#);
}

#[tokio::test]
async fn a_cut_list_stays_cut_and_keeps_its_variables_inside_after_a_restart() {
    let mut peer = Peer::new().await;
    let steps = lists(
        1,
        "      slow: [{id: early, set: {x: cut}}, {id: slow, waitFor: {event: go}, timeout: 1h}]\n      fast: [{id: fast, wait: 10s}]\n",
    ) + &call("held", &peer.base, "/held")
        + "  - set: {z: \"${{ [vars.x, steps.all.results.slow] }}\"}\n";
    let project = Project::with(&manual(&format!("  - set: {{x: outer}}\n{steps}")));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    crate::common::pass(&project, std::time::Duration::from_secs(10)).await;
    let held = peer.next_request().await;
    assert!(engine.admission().pending(id).await.expect("it exists").is_empty(), "no wait is left");
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    peer.next_request().await.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, r#"{"z":["outer",null]}"#);
    let slow = steps_of(&engine, id).await.into_iter().filter(|step| step.starts_with("slow")).count();
    assert_eq!(slow, 0);
    stop(engine).await;
}

#[tokio::test]
async fn the_calls_of_cut_lists_are_cancelled() {
    let mut peer = Peer::new().await;
    let steps = lists(
        1,
        &format!(
            "      slow: [{{id: slow, call: child}}]\n      fast:\n{}",
            call("fast", &peer.base, "/fast")
                .lines()
                .map(|line| format!("      {line}\n"))
                .collect::<String>()
        ),
    );
    let project = Project::with(&manual(&steps));
    let child = format!("trigger: {{manual: {{}}}}\nsteps:\n{}", call("held", &peer.base, "/held"));
    project.write("automations/child.yaml", &child);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let mut requests = [peer.next_request().await, peer.next_request().await];
    requests.sort_by(|first, second| first.line.cmp(&second.line));
    let [fast, held] = requests;
    assert!(fast.line.contains("/fast") && held.line.contains("/held"));
    fast.answer(200, "1").await;
    assert!(end(&engine, id).await.contains(r#""slow":null"#));
    until_async(async || {
        rows(&engine)
            .await
            .iter()
            .any(|row| row.automation.as_str() == "child" && row.status == Status::Cancelled)
    })
    .await;
    drop(held);
    stop(engine).await;
}

#[tokio::test]
async fn executions_cancel_ends_what_this_execution_has_called_and_nothing_else() {
    let project = Project::with(&manual(
        "  - {id: a, call: child, async: true}\n  - {id: b, action: executions.cancel, with: {executionId: \"${{ steps.a.results.executionId }}\", reason: withdrawn}}\n  - id: c\n    action: executions.cancel\n    with: {executionId: \"${{ execution.id }}\"}\n    onError: [{set: {kind: \"${{ error.kind }}\"}}]\n  - set: {z: \"${{ [steps.a.results.executionId, steps.b.results.cancelled, steps.c.results.kind] }}\"}\n",
    ));
    project.write(
        "automations/child.yaml",
        "trigger: {manual: {}}\nsteps: [{waitFor: {event: never}, timeout: 1h}]\n",
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let result = end(&engine, id).await;
    assert!(result.ends_with(r#"",true,"input"]}"#), "{result}");
    let child: ExecutionId = result.split('"').nth(3).expect("an id").parse().expect("an id");
    assert_eq!(end(&engine, child).await, "cancelled: withdrawn");
    stop(engine).await;
}

#[test]
fn variables_of_a_list_that_may_be_cut_off_are_read_in_the_result_of_the_step_alone() {
    let race = "- id: all\n  enough: 1\n  parallel: {a: [{id: a, set: {x: 1}}, {id: c, set: {y: '${{ steps.a.results.x }}'}}], b: [{id: b, set: {x: 2}}]}\n";
    check_steps(&format!("{race}- set: {{z: '${{{{ steps.all.results.a.y }}}}'}}\n"), &[]);
    check_steps(&format!("{race}- set: {{z: '${{{{ steps.a.results.x }}}}'}}\n"), &["other-branch a"]);
    check_steps(&format!("{race}- set: {{z: '${{{{ vars.y }}}}'}}\n"), &["later-variable y"]);
    check_steps(&format!("{race}- set: {{z: '${{{{ steps.all.results.c }}}}'}}\n"), &["unknown-field c"]);
    check_steps("- {enough: 3, parallel: {a: [{wait: 1s}], b: [{wait: 1s}]}}\n", &["out-of-range 3"]);
    check_steps("- {enough: 1, parallel: {a: [{fail: x}], b: [{wait: 1s}]}}\n- wait: 1s\n", &[]);
}
