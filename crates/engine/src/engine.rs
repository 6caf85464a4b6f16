//! The handle: what the rest of Cogwork can ask of the engine.

use std::sync::Arc;
use std::time::Duration;

use model::automation::AutomationId;
use model::execution::{Event, ExecutionId, Outcome, Signal};
use model::payload::Payload;
use model::value::Value;
use store::Store;
use tokio::sync::{broadcast, watch};

use crate::catalog::{Catalog, ReloadSummary, ScanScope};
use crate::clock::Clock;
use crate::inputs::check_inputs;
use crate::intake::{Answer, SignalError, Terms};
use crate::secrets::ListedSecret;
use crate::services::Services;
use crate::settings::Settings;
use crate::told::{Notice, Standing, Start, Status};
use crate::vault::{KeptSecret, Rotation, Vault};
use crate::{Error, poll, retention, scheduler, subscribe, watch as watcher};

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    services: Arc<Services>,
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
            broken = catalog.invalid_files().len(),
            connections = catalog.connections().len(),
            generation = reload.generation,
            "loaded the project"
        );
        let services = &engine.services;
        services.tracker.spawn(services.clone().watch_store());
        if services.settings.background {
            let unfinished = services.read_back().await?;
            if unfinished > 0 {
                tracing::info!(unfinished, "executions go on where they stopped");
            }
            services.tracker.spawn(scheduler::run(services.clone()));
            services.tracker.spawn(poll::run(services.clone()));
            services.tracker.spawn(subscribe::run(services.clone()));
            services.tracker.spawn(retention::run(services.clone()));
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
        tokio::select! {
            () = services.tracker.wait() => {}
            () = services.clock.sleep_for(grace) => {
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
    pub async fn reload(&self) -> ReloadSummary {
        self.reload_at(ScanScope::Full).await
    }

    pub(crate) async fn reload_at(&self, scope: ScanScope) -> ReloadSummary {
        // In a task of its own: a caller that goes away must not leave a folder read and not taken.
        let services = self.services.clone();
        let reload = services.tracker.spawn(services.clone().reload(scope));
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
        Ok(self.services.accept(deployed, start, terms).await?.id)
    }

    /// Waits for the end of an execution.
    ///
    /// # Errors
    /// There is no such execution, the store failed, or the engine stops before the end.
    pub async fn wait(&self, id: ExecutionId) -> Result<Outcome, Error> {
        loop {
            let moved = self.services.intake.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(mut progress) = self.services.intake.watch(id) {
                let ended = tokio::select! {
                    biased;
                    ended = progress.wait_for(|progress| progress.outcome.is_some() || progress.parked) => {
                        ended.map(|progress| progress.outcome.clone())
                    }
                    () = self.services.left_behind(id) => Ok(None),
                };
                match ended {
                    Ok(Some(outcome)) => return Ok(outcome),
                    Ok(None) => return Err(Error::Closing),
                    Err(_) => {}
                }
            }
            let events = self.services.store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
            match events.last() {
                Some(Event::Finished { outcome, .. }) => return Ok(outcome.clone()),
                _ if !self.services.accepting() => return Err(Error::Closing),
                // It is on its way into memory, or to rest.
                _ => self.services.after_a_move(moved).await,
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
