//! The runtime: the components that let executions in and run them.

use std::sync::Arc;

use catalog::{Catalog, ReloadSummary};
use connector::Registry;
use store::Store;

use crate::admission::Admission;
use crate::api::{EngineEvent, Status};
use crate::clock::Clock;
use crate::connections::Connections;
use crate::context::{Context, RuntimeParts};
use crate::deployment_times::DeploymentTimes;
use crate::error::Error;
use crate::isolation::Isolation;
use crate::peers::{Letters, Peers, Shards, StoreGate};
use crate::records::Records;
use crate::settings::Settings;
use crate::store_secret::Secret;
use crate::vault::Vault;

/// The components of one engine. Each holds the context, and the components below it.
pub struct Runtime {
    /// The services that all components use.
    pub context: Arc<Context>,
    /// Tokens, logins and statistics of connections.
    pub connections: Arc<Connections>,
    /// Reads stored executions and their definitions.
    pub records: Arc<Records>,
    /// Admits executions and holds their states.
    pub admission: Arc<Admission>,
    /// The other nodes that share the store.
    pub peers: Arc<Peers>,
    /// Times at which the definitions in force came into force.
    pub deployment_times: DeploymentTimes,
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
            blocked_servers: settings.own_servers.clone(),
            allow_credential_debug: settings.allow_credential_debug,
            redactor: settings.redactor.clone(),
            max_file: settings.limits.file_bytes,
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
        let context = Context::new(parts);
        let connections = Arc::new(Connections::new(context.clone()));
        let records = Arc::new(Records::new(context.clone()));
        let shards = Arc::new(Shards::default());
        let letters = Arc::new(Letters::new(context.clone()));
        let admission = Admission::new(connections.clone(), records.clone(), shards.clone(), letters.clone());
        let admission = Arc::new(admission);
        let peers = Arc::new(Peers::new(context.clone(), admission.clone(), shards, letters));
        let deployment_times = DeploymentTimes::default();
        Arc::new(Self { context, connections, records, admission, peers, deployment_times })
    }

    /// Puts a snapshot in force and tells those who wait for it.
    pub fn put_in_force(&self, catalog: Arc<Catalog>, reload: &ReloadSummary) {
        let context = &self.context;
        self.deployment_times.update(reload, context.clock.now());
        context.catalog.store(catalog);
        self.admission.follow_limits(&context.catalog.load());
        context.rejections.forget(&reload.removed);
        context.statistics.forget(&reload.removed);
        context.generation.send_replace(reload.generation);
        let _ = context.notices.send(EngineEvent::CatalogChanged { generation: reload.generation });
    }

    /// Returns the state of the engine.
    #[must_use]
    pub fn status(&self) -> Status {
        let context = &self.context;
        Status {
            in_flight: self.admission.in_flight(),
            resting: self.admission.suspended_count(),
            queued: self.admission.queued(),
            accepting: context.accepts_starts(),
            generation: context.catalog.load().generation(),
            refused: context.rejections.all(),
            started_at: context.started_at,
        }
    }

    /// Starts the tasks that dispatch executions, wake suspended ones and follow the other nodes. They end when the runtime closes.
    pub fn start_tasks(&self) {
        let Self { context, admission, peers, .. } = self;
        if context.settings.secret_sources.has_providers() {
            context.tracker.spawn(context.clone().read_secrets_ahead());
        }
        context.tracker.spawn(admission.clone().dispatch());
        context.tracker.spawn(admission.clone().dispatch_large());
        context.tracker.spawn(admission.clone().run_wake_timers());
        context.tracker.spawn(peers.clone().follow());
        context.tracker.spawn(peers.clone().share_backlog());
    }

    /// Counts the executions of the last day in the statistics, until the engine stops.
    pub fn restore_statistics(&self) {
        let context = self.context.clone();
        self.context.tracker.spawn(async move {
            let restoring = context.statistics.restore(&*context.store, context.started_at);
            context.closing.run_until_cancelled(restoring).await;
        });
    }
}
