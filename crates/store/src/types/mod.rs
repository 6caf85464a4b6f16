//! Plain values that the store takes and returns.

mod bucket;
mod dedup;
mod generation;
mod listening;
mod outbox;
mod peer;
mod poll;
mod prune;
mod replay;
mod state;
mod wait;

use std::time::Duration;

use jiff::Timestamp;
use model::automation::{TriggerId, TriggerKey};
use model::metric::HistogramSnapshot;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Origin, Status};

pub use bucket::{BucketKind, TokenGrant, TokenRequest};
pub use dedup::{DedupHit, DedupRecord};
pub use generation::{
    DeployOutcome, DeployedFile, Generation, GenerationSource, NewGeneration, RunningGeneration,
};
pub use listening::{Listening, NewCapture, NewListening};
pub use outbox::{OutboxCount, OutboxRow};
pub use peer::{
    HandedExecution, Letter, LetterState, Load, News, Node, NodeDetails, NodeId, Recipient, ServerTime,
    Shard, ShardSet, SharedSettings,
};
pub use poll::{PollEntry, PollState, PollWrite, Subscription};
pub use prune::{Capacity, OutcomeFilter, PruneFilter, PruneRule};
pub use replay::{ReplayLog, Snapshot, SnapshotChange};
pub use state::{StateEntry, StateRow, StateWrite};
pub use wait::{AwaitedEvent, EventKey, EventWaiter, SuspendedExecution, Wait};

/// The text of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The SHA-256 of the text and the id.
    pub hash: DefinitionHash,
    /// The Automation.
    pub automation: AutomationId,
    /// The path of the source file, for messages.
    pub path: String,
    /// The text of the file, with the files of code that it names, in a form that the engine defines.
    pub text: String,
}

/// A stored definition without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionUse {
    /// The SHA-256 of the text and the id.
    pub hash: DefinitionHash,
    /// The path of the source file when it was stored first.
    pub path: String,
    /// The number of stored executions that run on it, or ran on it.
    pub executions: u64,
}

/// Executions to accept in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Accept {
    /// The executions.
    pub executions: Vec<NewExecution>,
    /// The watermark of the schedule whose ticks these executions are.
    pub watermark: Option<Watermark>,
    /// The result of the poll that returned the payloads.
    pub poll: Option<PollWrite>,
    /// The events that are sent with it; at most [`OutboxRow::MAX_AT_ONCE`].
    pub emits: Vec<OutboxRow>,
    /// The events that nothing else is to get: they are deleted.
    pub delivered: Vec<ExecutionId>,
}

/// An execution to accept.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// The id.
    pub id: ExecutionId,
    /// The first event, which must be `Event::Started`.
    pub started: Event,
    /// The key that is unique within the Automation until it is pruned: the instant of a tick, or a dedup value.
    pub key: Option<String>,
    /// The deduplication records to take; at most [`DedupRecord::MAX`]. They are compared with the time of the first
    /// event.
    pub dedup: Vec<DedupRecord>,
    /// True if its steps start at once, so that its status is running; else it is queued.
    pub starts_running: bool,
    /// The events and logs before the execution was stored, which are written in the same row.
    pub initial: InitialEvents,
    /// True if it may have to wait for other executions of its Automation. Where several nodes share the store, the owner of
    /// the Automation's shard gets it.
    pub gated: bool,
}

impl NewExecution {
    /// Returns the status with which it is stored. Events that a replay takes over from another execution do not count as
    /// progress.
    pub(crate) fn status(&self) -> Status {
        let kept = match &self.started {
            Event::Started { origin, .. } => origin.kept_events() as usize,
            _ => 0,
        };
        match self.initial.events.last() {
            Some(Event::Finished { outcome, .. }) => outcome.status(),
            _ if self.starts_running || self.initial.events.len() > kept => Status::Running,
            _ => Status::Queued,
        }
    }
}

/// Events and logs of an execution from before it was stored. Its steps so far must be repeatable without a visible
/// effect, since a crash loses them.
#[derive(Clone, Debug, Default)]
pub struct InitialEvents {
    /// The events after the first; the last may be the end of the execution.
    pub events: Vec<Event>,
    /// The log lines, in order.
    pub logs: Vec<LogLine>,
    /// The events that its steps send; at most [`OutboxRow::MAX_AT_ONCE`]. They are stored if the execution is.
    pub emits: Vec<OutboxRow>,
}

/// The result of accepting one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptOutcome {
    /// The execution is stored, and this node has it.
    New,
    /// The execution is stored, and the owner of its shard has it.
    Elsewhere,
    /// This execution has taken the key, or one of the deduplication records, before.
    Duplicate(ExecutionId),
    /// This execution has taken one of the deduplication records with different content.
    Mismatch(ExecutionId),
}

/// Events to append to an execution.
#[derive(Clone, Debug)]
pub struct Append {
    /// The execution.
    pub execution: ExecutionId,
    /// The index of the first event, which must be the number of stored events.
    pub first: u32,
    /// The events; empty if only log lines are appended.
    pub events: Vec<Event>,
    /// The log lines, in order.
    pub logs: Vec<LogLine>,
    /// The status after these events.
    pub status: Status,
    /// True if the execution keeps its concurrency permit while it waits. Ignored unless the status is waiting.
    pub keeps_permit: bool,
    /// The open waits, which replace all earlier ones; `None` leaves them unchanged. At most [`Wait::MAX`]. Ignored if
    /// the execution ends, which deletes its waits.
    pub waits: Option<Vec<Wait>>,
    /// The writes of state, each key at most once. At most [`StateWrite::MAX_AT_ONCE`].
    pub state: Vec<StateWrite>,
    /// The change of its snapshot. A new snapshot covers the `first` events of this append.
    pub snapshot: SnapshotChange,
    /// The events that it sends; at most [`OutboxRow::MAX_AT_ONCE`].
    pub emits: Vec<OutboxRow>,
}

impl Append {
    /// Creates an empty append after the `first` stored events.
    #[must_use]
    pub fn new(execution: ExecutionId, first: u32, status: Status) -> Self {
        Self {
            execution,
            first,
            events: Vec::new(),
            logs: Vec::new(),
            status,
            keeps_permit: false,
            waits: None,
            state: Vec::new(),
            snapshot: SnapshotChange::Keep,
            emits: Vec::new(),
        }
    }
}

/// The summary of an execution, as an item of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionRow {
    /// The id.
    pub id: ExecutionId,
    /// The Automation.
    pub automation: AutomationId,
    /// The definition on which it runs.
    pub definition: DefinitionHash,
    /// The trigger that started it.
    pub trigger: TriggerId,
    /// The origin of its start.
    pub origin: Origin,
    /// The status.
    pub status: Status,
    /// The time of its acceptance.
    pub started_at: Timestamp,
    /// The time of its end; `None` if it has not ended.
    pub finished_at: Option<Timestamp>,
    /// The first 500 characters of its error, if it ended with one.
    pub error: Option<String>,
    /// The number of stored events.
    pub events: u32,
}

impl ExecutionRow {
    /// Returns the key of the trigger that started it.
    #[must_use]
    pub fn trigger_key(&self) -> TriggerKey {
        TriggerKey::new(self.automation.clone(), self.trigger.clone())
    }
}

/// A filter for executions. An execution must match every field that is set.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// The Automation.
    pub automation: Option<AutomationId>,
    /// The statuses that match; empty: every status.
    pub status: Vec<Status>,
    /// The earliest time of acceptance. The time within the id must agree with the time of the *started* event to the
    /// millisecond.
    pub since: Option<Timestamp>,
    /// The time before which it was accepted; as for `since`.
    pub until: Option<Timestamp>,
    /// `true`: only tests; `false`: no tests.
    pub test: Option<bool>,
    /// The execution of which it is a replay. No execution has both a replayed execution and a sender.
    pub replay_of: Option<ExecutionId>,
    /// The execution whose event started it.
    pub sender: Option<ExecutionId>,
}

/// A page of a list, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The id before which the page starts; `None`: the newest.
    pub before: Option<ExecutionId>,
    /// The maximum number of rows, up to 1,000.
    pub limit: u32,
}

/// The two secret addresses of a trigger. They survive edits, renames of the file, and restarts.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// The trigger.
    pub trigger: TriggerKey,
    /// The token of the live address.
    pub live: String,
    /// The token of the test address.
    pub test: String,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is the secret: it never reaches a log.
        write!(formatter, "Address({})", self.trigger)
    }
}

/// The instant up to which the ticks of a schedule are handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The trigger.
    pub trigger: TriggerKey,
    /// The text of the schedule. A changed schedule starts a new timeline.
    pub schedule: String,
    /// The instant.
    pub instant: Timestamp,
}

/// A description of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The database and its version: `SQLite 3.54.1`.
    pub engine: String,
    /// The location.
    pub location: String,
    /// The version of the tables.
    pub schema: u32,
    /// The size of the database and its write-ahead log, in bytes.
    pub bytes: u64,
    /// The bytes of the database that hold data. Free pages are reused before the file grows.
    pub used: u64,
    /// The size of the large values in files of their own, in bytes.
    pub blob_bytes: u64,
    /// The size limit in bytes, large values included; `None` if there is none.
    pub max_bytes: Option<u64>,
    /// The part of the size limit that is left.
    pub capacity: Capacity,
    /// The guarantees that are weakened, as sentences for people.
    pub weakened: Vec<String>,
}

/// Counters of the writer since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The writes that were confirmed as durable.
    pub writes: u64,
    /// The commits, each of one batch of writes.
    pub commits: u64,
    /// The number of writes in the last commit.
    pub last_batch: u64,
    /// The total duration of all commits, each from its request to its sync.
    pub commit_time: Duration,
    /// The duration of the last commit.
    pub last_commit_time: Duration,
    /// The duration of the slowest commit.
    pub slowest_commit_time: Duration,
    /// The writes in the queue now.
    pub queued: u64,
    /// The approximate size of all confirmed writes, in bytes.
    pub bytes: u64,
    /// The distribution of the duration of commits, in microseconds; `None` if the store does not measure it.
    pub commit_durations: Option<HistogramSnapshot>,
    /// The distribution of the writes in a commit; `None` if the store does not measure it.
    pub batch_sizes: Option<HistogramSnapshot>,
}
