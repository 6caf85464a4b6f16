//! The automations that reloads have decided upon, for each task that follows them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use model::automation::AutomationId;

/// A task that follows reloads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CatalogListener {
    Schedules,
    Polls,
    Subscriptions,
}

impl CatalogListener {
    const COUNT: usize = 3;
}

/// The automations that reloads have decided upon since each listener last took them.
#[derive(Default)]
pub(crate) struct Changes(Mutex<[BTreeSet<AutomationId>; CatalogListener::COUNT]>);

impl Changes {
    /// Adds automations for every listener.
    pub(crate) fn add(&self, automations: &[AutomationId]) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.iter_mut().for_each(|pending| pending.extend(automations.iter().cloned()));
    }

    /// Takes the automations that one listener has not seen yet.
    pub(crate) fn take(&self, listener: CatalogListener) -> BTreeSet<AutomationId> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut pending[listener as usize])
    }
}
