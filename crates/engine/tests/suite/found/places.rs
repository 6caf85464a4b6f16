//! Places of `concurrency`, slots, and who waits for whom.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;
use jiff::SignedDuration;
use model::ExecutionId;
use model::execution::Origin;
use model::payload::Payload;
use runtime::Start;
use tokio::sync::Semaphore;
use value::Map;

use super::{asks, rests, waits_its_turn};
use crate::common::{Peer, Project, call, crash, end, manual, soon, start_and_rest, start_with, stop};
use crate::watched::Watched;

/// A project with one place, and what its only step asks.
fn one_place(peer: &Peer) -> Project {
    let steps = manual(&format!("  - {}\n", asks("a", peer)));
    Project::with(&format!("concurrency: {{limit: 1}}\n{steps}"))
}

/// Comes back once the engine knows that its store is lost, and carries nothing on.
async fn has_lost_its_store(engine: &Engine) {
    soon(async {
        while engine.runtime().status().accepting || engine.runtime().status().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Lets each of these executions ask in its turn, and nobody beside it.
async fn end_in_turn(engine: &Engine, peer: &mut Peer, ids: [ExecutionId; 2]) {
    for id in ids {
        let asked = peer.asked().await;
        assert_eq!(asked.header("idempotency-key"), Some(format!("{id}.a").as_str()));
        assert!(peer.asked_already().is_none(), "there is one place");
        asked.answer(200, "1").await;
        soon(engine.runtime().wait(id)).await.expect("it ends");
    }
}

#[tokio::test]
async fn who_is_cancelled_while_it_waits_its_turn_gives_nobody_a_place() {
    let mut peer = Peer::new().await;
    let text = format!("concurrency: {{limit: 1}}\n{}", manual(&call("a", &peer.base, "/a")));
    let project = Project::with(&text);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let held = peer.asked().await;
    let second = start_with(&engine, "{}").await;
    waits_its_turn(&engine, second).await;
    let third = start_with(&engine, "{}").await;
    waits_its_turn(&engine, third).await;
    assert!(engine.runtime().cancel(second, "not needed").await.expect("it is asked"));
    assert_eq!(end(&engine, second).await, "cancelled: not needed");
    waits_its_turn(&engine, third).await;
    assert!(peer.asked_already().is_none(), "the first still has the place");
    held.answer(200, "1").await;
    soon(engine.runtime().wait(first)).await.expect("it ends");
    peer.asked().await.answer(200, "1").await;
    soon(engine.runtime().wait(third)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn who_had_a_place_before_a_crash_has_it_after_and_nobody_passes_by() {
    let mut peer = Peer::new().await;
    let project = Project::with(&format!(
        "concurrency: {{limit: 1}}\n{}",
        manual(&format!("  - {}\n", asks("a", &peer)))
    ));
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let held = peer.asked().await;
    let second = start_with(&engine, "{}").await;
    waits_its_turn(&engine, second).await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    let third = start_with(&engine, "{}").await;
    for id in [first, second, third] {
        let asked = peer.asked().await;
        assert_eq!(asked.header("idempotency-key"), Some(format!("{id}.a").as_str()));
        assert!(peer.asked_already().is_none(), "there is one place");
        asked.answer(200, "1").await;
        soon(engine.runtime().wait(id)).await.expect("it ends");
    }
    stop(engine).await;
}

#[tokio::test]
async fn who_has_a_place_and_hears_of_something_before_its_turn_after_a_crash_is_not_passed_by() {
    let mut peer = Peer::new().await;
    // Another Automation takes the only slot, so that those with the limit still wait in the line when the event comes.
    let mut project =
        Project::with(&manual(&format!("  - waitFor: {{event: first}}\n  - {}\n", asks("a", &peer))));
    project.settings.limits.in_flight = 1;
    let steps = manual(&format!("  - waitFor: {{event: go}}\n  - {}\n", asks("b", &peer)));
    project.write("automations/limited.yaml", &format!("concurrency: {{limit: 1}}\n{steps}"));
    let engine = project.start().await;
    let other = start_and_rest(&engine, "{}").await;
    let limited = model::AutomationId::parse("limited").expect("an id");
    let start = async || {
        let start = Start { payload: Payload::manual(Map::new()), origin: Origin::Manual };
        engine.ingress().start(&limited, start).await.expect("it starts")
    };
    let first = start().await;
    soon(async {
        while engine.runtime().status().resting < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let second = start().await;
    waits_its_turn(&engine, second).await;
    engine.runtime().emit("first", value::Value::Null, None).await.expect("it is sent");
    drop(peer.asked().await);
    crash(engine).await;
    let engine = project.start().await;
    let asked = peer.asked().await;
    assert_eq!(asked.line, "POST /a");
    assert_eq!(engine.runtime().emit("go", value::Value::Null, None).await.expect("it is sent").delivered, 1);
    asked.answer(200, "1").await;
    soon(engine.runtime().wait(other)).await.expect("it ends");
    let asked = peer.asked().await;
    assert_eq!(asked.header("idempotency-key"), Some(format!("{first}.b").as_str()));
    asked.answer(200, "1").await;
    soon(engine.runtime().wait(first)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn who_waits_for_an_execution_that_is_on_its_way_does_not_read_its_log_again_and_again() {
    let project = Project::with(&manual("  - wait: 1h\n"));
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    let id = start_and_rest(&engine, "{}").await;
    store.shut();
    project.clock.advance(Duration::from_secs(3600));
    store.held(1).await;
    // It is neither at rest nor in memory, as long as the store takes its time.
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.runtime().wait(id).await }
    });
    let reads = store.reads_meanwhile(id).await;
    assert!(reads <= 2, "{reads} times while nothing happened");
    store.gate.add_permits(1 << 10);
    soon(waiting).await.expect("no panic").expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn nobody_takes_a_place_before_those_of_the_process_before_have_come() {
    let mut peer = Peer::new().await;
    let project = one_place(&peer);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let held = peer.asked().await;
    crash(engine).await;
    drop(held);
    let store = Arc::new(Watched::new(project.open_store()));
    store.reading.forget_permits(Semaphore::MAX_PERMITS);
    let engine = project.start_on(store.clone()).await;
    soon(async {
        while store.reads.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The first is on its way, and nobody waits for a slot.
    let second = start_with(&engine, "{}").await;
    soon(async {
        while engine.runtime().status().queued == 0 {
            assert!(peer.asked_already().is_none(), "the place is the first one's");
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.reading.add_permits(1 << 10);
    end_in_turn(&engine, &mut peer, [first, second]).await;
    stop(engine).await;
}

#[tokio::test]
async fn who_goes_on_in_the_next_process_keeps_its_place_in_this_one() {
    let mut peer = Peer::new().await;
    let project = one_place(&peer);
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    let first = start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    store.shut();
    let second = tokio::spawn({
        let engine = engine.clone();
        async move { start_with(&engine, "{}").await }
    });
    store.held(1).await;
    // The outcome of the first is unknown: it has not ended, and only the next start decides.
    store.fail.store(1, Ordering::SeqCst);
    asked.answer(200, "1").await;
    has_lost_its_store(&engine).await;
    store.fail.store(0, Ordering::SeqCst);
    store.gate.add_permits(1 << 10);
    let second = soon(second).await.expect("it is accepted");
    waits_its_turn(&engine, second).await;
    assert!(peer.asked_already().is_none(), "the place is the first one's");
    crash(engine).await;
    let engine = project.start().await;
    end_in_turn(&engine, &mut peer, [first, second]).await;
    stop(engine).await;
}

#[tokio::test]
async fn nobody_begins_in_a_process_that_has_lost_its_store() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&format!("  - {}\n", asks("a", &peer))));
    project.settings.limits.in_flight = 1;
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    let first = start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    let second = start_with(&engine, "{}").await;
    assert_eq!(engine.runtime().status().queued, 1, "there is one slot");
    store.fail.store(1, Ordering::SeqCst);
    asked.answer(200, "1").await;
    has_lost_its_store(&engine).await;
    // The slot is free, and whoever gives it away has had a turn.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.runtime().status().queued, 1, "what it did would leave nothing behind");
    crash(engine).await;
    let engine = project.start().await;
    end_in_turn(&engine, &mut peer, [first, second]).await;
    stop(engine).await;
}

#[tokio::test]
async fn who_cannot_be_read_back_holds_nobody_up() {
    let mut peer = Peer::new().await;
    let project = one_place(&peer);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    drop(peer.asked().await);
    crash(engine).await;
    let store = Arc::new(Watched::new(project.open_store()));
    *store.hidden.lock().expect("nobody panicked") = Some(first);
    let engine = project.start_on(store.clone()).await;
    let second = start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    assert_eq!(asked.header("idempotency-key"), Some(format!("{second}.a").as_str()));
    asked.answer(200, "1").await;
    soon(engine.runtime().wait(second)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn who_had_begun_goes_on_before_those_whose_ids_are_older() {
    let mut peer = Peer::new().await;
    let steps = manual(&format!("  - {}\n  - {}\n", asks("before", &peer), asks("a", &peer)));
    let project = Project::with(&format!("concurrency: {{limit: 1}}\n{steps}"));
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "1").await;
    let held = peer.asked().await;
    // An id is as old as the clock said when it was given.
    project.clock.step(SignedDuration::from_hours(-1));
    let second = start_with(&engine, "{}").await;
    assert!(second < first);
    waits_its_turn(&engine, second).await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    for (id, step) in [(first, "a"), (second, "before"), (second, "a")] {
        let asked = peer.asked().await;
        assert_eq!(asked.header("idempotency-key"), Some(format!("{id}.{step}").as_str()));
        asked.answer(200, "1").await;
    }
    soon(engine.runtime().wait(second)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn whoever_is_cancelled_on_the_way_into_memory_ends() {
    let project = Project::with(&manual("  - waitFor: {event: go}\n"));
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    // While what came for it is recorded, and while it is read back to go on with that.
    for held in [1, 2] {
        let id = start_and_rest(&engine, "{}").await;
        store.gate.forget_permits(Semaphore::MAX_PERMITS);
        let sent = tokio::spawn({
            let engine = engine.clone();
            async move { engine.runtime().emit("go", value::Value::Null, None).await }
        });
        for _ in 1..held {
            store.held(1).await;
            store.gate.add_permits(1);
            soon(async {
                while store.waiting.load(Ordering::SeqCst) > 0 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        store.held(1).await;
        assert!(engine.runtime().cancel(id, "enough").await.expect("it is asked"), "held {held}");
        store.gate.add_permits(1 << 10);
        soon(sent).await.expect("no panic").expect("it is sent");
        assert_eq!(end(&engine, id).await, "cancelled: enough");
    }
    stop(engine).await;
}

#[tokio::test]
async fn nobody_goes_on_with_one_in_the_line_while_what_came_for_it_is_recorded() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&format!("  - {}\n", asks("b", &peer))));
    project.settings.limits.in_flight = 1;
    let listens = "{waitFor: {event: go}}";
    let both = format!("  - parallel: {{a: [{{wait: 5m}}], b: [{listens}], c: [{listens}]}}\n");
    project.write("automations/listening.yaml", &manual(&both));
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    let listening = model::AutomationId::parse("listening").expect("an id");
    let start = Start { payload: Payload::manual(Map::new()), origin: Origin::Manual };
    let id = engine.ingress().start(&listening, start).await.expect("it starts");
    rests(&engine).await;
    let other = start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    // Its pause is over and the only slot is taken: it is in the line when two of its steps hear of the event.
    project.clock.advance(Duration::from_secs(300));
    soon(async {
        while engine.runtime().status().queued == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.reading.forget_permits(Semaphore::MAX_PERMITS);
    let seen = || (store.reads.load(Ordering::SeqCst), store.looks.load(Ordering::SeqCst));
    let before = seen();
    let sent = tokio::spawn({
        let engine = engine.clone();
        async move { engine.runtime().emit("go", value::Value::Null, None).await }
    });
    // One records, the other sees that somebody does.
    soon(async {
        while seen().0 + seen().1 < before.0 + before.1 + 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    asked.answer(200, "1").await;
    soon(engine.runtime().wait(other)).await.expect("it ends");
    // The slot is free, and whoever gives it away has had a turn.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(seen().0, before.0 + 1, "one reads it to record, and nobody else reads it meanwhile");
    store.reading.add_permits(1 << 10);
    assert_eq!(soon(sent).await.expect("no panic").expect("it is sent").delivered, 2);
    assert!(!end(&engine, id).await.starts_with("failed"));
    stop(engine).await;
}
