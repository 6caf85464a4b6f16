//! The events that automations in force wait for.

use std::collections::BTreeSet;

use model::automation::{Automation, Verb, WaitOn};

use super::Catalog;

/// The names of the events that automations wait for.
#[derive(Debug, Default)]
pub struct AwaitedEvents {
    names: BTreeSet<String>,
    /// True where a name is computed, so that it may be any.
    any: bool,
}

impl AwaitedEvents {
    /// The names in all automations in force.
    pub(super) fn new(catalog: &Catalog) -> Self {
        let mut awaited = Self::default();
        for deployment in catalog.automations() {
            awaited.add(&deployment.automation);
        }
        awaited
    }

    fn add(&mut self, automation: &Automation) {
        automation.walk(&mut |step| {
            let Verb::WaitFor(wait) = &step.verb else { return };
            let WaitOn::Event { name, .. } = &wait.on else { return };
            match name.literal() {
                Some(name) => drop(self.names.insert(name.to_text())),
                None => self.any = true,
            }
        });
    }

    /// True if an automation in force may wait for this event.
    #[must_use]
    pub fn may_include(&self, name: &str) -> bool {
        self.any || self.names.contains(name)
    }
}
