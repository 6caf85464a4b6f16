//! The other nodes that share the store: shards, executions that change their owner, and hints between nodes.
//!
//! Each unfinished execution is in the table of exactly one node, its owner in the store. A node takes over executions from a dead node,
//! and gated ones of its shards. Requests for an execution or a shard of another node go there as a letter ([`letters`]).
//! If one process owns the store, all of this does nothing.

mod backlog;
mod balance;
mod details;
mod incoming;
mod letters;
mod shards;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use model::automation::AutomationId;
use model::execution::{ExecutionId, Status};
use store::{HandedExecution, Load, News, NodeId, Store};
use tokio::sync::Notify;

use crate::admission::{Admission, Handed};
use crate::api::Progress;
use crate::context::Context;
use crate::error::Error;
use backlog::Promised;
pub use incoming::ShardRequests;
pub(crate) use letters::Letters;
pub use shards::{ShardHold, Shards};

/// The time between two looks at what hints may have missed.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of executions whose end other nodes wait for here at once. Beyond it, they poll.
const MAX_WATCHED: usize = 10_000;

/// The exchange of this node with the others.
pub struct Peers {
    context: Arc<Context>,
    admission: Arc<Admission>,
    /// The shards of this node.
    pub shards: Arc<Shards>,
    letters: Arc<Letters>,
    /// Notified when another node has changed addresses of webhooks.
    pub addresses: Notify,
    /// Notified when sessions at test addresses, or their captures, may have changed.
    pub listening: Notify,
    /// Notified when executions of the backlog have gone to another node.
    given: Notify,
    /// The slots that were promised to other nodes.
    promised: Mutex<Promised>,
    /// Notified when a generation of definitions may have been deployed.
    pub generations: Notify,
    /// Answers letters to shards of this node.
    shard_requests: OnceLock<Box<dyn ShardRequests>>,
    /// Letters that are being answered.
    answering: Mutex<HashSet<[u8; 16]>>,
    /// The executions that other nodes wait for.
    watched: Mutex<HashSet<(ExecutionId, NodeId)>>,
    /// The address of the admin listener, once it listens.
    admin_address: OnceLock<SocketAddr>,
    /// The last known reason why this node cannot read secrets that others stored.
    key_conflict: Mutex<Option<String>>,
}

impl Peers {
    /// Takes shards. Called before the recovery, so that it includes the executions of the shards.
    ///
    /// # Errors
    /// The store failed.
    pub async fn join(&self) -> Result<(), Error> {
        let own = self.context.store.take_shards().await?;
        self.shards.set(own);
        Ok(())
    }

    /// Follows the other nodes until the engine stops.
    pub(crate) async fn follow(self: Arc<Self>) {
        if self.context.store.node().is_none() {
            return;
        }
        let (mut due, mut is_failing) = (self.context.clock.monotonic_now(), false);
        loop {
            let result = tokio::select! {
                biased;
                () = self.context.closing.cancelled() => return,
                () = self.context.clock.sleep_until_monotonic(due) => {
                    due = self.context.clock.monotonic_now().after(SCAN_INTERVAL);
                    self.catch_up().await
                }
                news = self.context.store.next_news() => self.take_news(news).await,
            };
            match result {
                Ok(()) => is_failing = false,
                Err(Error::Store(error)) if error.outcome_unknown() => return self.context.lost(&error),
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) && self.context.store.outage().is_none() {
                        tracing::warn!(%error, "this daemon cannot follow the others; it retries");
                    }
                }
            }
        }
    }

    /// Looks at everything that a hint can be about.
    async fn catch_up(self: &Arc<Self>) -> Result<(), Error> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.context.store.report_load(Load {
            in_flight: count(self.admission.in_flight()),
            queued: count(self.admission.queued()),
            resting: count(self.admission.suspended_count()),
        });
        self.adopt_handed().await?;
        self.answer_letters().await?;
        for parent in self.context.store.waiting_for_ended_children().await? {
            self.wake_parent(parent);
        }
        self.take_over_and_balance().await
    }

    async fn take_news(self: &Arc<Self>, news: News) -> Result<(), Error> {
        match news {
            News::Letter => self.answer_letters().await?,
            News::Reply => self.letters.replies.notify_waiters(),
            News::Handed => self.adopt_handed().await?,
            News::Nodes => self.take_over_and_balance().await?,
            News::Watch { execution, node } => self.watch_for(execution, node),
            News::Ended { execution } => {
                if let Some((parent, _)) = self.context.store.waiting_for_child(execution).await? {
                    self.wake_parent(parent);
                }
                self.admission.notify_moved();
            }
            News::Deployed => self.generations.notify_one(),
            News::Listening => self.listening.notify_waiters(),
            News::Addresses => self.addresses.notify_one(),
            News::Emitted { name } => self.context.outbox.wake(name),
            News::Secrets => {
                self.context.reread_secrets().await?;
                self.report_details_now().await;
            }
            News::Backlog { node, count } => self.offer_room(node, count),
            News::Room { node, count } => self.give_to(node, count).await?,
        }
        Ok(())
    }

    /// Takes over what dead nodes had, and sees to it that each node has its part of the shards.
    async fn take_over_and_balance(self: &Arc<Self>) -> Result<(), Error> {
        let nodes = self.context.store.nodes().await?;
        self.report_details(&nodes);
        self.balance_shards(&nodes).await?;
        if nodes.iter().all(|node| !node.dead) {
            return Ok(());
        }
        let mut after = None;
        while let Some(last) = self.context.store.take_over(after).await? {
            after = Some(last);
            self.adopt_handed().await?;
        }
        Ok(())
    }

    /// Puts executions that this node owns, and does not have in memory, into its table.
    async fn adopt_handed(&self) -> Result<(), Error> {
        loop {
            let handed = self.context.store.handed().await?;
            if handed.is_empty() {
                return Ok(());
            }
            let ids: Vec<ExecutionId> = handed.iter().map(|handed| handed.row.id).collect();
            let are_new = handed.iter().all(|handed| handed.row.status == Status::Queued);
            let count =
                self.admission.adopt(&self.context.catalog.load(), handed.into_iter().map(Handed::from));
            if count > 0 {
                self.context.metrics.adopted.add(u64::try_from(count).unwrap_or(u64::MAX));
                if are_new {
                    self.promised.lock().unwrap_or_else(PoisonError::into_inner).redeem(count);
                    tracing::debug!(executions = count, "executions that other daemons accepted start here");
                } else {
                    tracing::info!(executions = count, "executions of other daemons continue here");
                }
            }
            // An execution that was handed over and has come back before this node learned that it had left is found again.
            let (leaving, ids): (Vec<_>, Vec<_>) =
                ids.into_iter().partition(|id| self.admission.is_leaving(*id));
            self.context.store.confirm_handed(ids).await?;
            if !leaving.is_empty() {
                return Ok(());
            }
        }
    }

    fn wake_parent(&self, parent: ExecutionId) {
        self.admission.wake_suspended(parent);
    }

    /// Tells a node when an execution of this one has ended or its caller can be answered.
    fn watch_for(self: &Arc<Self>, execution: ExecutionId, node: NodeId) {
        {
            let mut watched = self.watched();
            if watched.len() >= MAX_WATCHED || !watched.insert((execution, node)) {
                return;
            }
        }
        let peers = self.clone();
        self.context.tracker.spawn(async move {
            let decided = peers.context.closing.run_until_cancelled(peers.decided(execution)).await;
            peers.watched().remove(&(execution, node));
            if decided == Some(true) {
                peers.context.store.tell(Some(node), News::Ended { execution });
            }
        });
    }

    /// Waits until an execution ends or its caller can be answered. If it could be answered before, only its end counts, since the
    /// requesting node has already looked for a response. Returns false if the execution has not ended and is not in the table of
    /// this node; the requesting node then polls.
    async fn decided(&self, id: ExecutionId) -> bool {
        loop {
            let moved = self.admission.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let Some(mut progress) = self.admission.watch(id) else {
                if !self.admission.has(id) {
                    break;
                }
                // It is being loaded.
                self.admission.next_move(moved).await;
                continue;
            };
            let had_response = progress.borrow().response.is_some();
            let is_decided = |progress: &Progress| {
                let has_response = progress.response.is_some() && !had_response;
                has_response || progress.outcome.is_some() || progress.is_left
            };
            // The channel ends when the execution leaves memory; its next run has the same or another one.
            if progress.wait_for(is_decided).await.is_ok() {
                return true;
            }
        }
        !matches!(self.context.store.execution(id).await, Ok(Some(row)) if !row.status.is_terminal())
    }
}

/// The gate of outgoing requests: closed while other nodes may have declared this one dead.
pub(crate) struct StoreGate(Arc<dyn Store>);

impl StoreGate {
    /// The gate of a store that other processes can have too.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Option<Arc<dyn connector::Gate>> {
        store.node().is_some().then(|| Arc::new(Self(store.clone())) as Arc<dyn connector::Gate>)
    }
}

impl connector::Gate for StoreGate {
    fn is_open(&self) -> bool {
        self.0.may_act()
    }
}

impl Peers {
    pub(crate) fn new(
        context: Arc<Context>,
        admission: Arc<Admission>,
        shards: Arc<Shards>,
        letters: Arc<Letters>,
    ) -> Self {
        Self {
            context,
            admission,
            shards,
            letters,
            addresses: Notify::new(),
            listening: Notify::new(),
            given: Notify::new(),
            promised: Mutex::default(),
            generations: Notify::new(),
            shard_requests: OnceLock::new(),
            answering: Mutex::default(),
            watched: Mutex::default(),
            admin_address: OnceLock::new(),
            key_conflict: Mutex::default(),
        }
    }

    /// Sends a request to the owner of the shard of an Automation, and waits so long for its reply.
    ///
    /// # Errors
    /// The owner did not answer, the engine stops, or the store failed.
    pub async fn ask_shard(
        &self,
        automation: &AutomationId,
        request: Vec<u8>,
        patience: Duration,
    ) -> Result<Vec<u8>, Error> {
        self.letters.ask_shard(automation, request, patience).await
    }

    /// Sets who answers the requests of other nodes about shards of this one. Only the first call has an effect.
    pub fn set_shard_requests(&self, requests: Box<dyn ShardRequests>) {
        let _ = self.shard_requests.set(requests);
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, HashSet<(ExecutionId, NodeId)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<HandedExecution> for Handed {
    fn from(handed: HandedExecution) -> Self {
        let HandedExecution { row, keeps_permit, wake_at } = handed;
        let rests = row.status == Status::Waiting && !keeps_permit;
        Self { row, rests: rests.then_some(wake_at) }
    }
}
