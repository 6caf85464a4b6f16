//! The automations that each task has to look at again: a reload has decided upon them, or their shard has moved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use catalog::Catalog;
use model::automation::{AutomationId, TriggerId, TriggerKey};

/// Moves the records of a trigger in the store and in the snapshot in force.
#[async_trait]
pub trait MoveRecords: Send + Sync {
    /// Moves the records, and returns the number of rows.
    ///
    /// # Errors
    /// Both triggers have records or are in force, or the store failed. Nothing changed.
    async fn move_records(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, runtime::Error>;
}

/// A task that follows reloads and shards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CatalogListener {
    Schedules,
    Polls,
    Subscriptions,
}

impl CatalogListener {
    const COUNT: usize = 3;
}

/// Automations that a listener has not seen yet.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    /// The executions that it has to look at.
    pub(crate) automations: BTreeSet<AutomationId>,
    /// The executions among them whose progress another node may have written, so that it is to be read again.
    pub(crate) moved: BTreeSet<AutomationId>,
    /// The triggers whose records have moved to the key of another one, in the order of the moves.
    pub(crate) renamed: Vec<(TriggerKey, TriggerKey)>,
}

/// The automations that are pending for each listener since it last took them.
#[derive(Default)]
pub(crate) struct Changes(Mutex<[Pending; CatalogListener::COUNT]>);

impl Changes {
    /// Adds automations for every listener.
    pub(crate) fn add(&self, automations: &[AutomationId]) {
        self.each(|pending| pending.automations.extend(automations.iter().cloned()));
    }

    /// Adds automations whose shard this node has got or given up, for every listener.
    pub(crate) fn add_moved(&self, automations: &[AutomationId]) {
        self.each(|pending| {
            pending.automations.extend(automations.iter().cloned());
            pending.moved.extend(automations.iter().cloned());
        });
    }

    /// Notes that the records of a trigger have moved to the key of another one.
    pub(crate) fn rename(&self, from: &TriggerKey, to: &TriggerKey) {
        self.each(|pending| pending.renamed.push((from.clone(), to.clone())));
    }

    /// Returns true if a listener has not seen a move yet.
    pub(crate) fn is_renamed(&self, listener: CatalogListener) -> bool {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !pending[listener as usize].renamed.is_empty()
    }

    /// Takes the automations that one listener has not seen yet.
    pub(crate) fn take(&self, listener: CatalogListener) -> Pending {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut pending[listener as usize])
    }

    fn each(&self, change: impl FnMut(&mut Pending)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(change);
    }
}

/// Returns the triggers of an automation that a map has.
pub(crate) fn known_triggers<V>(map: &BTreeMap<TriggerKey, V>, id: &AutomationId) -> Vec<TriggerKey> {
    let first = TriggerKey::new(id.clone(), TriggerId::MAIN);
    map.range(first..).map(|(key, _)| key).take_while(|key| key.automation == *id).cloned().collect()
}

/// Returns the triggers of automations: in force, or returned by `known`.
pub(crate) fn triggers_of(
    ids: &BTreeSet<AutomationId>,
    catalog: &Catalog,
    known: impl Fn(&AutomationId) -> Vec<TriggerKey>,
) -> BTreeSet<TriggerKey> {
    let in_force = |id: &AutomationId| {
        catalog
            .get(id)
            .into_iter()
            .flat_map(|deployment| deployment.mounts())
            .map(|mount| mount.key())
            .collect()
    };
    ids.iter().flat_map(|id| [known(id), in_force(id)]).flatten().collect()
}
