//! Waits, timeouts and attempts, and their remains.

use std::time::Duration;

use model::Event;
use runtime::EngineEvent;

use super::{pauses_until, request_step, until_suspended_for, until_wait_ends_at, woken_at};
use crate::common::{
    Peer, Project, call, crash, end, manual, pass, soon, start_and_suspend, start_with, stop, until_suspended,
};

#[tokio::test]
async fn an_execution_with_a_retried_group_is_recovered() {
    let mut peer = Peer::new().await;
    let inner = call("a", &peer.base, "/a").replace("\n  ", "\n      ").replacen("  -", "      -", 1);
    let steps =
        format!("  - id: all\n    retry: {{max: 1, delay: 5m}}\n    steps:\n{inner}      - wait: 1h\n");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(503, "no").await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(300));
    peer.next_request().await.answer(200, "1").await;
    until_suspended(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(3600));
    assert_eq!(end(&engine, id).await, "null");
    assert!(peer.pending_request().is_none(), "what succeeded is not done again");
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_suspended_in_finally_is_cancelled_once() {
    let text = format!("finally:\n  - wait: 4m\n{}", manual("  - waitFor: {event: never}\n"));
    let project = Project::with(&text);
    let (engine, store) = project.start_watched().await;
    let id = start_and_suspend(&engine, "{}").await;
    assert!(engine.admission().cancel(id, "enough").await.expect("it is asked"));
    until_suspended_for(&engine, id, 240).await;
    let reads = store.reads_meanwhile(id).await;
    assert!(reads <= 2, "it is reread {reads} times while it is suspended");
    assert!(engine.admission().cancel(id, "really").await.expect("it is asked"));
    project.clock.advance(Duration::from_secs(240));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn a_due_retry_runs_while_another_branch_is_busy() {
    let mut peer = Peer::new().await;
    let branch = |id: &str, more: &str| {
        let one = call(id, &peer.base, &format!("/{id}"));
        let one = one.replace("\n  ", "\n          ").replacen("  -", "          -", 1);
        format!("        {id}:\n{one}{more}")
    };
    let retry = "            retry: {max: 1, delay: 5m}\n";
    let steps = format!("  - id: both\n    parallel:\n{}{}", branch("a", retry), branch("b", ""));
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let mut notices = engine.subscribe();
    let (one, two) = (peer.next_request().await, peer.next_request().await);
    let (a, b) = if one.line == "POST /a" { (one, two) } else { (two, one) };
    a.answer(503, "no").await;
    soon(async {
        let is_retry = |event: &Event| matches!(event, Event::StepRetry { .. });
        loop {
            if let EngineEvent::ExecutionEvents { events, .. } = notices.recv().await.expect("notices come")
                && events.iter().any(is_retry)
            {
                break;
            }
        }
    })
    .await;
    project.clock.advance(Duration::from_secs(300));
    let again = peer.next_request().await;
    assert_eq!(again.line, "POST /a", "the other branch need not end for it");
    again.answer(200, "2").await;
    b.answer(200, "1").await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn waits_and_events_are_processed_while_another_branch_is_busy() {
    for (pause, emits) in [("wait: 5m", false), ("waitFor: {event: go}", true)] {
        let mut peer = Peer::new().await;
        let block = |id: &str| {
            let one = call(id, &peer.base, &format!("/{id}"));
            one.replace("\n  ", "\n          ").replacen("  -", "          -", 1)
        };
        let steps = format!(
            "  - parallel:\n        a:\n          - {pause}\n{}        b:\n{}",
            block("a"),
            block("b")
        );
        let project = Project::with(&manual(&steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let b = peer.next_request().await;
        assert_eq!(b.line, "POST /b");
        if emits {
            // Only one event: the step may read it from the retained events, and then no step waits for a second one.
            soon(async {
                let is_waiting = async || {
                    let status = engine.admission().queue_status(id).await.expect("it can be read");
                    !status.pauses.is_empty()
                };
                while !is_waiting().await {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            engine.admission().emit("go", value::Value::Null, None).await.expect("it is sent");
        } else {
            pass(&project, Duration::from_secs(300)).await;
        }
        let a = peer.next_request().await;
        assert_eq!(a.line, "POST /a", "{pause}");
        a.answer(200, "1").await;
        b.answer(200, "1").await;
        assert!(!end(&engine, id).await.starts_with("failed"));
        stop(engine).await;
    }
}

#[tokio::test]
async fn the_timeout_of_a_second_attempt_continues_over_a_restart() {
    let mut peer = Peer::new().await;
    let list = format!("steps: [{}, {{wait: 20m}}]", request_step("a", &peer));
    let project = Project::with(&manual(&format!(
        "  - {{id: all, timeout: 15m, retry: {{max: 1, delay: 1m}}, {list}}}\n"
    )));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(503, "no").await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(60));
    peer.next_request().await.answer(200, "1").await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(600));
    crash(engine).await;
    let engine = project.start().await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(300));
    let end = end(&engine, id).await;
    assert_eq!(end, "failed: step `all` took longer than its timeout of 15m");
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_left_by_a_failed_attempt_does_not_belong_to_the_next() {
    let mut peer = Peer::new().await;
    let branches = format!("parallel: {{a: [{{id: pause, wait: 1h}}], b: [{}]}}", request_step("b", &peer));
    // Once inside an inner step, whose end cancels the wait, and once directly inside the retried step.
    for inside in [format!("steps: [{{id: both, {branches}}}]"), branches] {
        not_that_of_the_next_try(&format!("{{id: all, retry: {{max: 1, delay: 5m}}, {inside}}}"), &mut peer)
            .await;
    }
}

async fn not_that_of_the_next_try(step: &str, peer: &mut Peer) {
    let project = Project::with(&manual(&format!("  - {step}\n")));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(503, "no").await;
    until_suspended(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(300));
    peer.next_request().await.answer(200, "1").await;
    until_suspended(&engine).await;
    let due = engine.clock().now() + Duration::from_secs(3600);
    assert_eq!(pauses_until(&engine, id).await, [Some(due)]);
    project.clock.advance(Duration::from_secs(3600));
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_retry_due_when_all_other_branches_wait_is_made() {
    let mut peer = Peer::new().await;
    let again = request_step("a", &peer).replacen('{', "{retry: {max: 1, delay: 3s}, ", 1);
    let both = format!("  - parallel: {{a: [{again}], b: [{{wait: 2s}}, {{wait: 1h}}]}}\n");
    let project = Project::with(&manual(&both));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(3);
    peer.next_request().await.answer(503, "no").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    // Both branches wake, the waiting one first: then all branches wait.
    project.clock.advance(Duration::from_secs(3));
    soon(peer.next_request()).await.answer(200, "1").await;
    until_suspended(&engine).await;
    project.clock.advance(Duration::from_secs(3600));
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_extends_a_timeout_by_at_most_its_own_length() {
    let mut peer = Peer::new().await;
    let both = format!("  - parallel: {{a: [{{wait: 5m}}], b: [{}]}}\n", request_step("b", &peer));
    let project = Project::with(&format!("timeout: 2m\n{}", manual(&both)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(300);
    let _asked = peer.next_request().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    // No timer runs before both times are over, as after a machine has slept.
    project.clock.advance(Duration::from_secs(300 + 121));
    assert_eq!(end(&engine, id).await, "failed: the execution took longer than its timeout of 2m");
    stop(engine).await;
}

#[tokio::test]
async fn a_failure_ends_parallel_waits_before_the_on_error_steps_wait() {
    let mut peer = Peer::new().await;
    let b = request_step("b", &peer);
    // Once inside a step, which cancels its waits when it fails, and once in the main list, which has no such step.
    for both in [
        format!("  - {{id: both, parallel: {{a: [{{wait: 10m}}], b: [{b}]}}}}\n"),
        format!("  - {{id: a, wait: 10m, needs: []}}\n  - {}\n", b.replacen('{', "{needs: [], ", 1)),
    ] {
        pauses_no_more_while_the_end_does(&both, &mut peer).await;
    }
}

async fn pauses_no_more_while_the_end_does(both: &str, peer: &mut Peer) {
    let project = Project::with(&format!("onError:\n  - {{id: closing, wait: 4m}}\n{}", manual(both)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(400, "no").await;
    until_suspended(&engine).await;
    let now = engine.clock().now();
    let due = now + Duration::from_secs(240);
    assert_eq!(pauses_until(&engine, id).await, [Some(due)]);
    assert_eq!(woken_at(&engine, id).await, [Some(due)], "nothing else wakes it");
    crash(engine).await;
    let engine = project.start().await;
    until_suspended(&engine).await;
    assert_eq!(pauses_until(&engine, id).await, [Some(due)]);
    assert_eq!(woken_at(&engine, id).await, [Some(due)], "nothing else wakes it");
    project.clock.advance(Duration::from_secs(240));
    assert!(end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_timeout_extended_by_a_wait_does_not_busy_poll() {
    let mut peer = Peer::new().await;
    let (first, beside) = (request_step("first", &peer), request_step("beside", &peer));
    let steps =
        format!("  - {first}\n  - parallel:\n      a:\n        - wait: 1h\n      b:\n        - {beside}\n");
    let project = Project::with(&format!("timeout: 1s\n{}", manual(&steps)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    // A millisecond of the timeout is left when the wait begins, and remains left during the wait.
    project.clock.advance(Duration::from_millis(999));
    asked.answer(200, "1").await;
    let asked = peer.next_request().await;
    let due = engine.clock().now() + Duration::from_secs(3600);
    soon(project.clock.somebody_sleeps_until(due)).await;
    let before = project.clock.sleeps();
    for _ in 0..2_000 {
        project.clock.advance(Duration::from_millis(1));
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
    let looks = project.clock.sleeps() - before;
    assert!((1..20).contains(&looks), "{looks} looks within two seconds");
    project.clock.advance_to(due);
    asked.answer(200, "1").await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_cancellation_ends_waits_before_the_finally_steps_wait() {
    let end_of_it = "finally:\n  - wait: 4m\n  - wait: 30s\n";
    let project = Project::with(&format!("{end_of_it}{}", manual("  - {id: a, wait: 10m}\n")));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    assert!(engine.admission().cancel(id, "enough").await.expect("it is asked"));
    until_suspended_for(&engine, id, 240).await;
    crash(engine).await;
    let engine = project.start().await;
    project.clock.advance(Duration::from_secs(240));
    until_suspended_for(&engine, id, 30).await;
    project.clock.advance(Duration::from_secs(30));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn a_stop_ends_parallel_waits_before_the_finally_steps_wait() {
    let mut peer = Peer::new().await;
    let both =
        format!("{{parallel: {{a: [{{wait: 10m}}], b: [{}, {{stop: {{}}}}]}}}}", request_step("b", &peer));
    let project = Project::with(&format!("finally:\n  - wait: 4m\n{}", manual(&format!("  - {both}\n"))));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    until_suspended_for(&engine, id, 240).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_timed_out_wait_is_not_reused_by_the_next_attempt() {
    let text = "  - {id: a, waitFor: {event: go}, timeout: 1m, retry: {max: 1, delay: 5m}}\n";
    let project = Project::with(&manual(text));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(60));
    let due = engine.clock().now() + Duration::from_secs(300);
    until_wait_ends_at(&engine, id, due).await;
    assert_eq!(pauses_until(&engine, id).await, [], "it waits for its next try");
    crash(engine).await;
    let engine = project.start().await;
    project.clock.advance(Duration::from_secs(300));
    until_suspended_for(&engine, id, 60).await;
    assert_eq!(
        engine.admission().emit("go", value::Value::Null, None).await.expect("it is sent").delivered,
        1
    );
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_repeated_after_a_short_retry_delay_has_its_full_timeout() {
    let text = "  - {id: a, waitFor: {event: go}, timeout: 1m, retry: {max: 1, delay: 2s}}\n";
    let project = Project::with(&manual(text));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(60));
    pass(&project, Duration::from_secs(2)).await;
    until_suspended_for(&engine, id, 60).await;
    assert_eq!(
        engine.admission().emit("go", value::Value::Null, None).await.expect("it is sent").delivered,
        1
    );
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}
