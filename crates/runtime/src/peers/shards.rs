//! The shards of this node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::automation::AutomationId;
use store::{Node, Shard, ShardSet};
use tokio::sync::watch;

use crate::context::Runtime;
use crate::error::Error;

/// The shards of this node, and what it does in each of them.
pub struct Shards {
    state: Mutex<State>,
    /// Has the shards, for those who follow them.
    changed: watch::Sender<ShardSet>,
}

#[derive(Default)]
struct State {
    own: ShardSet,
    /// The number of holds of each shard.
    held: HashMap<Shard, usize>,
}

impl Default for Shards {
    fn default() -> Self {
        // A process that has its store to itself has all of them, without asking.
        let own = ShardSet::ALL;
        Self { state: Mutex::new(State { own, held: HashMap::new() }), changed: watch::channel(own).0 }
    }
}

/// Keeps a shard on this node until it is dropped.
pub struct ShardHold {
    shard: Shard,
    runtime: Arc<Runtime>,
}

impl Shards {
    /// Returns true if this node has the schedule, the poll, the subscriptions and the gated executions of an Automation.
    #[must_use]
    pub fn has(&self, automation: &AutomationId) -> bool {
        self.state().own.contains(Shard::of(automation))
    }

    /// Returns the number of shards of this node.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state().own.len()
    }

    /// Follows the shards of this node.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<ShardSet> {
        self.changed.subscribe()
    }

    /// Waits until this node has the shard of an Automation, with all executions of it.
    pub(crate) async fn arrival(&self, automation: &AutomationId) {
        let shard = Shard::of(automation);
        // The sender lives as long as the shards.
        drop(self.changed.subscribe().wait_for(|own| own.contains(shard)).await);
    }

    fn own(&self) -> ShardSet {
        self.state().own
    }

    pub(super) fn set(&self, own: ShardSet) {
        self.state().own = own;
        self.changed.send_if_modified(|before| std::mem::replace(before, own) != own);
    }

    /// Removes a shard from this node, unless it is in use.
    fn withdraw(&self, shard: Shard) -> Option<ShardSet> {
        let mut state = self.state();
        if state.held.contains_key(&shard) {
            return None;
        }
        state.own.remove(shard);
        Some(state.own)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShardHold {
    fn drop(&mut self) {
        let mut state = self.runtime.peers.shards.state();
        if let Some(count) = state.held.get_mut(&self.shard) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.shard);
            }
        }
    }
}

impl Runtime {
    /// Keeps the shard of an Automation on this node while a tick, a poll or a subscription call of it runs. `None` if another
    /// node has it.
    #[must_use]
    pub fn hold_shard(self: &Arc<Self>, automation: &AutomationId) -> Option<ShardHold> {
        let shard = Shard::of(automation);
        let mut state = self.peers.shards.state();
        if !state.own.contains(shard) {
            return None;
        }
        *state.held.entry(shard).or_default() += 1;
        drop(state);
        Some(ShardHold { shard, runtime: self.clone() })
    }

    /// Takes free shards up to the part of this node, and gives up what it has beyond it. A node that does not run the newest
    /// definitions has no part, unless there are no others. Writes only if there is something to do.
    pub(super) async fn balance_shards(&self, nodes: &[Node]) -> Result<(), Error> {
        let alive: Vec<&Node> = nodes.iter().filter(|node| !node.dead).collect();
        let current = alive.iter().filter(|node| node.running.problem.is_none());
        let (current, own_id) = (current.map(|node| node.id).collect::<Vec<_>>(), self.store.node());
        let part = match current.len() {
            0 => usize::from(Shard::COUNT).div_ceil(alive.len().max(1)),
            count if own_id.is_none_or(|own| current.contains(&own)) => {
                usize::from(Shard::COUNT).div_ceil(count)
            }
            _ => 0,
        };
        let owned: usize = alive.iter().map(|node| node.shards.len()).sum();
        let this = alive.iter().find(|node| Some(node.id) == own_id);
        // Those of the store, unless the look before could not be finished.
        let is_known = this.is_none_or(|node| node.shards == self.peers.shards.own());
        if part > 0 && (owned < usize::from(Shard::COUNT) || !is_known) {
            let own = self.store.take_shards().await?;
            self.adopt_handed().await?;
            self.peers.shards.set(own);
        }
        let own = self.peers.shards.own();
        let mut left = own.len();
        for shard in own.iter() {
            if left <= part {
                break;
            }
            // Nothing new begins in it from here on.
            let Some(rest) = self.peers.shards.withdraw(shard) else { continue };
            if self.store.give_up_shard(shard).await? {
                left -= 1;
                self.peers.shards.set(rest);
            } else {
                let mut again = rest;
                again.insert(shard);
                self.peers.shards.set(again);
            }
        }
        if left < own.len() {
            self.store.tell(None, store::News::Nodes);
        }
        Ok(())
    }
}
