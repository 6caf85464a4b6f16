//! The store's traits, one for each duty, and [`Store`], which joins them.

mod shared;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use model::automation::{Level, TriggerKey};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine};
use tokio::sync::watch;
use value::{FileStorage, MemoryFiles};

use crate::codec::{CutEvents, EncodedEvents, HistoryBytes, HistoryRow, read_cut};
use crate::types::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionUse, DeployOutcome,
    DeployedFile, EventWaiter, ExecutionFilter, ExecutionRow, Generation, HandedExecution, Info, Letter,
    LetterState, Load, Metrics, NewGeneration, News, Node, NodeDetails, NodeId, OutboxCount, OutboxRow, Page,
    PollEntry, PollState, PruneFilter, ReplayLog, RunningGeneration, ServerTime, Shard, ShardSet,
    SharedSettings, StateEntry, StateRow, StateWrite, Subscription, SuspendedExecution, Wait, Watermark,
};
use crate::{Error, Outage};
pub use shared::SharedTriggerStore;

/// Durable storage of executions, their definitions, the state of triggers, and shared values.
///
/// # Durability
/// Every write returns only after its transaction is committed and synced. Each write is one transaction unless its
/// documentation says otherwise: a crash before the return leaves all of it or nothing, a crash after the return
/// leaves all of it. A write whose future is dropped may still happen. Reads change nothing, so a crash during a read
/// has no effect; a read sees every write that returned before it began.
///
/// # Errors
/// Every method can fail with the errors of the storage itself ([`Error::Read`], [`Error::Write`], [`Error::Closed`],
/// [`Error::DatabaseDamaged`], …); the methods document only further errors. If [`Error::outcome_unknown`] is true for the
/// error of a write, the write may or may not have happened: the caller must stop accepting executions. All other
/// errors mean that nothing changed.
#[async_trait]
pub trait Store:
    DefinitionStore
    + GenerationStore
    + ExecutionStore
    + WaitStore
    + StateStore
    + OutboxStore
    + TriggerStore
    + SecretStore
    + MaintenanceStore
    + PeerStore
    + SharedTriggerStore
    + Send
    + Sync
    + 'static
{
    /// Returns the storage for large values while they arrive.
    ///
    /// The bytes of a file are synced before the event that names it is committed, and they stay for as long as the
    /// event does. A file that no event names is deleted with the last value that refers to it; after a crash
    /// [`MaintenanceStore::collect_garbage`] deletes it. A store without files keeps the bytes in memory.
    fn files(&self) -> Arc<dyn FileStorage> {
        Arc::new(MemoryFiles)
    }

    /// Returns how much of the size limit is left. Cheap: reads a counter.
    fn capacity(&self) -> Capacity;

    /// Returns the outages of the store: the current one, and each change.
    fn outages(&self) -> watch::Receiver<Option<Outage>> {
        watch::channel(None).1
    }

    /// Returns the outage that lasts; `None` if the store takes writes. Cheap.
    fn outage(&self) -> Option<Outage> {
        None
    }

    /// Returns the location, version and size of the store.
    async fn info(&self) -> Result<Info, Error>;

    /// Returns the counters of the writer since the store was opened.
    fn metrics(&self) -> Metrics;

    /// Waits until the store fails for good: a commit with an unknown outcome, or damage found by a read.
    /// Every write fails afterwards. Pending for ever if that does not happen.
    async fn failure(&self) -> Error {
        std::future::pending().await
    }

    /// Commits the queued writes, then releases the files. Later calls return [`Error::Closed`].
    ///
    /// A crash during the call has the effect of a crash during the queued writes: each is stored or is not.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if an earlier commit failed.
    async fn close(&self) -> Result<(), Error>;
}

impl fmt::Debug for dyn Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Store")
    }
}

/// Texts of definitions, found by their hash.
#[async_trait]
pub trait DefinitionStore: Send + Sync {
    /// Stores a definition and makes it the latest of its Automation.
    ///
    /// A definition stays while an execution refers to it or it is the latest of its Automation. Storing a known one
    /// again only makes it the latest. A crash before the return can leave a definition that nothing uses.
    async fn put_definition(&self, definition: Definition) -> Result<(), Error>;

    /// Returns the definition with this hash; `None` if there is none.
    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error>;

    /// Returns the stored definitions of an Automation without their texts, the one put last first; at most 1,000.
    async fn definitions(&self, automation: &AutomationId, limit: u32) -> Result<Vec<DefinitionUse>, Error>;

    /// Raises the level of the language that the store may have definitions of. From then on no daemon of an earlier release that does not
    /// know the level opens the store. Does nothing if the store has this level or a higher one. No call lowers it.
    ///
    /// A crash before the return leaves the earlier level or this one.
    ///
    /// # Errors
    /// [`Error::OlderDaemons`] while such a daemon runs on the store. Nothing changed.
    async fn raise_level(&self, level: Level) -> Result<(), Error>;
}

/// Generations: the files of the project as they were deployed, which every node takes from here.
///
/// The default methods are those of a store that one process has to itself: its definitions are in the project folder.
#[async_trait]
pub trait GenerationStore: Send + Sync {
    /// Stores a generation as the newest one, and deletes the oldest ones but the last 50. A repetition with the same id returns the
    /// stored one.
    ///
    /// A crash before the return leaves the generation or not. It can leave texts that no generation has, which a later
    /// deployment deletes.
    ///
    /// # Errors
    /// [`Error::NotShared`] if the definitions of this store are in the project folder.
    async fn deploy(&self, _new: NewGeneration) -> Result<DeployOutcome, Error> {
        Err(Error::NotShared)
    }

    /// Returns the newest generations, the newest first.
    async fn generations(&self, _limit: u32) -> Result<Vec<Generation>, Error> {
        Ok(Vec::new())
    }

    /// Returns the files of a generation by path; `None` if there is no such generation.
    async fn deployed_files(&self, _number: u64) -> Result<Option<Vec<DeployedFile>>, Error> {
        Ok(None)
    }
}

/// Executions: their acceptance, their event logs, and lists of them.
#[async_trait]
pub trait ExecutionStore: Send + Sync {
    /// Accepts executions, updates the watermark or the poll they belong to, stores the events that are sent with them and deletes
    /// the events delivered with them, in one transaction.
    ///
    /// An execution is not created if its key, or one of its deduplication records, is taken in its Automation; the
    /// result then names the execution that took it, and none of the other records is written. The results are in
    /// the order of the executions.
    ///
    /// A crash before the return means that no caller got a result, and all or nothing is stored. A crash after the
    /// return leaves all of it. The argument is borrowed so that the caller can try again after
    /// [`Error::NoSuchDefinition`].
    ///
    /// # Errors
    /// [`Error::NoSuchDefinition`] if a definition was not stored before, and [`Error::Full`] if the remaining space
    /// is reserved for accepted executions ([`Capacity::Exhausted`]). Nothing changed in either case.
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error>;

    /// Appends events and log lines to an execution, with its waits, its state writes and the events that it sends, in one
    /// transaction.
    ///
    /// A crash before the return leaves all of it or nothing; a crash after, all of it. The argument is borrowed so
    /// that the caller can try again after [`Error::Full`].
    ///
    /// # Errors
    /// [`Error::Conflict`] if the index of the first event is not the number of stored events: another writer
    /// appended. [`Error::StateChanged`] if a value of the state does not have its expected version. Nothing changed
    /// in either case.
    async fn append(&self, append: &Append) -> Result<(), Error>;

    /// Returns all events of an execution in order; `None` if there is no such execution.
    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error>;

    /// Returns all events of an execution without their values of more than `min` bytes, which are read from
    /// [`ExecutionStore::history_row`]; `None` if there is no such execution. One row of the history is in memory at a time.
    async fn events_cut(&self, id: ExecutionId, min: usize) -> Result<Option<CutEvents>, Error> {
        let Some(events) = self.events(id).await? else { return Ok(None) };
        let text = encode(&events)?;
        let mut cut = CutEvents::default();
        cut.events = read_cut(&text, 0, min, &mut cut.values).map_err(|error| unreadable(&error))?;
        Ok(Some(cut))
    }

    /// Returns the row of the event `first`, to read the values that [`ExecutionStore::events_cut`] left out; `None` if the
    /// execution was deleted meanwhile.
    async fn history_row(&self, id: ExecutionId, _first: u32) -> Result<Option<HistoryRow>, Error> {
        let Some(events) = self.events(id).await? else { return Ok(None) };
        Ok(Some(HistoryRow::new(0, encode(&events)?, None)))
    }

    /// Returns the sizes of the large values of an execution, from which a reader reserves its memory.
    async fn history_bytes(&self, _id: ExecutionId) -> Result<HistoryBytes, Error> {
        Ok(HistoryBytes::default())
    }

    /// Returns the events that a replay of an execution needs: those after its snapshot, or all; `None` if there is no such
    /// execution.
    async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error>;

    /// Returns the list row of one execution; `None` if there is no such execution.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error>;

    /// Returns a page of executions, newest first.
    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error>;

    /// Returns the number of executions that match, at most `at_most`: the count ends there.
    async fn count_executions(&self, filter: &ExecutionFilter, at_most: u32) -> Result<u32, Error>;

    /// Returns log lines of an execution in order, beginning with index `after`.
    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error>;

    /// Returns executions of this node that have not ended, oldest first, after `after`; at most 1,000.
    ///
    /// Waiting executions are left out, unless they keep their concurrency permit.
    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error>;

    /// Returns the number of executions that have not ended, including waiting ones.
    async fn unfinished_count(&self) -> Result<u64, Error>;
}

fn encode(events: &[Event]) -> Result<String, Error> {
    serde_json::to_string(&EncodedEvents(events.iter())).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::Read { reason: format!("an event cannot be read: {error}") }
}

/// Open waits of suspended executions. [`ExecutionStore::append`] writes them.
#[async_trait]
pub trait WaitStore: Send + Sync {
    /// Returns waiting executions of this node, oldest first, after `after`; at most 1,000.
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error>;

    /// Returns the open waits of an execution, ordered by step. Empty once the execution has ended.
    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error>;

    /// Returns the paths of the keys by which steps wait for events with this name, each once, in order; at most 1,000.
    /// The empty path is that of the steps that wait without a key.
    async fn event_paths(&self, name: &str) -> Result<Vec<String>, Error>;

    /// Returns the steps that wait for events with this name by a key with this path, ordered by the value of the key,
    /// execution and step, after `after`; at most 1,000. With a `value`, only those that wait for this value. Other steps
    /// of such an execution may be running.
    async fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<EventWaiter>,
        limit: u32,
    ) -> Result<Vec<EventWaiter>, Error>;

    /// Returns the execution and step that wait for the end of `child`; the oldest if there are several.
    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error>;
}

/// Values that outlive executions, found by scope and key, with optimistic locking.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Returns the value with this key.
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error>;

    /// Returns the values with these keys, in the order of the keys, from one snapshot.
    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error>;

    /// Returns the values of a scope ordered by key, with keys after `after`.
    ///
    /// A page has at most 1,000 values or about 8 MiB, so it can be shorter than `limit`. The list ends with the
    /// first empty page.
    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error>;

    /// Stores or deletes values in one transaction.
    ///
    /// A crash before the return leaves all of it or nothing; a crash after, all of it.
    ///
    /// # Errors
    /// [`Error::StateChanged`] if a value does not have its expected version. Nothing changed.
    async fn write_state(&self, writes: Vec<StateWrite>) -> Result<(), Error> {
        self.write_state_and_emit(writes, Vec::new()).await
    }

    /// Stores or deletes values, and stores events on their way to triggers, at most [`OutboxRow::MAX_AT_ONCE`], in one transaction.
    ///
    /// A crash before the return leaves all of it or nothing; a crash after, all of it.
    ///
    /// # Errors
    /// The same as of [`StateStore::write_state`].
    async fn write_state_and_emit(&self, writes: Vec<StateWrite>, emits: Vec<OutboxRow>)
    -> Result<(), Error>;
}

/// Events on their way to triggers. [`ExecutionStore::append`] and [`ExecutionStore::accept`] write and delete them. An event that is stored
/// under an id that is taken stays as it is.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Returns the events with a name, in the order of their ids, after `after`; at most 1,000.
    ///
    /// A page has about [`OutboxRow::PAGE_BYTES`] at most, so it can be shorter than `limit`. The list ends with the first empty page.
    async fn outbox_page(
        &self,
        name: &str,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error>;

    /// Returns the number of events on their way by name, in the order of the names.
    async fn outbox_counts(&self) -> Result<Vec<OutboxCount>, Error>;
}

/// Addresses and progress of triggers: watermarks, polls, subscriptions and deduplication.
#[async_trait]
pub trait TriggerStore: Send + Sync {
    /// Returns the addresses of all triggers that ever had some.
    async fn addresses(&self) -> Result<Vec<Address>, Error>;

    /// Stores addresses, each replacing the ones of its trigger. A crash before the return leaves all or none.
    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error>;

    /// Stores the addresses of triggers that have none yet, and returns the stored addresses of all of them: two nodes can
    /// see a new trigger at once. A crash before the return leaves all or none.
    async fn add_addresses(&self, addresses: Vec<Address>) -> Result<Vec<Address>, Error> {
        self.put_addresses(addresses.clone()).await?;
        Ok(addresses)
    }

    /// Moves everything that is stored under the key of one trigger to the key of another trigger of the same Automation, and returns the
    /// number of moved rows: 0 without rows. Records of executions stay as they are.
    ///
    /// A crash before the return leaves all rows under `from` or all under `to`.
    ///
    /// # Errors
    /// [`Error::TriggerHasRows`] if there are rows under both keys. Nothing changed.
    async fn move_trigger(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, Error>;

    /// Returns the watermark of every schedule. [`ExecutionStore::accept`] writes them.
    async fn watermarks(&self) -> Result<Vec<Watermark>, Error>;

    /// Returns the state of the poll of every trigger that ever polled. [`ExecutionStore::accept`] writes them.
    async fn poll_states(&self) -> Result<Vec<(TriggerKey, PollState)>, Error>;

    /// Returns for each key whether the polls of the trigger have stored it, in the order of the keys.
    async fn known_poll_keys(&self, trigger: &TriggerKey, keys: &[String]) -> Result<Vec<bool>, Error>;

    /// Returns the log of the latest polls of a trigger, newest first; at most
    /// [`PollWrite::MAX_ENTRIES`](crate::PollWrite::MAX_ENTRIES).
    async fn poll_entries(&self, trigger: &TriggerKey, limit: u32) -> Result<Vec<PollEntry>, Error>;

    /// Returns every subscription: active, to be created, or to be removed.
    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error>;

    /// Stores a subscription, replacing the one with its id. A crash before the return leaves the old or the new one.
    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error>;

    /// Deletes a subscription; does nothing if there is none. A crash before the return leaves it or not.
    async fn delete_subscription(&self, id: &str) -> Result<(), Error>;

    /// Returns the unexpired deduplication record with this key; `None` if there is none at `now`.
    /// [`ExecutionStore::accept`] writes these records.
    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error>;
}

/// The store's own secret.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Stores `fresh` as the signing key of the store unless there is one, and returns the stored key.
    ///
    /// The first key stays for the life of the store. A crash before the return can leave `fresh` stored, though no
    /// caller has used it.
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error>;
}

/// Deletion of old records and of unreferenced data.
///
/// Every method deletes in batches: a crash in the middle leaves the rest for the next call, and never a record that
/// is deleted in part.
#[async_trait]
pub trait MaintenanceStore: Send + Sync {
    /// Deletes at most `limit` ended executions with their events and logs, and definitions without references.
    ///
    /// Keys and watermarks stay. Returns the number of deleted executions: call again if it is `limit`. A crash in
    /// the middle leaves each execution whole or deleted.
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error>;

    /// Measures the size of the store again, and returns how much room is left. Several nodes may have deleted since the last time.
    async fn measure(&self) -> Result<Capacity, Error>;

    /// Deletes at most `limit` keys of deleted executions that were taken before `before`, and returns their number.
    ///
    /// An execution with such a key would be accepted again. A crash in the middle leaves some of the keys.
    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// Deletes at most `limit` deduplication records that expired before `before`, and returns their number.
    ///
    /// A crash in the middle leaves some of the records.
    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// Deletes at most `limit` values of the state that expired before `before`, and returns their number.
    ///
    /// A crash in the middle leaves some of the values.
    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// Deletes files that nothing refers to, such as those of a crash, and returns their number.
    ///
    /// Scans all files and all references, so run it at quiet times. A crash in the middle leaves some of the files.
    async fn collect_garbage(&self) -> Result<u64, Error>;
}

/// The nodes that share the store. Each unfinished execution has one owner, which alone may append to it: the node that accepted
/// it, the owner of its shard if it is gated, or a node that took it over from a dead one.
///
/// The default methods are those of a store that one process has to itself.
#[async_trait]
pub trait PeerStore: Send + Sync {
    /// Returns the number of this node; `None` if no other process can have the store.
    fn node(&self) -> Option<NodeId> {
        None
    }

    /// Returns true if no other node can have declared this one dead yet. While it is false, nothing with an effect outside may
    /// begin. Cheap: reads a counter.
    fn may_act(&self) -> bool {
        true
    }

    /// Returns the latest reading of the clock of the database server, with each beat a new one. `None` if no other process can
    /// have the store.
    fn server_time(&self) -> Option<watch::Receiver<ServerTime>> {
        None
    }

    /// Sets the load that the next beat of this node reports.
    fn report_load(&self, _load: Load) {}

    /// Sets the generation that the next beat of this node reports. A node with a problem gets no shards while others have none.
    fn report_running(&self, _running: RunningGeneration) {}

    /// Sets what the next beat of this node tells about it.
    fn report_details(&self, _details: NodeDetails) {}

    /// Returns the settings that are in force for all nodes; `None` if this process's own are in force.
    fn shared_settings(&self) -> Option<SharedSettings> {
        None
    }

    /// Returns the nodes, in the order in which they joined; none if this process is alone.
    async fn nodes(&self) -> Result<Vec<Node>, Error> {
        Ok(Vec::new())
    }

    /// Returns the owner of an execution that has not ended; `None` if it has none, or has ended.
    async fn owner(&self, _execution: ExecutionId) -> Result<Option<NodeId>, Error> {
        Ok(None)
    }

    /// Gives executions of dead nodes to this one, in order, after `after`; at most 1,000. Returns the last of them; `None` if none
    /// is left.
    async fn take_over(&self, _after: Option<ExecutionId>) -> Result<Option<ExecutionId>, Error> {
        Ok(None)
    }

    /// Returns executions that this node owns and has not confirmed with [`PeerStore::confirm_handed`]; at most 1,000.
    async fn handed(&self) -> Result<Vec<HandedExecution>, Error> {
        Ok(Vec::new())
    }

    /// Confirms that these executions are in memory.
    async fn confirm_handed(&self, _executions: Vec<ExecutionId>) -> Result<(), Error> {
        Ok(())
    }

    /// Gives executions of this node that have not begun to another one, unless that one is dead. Returns those that this node still has:
    /// gated ones, those that have begun, or all. A crash before the return leaves each with one of the two.
    async fn give(&self, _to: NodeId, executions: Vec<ExecutionId>) -> Result<Vec<ExecutionId>, Error> {
        Ok(executions)
    }

    /// Takes free shards until this node has its share, and returns all that it has.
    async fn take_shards(&self) -> Result<ShardSet, Error> {
        Ok(ShardSet::ALL)
    }

    /// Frees a shard, unless a gated execution of it is unfinished. Returns true if it did.
    async fn give_up_shard(&self, _shard: Shard) -> Result<bool, Error> {
        Ok(false)
    }

    /// Takes a lock that no two nodes have at once, unless another one has it. Returns true if this node has it now. The lock is
    /// lost if the session with the database is: what it protects must be checked when it is written.
    async fn try_lock(&self, _name: &str) -> Result<bool, Error> {
        Ok(true)
    }

    /// Gives a lock up.
    fn unlock(&self, _name: &str) {}

    /// Stores a letter. Does nothing if it is for an execution that has ended.
    async fn send_letter(&self, _letter: Letter) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the state of a letter.
    async fn letter_state(&self, _letter: &Letter) -> Result<LetterState, Error> {
        Ok(LetterState::Ended)
    }

    /// Deletes a letter, whose sender has read the reply or gives up.
    async fn delete_letter(&self, _letter: &Letter) -> Result<(), Error> {
        Ok(())
    }

    /// Returns letters to executions and shards of this node that are not answered; at most 1,000.
    async fn letters(&self) -> Result<Vec<Letter>, Error> {
        Ok(Vec::new())
    }

    /// Stores the replies to letters.
    async fn answer_letters(&self, _replies: Vec<(Letter, Vec<u8>)>) -> Result<(), Error> {
        Ok(())
    }

    /// Returns executions of this node that wait for the end of an execution that has ended; at most 1,000.
    async fn waiting_for_ended_children(&self) -> Result<Vec<ExecutionId>, Error> {
        Ok(Vec::new())
    }

    /// Sends news to a node, or to all others. They may be lost.
    fn tell(&self, _to: Option<NodeId>, _news: News) {}

    /// Waits for news.
    async fn next_news(&self) -> News {
        std::future::pending().await
    }
}
