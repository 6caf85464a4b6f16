//! Times at which the definitions in force came into force.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::ReloadSummary;
use jiff::Timestamp;
use model::automation::AutomationId;

/// The time at which the definition of each Automation came into force in this process. It has the Automations in force
/// and no others.
#[derive(Default)]
pub struct DeploymentTimes(Mutex<HashMap<AutomationId, Timestamp>>);

impl DeploymentTimes {
    /// Records a reload. An Automation whose definition is the same keeps its time.
    pub(crate) fn update(&self, reload: &ReloadSummary, now: Timestamp) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in &reload.removed {
            times.remove(id);
        }
        times.extend(reload.added.iter().chain(&reload.changed).map(|id| (id.clone(), now)));
    }

    /// Returns the time at which the definition of an Automation came into force; `None` if it is not in force.
    #[must_use]
    pub fn since(&self, automation: &AutomationId) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(automation).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_active_since_the_reload_that_deployed_it() {
        let id = |name: &str| AutomationId::parse(name).expect("an id");
        let at = |second| Timestamp::from_second(second).expect("an instant");
        let times = DeploymentTimes::default();
        let added = ReloadSummary { added: vec![id("a"), id("b")], ..ReloadSummary::default() };
        times.update(&added, at(1));
        let changed =
            ReloadSummary { changed: vec![id("a")], stale: vec![id("b")], ..ReloadSummary::default() };
        times.update(&changed, at(2));
        assert_eq!((times.since(&id("a")), times.since(&id("b"))), (Some(at(2)), Some(at(1))));
        times.update(&ReloadSummary { removed: vec![id("a")], ..ReloadSummary::default() }, at(3));
        assert_eq!(times.since(&id("a")), None);
    }
}
