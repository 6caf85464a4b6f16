//! A store that a test can observe, block, and make fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine};
use store::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionStore, DefinitionUse,
    Error, EventWaiter, ExecutionFilter, ExecutionRow, ExecutionStore, GenerationStore, Info,
    MaintenanceStore, Metrics, Outage, Page, PeerStore, PollEntry, PollState, PruneFilter, ReplayLog,
    SecretStore, SharedTriggerStore, StateEntry, StateRow, StateStore, StateWrite, Store, Subscription,
    SuspendedExecution, TriggerStore, Wait, WaitStore, Watermark,
};
use tokio::sync::{Notify, Semaphore, watch};
use value::FileStorage;

use crate::common::soon;

/// A store that counts writes, blocks them at a gate, and can fail them with an unknown outcome or as full.
pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    accepts: AtomicU64,
    appends: AtomicU64,
    /// The number of reads of execution logs.
    pub(crate) reads: AtomicU64,
    /// The number of reads of execution rows.
    pub(crate) looks: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) fail: AtomicU64,
    /// The number of next writes that fail as full.
    pub(crate) full: AtomicU64,
    /// The number of next writes that are refused for another reason.
    pub(crate) refused: AtomicU64,
    /// True if the store refuses trigger progress that starts no execution.
    pub(crate) refuses_progress: AtomicBool,
    /// The reason why the store refuses appends; `None` if it takes them.
    pub(crate) refused_appends: Mutex<Option<String>>,
    /// An Automation, and the number of writes of its subscription that the store accepts before it refuses them.
    pub(crate) refused_subscription: Mutex<Option<(AutomationId, u64)>>,
    /// The number of next log reads that the database does not answer.
    pub(crate) unanswered: AtomicU64,
    pub(crate) gate: Semaphore,
    /// As `gate`, for log reads.
    pub(crate) reading: Semaphore,
    /// As `gate`, for searches of steps that wait for an event.
    pub(crate) searching: Semaphore,
    /// Notified when a read finds the file damaged.
    pub(crate) damaged: Notify,
    /// An execution that the store reports as missing.
    pub(crate) hidden: Mutex<Option<ExecutionId>>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        let zero = || AtomicU64::new(0);
        let open = || Semaphore::new(1 << 20);
        Self {
            inner,
            accepts: zero(),
            appends: zero(),
            reads: zero(),
            looks: zero(),
            waiting: zero(),
            fail: zero(),
            full: zero(),
            refused: zero(),
            refuses_progress: AtomicBool::new(false),
            refused_appends: Mutex::default(),
            refused_subscription: Mutex::default(),
            unanswered: zero(),
            gate: open(),
            reading: open(),
            searching: open(),
            damaged: Notify::new(),
            hidden: Mutex::new(None),
        }
    }

    /// Returns the numbers of accept and append calls.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.accepts.load(Ordering::Relaxed), self.appends.load(Ordering::Relaxed))
    }

    /// Blocks all writes from now on, until the gate has permits again.
    pub(crate) fn shut(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Waits until `count` writes are blocked.
    pub(crate) async fn held(&self, count: u64) {
        soon(async {
            while self.waiting.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Returns the number of log reads by others while this log is read many times, which reveals a busy loop.
    pub(crate) async fn reads_meanwhile(&self, id: ExecutionId) -> u64 {
        const MANY: u64 = 300;
        let before = self.reads.load(Ordering::SeqCst);
        for _ in 0..MANY {
            self.replay_log(id).await.expect("the store reads").expect("it is known");
        }
        self.reads.load(Ordering::SeqCst) - before - MANY
    }

    async fn let_in(&self) -> Result<(), Error> {
        if self.fail.load(Ordering::SeqCst) > 0 {
            return Err(in_doubt());
        }
        if self.full.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(Error::Full);
        }
        if self.refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(Error::Write { reason: "permission denied".to_owned() });
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let permit = self.gate.acquire().await.expect("the gate stays");
        permit.forget();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[async_trait]
impl DefinitionStore for Watched {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.inner.put_definition(definition).await
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.inner.definition(hash).await
    }

    async fn definitions(&self, automation: &AutomationId, limit: u32) -> Result<Vec<DefinitionUse>, Error> {
        self.inner.definitions(automation, limit).await
    }
}

#[async_trait]
impl ExecutionStore for Watched {
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error> {
        self.accepts.fetch_add(1, Ordering::Relaxed);
        self.let_in().await?;
        if accept.executions.is_empty() && self.refuses_progress.load(Ordering::SeqCst) {
            return Err(Error::Write { reason: "permission denied".to_owned() });
        }
        self.inner.accept(accept).await
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        self.appends.fetch_add(1, Ordering::Relaxed);
        if let Some(reason) = self.refused_appends.lock().expect("no panic").clone() {
            return Err(Error::Write { reason });
        }
        self.let_in().await?;
        self.inner.append(append).await
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        self.inner.events(id).await
    }

    async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.reading.acquire().await.expect("the gate stays").forget();
        if *self.hidden.lock().expect("nobody panicked") == Some(id) {
            return Ok(None);
        }
        let one_less = |left: u64| left.checked_sub(1);
        if self.unanswered.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(Error::Unreachable { reason: "all connections that read are in use".to_owned() });
        }
        self.inner.replay_log(id).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.inner.execution(id).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        self.inner.executions(filter, page).await
    }

    async fn count_executions(&self, filter: &ExecutionFilter, at_most: u32) -> Result<u32, Error> {
        self.inner.count_executions(filter, at_most).await
    }

    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error> {
        self.inner.logs(id, after, limit).await
    }

    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error> {
        self.inner.unfinished(after, limit).await
    }

    async fn unfinished_count(&self) -> Result<u64, Error> {
        self.inner.unfinished_count().await
    }
}

#[async_trait]
impl WaitStore for Watched {
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error> {
        self.inner.list_suspended(after, limit).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        self.inner.waits(execution).await
    }

    async fn event_paths(&self, name: &str) -> Result<Vec<String>, Error> {
        self.inner.event_paths(name).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<EventWaiter>,
        limit: u32,
    ) -> Result<Vec<EventWaiter>, Error> {
        self.searching.acquire().await.expect("the gate stays").forget();
        self.inner.waiting_for_event(name, path, value, after, limit).await
    }

    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error> {
        self.inner.waiting_for_child(child).await
    }
}

#[async_trait]
impl StateStore for Watched {
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error> {
        self.inner.read_state(scope, key).await
    }

    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error> {
        self.inner.read_states(scope, keys).await
    }

    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error> {
        self.inner.list_state(scope, after, limit).await
    }

    async fn write_state(&self, writes: Vec<StateWrite>) -> Result<(), Error> {
        self.inner.write_state(writes).await
    }
}

#[async_trait]
impl TriggerStore for Watched {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        self.inner.addresses().await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        self.inner.put_addresses(addresses).await
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        self.inner.watermarks().await
    }

    async fn poll_states(&self) -> Result<Vec<(AutomationId, PollState)>, Error> {
        self.inner.poll_states().await
    }

    async fn known_poll_keys(&self, automation: &AutomationId, keys: &[String]) -> Result<Vec<bool>, Error> {
        self.inner.known_poll_keys(automation, keys).await
    }

    async fn poll_entries(&self, automation: &AutomationId, limit: u32) -> Result<Vec<PollEntry>, Error> {
        self.inner.poll_entries(automation, limit).await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        self.inner.subscriptions().await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        if let Some((refused, left)) = self.refused_subscription.lock().expect("no panic").as_mut()
            && *refused == subscription.automation
        {
            let reason = || Error::Write { reason: "permission denied".to_owned() };
            *left = left.checked_sub(1).ok_or_else(reason)?;
        }
        self.inner.put_subscription(subscription).await
    }

    async fn delete_subscription(&self, id: &str) -> Result<(), Error> {
        self.inner.delete_subscription(id).await
    }

    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error> {
        self.inner.find_dedup(automation, key, now).await
    }
}

#[async_trait]
impl SecretStore for Watched {
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        self.inner.get_or_init_secret(fresh).await
    }
}

/// One process owns the store.
impl PeerStore for Watched {}

impl SharedTriggerStore for Watched {}

impl GenerationStore for Watched {}

#[async_trait]
impl MaintenanceStore for Watched {
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error> {
        self.inner.prune(filter, limit).await
    }

    async fn measure(&self) -> Result<Capacity, Error> {
        self.inner.measure().await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.inner.prune_keys(before, limit).await
    }

    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.inner.prune_dedup(before, limit).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.inner.prune_state(before, limit).await
    }

    async fn collect_garbage(&self) -> Result<u64, Error> {
        self.inner.collect_garbage().await
    }
}

#[async_trait]
impl Store for Watched {
    fn files(&self) -> Arc<dyn FileStorage> {
        self.inner.files()
    }

    fn capacity(&self) -> Capacity {
        self.inner.capacity()
    }

    fn outages(&self) -> watch::Receiver<Option<Outage>> {
        self.inner.outages()
    }

    fn outage(&self) -> Option<Outage> {
        let refused = self.refused_appends.lock().expect("no panic").clone();
        let refused = refused.map(|reason| Outage::of_refused_writes(reason, std::time::Instant::now()));
        refused.or_else(|| self.inner.outage())
    }

    async fn info(&self) -> Result<Info, Error> {
        self.inner.info().await
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    async fn failure(&self) -> Error {
        tokio::select! {
            error = self.inner.failure() => error,
            () = self.damaged.notified() => Error::DatabaseDamaged { detail: "a page".to_owned() },
        }
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}

fn in_doubt() -> Error {
    let error = Error::Commit { reason: "injected".to_owned() };
    assert!(error.outcome_unknown());
    error
}
