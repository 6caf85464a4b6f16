//! Sample executions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use model::{
    AutomationId, DefinitionHash, Event, ExecutionId, Origin, Outcome, Payload, Status, StepOutcome,
};
use store::{
    Accept, Append, AwaitedEvent, Backup, Definition, Error, EventWaiter, InitialEvents, NewExecution,
    Options, Restored, StateWrite, Store, Wait,
};
use value::{Map, Value};

pub(crate) fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<dyn Store>, Error> {
    store_sqlite::open(path.as_ref(), options)
}

pub(crate) fn open_read_only(path: impl AsRef<Path>) -> Result<Arc<dyn Store>, Error> {
    store_sqlite::open_read_only(path.as_ref())
}

pub(crate) fn back_up(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup, Error> {
    store_sqlite::back_up(from.as_ref(), to.as_ref())
}

pub(crate) fn restore(from: &Path, to: &Path, replace: bool) -> Result<Restored, Error> {
    store_sqlite::restore(from, to, replace, at(0))
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).expect("a time")
}

pub(crate) fn id(number: u32) -> ExecutionId {
    let mut random = [0; 10];
    random[..4].copy_from_slice(&number.to_be_bytes());
    ExecutionId::new(at(i64::from(number)), random)
}

pub(crate) fn definition() -> Definition {
    let automation = AutomationId::parse("orders").expect("an id");
    let text = "steps: []".to_owned();
    let hash = DefinitionHash::compute(&automation, &text);
    Definition { hash, automation, path: "automations/orders.yaml".to_owned(), text }
}

/// Returns a text of this size that depends on the seed and hardly compresses.
pub(crate) fn text(seed: u32, bytes: usize) -> String {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letters = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'#' + u8::try_from((state >> 20) % 57).unwrap_or(0))
    });
    letters.take(bytes).collect()
}

/// Returns the sorted blob files of a store in this directory.
pub(crate) fn blob_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for part in std::fs::read_dir(directory.join("blobs")).into_iter().flatten() {
        let part = part.expect("it is read").path();
        if part.file_name().is_some_and(|name| name != "unnamed") {
            let files = std::fs::read_dir(part).expect("it is read");
            found.extend(files.map(|file| file.expect("it is read").path()));
        }
    }
    found.sort();
    found
}

/// Creates the numbered execution, with an input of this size.
pub(crate) fn new(number: u32, bytes: usize) -> NewExecution {
    let definition = definition();
    let inputs: Map = [("text", Value::from(text(number, bytes)))].into_iter().collect();
    let started = Event::Started {
        at: at(i64::from(number)),
        automation: definition.automation,
        definition: definition.hash,
        origin: Origin::Manual,
        payload: Payload::manual(inputs).into(),
        trigger: model::automation::TriggerId::MAIN,
        inputs: None,
    };
    NewExecution {
        id: id(number),
        started,
        key: None,
        dedup: Vec::new(),
        starts_running: false,
        initial: InitialEvents::default(),
        gated: false,
    }
}

pub(crate) fn accept(number: u32, bytes: usize) -> Accept {
    Accept { executions: vec![new(number, bytes)], ..Accept::default() }
}

/// Appends a finished step.
pub(crate) fn step(number: u32, first: u32, bytes: usize) -> Append {
    let outcome = StepOutcome::Succeeded { result: Value::from(text(number ^ first << 16, bytes)) };
    let event = Event::StepFinished { at: at(1), step: format!("s[{first}]"), took_us: 1, outcome };
    Append { events: vec![event], ..Append::new(id(number), first, Status::Running) }
}

pub(crate) fn end(number: u32, first: u32) -> Append {
    let event = Event::Finished { at: at(1000), outcome: Outcome::Succeeded { result: Value::Null } };
    Append { events: vec![event], ..Append::new(id(number), first, Status::Succeeded) }
}

/// Like [`step`], with a wait and a new state value, both named after the first event.
pub(crate) fn pause(number: u32, first: u32, bytes: usize) -> Append {
    let until = Some(at(i64::from(first)));
    let paid = AwaitedEvent { name: "paid".to_owned(), ..AwaitedEvent::default() };
    let wait = Wait { step: format!("w[{first}]"), until, event: Some(paid), child: None };
    let state = StateWrite {
        scope: format!("{number}"),
        key: format!("k[{first}]"),
        expected: None,
        value: Some(Value::from(first)),
        expires_at: None,
    };
    let step = step(number, first, bytes);
    Append { status: Status::Waiting, waits: Some(vec![wait]), state: vec![state], ..step }
}

/// Asserts that the waits and the state are those of the last [`pause`], and returns the number of events.
pub(crate) async fn whole(store: &dyn Store, number: u32) -> usize {
    let events = store.events(id(number)).await.expect("it is read").expect("it is there");
    let waits = store.waits(id(number)).await.expect("they are read");
    let state = store.list_state(&number.to_string(), None, 1000).await.expect("it is listed");
    let steps: Vec<_> = waits.iter().map(|wait| wait.step.clone()).collect();
    let last = events.len() - 1;
    let wanted = if last > 0 { vec![format!("w[{last}]")] } else { Vec::new() };
    assert_eq!((steps, state.len()), (wanted, last), "execution {number} with {} events", events.len());
    let after =
        EventWaiter { execution: id(number), step: String::new(), value: String::new(), condition: None };
    let waiting = store.waiting_for_event("paid", "", Some(""), Some(after), 1).await.expect("they are read");
    assert_eq!(waiting.iter().any(|waiter| waiter.execution == id(number)), last > 0);
    let row = store.execution(id(number)).await.expect("it is read").expect("it is there");
    assert_eq!(row.status, if last > 0 { Status::Waiting } else { Status::Queued });
    events.len()
}

/// Stores the definition to which all executions refer.
pub(crate) async fn prepare(store: &dyn Store) {
    store.put_definition(definition()).await.expect("it is put");
}
