//! The events that automations in force wait for, and the triggers that events start.

use std::collections::{BTreeSet, HashMap};

use model::automation::{Automation, Verb, WaitOn};
use model::engine_event::EngineEventName;

use super::{Catalog, EngineTrigger, Mount};

/// The names of the events that automations wait for, and the triggers by the name of their event.
#[derive(Default)]
pub struct AwaitedEvents {
    names: BTreeSet<String>,
    /// True where a name is computed, so that it may be any.
    any: bool,
    consumers: HashMap<String, Vec<Mount>>,
    engine: Vec<EngineTrigger>,
}

impl AwaitedEvents {
    /// The names in all automations in force.
    pub(super) fn new(catalog: &Catalog) -> Self {
        let mut awaited = Self::default();
        for deployment in catalog.automations() {
            awaited.add(&deployment.automation);
            for mount in deployment.mounts().filter(Mount::is_enabled) {
                if let Some(trigger) = EngineTrigger::new(&mount, catalog) {
                    awaited.names.extend(trigger.filter.event.clone());
                    awaited.engine.push(trigger);
                }
                if let Some(name) = mount.event_name() {
                    awaited.consumers.entry(name.to_owned()).or_default().push(mount.clone());
                }
            }
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

    /// True if an automation in force may wait for this event, or a trigger watches it.
    #[must_use]
    pub fn may_include(&self, name: &str) -> bool {
        self.any || self.names.contains(name)
    }

    /// Returns the enabled triggers that the event starts, by automation.
    #[must_use]
    pub fn consumers(&self, name: &str) -> &[Mount] {
        self.consumers.get(name).map_or(&[], Vec::as_slice)
    }

    /// Iterates over the enabled triggers on an event of the engine.
    pub fn on_engine(&self, event: EngineEventName) -> impl Iterator<Item = &EngineTrigger> {
        self.engine.iter().filter(move |trigger| trigger.event == event)
    }

    /// Iterates over the events that start triggers, each with its triggers.
    pub fn consumed(&self) -> impl Iterator<Item = (&str, &[Mount])> {
        self.consumers.iter().map(|(name, mounts)| (name.as_str(), mounts.as_slice()))
    }
}
