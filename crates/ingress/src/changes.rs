//! The automations that each task has to look at again: a reload has decided upon them, or their shard has moved.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use model::automation::AutomationId;

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
