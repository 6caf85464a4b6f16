//! The history of an execution records its delays and the response of its caller.

use std::time::Duration;

use engine::Engine;
use model::Payload;
use model::execution::{DelayReason, Event, ExecutionId, Origin};
use value::Map;

use crate::common::{Peer, Project, call, manual, soon, stop};
use crate::hooks::{post, tokens};

async fn events(engine: &Engine, id: ExecutionId) -> Vec<Event> {
    engine.store().events(id).await.expect("the store reads").expect("it is known")
}

/// Returns the recorded delays of an execution: step, reason, and milliseconds.
async fn waits(engine: &Engine, id: ExecutionId) -> Vec<(Option<String>, DelayReason, u64)> {
    let waits = events(engine, id).await.into_iter().filter_map(|event| match event {
        Event::Waited { step, reason, ms, .. } => Some((step, reason, ms)),
        _ => None,
    });
    waits.collect()
}

/// Waits for the recorded response and returns its status.
async fn answered(engine: &Engine, id: ExecutionId) -> u16 {
    soon(async {
        loop {
            for event in events(engine, id).await {
                if let Event::Answered { status, .. } = event {
                    return status;
                }
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

async fn start(engine: &Engine) -> ExecutionId {
    let id = engine.catalog().find("test").expect("it is in force").automation.id.clone();
    let start = runtime::ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
    soon(engine.ingress().start(&id.clone().into(), start)).await.expect("it is accepted")
}

#[tokio::test]
async fn the_history_says_which_execution_held_the_permit() {
    let mut peer = Peer::new().await;
    let yaml = format!("concurrency: {{limit: 1, key: k}}\n{}", manual(&call("a", &peer.base, "/a")));
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let first = start(&engine).await;
    let asked = peer.next_request().await;
    let second = start(&engine).await;
    let queue_status = engine.admission().queue_status(second).await.expect("it is known");
    assert_eq!(queue_status.turn.expect("it waits for a permit").holders, [first]);
    project.clock.advance(Duration::from_secs(3));
    asked.answer(200, "1").await;
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(second)).await.expect("it ends");
    let permit = DelayReason::Permit { key: "k".to_owned(), holder: Some(first) };
    assert_eq!(waits(&engine, second).await, [(None, permit, 3000)]);
    assert_eq!(waits(&engine, first).await, [], "the first one waited for nothing");
    stop(engine).await;
}

#[tokio::test]
async fn the_history_says_that_an_execution_waited_for_a_slot() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    project.settings.limits.in_flight = 1;
    let engine = project.start().await;
    let first = start(&engine).await;
    let asked = peer.next_request().await;
    let second = start(&engine).await;
    assert_eq!(engine.admission().queue_status(second).await.expect("it is known").queued_behind, Some(0));
    project.clock.advance(Duration::from_millis(1500));
    asked.answer(200, "1").await;
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(second)).await.expect("it ends");
    assert_eq!(waits(&engine, second).await, [(None, DelayReason::Slot, 1500)]);
    assert_eq!(waits(&engine, first).await, []);
    stop(engine).await;
}

#[tokio::test]
async fn a_short_wait_is_not_recorded() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    project.settings.limits.in_flight = 1;
    let engine = project.start().await;
    start(&engine).await;
    let asked = peer.next_request().await;
    let second = start(&engine).await;
    project.clock.advance(Event::MIN_WAITED - Duration::from_millis(1));
    asked.answer(200, "1").await;
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(second)).await.expect("it ends");
    assert_eq!(waits(&engine, second).await, []);
    stop(engine).await;
}

#[tokio::test]
async fn the_duration_of_a_step_leaves_out_its_wait_for_a_commit() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + &call("b", &peer.base, "/b");
    let project = Project::with(&manual(&steps));
    let (engine, store) = project.start_watched().await;
    let id = start(&engine).await;
    let asked = peer.next_request().await;
    store.shut();
    asked.answer(200, "1").await;
    // The effect of `b` starts once the result of `a` is committed.
    store.held(1).await;
    project.clock.advance(Duration::from_secs(2));
    store.gate.add_permits(1000);
    let asked = peer.next_request().await;
    project.clock.advance(Duration::from_secs(5));
    asked.answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    let took = events(&engine, id).await.into_iter().find_map(|event| match event {
        Event::StepFinished { step, took_us, .. } if step == "b" => Some(took_us),
        _ => None,
    });
    assert_eq!(took, Some(5_000_000));
    assert_eq!(waits(&engine, id).await, [(Some("b".to_owned()), DelayReason::Commit, 2000)]);
    stop(engine).await;
}

/// Sends a request to the live address, and lets the timeout of the webhook pass. Returns the execution.
async fn time_out(project: &Project, engine: &Engine, begun: impl Future<Output = ()>) -> ExecutionId {
    let (live, _) = tokens(engine);
    let due = engine.clock().now() + Duration::from_secs(10);
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.ingress().receive(&live, post("{}")).await }
    });
    begun.await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(10));
    let answer = soon(waiting).await.expect("it answers");
    assert_eq!(answer.status, 504);
    answer.header("x-execution-id").expect("it names the execution").parse().expect("an id")
}

#[tokio::test]
async fn a_caller_that_got_504_is_recorded() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{webhook: {{mode: sync, timeout: 10s}}}}\nsteps:\n{}",
        call("a", &peer.base, "/a")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let mut held = None;
    let id = time_out(&project, &engine, async { held = Some(peer.next_request().await) }).await;
    held.expect("it was called").answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(answered(&engine, id).await, 504);
    stop(engine).await;
}

#[tokio::test]
async fn a_caller_that_got_504_while_the_execution_was_suspended_is_recorded_at_once() {
    let yaml = "trigger: {webhook: {mode: sync, timeout: 10s}}\nsteps:\n  - wait: 1h\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let suspended = async {
        while engine.status().resting == 0 {
            tokio::task::yield_now().await;
        }
    };
    let id = time_out(&project, &engine, suspended).await;
    assert_eq!(answered(&engine, id).await, 504);
    stop(engine).await;
    // The wait continues over a restart.
    let engine = project.start().await;
    assert_eq!(engine.status().resting, 1);
    project.clock.advance(Duration::from_secs(3600));
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    assert!(matches!(outcome, model::Outcome::Succeeded { .. }));
    assert_eq!(answered(&engine, id).await, 504);
    stop(engine).await;
}

#[tokio::test]
async fn a_response_implied_by_the_log_is_not_recorded_again() {
    let yaml = "trigger: {webhook: {mode: sync}}\nsteps:\n  - set: {x: 1}\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    let events = events(&engine, id).await;
    assert!(!events.iter().any(Event::is_informational), "{events:?}");
    stop(engine).await;
}
