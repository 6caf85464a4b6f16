//! Pauses, time limits and tries, and what is left of them.

use std::sync::Arc;
use std::time::Duration;

use model::Event;
use runtime::EngineEvent;

use super::{asks, is_woken_at, pauses_until, rests, rests_for, woken_at};
use crate::common::{Peer, Project, call, crash, end, manual, soon, start_and_rest, start_with, stop};
use crate::watched::Watched;

#[tokio::test]
async fn an_execution_of_which_a_list_was_tried_again_is_read_back() {
    let mut peer = Peer::new().await;
    let inner = call("a", &peer.base, "/a").replace("\n  ", "\n      ").replacen("  -", "      -", 1);
    let steps =
        format!("  - id: all\n    retry: {{max: 1, delay: 5m}}\n    steps:\n{inner}      - wait: 1h\n");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(503, "no").await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(300));
    peer.asked().await.answer(200, "1").await;
    rests(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(3600));
    assert_eq!(end(&engine, id).await, "null");
    assert!(peer.asked_already().is_none(), "what succeeded is not done again");
    stop(engine).await;
}

#[tokio::test]
async fn what_rests_in_its_closing_steps_is_cancelled_once() {
    let text = format!("finally:\n  - wait: 4m\n{}", manual("  - waitFor: {event: never}\n"));
    let project = Project::with(&text);
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    let id = start_and_rest(&engine, "{}").await;
    assert!(engine.runtime().cancel(id, "enough").await.expect("it is asked"));
    rests_for(&engine, id, 240).await;
    let reads = store.reads_meanwhile(id).await;
    assert!(reads <= 2, "it is read back {reads} times while it rests");
    assert!(engine.runtime().cancel(id, "really").await.expect("it is asked"));
    project.clock.advance(Duration::from_secs(240));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn a_try_that_is_due_while_another_branch_works_is_made() {
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
    let (one, two) = (peer.asked().await, peer.asked().await);
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
    let again = peer.asked().await;
    assert_eq!(again.line, "POST /a", "the other branch need not end for it");
    again.answer(200, "2").await;
    b.answer(200, "1").await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_pause_ends_in_time_and_an_event_is_heard_whatever_another_branch_does() {
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
        let b = peer.asked().await;
        assert_eq!(b.line, "POST /b");
        if emits {
            // One event alone: the step may read it from the retained events, and a later one would find nobody.
            soon(async {
                let is_waiting = async || {
                    let status = engine.runtime().queue_status(id).await.expect("it can be read");
                    !status.pauses.is_empty()
                };
                while !is_waiting().await {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            engine.runtime().emit("go", value::Value::Null, None).await.expect("it is sent");
        } else {
            let due = engine.clock().now() + Duration::from_secs(300);
            soon(project.clock.somebody_sleeps_until(due)).await;
            project.clock.advance(Duration::from_secs(300));
        }
        let a = peer.asked().await;
        assert_eq!(a.line, "POST /a", "{pause}");
        a.answer(200, "1").await;
        b.answer(200, "1").await;
        assert!(!end(&engine, id).await.starts_with("failed"));
        stop(engine).await;
    }
}

#[tokio::test]
async fn the_time_limit_of_a_second_try_goes_on_over_a_restart() {
    let mut peer = Peer::new().await;
    let list = format!("steps: [{}, {{wait: 20m}}]", asks("a", &peer));
    let project = Project::with(&manual(&format!(
        "  - {{id: all, timeout: 15m, retry: {{max: 1, delay: 1m}}, {list}}}\n"
    )));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(503, "no").await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(60));
    peer.asked().await.answer(200, "1").await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(600));
    crash(engine).await;
    let engine = project.start().await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(300));
    let end = end(&engine, id).await;
    assert_eq!(end, "failed: step `all` took longer than its timeout of 15m");
    stop(engine).await;
}

#[tokio::test]
async fn a_pause_that_a_failed_try_left_is_not_that_of_the_next_one() {
    let mut peer = Peer::new().await;
    let branches = format!("parallel: {{a: [{{id: pause, wait: 1h}}], b: [{}]}}", asks("b", &peer));
    // Inside of another step, whose end ends it, and right inside of what is tried again.
    for inside in [format!("steps: [{{id: both, {branches}}}]"), branches] {
        not_that_of_the_next_try(&format!("{{id: all, retry: {{max: 1, delay: 5m}}, {inside}}}"), &mut peer)
            .await;
    }
}

async fn not_that_of_the_next_try(step: &str, peer: &mut Peer) {
    let project = Project::with(&manual(&format!("  - {step}\n")));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(503, "no").await;
    rests(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(300));
    peer.asked().await.answer(200, "1").await;
    rests(&engine).await;
    let due = engine.clock().now() + Duration::from_secs(3600);
    assert_eq!(pauses_until(&engine, id).await, [Some(due)]);
    project.clock.advance(Duration::from_secs(3600));
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_try_that_is_due_when_all_else_begins_to_pause_is_made() {
    let mut peer = Peer::new().await;
    let again = asks("a", &peer).replacen('{', "{retry: {max: 1, delay: 3s}, ", 1);
    let both = format!("  - parallel: {{a: [{again}], b: [{{wait: 2s}}, {{wait: 1h}}]}}\n");
    let project = Project::with(&manual(&both));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(3);
    peer.asked().await.answer(503, "no").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    // Both branches wake, the one that pauses on first: with that nothing but pauses is left.
    project.clock.advance(Duration::from_secs(3));
    soon(peer.asked()).await.answer(200, "1").await;
    rests(&engine).await;
    project.clock.advance(Duration::from_secs(3600));
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_pause_puts_a_time_limit_off_by_no_more_than_it_was_to_last() {
    let mut peer = Peer::new().await;
    let both = format!("  - parallel: {{a: [{{wait: 5m}}], b: [{}]}}\n", asks("b", &peer));
    let project = Project::with(&format!("timeout: 2m\n{}", manual(&both)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(300);
    let _asked = peer.asked().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    // Nobody looks before both times are over, as after a machine has slept.
    project.clock.advance(Duration::from_secs(300 + 121));
    assert_eq!(end(&engine, id).await, "failed: the execution took longer than its timeout of 2m");
    stop(engine).await;
}

#[tokio::test]
async fn what_paused_beside_a_failure_pauses_no_more_while_the_end_does() {
    let mut peer = Peer::new().await;
    let b = asks("b", &peer);
    // Inside of a step, which ends what pauses in it when it fails, and in the list of the whole, where nobody else does.
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
    peer.asked().await.answer(400, "no").await;
    rests(&engine).await;
    let now = engine.clock().now();
    let due = now + Duration::from_secs(240);
    assert_eq!(pauses_until(&engine, id).await, [Some(due)]);
    assert_eq!(woken_at(&engine, id).await, [Some(due)], "nothing else wakes it");
    crash(engine).await;
    let engine = project.start().await;
    rests(&engine).await;
    assert_eq!(pauses_until(&engine, id).await, [Some(due)]);
    assert_eq!(woken_at(&engine, id).await, [Some(due)], "nothing else wakes it");
    project.clock.advance(Duration::from_secs(240));
    assert!(end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_time_limit_that_a_pause_puts_off_is_not_looked_at_at_every_moment() {
    let mut peer = Peer::new().await;
    let (first, beside) = (asks("first", &peer), asks("beside", &peer));
    let steps =
        format!("  - {first}\n  - parallel:\n      a:\n        - wait: 1h\n      b:\n        - {beside}\n");
    let project = Project::with(&format!("timeout: 1s\n{}", manual(&steps)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    // A millisecond is left of the time limit when the pause begins, and stays left while it lasts.
    project.clock.advance(Duration::from_millis(999));
    asked.answer(200, "1").await;
    let asked = peer.asked().await;
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
async fn what_paused_when_the_execution_was_cancelled_pauses_no_more_while_the_end_does() {
    let end_of_it = "finally:\n  - wait: 4m\n  - wait: 3m\n";
    let project = Project::with(&format!("{end_of_it}{}", manual("  - {id: a, wait: 10m}\n")));
    let engine = project.start().await;
    let id = start_and_rest(&engine, "{}").await;
    assert!(engine.runtime().cancel(id, "enough").await.expect("it is asked"));
    rests_for(&engine, id, 240).await;
    crash(engine).await;
    let engine = project.start().await;
    project.clock.advance(Duration::from_secs(240));
    rests_for(&engine, id, 180).await;
    project.clock.advance(Duration::from_secs(180));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn what_paused_beside_a_stop_pauses_no_more_while_the_end_does() {
    let mut peer = Peer::new().await;
    let both = format!("{{parallel: {{a: [{{wait: 10m}}], b: [{}, {{stop: {{}}}}]}}}}", asks("b", &peer));
    let project = Project::with(&format!("finally:\n  - wait: 4m\n{}", manual(&format!("  - {both}\n"))));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "1").await;
    rests_for(&engine, id, 240).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_pause_of_a_step_that_failed_over_it_is_not_that_of_its_next_try() {
    let text = "  - {id: a, waitFor: {event: go}, timeout: 1m, retry: {max: 1, delay: 5m}}\n";
    let project = Project::with(&manual(text));
    let engine = project.start().await;
    let id = start_and_rest(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(60));
    let due = engine.clock().now() + Duration::from_secs(300);
    is_woken_at(&engine, id, due).await;
    assert_eq!(pauses_until(&engine, id).await, [], "it waits for its next try");
    crash(engine).await;
    let engine = project.start().await;
    project.clock.advance(Duration::from_secs(300));
    rests_for(&engine, id, 60).await;
    assert_eq!(engine.runtime().emit("go", value::Value::Null, None).await.expect("it is sent").delivered, 1);
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_waits_again_after_a_moment_waits_as_long_as_before() {
    let text = "  - {id: a, waitFor: {event: go}, timeout: 1m, retry: {max: 1, delay: 2s}}\n";
    let project = Project::with(&manual(text));
    let engine = project.start().await;
    let id = start_and_rest(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(60));
    let due = engine.clock().now() + Duration::from_secs(2);
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(2));
    rests_for(&engine, id, 60).await;
    assert_eq!(engine.runtime().emit("go", value::Value::Null, None).await.expect("it is sent").delivered, 1);
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}
