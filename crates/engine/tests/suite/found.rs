//! Faults that seeds of the simulation found, each by its rule.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::{Engine, Notice, Start};
use jiff::Timestamp;
use model::execution::Origin;
use model::payload::Payload;
use model::value::Map;
use model::{Event, ExecutionId};
use store::Store;

use crate::common::{Peer, Project, call, crash, end, manual, soon, start_and_rest, start_with, stop};
use crate::watched::Watched;

async fn waits_its_turn(engine: &Engine, id: ExecutionId) {
    soon(async {
        while engine.standing(id).await.expect("it is known").turn.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn rests(engine: &Engine) {
    soon(async {
        while engine.status().resting == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
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
    assert!(engine.cancel(second, "not needed").await.expect("it is asked"));
    assert_eq!(end(&engine, second).await, "cancelled: not needed");
    waits_its_turn(&engine, third).await;
    assert!(peer.asked_already().is_none(), "the first still has the place");
    held.answer(200, "1").await;
    soon(engine.wait(first)).await.expect("it ends");
    peer.asked().await.answer(200, "1").await;
    soon(engine.wait(third)).await.expect("it ends");
    stop(engine).await;
}

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
    let text = format!("finally:\n  - wait: 1h\n{}", manual("  - waitFor: {event: never}\n"));
    let project = Project::with(&text);
    let engine = project.start().await;
    let id = start_and_rest(&engine, "{}").await;
    assert!(engine.cancel(id, "enough").await.expect("it is asked"));
    let due = engine.clock().now() + Duration::from_secs(3600);
    soon(project.clock.somebody_sleeps_until(due)).await;
    assert!(engine.cancel(id, "really").await.expect("it is asked"));
    project.clock.advance(Duration::from_secs(3600));
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
            if let Notice::ExecutionEvents { events, .. } = notices.recv().await.expect("notices come")
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
            soon(async {
                while engine.emit("go", model::Value::Null, None).await.expect("it is sent") == 0 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
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

/// A step that asks the peer, on one line.
fn asks(id: &str, peer: &Peer) -> String {
    format!("{{id: {id}, action: http.request, with: {{method: POST, url: \"{}/{id}\"}}}}", peer.base)
}

/// Until when each of its pauses lasts.
async fn pauses_until(engine: &Engine, id: ExecutionId) -> Vec<Option<Timestamp>> {
    let standing = engine.standing(id).await.expect("it is known");
    standing.pauses.into_iter().map(|pause| pause.until).collect()
}

/// When the store says that each of its pauses is over.
async fn woken_at(engine: &Engine, id: ExecutionId) -> Vec<Option<Timestamp>> {
    let waits = engine.store().waits(id).await.expect("they are read");
    waits.into_iter().map(|wait| wait.until).collect()
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
    let both = format!("{{id: both, parallel: {{a: [{{id: pause, wait: 1h}}], b: [{}]}}}}", asks("b", &peer));
    let project =
        Project::with(&manual(&format!("  - {{id: all, retry: {{max: 1, delay: 5m}}, steps: [{both}]}}\n")));
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
        soon(engine.wait(id)).await.expect("it ends");
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
        engine.run(&limited, start).await.expect("it starts")
    };
    let first = start().await;
    soon(async {
        while engine.status().resting < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let second = start().await;
    waits_its_turn(&engine, second).await;
    engine.emit("first", model::Value::Null, None).await.expect("it is sent");
    drop(peer.asked().await);
    crash(engine).await;
    let engine = project.start().await;
    let asked = peer.asked().await;
    assert_eq!(asked.line, "POST /a");
    assert_eq!(engine.emit("go", model::Value::Null, None).await.expect("it is sent"), 1);
    asked.answer(200, "1").await;
    soon(engine.wait(other)).await.expect("it ends");
    let asked = peer.asked().await;
    assert_eq!(asked.header("idempotency-key"), Some(format!("{first}.b").as_str()));
    asked.answer(200, "1").await;
    soon(engine.wait(first)).await.expect("it ends");
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
async fn who_waits_for_an_execution_that_is_on_its_way_does_not_read_its_log_again_and_again() {
    let project = Project::with(&manual("  - wait: 1h\n"));
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    let id = start_and_rest(&engine, "{}").await;
    store.shut();
    project.clock.advance(Duration::from_secs(3600));
    store.held(1).await;
    // It is neither at rest nor in memory, as long as the store takes its time.
    let before = store.reads.load(Ordering::SeqCst);
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait(id).await }
    });
    for _ in 0..20 {
        store.events(id).await.expect("the store reads").expect("it is known");
    }
    let reads = store.reads.load(Ordering::SeqCst) - before - 20;
    assert!(reads <= 2, "{reads} times while nothing happened");
    store.gate.add_permits(1 << 10);
    soon(waiting).await.expect("no panic").expect("it ends");
    stop(engine).await;
}
