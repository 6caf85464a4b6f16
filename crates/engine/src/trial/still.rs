//! Finding out that nothing goes on any more, so that the clock may move: the test's thread has nothing to run, and
//! nobody else works for it.
//!
//! A test has a thread of its own, on which everything of its engine runs. Just before that thread goes to sleep it says
//! so; if no write or read of the store is under way then, whatever is left waits for the clock, or for something that
//! never comes. So no test ever waits for real time to pass, and none moves the clock too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use model::execution::{Event, ExecutionId, LogLine};
use model::value::Files;
use model::{AutomationId, DefinitionHash};
use store::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionStore, Error,
    ExecutionFilter, ExecutionRow, ExecutionStore, Info, MaintenanceStore, Metrics, Page, PollEntry,
    PollState, PruneFilter, SecretStore, StateEntry, StateRow, StateStore, StateWrite, Store, Subscription,
    SuspendedExecution, TriggerStore, Wait, WaitStore, Watermark,
};
use tokio::sync::Notify;

/// Knows whether anything goes on. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Still(Arc<State>);

#[derive(Default)]
struct State {
    /// What other threads do for this one.
    busy: AtomicUsize,
    rest: Notify,
}

impl Still {
    /// To be called by the thread whenever it has nothing to run.
    pub(super) fn idle(&self) {
        if self.0.busy.load(Ordering::Acquire) == 0 {
            self.0.rest.notify_waiters();
        }
    }

    /// Comes back once nothing goes on. Whoever waits here is then the only one that runs.
    pub(super) async fn rest(&self) {
        self.0.rest.notified().await;
    }

    /// Says that something goes on elsewhere, for as long as what is given back lives.
    pub(super) fn busy(&self) -> Busy {
        self.0.busy.fetch_add(1, Ordering::AcqRel);
        Busy(self.0.clone())
    }
}

/// Something that goes on elsewhere.
pub(super) struct Busy(Arc<State>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A store whose work is noticed.
pub(super) struct Noticed {
    pub(super) store: Arc<dyn Store>,
    pub(super) still: Still,
}

impl Noticed {
    /// The result of a read or write, which goes on elsewhere until it is taken here.
    async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        let _busy = self.still.busy();
        work.await
    }
}

#[async_trait]
impl DefinitionStore for Noticed {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.of(self.store.put_definition(definition)).await
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.of(self.store.definition(hash)).await
    }
}

#[async_trait]
impl ExecutionStore for Noticed {
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error> {
        self.of(self.store.accept(accept)).await
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        self.of(self.store.append(append)).await
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        self.of(self.store.events(id)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.of(self.store.execution(id)).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        self.of(self.store.executions(filter, page)).await
    }

    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error> {
        self.of(self.store.logs(id, after, limit)).await
    }

    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error> {
        self.of(self.store.unfinished(after, limit)).await
    }

    async fn unfinished_count(&self) -> Result<u64, Error> {
        self.of(self.store.unfinished_count()).await
    }
}

#[async_trait]
impl WaitStore for Noticed {
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error> {
        self.of(self.store.list_suspended(after, limit)).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        self.of(self.store.waits(execution)).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        after: Option<(ExecutionId, String)>,
        limit: u32,
    ) -> Result<Vec<(ExecutionId, String)>, Error> {
        self.of(self.store.waiting_for_event(name, after, limit)).await
    }

    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error> {
        self.of(self.store.waiting_for_child(child)).await
    }
}

#[async_trait]
impl StateStore for Noticed {
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error> {
        self.of(self.store.read_state(scope, key)).await
    }

    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error> {
        self.of(self.store.read_states(scope, keys)).await
    }

    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error> {
        self.of(self.store.list_state(scope, after, limit)).await
    }

    async fn write_state(&self, writes: Vec<StateWrite>) -> Result<(), Error> {
        self.of(self.store.write_state(writes)).await
    }
}

#[async_trait]
impl TriggerStore for Noticed {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        self.of(self.store.addresses()).await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        self.of(self.store.put_addresses(addresses)).await
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        self.of(self.store.watermarks()).await
    }

    async fn poll_states(&self) -> Result<Vec<(AutomationId, PollState)>, Error> {
        self.of(self.store.poll_states()).await
    }

    async fn known_poll_keys(&self, automation: &AutomationId, keys: &[String]) -> Result<Vec<bool>, Error> {
        self.of(self.store.known_poll_keys(automation, keys)).await
    }

    async fn poll_entries(&self, automation: &AutomationId, limit: u32) -> Result<Vec<PollEntry>, Error> {
        self.of(self.store.poll_entries(automation, limit)).await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        self.of(self.store.subscriptions()).await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        self.of(self.store.put_subscription(subscription)).await
    }

    async fn delete_subscription(&self, id: &str) -> Result<(), Error> {
        self.of(self.store.delete_subscription(id)).await
    }

    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error> {
        self.of(self.store.find_dedup(automation, key, now)).await
    }
}

#[async_trait]
impl SecretStore for Noticed {
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        self.of(self.store.get_or_init_secret(fresh)).await
    }
}

#[async_trait]
impl MaintenanceStore for Noticed {
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error> {
        self.of(self.store.prune(filter, limit)).await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.of(self.store.prune_keys(before, limit)).await
    }

    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.of(self.store.prune_dedup(before, limit)).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.of(self.store.prune_state(before, limit)).await
    }

    async fn collect_garbage(&self) -> Result<u64, Error> {
        self.of(self.store.collect_garbage()).await
    }
}

#[async_trait]
impl Store for Noticed {
    fn files(&self) -> Arc<dyn Files> {
        self.store.files()
    }

    fn capacity(&self) -> Capacity {
        self.store.capacity()
    }

    async fn info(&self) -> Result<Info, Error> {
        self.of(self.store.info()).await
    }

    fn metrics(&self) -> Metrics {
        self.store.metrics()
    }

    async fn close(&self) -> Result<(), Error> {
        self.of(self.store.close()).await
    }
}
