//! Own events: sent with the end of their step, delivered once to each trigger that is named after them.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use model::Event;
use model::execution::{ExecutionId, Origin};
use model::payload::Payload;
use runtime::{Clock as _, DeliveryWait, ManualStart};
use store::{ExecutionRow, OutboxCount, OutboxRow};

use crate::common::{
    Peer, Project, call, crash, end, json, pass, rows, soon, start_and_suspend, start_with, stop, until,
    until_async,
};
use crate::crashes::at_each_commit;

/// A sender that says what `events.emit` told it.
const SENDER: &str = r#"trigger: {manual: {}}
inputs: {n: {type: integer}}
steps:
  - {id: sent, action: events.emit, with: {name: order.paid, data: {order: "${{ inputs.n }}", amount: 12.5}}}
outputs: "${{ steps.sent.results }}"
"#;

/// A consumer whose result is the data that it got.
const SHIP: &str = r#"trigger: {event: order.paid, data: {order: {type: text, required: true}, amount: number}}
steps: [{set: {x: 1}}]
outputs: "${{ trigger.results.body.data }}"
"#;

/// The result of [`SHIP`] for an event without an amount.
fn shipped(order: &str) -> String {
    format!(r#"{{"order":"{order}","amount":null}}"#)
}

/// A consumer of some events, by their data and by an input.
const BOOK: &str = r#"trigger:
  event: order.paid
  if: event.data.amount > 10 and event.data.order != 3
  inputs: {order: "${{ event.data.order * 10 }}"}
inputs: {order: {type: integer}}
steps: [{set: {x: 1}}]
outputs: {order: "${{ inputs.order }}", event: "${{ trigger.results.event.name }}"}
"#;

fn project() -> Project {
    let project = Project::with(SENDER);
    project.write("automations/ship.yaml", SHIP);
    project.write("automations/book.yaml", BOOK);
    project
}

/// Waits until no event is on its way and no execution runs.
async fn quiet(engine: &Engine) {
    until_async(async || is_quiet(engine).await).await;
}

/// True if no event is on its way and no execution runs: nothing has started between the two looks either.
async fn is_quiet(engine: &Engine) -> bool {
    let (store, before) = (engine.store(), rows(engine).await.len());
    let runs = store.unfinished_count().await.expect("they are counted") > 0;
    let events = store.outbox_counts().await.expect("they are counted");
    !runs && events.is_empty() && rows(engine).await.len() == before
}

/// The executions of an Automation, oldest first.
async fn executions(engine: &Engine, automation: &str) -> Vec<ExecutionRow> {
    let mut found = rows(engine).await;
    found.retain(|row| row.automation.as_str() == automation);
    found.sort_by_key(|row| row.id);
    found
}

/// The outcomes of the executions of an Automation, oldest first.
async fn outcomes(engine: &Engine, automation: &str) -> Vec<String> {
    let mut ends = Vec::new();
    for row in executions(engine, automation).await {
        ends.push(end(engine, row.id).await);
    }
    ends
}

async fn emit(engine: &Engine, name: &str, data: &str) -> runtime::SentEvent {
    soon(engine.admission().emit(name, json(data), None)).await.expect("it is sent")
}

async fn refused(engine: &Engine, reason: &str) -> u64 {
    engine.status().refused.get(reason).copied().unwrap_or_default()
}

#[tokio::test]
async fn an_event_starts_each_trigger_that_is_named_after_it() {
    let project = project();
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"n": 7}"#).await;
    let sent = end(&engine, id).await;
    assert_eq!(sent, format!(r#"{{"delivered":0,"id":"{id}.sent","starts":["book","ship"]}}"#));
    quiet(&engine).await;
    // A number becomes the text that the trigger declares.
    assert_eq!(outcomes(&engine, "ship").await, [r#"{"order":"7","amount":12.5}"#]);
    assert_eq!(outcomes(&engine, "book").await, [r#"{"order":70,"event":"order.paid"}"#]);
    let started = executions(&engine, "ship").await;
    let Origin::Emitted { event, id: event_id, sender, step, test, trace } = &started[0].origin else {
        panic!("an event starts it: {:?}", started[0].origin);
    };
    assert_eq!((event.as_str(), sender, step.as_deref()), ("order.paid", &Some(id), Some("sent")));
    assert_eq!(
        (event_id, *test, trace.as_deref()),
        (&format!("{id}.sent"), false, Some(&*format!("{id};1")))
    );
    stop(engine).await;
}

#[tokio::test]
async fn a_condition_and_inputs_read_the_data_of_the_event() {
    let project = project();
    let engine = project.start().await;
    for n in [3, 4] {
        let id = start_with(&engine, &format!(r#"{{"n": {n}}}"#)).await;
        end(&engine, id).await;
    }
    emit(&engine, "order.paid", r#"{"order": 5, "amount": 1}"#).await;
    quiet(&engine).await;
    assert_eq!(outcomes(&engine, "book").await, [r#"{"order":40,"event":"order.paid"}"#]);
    assert_eq!(executions(&engine, "ship").await.len(), 3);
    assert_eq!(refused(&engine, "filtered").await, 2);
    stop(engine).await;
}

#[tokio::test]
async fn data_that_do_not_fit_start_an_execution_that_fails_and_handles_it() {
    let project = Project::with(SENDER);
    let trigger = "trigger: {event: order.paid, data: {kind: text, amount: {type: number, required: true}}";
    let rest = "steps: [{set: {x: 1}}]\nonError: [{id: handled, set: {kind: \"${{ error.kind }}\"}}]\n";
    project.write("automations/strict.yaml", &format!("{trigger}}}\n{rest}"));
    project.write("automations/other.yaml", &format!("{trigger}, if: event.data.kind == 'a'}}\n{rest}"));
    let engine = project.start().await;
    emit(&engine, "order.paid", r#"{"amount": "much", "kind": "b"}"#).await;
    emit(&engine, "order.paid", r#"{"kind": "b"}"#).await;
    emit(&engine, "order.paid", r#"[1]"#).await;
    quiet(&engine).await;
    let ends = outcomes(&engine, "strict").await;
    assert!(ends.iter().all(|end| end.starts_with("failed: ")) && ends.len() == 3, "{ends:?}");
    assert!(
        ends[0].contains("`amount`") && ends[1].contains("required") && ends[2].contains("list"),
        "{ends:?}"
    );
    let first = executions(&engine, "strict").await[0].id;
    assert_eq!(crate::common::steps_of(&engine, first).await, [r#"handled={"kind":"input"}"#]);
    // Its condition excludes the first two, and cannot be evaluated for the third.
    assert_eq!(executions(&engine, "other").await.len(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn an_event_that_no_enabled_trigger_is_named_after_is_not_stored() {
    let project = Project::with(SENDER);
    project.write("automations/off.yaml", &format!("enabled: false\n{SHIP}"));
    project.write(
        "automations/ship.yaml",
        &SHIP.replace("order.paid, data", "order.paid, enabled: false, data"),
    );
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"n": 1}"#).await;
    assert_eq!(end(&engine, id).await, format!(r#"{{"delivered":0,"id":"{id}.sent","starts":[]}}"#));
    assert_eq!(engine.store().outbox_counts().await.expect("they are counted"), []);
    quiet(&engine).await;
    assert_eq!(rows(&engine).await.len(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn sending_to_triggers_makes_no_more_writes() {
    let mut written = Vec::new();
    for has_consumer in [false, true] {
        let project = Project::with(SENDER);
        if has_consumer {
            // No daemon delivers it.
            project.write("automations/ship.yaml", SHIP);
        }
        let (engine, watched) = project.start_watched().await;
        let before = watched.written();
        let id = start_with(&engine, r#"{"n": 1}"#).await;
        end(&engine, id).await;
        quiet(&engine).await;
        let after = watched.written();
        written.push((after.0 - before.0, after.1 - before.1));
        stop(engine).await;
    }
    // The consumer is accepted, and ends.
    assert_eq!((written[1].0 - written[0].0, written[1].1 - written[0].1), (1, 1), "{written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_consumer_gets_an_event_once_over_a_crash_at_any_commit() {
    at_each_commit(async |at| {
        let project = project();
        let crashing = at.start(&project).await;
        crashing.arm();
        let engine = &crashing.engine;
        let payload = Payload::manual(json(r#"{"n": 7}"#).as_map().expect("a map").clone());
        let id = model::AutomationId::parse("test").expect("an id");
        let _ = engine.ingress().start(&id.into(), ManualStart::new(payload, Origin::Manual)).await;
        let has_crashed = crashing
            .run_until(async || {
                let store = engine.store();
                store.outbox_counts().await.is_ok_and(|counts| counts.is_empty())
                    && store.unfinished_count().await.is_ok_and(|count| count == 0)
                    && rows(engine).await.len() == 3
            })
            .await;
        crashing.end().await;
        let engine = project.start().await;
        quiet(&engine).await;
        let senders = executions(&engine, "test").await.len();
        for consumer in ["ship", "book"] {
            let count = executions(&engine, consumer).await.len();
            assert_eq!(count, senders, "{consumer} after {at:?}");
        }
        stop(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_sent_again_under_its_id_starts_once() {
    let project = project();
    let engine = project.start().await;
    for is_repeated in [false, true] {
        let sent = engine.admission().emit_as(
            Some("invoice:7".to_owned()),
            "order.paid",
            json(r#"{"order": "a", "amount": 99}"#),
            None,
        );
        let sent = soon(sent).await.expect("it is sent");
        let starts = if is_repeated { 0 } else { 2 };
        assert_eq!((sent.id.as_str(), sent.starts.len(), sent.repeated), ("invoice:7", starts, is_repeated));
    }
    let counts = engine.store().outbox_counts().await.expect("they are counted");
    assert!(counts.iter().map(|count| count.rows).sum::<u64>() <= 1, "the repetition is not stored");
    quiet(&engine).await;
    assert_eq!(executions(&engine, "ship").await.len(), 1);
    for (days, is_repeated) in [(36, true), (1, false)] {
        project.clock.advance(Duration::from_secs(days * 86_400));
        let data = json(r#"{"order": "a", "amount": 99}"#);
        let sent = engine.admission().emit_as(Some("invoice:7".to_owned()), "order.paid", data, None);
        assert_eq!(soon(sent).await.expect("it is sent").repeated, is_repeated, "{days} days later");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_is_repeated_sends_one_event() {
    let mut peer = Peer::new().await;
    let emit =
        r#"      - {id: sent, action: events.emit, with: {name: order.paid, data: {order: "${{ index }}"}}}"#;
    let steps = format!(
        "  - id: group\n    retry: {{max: 1, delay: 0s, on: [all]}}\n    steps:\n      - forEach: [1, 2]\n        concurrency: 2\n        steps:\n    {emit}\n    {}",
        call("a", &peer.base, "/a").replace("\n", "\n    ")
    );
    let project = Project::with(&crate::common::manual(&steps));
    project.write("automations/ship.yaml", SHIP);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(404, "no").await;
    until_async(async || executions(&engine, "ship").await.len() == 2).await;
    peer.next_request().await.answer(200, "1").await;
    end(&engine, id).await;
    quiet(&engine).await;
    let mut orders = outcomes(&engine, "ship").await;
    orders.sort();
    assert_eq!(orders, [shipped("0"), shipped("1")]);
    stop(engine).await;
}

#[tokio::test]
async fn the_events_of_one_sender_start_executions_in_their_order() {
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - forEach: [5, 3, 9, 1, 7, 2]\n    steps:\n      - {id: b, action: events.emit, with: {name: order.paid, data: {order: \"${{ item }}\"}}}\n      - {id: a, action: events.emit, with: {name: order.paid, data: {order: \"${{ item }}a\"}}}\n",
    );
    project.write("automations/ship.yaml", SHIP);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    end(&engine, id).await;
    quiet(&engine).await;
    let expected: Vec<String> = [5, 3, 9, 1, 7, 2]
        .iter()
        .flat_map(|n| [shipped(&n.to_string()), shipped(&format!("{n}a"))])
        .collect();
    assert_eq!(outcomes(&engine, "ship").await, expected);
    stop(engine).await;
}

/// A project in which one execution holds the only slot, and two more may wait.
async fn occupied() -> (Peer, Project, Engine) {
    let peer = Peer::new().await;
    // It holds its slot also while days pass.
    let held = call("a", &peer.base, "/a") + "    timeout: 30d\n";
    let mut project = Project::with(&format!("timeout: 30d\n{}", crate::common::manual(&held)));
    (project.settings.limits.in_flight, project.settings.limits.queue) = (1, 2);
    project.write("automations/ship.yaml", SHIP);
    project.write("automations/none.yaml", &SHIP.replace("amount: number}", "amount: number}, if: false"));
    let engine = project.start().await;
    start_with(&engine, "{}").await;
    (peer, project, engine)
}

#[tokio::test]
async fn a_trigger_that_finds_the_queue_full_gets_the_event_later() {
    let (mut peer, project, engine) = occupied().await;
    let held = peer.next_request().await;
    for n in 0..5 {
        emit(&engine, "order.paid", &format!(r#"{{"order": {n}}}"#)).await;
    }
    until_async(async || executions(&engine, "ship").await.len() == 2).await;
    pass(&project, Duration::from_secs(1)).await;
    until(|| engine.status().refused.get("busy").is_some_and(|count| *count >= 2)).await;
    assert_eq!(executions(&engine, "ship").await.len(), 2);
    let event = engine.context().own_events().await.expect("they are read").remove(0);
    let reason = "the queue of executions is full (limits.queue: 2)".to_owned();
    let wait = DeliveryWait { trigger: Some("ship".to_owned()), reason };
    assert_eq!((event.undelivered, event.waits), (3, vec![wait]));
    held.answer(200, "1").await;
    for _ in 0..2 {
        until_async(async || engine.store().unfinished_count().await.expect("they are counted") == 0).await;
        pass(&project, Duration::from_secs(1)).await;
    }
    quiet(&engine).await;
    let expected: Vec<String> = (0..5).map(|n| shipped(&n.to_string())).collect();
    assert_eq!(outcomes(&engine, "ship").await, expected);
    stop(engine).await;
}

#[tokio::test]
async fn an_event_that_no_trigger_could_take_for_7_days_is_dropped() {
    let (mut peer, project, engine) = occupied().await;
    let _held = peer.next_request().await;
    for n in 0..3 {
        emit(&engine, "order.paid", &format!(r#"{{"order": {n}}}"#)).await;
    }
    until_async(async || executions(&engine, "ship").await.len() == 2).await;
    pass(&project, Duration::from_secs(1)).await;
    until(|| engine.status().refused.get("busy").is_some_and(|count| *count >= 2)).await;
    assert_eq!(engine.store().outbox_counts().await.expect("they are counted")[0].rows, 1);
    project.clock.advance(Duration::from_secs(7 * 86_400 + 1));
    until_async(async || engine.store().outbox_counts().await.expect("they are counted").is_empty()).await;
    assert_eq!(refused(&engine, "undelivered").await, 1);
    assert_eq!(
        executions(&engine, "none").await.len(),
        0,
        "its condition excluded the event: nothing is lost"
    );
    crash(engine).await;
}

#[tokio::test]
async fn events_are_delivered_after_a_restart_by_the_triggers_that_are_in_force_then() {
    let (mut peer, project, engine) = occupied().await;
    let _held = peer.next_request().await;
    for n in 0..4 {
        emit(&engine, "order.paid", &format!(r#"{{"order": {n}}}"#)).await;
    }
    until_async(async || executions(&engine, "ship").await.len() == 2).await;
    crash(engine).await;
    project.write("automations/none.yaml", &SHIP.replace("order.paid", "order.sent"));
    project.write("automations/late.yaml", SHIP);
    let mut settings = project.settings.clone();
    settings.limits.queue = 100;
    let engine = Engine::start(settings, project.open_store(), Arc::new(project.clock.clone())).await;
    let engine = engine.expect("the engine starts");
    peer.next_request().await.answer(200, "1").await;
    until_async(async || executions(&engine, "ship").await.len() == 4).await;
    // The events wait ten minutes for `none`, which they were to start too.
    assert_eq!(engine.store().outbox_counts().await.expect("they are counted").len(), 1);
    until_async(async || {
        project.clock.advance(Duration::from_secs(10));
        is_quiet(&engine).await
    })
    .await;
    assert_eq!(executions(&engine, "ship").await.len(), 4);
    // It was not there when the first two were delivered to all others, and they were left for `ship`.
    let late = executions(&engine, "late").await.len();
    assert!((2..=4).contains(&late), "{late}");
    assert_eq!(executions(&engine, "none").await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn an_event_waits_for_a_trigger_whose_file_is_broken_for_a_moment() {
    let (mut peer, project, engine) = occupied().await;
    let held = peer.next_request().await;
    project.write("automations/other.yaml", SHIP);
    engine.reload().await;
    for n in 0..4 {
        emit(&engine, "order.paid", &format!(r#"{{"order": {n}}}"#)).await;
    }
    until_async(async || {
        executions(&engine, "ship").await.len() + executions(&engine, "other").await.len() == 2
    })
    .await;
    crash(engine).await;
    held.answer(200, "1").await;
    for name in ["ship", "other"] {
        project.write(&format!("automations/{name}.yaml"), &SHIP.replace("steps", "stepps"));
    }
    let mut settings = project.settings.clone();
    settings.limits.queue = 100;
    let engine = Engine::start(settings, project.open_store(), Arc::new(project.clock.clone())).await;
    let engine = engine.expect("the engine starts");
    peer.next_request().await.answer(200, "1").await;
    until_async(async || engine.store().unfinished_count().await.expect("they are counted") == 0).await;
    project.clock.advance(Duration::from_secs(60));
    project.write("automations/ship.yaml", SHIP);
    engine.reload().await;
    until_async(async || executions(&engine, "ship").await.len() == 4).await;
    project.write("automations/other.yaml", SHIP);
    engine.reload().await;
    quiet(&engine).await;
    assert_eq!((executions(&engine, "ship").await.len(), executions(&engine, "other").await.len()), (4, 4));
    stop(engine).await;
}

#[tokio::test]
async fn concurrent_requests_with_one_id_deliver_an_event_once() {
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - id: each\n    repeat: {max: 3}\n    steps: [{id: paid, waitFor: {event: order.paid}}]\n",
    );
    project.write("automations/ship.yaml", SHIP);
    let engine = project.start().await;
    let waiting = start_and_suspend(&engine, "{}").await;
    let send = async || {
        let sent =
            engine.admission().emit_as(Some("one".to_owned()), "order.paid", json(r#"{"order": 1}"#), None);
        sent.await.expect("it is sent")
    };
    let sent = soon(futures_util::future::join_all((0..8).map(|_| send()))).await;
    assert_eq!(sent.iter().filter(|sent| !sent.repeated).count(), 1);
    assert_eq!(sent.iter().map(|sent| sent.delivered).sum::<u64>(), 1);
    assert!(send().await.repeated);
    until_async(async || executions(&engine, "ship").await.len() == 1).await;
    let kept = engine.context().store.list_state("events:order.paid", None, 10).await.expect("they are read");
    assert_eq!(kept.len(), 1, "it is retained once");
    let events = engine.store().events(waiting).await.expect("they are read").expect("it exists");
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Signalled { .. })).count(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn a_chain_of_events_ends_at_its_limit() {
    let mut project = Project::with(
        "trigger: {event: ping}\nsteps: [{id: again, action: events.emit, with: {name: ping}}]\noutputs: \"${{ steps.again.results.starts }}\"\n",
    );
    project.settings.limits.chain = 4;
    let engine = project.start().await;
    emit(&engine, "ping", "null").await;
    quiet(&engine).await;
    let ends = outcomes(&engine, "test").await;
    assert_eq!(ends, [r#"["test"]"#, r#"["test"]"#, r#"["test"]"#, "[]"]);
    assert_eq!(refused(&engine, "loop_detected").await, 1);
    let last = executions(&engine, "test").await[3].id;
    let logs = engine.store().logs(last, 0, 10).await.expect("they are read");
    assert!(logs.iter().any(|line| line.message.contains("starts nothing")), "{logs:?}");
    stop(engine).await;
}

#[tokio::test]
async fn the_events_of_a_test_start_tests() {
    let project = project();
    let engine = project.start().await;
    let inputs = json(r#"{"n": 7}"#).as_map().expect("a map").clone();
    let start = ManualStart::new(Payload::manual(inputs), Origin::Test);
    let id = model::AutomationId::parse("test").expect("an id");
    let id = engine.ingress().start(&id.into(), start).await.expect("it starts");
    end(&engine, id).await;
    quiet(&engine).await;
    let started = executions(&engine, "ship").await;
    assert!(started.len() == 1 && started[0].origin.is_test(), "{started:?}");
    stop(engine).await;
}

#[tokio::test]
async fn data_of_more_than_1_mib_start_nothing_and_the_step_fails() {
    let project = Project::with(
        "trigger: {manual: {}}\ninputs: {name: {type: text}, data: {type: text}}\nsteps:\n  - {id: sent, action: events.emit, with: {name: \"${{ inputs.name }}\", data: \"${{ inputs.data }}\"}}\n",
    );
    project.write("automations/ship.yaml", "trigger: {event: order.paid}\nsteps: [{set: {x: 1}}]\n");
    let engine = project.start().await;
    let inputs =
        |name: &str, bytes: usize| format!(r#"{{"name": "{name}", "data": "{}"}}"#, "x".repeat(bytes));
    let id = start_with(&engine, &inputs("order.paid", (1 << 20) + 1)).await;
    let failed = end(&engine, id).await;
    assert!(failed.starts_with("failed: ") && failed.contains("larger than 1MiB"), "{failed}");
    // No trigger is named after it.
    let id = start_with(&engine, &inputs("order.other", (1 << 20) + 1)).await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    quiet(&engine).await;
    assert_eq!(executions(&engine, "ship").await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_step_fails_that_sends_more_events_than_can_be_under_way() {
    let project = project();
    let engine = project.start().await;
    let full = OutboxCount {
        name: "order.paid".to_owned(),
        rows: OutboxRow::MAX,
        oldest: jiff::Timestamp::UNIX_EPOCH,
        last: ExecutionId::from_bytes([0; 16]),
    };
    // Behind the first look of the deliverer, which counts them too.
    soon(project.clock.somebody_sleeps_until(project.clock.now() + Duration::from_secs(24 * 60 * 60))).await;
    engine.context().outbox.counted(&[full]);
    let id = start_with(&engine, r#"{"n": 1}"#).await;
    let failed = end(&engine, id).await;
    assert!(failed.contains("1000000 events wait for their delivery"), "{failed}");
    let refused = engine.admission().emit("order.paid", json("{}"), None).await;
    assert!(matches!(refused, Err(runtime::Error::Busy { .. })), "{refused:?}");
    engine.context().outbox.counted(&[]);
    let id = start_with(&engine, r#"{"n": 1}"#).await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    quiet(&engine).await;
    assert_eq!(executions(&engine, "ship").await.len(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn names_of_the_engine_start_nothing() {
    let project = Project::with(
        "trigger: {manual: {}}\nsteps: [{id: sent, action: events.emit, with: {name: cogwork.failure}}]\noutputs: \"${{ steps.sent.results.starts }}\"\n",
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, "[]");
    assert_eq!(engine.store().outbox_counts().await.expect("they are counted"), []);
    stop(engine).await;
}

/// Waits for an event with these settings beside its name.
fn waits(beside: &str, settings: &str) -> String {
    format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - id: paid\n    waitFor: {{event: paid{beside}}}\n{settings}outputs: \"${{{{ steps.paid.results }}}}\"\n"
    )
}

#[tokio::test]
async fn a_wait_takes_events_from_before_its_execution_as_far_as_it_says() {
    for (beside, ago, expected) in [
        ("", 60, "null"),
        (", since: 5m", 60, "{\"n\":1}"),
        (", since: 5m", 301, "null"),
        (", since: 7d", 6 * 86_400, "{\"n\":1}"),
    ] {
        let project = Project::with(&waits(beside, "    timeout: 0s\n    onTimeout: continue\n"));
        let engine = project.start().await;
        assert!(emit(&engine, "paid", r#"{"n": 1}"#).await.kept);
        project.clock.advance(Duration::from_secs(ago));
        let id = start_with(&engine, "{}").await;
        assert_eq!(end(&engine, id).await, expected, "{beside} after {ago} s");
        let events = engine.store().events(id).await.expect("they are read").expect("it exists");
        assert!(!events.iter().any(|event| matches!(event, Event::Resumed { .. })), "it was never suspended");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_wait_until_an_instant_ends_then_also_after_a_restart() {
    let until_nine = "    onTimeout: continue\n";
    let beside = ", until: \"'2026-03-02T09:00:00Z'\"";
    for restart in [false, true] {
        let project = Project::with(&waits(beside, until_nine));
        let mut engine = project.start().await;
        let id: ExecutionId = start_and_suspend(&engine, "{}").await;
        project.clock.advance(Duration::from_secs(1800));
        if restart {
            crash(engine).await;
            engine = project.start().await;
        }
        assert_eq!(engine.status().resting, 1);
        project.clock.advance(Duration::from_secs(1799));
        project.clock.advance(Duration::from_secs(1));
        assert_eq!(end(&engine, id).await, "null");
        stop(engine).await;
    }
    let project = Project::with(&waits(beside, ""));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(3600));
    assert_eq!(end(&engine, id).await, "failed: no event came until 2026-03-02T09:00:00Z");
    stop(engine).await;
}
