//! Concurrency permits, slots, and the order of waiting executions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;
use jiff::SignedDuration;
use model::ExecutionId;
use model::execution::Origin;
use model::payload::Payload;
use tokio::sync::Semaphore;
use value::Map;

use super::{request_step, until_waiting_for_permit};
use crate::common::{
    Peer, Project, call, crash, end, manual, soon, start_and_suspend, start_with, stop, until,
    until_suspended,
};
use crate::watched::Watched;

/// Creates a project with one permit and one step that sends a request.
fn one_permit(peer: &Peer) -> Project {
    let steps = manual(&format!("  - {}\n", request_step("a", peer)));
    Project::with(&format!("concurrency: {{limit: 1}}\n{steps}"))
}

/// Waits until the engine has noticed the loss of its store and runs no execution.
async fn until_store_is_lost(engine: &Engine) {
    until(|| !engine.status().accepting && engine.status().in_flight == 0).await;
}

/// Asserts that these executions send their requests one after the other, and answers them.
async fn end_in_turn(engine: &Engine, peer: &mut Peer, ids: [ExecutionId; 2]) {
    for id in ids {
        let asked = peer.next_request().await;
        assert_eq!(asked.header("idempotency-key"), Some(format!("{id}.a").as_str()));
        assert!(peer.pending_request().is_none(), "there is one permit");
        asked.answer(200, "1").await;
        soon(engine.admission().wait(id)).await.expect("it ends");
    }
}

#[tokio::test]
async fn cancelling_a_waiting_execution_frees_no_permit() {
    let mut peer = Peer::new().await;
    let text = format!("concurrency: {{limit: 1}}\n{}", manual(&call("a", &peer.base, "/a")));
    let project = Project::with(&text);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    let second = start_with(&engine, "{}").await;
    until_waiting_for_permit(&engine, second).await;
    let third = start_with(&engine, "{}").await;
    until_waiting_for_permit(&engine, third).await;
    assert!(engine.admission().cancel(second, "not needed").await.expect("it is asked"));
    assert_eq!(end(&engine, second).await, "cancelled: not needed");
    until_waiting_for_permit(&engine, third).await;
    assert!(peer.pending_request().is_none(), "the first still holds the permit");
    held.answer(200, "1").await;
    soon(engine.admission().wait(first)).await.expect("it ends");
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(third)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_permit_holder_keeps_its_permit_and_order_after_a_crash() {
    let mut peer = Peer::new().await;
    let project = Project::with(&format!(
        "concurrency: {{limit: 1}}\n{}",
        manual(&format!("  - {}\n", request_step("a", &peer)))
    ));
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    let second = start_with(&engine, "{}").await;
    until_waiting_for_permit(&engine, second).await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    let third = start_with(&engine, "{}").await;
    for id in [first, second, third] {
        let asked = peer.next_request().await;
        assert_eq!(asked.header("idempotency-key"), Some(format!("{id}.a").as_str()));
        assert!(peer.pending_request().is_none(), "there is one permit");
        asked.answer(200, "1").await;
        soon(engine.admission().wait(id)).await.expect("it ends");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_recovering_permit_holder_that_receives_an_event_is_not_overtaken() {
    let mut peer = Peer::new().await;
    // Another Automation takes the only slot, so the limited executions are still queued when the event arrives.
    let mut project =
        Project::with(&manual(&format!("  - waitFor: {{event: first}}\n  - {}\n", request_step("a", &peer))));
    project.settings.limits.in_flight = 1;
    let steps = manual(&format!("  - waitFor: {{event: go}}\n  - {}\n", request_step("b", &peer)));
    project.write("automations/limited.yaml", &format!("concurrency: {{limit: 1}}\n{steps}"));
    let engine = project.start().await;
    let other = start_and_suspend(&engine, "{}").await;
    let limited = model::AutomationId::parse("limited").expect("an id");
    let start = async || {
        let start = runtime::ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
        engine.ingress().start(&limited.clone().into(), start).await.expect("it starts")
    };
    let first = start().await;
    until(|| engine.status().resting >= 2).await;
    let second = start().await;
    until_waiting_for_permit(&engine, second).await;
    engine.admission().emit("first", value::Value::Null, None).await.expect("it is sent");
    drop(peer.next_request().await);
    crash(engine).await;
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /a");
    assert_eq!(
        engine.admission().emit("go", value::Value::Null, None).await.expect("it is sent").delivered,
        1
    );
    asked.answer(200, "1").await;
    soon(engine.admission().wait(other)).await.expect("it ends");
    let asked = peer.next_request().await;
    assert_eq!(asked.header("idempotency-key"), Some(format!("{first}.b").as_str()));
    asked.answer(200, "1").await;
    soon(engine.admission().wait(first)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_waiter_for_a_loading_execution_does_not_reread_its_log() {
    let project = Project::with(&manual("  - wait: 1h\n"));
    let (engine, store) = project.start_watched().await;
    let id = start_and_suspend(&engine, "{}").await;
    store.shut();
    project.clock.advance(Duration::from_secs(3600));
    store.held(1).await;
    // While the store is blocked, the execution is neither suspended nor in memory.
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.admission().wait(id).await }
    });
    let reads = store.reads_meanwhile(id).await;
    assert!(reads <= 2, "{reads} times while nothing happened");
    store.gate.add_permits(1 << 10);
    soon(waiting).await.expect("no panic").expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn no_permit_is_given_before_recovered_holders_are_loaded() {
    let mut peer = Peer::new().await;
    let project = one_permit(&peer);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    let store = Watched::new(project.open_store());
    store.reading.forget_permits(Semaphore::MAX_PERMITS);
    let engine = project.start_on(store.store()).await;
    until(|| store.reads.load(Ordering::SeqCst) > 0).await;
    // The first execution is being loaded, and none waits for a slot.
    let second = start_with(&engine, "{}").await;
    soon(async {
        while engine.status().queued == 0 {
            assert!(peer.pending_request().is_none(), "the permit is the first one's");
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.reading.add_permits(1 << 10);
    end_in_turn(&engine, &mut peer, [first, second]).await;
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_left_for_the_next_process_keeps_its_permit_in_this_one() {
    let mut peer = Peer::new().await;
    let project = one_permit(&peer);
    let (engine, store) = project.start_watched().await;
    let first = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    store.shut();
    let second = tokio::spawn({
        let engine = engine.clone();
        async move { start_with(&engine, "{}").await }
    });
    store.held(1).await;
    // The outcome of the first is unknown: it has not ended, and only the next start decides.
    store.fail.store(1, Ordering::SeqCst);
    asked.answer(200, "1").await;
    until_store_is_lost(&engine).await;
    store.fail.store(0, Ordering::SeqCst);
    store.gate.add_permits(1 << 10);
    let second = soon(second).await.expect("it is accepted");
    until_waiting_for_permit(&engine, second).await;
    assert!(peer.pending_request().is_none(), "the permit is the first one's");
    crash(engine).await;
    let engine = project.start().await;
    end_in_turn(&engine, &mut peer, [first, second]).await;
    stop(engine).await;
}

#[tokio::test]
async fn no_execution_starts_after_the_store_is_lost() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&format!("  - {}\n", request_step("a", &peer))));
    project.settings.limits.in_flight = 1;
    let (engine, store) = project.start_watched().await;
    let first = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    let second = start_with(&engine, "{}").await;
    assert_eq!(engine.status().queued, 1, "there is one slot");
    store.fail.store(1, Ordering::SeqCst);
    asked.answer(200, "1").await;
    until_store_is_lost(&engine).await;
    // The slot is free, and the dispatcher has had time to run.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.status().queued, 1, "its effects could not be stored");
    crash(engine).await;
    let engine = project.start().await;
    end_in_turn(&engine, &mut peer, [first, second]).await;
    stop(engine).await;
}

#[tokio::test]
async fn an_unrecoverable_execution_blocks_no_others() {
    let mut peer = Peer::new().await;
    let project = one_permit(&peer);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    drop(peer.next_request().await);
    crash(engine).await;
    let store = Watched::new(project.open_store());
    *store.hidden.lock().expect("nobody panicked") = Some(first);
    let engine = project.start_on(store.store()).await;
    let second = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    assert_eq!(asked.header("idempotency-key"), Some(format!("{second}.a").as_str()));
    asked.answer(200, "1").await;
    soon(engine.admission().wait(second)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_started_execution_resumes_before_waiting_ones_with_older_ids() {
    let mut peer = Peer::new().await;
    let steps = manual(&format!("  - {}\n  - {}\n", request_step("before", &peer), request_step("a", &peer)));
    let project = Project::with(&format!("concurrency: {{limit: 1}}\n{steps}"));
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    let held = peer.next_request().await;
    // An id contains the wall-clock time of its creation.
    project.clock.step(SignedDuration::from_hours(-1));
    let second = start_with(&engine, "{}").await;
    assert!(second < first);
    until_waiting_for_permit(&engine, second).await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    for (id, step) in [(first, "a"), (second, "before"), (second, "a")] {
        let asked = peer.next_request().await;
        assert_eq!(asked.header("idempotency-key"), Some(format!("{id}.{step}").as_str()));
        asked.answer(200, "1").await;
    }
    soon(engine.admission().wait(second)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_cancelled_while_loading_ends() {
    let project = Project::with(&manual("  - waitFor: {event: go}\n"));
    let (engine, store) = project.start_watched().await;
    // Once while the signal is recorded, and once while the execution is loaded to process it.
    for held in [1, 2] {
        let id = start_and_suspend(&engine, "{}").await;
        store.gate.forget_permits(Semaphore::MAX_PERMITS);
        let sent = tokio::spawn({
            let engine = engine.clone();
            async move { engine.admission().emit("go", value::Value::Null, None).await }
        });
        for _ in 1..held {
            store.held(1).await;
            store.gate.add_permits(1);
            until(|| store.waiting.load(Ordering::SeqCst) == 0).await;
        }
        store.held(1).await;
        assert!(engine.admission().cancel(id, "enough").await.expect("it is asked"), "held {held}");
        store.gate.add_permits(1 << 10);
        soon(sent).await.expect("no panic").expect("it is sent");
        assert_eq!(end(&engine, id).await, "cancelled: enough");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_queued_execution_is_not_dispatched_while_a_signal_is_recorded() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&format!("  - {}\n", request_step("b", &peer))));
    project.settings.limits.in_flight = 1;
    let listens = "{waitFor: {event: go}}";
    let both = format!("  - parallel: {{a: [{{wait: 5m}}], b: [{listens}], c: [{listens}]}}\n");
    project.write("automations/listening.yaml", &manual(&both));
    let (engine, store) = project.start_watched().await;
    let listening = model::AutomationId::parse("listening").expect("an id");
    let start = runtime::ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
    let id = engine.ingress().start(&listening.clone().into(), start).await.expect("it starts");
    until_suspended(&engine).await;
    let other = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    // Its wait is over and the only slot is taken: it is queued when two of its steps receive the event.
    project.clock.advance(Duration::from_secs(300));
    until(|| engine.status().queued > 0).await;
    store.reading.forget_permits(Semaphore::MAX_PERMITS);
    let seen = || (store.reads.load(Ordering::SeqCst), store.looks.load(Ordering::SeqCst));
    let before = seen();
    let sent = tokio::spawn({
        let engine = engine.clone();
        async move { engine.admission().emit("go", value::Value::Null, None).await }
    });
    // One task records the signal, the other sees that it is being recorded.
    until(|| seen().0 + seen().1 >= before.0 + before.1 + 2).await;
    asked.answer(200, "1").await;
    soon(engine.admission().wait(other)).await.expect("it ends");
    // The slot is free, and the dispatcher has had time to run.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(seen().0, before.0 + 1, "only the recording task reads it");
    store.reading.add_permits(1 << 10);
    assert_eq!(soon(sent).await.expect("no panic").expect("it is sent").delivered, 2);
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}
