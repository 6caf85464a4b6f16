//! The handle of a running engine.

use std::sync::Arc;
use std::time::Duration;

use catalog::{
    AddressKind, Catalog, Loader, PreviewFiles, ProjectFile, ReloadPreview, ReloadSummary, ScanScope,
};
use ingress::Ingress;
use model::Backoff;
use model::automation::TriggerKey;
use runtime::{
    Admission, Clock, Connections, Context, DeploymentTimes, EngineEvent, Error, Peers, Records, Runtime,
    Settings, Status, Vault,
};
use store::{News, Store};
use tokio::sync::{broadcast, watch};

use crate::announce::Announcer;
use crate::bulk::Bulk;
use crate::generations::Generations;
use crate::moves::Mover;
use crate::{retention, watch as watcher};

/// The pauses before changed addresses are read again that could not be read.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Handle of a running engine: the runtime, what starts executions in it, and the loader of the project. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    runtime: Arc<Runtime>,
    ingress: Arc<Ingress>,
    loader: Arc<Loader>,
    /// Held while a project file is changed.
    pub(crate) edits: Arc<tokio::sync::Mutex<()>>,
    bulk: Arc<Bulk>,
    pub(crate) generations: Arc<Generations>,
    /// Held while recorded executions are tried on a draft: one request at a time.
    pub(crate) trials: Arc<tokio::sync::Mutex<()>>,
}

impl Engine {
    /// Loads the project folder, recovers unfinished executions, arms the schedules and watches the files. A broken
    /// automation does not prevent the start.
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

    /// As [`Engine::start`], with the secrets of another store: for a command that keeps its executions apart from those
    /// of the daemon.
    ///
    /// # Errors
    /// The errors of [`Engine::start`].
    pub async fn start_with(
        settings: Settings,
        store: Arc<dyn Store>,
        vault: Arc<Vault>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let builtin = Arc::new(catalog::builtin()?);
        let loader = Arc::new(Loader::new(&settings.dir, builtin.clone(), store.addresses().await?));
        let generations = Arc::new(Generations::new(&settings.data_dir));
        let runtime = Runtime::new(settings, store, vault, clock, builtin).await?;
        let ingress = Ingress::new(&runtime);
        ingress.set_mover(Box::new(Mover::new(&runtime, &ingress, &loader)));
        loader.set_announcer(Box::new(Announcer::new(&runtime.context, &ingress, &generations)));
        let engine = Self {
            ingress,
            runtime,
            loader,
            edits: Arc::default(),
            bulk: Arc::default(),
            generations,
            trials: Arc::default(),
        };
        let reload = engine.load_first().await;
        let catalog = engine.catalog();
        tracing::info!(
            automations = catalog.automations().len(),
            broken = catalog.invalid_files().len(),
            connections = catalog.connections().len(),
            generation = reload.generation,
            "loaded the project"
        );
        engine.start_tasks().await?;
        Ok(engine)
    }

    async fn start_tasks(&self) -> Result<(), Error> {
        let runtime = &self.runtime;
        runtime.context.tracker.spawn(runtime.context.clone().watch_store());
        if runtime.context.settings.background {
            runtime.peers.join().await?;
            let unfinished = runtime.admission.recover_unfinished().await?;
            if unfinished > 0 {
                tracing::info!(unfinished, "executions continue where they stopped");
            }
            // Before the first request: it would be refused by another secret.
            self.ingress.read_secret_triggers().await?;
            self.ingress.start_tasks();
            runtime.context.tracker.spawn(self.clone().follow_addresses());
            runtime.context.tracker.spawn(self.clone().follow_generations());
            runtime.context.tracker.spawn(retention::run(runtime.records.clone()));
            runtime.restore_statistics();
        }
        runtime.start_tasks();
        if runtime.context.settings.watch {
            runtime.context.tracker.spawn(watcher::run(self.clone(), runtime.context.closing.clone()));
        }
        Ok(())
    }

    /// Puts addresses in force that other nodes have replaced, until the engine stops.
    async fn follow_addresses(self) {
        let mut pauses = PAUSES;
        loop {
            tokio::select! {
                biased;
                () = self.runtime.context.closing.cancelled() => return,
                () = self.runtime.peers.addresses.notified() => {}
            }
            let put_in_force =
                |next: &catalog::Successor| self.put_in_force(next.after.clone(), &next.reload);
            let store = &*self.runtime.context.store;
            let read = async {
                self.ingress.read_secret_triggers().await?;
                self.loader.reread_addresses(store, || self.catalog(), put_in_force).await
            };
            if let Err(error) = read.await {
                self.runtime.context.lost(&error);
                // The same change is not announced again.
                self.runtime
                    .context
                    .closing
                    .run_until_cancelled(self.runtime.context.clock.sleep_for(pauses.pause()))
                    .await;
                self.runtime.peers.addresses.notify_one();
            } else {
                pauses.reset();
            }
        }
    }

    /// Stops: no step begins any more, running steps may end within `grace` and the executions continue at the next
    /// start. Steps that still run after `grace` are aborted.
    pub async fn shutdown(&self, grace: Duration) {
        let runtime = &self.runtime;
        runtime.context.closing.cancel();
        tracing::debug!("shutting down: no step starts any more");
        runtime.context.tracker.close();
        tokio::select! {
            () = runtime.context.tracker.wait() => {}
            () = runtime.context.clock.sleep_for(grace) => {
                runtime.context.abort.cancel();
                runtime.context.tracker.wait().await;
            }
        }
    }

    /// The services that all components use: memory, state, secrets and counters.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.runtime.context
    }

    /// Tokens, logins and statistics of connections.
    #[must_use]
    pub fn connections(&self) -> &Arc<Connections> {
        &self.runtime.connections
    }

    /// Reads stored executions and their definitions.
    #[must_use]
    pub fn records(&self) -> &Arc<Records> {
        &self.runtime.records
    }

    /// The executions of this process.
    #[must_use]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.runtime.admission
    }

    /// The other daemons that share the store.
    #[must_use]
    pub fn peers(&self) -> &Arc<Peers> {
        &self.runtime.peers
    }

    /// The times at which the definitions in force came into force.
    #[must_use]
    pub fn deployment_times(&self) -> &DeploymentTimes {
        &self.runtime.deployment_times
    }

    /// Returns the state of the engine.
    #[must_use]
    pub fn status(&self) -> Status {
        self.runtime.status()
    }

    /// The ingress: webhooks, polls, subscriptions and listening.
    #[must_use]
    pub fn ingress(&self) -> &Arc<Ingress> {
        &self.ingress
    }

    /// The operations on many executions.
    #[must_use]
    pub fn bulk(&self) -> &Arc<Bulk> {
        &self.bulk
    }

    /// The settings that the engine was started with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.runtime.context.settings
    }

    /// The clock of the engine.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.runtime.context.clock
    }

    /// The snapshot in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.runtime.context.catalog()
    }

    /// The store, for reading lists, events and logs.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.runtime.context.store
    }

    /// Subscribes to the notices of the engine from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<EngineEvent> {
        self.runtime.context.notices.subscribe()
    }

    /// The generation of the snapshot in force. A caller that only waits for reloads uses this: the engine makes no notices
    /// while nobody has subscribed to them.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.runtime.context.generation.subscribe()
    }

    /// Scans the folder now and puts its changes in force. The last good version of a file that does not load stays in
    /// force. Where definitions are deployed, takes the newest ones; a daemon that deploys its folder does so before.
    pub async fn reload(&self) -> ReloadSummary {
        if self.store().node().is_some() && self.settings().background {
            if self.settings().auto_deploy {
                self.deploy_folder(false).await;
            }
            if let Some(summary) = self.take_newest().await {
                return summary;
            }
        }
        self.reload_at(ScanScope::Full).await
    }

    /// Tells triggers of files that do not load.
    pub(crate) fn announcer(&self) -> Announcer {
        Announcer::new(&self.runtime.context, &self.ingress, &self.generations)
    }

    /// The loader of the files in force.
    pub(crate) fn loader(&self) -> &Arc<Loader> {
        &self.loader
    }

    pub(crate) async fn reload_at(&self, scope: ScanScope) -> ReloadSummary {
        // A task of its own: a caller that goes away must not leave a folder read and not put in force.
        let engine = self.clone();
        let reload = self.runtime.context.tracker.spawn(async move { engine.reload_now(scope).await });
        reload.await.unwrap_or_default()
    }

    async fn reload_now(&self, scope: ScanScope) -> ReloadSummary {
        let runtime = &self.runtime;
        let put_in_force = |next: &catalog::Successor| self.put_in_force(next.after.clone(), &next.reload);
        let loaded =
            self.loader.clone().reload(scope, &*runtime.context.store, || self.catalog(), put_in_force).await;
        let unchanged =
            || ReloadSummary { generation: self.catalog().generation(), ..ReloadSummary::default() };
        match loaded {
            Ok(Some(next)) => {
                next.log(&*runtime.context.store, runtime.context.clock.now()).await;
                next.reload
            }
            Ok(None) => unchanged(),
            Err(error) => {
                runtime.context.lost(&error);
                unchanged()
            }
        }
    }

    /// Gives a trigger another live or test address. From then on the previous one leads nowhere.
    ///
    /// # Errors
    /// There is no such trigger, it has no address, or the store failed; the previous address stays in force then.
    pub async fn rotate_address(&self, trigger: &TriggerKey, kind: AddressKind) -> Result<(), Error> {
        self.catalog().find_mount(trigger)?;
        let put_in_force = |next: &catalog::Successor| self.put_in_force(next.after.clone(), &next.reload);
        let (loader, store) = (self.loader.clone(), &*self.runtime.context.store);
        match loader.rotate_address(trigger, kind, store, || self.catalog(), put_in_force).await {
            Ok(Some(_)) => {
                self.runtime.context.store.tell(None, News::Addresses);
                tracing::info!(%trigger, ?kind, "the address was replaced");
                Ok(())
            }
            Ok(None) => {
                let name = trigger.name();
                Err(Error::Input(format!("`{name}` has no address: no request has ever started it")))
            }
            Err(error) => {
                self.runtime.context.lost(&error);
                Err(error.into())
            }
        }
    }

    /// Puts a snapshot in force.
    pub(crate) fn put_in_force(&self, catalog: Arc<Catalog>, reload: &ReloadSummary) {
        self.ingress.on_reload(reload);
        self.runtime.put_in_force(catalog, reload);
    }

    /// Returns the changes if these files replaced the active ones. Changes nothing.
    ///
    /// # Errors
    /// There are too many files, a path is outside the project, or the store cannot be read.
    pub async fn preview_files(
        &self,
        files: Vec<ProjectFile>,
        overlay: bool,
    ) -> Result<ReloadPreview, Error> {
        let (store, now) = (&*self.runtime.context.store, self.runtime.context.clock.now());
        Ok(self.loader.clone().preview_files(files, overlay, self.catalog(), store, now).await?)
    }

    /// The snapshot that would be in force if the file `path` had this text. Changes nothing.
    ///
    /// # Errors
    /// The path is not that of a project file, or the text has errors.
    pub(crate) fn draft(&self, path: &str, text: &str) -> Result<Catalog, Error> {
        Ok(self.loader.draft(&self.catalog(), path, text)?)
    }

    /// The changes that [`Engine::reload`] would make now. Changes nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn preview_reload(&self) -> Result<ReloadPreview, Error> {
        let (store, now) = (&*self.runtime.context.store, self.runtime.context.clock.now());
        Ok(self.loader.clone().preview(PreviewFiles::OnDisk, self.catalog(), store, now).await?)
    }

    /// A handle on parts that were put together elsewhere.
    #[cfg(test)]
    pub(crate) fn from_parts(runtime: Arc<Runtime>) -> Self {
        let settings = &runtime.context.settings;
        let loader = Loader::new(&settings.dir, runtime.context.catalog().registry().clone(), Vec::new());
        let generations = Arc::new(Generations::new(&settings.data_dir));
        let (ingress, loader) = (Ingress::new(&runtime), Arc::new(loader));
        ingress.set_mover(Box::new(Mover::new(&runtime, &ingress, &loader)));
        Self {
            ingress,
            runtime,
            loader,
            edits: Arc::default(),
            bulk: Arc::default(),
            generations,
            trials: Arc::default(),
        }
    }
}
