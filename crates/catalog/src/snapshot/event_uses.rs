//! The uses of own events by the automations in force, for people.

use std::collections::{BTreeMap, BTreeSet};

use model::AutomationId;
use model::action::{InputSpec, InputType};
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

    /// Returns the fields that the enabled triggers on an own event declare. A field is required if one of them requires it, and takes
    /// anything if they declare different types. It has no default: each trigger fills in its own.
    #[must_use]
    pub fn declared_data(&self, event: &str) -> Vec<InputSpec> {
        let consumers = self.awaited_events().consumers(event).iter();
        let mut merged: Vec<InputSpec> = Vec::new();
        for declared in consumers.filter_map(|mount| mount.on().own_event()).flat_map(|own| &own.data) {
            match merged.iter_mut().find(|field| field.name == declared.name) {
                None => merged.push(InputSpec { default: None, ..declared.clone() }),
                Some(field) => {
                    field.required |= declared.required;
                    field.description = field.description.take().or_else(|| declared.description.clone());
                    if field.kind != declared.kind {
                        field.kind = InputType::Any;
                    }
                }
            }
        }
        merged
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
