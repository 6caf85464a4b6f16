//! Detects quiescence (no runnable task, no store call in flight) so that the test clock can advance.
//!
//! All tasks of a test's engine run on one thread. Before the thread parks, it signals that it is idle. If no store
//! call is in flight then, all tasks wait for the clock or for something that never happens. Tests therefore never
//! wait for real time, and the clock never advances too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use model::execution::{Event, ExecutionId};
use model::{AutomationId, DefinitionHash, LogLine};
use store::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionStore, DefinitionUse,
    Error, EventWaiter, ExecutionFilter, ExecutionRow, ExecutionStore, GenerationStore, Info,
    MaintenanceStore, Metrics, Outage, Page, PeerStore, PollEntry, PollState, PruneFilter, ReplayLog,
    SecretStore, SharedTriggerStore, StateEntry, StateRow, StateStore, StateWrite, Store, Subscription,
    SuspendedExecution, TriggerStore, Wait, WaitStore, Watermark,
};
use tokio::sync::{Notify, watch};
use value::FileStorage;

/// Detector of quiescence. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Quiescence(Arc<State>);

#[derive(Default)]
struct State {
    /// Number of operations in flight on other threads.
    busy: AtomicUsize,
    idle: Notify,
}

impl Quiescence {
    /// Signals that the test's thread has no runnable task; called before it parks.
    pub(super) fn idle(&self) {
        if self.0.busy.load(Ordering::Acquire) == 0 {
            self.0.idle.notify_waiters();
        }
    }

    /// Waits until nothing is running. The caller is then the only runnable task.
    pub(super) async fn wait(&self) {
        self.0.idle.notified().await;
    }

    /// Marks an operation on another thread as in flight until the guard is dropped.
    pub(super) fn busy(&self) -> BusyGuard {
        self.0.busy.fetch_add(1, Ordering::AcqRel);
        BusyGuard(self.0.clone())
    }
}

/// Guard of an operation in flight on another thread.
pub(super) struct BusyGuard(Arc<State>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Store wrapper that marks its calls as in flight.
pub(super) struct TrackedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) quiescence: Quiescence,
}

impl TrackedStore {
    /// Awaits a store call; it is in flight until its result arrives on this thread.
    async fn track<T>(&self, work: impl Future<Output = T>) -> T {
        let _busy = self.quiescence.busy();
        work.await
    }
}

#[async_trait]
impl DefinitionStore for TrackedStore {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.track(self.store.put_definition(definition)).await
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.track(self.store.definition(hash)).await
    }

    async fn definitions(&self, automation: &AutomationId, limit: u32) -> Result<Vec<DefinitionUse>, Error> {
        self.track(self.store.definitions(automation, limit)).await
    }
}

#[async_trait]
impl ExecutionStore for TrackedStore {
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error> {
        self.track(self.store.accept(accept)).await
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        self.track(self.store.append(append)).await
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        self.track(self.store.events(id)).await
    }

    async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
        self.track(self.store.replay_log(id)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.track(self.store.execution(id)).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        self.track(self.store.executions(filter, page)).await
    }

    async fn count_executions(&self, filter: &ExecutionFilter, at_most: u32) -> Result<u32, Error> {
        self.track(self.store.count_executions(filter, at_most)).await
    }

    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error> {
        self.track(self.store.logs(id, after, limit)).await
    }

    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error> {
        self.track(self.store.unfinished(after, limit)).await
    }

    async fn unfinished_count(&self) -> Result<u64, Error> {
        self.track(self.store.unfinished_count()).await
    }
}

#[async_trait]
impl WaitStore for TrackedStore {
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error> {
        self.track(self.store.list_suspended(after, limit)).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        self.track(self.store.waits(execution)).await
    }

    async fn event_paths(&self, name: &str) -> Result<Vec<String>, Error> {
        self.track(self.store.event_paths(name)).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<EventWaiter>,
        limit: u32,
    ) -> Result<Vec<EventWaiter>, Error> {
        self.track(self.store.waiting_for_event(name, path, value, after, limit)).await
    }

    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error> {
        self.track(self.store.waiting_for_child(child)).await
    }
}

#[async_trait]
impl StateStore for TrackedStore {
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error> {
        self.track(self.store.read_state(scope, key)).await
    }

    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error> {
        self.track(self.store.read_states(scope, keys)).await
    }

    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error> {
        self.track(self.store.list_state(scope, after, limit)).await
    }

    async fn write_state(&self, writes: Vec<StateWrite>) -> Result<(), Error> {
        self.track(self.store.write_state(writes)).await
    }
}

#[async_trait]
impl TriggerStore for TrackedStore {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        self.track(self.store.addresses()).await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        self.track(self.store.put_addresses(addresses)).await
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        self.track(self.store.watermarks()).await
    }

    async fn poll_states(&self) -> Result<Vec<(AutomationId, PollState)>, Error> {
        self.track(self.store.poll_states()).await
    }

    async fn known_poll_keys(&self, automation: &AutomationId, keys: &[String]) -> Result<Vec<bool>, Error> {
        self.track(self.store.known_poll_keys(automation, keys)).await
    }

    async fn poll_entries(&self, automation: &AutomationId, limit: u32) -> Result<Vec<PollEntry>, Error> {
        self.track(self.store.poll_entries(automation, limit)).await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        self.track(self.store.subscriptions()).await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        self.track(self.store.put_subscription(subscription)).await
    }

    async fn delete_subscription(&self, id: &str) -> Result<(), Error> {
        self.track(self.store.delete_subscription(id)).await
    }

    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error> {
        self.track(self.store.find_dedup(automation, key, now)).await
    }
}

#[async_trait]
impl SecretStore for TrackedStore {
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        self.track(self.store.get_or_init_secret(fresh)).await
    }
}

/// The engine of a test has its store to itself.
impl PeerStore for TrackedStore {}

impl SharedTriggerStore for TrackedStore {}

impl GenerationStore for TrackedStore {}

#[async_trait]
impl MaintenanceStore for TrackedStore {
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error> {
        self.track(self.store.prune(filter, limit)).await
    }

    async fn measure(&self) -> Result<Capacity, Error> {
        self.track(self.store.measure()).await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.track(self.store.prune_keys(before, limit)).await
    }

    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.track(self.store.prune_dedup(before, limit)).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.track(self.store.prune_state(before, limit)).await
    }

    async fn collect_garbage(&self) -> Result<u64, Error> {
        self.track(self.store.collect_garbage()).await
    }
}

#[async_trait]
impl Store for TrackedStore {
    fn files(&self) -> Arc<dyn FileStorage> {
        self.store.files()
    }

    fn capacity(&self) -> Capacity {
        self.store.capacity()
    }

    fn outages(&self) -> watch::Receiver<Option<Outage>> {
        self.store.outages()
    }

    fn outage(&self) -> Option<Outage> {
        self.store.outage()
    }

    async fn info(&self) -> Result<Info, Error> {
        self.track(self.store.info()).await
    }

    fn metrics(&self) -> Metrics {
        self.store.metrics()
    }

    async fn close(&self) -> Result<(), Error> {
        self.track(self.store.close()).await
    }
}
