//! Encoding of executions, appends, polls and values of the state into rows. It runs on the caller's side, so that the
//! connection that writes only executes statements.

#![expect(missing_docs, reason = "most fields are columns, and have their names")]

use std::collections::HashSet;

use bytes::Bytes;
use model::automation::TriggerKey;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Status};
use value::{FileLoadError, Reserved};

use super::columns::to_ns;
use super::events::EncodedEvents;
use super::external::ExternalValues;
use super::start::StartEncoder;
use super::text_room::TextRoom;
use crate::Error;
use crate::types::{
    Append, AwaitedEvent, DedupRecord, InitialEvents, NewExecution, OutboxRow, PollWrite, SnapshotChange,
    StateWrite, Wait,
};

/// The number of characters of an error in a list.
const MAX_ERROR_CHARS: usize = 500;

/// The encoded form of a new execution.
#[derive(Debug)]
pub struct NewExecutionRow<P> {
    pub id: ExecutionId,
    pub automation: AutomationId,
    pub definition: DefinitionHash,
    /// The origin with the trigger.
    pub origin: String,
    /// The execution that led to this one, as [`super::cause_key`] encodes it.
    pub cause: Option<ExecutionId>,
    pub status: Status,
    pub is_test: bool,
    pub started_ns: i64,
    pub finished_ns: Option<i64>,
    pub error: Option<String>,
    pub count: u32,
    pub body: String,
    /// The bytes of a request body, if the text does not contain them.
    pub raw: Option<Bytes>,
    pub external: ExternalValues<P>,
    pub lines: Option<(u32, String)>,
    pub key: Option<String>,
    pub dedup: Vec<DedupRecord>,
    pub emits: Vec<OutboxRow>,
}

/// The encoded form of a poll write.
#[derive(Debug)]
pub struct PollRow {
    pub trigger: TriggerKey,
    pub standing: String,
    pub forget: bool,
    pub keys: Vec<String>,
    pub at_ns: i64,
    pub entry: Option<String>,
}

impl PollRow {
    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 64 + key.len()).sum();
        256 + self.standing.len() + keys
    }
}

/// The encoded form of an append.
#[derive(Debug)]
pub struct AppendRow<P> {
    pub execution: ExecutionId,
    pub first: u32,
    pub count: u32,
    pub body: Option<String>,
    pub external: ExternalValues<P>,
    pub lines: Option<(u32, String)>,
    pub status: Status,
    /// True if it keeps its concurrency permit while it waits.
    pub keeps_permit: bool,
    pub finished_ns: Option<i64>,
    pub error: Option<String>,
    pub waits: Option<Vec<Wait>>,
    pub state: Vec<StateChange>,
    pub snapshot: SnapshotChange,
    pub emits: Vec<OutboxRow>,
}

/// The encoded form of a state write.
#[derive(Debug)]
pub struct StateChange {
    pub scope: String,
    pub key: String,
    pub expected: Option<i64>,
    pub value: Option<String>,
    pub expires_ns: Option<i64>,
}

impl<P> NewExecutionRow<P> {
    /// Encodes an execution. A request body of `large` bytes or more stays in the text, from which it is externalized.
    pub fn new(new: &NewExecution, large: usize, room: &mut TextRoom) -> Result<Self, Error> {
        let InitialEvents { events, logs, emits } = &new.initial;
        OutboxRow::check(emits)?;
        let count =
            u32::try_from(events.len()).ok().and_then(|count| count.checked_add(1)).ok_or_else(too_many)?;
        let status = new.status();
        let (lines, (finished_ns, error)) = (lines(logs)?, ending(status, events.last()));
        let Event::Started { at, automation, definition, origin, payload, trigger, inputs } = &new.started
        else {
            return Err(Error::Invalid {
                reason: "the first event of an execution must be `started`".to_owned(),
            });
        };
        let start = StartEncoder::new(*at, payload, inputs.as_deref(), events, large);
        let (body, named) = room.text(start.size_hint(), &start)?;
        if new.dedup.len() > DedupRecord::MAX {
            return Err(invalid(format!(
                "an execution has at most {} deduplication records",
                DedupRecord::MAX
            )));
        }
        Ok(Self {
            id: new.id,
            automation: automation.clone(),
            definition: *definition,
            status,
            is_test: origin.is_test(),
            origin: super::origin::encode(origin, trigger).map_err(|error| invalid(error.to_string()))?,
            cause: super::cause_key(origin),
            started_ns: to_ns(*at),
            finished_ns,
            error,
            count,
            body,
            raw: start.raw().cloned(),
            external: ExternalValues::naming(named),
            lines,
            key: new.key.clone(),
            dedup: new.dedup.clone(),
            emits: emits.clone(),
        })
    }
}

impl<P> NewExecutionRow<P> {
    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let lines = self.lines.as_ref().map_or(0, |(_, lines)| lines.len());
        256 + self.body.len()
            + self.raw.as_ref().map_or(0, Bytes::len)
            + lines
            + self.key.as_ref().map_or(0, String::len)
            + 96 * self.dedup.len()
            + OutboxRow::bytes(&self.emits)
    }
}

impl<P> AppendRow<P> {
    /// Encodes an [`Append`].
    pub fn new(append: &Append, room: &mut TextRoom) -> Result<Self, Error> {
        let count = u32::try_from(append.events.len()).map_err(|_| too_many())?;
        append.first.checked_add(count).ok_or_else(too_many)?;
        let (body, named) = match count {
            0 => (None, Vec::new()),
            _ => {
                let about = 128 * append.events.len();
                room.text(about, &EncodedEvents(append.events.iter()))
                    .map(|(body, named)| (Some(body), named))?
            }
        };
        let (finished_ns, error) = ending(append.status, append.events.last());
        let waits = append.waits.clone().filter(|_| !append.status.is_terminal());
        waits.as_deref().map_or(Ok(()), check_waits)?;
        append.snapshot.check(append.first)?;
        OutboxRow::check(&append.emits)?;
        Ok(Self {
            execution: append.execution,
            first: append.first,
            count,
            body,
            external: ExternalValues::naming(named),
            lines: lines(&append.logs)?,
            status: append.status,
            keeps_permit: append.keeps_permit && append.status == Status::Waiting,
            finished_ns,
            error,
            waits,
            state: state_changes(&append.state)?,
            snapshot: append.snapshot.clone(),
            emits: append.emits.clone(),
        })
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        256 + self.body.as_ref().map_or(0, String::len)
            + self.lines.as_ref().map_or(0, |(_, lines)| lines.len())
            + self.waits.iter().flatten().map(wait_bytes).sum::<usize>()
            + state_bytes(&self.state)
            + self.snapshot.bytes()
            + OutboxRow::bytes(&self.emits)
    }
}

impl PollRow {
    /// Encodes a [`PollWrite`].
    pub fn new(write: &PollWrite) -> Result<Self, Error> {
        let json = |error: serde_json::Error| Error::Invalid { reason: error.to_string() };
        if write.keys.len() > PollWrite::MAX_KEYS {
            let (most, found) = (PollWrite::MAX_KEYS, write.keys.len());
            return Err(Error::Invalid { reason: format!("a poll has at most {most} keys, not {found}") });
        }
        if let Some(long) = write.keys.iter().find(|key| key.len() > PollWrite::MAX_KEY_BYTES) {
            return Err(Error::TooLarge { bytes: long.len(), limit: PollWrite::MAX_KEY_BYTES });
        }
        let at = write.entry.as_ref().map(|entry| entry.at).or(write.state.polled_at);
        Ok(Self {
            trigger: write.trigger.clone(),
            standing: serde_json::to_string(&write.state).map_err(json)?,
            forget: write.forgets_keys,
            keys: write.keys.clone(),
            at_ns: at.map_or(0, to_ns),
            entry: write.entry.as_ref().map(serde_json::to_string).transpose().map_err(json)?,
        })
    }
}

/// Encodes an origin.
fn json<T: serde::Serialize + ?Sized>(items: &T) -> Result<String, Error> {
    serde_json::to_string(items).map_err(|error| Error::Invalid { reason: error.to_string() })
}

/// Encodes log lines, with their number; `None` if there are none.
fn lines(logs: &[LogLine]) -> Result<Option<(u32, String)>, Error> {
    match u32::try_from(logs.len()).map_err(|_| too_many())? {
        0 => Ok(None),
        count => Ok(Some((count, json(logs)?))),
    }
}

/// Returns the time and the error of the end of an execution, each `None` if there is none.
fn ending(status: Status, last: Option<&Event>) -> (Option<i64>, Option<String>) {
    if !status.is_terminal() {
        return (None, None);
    }
    match last {
        Some(Event::Finished { at, outcome }) => {
            let error = outcome.message().map(|message| message.chars().take(MAX_ERROR_CHARS).collect());
            (Some(to_ns(*at)), error)
        }
        Some(other) => (Some(to_ns(other.at())), None),
        None => (None, None),
    }
}

fn check_waits(waits: &[Wait]) -> Result<(), Error> {
    if waits.len() > Wait::MAX {
        return Err(invalid(format!(
            "an execution has at most {} open waits, not {}",
            Wait::MAX,
            waits.len()
        )));
    }
    let mut steps = HashSet::with_capacity(waits.len());
    match waits.iter().find(|wait| !steps.insert(wait.step.as_str())) {
        Some(twice) => Err(invalid(format!("the step `{}` waits twice", twice.step))),
        None => Ok(()),
    }
}

/// Encodes writes of the state.
pub fn state_changes(writes: &[StateWrite]) -> Result<Vec<StateChange>, Error> {
    let (count, limit) = (writes.len(), StateWrite::MAX_AT_ONCE);
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > limit {
        return Err(invalid(format!("at most {limit} values of the state change at once, not {count}")));
    }
    let mut keys = HashSet::with_capacity(count);
    if let Some(twice) = writes.iter().find(|write| !keys.insert((&*write.scope, &*write.key))) {
        return Err(invalid(format!("the state `{}` of `{}` changes twice at once", twice.key, twice.scope)));
    }
    writes.iter().map(StateChange::new).collect()
}

impl StateChange {
    fn new(write: &StateWrite) -> Result<Self, Error> {
        let StateWrite { scope, key, expected, value, expires_at } = write;
        let (most, limit) = (StateWrite::MAX_NAME_BYTES, StateWrite::MAX_VALUE_BYTES);
        if [scope, key].iter().any(|name| name.is_empty() || name.len() > most) {
            return Err(invalid(format!("a scope and a key of the state have 1 to {most} bytes")));
        }
        // Many executions share a value, so none of them keeps a file for it.
        let value =
            value.as_ref().map(|value| value.load_files(limit, &Reserved::uncounted(limit))).transpose();
        let value = value.map_err(|error| match error {
            FileLoadError::TooLarge { bytes, .. } => {
                Error::TooLarge { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), limit }
            }
            other => Error::Read { reason: other.to_string() },
        })?;
        let value = value.as_ref().map(serde_json::to_string).transpose();
        let value = value.map_err(|error| invalid(error.to_string()))?;
        if let Some(bytes) = value.as_ref().map(String::len).filter(|bytes| *bytes > limit) {
            return Err(Error::TooLarge { bytes, limit });
        }
        // No value has a version of -1.
        let expected = expected.map(|version| i64::try_from(version).unwrap_or(-1));
        Ok(Self {
            scope: scope.clone(),
            key: key.clone(),
            expected,
            value,
            expires_ns: expires_at.map(to_ns),
        })
    }
}

fn wait_bytes(wait: &Wait) -> usize {
    let event = |event: &AwaitedEvent| {
        event.name.len()
            + event.key.path.len()
            + event.key.value.len()
            + event.condition.as_ref().map_or(0, String::len)
    };
    64 + wait.step.len() + wait.event.as_ref().map_or(0, event)
}

/// Returns the approximate size of the values in memory, in bytes.
pub fn state_bytes(changes: &[StateChange]) -> usize {
    let bytes = |change: &StateChange| {
        64 + change.scope.len() + change.key.len() + change.value.as_ref().map_or(0, String::len)
    };
    changes.iter().map(bytes).sum()
}

fn invalid(reason: String) -> Error {
    Error::Invalid { reason }
}

fn too_many() -> Error {
    Error::Invalid { reason: format!("an execution has at most {} events and log lines", u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_waits_of_an_execution_are_bounded() {
        let waits = |count: usize| -> Vec<Wait> {
            let wait = |number| Wait { step: format!("w[{number}]"), until: None, event: None, child: None };
            (0..count).map(wait).collect()
        };
        assert!(check_waits(&waits(Wait::MAX)).is_ok());
        assert!(matches!(check_waits(&waits(Wait::MAX + 1)), Err(Error::Invalid { .. })));
    }
}
