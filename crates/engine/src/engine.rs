//! The handle: what the rest of Cogwork can ask of the engine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use model::action::InputSpec;
use model::automation::{Automation, AutomationId};
use model::execution::{Event, ExecutionId, LogLine, Origin, Outcome, Signal};
use model::payload::Payload;
use model::value::{Map, Value};
use serde::Serialize;
use store::Store;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::{Catalog, Look, Reload};
use crate::clock::Clock;
use crate::connections::Connections;
use crate::doubles::Doubles;
use crate::hooks::Desk;
use crate::intake::{Answer, Intake, KeyedLocks, Pending, SignalError, Terms, random};
use crate::listen::Listeners;
use crate::poll::{self, Polls};
use crate::refusals::Refusals;
use crate::reload::Loader;
use crate::run::Secret;
use crate::secrets::{ListedSecret, Secrets};
use crate::settings::Settings;
use crate::subscribe::{self, Subscriptions};
use crate::timer::Timer;
use crate::vault::{KeptSecret, Rotation, Vault};
use crate::{Error, scheduler, watch as watcher};

/// Notices that a slow subscriber may be behind before it loses some.
const NOTICES: usize = 1024;

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    services: Arc<Services>,
}

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
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) loader: Loader,
    store_lost: AtomicBool,
    fatal: watch::Sender<Option<String>>,
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
    pub(crate) vault: Option<Arc<Vault>>,
    pub(crate) doubles: Option<Arc<dyn Doubles>>,
}

/// What started an execution, and with what.
#[derive(Clone, Debug)]
pub struct Start {
    /// With what.
    pub payload: Payload,
    /// By whom or what.
    pub origin: Origin,
}

/// Something that happened, for whoever watches.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// Another snapshot is in force.
    CatalogChanged {
        /// Which.
        generation: u64,
    },
    /// An execution went on.
    ExecutionEvents {
        /// Which.
        id: ExecutionId,
        /// Of which Automation.
        automation: AutomationId,
        /// Where it stands now.
        status: model::Status,
        /// What happened, in order. Step starts are told at once, everything else once it is committed; a step
        /// start may come twice. Empty, with no lines either, where nobody watched yet when the commit began: then
        /// what happened is in the store alone.
        events: Arc<Vec<Event>>,
        /// What it logged.
        logs: Arc<Vec<LogLine>>,
    },
}

/// What an execution waits for.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// How many are before it in the queue for a slot, where it is in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_behind: Option<usize>,
    /// Who has the places of its concurrency key, where it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// The steps that pause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pending>,
}

/// The places of a concurrency key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The key; empty where all executions of the Automation have the same.
    pub key: String,
    /// Who has a place, the one that had it first before the others.
    pub holders: Vec<ExecutionId>,
    /// How many are before it.
    pub ahead: usize,
}

/// How the engine is doing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Executions whose steps run.
    pub in_flight: usize,
    /// Executions of which nothing but pauses is left.
    pub resting: usize,
    /// Executions accepted and not begun.
    pub queued: usize,
    /// Whether starts are accepted.
    pub accepting: bool,
    /// The snapshot in force.
    pub generation: u64,
    /// Starts that were refused or passed over, by reason.
    pub refused: BTreeMap<String, u64>,
    /// When the engine started.
    pub started_at: Timestamp,
}

impl Engine {
    /// Loads the folder, reads back unfinished executions, arms the schedules and watches the files. A broken
    /// Automation never stops it.
    ///
    /// # Errors
    /// The store cannot be read, or the connectors cannot be set up.
    pub async fn start(
        settings: Settings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let vault = Vault::open(store.clone(), settings.keys.clone()).await?;
        Self::start_with(settings, store, Arc::new(vault), clock).await
    }

    /// The same with secrets out of another store, for a command that keeps its executions apart from the daemon's.
    ///
    /// # Errors
    /// Those of [`Engine::start`].
    pub async fn start_with(
        settings: Settings,
        store: Arc<dyn Store>,
        vault: Arc<Vault>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let services = Services::new(settings, store, vault, clock).await?;
        let engine = Self { services };
        let reload = engine.reload().await;
        let catalog = engine.catalog();
        tracing::info!(
            automations = catalog.automations().len(),
            broken = catalog.broken().len(),
            connections = catalog.connections().len(),
            generation = reload.generation,
            "loaded the project"
        );
        let services = &engine.services;
        if services.settings.background {
            let unfinished = services.read_back().await?;
            if unfinished > 0 {
                tracing::info!(unfinished, "executions go on where they stopped");
            }
            services.tracker.spawn(scheduler::run(services.clone()));
            services.tracker.spawn(poll::run(services.clone()));
            services.tracker.spawn(subscribe::run(services.clone()));
            services.tracker.spawn(crate::watch::prune(services.clone()));
        }
        services.tracker.spawn(services.clone().dispatch());
        services.tracker.spawn(services.clone().wake_in_time());
        if services.settings.watch {
            services.tracker.spawn(watcher::run(engine.clone(), services.closing.clone()));
        }
        Ok(engine)
    }

    /// Stops: nothing new begins, what runs comes to the end of its step within `grace` and goes on at the next
    /// start; what is still out then is cut off.
    pub async fn shutdown(&self, grace: Duration) {
        let services = &self.services;
        services.closing.cancel();
        tracing::debug!("from now on nothing begins");
        services.tracker.close();
        let deadline = services.clock.now().checked_add(grace).unwrap_or(Timestamp::MAX);
        tokio::select! {
            () = services.tracker.wait() => {}
            () = services.clock.sleep_until(deadline) => {
                services.abort.cancel();
                services.tracker.wait().await;
            }
        }
    }

    /// The settings it was started with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.services.settings
    }

    /// The clock it goes by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.services.clock
    }

    /// The snapshot in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.services.catalog.load_full()
    }

    /// How the hosts do that were called.
    #[must_use]
    pub fn hosts(&self) -> Vec<connector::HostHealth> {
        self.services.http.health()
    }

    /// The store, to read lists, events and logs from.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.services.store
    }

    /// What happens from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.services.notices.subscribe()
    }

    /// The number of the snapshot in force, and of each that takes its place. Whoever waits for nothing else listens
    /// here: while nobody has subscribed to notices, none are made.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.services.generation.subscribe()
    }

    /// Looks at the folder now and takes what changed. What does not load leaves its last good version in force.
    pub async fn reload(&self) -> Reload {
        self.reload_at(Look::Everywhere).await
    }

    pub(crate) async fn reload_at(&self, look: Look) -> Reload {
        // In a task of its own: a caller that goes away must not leave a folder read and not taken.
        let services = self.services.clone();
        let reload = services.tracker.spawn(services.clone().reload(look));
        reload.await.unwrap_or_default()
    }

    /// Starts an Automation.
    ///
    /// # Errors
    /// There is none of that id, too many wait, or the store failed.
    pub async fn run(&self, id: &AutomationId, mut start: Start) -> Result<ExecutionId, Error> {
        let catalog = self.catalog();
        let deployed = catalog.find(id.as_str())?;
        if let Payload::Manual { inputs } = &start.payload {
            check_inputs(&deployed.automation, inputs)?;
        }
        let mut terms = Terms::default();
        if deployed.plan.code().trigger().is_some() && start.payload.decided().is_none() {
            let results = trigger::results(&start.payload).map_err(|error| Error::Input(error.message))?;
            let id = self.services.intake.next_id(self.services.clock.now());
            let decided = self.services.decide(deployed, id, &results).await.map_err(Error::Input)?;
            if let Payload::Webhook(payload) = &mut start.payload {
                payload.decided = decided.map(Box::new);
            }
            terms.id = Some(id);
        }
        let (id, _) = self.services.accept(deployed, start, terms).await?;
        Ok(id)
    }

    /// Waits for the end of an execution.
    ///
    /// # Errors
    /// There is no such execution, the store failed, or the engine stops before the end.
    pub async fn wait(&self, id: ExecutionId) -> Result<Outcome, Error> {
        loop {
            if let Some(mut progress) = self.services.intake.watch(id) {
                let ended = progress.wait_for(|progress| progress.outcome.is_some() || progress.parked).await;
                match ended.map(|progress| progress.outcome.clone()) {
                    Ok(Some(outcome)) => return Ok(outcome),
                    Ok(None) => return Err(Error::Closing),
                    Err(_) => {}
                }
            }
            let events = self.services.store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
            match events.last() {
                Some(Event::Finished { outcome, .. }) => return Ok(outcome.clone()),
                _ if self.services.closing.is_cancelled() => return Err(Error::Closing),
                _ => tokio::task::yield_now().await,
            }
        }
    }

    /// Asks an execution to end. False if it had ended already.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn cancel(&self, id: ExecutionId, reason: &str) -> Result<bool, Error> {
        if self.services.intake.cancel(&self.services, id, reason) {
            return Ok(true);
        }
        match self.services.store.execution(id).await? {
            Some(_) => Ok(false),
            None => Err(Error::NoSuchExecution(id)),
        }
    }

    /// What an execution waits for, if it waits: its turn, or what its steps pause for.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn standing(&self, id: ExecutionId) -> Result<Standing, Error> {
        // One that something came for waits for a slot, and may pause in other steps meanwhile.
        let standing = self.services.intake.standing(id).unwrap_or_default();
        Ok(Standing { pauses: self.services.pending(id).await?, ..standing })
    }

    /// The execution that the token of a resume address stands for, if it is one of ours.
    #[must_use]
    pub fn resumed_by(&self, token: &str) -> Option<ExecutionId> {
        self.services.resumed_by(token)
    }

    /// Gives a person's answer to an execution that waits for one; durable when this comes back. `step` says which is
    /// meant where several wait.
    ///
    /// # Errors
    /// Nobody waits for it, or it does not fit.
    pub async fn answer(
        &self,
        id: ExecutionId,
        step: Option<&str>,
        answer: Answer,
    ) -> Result<(), SignalError> {
        self.services.answer(id, step, answer).await
    }

    /// Gives an event's data to an execution that waits for one; durable when this comes back.
    ///
    /// # Errors
    /// Nobody waits for it.
    pub async fn signal(
        &self,
        id: ExecutionId,
        step: Option<&str>,
        data: Value,
        by: Option<String>,
    ) -> Result<(), SignalError> {
        self.services.signal(id, step, data, by).await
    }

    /// Takes an event to every execution that waits for one of its name, and gives how many there were.
    ///
    /// # Errors
    /// The store failed.
    pub async fn emit(&self, name: &str, data: Value, by: Option<String>) -> Result<u64, Error> {
        let id = uuid::Uuid::new_v4().to_string();
        self.services.emit(&Signal { id, name: name.to_owned(), data, by }).await
    }

    /// The secrets that there are, by name, never with their values: those of the store, then those of the folder.
    #[must_use]
    pub fn secrets(&self) -> Vec<ListedSecret> {
        self.services.secrets.list()
    }

    /// Keeps a secret in the store, sealed; durable when this comes back, and read from then on.
    ///
    /// # Errors
    /// The name or the value cannot be one, the key cannot be used, or the store failed.
    pub async fn set_secret(&self, name: &str, value: &str) -> Result<KeptSecret, Error> {
        self.services.vault()?.set_secret(name, value, self.services.clock.now()).await
    }

    /// Forgets a secret of the store; false if there was none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_secret(&self, name: &str) -> Result<bool, Error> {
        self.services.vault()?.remove_secret(name).await
    }

    /// Seals the secrets of the store with a new key.
    ///
    /// # Errors
    /// One of them cannot be opened, the key file cannot be written, or the store failed.
    pub async fn rotate_key(&self) -> Result<Rotation, Error> {
        self.services.vault()?.rotate().await
    }

    /// How the engine is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        let services = &self.services;
        Status {
            in_flight: services.intake.in_flight(),
            resting: services.intake.resting(),
            queued: services.intake.queued(),
            accepting: services.accepting(),
            generation: services.catalog.load().generation(),
            refused: services.refusals.all(),
            started_at: services.started_at,
        }
    }

    /// Comes back with the reason when the store can no longer be trusted, so that the process must exit.
    pub async fn store_lost(&self) -> String {
        let mut fatal = self.services.fatal.subscribe();
        match fatal.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// A handle on services that were put together elsewhere.
    pub(crate) fn over(services: Arc<Services>) -> Self {
        Self { services }
    }
}

impl Services {
    async fn new(
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
            ..connector::HttpOptions::default()
        })
        .map_err(|error| Error::Connectors(error.to_string()))?;
        let secret = Secret::new(store.put_secret(random()).await?);
        let loader = Loader::new(&settings.dir, builtin.clone(), store.addresses().await?);
        let catalog = Arc::new(Catalog::empty(builtin));
        let (vault, doubles) = (Some(vault), None);
        Ok(Self::on(Foundation { settings, store, secret, clock, http, catalog, loader, vault, doubles }))
    }

    /// Services in which nothing runs yet.
    pub(crate) fn on(foundation: Foundation) -> Arc<Self> {
        let Foundation { settings, store, secret, clock, http, catalog, loader, vault, doubles } = foundation;
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
            intake: Intake::new(settings.limits.in_flight),
            hooks: Desk::default(),
            refusals: Refusals::default(),
            listeners: Listeners::default(),
            polls: Polls::default(),
            subscriptions: Subscriptions::default(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            tracker: TaskTracker::new(),
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

    /// Takes note that the store failed. Where a commit is in doubt nothing more is accepted, ever: what happened
    /// is for the next start to read (guarantee G21).
    pub(crate) fn lost(&self, error: &store::Error) {
        if !error.outcome_unknown() {
            tracing::error!(%error, "the store refused a write");
            return;
        }
        if !self.store_lost.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the store cannot be trusted any more; the daemon stops accepting");
            self.fatal.send_replace(Some(error.to_string()));
        }
    }
}

/// Checks the inputs of a manual start or a call against what the file declares.
pub(crate) fn check_inputs(automation: &Automation, given: &Map) -> Result<(), Error> {
    check_given(&automation.inputs, given, &format!("automation `{}`", automation.id))
}

/// Checks what is given against what is declared. `what` is what it is given to.
pub(crate) fn check_given(declared: &[InputSpec], given: &Map, what: &str) -> Result<(), Error> {
    let names = || declared.iter().map(|input| input.name.as_str());
    if let Some(unknown) = given.keys().find(|key| !names().any(|name| name == *key)) {
        let near = model::diagnostic::nearest(unknown, names());
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let all: Vec<&str> = names().collect();
        let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(Error::Input(format!("{what} has no input `{unknown}`{near} (its inputs: {known})")));
    }
    for input in declared {
        match given.get(&input.name) {
            Some(value) => connector::check_value(&input.kind, value)
                .map_err(|problem| Error::Input(format!("input `{}`: {problem}", input.name)))?,
            None if input.required && input.default.is_none() => {
                let kind = input.kind.words();
                return Err(Error::Input(format!("input `{}` is required ({kind})", input.name)));
            }
            None => {}
        }
    }
    Ok(())
}
