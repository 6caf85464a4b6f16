//! The other nodes that share the store: shards, executions that change their owner, and hints between nodes.
//!
//! Each unfinished execution is in the table of exactly one node, its owner in the store. A node takes over executions from a dead node,
//! and gated ones of its shards. Requests for an execution or a shard of another node go there as a letter ([`letters`]).
//! If one process owns the store, all of this does nothing.

mod backlog;
mod letters;
mod shards;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use model::execution::{ExecutionId, Status};
use store::{HandedExecution, Load, News, NodeId, Store};
use tokio::sync::Notify;

use crate::admission::Handed;
use crate::context::Runtime;
use crate::error::Error;
use crate::run::Progress;
use backlog::Promised;
pub use letters::ShardRequests;
pub use shards::{ShardHold, Shards};

/// The time between two looks at what hints may have missed.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// The most executions whose end other nodes wait for here at once. Beyond it, they find out by looking.
const MAX_WATCHED: usize = 10_000;
/// The pause between two checks that this node may act.
const CHECK: Duration = Duration::from_millis(100);

/// The exchange of this node with the others.
#[derive(Default)]
pub struct Peers {
    /// The shards of this node.
    pub shards: Shards,
    /// Notified when replies to letters may have come.
    replies: Notify,
    /// Notified when another node has changed addresses of webhooks.
    pub addresses: Notify,
    /// Notified when sessions at test addresses, or their captures, may have changed.
    pub listening: Notify,
    /// Notified when an execution has joined the backlog.
    pub(crate) backlog: Notify,
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
}

impl Runtime {
    /// Takes shards. Called before the recovery, so that it includes the executions of the shards.
    ///
    /// # Errors
    /// The store failed.
    pub async fn join_peers(&self) -> Result<(), Error> {
        let own = self.store.take_shards().await?;
        self.peers.shards.set(own);
        Ok(())
    }

    /// Follows the other nodes until the engine stops.
    pub(crate) async fn follow_peers(self: Arc<Self>) {
        if self.store.node().is_none() {
            return;
        }
        let (mut due, mut is_failing) = (self.clock.monotonic_now(), false);
        loop {
            let result = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = self.clock.sleep_until_monotonic(due) => {
                    due = self.clock.monotonic_now().after(SCAN_INTERVAL);
                    self.catch_up().await
                }
                news = self.store.next_news() => self.take_news(news).await,
            };
            match result {
                Ok(()) => is_failing = false,
                Err(Error::Store(error)) if error.outcome_unknown() => return self.lost(&error),
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) && self.store.outage().is_none() {
                        tracing::warn!(%error, "this daemon cannot follow the others; it retries");
                    }
                }
            }
        }
    }

    /// Looks at everything that a hint can be about.
    async fn catch_up(self: &Arc<Self>) -> Result<(), Error> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.store.report_load(Load {
            in_flight: count(self.admission.in_flight()),
            queued: count(self.admission.queued()),
            resting: count(self.admission.suspended_count()),
        });
        self.adopt_handed().await?;
        self.answer_letters().await?;
        for parent in self.store.waiting_for_ended_children().await? {
            self.wake_parent(parent);
        }
        self.take_over_and_balance().await
    }

    async fn take_news(self: &Arc<Self>, news: News) -> Result<(), Error> {
        match news {
            News::Letter => self.answer_letters().await?,
            News::Reply => self.peers.replies.notify_waiters(),
            News::Handed => self.adopt_handed().await?,
            News::Nodes => self.take_over_and_balance().await?,
            News::Watch { execution, node } => self.watch_for(execution, node),
            News::Ended { execution } => {
                if let Some((parent, _)) = self.store.waiting_for_child(execution).await? {
                    self.wake_parent(parent);
                }
                self.admission.notify_moved();
            }
            News::Deployed => self.peers.generations.notify_one(),
            News::Listening => self.peers.listening.notify_waiters(),
            News::Addresses => self.peers.addresses.notify_one(),
            News::Secrets => {
                self.reread_secrets().await?;
                self.report_details_now().await;
            }
            News::Backlog { node, count } => self.offer_room(node, count),
            News::Room { node, count } => self.give_to(node, count).await?,
        }
        Ok(())
    }

    /// Takes over what dead nodes had, and sees to it that each node has its part of the shards.
    async fn take_over_and_balance(self: &Arc<Self>) -> Result<(), Error> {
        let nodes = self.store.nodes().await?;
        self.report_details(&nodes);
        self.balance_shards(&nodes).await?;
        if nodes.iter().all(|node| !node.dead) {
            return Ok(());
        }
        let mut after = None;
        while let Some(last) = self.store.take_over(after).await? {
            after = Some(last);
            self.adopt_handed().await?;
        }
        Ok(())
    }

    /// Puts executions that this node owns, and does not have in memory, into its table.
    async fn adopt_handed(&self) -> Result<(), Error> {
        loop {
            let handed = self.store.handed().await?;
            if handed.is_empty() {
                return Ok(());
            }
            let ids: Vec<ExecutionId> = handed.iter().map(|handed| handed.row.id).collect();
            let are_new = handed.iter().all(|handed| handed.row.status == Status::Queued);
            let count = self.admission.adopt(
                &*self.clock,
                &self.catalog.load(),
                handed.into_iter().map(Handed::from),
            );
            if count > 0 {
                self.metrics.adopted.add(u64::try_from(count).unwrap_or(u64::MAX));
                if are_new {
                    self.peers.promised.lock().unwrap_or_else(PoisonError::into_inner).redeem(count);
                    tracing::debug!(executions = count, "executions that other daemons accepted start here");
                } else {
                    tracing::info!(executions = count, "executions of other daemons continue here");
                }
            }
            // One that was given away and has come back, before this node has heard that it had left, is found again.
            let (leaving, ids): (Vec<_>, Vec<_>) =
                ids.into_iter().partition(|id| self.admission.is_leaving(*id));
            self.store.confirm_handed(ids).await?;
            if !leaving.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads the secrets and tokens that other nodes have written.
    pub(crate) async fn reread_secrets(&self) -> Result<(), Error> {
        match &self.vault {
            Some(vault) => vault.read_again().await,
            None => Ok(()),
        }
    }

    fn wake_parent(&self, parent: ExecutionId) {
        self.admission.wake_suspended(parent, &*self.clock);
    }

    /// Tells a node when an execution of this one has ended or its caller can be answered.
    fn watch_for(self: &Arc<Self>, execution: ExecutionId, node: NodeId) {
        {
            let mut watched = self.peers.watched();
            if watched.len() >= MAX_WATCHED || !watched.insert((execution, node)) {
                return;
            }
        }
        let runtime = self.clone();
        self.tracker.spawn(async move {
            let decided = runtime.closing.run_until_cancelled(runtime.decided(execution)).await;
            runtime.peers.watched().remove(&(execution, node));
            if decided == Some(true) {
                runtime.store.tell(Some(node), News::Ended { execution });
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
                self.next_move(moved).await;
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
        !matches!(self.store.execution(id).await, Ok(Some(row)) if !row.status.is_terminal())
    }

    /// Returns the node that has an execution, if that is another one.
    pub(crate) async fn elsewhere(&self, id: ExecutionId) -> Result<Option<NodeId>, Error> {
        let Some(own) = self.store.node() else { return Ok(None) };
        if self.admission.has(id) {
            return Ok(None);
        }
        Ok(self.store.owner(id).await?.filter(|owner| *owner != own))
    }

    /// Requests a notification from the owner of an execution when it ends. Returns false if it has ended.
    pub(crate) async fn watch_elsewhere(&self, id: ExecutionId) -> bool {
        let Some(own) = self.store.node() else { return true };
        if self.admission.has(id) {
            return true;
        }
        match self.store.owner(id).await {
            Ok(Some(owner)) if owner != own => {
                self.store.tell(Some(owner), News::Watch { execution: id, node: own });
                true
            }
            Ok(Some(_)) | Err(_) => true,
            // It has ended, or no node owns its shard at the moment.
            Ok(None) => {
                matches!(self.store.execution(id).await, Ok(Some(row)) if !row.status.is_terminal())
            }
        }
    }

    /// Waits until an execution, which this node waits for, moves here or ends elsewhere, or for a second at the latest. Returns at
    /// once if it has ended since the caller looked.
    pub async fn next_move_of(&self, id: ExecutionId, moved: impl Future<Output = ()>) {
        if self.watch_elsewhere(id).await {
            self.next_move(moved).await;
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
