//! The engine handle: the public API of this crate.

use std::sync::Arc;
use std::time::Duration;

use model::automation::AutomationId;
use model::execution::{Event, ExecutionId, Outcome, Signal};
use model::payload::Payload;
use model::value::Value;
use store::Store;
use tokio::sync::{broadcast, watch};

use crate::catalog::{Catalog, Look, Reload};
use crate::clock::Clock;
use crate::inputs::check_inputs;
use crate::intake::{Answer, SignalError, Terms};
use crate::secrets::ListedSecret;
use crate::services::Services;
use crate::settings::Settings;
use crate::told::{Notice, Standing, Start, Status};
use crate::vault::{Rotation, StoredSecret, Vault};
use crate::{Error, poll, retention, scheduler, subscribe, watch as watcher};

/// Handle of a running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    services: Arc<Services>,
}

impl Engine {
    /// Loads the project folder, recovers unfinished executions, arms the schedules and watches the files. A broken
    /// Automation does not prevent the start.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or the connectors cannot be set up.
    pub async fn start(
        settings: Settings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let vault = Vault::open(store.clone(), settings.keys.clone()).await?;
        Self::start_with(settings, store, Arc::new(vault), clock).await
    }

    /// Like [`Engine::start`], with secrets from another store: for a command whose executions are separate from those
    /// of the daemon.
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

    /// Stops the engine. Running steps may finish within `grace`; executions continue at the next start. Steps that
    /// exceed the grace period are aborted.
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

    /// The settings of the engine.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.services.settings
    }

    /// The clock of the engine.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.services.clock
    }

    /// The snapshot in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.services.catalog.load_full()
    }

    /// The store, for reading lists, events and logs.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.services.store
    }

    /// Subscribes to the events of the engine.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.services.notices.subscribe()
    }

    /// Watches the number of the snapshot in force. Cheaper than [`Engine::subscribe`]: without subscribers no events
    /// are created.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.services.generation.subscribe()
    }

    /// Reloads the project folder now. Files with errors keep their last valid version in force.
    pub async fn reload(&self) -> Reload {
        self.reload_at(Look::Everywhere).await
    }

    pub(crate) async fn reload_at(&self, look: Look) -> Reload {
        // A separate task, so that a cancelled caller does not interrupt the reload.
        let services = self.services.clone();
        let reload = services.tracker.spawn(services.clone().reload(look));
        reload.await.unwrap_or_default()
    }

    /// Starts an Automation.
    ///
    /// # Errors
    /// Returns an error if there is none of this id, the queue is full, or the store fails.
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
            let decided =
                self.services.run_trigger_code(deployed, id, &results).await.map_err(Error::Input)?;
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
    /// Returns an error if there is no such execution, the store fails, or the engine stops before the end.
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
                // The execution is being loaded or suspended.
                _ => self.services.after_a_move(moved).await,
            }
        }
    }

    /// Requests the cancellation of an execution. Returns false if it has already ended.
    ///
    /// # Errors
    /// Returns an error if there is no such execution, or the store fails.
    pub async fn cancel(&self, id: ExecutionId, reason: &str) -> Result<bool, Error> {
        if self.services.intake.cancel(&self.services, id, reason) {
            return Ok(true);
        }
        match self.services.store.execution(id).await? {
            Some(_) => Ok(false),
            None => Err(Error::NoSuchExecution(id)),
        }
    }

    /// Returns what a pending execution waits for: its place in the queue, or the waiting steps.
    ///
    /// # Errors
    /// Returns an error if there is no such execution, or the store fails.
    pub async fn standing(&self, id: ExecutionId) -> Result<Standing, Error> {
        // An execution that was woken waits for a slot while other steps may still wait.
        let standing = self.services.intake.standing(id).unwrap_or_default();
        Ok(Standing { pauses: self.services.pending(id).await?, ..standing })
    }

    /// Returns the execution of a resume token; `None` if the token is not valid.
    #[must_use]
    pub fn resumed_by(&self, token: &str) -> Option<ExecutionId> {
        self.services.resumed_by(token)
    }

    /// Delivers a person's answer to a waiting step, durably. `step` selects the step if several wait.
    ///
    /// # Errors
    /// Returns an error if no step waits for it, or the answer does not match its schema.
    pub async fn answer(
        &self,
        id: ExecutionId,
        step: Option<&str>,
        answer: Answer,
    ) -> Result<(), SignalError> {
        self.services.answer(id, step, answer).await
    }

    /// Delivers an event to a waiting step, durably.
    ///
    /// # Errors
    /// Returns an error if no step waits for it.
    pub async fn signal(
        &self,
        id: ExecutionId,
        step: Option<&str>,
        data: Value,
        by: Option<String>,
    ) -> Result<(), SignalError> {
        self.services.signal(id, step, data, by).await
    }

    /// Delivers an event to every execution that waits for its name. Returns their number.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn emit(&self, name: &str, data: Value, by: Option<String>) -> Result<u64, Error> {
        let id = uuid::Uuid::new_v4().to_string();
        self.services.emit(&Signal { id, name: name.to_owned(), data, by }).await
    }

    /// Lists the names of secrets: those of the store, then those of the folder.
    #[must_use]
    pub fn secrets(&self) -> Vec<ListedSecret> {
        self.services.secrets.list()
    }

    /// Stores a secret, encrypted and durable. It applies at once.
    ///
    /// # Errors
    /// Returns an error if the name or the value is not allowed, the key cannot be used, or the store fails.
    pub async fn set_secret(&self, name: &str, value: &str) -> Result<StoredSecret, Error> {
        self.services.vault()?.set_secret(name, value, self.services.clock.now()).await
    }

    /// Deletes a secret from the store. Returns false if there was none.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn remove_secret(&self, name: &str) -> Result<bool, Error> {
        self.services.vault()?.remove_secret(name).await
    }

    /// Re-encrypts the secrets of the store with a new key.
    ///
    /// # Errors
    /// Returns an error if a secret cannot be decrypted, the key file cannot be written, or the store fails.
    pub async fn rotate_key(&self) -> Result<Rotation, Error> {
        self.services.vault()?.rotate().await
    }

    /// Status of the engine.
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

    /// Completes with the reason when the store can no longer be trusted; the process must exit then.
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

    /// Wraps services that were created elsewhere.
    pub(crate) fn over(services: Arc<Services>) -> Self {
        Self { services }
    }
}
