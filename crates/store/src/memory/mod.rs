//! A store in memory, for tests. It implements all traits, but its content ends with the process. A store that is opened again
//! on the same [`Memory`] has the content that a daemon finds after a crash.

mod data;
mod faults;
mod lists;
mod peer_store;
mod peers;
mod values;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use data::Data;
pub use faults::{FaultOutcome, FaultPlan, Faults, Operation};
use jiff::Timestamp;
use model::automation::{Level, TriggerKey};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine};
use tokio::sync::mpsc;

use crate::Error;
use crate::traits::{
    DefinitionStore, ExecutionStore, GenerationStore, MaintenanceStore, OutboxStore, PeerStore as _,
    SecretStore, SharedTriggerStore, StateStore, Store, TriggerStore, WaitStore,
};
use crate::types::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionUse, EventWaiter,
    ExecutionFilter, ExecutionRow, Info, Metrics, News, NodeId, OutboxCount, OutboxRow, Page, PollEntry,
    PollState, PruneFilter, ReplayLog, StateEntry, StateRow, StateWrite, Subscription, SuspendedExecution,
    Wait, Watermark,
};

/// Maximum number of rows of a page.
const MAX_PAGE: u32 = 1000;

/// The content of stores in memory. Cheap to clone.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Data>>);

impl Memory {
    /// Opens a store over it.
    #[must_use]
    pub fn open(&self) -> Arc<dyn Store> {
        self.open_with(Arc::new(NoFaults))
    }

    /// Opens a store over it with the faults of a test.
    #[must_use]
    pub fn open_with(&self, faults: Arc<dyn Faults>) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(self, faults, None))
    }

    /// Joins the nodes of the store. A node runs until it is declared dead.
    #[must_use]
    pub fn join(&self, faults: Arc<dyn Faults>) -> (NodeId, Arc<dyn Store>) {
        let (node, news) = self.data().cluster.join();
        let peer = Peer { node, news: tokio::sync::Mutex::new(news) };
        (node, Arc::new(MemoryStore::new(self, faults, Some(peer))))
    }

    /// Sets the level of the language that a node knows, as if it ran an earlier release.
    pub fn set_known_level(&self, node: NodeId, level: Level) {
        self.data().cluster.set_known_level(node, level);
    }

    /// Returns the level of the language that the store has.
    #[must_use]
    pub fn level(&self) -> Level {
        self.data().level
    }

    /// Declares a node dead, as another one does that has not seen it beating: its reads and writes fail from then on.
    pub fn declare_dead(&self, node: NodeId) {
        self.data().cluster.declare_dead(node);
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store in memory.
struct MemoryStore {
    memory: Memory,
    faults: Arc<dyn Faults>,
    closed: AtomicBool,
    /// Set after a failed commit: later writes fail.
    poisoned: AtomicBool,
    /// The node of this process; `None` if it has the store to itself.
    peer: Option<Peer>,
}

/// The node of a process.
struct Peer {
    node: NodeId,
    news: tokio::sync::Mutex<mpsc::Receiver<News>>,
}

impl MemoryStore {
    fn new(memory: &Memory, faults: Arc<dyn Faults>, peer: Option<Peer>) -> Self {
        let (closed, poisoned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { memory: memory.clone(), faults, closed, poisoned, peer }
    }

    /// Checks that this node has not been declared dead.
    fn check_alive(&self, data: &Data) -> Result<(), Error> {
        match &self.peer {
            Some(peer) if !data.cluster.is_alive(peer.node) => {
                Err(Error::Poisoned { reason: data::TAKEN_OVER.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the node; an error if this process has the store to itself.
    fn own(&self) -> Result<NodeId, Error> {
        self.node().ok_or(Error::Closed)
    }

    async fn read<T>(&self, read: impl FnOnce(&Data) -> T + Send) -> Result<T, Error> {
        faults::apply(self.faults.plan(Operation::Read), || Ok(())).await?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        let data = self.memory.data();
        self.check_alive(&data)?;
        Ok(read(&data))
    }

    async fn write<T>(
        &self,
        operation: Operation<'_>,
        write: impl FnOnce(&mut Data) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let plan = self.faults.plan(operation);
        let done = faults::apply(plan, || {
            if self.closed.load(Ordering::Relaxed) {
                return Err(Error::Closed);
            }
            if self.poisoned.load(Ordering::Relaxed) {
                return Err(Error::Poisoned { reason: faults::REASON.to_owned() });
            }
            let mut data = self.memory.data();
            self.check_alive(&data)?;
            let done = write(&mut data)?;
            data.writes += 1;
            Ok(done)
        });
        let done = done.await;
        if done.as_ref().is_err_and(Error::outcome_unknown) {
            self.poisoned.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// No faults.
struct NoFaults;

impl Faults for NoFaults {
    fn plan(&self, _: Operation<'_>) -> FaultPlan {
        FaultPlan::NONE
    }
}

/// Serializes and deserializes events, as a store on disk does. Without this, an event with an incomplete serialized form
/// would show only after a crash.
fn read_back(events: &[Event]) -> Result<Vec<Event>, Error> {
    let corrupt = |what: String| Error::RecordDamaged { detail: what };
    let text = serde_json::to_string(events).map_err(|error| corrupt(error.to_string()))?;
    let read: Vec<Event> = serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))?;
    if read == events {
        Ok(read)
    } else {
        Err(corrupt(format!("the events read differ from those written: {text}")))
    }
}

#[async_trait]
impl DefinitionStore for MemoryStore {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.put_definition(definition);
            Ok(())
        })
        .await
    }

    async fn raise_level(&self, level: Level) -> Result<(), Error> {
        self.write(Operation::Write, |data| data.raise_level(level)).await
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.read(|data| data.definition(hash)).await
    }

    async fn definitions(&self, automation: &AutomationId, limit: u32) -> Result<Vec<DefinitionUse>, Error> {
        self.read(|data| data.definitions(automation, limit)).await
    }
}

#[async_trait]
impl ExecutionStore for MemoryStore {
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error> {
        self.write(Operation::Accept(accept), |data| data.accept(self.node(), accept)).await
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        self.write(Operation::Append(append), |data| data.append(self.node(), append)).await
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        let events = self.read(|data| data.executions.get(&id).map(|stored| stored.events.clone())).await?;
        events.as_deref().map(read_back).transpose()
    }

    async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
        let log = self.read(|data| data.executions.get(&id).map(|stored| stored.replay_log())).await?;
        log.map(|log| Ok(ReplayLog { events: read_back(&log.events)?, ..log })).transpose()
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.read(|data| data.executions.get(&id).map(|stored| stored.row.clone())).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        self.read(|data| data.list(filter, page)).await
    }

    async fn count_executions(&self, filter: &ExecutionFilter, at_most: u32) -> Result<u32, Error> {
        self.read(|data| data.count(filter, at_most)).await
    }

    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error> {
        self.read(|data| {
            let logs = data.executions.get(&id).map(|stored| stored.logs.iter());
            let page = logs.into_iter().flatten().skip(after as usize).take(limit.min(MAX_PAGE) as usize);
            page.cloned().collect()
        })
        .await
    }

    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error> {
        self.read(|data| data.unfinished(self.node(), after, limit)).await
    }

    async fn unfinished_count(&self) -> Result<u64, Error> {
        self.read(|data| data.unfinished_count()).await
    }
}

#[async_trait]
impl WaitStore for MemoryStore {
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error> {
        self.read(|data| data.list_suspended(self.node(), after, limit)).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        self.read(|data| {
            data.executions.get(&execution).map(|stored| stored.waits.clone()).unwrap_or_default()
        })
        .await
    }

    async fn event_paths(&self, name: &str) -> Result<Vec<String>, Error> {
        self.read(|data| data.event_paths(name)).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<EventWaiter>,
        limit: u32,
    ) -> Result<Vec<EventWaiter>, Error> {
        self.read(|data| data.waiting_for_event(name, path, value, after.as_ref(), limit)).await
    }

    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error> {
        self.read(|data| data.waiting_for_child(child)).await
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error> {
        self.read(|data| data.state_entry(scope, key)).await
    }

    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error> {
        self.read(|data| keys.iter().map(|key| data.state_entry(scope, key)).collect()).await
    }

    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error> {
        self.read(|data| data.list_state(scope, after, limit)).await
    }

    async fn write_state_and_emit(
        &self,
        writes: Vec<StateWrite>,
        emits: Vec<OutboxRow>,
    ) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.check_state(&writes)?;
            OutboxRow::check(&emits)?;
            data.put_state(writes);
            data.send(&emits);
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl OutboxStore for MemoryStore {
    async fn outbox_page(
        &self,
        name: &str,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.read(|data| {
            let rows = data.outbox.values().filter(|row| row.name == name);
            let rows = rows.filter(|row| after.is_none_or(|after| row.id > after));
            let mut bytes = 0;
            let within = rows.take_while(|row| {
                let fits = bytes < OutboxRow::PAGE_BYTES;
                bytes += row.body.len();
                fits
            });
            within.take(limit.min(MAX_PAGE) as usize).cloned().collect()
        })
        .await
    }

    async fn outbox_counts(&self) -> Result<Vec<OutboxCount>, Error> {
        self.read(Data::outbox_counts).await
    }
}

#[async_trait]
impl TriggerStore for MemoryStore {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        self.read(|data| data.addresses.values().cloned().collect()).await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            let addresses = addresses.into_iter();
            data.addresses.extend(addresses.map(|address| (address.trigger.clone(), address)));
            Ok(())
        })
        .await
    }

    async fn move_trigger(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, Error> {
        self.write(Operation::Write, |data| data.move_trigger(from, to)).await
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        self.read(|data| data.watermarks.values().cloned().collect()).await
    }

    async fn poll_states(&self) -> Result<Vec<(TriggerKey, PollState)>, Error> {
        self.read(|data| {
            data.polls.iter().map(|(trigger, poll)| (trigger.clone(), poll.standing.clone())).collect()
        })
        .await
    }

    async fn known_poll_keys(&self, trigger: &TriggerKey, keys: &[String]) -> Result<Vec<bool>, Error> {
        self.read(|data| {
            let poll = data.polls.get(trigger);
            keys.iter().map(|key| poll.is_some_and(|poll| poll.keys.contains_key(key))).collect()
        })
        .await
    }

    async fn poll_entries(&self, trigger: &TriggerKey, limit: u32) -> Result<Vec<PollEntry>, Error> {
        self.read(|data| {
            let entries = data.polls.get(trigger).map(|poll| poll.entries.iter().rev());
            entries.into_iter().flatten().take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        self.read(|data| data.subscriptions.values().cloned().collect()).await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.subscriptions.insert(subscription.id.clone(), subscription);
            Ok(())
        })
        .await
    }

    async fn delete_subscription(&self, id: &str) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.subscriptions.remove(id);
            Ok(())
        })
        .await
    }

    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error> {
        self.read(|data| data.sent(automation, key, now)).await
    }
}

#[async_trait]
impl SecretStore for MemoryStore {
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        self.write(Operation::Write, |data| Ok(*data.secret.get_or_insert(fresh))).await
    }
}

#[async_trait]
impl MaintenanceStore for MemoryStore {
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error> {
        self.write(Operation::Write, |data| Ok(data.prune(&filter, limit))).await
    }

    async fn measure(&self) -> Result<Capacity, Error> {
        Ok(self.capacity())
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.write(Operation::Write, |data| Ok(data.prune_keys(before, limit))).await
    }

    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.write(Operation::Write, |data| Ok(data.prune_dedup(before, limit))).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.write(Operation::Write, |data| Ok(data.prune_state(before, limit))).await
    }

    async fn collect_garbage(&self) -> Result<u64, Error> {
        self.write(Operation::Write, |_| Ok(0)).await
    }
}

impl SharedTriggerStore for MemoryStore {}

impl GenerationStore for MemoryStore {}

#[async_trait]
impl Store for MemoryStore {
    fn capacity(&self) -> Capacity {
        self.faults.capacity()
    }

    async fn info(&self) -> Result<Info, Error> {
        let weakened = vec!["it is in memory: its content ends with the process".to_owned()];
        let (engine, location) = ("memory".to_owned(), "memory".to_owned());
        let capacity = self.capacity();
        let (bytes, used, blob_bytes, max_bytes) = (0, 0, 0, None);
        self.read(|_| Info {
            engine,
            location,
            schema: 1,
            bytes,
            used,
            blob_bytes,
            max_bytes,
            capacity,
            weakened,
        })
        .await
    }

    fn metrics(&self) -> Metrics {
        let writes = self.memory.data().writes;
        Metrics { writes, commits: writes, last_batch: writes.min(1), ..Metrics::default() }
    }

    async fn close(&self) -> Result<(), Error> {
        self.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}
