//! Sample data.

use jiff::{SignedDuration, Timestamp};
use model::action::{ActionError, ErrorKind};
use model::automation::{TriggerId, TriggerKey};
use model::{
    AutomationId, DefinitionHash, Event, ExecutionId, LogLevel, LogLine, Origin, Outcome, Payload, Status,
    StepOutcome,
};
use value::{Map, Value};

use crate::{
    Accept, AcceptOutcome, Append, Definition, ExecutionFilter, InitialEvents, NewExecution, Page, Store,
};

/// A time, `seconds` after a fixed one.
pub(super) fn at(seconds: i64) -> Timestamp {
    const START: i64 = 1_790_000_000;
    Timestamp::from_second(START + seconds).expect("a time within range")
}

/// An id for an execution accepted at that time; `random` distinguishes ids of one time.
pub(super) fn id(seconds: i64, random: u8) -> ExecutionId {
    ExecutionId::new(at(seconds), [random; 10])
}

pub(super) fn automation(name: &str) -> AutomationId {
    AutomationId::parse(name).expect("an id")
}

/// A key of a trigger: `orders`, `orders#paid`.
pub(super) fn trigger(key: &str) -> TriggerKey {
    key.parse().expect("a key")
}

/// A definition of that Automation.
pub(super) fn definition(name: &str, text: &str) -> Definition {
    let automation = automation(name);
    let (hash, path) = (DefinitionHash::compute(&automation, text), format!("automations/{name}.yaml"));
    Definition { hash, automation, path, text: text.to_owned() }
}

/// An execution of the definition, accepted at that time.
pub(super) fn new(definition: &Definition, seconds: i64, random: u8) -> NewExecution {
    with_origin(definition, seconds, random, Origin::Manual)
}

/// As [`new`], started by this.
pub(super) fn with_origin(definition: &Definition, seconds: i64, random: u8, origin: Origin) -> NewExecution {
    let started = Event::Started {
        at: at(seconds),
        automation: definition.automation.clone(),
        trigger: TriggerId::MAIN,
        inputs: None,
        definition: definition.hash,
        origin,
        payload: Payload::manual(Map::new()).into(),
    };
    NewExecution {
        id: id(seconds, random),
        started,
        key: None,
        dedup: Vec::new(),
        starts_running: false,
        initial: InitialEvents::default(),
        gated: false,
    }
}

/// As [`new`], with a key.
pub(super) fn with_key(definition: &Definition, seconds: i64, random: u8, key: &str) -> NewExecution {
    NewExecution { key: Some(key.to_owned()), ..new(definition, seconds, random) }
}

/// Accepts these executions.
pub(super) async fn accept(store: &dyn Store, executions: Vec<NewExecution>) -> Vec<AcceptOutcome> {
    store.accept(&Accept { executions, ..Accept::default() }).await.expect("they are accepted")
}

/// A definition that is put, and its one execution.
pub(super) async fn one(store: &dyn Store) -> (Definition, ExecutionId) {
    let definition = definition("orders", "steps: []");
    store.put_definition(definition.clone()).await.expect("it is put");
    let accepted = accept(store, vec![new(&definition, 0, 0)]).await;
    assert_eq!(accepted, [AcceptOutcome::New]);
    (definition, id(0, 0))
}

/// A step that gave this.
pub(super) fn step(name: &str, result: impl Into<Value>) -> Event {
    let outcome = StepOutcome::Succeeded { result: result.into() };
    Event::StepFinished { at: at(1), step: name.to_owned(), took_us: 12, outcome }
}

/// The end, at that time.
pub(super) fn finished(seconds: i64, outcome: Outcome) -> Event {
    Event::Finished { at: at(seconds), outcome }
}

pub(super) fn success() -> Outcome {
    Outcome::Succeeded { result: Value::from("done") }
}

pub(super) fn failure(message: &str) -> Outcome {
    Outcome::Failed { error: ActionError::new(ErrorKind::Internal, message) }
}

pub(super) fn line(text: &str) -> LogLine {
    LogLine::new(at(1), LogLevel::Info, Some("first".to_owned()), text)
}

/// An append of these events.
pub(super) fn append(execution: ExecutionId, first: u32, events: Vec<Event>, status: Status) -> Append {
    Append { events, ..Append::new(execution, first, status) }
}

/// Ends an execution that has only started, at that time.
pub(super) async fn end(store: &dyn Store, execution: ExecutionId, seconds: i64, outcome: Outcome) {
    let status = outcome.status();
    store.append(&append(execution, 1, vec![finished(seconds, outcome)], status)).await.expect("it ends");
}

/// A time a little later.
pub(super) fn later(time: Timestamp, nanoseconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_nanos(nanoseconds)).expect("a time within range")
}

/// The ids of a list.
pub(super) async fn list(store: &dyn Store, filter: &ExecutionFilter) -> Vec<ExecutionId> {
    let page = Page { before: None, limit: 1000 };
    let rows = store.executions(filter, page).await.expect("it is listed");
    rows.into_iter().map(|row| row.id).collect()
}
