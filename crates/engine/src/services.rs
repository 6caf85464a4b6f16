//! What everything inside the engine shares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use store::Store;
use tokio::sync::{Notify, Semaphore, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::catalog::Catalog;
use crate::chance::random;
use crate::clock::Clock;
use crate::connections::Connections;
use crate::doubles::Doubles;
use crate::evaluator::Evaluator;
use crate::hooks::Desk;
use crate::intake::Intake;
use crate::isolation::Isolation;
use crate::listen::Listeners;
use crate::locks::KeyedLocks;
use crate::memory::Memory;
use crate::poll::Polls;
use crate::refusals::Refusals;
use crate::reload::Loader;
use crate::run::Secret;
use crate::secrets::Secrets;
use crate::settings::Settings;
use crate::subscribe::Subscriptions;
use crate::timer::Timer;
use crate::told::Notice;
use crate::vault::Vault;

/// Notices that a slow subscriber may be behind before it loses some.
const NOTICES: usize = 1024;
/// Bodies of requests that are inflated at one time.
const INFLATING: usize = 2;

/// What everything inside the engine shares.
pub(crate) struct Services {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) http: connector::Http,
    pub(crate) secrets: Secrets,
    /// The sealed secrets; none where nothing outside is called.
    pub(crate) vault: Option<Arc<Vault>>,
    /// Itself, for what outlives a call.
    pub(crate) this: Weak<Self>,
    /// Tokens, consents and the health of connections.
    pub(crate) connections: Connections,
    /// The key of this store, for what must be unguessable and the same again.
    pub(crate) secret: Secret,
    /// Who writes a value of the state, one at a time.
    pub(crate) state_locks: KeyedLocks,
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) notices: broadcast::Sender<Notice>,
    pub(crate) intake: Intake,
    pub(crate) evaluator: Evaluator,
    /// The right to inflate the body of a request: each may take 25 MiB.
    pub(crate) inflating: Semaphore,
    /// The room for large values of executions.
    pub(crate) memory: Memory,
    pub(crate) isolation: Arc<Isolation>,
    pub(crate) hooks: Desk,
    pub(crate) refusals: Refusals,
    pub(crate) listeners: Listeners,
    pub(crate) polls: Polls,
    pub(crate) subscriptions: Subscriptions,
    /// Nothing new begins, and what runs stops at the next step.
    pub(crate) closing: CancellationToken,
    /// What still runs is cut off.
    pub(crate) abort: CancellationToken,
    pub(crate) tracker: TaskTracker,
    /// Told when the store has little room left.
    pub(crate) room_wanted: Notify,
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) loader: Loader,
    store_lost: AtomicBool,
    pub(crate) fatal: watch::Sender<Option<String>>,
    pub(crate) started_at: Timestamp,
    /// What stands in for the outside, in a test.
    pub(crate) doubles: Option<Arc<dyn Doubles>>,
}

/// What the services of an engine are made of.
pub(crate) struct Foundation {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) secret: Secret,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) http: connector::Http,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) loader: Loader,
    pub(crate) isolation: Arc<Isolation>,
    pub(crate) vault: Option<Arc<Vault>>,
    pub(crate) doubles: Option<Arc<dyn Doubles>>,
}

impl Services {
    pub(crate) async fn new(
        settings: Settings,
        store: Arc<dyn Store>,
        vault: Arc<Vault>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, Error> {
        crate::code::bound(&settings.limits);
        let builtin = Arc::new(crate::check::builtin()?);
        let http = connector::Http::new(connector::HttpOptions {
            allow: connector::AllowList::parse(settings.outbound_allow.iter().map(String::as_str))
                .map_err(|error| Error::Connectors(error.to_string()))?,
            blocked_own: settings.own_addresses.clone(),
            allow_credential_debug: settings.allow_credential_debug,
            redactor: settings.redactor.clone(),
            ..connector::HttpOptions::default()
        })
        .map_err(|error| Error::Connectors(error.to_string()))?;
        let secret = Secret::new(store.get_or_init_secret(random()).await?);
        let loader = Loader::new(&settings.dir, builtin.clone(), store.addresses().await?);
        let catalog = Arc::new(Catalog::empty(builtin));
        // A command that runs one execution and ends takes up none of another process.
        let isolation = if settings.background {
            Isolation::in_folder(&settings.data_dir)
                .map_err(|source| Error::Io { path: settings.data_dir.display().to_string(), source })?
        } else {
            Isolation::none()
        };
        let (vault, doubles) = (Some(vault), None);
        let foundation =
            Foundation { settings, store, secret, clock, http, catalog, loader, isolation, vault, doubles };
        Ok(Self::on(foundation))
    }

    /// Services in which nothing runs yet.
    pub(crate) fn on(foundation: Foundation) -> Arc<Self> {
        let Foundation { settings, store, secret, clock, http, catalog, loader, isolation, vault, doubles } =
            foundation;
        let (notices, _) = broadcast::channel(NOTICES);
        let (generation, _) = watch::channel(0);
        let (fatal, _) = watch::channel(None);
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            store,
            http,
            secrets: Secrets::new(
                vault.clone(),
                settings.secrets_dir.clone(),
                settings.redactor.clone(),
                doubles.clone(),
            ),
            vault,
            connections: Connections::default(),
            secret,
            state_locks: KeyedLocks::default(),
            catalog: ArcSwap::new(catalog),
            notices,
            intake: Intake::new(settings.limits.in_flight, clock.ahead()),
            evaluator: Evaluator::new(),
            inflating: Semaphore::new(INFLATING),
            memory: Memory::new(settings.limits.memory / 2),
            isolation,
            hooks: Desk::default(),
            refusals: Refusals::default(),
            listeners: Listeners::default(),
            polls: Polls::default(),
            subscriptions: Subscriptions::default(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            tracker: TaskTracker::new(),
            room_wanted: Notify::new(),
            generation,
            loader,
            store_lost: AtomicBool::new(false),
            fatal,
            started_at: clock.now(),
            clock,
            settings,
            doubles,
        })
    }

    /// The sealed secrets.
    pub(crate) fn vault(&self) -> Result<&Arc<Vault>, Error> {
        self.vault.as_ref().ok_or_else(|| Error::Vault("a test has none".to_owned()))
    }

    /// A timer that goes by what is in force, until the engine stops.
    pub(crate) fn timer(&self) -> Timer {
        Timer {
            clock: self.clock.clone(),
            generation: self.generation.subscribe(),
            closing: self.closing.clone(),
        }
    }

    /// Whether starts are accepted.
    pub(crate) fn accepting(&self) -> bool {
        !self.closing.is_cancelled() && !self.store_lost.load(Ordering::Relaxed)
    }

    /// Takes note once the store cannot be trusted any more, whoever found out: a read that finds the file damaged stops
    /// the engine as a failed commit does.
    pub(crate) async fn watch_store(self: Arc<Self>) {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            error = self.store.failure() => self.lost(&error),
        }
    }

    /// Takes note that the store failed. Where a commit is in doubt nothing more is accepted, ever: what happened
    /// is for the next start to read (guarantee G21).
    pub(crate) fn lost(&self, error: &store::Error) {
        match error {
            // Said once by whoever makes room, not once a request.
            store::Error::Full => return self.room_wanted.notify_one(),
            error if error.outcome_unknown() => {}
            error => return tracing::error!(%error, "the store refused a write"),
        }
        if !self.store_lost.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the store cannot be trusted any more; the daemon stops accepting");
            self.fatal.send_replace(Some(error.to_string()));
        }
    }
}
