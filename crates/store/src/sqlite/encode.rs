//! Encoding of writes into rows. It runs on the caller's side, so that the writer thread only executes statements.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use model::value::FileLoadError;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Origin, Status};

use super::blobs::{ExternalValues, Hash};
use super::columns::{shelf, to_ns};
use super::event_codec::EncodedEvents;
use super::start_codec::StartEncoder;
use super::text_room::TextRoom;
use crate::types::{
    Accept, Address, Append, AwaitedEvent, DedupRecord, Definition, InitialEvents, NewExecution,
    SnapshotChange, StateWrite, Subscription, Wait, Watermark,
};
use crate::{AcceptOutcome, Error};

/// The number of characters of an error in a list.
const MAX_ERROR_CHARS: usize = 500;

/// A write operation, as it is queued for the writer.
#[derive(Debug)]
pub(super) enum WriteOp {
    /// New executions, and the watermark and the poll they belong to.
    Accept { executions: Vec<NewExecutionRow>, watermark: Option<Watermark>, poll: Option<Box<PollRow>> },
    /// Stores a subscription, or deletes it if there is none to store.
    PutSubscription { id: String, kept: Option<(AutomationId, String)> },
    /// Events and log lines of one execution.
    Append(Box<AppendRow>),
    /// The text of a definition.
    PutDefinition(Definition),
    /// Addresses, each replacing the one of its Automation.
    PutAddresses(Vec<Address>),
    /// Values of the state to store or delete.
    WriteState(Vec<StateChange>),
    /// The signing key to store if there is none. Returns [`WriteResult::Secret`].
    PutSecret(SecretKey),
    /// Deletes the rows of these executions; their events and logs stay for now. Returns [`WriteResult::Count`].
    DeleteExecutions(Vec<ExecutionId>),
    /// Deletes some of the events and logs of deleted executions. Returns [`WriteResult::More`].
    DeleteRemains,
    /// Deletes unreferenced definitions. Returns [`WriteResult::More`].
    DeleteDefinitions,
    /// Deletes some of the rows of unused blobs. Returns [`WriteResult::DeletedBlobs`].
    DeleteBlobRows,
    /// Deletes at most `limit` keys of deleted executions with ids before this. Returns [`WriteResult::Count`].
    DeleteKeys { before: [u8; 6], limit: u32 },
    /// Deletes some of the values that expired before this, at most `limit`. Returns [`WriteResult::Count`].
    DeleteExpiredState { before_ns: i64, limit: u32 },
    /// Deletes some deduplication records that expired before this, at most `limit`. Returns [`WriteResult::Count`].
    DeleteExpiredDedup { before_ns: i64, limit: u32 },
    /// Returns some free pages to the file system. Returns [`WriteResult::More`].
    Vacuum,
}

/// The result of a write operation.
#[derive(Debug)]
pub(super) enum WriteResult {
    /// Success without a value.
    Nothing,
    /// The outcome of each new execution.
    Accepted(Vec<AcceptOutcome>),
    /// The number of deleted rows.
    Count(u64),
    /// True if the same operation has more to do.
    More(bool),
    /// The blobs whose rows were deleted.
    DeletedBlobs(Vec<Hash>),
    /// The stored key.
    Secret(SecretKey),
}

/// A signing key. Its debug output is `***`.
pub(super) struct SecretKey(pub(super) [u8; 32]);

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// The encoded form of a new execution.
#[derive(Debug)]
pub(super) struct NewExecutionRow {
    pub(super) id: ExecutionId,
    pub(super) automation: AutomationId,
    pub(super) definition: DefinitionHash,
    pub(super) origin: String,
    pub(super) status: Status,
    pub(super) shelf: i64,
    pub(super) started_ns: i64,
    pub(super) finished_ns: Option<i64>,
    pub(super) error: Option<String>,
    pub(super) count: u32,
    pub(super) body: String,
    /// The bytes of a request body, if the text does not contain them.
    pub(super) raw: Option<Bytes>,
    pub(super) external: ExternalValues,
    pub(super) lines: Option<(u32, String)>,
    pub(super) key: Option<String>,
    pub(super) dedup: Vec<DedupRecord>,
}

/// The encoded form of a poll write.
#[derive(Debug)]
pub(super) struct PollRow {
    pub(super) automation: AutomationId,
    pub(super) standing: String,
    pub(super) forget: bool,
    pub(super) keys: Vec<String>,
    pub(super) at_ns: i64,
    pub(super) entry: Option<String>,
}

impl PollRow {
    fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 64 + key.len()).sum();
        256 + self.standing.len() + keys
    }
}

/// The encoded form of an append.
#[derive(Debug)]
pub(super) struct AppendRow {
    pub(super) execution: ExecutionId,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) body: Option<String>,
    pub(super) external: ExternalValues,
    pub(super) lines: Option<(u32, String)>,
    pub(super) status: Status,
    /// The shelf without [`TEST_SHELF`].
    pub(super) shelf: i64,
    pub(super) finished_ns: Option<i64>,
    pub(super) error: Option<String>,
    pub(super) waits: Option<Vec<Wait>>,
    pub(super) state: Vec<StateChange>,
    pub(super) snapshot: SnapshotChange,
}

/// The encoded form of a state write.
#[derive(Debug)]
pub(super) struct StateChange {
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) expected: Option<i64>,
    pub(super) value: Option<String>,
    pub(super) expires_ns: Option<i64>,
}

impl WriteOp {
    /// Encodes an [`Accept`]. A request body of `large` bytes or more stays in the text, from which it is externalized.
    pub(super) fn accept(accept: &Accept, large: usize, room: &mut TextRoom) -> Result<Self, Error> {
        // Most often there is one, for which `collect` would allocate room for four.
        let mut executions = Vec::with_capacity(accept.executions.len());
        for execution in &accept.executions {
            executions.push(NewExecutionRow::new(execution, large, room)?);
        }
        let poll = accept.poll.as_ref().map(PollRow::new).transpose()?.map(Box::new);
        Ok(Self::Accept { executions, watermark: accept.watermark.clone(), poll })
    }

    /// Encodes a subscription to store.
    pub(super) fn put_subscription(subscription: Subscription) -> Result<Self, Error> {
        let body = serde_json::to_string(&subscription)
            .map_err(|error| Error::Invalid { reason: error.to_string() })?;
        Ok(Self::PutSubscription { id: subscription.id, kept: Some((subscription.automation, body)) })
    }

    /// Encodes an [`Append`].
    pub(super) fn append(append: &Append, room: &mut TextRoom) -> Result<Self, Error> {
        let count = u32::try_from(append.events.len()).map_err(|_| too_many())?;
        append.first.checked_add(count).ok_or_else(too_many)?;
        let (body, external) = match count {
            0 => (None, ExternalValues::default()),
            _ => {
                let about = 128 * append.events.len();
                room.text(about, &EncodedEvents(append.events.iter()))
                    .map(|(body, external)| (Some(body), external))?
            }
        };
        let (finished_ns, error) = ending(append.status, append.events.last());
        let waits = append.waits.clone().filter(|_| !append.status.is_terminal());
        waits.as_deref().map_or(Ok(()), check_waits)?;
        append.snapshot.check(append.first)?;
        Ok(Self::Append(Box::new(AppendRow {
            execution: append.execution,
            first: append.first,
            count,
            body,
            external,
            lines: lines(&append.logs)?,
            status: append.status,
            shelf: shelf(append.status, append.keeps_permit, false),
            finished_ns,
            error,
            waits,
            state: changes(&append.state)?,
            snapshot: append.snapshot.clone(),
        })))
    }

    /// Encodes writes of the state.
    pub(super) fn write_state(writes: Vec<StateWrite>) -> Result<Self, Error> {
        Ok(Self::WriteState(changes(&writes)?))
    }

    /// Returns the texts that may contain large values, each with its list of external values.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = (&mut String, &mut ExternalValues)> {
        let (new, appended) = match self {
            Self::Accept { executions, .. } => (executions.as_mut_slice(), None),
            Self::Append(row) => {
                let row = &mut **row;
                (&mut [][..], row.body.as_mut().map(|body| (body, &mut row.external)))
            }
            _ => (&mut [][..], None),
        };
        new.iter_mut().map(|row| (&mut row.body, &mut row.external)).chain(appended)
    }

    /// Returns true if it adds or removes references to blobs.
    pub(super) fn concerns_blobs(&self) -> bool {
        match self {
            Self::Accept { executions, .. } => executions.iter().any(|row| !row.external.is_empty()),
            Self::Append(row) => !row.external.is_empty(),
            Self::DeleteRemains | Self::DeleteBlobRows | Self::Vacuum => true,
            _ => false,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Accept { executions, poll, .. } => {
                let rows = executions.iter();
                let bytes = |row: &NewExecutionRow| {
                    let lines = row.lines.as_ref().map_or(0, |(_, lines)| lines.len());
                    256 + row.body.len()
                        + row.raw.as_ref().map_or(0, Bytes::len)
                        + lines
                        + row.key.as_ref().map_or(0, String::len)
                        + 96 * row.dedup.len()
                };
                rows.map(bytes).sum::<usize>() + poll.as_ref().map_or(0, |poll| poll.bytes())
            }
            Self::PutSubscription { kept, .. } => 256 + kept.as_ref().map_or(0, |(_, body)| body.len()),
            Self::Append(row) => {
                256 + row.body.as_ref().map_or(0, String::len)
                    + row.lines.as_ref().map_or(0, |(_, lines)| lines.len())
                    + row.waits.iter().flatten().map(wait_bytes).sum::<usize>()
                    + state_bytes(&row.state)
                    + row.snapshot.bytes()
            }
            Self::WriteState(changes) => state_bytes(changes),
            Self::PutDefinition(definition) => 256 + definition.text.len(),
            Self::PutAddresses(addresses) => 256 * addresses.len(),
            Self::DeleteExecutions(ids) => 16 * ids.len(),
            Self::PutSecret(_)
            | Self::DeleteRemains
            | Self::DeleteDefinitions
            | Self::DeleteBlobRows
            | Self::DeleteKeys { .. }
            | Self::DeleteExpiredState { .. }
            | Self::DeleteExpiredDedup { .. }
            | Self::Vacuum => 0,
        }
    }
}

impl NewExecutionRow {
    fn new(new: &NewExecution, large: usize, room: &mut TextRoom) -> Result<Self, Error> {
        let InitialEvents { events, logs } = &new.initial;
        let count =
            u32::try_from(events.len()).ok().and_then(|count| count.checked_add(1)).ok_or_else(too_many)?;
        let status = new.status();
        let (lines, (finished_ns, error)) = (lines(logs)?, ending(status, events.last()));
        let Event::Started { at, automation, definition, origin, payload } = &new.started else {
            return Err(Error::Invalid {
                reason: "the first event of an execution must be `started`".to_owned(),
            });
        };
        let start = StartEncoder::new(*at, payload, events, large);
        let (body, external) = room.text(start.size_hint(), &start)?;
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
            shelf: shelf(status, false, origin.is_test()),
            origin: to_json(origin)?,
            started_ns: to_ns(*at),
            finished_ns,
            error,
            count,
            body,
            raw: start.raw().cloned(),
            external,
            lines,
            key: new.key.clone(),
            dedup: new.dedup.clone(),
        })
    }
}

/// Encodes an origin.
fn to_json(origin: &Origin) -> Result<String, Error> {
    serde_json::to_string(origin).map_err(|error| Error::Invalid { reason: error.to_string() })
}

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

fn changes(writes: &[StateWrite]) -> Result<Vec<StateChange>, Error> {
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
        let value = value.as_ref().map(|value| value.load_files(limit)).transpose();
        let value = value.map_err(|error| match error {
            FileLoadError::TooLarge { bytes, .. } => {
                Error::TooLarge { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), limit }
            }
            FileLoadError::Unreadable(error) => Error::Read { reason: error.to_string() },
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

fn state_bytes(changes: &[StateChange]) -> usize {
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
