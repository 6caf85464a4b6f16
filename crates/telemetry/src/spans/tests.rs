//! The spans of written logs.

use std::sync::Arc;

use model::Payload;
use model::action::{ActionError, ErrorKind};
use model::automation::Automation;
use model::execution::{DelayReason, StepOutcome};
use opentelemetry_sdk::trace::Sampler;
use pretty_assertions::assert_eq;
use text::diagnostic::Source;
use value::{Map, Value};

use super::*;

const STEPS: &str = "trigger: {manual: {}}\nsteps:\n  - id: call\n    action: http.request\n    with: {url: \"http://x.example/\"}\n  - id: outer\n    forEach: [1, 2]\n    as: item\n    steps:\n      - id: inner\n        set: {x: 1}\n";

fn automation() -> Automation {
    let source = Source::new("automations/shop.yaml", STEPS);
    language::load::automation(Arc::new(source), "shop").value.expect("it loads")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn id(byte: u8) -> ExecutionId {
    ExecutionId::new(at(0), [byte; 10])
}

fn started(origin: Origin) -> Event {
    let automation = automation();
    let (id, definition) = (automation.id.clone(), automation.definition);
    let payload = Payload::manual(Map::new()).into();
    Event::Started {
        at: at(0),
        automation: id,
        definition,
        origin,
        payload,
        trigger: model::automation::TriggerId::MAIN,
        inputs: None,
    }
}

fn finished_step(second: i64, step: &str, took_s: u64, outcome: StepOutcome) -> Event {
    Event::StepFinished { at: at(second), step: step.to_owned(), took_us: took_s * 1_000_000, outcome }
}

fn success() -> StepOutcome {
    StepOutcome::Succeeded { result: Value::Null }
}

fn finished(second: i64) -> Event {
    Event::Finished { at: at(second), outcome: Outcome::Succeeded { result: Value::Null } }
}

fn failure(message: &str) -> ActionError {
    ActionError::new(ErrorKind::Network, message)
}

fn spans_of(events: &[Event]) -> Vec<SpanData> {
    let automation = Arc::new(automation());
    let ended = EndedExecution { id: id(1), parent: None, automation };
    let trace = ExecutionTrace::new(&Sampler::AlwaysOn, ended.id, None);
    let scope = InstrumentationScope::builder("test").build();
    derive(&ended, &trace, events, &ForeignTraces::new(), &scope).spans
}

/// The name of each span with its first and last second, and the position of its parent in the list.
fn check(events: &[Event], expected: &[(&str, i64, i64, Option<usize>)]) -> Vec<SpanData> {
    let spans = spans_of(events);
    let second = |time| Timestamp::try_from(time).expect("a time").as_second();
    let found: Vec<_> = spans
        .iter()
        .map(|span| {
            let parent = spans.iter().position(|other| other.span_context.span_id() == span.parent_span_id);
            (&*span.name, second(span.start_time), second(span.end_time), parent)
        })
        .collect();
    assert_eq!(found, expected);
    spans
}

fn is_error(span: &SpanData) -> bool {
    matches!(span.status, Status::Error { .. })
}

#[test]
fn each_iteration_of_a_step_has_a_span_below_the_loop() {
    let events = [
        started(Origin::Manual),
        finished_step(2, "inner[0]", 1, success()),
        finished_step(3, "inner[1]", 1, success()),
        finished_step(4, "outer", 4, success()),
        finished(5),
    ];
    check(
        &events,
        &[("inner", 1, 2, Some(2)), ("inner", 2, 3, Some(2)), ("outer", 0, 4, Some(3)), ("shop", 0, 5, None)],
    );
}

#[test]
fn each_attempt_has_its_own_time_and_error() {
    let step = "call".to_owned();
    let retry = Event::StepRetry {
        at: at(2),
        step: step.clone(),
        attempt: 1,
        error: failure("no"),
        next_at: at(5),
        policy: None,
    };
    let events = [
        started(Origin::Manual),
        Event::StepStarted { at: at(1), step: step.clone(), attempt: 1 },
        retry,
        Event::StepStarted { at: at(5), step, attempt: 2 },
        finished_step(7, "call", 2, success()),
        finished(8),
    ];
    let expected = [
        ("attempt", 1, 2, Some(2)),
        ("attempt", 5, 7, Some(2)),
        ("call", 1, 7, Some(3)),
        ("shop", 0, 8, None),
    ];
    let spans = check(&events, &expected);
    assert_eq!(spans.iter().map(is_error).collect::<Vec<_>>(), [true, false, false, false]);
}

#[test]
fn an_attempt_interrupted_by_a_restart_ends_at_the_last_event_before_it() {
    let step = "call".to_owned();
    let events = [
        started(Origin::Manual),
        Event::StepStarted { at: at(1), step: step.clone(), attempt: 1 },
        finished_step(2, "inner[0]", 1, success()),
        Event::Resumed { at: at(10), waited: false },
        Event::StepStarted { at: at(11), step, attempt: 1 },
        finished_step(12, "call", 1, success()),
        finished(12),
    ];
    let expected = [
        ("inner", 1, 2, None),
        ("attempt", 1, 2, Some(3)),
        ("attempt", 11, 12, Some(3)),
        ("call", 1, 12, Some(6)),
        ("run", 0, 2, Some(6)),
        ("run", 10, 12, Some(6)),
        ("shop", 0, 12, None),
    ];
    let spans = check(&events, &expected);
    assert_eq!(spans[2].links[0].span_context.span_id(), spans[1].span_context.span_id());
    assert_eq!(spans[5].links[0].span_context.span_id(), spans[4].span_context.span_id());
    assert!(is_error(&spans[1]) && is_error(&spans[4]) && !is_error(&spans[6]));
}

#[test]
fn a_step_that_fails_because_of_a_restart_has_no_further_attempt() {
    let step = "call".to_owned();
    let error = ActionError::new(ErrorKind::Interrupted, "the daemon stopped");
    let events = [
        started(Origin::Manual),
        Event::StepStarted { at: at(1), step, attempt: 1 },
        Event::Resumed { at: at(10), waited: false },
        finished_step(11, "call", 0, StepOutcome::Failed { error, handled: Some(Value::Null) }),
        finished(12),
    ];
    let expected = [
        ("attempt", 1, 1, Some(1)),
        ("call", 1, 11, Some(4)),
        ("run", 0, 1, Some(4)),
        ("run", 10, 12, Some(4)),
        ("shop", 0, 12, None),
    ];
    check(&events, &expected);
}

#[test]
fn a_step_that_runs_again_after_a_retry_of_the_execution_has_another_span() {
    let lost = || StepOutcome::Failed { error: failure("no"), handled: None };
    let events = [
        started(Origin::Manual),
        finished_step(1, "call", 1, lost()),
        Event::Retried { at: at(1), attempt: 1, error: failure("no"), next_at: at(3) },
        finished_step(4, "call", 1, success()),
        finished(4),
    ];
    let expected = [
        ("attempt", 0, 1, Some(1)),
        ("call", 0, 1, Some(4)),
        ("attempt", 3, 4, Some(3)),
        ("call", 3, 4, Some(4)),
        ("shop", 0, 4, None),
    ];
    let spans = check(&events, &expected);
    assert_eq!(spans[4].events.iter().map(|event| &*event.name).collect::<Vec<_>>(), ["retried"]);
}

#[test]
fn open_spans_end_with_the_execution() {
    let events = [
        started(Origin::Manual),
        Event::StepStarted { at: at(1), step: "call".to_owned(), attempt: 1 },
        Event::Finished { at: at(3), outcome: Outcome::Cancelled { reason: "by hand".to_owned() } },
    ];
    let spans = check(&events, &[("attempt", 1, 3, Some(1)), ("call", 1, 3, Some(2)), ("shop", 0, 3, None)]);
    assert_eq!(spans[2].status, Status::error("by hand"));
}

#[test]
fn a_replay_has_spans_only_for_its_own_steps_and_a_link_to_the_original() {
    let origin = Origin::Replay { of: id(2), from: Some("outer".to_owned()), kept: 1, test: false };
    let events = [
        started(origin),
        finished_step(-100, "call", 1, success()),
        finished_step(2, "outer", 1, success()),
        finished(3),
    ];
    let spans = check(&events, &[("outer", 1, 2, Some(1)), ("shop", 0, 3, None)]);
    let link = &spans[1].links[0].span_context;
    assert_eq!(
        (link.trace_id(), link.span_id()),
        (context::own_trace(id(2)), context::execution_span(id(2)))
    );
    assert_eq!(linked(&events), [id(2)]);
}

#[test]
fn waits_and_delays_are_events_of_their_step() {
    let step = "call".to_owned();
    let events = [
        started(Origin::Manual),
        Event::Waited { at: at(4), step: Some(step.clone()), reason: DelayReason::Commit, ms: 3000 },
        Event::Waited { at: at(5), step: None, reason: DelayReason::Slot, ms: 200 },
        finished_step(6, "call", 1, success()),
        finished(6),
    ];
    let spans = check(&events, &[("attempt", 5, 6, Some(1)), ("call", 1, 6, Some(2)), ("shop", 0, 6, None)]);
    let names = |span: &SpanData| span.events.iter().map(|event| event.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (names(&spans[1]), names(&spans[2])),
        (vec!["delayed".to_owned()], vec!["delayed".to_owned()])
    );
}

#[test]
fn the_number_of_spans_of_an_execution_is_bounded() {
    let mut events = vec![started(Origin::Manual)];
    events.extend((0..MAX_SPANS + 5).map(|turn| finished_step(1, &format!("inner[{turn}]"), 0, success())));
    events.push(finished(2));
    let spans = spans_of(&events);
    assert_eq!(spans.len(), MAX_SPANS + 1);
    let omitted = KeyValue::new("cogwork.omitted_spans", 5);
    assert!(spans.last().is_some_and(|root| root.attributes.contains(&omitted)));
}

#[test]
fn the_events_of_a_span_and_the_links_of_an_execution_are_bounded() {
    let step = "call".to_owned();
    let delay = |_| Event::Waited { at: at(1), step: Some(step.clone()), reason: DelayReason::Commit, ms: 1 };
    let mut events = vec![started(Origin::Manual)];
    events.extend((0..MAX_PARTS + 5).map(delay));
    events.extend([finished_step(2, "call", 1, success()), finished(3)]);
    let spans = spans_of(&events);
    let call = spans.iter().find(|span| span.name == "call").expect("the span of the step");
    assert_eq!(call.events.len(), MAX_PARTS);
    let signal = |number: u8| {
        let by = id(number);
        let signal = model::execution::Signal {
            id: format!("{by}.send"),
            name: "paid".to_owned(),
            data: Value::Null,
            by: Some(format!("execution {by}")),
        };
        Event::Signalled { at: at(1), step: step.clone(), signal }
    };
    let signals: Vec<Event> = (0..=u8::MAX).map(signal).collect();
    assert_eq!(linked(&signals).len(), MAX_PARTS);
}
