//! The uses of own events by the automations in force, for people.

use std::collections::{BTreeMap, BTreeSet};

use model::AutomationId;
use model::automation::{Automation, TriggerKey, Verb, WaitOn};

use super::{Catalog, Mount};
use crate::check::sent_event;

/// The uses of an own event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventUses {
    /// The automations with a step that sends it.
    pub senders: BTreeSet<AutomationId>,
    /// The automations with a step that waits for it.
    pub waiters: BTreeSet<AutomationId>,
    /// The enabled triggers that it starts.
    pub consumers: BTreeSet<TriggerKey>,
}

impl Catalog {
    /// Returns the uses of the own events that automations in force name. Computed names are left out.
    #[must_use]
    pub fn event_uses(&self) -> BTreeMap<String, EventUses> {
        let mut uses = BTreeMap::new();
        for deployment in self.automations() {
            add_steps(&deployment.automation, &mut uses);
            for mount in deployment.mounts().filter(Mount::is_enabled) {
                if let Some(name) = mount.event_name() {
                    let key = deployment.automation.trigger_key(&mount.declared().id);
                    uses.entry(name.to_owned()).or_default().consumers.insert(key);
                }
            }
        }
        uses
    }
}

fn add_steps(automation: &Automation, uses: &mut BTreeMap<String, EventUses>) {
    automation.walk(&mut |step| {
        if let Some(sent) = sent_event(&step.verb).filter(|sent| sent.is_whole) {
            uses.entry(sent.name.to_owned()).or_default().senders.insert(automation.id.clone());
        }
        if let Verb::WaitFor(wait) = &step.verb
            && let WaitOn::Event { name, .. } = &wait.on
            && let Some(name) = name.literal()
        {
            uses.entry(name.to_text()).or_default().waiters.insert(automation.id.clone());
        }
    });
}
