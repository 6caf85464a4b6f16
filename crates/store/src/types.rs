//! Plain values that the store takes and returns.

mod poll;
mod prune;
mod sending;
mod state;
mod wait;

use std::time::Duration;

use jiff::Timestamp;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Origin, Status};

pub use poll::{PollEntry, PollStanding, PollWrite, Subscription};
pub use prune::{Outcomes, Prune, PruneRule, Room};
pub use sending::{Sending, Sent};
pub use state::{StateEntry, StateRow, StateWrite};
pub use wait::{Resting, Wait};

/// The text of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The SHA-256 of the text and the id.
    pub hash: DefinitionHash,
    /// Of which Automation.
    pub automation: AutomationId,
    /// The path of the file it was read from, for messages.
    pub path: String,
    /// The file's text; where it names files of code, these too, in a form of the engine's own.
    pub text: String,
}

/// Executions accepted in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Accept {
    /// The executions.
    pub executions: Vec<NewExecution>,
    /// The instant up to which a schedule has been dealt with.
    pub watermark: Option<Watermark>,
    /// The poll that found what they start with.
    pub poll: Option<PollWrite>,
}

/// An execution to accept.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// Its id.
    pub id: ExecutionId,
    /// Its first event, which is `Event::Started`.
    pub started: Event,
    /// A key that is unique for its Automation for ever, or until pruned by age: a tick's instant, a dedup value.
    pub key: Option<String>,
    /// The names of what was sent, which count until their end; up to [`Sending::MAX`]. They are held against the
    /// time of its first event.
    pub sendings: Vec<Sending>,
    /// Whether its steps begin at once: it is listed as running then, and as queued otherwise.
    pub begins: bool,
    /// What has happened in it already, to be stored with its start in one row.
    pub already: Already,
}

/// What has happened in an execution before it was stored: steps that can be done again without anybody noticing.
#[derive(Clone, Debug, Default)]
pub struct Already {
    /// The events after the first; the last may be its end.
    pub events: Vec<Event>,
    /// Log lines, in order.
    pub logs: Vec<LogLine>,
}

/// What became of an execution to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It stands.
    New,
    /// Its key, or one of its names, was taken by this one.
    Duplicate(ExecutionId),
    /// One of its names was taken by this one, for something else.
    Mismatch(ExecutionId),
}

/// Events to append.
#[derive(Clone, Debug)]
pub struct Append {
    /// To which execution.
    pub execution: ExecutionId,
    /// The index of the first event: how many are stored so far.
    pub first: u32,
    /// The events; may be empty where only log lines come.
    pub events: Vec<Event>,
    /// Log lines, in order.
    pub logs: Vec<LogLine>,
    /// Where the execution stands after these events.
    pub status: Status,
    /// Whether it keeps a place among others while it waits; means nothing unless the status is waiting.
    pub holds: bool,
    /// What it waits for now, in place of all it waited for; `None` changes nothing. Up to [`Wait::MAX`]. An
    /// execution that comes to an end waits for nothing, whatever is said here.
    pub waits: Option<Vec<Wait>>,
    /// What it keeps or deletes of the state, each key once at most. Up to [`StateWrite::MAX_AT_ONCE`].
    pub state: Vec<StateWrite>,
}

impl Append {
    /// An append of nothing yet, after the `first` events that are stored.
    #[must_use]
    pub fn new(execution: ExecutionId, first: u32, status: Status) -> Self {
        Self {
            execution,
            first,
            events: Vec::new(),
            logs: Vec::new(),
            status,
            holds: false,
            waits: None,
            state: Vec::new(),
        }
    }
}

/// What a list shows of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionRow {
    /// Its id.
    pub id: ExecutionId,
    /// Of which Automation.
    pub automation: AutomationId,
    /// On which definition.
    pub definition: DefinitionHash,
    /// What started it.
    pub origin: Origin,
    /// Where it stands.
    pub status: Status,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What went wrong, if anything did: the first 500 characters.
    pub error: Option<String>,
    /// How many events are stored.
    pub events: u32,
}

/// Which executions to list; every part that is given must fit.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Of this Automation.
    pub automation: Option<AutomationId>,
    /// In one of these states.
    pub status: Vec<Status>,
    /// Accepted at or after. The id's own time must agree with the *started* event's to the millisecond.
    pub since: Option<Timestamp>,
    /// Accepted before; as for `since`.
    pub until: Option<Timestamp>,
    /// Tests only, or none of them.
    pub test: Option<bool>,
}

/// Which page of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Those older than this one.
    pub before: Option<ExecutionId>,
    /// How many at most, up to 1,000.
    pub limit: u32,
}

/// The two secret addresses of an Automation. They outlive edits, renames of the file, and restarts.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Of which Automation.
    pub automation: AutomationId,
    /// The token of the live address.
    pub live: String,
    /// The token of the test address.
    pub test: String,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is the secret: it never reaches a log.
        write!(formatter, "Address({})", self.automation)
    }
}

/// The instant up to which a schedule has been dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Of which Automation.
    pub automation: AutomationId,
    /// What the schedule says, so that a changed one starts a new timeline.
    pub schedule: String,
    /// The instant.
    pub instant: Timestamp,
}

/// What there is to know of the store itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// What it is, with its version: `SQLite 3.54.1`.
    pub engine: String,
    /// Where it is.
    pub location: String,
    /// The version of its tables.
    pub schema: u32,
    /// How many bytes its file and its log take.
    pub bytes: u64,
    /// Of these, the bytes of the file that hold something; the rest is written over before the file grows.
    pub used: u64,
    /// How many bytes its large values take, in files of their own.
    pub blob_bytes: u64,
    /// How many bytes it may take, its large values included, if that is limited.
    pub max_bytes: Option<u64>,
    /// How much room is left of that.
    pub room: Room,
    /// What a promise has been weakened by, in words.
    pub weakened: Vec<String>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Writes that were answered as durable.
    pub writes: u64,
    /// Commits, each of one batch of writes.
    pub commits: u64,
    /// How many writes the last commit made durable.
    pub last_batch: u64,
    /// How long all commits took, from asking for the commit to its being on disk.
    pub commit_time: Duration,
    /// How long the last commit took.
    pub last_commit_time: Duration,
    /// How long the slowest commit took.
    pub slowest_commit_time: Duration,
    /// Writes that wait their turn now.
    pub queued: u64,
}
