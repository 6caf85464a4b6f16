//! The automations that each task has to look at again: a reload has decided upon them, or their shard has moved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use catalog::Catalog;
use model::automation::{AutomationId, TriggerId, TriggerKey};

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
