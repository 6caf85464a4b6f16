//! Rows as they are stored, made on the caller's side so that the writer has nothing to do but write them.

use jiff::Timestamp;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, Origin, Status};

use crate::contract::{Accept, Address, Append, Definition, NewExecution, Watermark};
use crate::{Accepted, Error};

/// How many characters of an error a list shows.
const MAX_ERROR_CHARS: usize = 500;

/// Added to the shelf of a test.
const TEST_SHELF: i64 = 8;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Work {
    /// New executions, and the watermark they belong to.
    Accept { executions: Vec<NewRow>, watermark: Option<Watermark> },
    /// Events and log lines of one execution.
    Append(AppendRow),
    /// A definition's text.
    PutDefinition(Definition),
    /// Addresses, each in place of its Automation's last one.
    PutAddresses(Vec<Address>),
    /// Delete these executions, but for their events and logs. Answered with [`Done::Count`].
    Forget(Vec<ExecutionId>),
    /// Delete some of the events and logs that deleted executions left. Answered with [`Done::More`].
    Sweep,
    /// Delete definitions that nothing refers to.
    ForgetDefinitions,
    /// Delete keys of deleted executions with ids before this, so many at most. Answered with [`Done::Count`].
    ForgetKeys { before: [u8; 6], limit: u32 },
    /// Give some free pages back to the file system. Answered with [`Done::More`].
    GiveBack,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    /// It is done.
    Nothing,
    /// What became of each new execution.
    Accepted(Vec<Accepted>),
    /// How many went.
    Count(u64),
    /// Whether there is more to do of the same.
    More(bool),
}

/// A new execution.
#[derive(Debug)]
pub(super) struct NewRow {
    pub(super) id: ExecutionId,
    pub(super) automation: AutomationId,
    pub(super) definition: DefinitionHash,
    pub(super) origin: String,
    pub(super) status: Status,
    pub(super) shelf: i64,
    pub(super) started_ns: i64,
    pub(super) body: String,
    pub(super) key: Option<String>,
}

/// Events and log lines of one execution.
#[derive(Debug)]
pub(super) struct AppendRow {
    pub(super) execution: ExecutionId,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) body: Option<String>,
    pub(super) lines: Option<(u32, String)>,
    pub(super) status: Status,
    pub(super) finished_ns: Option<i64>,
    pub(super) error: Option<String>,
}

impl Work {
    /// What [`Accept`] asks for.
    pub(super) fn accept(accept: Accept) -> Result<Self, Error> {
        let executions = accept.executions.into_iter().map(NewRow::of).collect::<Result<_, _>>()?;
        Ok(Self::Accept { executions, watermark: accept.watermark })
    }

    /// What [`Append`] asks for.
    pub(super) fn append(append: &Append) -> Result<Self, Error> {
        let count = u32::try_from(append.events.len()).map_err(|_| too_many())?;
        append.first.checked_add(count).ok_or_else(too_many)?;
        let body = if count > 0 { Some(json(&append.events)?) } else { None };
        let lines = match u32::try_from(append.logs.len()).map_err(|_| too_many())? {
            0 => None,
            count => Some((count, json(&append.logs)?)),
        };
        let (finished_ns, error) = ending(append);
        Ok(Self::Append(AppendRow {
            execution: append.execution,
            first: append.first,
            count,
            body,
            lines,
            status: append.status,
            finished_ns,
            error,
        }))
    }

    /// About how many bytes it holds in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Accept { executions, .. } => executions
                .iter()
                .map(|row| 256 + row.body.len() + row.key.as_ref().map_or(0, String::len))
                .sum(),
            Self::Append(row) => {
                256 + row.body.as_ref().map_or(0, String::len)
                    + row.lines.as_ref().map_or(0, |(_, lines)| lines.len())
            }
            Self::PutDefinition(definition) => 256 + definition.text.len(),
            Self::PutAddresses(addresses) => 256 * addresses.len(),
            Self::Forget(ids) => 16 * ids.len(),
            Self::Sweep | Self::ForgetDefinitions | Self::ForgetKeys { .. } | Self::GiveBack => 0,
        }
    }
}

impl NewRow {
    fn of(new: NewExecution) -> Result<Self, Error> {
        let body = json(std::slice::from_ref(&new.started))?;
        let Event::Started { at, automation, definition, origin, .. } = new.started else {
            return Err(Error::Invalid {
                reason: "the first event of an execution must be `started`".to_owned(),
            });
        };
        Ok(Self {
            id: new.id,
            automation,
            definition,
            status: if new.begins { Status::Running } else { Status::Queued },
            shelf: shelf(Status::Queued, origin.is_test()),
            origin: to_json(&origin)?,
            started_ns: to_ns(at),
            body,
            key: new.key,
        })
    }
}

/// The number that stands for a status in the tables.
pub(super) fn status_code(status: Status) -> i64 {
    match status {
        Status::Queued => 0,
        Status::Running => 1,
        Status::Succeeded => 2,
        Status::Failed => 3,
        Status::Cancelled => 4,
        Status::Stuck => 5,
        Status::Waiting => 6,
    }
}

/// The status that a number in the tables stands for.
pub(super) fn status_of(code: i64) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status_code(*status) == code)
}

/// The list in which an execution stands, as the tables number it.
pub(super) fn shelf(status: Status, test: bool) -> i64 {
    let base = if status.is_terminal() { status_code(status) } else { 0 };
    if test { base + TEST_SHELF } else { base }
}

/// Nanoseconds since the epoch; what lies before 1677 or after 2262 becomes the end of that range.
pub(super) fn to_ns(at: Timestamp) -> i64 {
    let ns = at.as_nanosecond();
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// The first six bytes of every id made in this millisecond: less than all of them.
pub(super) fn id_prefix(millisecond: i64) -> [u8; 6] {
    const LAST: u64 = (1 << 48) - 1;
    let bytes = u64::try_from(millisecond).unwrap_or_default().min(LAST).to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

/// The origin as it is stored.
fn to_json(origin: &Origin) -> Result<String, Error> {
    serde_json::to_string(origin).map_err(|error| Error::Invalid { reason: error.to_string() })
}

fn json<T: serde::Serialize>(items: &[T]) -> Result<String, Error> {
    serde_json::to_string(items).map_err(|error| Error::Invalid { reason: error.to_string() })
}

/// When and with what error an execution ends by these events, if it does.
fn ending(append: &Append) -> (Option<i64>, Option<String>) {
    if !append.status.is_terminal() {
        return (None, None);
    }
    match append.events.last() {
        Some(Event::Finished { at, outcome }) => {
            let error = outcome.message().map(|message| message.chars().take(MAX_ERROR_CHARS).collect());
            (Some(to_ns(*at)), error)
        }
        Some(other) => (Some(to_ns(other.at())), None),
        None => (None, None),
    }
}

fn too_many() -> Error {
    Error::Invalid { reason: format!("an execution has at most {} events and log lines", u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_number_of_its_own_that_reads_back() {
        for status in Status::ALL {
            assert_eq!(status_of(status_code(status)), Some(status));
        }
        assert_eq!(status_of(7), None);
    }

    #[test]
    fn queued_and_running_share_a_shelf_and_tests_stand_apart() {
        assert_eq!(shelf(Status::Queued, false), shelf(Status::Running, false));
        assert_ne!(shelf(Status::Queued, true), shelf(Status::Queued, false));
        assert_eq!(shelf(Status::Stuck, true), 13);
    }

    #[test]
    fn an_id_prefix_is_below_all_ids_of_its_millisecond_and_above_those_before() {
        let at = Timestamp::from_millisecond(1_700_000_000_123).expect("a time");
        let before = Timestamp::from_millisecond(1_700_000_000_122).expect("a time");
        let prefix = id_prefix(at.as_millisecond());
        assert!(prefix.as_slice() < ExecutionId::new(at, [0; 10]).as_bytes().as_slice());
        assert!(prefix.as_slice() > ExecutionId::new(before, [0xff; 10]).as_bytes().as_slice());
        assert_eq!(id_prefix(-5), [0; 6]);
    }
}
