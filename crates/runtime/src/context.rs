//! The context of the components: the services that each of them may use. It knows no component.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use allocator::LargeWork;
use arc_swap::ArcSwap;
use catalog::Catalog;
use jiff::Timestamp;
use model::ExecutionId;
use store::{Capacity, Store};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::EngineEvent;
use crate::clock::Clock;
use crate::doubles::Doubles;
use crate::error::Error;
use crate::evaluator::Evaluator;
use crate::isolation::Isolation;
use crate::locks::KeyedLocks;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::observer::ObserverCounts;
use crate::outbox::Outbox;
use crate::refused_writes::RefusedWrites;
use crate::rejections::RejectionCounters;
use crate::secrets::Secrets;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::store_secret::Secret;
use crate::timer::Timer;
use crate::vault::Vault;

/// The number of threads that read and write large values.
const LARGE_WORK_THREADS: usize = 2;

/// Capacity of the event channel: a slower subscriber loses events.
const NOTICES: usize = 1024;

/// The time between two checks whether this node may act.
const CHECK: Duration = Duration::from_millis(100);

/// The services of the components of one engine: the store, the clock, the catalog in force, memory and counters.
pub struct Context {
    /// The settings of the engine.
    pub settings: Settings,
    /// The durable store.
    pub store: Arc<dyn Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The client for outgoing calls.
    pub http: connector::Http,
    /// Reads secrets from their sources.
    pub secrets: Secrets,
    /// The encrypted secrets; none where nothing outside is called.
    pub(crate) vault: Option<Arc<Vault>>,
    /// Per-store secret from which stable, unguessable tokens are derived.
    pub secret: Secret,
    /// Serialises writers of a state value.
    pub(crate) state_locks: KeyedLocks,
    /// The pauses of executions whose writes were refused.
    pub(crate) refused_writes: RefusedWrites,
    /// The catalog in force.
    pub catalog: ArcSwap<Catalog>,
    /// Sends engine events to subscribers.
    pub notices: broadcast::Sender<EngineEvent>,
    /// Runs long evaluations on threads of their own.
    pub evaluator: Evaluator,
    /// The threads that read and write large values.
    pub large_work: LargeWork,
    /// Memory budget for large values of executions.
    pub(crate) memory: Memory,
    /// Memory budget for requests that read histories, apart from `memory`: loading an execution waits for no reader, and a reader
    /// for no execution.
    pub(crate) reads: Memory,
    /// Memory budget for answers of called hosts while they arrive.
    pub(crate) arriving_answers: Memory,
    /// Isolates executions that may have crashed the process.
    pub isolation: Arc<Isolation>,
    /// Counts rejected and skipped starts.
    pub rejections: RejectionCounters,
    /// Outcomes and durations of ended executions.
    pub statistics: Statistics,
    /// Counters and histograms for the metrics endpoint.
    pub metrics: Metrics,
    /// Cancelled when the engine stops: nothing new starts, and executions stop at the next step.
    pub closing: CancellationToken,
    /// Cancelled when the grace period is over: running steps are aborted.
    pub abort: CancellationToken,
    /// Tracks all tasks of the engine.
    pub tracker: TaskTracker,
    /// Notified when the store has little room left.
    pub room_wanted: Notify,
    /// The events on their way to triggers.
    pub outbox: Arc<Outbox>,
    /// The generation of the catalog in force.
    pub generation: watch::Sender<u64>,
    store_lost: AtomicBool,
    fatal: watch::Sender<Option<String>>,
    pub(crate) started_at: Timestamp,
    /// Test doubles; `None` outside of tests.
    pub doubles: Option<Arc<dyn Doubles>>,
}

/// The parts that a runtime is made of.
pub struct RuntimeParts {
    /// The settings of the engine.
    pub settings: Settings,
    /// The durable store.
    pub store: Arc<dyn Store>,
    /// The per-store secret.
    pub secret: Secret,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The client for outgoing calls.
    pub http: connector::Http,
    /// The first catalog in force.
    pub catalog: Arc<Catalog>,
    /// Isolates executions that may have crashed the process.
    pub isolation: Arc<Isolation>,
    /// The encrypted secrets; `None` in tests of automations.
    pub vault: Option<Arc<Vault>>,
    /// Test doubles; `None` outside of tests.
    pub doubles: Option<Arc<dyn Doubles>>,
}

impl Context {
    /// A context in which nothing runs yet.
    pub(crate) fn new(parts: RuntimeParts) -> Arc<Self> {
        let RuntimeParts { settings, store, secret, clock, http, catalog, isolation, vault, doubles } = parts;
        let (notices, _) = broadcast::channel(NOTICES);
        let (generation, _) = watch::channel(0);
        let (fatal, _) = watch::channel(None);
        Arc::new(Self {
            store,
            http,
            secrets: Secrets::new(
                vault.clone(),
                settings.secrets_dir.clone(),
                settings.redactor.clone(),
                doubles.clone(),
            )
            .with_allowed_variables(settings.env_allow.clone())
            .with_sources(&settings.secret_sources, settings.provider_network(), clock.clone()),
            vault,
            secret,
            state_locks: KeyedLocks::default(),
            refused_writes: RefusedWrites::default(),
            catalog: ArcSwap::new(catalog),
            notices,
            evaluator: Evaluator::new(),
            large_work: LargeWork::new(LARGE_WORK_THREADS),
            memory: Memory::new(settings.limits.memory / 2),
            reads: Memory::new(settings.limits.memory / 4),
            arriving_answers: Memory::new(settings.limits.memory / 8),
            isolation,
            rejections: RejectionCounters::default(),
            statistics: Statistics::default(),
            metrics: Metrics::default(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            tracker: TaskTracker::new(),
            room_wanted: Notify::new(),
            outbox: Arc::default(),
            generation,
            store_lost: AtomicBool::new(false),
            fatal,
            started_at: clock.now(),
            clock,
            settings,
            doubles,
        })
    }

    /// The files that calls of actions may use.
    #[must_use]
    pub fn file_access(&self) -> connector::FileAccess<'_> {
        connector::FileAccess { storage: self.store.files(), dir: self.settings.files_dir.as_deref() }
    }

    /// The encrypted secrets.
    pub(crate) fn vault(&self) -> Result<&Arc<Vault>, Error> {
        self.vault.as_ref().ok_or_else(|| Error::Vault("a test has none".to_owned()))
    }

    /// Creates a timer that follows the snapshot in force until the engine stops.
    pub fn timer(&self) -> Timer {
        Timer {
            clock: self.clock.clone(),
            generation: self.generation.subscribe(),
            closing: self.closing.clone(),
        }
    }

    /// Returns true if starts are accepted.
    #[must_use]
    pub fn accepting(&self) -> bool {
        !self.closing.is_cancelled() && !self.store_lost.load(Ordering::Relaxed)
    }

    /// Returns true if a start would be accepted now: the engine runs, and the store has room and takes writes.
    #[must_use]
    pub fn accepts_starts(&self) -> bool {
        self.accepting()
            && self.store.capacity() != Capacity::Exhausted
            && !self.store.outage().is_some_and(|outage| outage.refuses_starts())
    }

    /// Stops the engine when the store reports a fatal error, also one found by a read.
    pub async fn watch_store(self: Arc<Self>) {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            error = self.store.failure() => self.lost(&error),
        }
    }

    /// Handles a store error. After a commit with an unknown outcome the engine accepts nothing any more; the next
    /// start reads what happened (guarantee G21).
    pub fn lost(&self, error: &store::Error) {
        match error {
            // Logged once by the task that makes room, not for every request.
            store::Error::Full => return self.room_wanted.notify_one(),
            error if error.outcome_unknown() => {}
            // The store itself logs the beginning and the end of an outage, not each write in it.
            store::Error::Unreachable { .. } | store::Error::Closed => {
                return tracing::debug!(%error, "the store accepted no write");
            }
            error if self.store.outage().is_some() || !self.accepting() => {
                return tracing::debug!(%error, "the store accepted no write");
            }
            error => return tracing::error!(%error, "the store refused a write"),
        }
        if !self.store_lost.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the store cannot be trusted any more; the daemon stops accepting");
            self.fatal.send_replace(Some(error.to_string()));
        }
    }

    /// The address of a page in the web UI by its path, such as `/executions/<id>`. A reader has to log in.
    #[must_use]
    pub fn page_url(&self, path: &str) -> String {
        let base = self.settings.admin_url.as_deref().unwrap_or("http://127.0.0.1:7071");
        format!("{}{path}", base.trim_end_matches('/'))
    }

    /// The snapshot in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Comes back with the reason when the store can no longer be trusted, so that the process must exit.
    pub async fn store_lost(&self) -> String {
        let mut fatal = self.fatal.subscribe();
        match fatal.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until nothing that this node begins can happen beside the same on another one. Returns false if the engine stops first.
    pub(crate) async fn may_act_soon(&self) -> bool {
        while !self.store.may_act() {
            if self.closing.is_cancelled() {
                return false;
            }
            self.clock.sleep_for(CHECK).await;
        }
        true
    }

    /// Returns the pause before an execution is repeated whose write the store has refused; `None` if the store has failed or the
    /// engine stops.
    pub(crate) fn pause_after_refusal(&self, id: ExecutionId, error: &store::Error) -> Option<Duration> {
        let is_over = error.is_untrusted() || matches!(error, store::Error::Closed);
        (!is_over && self.accepting()).then(|| self.refused_writes.pause(id))
    }

    /// The figures of the export of traces and logs; zeros if nobody collects them.
    #[must_use]
    pub fn observer_counts(&self) -> ObserverCounts {
        self.settings.observer.as_ref().map(|observer| observer.counts()).unwrap_or_default()
    }
}
