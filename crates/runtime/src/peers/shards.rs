//! The shards of this node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::automation::AutomationId;
use store::{Shard, ShardSet};
use tokio::sync::watch;

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
    /// The shards that another node is to get as soon as nothing holds them.
    leaving: ShardSet,
}

impl Default for Shards {
    fn default() -> Self {
        // A process that has its store to itself has all of them, without asking.
        let own = ShardSet::ALL;
        Self {
            state: Mutex::new(State { own, held: HashMap::new(), leaving: ShardSet::default() }),
            changed: watch::channel(own).0,
        }
    }
}

/// Keeps a shard on this node until it is dropped.
pub struct ShardHold {
    shard: Shard,
    shards: Arc<Shards>,
}

impl Shards {
    /// Returns true if this node has the schedule, the poll, the subscriptions and the gated executions of an Automation.
    #[must_use]
    pub fn has(&self, automation: &AutomationId) -> bool {
        self.state().own.contains(Shard::of(automation))
    }

    /// Returns true if this node has a shard.
    #[must_use]
    pub fn has_shard(&self, shard: Shard) -> bool {
        self.state().own.contains(shard)
    }

    /// Returns true if a shard is to leave this node as soon as nothing holds it: who holds it again and again pauses then.
    #[must_use]
    pub fn is_leaving(&self, shard: Shard) -> bool {
        self.state().leaving.contains(shard)
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

    /// Keeps the shard of an Automation on this node while a tick, a poll or a subscription call of it goes on. `None` if another
    /// node has it.
    #[must_use]
    pub fn hold(self: &Arc<Self>, automation: &AutomationId) -> Option<ShardHold> {
        self.hold_shard(Shard::of(automation))
    }

    /// Keeps a shard on this node while events of it are delivered. `None` if another node has it.
    #[must_use]
    pub fn hold_shard(self: &Arc<Self>, shard: Shard) -> Option<ShardHold> {
        let mut state = self.state();
        if !state.own.contains(shard) {
            return None;
        }
        *state.held.entry(shard).or_default() += 1;
        drop(state);
        Some(ShardHold { shard, shards: self.clone() })
    }

    pub(super) fn own(&self) -> ShardSet {
        self.state().own
    }

    pub(super) fn set(&self, own: ShardSet) {
        let mut state = self.state();
        (state.own, state.leaving) = (own, ShardSet::default());
        drop(state);
        self.changed.send_if_modified(|before| std::mem::replace(before, own) != own);
    }

    /// Begins another look at the shards that are to leave this node.
    pub(super) fn keep_all(&self) {
        self.state().leaving = ShardSet::default();
    }

    /// Removes a shard from this node, unless it is in use.
    pub(super) fn withdraw(&self, shard: Shard) -> Option<ShardSet> {
        let mut state = self.state();
        if state.held.contains_key(&shard) {
            state.leaving.insert(shard);
            return None;
        }
        state.leaving.remove(shard);
        state.own.remove(shard);
        Some(state.own)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShardHold {
    fn drop(&mut self) {
        let mut state = self.shards.state();
        if let Some(count) = state.held.get_mut(&self.shard) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.shard);
            }
        }
    }
}
