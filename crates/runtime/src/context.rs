//! The runtime: the state that all executions of one engine share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use allocator::LargeWork;
use arc_swap::ArcSwap;
use catalog::{Catalog, ReloadSummary};
use connector::Registry;
use jiff::Timestamp;
use store::{Capacity, Node, NodeDetails, Store};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::answers::AnswerLog;
use crate::api::EngineEvent;
use crate::clock::Clock;
use crate::connections::Connections;
use crate::deployment_times::DeploymentTimes;
use crate::doubles::Doubles;
use crate::error::Error;
use crate::evaluator::Evaluator;
use crate::isolation::Isolation;
use crate::locks::KeyedLocks;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::peers::{Peers, StoreGate};
use crate::refusals::RefusalLog;
use crate::refused_writes::RefusedWrites;
use crate::rejections::RejectionCounters;
use crate::run::Secret;
use crate::secrets::Secrets;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::timer::Timer;
use crate::vault::Vault;

/// The number of threads that read and write large values.
const LARGE_WORK_THREADS: usize = 2;

/// Capacity of the event channel: a slower subscriber loses events.
const NOTICES: usize = 1024;

/// The state that all executions of one engine share: the store, the clock, the catalog in force, and the components
/// that let executions in and run them.
pub struct Runtime {
    /// The settings of the engine.
    pub settings: Settings,
    /// The durable store.
    pub store: Arc<dyn Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The client for outgoing calls.
    pub http: connector::Http,
    /// Reads secrets from the store, the folder and the environment.
    pub secrets: Secrets,
    /// The encrypted secrets; none where nothing outside is called.
    pub(crate) vault: Option<Arc<Vault>>,
    /// Weak self-reference, for tasks that outlive a call.
    pub(crate) this: Weak<Self>,
    /// Tokens, logins and statistics of connections.
    pub(crate) connections: Connections,
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
    /// Admits executions and holds their states.
    pub admission: Admission,
    /// The other nodes that share the store.
    pub peers: Peers,
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
    /// Times at which the definitions in force came into force.
    pub deployment_times: DeploymentTimes,
    /// Counts rejected and skipped starts.
    pub rejections: RejectionCounters,
    /// The latest requests that started nothing.
    pub refusals: RefusalLog,
    /// The latest answers of people.
    pub answers: AnswerLog,
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
    /// The generation of the catalog in force.
    pub generation: watch::Sender<u64>,
    store_lost: AtomicBool,
    pub(crate) fatal: watch::Sender<Option<String>>,
    pub(crate) started_at: Timestamp,
    /// The address of the admin listener, once it listens.
    admin_address: OnceLock<SocketAddr>,
    /// The last known reason why this node cannot read secrets that others stored.
    key_conflict: Mutex<Option<String>>,
    /// Test doubles; `None` outside of tests.
    pub doubles: Option<Arc<dyn Doubles>>,
}

/// The parts that a [`Runtime`] is made of.
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

impl Runtime {
    /// The runtime of a daemon or a command, before anything runs. `builtin` are the connectors that come with Cogwork.
    ///
    /// # Errors
    /// The settings for outgoing calls are wrong, the data folder cannot be used, or the store failed.
    pub async fn new(
        settings: Settings,
        store: Arc<dyn Store>,
        vault: Arc<Vault>,
        clock: Arc<dyn Clock>,
        builtin: Arc<Registry>,
    ) -> Result<Arc<Self>, Error> {
        catalog::set_code_limits(settings.limits.code());
        let http = connector::Http::new(connector::HttpOptions {
            allow: connector::AllowList::parse(settings.outbound_allow.iter().map(String::as_str))
                .map_err(|error| Error::Connectors(error.to_string()))?,
            blocked_own: settings.own_addresses.clone(),
            allow_credential_debug: settings.allow_credential_debug,
            redactor: settings.redactor.clone(),
            gate: StoreGate::of(&store),
            ..connector::HttpOptions::default()
        })
        .map_err(|error| Error::Connectors(error.to_string()))?;
        let secret = Secret::new(store.get_or_init_secret(store::random()?).await?);
        let catalog = Arc::new(Catalog::empty(builtin));
        // A command that runs a single execution recovers none of other processes.
        let isolation = if settings.background {
            Isolation::in_folder(&settings.data_dir)
                .map_err(|source| Error::Io { path: settings.data_dir.display().to_string(), source })?
        } else {
            Isolation::none()
        };
        let (vault, doubles) = (Some(vault), None);
        let parts = RuntimeParts { settings, store, secret, clock, http, catalog, isolation, vault, doubles };
        Ok(Self::from_parts(parts))
    }

    /// A runtime in which nothing runs yet.
    #[must_use]
    pub fn from_parts(parts: RuntimeParts) -> Arc<Self> {
        let RuntimeParts { settings, store, secret, clock, http, catalog, isolation, vault, doubles } = parts;
        let (notices, _) = broadcast::channel(NOTICES);
        let (generation, _) = watch::channel(0);
        let (fatal, _) = watch::channel(None);
        let metrics = Metrics::default();
        let queue_waits = metrics.queue_waits.clone();
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            store,
            http,
            secrets: Secrets::new(
                vault.clone(),
                settings.secrets_dir.clone(),
                settings.redactor.clone(),
                doubles.clone(),
            )
            .with_allowed_variables(settings.env_allow.clone()),
            vault,
            connections: Connections::default(),
            secret,
            state_locks: KeyedLocks::default(),
            refused_writes: RefusedWrites::default(),
            catalog: ArcSwap::new(catalog),
            notices,
            admission: Admission::new(
                settings.limits.in_flight,
                clock.wall_offset(),
                queue_waits,
                doubles.as_ref().and_then(|doubles| doubles.first_id_bits()),
            ),
            peers: Peers::default(),
            evaluator: Evaluator::new(),
            large_work: LargeWork::new(LARGE_WORK_THREADS),
            memory: Memory::new(settings.limits.memory / 2),
            reads: Memory::new(settings.limits.memory / 4),
            arriving_answers: Memory::new(settings.limits.memory / 8),
            isolation,
            deployment_times: DeploymentTimes::default(),
            rejections: RejectionCounters::default(),
            refusals: RefusalLog::default(),
            answers: AnswerLog::default(),
            statistics: Statistics::default(),
            metrics,
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            tracker: TaskTracker::new(),
            room_wanted: Notify::new(),
            generation,
            store_lost: AtomicBool::new(false),
            fatal,
            started_at: clock.now(),
            admin_address: OnceLock::new(),
            key_conflict: Mutex::default(),
            clock,
            settings,
            doubles,
        })
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

    /// Tells the other nodes the address of the admin listener.
    pub fn report_address(self: &Arc<Self>, address: SocketAddr) {
        let _ = self.admin_address.set(address);
        let runtime = self.clone();
        self.tracker.spawn(async move { runtime.report_details_now().await });
    }

    /// Reads the other nodes, and reports the details of this one to them.
    pub(crate) async fn report_details_now(&self) {
        // A failure of the store is reported elsewhere, and the next look at the nodes reports the details.
        if self.store.node().is_some()
            && let Ok(nodes) = self.store.nodes().await
        {
            self.report_details(&nodes);
        }
    }

    /// Compares the keys of this node with the keys of the others, and publishes its own.
    pub(crate) fn report_details(&self, nodes: &[Node]) {
        let Some(vault) = &self.vault else { return };
        let conflict = vault.conflict(nodes);
        self.store.report_details(NodeDetails {
            address: self.admin_address.get().map(ToString::to_string),
            data_dir: Some(self.settings.data_dir.display().to_string()),
            keys: vault.key_ids(),
            problems: conflict.iter().cloned().collect(),
            settings: None,
        });
        let mut known = self.key_conflict.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != conflict {
            if let Some(problem) = &conflict {
                tracing::error!(problem, "this daemon and the others have different keys for secrets");
            }
            *known = conflict;
        }
    }

    /// Returns the reason why this node cannot read secrets of the store, or the others could not read the secrets that are stored here.
    #[must_use]
    pub fn key_conflict(&self) -> Option<String> {
        let of_others = self.key_conflict.lock().unwrap_or_else(PoisonError::into_inner).clone();
        of_others.or_else(|| self.vault.as_ref()?.key_problem())
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

    /// Activates a snapshot and notifies its subscribers.
    pub fn put_in_force(&self, catalog: Arc<Catalog>, reload: &ReloadSummary) {
        self.deployment_times.update(reload, self.clock.now());
        self.catalog.store(catalog);
        self.admission.follow_limits(&self.catalog.load(), &*self.clock);
        self.rejections.forget(&reload.removed);
        self.refusals.forget(&reload.removed);
        self.statistics.forget(&reload.removed);
        self.generation.send_replace(reload.generation);
        let _ = self.notices.send(EngineEvent::CatalogChanged { generation: reload.generation });
    }

    /// The snapshot in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }
}
