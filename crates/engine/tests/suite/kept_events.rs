//! Events that are sent before a step waits for them, and the results of waits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;
use model::{Event, ExecutionId};

use crate::checking::check_steps;
use crate::common::{
    Peer, Project, call, crash, end, json, manual, soon, start_and_suspend, start_with, stop, until_suspended,
};

/// Sends an event and returns the number of waits that it ended at once.
async fn emit(engine: &Engine, name: &str, data: &str) -> u64 {
    soon(engine.admission().emit(name, json(data), None)).await.expect("it is sent").delivered
}

/// A loop that sends a reminder and then waits for a signature.
fn reminders(base: &str) -> String {
    format!(
        r#"  - set: {{by: null}}
  - repeat: {{max: 3, until: vars.by is not none}}
    steps:
      - id: remind
        action: http.request
        with: {{method: POST, url: "{base}/remind"}}
      - id: signed
        waitFor: {{event: signed, if: event.data.ok}}
        timeout: 1d
        onTimeout: continue
      - if: not steps.signed.timedOut
        then:
          - set: {{by: "${{{{ steps.signed.results.by }}}}"}}
  - set: {{by: "${{{{ vars.by }}}}"}}
"#
    )
}

#[tokio::test]
async fn an_event_between_two_iterations_of_a_wait_is_kept_for_the_next() {
    for restart in [false, true] {
        let mut peer = Peer::new().await;
        let project = Project::with(&manual(&reminders(&peer.base)));
        let mut engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        peer.next_request().await.answer(200, "1").await;
        until_suspended(&engine).await;
        assert_eq!(emit(&engine, "signed", r#"{"ok": false, "by": "nobody"}"#).await, 0);
        project.clock.advance(Duration::from_secs(86_400));
        let mut reminder = peer.next_request().await;
        assert_eq!(
            emit(&engine, "signed", r#"{"ok": true, "by": "ada"}"#).await,
            0,
            "no step waits just now"
        );
        if restart {
            crash(engine).await;
            drop(reminder);
            engine = project.start().await;
            reminder = peer.next_request().await;
        }
        reminder.answer(200, "1").await;
        assert_eq!(end(&engine, id).await, r#"{"by":"ada"}"#);
        stop(engine).await;
    }
}

/// Steps that wait for the payment of the order in `inputs.order` that has at least `inputs.least`.
const PAYMENT: &str = "trigger: {manual: {}}
inputs: {order: {type: integer}, least: {type: integer}}
steps:
  - set: {order: \"${{ inputs.order }}\"}
  - id: paid
    waitFor: {event: paid, if: event.data.order == vars.order and event.data.amount >= inputs.least}
";

#[tokio::test]
async fn an_event_loads_only_the_executions_whose_condition_it_matches() {
    let project = Project::with(PAYMENT);
    let (mut engine, mut counting) = project.start_watched().await;
    let mut ids = Vec::new();
    for order in 0..20 {
        let inputs = format!(r#"{{"order": {order}, "least": {}}}"#, 10 * order);
        ids.push(start_and_suspend(&engine, &inputs).await);
    }
    for restart in [false, true] {
        if restart {
            crash(engine).await;
            (engine, counting) = project.start_watched().await;
        }
        let reads = counting.reads.load(Ordering::Relaxed);
        for other in [r#"{"order": 7, "amount": 69}"#, r#"{"order": 99, "amount": 999}"#, r#"{"order": "7"}"#]
        {
            assert_eq!(emit(&engine, "paid", other).await, 0, "{other}");
        }
        assert_eq!(counting.reads.load(Ordering::Relaxed), reads, "no execution is read for them");
        let order = 7 + usize::from(restart);
        assert_eq!(emit(&engine, "paid", &format!(r#"{{"order": {order}, "amount": 90}}"#)).await, 1);
        assert_eq!(end(&engine, ids[order]).await, format!(r#"{{"order":{order},"amount":90}}"#));
        let reads = counting.reads.load(Ordering::Relaxed) - reads;
        assert!(reads <= 3, "{reads} reads for one execution");
    }
    // The conditions of all of them fail on it.
    assert_eq!(emit(&engine, "paid", r#"{"amount": 1}"#).await, 18);
    assert!(end(&engine, ids[3]).await.contains("order"), "the error names what is missing");
    stop(engine).await;
}

#[tokio::test]
async fn earlier_events_that_do_not_match_a_wait_are_not_recorded() {
    let mut peer = Peer::new().await;
    let condition = "event.data.n == 1000 or event.data.n is odd and event.data.last";
    let steps =
        call("a", &peer.base, "/a") + &format!("  - {{id: n, waitFor: {{event: n, if: {condition}}}}}\n");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    for n in 0..1200 {
        emit(&engine, "n", &format!(r#"{{"n": {n}, "last": false}}"#)).await;
    }
    held.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, r#"{"n":1000,"last":false}"#, "more than 1,000 others precede it");
    let events = engine.store().events(id).await.expect("they are read").expect("it is there");
    let signals = events.iter().filter(|event| matches!(event, Event::Signalled { .. })).count();
    assert_eq!(signals, 1);
    stop(engine).await;
}

#[tokio::test]
async fn a_first_wait_receives_events_sent_since_the_execution_started() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "  - {id: paid, waitFor: {event: paid}}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    emit(&engine, "paid", "1").await;
    project.clock.advance(Duration::from_millis(5));
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    project.clock.advance(Duration::from_millis(5));
    emit(&engine, "paid", "2").await;
    emit(&engine, "other", "3").await;
    held.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, "2", "an event before its start does not count");
    stop(engine).await;
}

#[tokio::test]
async fn an_event_ends_the_wait_of_one_iteration_only() {
    let steps = "  - forEach: [1, 2, 3]\n    steps:\n      - {id: next, waitFor: {event: next}}\n";
    let project = Project::with(&manual(steps));
    let mut engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    for n in ["1", "2", "3"] {
        until_suspended(&engine).await;
        assert_eq!(emit(&engine, "next", n).await, 1);
        if n == "2" {
            until_suspended(&engine).await;
            crash(engine).await;
            engine = project.start().await;
        }
    }
    assert_eq!(end(&engine, id).await, "[1,2,3]");
    stop(engine).await;
}

/// Waits until an execution waits in this iteration of the step `next`.
async fn waits_in(engine: &Engine, id: ExecutionId, iteration: u32) {
    let step = format!("next[{iteration}]");
    soon(async {
        loop {
            let pending = engine.admission().pending(id).await.expect("it is read");
            if pending.iter().any(|pending| pending.step == step) && engine.status().resting == 1 {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until the event `next` is retained, and returns how often.
async fn retained(engine: &Engine) -> usize {
    soon(async {
        loop {
            let kept = engine.store().list_state("events:next", None, 10).await.expect("it is read").len();
            if kept > 0 {
                return kept;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_late_event_does_not_end_the_wait_of_a_second_iteration() {
    let steps = "  - set: {got: []}\n  - repeat: {max: 4}\n    steps:\n      - {id: next, waitFor: {event: next}}\n      - set: {got: \"${{ vars.got + [steps.next.results] }}\"}\n  - set: {got: \"${{ vars.got }}\"}\n";
    let project = Project::with(&manual(steps));
    let (engine, watched) = project.start_watched().await;
    let id = start_and_suspend(&engine, "{}").await;
    watched.searching.forget_permits(1 << 20);
    let admission = engine.admission().clone();
    let late = tokio::spawn(async move { admission.emit("next", json("2"), None).await });
    retained(&engine).await;
    // Sent to the execution itself. The second iteration then finds the event that is retained.
    engine.admission().signal(id, None, json("1"), None).await.expect("it waits");
    waits_in(&engine, id, 2).await;
    watched.searching.add_permits(1 << 20);
    assert_eq!(
        late.await.expect("it ends").expect("it is sent").delivered,
        0,
        "no step waits for it any more"
    );
    for n in ["3", "4"] {
        assert_eq!(emit(&engine, "next", n).await, 1);
        if n == "3" {
            waits_in(&engine, id, 3).await;
        }
    }
    assert_eq!(end(&engine, id).await, r#"{"got":[1,2,3,4]}"#);
    stop(engine).await;
}

#[tokio::test]
async fn an_event_ends_the_waits_of_all_concurrent_iterations() {
    let steps = "  - forEach: [1, 2, 3]\n    concurrency: 3\n    steps:\n      - {id: next, waitFor: {event: next}}\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    assert_eq!(emit(&engine, "next", "7").await, 3);
    assert_eq!(end(&engine, id).await, "[7,7,7]");
    stop(engine).await;
}

/// Sends the event `next`, or waits for one that never comes.
const SENDS_OR_WAITS: &str = "trigger: {manual: {}}
inputs: {sends: {type: boolean}}
steps:
  - if: inputs.sends
    then:
      - {action: events.emit, with: {name: next, data: 2}}
    else:
      - waitFor: {event: next, if: event.data is odd}
";

#[tokio::test]
async fn an_event_emitted_again_after_a_crash_is_retained_once() {
    let project = Project::with(SENDS_OR_WAITS);
    let (engine, watched) = project.start_watched().await;
    start_and_suspend(&engine, r#"{"sends": false}"#).await;
    watched.searching.forget_permits(1 << 20);
    let id = start_with(&engine, r#"{"sends": true}"#).await;
    retained(&engine).await;
    let context = engine.context().clone();
    tokio::join!(crash(engine), async {
        while context.accepts_starts() {
            tokio::task::yield_now().await;
        }
        watched.searching.add_permits(1 << 20);
    });
    let engine = project.start().await;
    assert!(end(&engine, id).await.starts_with(r#"{"delivered":0,"#));
    assert_eq!(retained(&engine).await, 1);
    stop(engine).await;
}

#[tokio::test]
async fn an_event_without_data_is_distinguished_from_a_timeout() {
    let steps = |more: &str| {
        manual(&format!(
            "  - id: done\n    waitFor: {{event: done}}\n    timeout: 1h\n    onTimeout: continue\n{more}  - set: {{late: \"${{{{ steps.done.timedOut }}}}\", data: \"${{{{ steps.done.results }}}}\"}}\n"
        ))
    };
    for (comes, expected) in
        [(true, r#"{"late":false,"data":null}"#), (false, r#"{"late":true,"data":null}"#)]
    {
        for restart in [false, true] {
            let mut peer = Peer::new().await;
            let project = Project::with(&steps(&call("a", &peer.base, "/a")));
            let mut engine = project.start().await;
            let id = start_and_suspend(&engine, "{}").await;
            if comes {
                emit(&engine, "done", "null").await;
            } else {
                project.clock.advance(Duration::from_secs(3600));
            }
            let mut asked = peer.next_request().await;
            if restart {
                crash(engine).await;
                drop(asked);
                engine = project.start().await;
                asked = peer.next_request().await;
            }
            asked.answer(200, "1").await;
            assert_eq!(end(&engine, id).await, expected, "restarted: {restart}");
            stop(engine).await;
        }
    }
}

#[tokio::test]
async fn an_execution_does_not_receive_an_event_it_emitted_before_waiting() {
    let steps = "  - {action: events.emit, with: {name: ping}}\n  - id: pong\n    waitFor: {event: ping}\n    timeout: 1s\n    onTimeout: continue\n  - set: {late: \"${{ steps.pong.timedOut }}\"}\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(1));
    assert_eq!(end(&engine, id).await, r#"{"late":true}"#);
    stop(engine).await;
}

#[test]
fn only_a_wait_for_step_has_the_member_timed_out() {
    let read =
        |step: &str| format!("- {{id: a, {step}}}\n- set: {{late: \"${{{{ steps.a.timedOut }}}}\"}}\n");
    check_steps(&read("waitFor: {event: x}, timeout: 1h, onTimeout: continue"), &[]);
    check_steps(&read("set: {b: 1}"), &["unknown-member timedOut"]);
}
