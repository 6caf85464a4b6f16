//! The contract that every store keeps. It has no business rule: it keeps what it is given, in order, durably.

mod poll;
mod prune;
mod sending;
mod state;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use model::value::{FileStorage, MemoryFiles};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Origin, Status};

pub use poll::{PollEntry, PollStanding, PollWrite, Subscription};
pub use prune::{Outcomes, Prune, PruneRule, Room};
pub use sending::{Sending, Sent};
pub use state::{StateEntry, StateRow, StateWrite};
pub use wait::{Resting, Wait};

use crate::Error;

/// Durable memory of executions, their definitions, addresses and watermarks, and of the values they share.
///
/// Every write returns only when it is durable: committed and synced. A write that returns an error that
/// [`Error::outcome_unknown`] affirms may or may not have happened: the caller must stop accepting. A write whose
/// future is dropped may still happen. What a write did, every later read sees.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Keeps the text of a definition for as long as an execution refers to it, or it is the one that was put last
    /// for its Automation. Keeping it again only makes it the last. A crash before the return means at most that
    /// it is kept for nothing.
    async fn put_definition(&self, definition: Definition) -> Result<(), Error>;

    /// The definition with this hash.
    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error>;

    /// Accepts executions together with the watermark or the poll they belong to: all of it or nothing. An execution whose
    /// key, or one of whose names, is already taken for its Automation is not created, and the one that took it is
    /// named instead; none of its other names is then taken. A
    /// crash before the return means that the caller was told nothing; a crash after, that all of it stands. The
    /// definitions must have been put, else [`Error::NoSuchDefinition`] and nothing was changed. [`Error::Full`] where
    /// the rest of the room is for those that were accepted before ([`Room::None`]). It is only borrowed, so that whoever is
    /// told that a definition is missing can come again with it.
    async fn accept(&self, accept: &Accept) -> Result<Vec<Accepted>, Error>;

    /// Appends events and log lines to one execution, with what it waits for and the state it wrote, all or
    /// nothing. The first event's index must be the number of events stored so far, else [`Error::Conflict`]:
    /// somebody else wrote, and nothing was changed. A state that has not the version that is expected gives
    /// [`Error::StateChanged`], and nothing was changed either. A crash before the return leaves all of it or
    /// none; a crash after, all. It is only borrowed, so that whoever is told [`Error::Full`] can come again with it.
    async fn append(&self, append: &Append) -> Result<(), Error>;

    /// All events of an execution in order; `None` if there is no such execution.
    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error>;

    /// What the list shows of one execution.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error>;

    /// A page of executions, newest first.
    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error>;

    /// Log lines of an execution in order, from the line with index `after` on.
    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error>;

    /// Executions that have not come to an end, oldest first, those after `after`; up to 1,000. Those that wait
    /// are left out, unless they hold a place among others.
    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error>;

    /// How many executions have not come to an end, those that wait among them.
    async fn unfinished_count(&self) -> Result<u64, Error>;

    /// Executions that wait, oldest first, those after `after`; up to 1,000.
    async fn resting(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<Resting>, Error>;

    /// The open waits of an execution, by step. There are none once it has come to an end.
    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error>;

    /// Who has an open wait for the event with this name: executions with the steps that wait, oldest execution
    /// first, those after `after`; up to 1,000. Other steps of such an execution may be running.
    async fn waiting_for_event(
        &self,
        name: &str,
        after: Option<(ExecutionId, String)>,
        limit: u32,
    ) -> Result<Vec<(ExecutionId, String)>, Error>;

    /// Which execution waits for the end of this one, and in which step; the oldest, should there be several.
    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error>;

    /// The value with this key.
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error>;

    /// The values with these keys, in their order, as they were at one moment.
    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error>;

    /// The values of a scope by key, those with keys after `after`. A page ends at 1,000 of them, or at about
    /// 8 MiB, so it may be shorter than `limit`: after the last page comes an empty one.
    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error>;

    /// Keeps or deletes values, all or none: [`Error::StateChanged`] if one has not the version that is expected.
    /// A crash before the return leaves all of it or none; a crash after, all.
    async fn write_state(&self, writes: Vec<StateWrite>) -> Result<(), Error>;

    /// Deletes values that expired before `before`, at most `limit` of them, and gives how many went. A crash in
    /// its midst means that some are left.
    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// Keeps `fresh` as the key with which this store's owner signs, unless there is one already, and gives the
    /// one that is kept. The first ever put stays for the life of the store. A crash before the return means that
    /// nobody has seen it.
    async fn put_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error>;

    /// The addresses of all Automations that ever had one.
    async fn addresses(&self) -> Result<Vec<Address>, Error>;

    /// Keeps these addresses, each in place of what its Automation had.
    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error>;

    /// The watermark of every schedule.
    async fn watermarks(&self) -> Result<Vec<Watermark>, Error>;

    /// Where the poll of every Automation stands that ever polled.
    async fn polls(&self) -> Result<Vec<(AutomationId, PollStanding)>, Error>;

    /// Which of these keys the polls of an Automation have seen, in their order.
    async fn seen(&self, automation: &AutomationId, keys: &[String]) -> Result<Vec<bool>, Error>;

    /// What came of the latest polls of an Automation, newest first; up to [`PollWrite::MAX_ENTRIES`].
    async fn poll_entries(&self, automation: &AutomationId, limit: u32) -> Result<Vec<PollEntry>, Error>;

    /// Every subscription that another application has, is to have, or is to lose.
    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error>;

    /// Keeps a subscription, in place of the one with its id. A crash before the return leaves the one before.
    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error>;

    /// Forgets a subscription.
    async fn drop_subscription(&self, id: &str) -> Result<(), Error>;

    /// Deletes ended executions, their events and logs, at most `limit` of them, and with them
    /// definitions that nothing refers to any more. Keys and watermarks stay. Gives how many went: call again
    /// where it is `limit`. A crash in its midst leaves no execution half deleted.
    async fn prune(&self, filter: Prune, limit: u32) -> Result<u64, Error>;

    /// Forgets keys taken before `before` by executions that are deleted, at most `limit` of them, and gives how
    /// many went. An execution with such a key would be accepted again.
    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// What has this name in an Automation at this time.
    async fn sent(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Sent>, Error>;

    /// Forgets names of what was sent whose time ended before `before`, at most `limit` of them, and gives how many
    /// went. A crash in its midst means that some are left.
    async fn prune_sendings(&self, before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// Deletes what nothing refers to any more, such as what a crash left, and gives how many files that were. It looks
    /// at all there is, so it is for quiet times.
    async fn tidy(&self) -> Result<u64, Error>;

    /// Where large files are put while they arrive. What a committed event names of them is kept for as long as the event is:
    /// their bytes are synced before it is, and go through no log. What no event names goes with the last value that holds it, or
    /// with the process. A store that keeps no files has them in memory.
    fn files(&self) -> Arc<dyn FileStorage> {
        Arc::new(MemoryFiles)
    }

    /// How much room is left, at no cost.
    fn room(&self) -> Room;

    /// What there is to know of the store itself.
    async fn info(&self) -> Result<Info, Error>;

    /// What the store has done since it was opened.
    fn metrics(&self) -> Metrics;

    /// Comes back once the store cannot be trusted any more, whoever found out: a write whose outcome is unknown, or a
    /// file that a read finds damaged. Every write fails from then on. It never comes back where that does not happen.
    async fn failure(&self) -> Error {
        std::future::pending().await
    }

    /// Finishes what is queued, then lets go of the files: reads and writes after it give [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a commit had failed.
    async fn close(&self) -> Result<(), Error>;
}

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
