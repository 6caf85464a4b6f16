//! The ingress: the state of everything that starts executions.

use std::sync::{Arc, OnceLock};

use catalog::ReloadSummary;
use runtime::{Admission, Connections, Context, Peers, Runtime};
use tokio::sync::Semaphore;

use crate::changes::{Changes, MoveRecords};
use crate::hooks::RateLimits;
use crate::listen::Listeners;
use crate::outbox::EngineDeliveries;
use crate::poll::Polls;
use crate::refusals::RefusalLog;
use crate::source::state::Sources;
use crate::subscribe::Subscriptions;

/// Large bodies of requests that are inflated at one time.
const INFLATING: usize = 2;
/// Small bodies of requests that are inflated at one time.
const INFLATING_SMALL: usize = 8;

/// Everything that starts executions: webhooks, schedules, polls, subscriptions to events, and listening for tests.
pub struct Ingress {
    pub(crate) context: Arc<Context>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) peers: Arc<Peers>,
    /// The latest requests that started nothing.
    pub(crate) refusals: RefusalLog,
    pub(crate) hooks: RateLimits,
    /// The right to inflate a large body of a request: each may take 25 MiB.
    pub(crate) inflating: Semaphore,
    /// The right to inflate a small body, which does not wait for large ones.
    pub(crate) inflating_small: Semaphore,
    pub(crate) listeners: Listeners,
    pub(crate) polls: Polls,
    pub(crate) sources: Sources,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) engine_deliveries: EngineDeliveries,
    pub(crate) changes: Changes,
    /// Held while the records of a trigger move, and while schedules fire or follow a reload.
    pub(crate) moving: tokio::sync::Mutex<()>,
    /// Moves records in the store and in the snapshot.
    pub(crate) mover: OnceLock<Box<dyn MoveRecords>>,
}

impl Ingress {
    /// The ingress of a runtime. Nothing is started before [`Ingress::start_tasks`].
    #[must_use]
    pub fn new(runtime: &Runtime) -> Arc<Self> {
        Arc::new(Self {
            context: runtime.context.clone(),
            connections: runtime.connections.clone(),
            admission: runtime.admission.clone(),
            peers: runtime.peers.clone(),
            refusals: RefusalLog::default(),
            hooks: RateLimits::default(),
            inflating: Semaphore::new(INFLATING),
            inflating_small: Semaphore::new(INFLATING_SMALL),
            listeners: Listeners::default(),
            polls: Polls::default(),
            sources: Sources::default(),
            subscriptions: Subscriptions::default(),
            engine_deliveries: EngineDeliveries::default(),
            changes: Changes::default(),
            moving: tokio::sync::Mutex::default(),
            mover: OnceLock::new(),
        })
    }

    /// Takes note of a reload before its snapshot is put in force: drops what was kept of removed automations, and hands
    /// the changed ones to the schedules, polls and subscriptions.
    pub fn on_reload(&self, reload: &ReloadSummary) {
        self.hooks.forget(&reload.removed);
        self.refusals.forget(&reload.removed);
        self.hooks.forget_keys(&reload.changed);
        if self.context.settings.background {
            // Only the background listeners consume them; without those they would pile up.
            self.changes.add(&reload.rechecked);
        }
    }
}
