//! Counts rejected and skipped starts by reason, for all kinds of triggers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::AutomationId;

/// Counters of rejected and skipped starts. Their size is bounded by the number of Automations in force:
/// [`Self::forget`] deletes removed ones.
#[derive(Default)]
pub struct RejectionCounters {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: BTreeMap<&'static str, u64>,
    of: HashMap<AutomationId, BTreeMap<&'static str, u64>>,
}

impl RejectionCounters {
    /// Counts one rejected or skipped start. `automation` is `None` if the start could not be attributed.
    pub fn count(&self, automation: Option<&AutomationId>, reason: &'static str) {
        self.count_many(automation, reason, 1);
    }

    /// Counts `many` rejected or skipped starts.
    pub fn count_many(&self, automation: Option<&AutomationId>, reason: &'static str, many: u64) {
        if many == 0 {
            return;
        }
        let mut state = self.state();
        *state.all.entry(reason).or_default() += many;
        let Some(automation) = automation else { return };
        match state.of.get_mut(automation) {
            Some(reasons) => *reasons.entry(reason).or_default() += many,
            None => {
                state.of.insert(automation.clone(), BTreeMap::from([(reason, many)]));
            }
        }
    }

    /// Totals by reason.
    pub(crate) fn all(&self) -> BTreeMap<String, u64> {
        owned(&self.state().all)
    }

    /// Counters of one Automation by reason.
    pub fn by_reason(&self, automation: &AutomationId) -> BTreeMap<String, u64> {
        self.state().of.get(automation).map(owned).unwrap_or_default()
    }

    /// Deletes the counters of Automations that are no longer in force.
    pub(crate) fn forget(&self, gone: &[AutomationId]) {
        let mut state = self.state();
        for id in gone {
            state.of.remove(id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owned(reasons: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
}
