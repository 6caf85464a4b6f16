//! Sharing of the backlog between nodes: a node without a free slot announces this, nodes with free slots reply, and it hands them
//! executions that have not started. An execution always has one owner, which changes in one transaction.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use store::{News, NodeId};

use super::{Peers, SCAN_INTERVAL};
use crate::clock::MonotonicTime;
use crate::error::Error;

/// The time that an execution waits for a slot before it is offered to other nodes.
const FIRST_ASK: Duration = Duration::from_millis(50);
/// The pause after executions have gone to another node, which may have room for more.
const NEXT_ASK: Duration = Duration::from_millis(20);
/// Maximum number of executions that go to another node at once.
const MAX_GIVEN: usize = 1000;
/// The time in which executions come for slots that were promised.
const PROMISE: Duration = Duration::from_millis(250);

/// The slots that were promised to other nodes, for which executions have not come yet.
#[derive(Default)]
pub(super) struct Promised {
    slots: usize,
    /// When they count as free again.
    until: Option<MonotonicTime>,
}

impl Promised {
    fn count(&self, now: MonotonicTime) -> usize {
        if self.until.is_some_and(|until| now < until) { self.slots } else { 0 }
    }

    fn add(&mut self, slots: usize, now: MonotonicTime) {
        *self = Self { slots: self.count(now) + slots, until: Some(now.after(PROMISE)) };
    }

    /// Notes that executions have come.
    pub(super) fn redeem(&mut self, slots: usize) {
        self.slots = self.slots.saturating_sub(slots);
    }
}

impl Peers {
    /// Asks the other nodes for free slots while executions wait here that they can run as well, until the engine stops.
    pub(crate) async fn share_backlog(self: Arc<Self>) {
        let Some(node) = self.context.store.node() else { return };
        loop {
            let mut pause = FIRST_ASK;
            while self.admission.movable_count() > 0 {
                tokio::select! {
                    biased;
                    () = self.context.closing.cancelled() => return,
                    () = self.given.notified() => {
                        pause = NEXT_ASK;
                        continue;
                    }
                    () = self.context.clock.sleep_for(pause) => {}
                }
                let count = self.admission.movable_count();
                if count > 0 {
                    self.context.store.tell(None, News::Backlog { node, count });
                }
                pause = (pause * 2).min(SCAN_INTERVAL);
            }
            tokio::select! {
                biased;
                () = self.context.closing.cancelled() => return,
                () = self.admission.joined.notified() => {}
            }
        }
    }

    /// Tells a node with a backlog how many executions this one has room for.
    pub(super) fn offer_room(&self, to: NodeId, count: usize) {
        let Some(node) = self.context.store.node().filter(|own| *own != to) else { return };
        if !self.context.accepting() || !self.context.store.may_act() {
            return;
        }
        let now = self.context.clock.monotonic_now();
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.admission.free_slots().saturating_sub(promised.count(now));
        let room = free.min(count).min(MAX_GIVEN);
        if room > 0 {
            promised.add(room, now);
            self.context.store.tell(Some(to), News::Room { node, count: room });
        }
    }

    /// Hands the oldest executions of the backlog to a node with this number of free slots.
    pub(super) async fn give_to(self: &Arc<Self>, node: NodeId, room: usize) -> Result<(), Error> {
        let leaving = self.admission.begin_leaving(room.min(MAX_GIVEN));
        let ids = leaving.ids();
        if ids.is_empty() {
            return Ok(());
        }
        let (kept, result): (HashSet<_>, _) = match self.context.store.give(node, ids.clone()).await {
            Ok(kept) => (kept.into_iter().collect(), Ok(())),
            // The engine stops. None of them may begin here, since the other node may have it.
            Err(error) if error.outcome_unknown() => return Err(error.into()),
            // Nothing has changed.
            Err(error) => (ids.iter().copied().collect(), Err(error.into())),
        };
        let given = ids.len() - kept.len();
        if given > 0 {
            self.context.store.tell(Some(node), News::Handed);
            self.given.notify_one();
        }
        for (id, reason) in self.admission.end_leaving(leaving, &kept) {
            let peers = self.clone();
            self.context.tracker.spawn(async move {
                if let Err(error) = peers.admission.cancel(id, &reason).await {
                    tracing::warn!(%id, %error, "an execution that continues at another daemon could not be cancelled");
                }
            });
        }
        result
    }
}
