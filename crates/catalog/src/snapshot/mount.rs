//! A trigger in force.

use std::sync::Arc;

use jiff::Timestamp;
use model::automation::{DeclaredTrigger, Trigger, TriggerId, TriggerKey};
use store::Address;
use text::diagnostic::nearest;
use trigger::schedule::Schedule;

use super::{Catalog, Deployment};
use crate::error::Error;

/// Address and schedule of a trigger in force.
#[derive(Clone, Default)]
pub struct MountedTrigger {
    /// Live and test tokens; `None` if the trigger has never had an address.
    pub address: Option<Arc<Address>>,
    /// The trigger under whose key its records are stored, if they have moved there since it came into force.
    pub moved_to: Option<TriggerId>,
    /// Compiled schedule; `None` for other triggers.
    pub schedule: Option<Arc<Schedule>>,
}

/// A trigger of an automation in force. Cheap to clone.
#[derive(Clone)]
pub struct Mount {
    /// The automation.
    pub deployment: Arc<Deployment>,
    /// The index of the trigger in its automation.
    index: usize,
}

impl Deployment {
    /// Returns the triggers, in the order of the file.
    pub fn mounts(self: &Arc<Self>) -> impl Iterator<Item = Mount> {
        (0..self.automation.triggers.len()).map(|index| Mount { deployment: self.clone(), index })
    }

    /// Returns the trigger with this id.
    #[must_use]
    pub fn mount(self: &Arc<Self>, id: &TriggerId) -> Option<Mount> {
        let index = self.automation.triggers.iter().position(|trigger| trigger.id == *id)?;
        Some(Mount { deployment: self.clone(), index })
    }

    /// Returns the id under which the records of the trigger `id` are stored, if they have moved.
    pub(super) fn moved_to(&self, id: &TriggerId) -> Option<&TriggerId> {
        let index = self.automation.triggers.iter().position(|trigger| trigger.id == *id)?;
        self.mounted.get(index)?.moved_to.as_ref()
    }

    /// Returns the trigger that is meant without an id: the only one that `suits`, else the only one.
    ///
    /// # Errors
    /// One of several has to be chosen.
    pub fn default_mount(self: &Arc<Self>, suits: impl Fn(&Mount) -> bool) -> Result<Mount, Error> {
        let mut all = self.mounts();
        let mut suitable = self.mounts().filter(suits);
        match (suitable.next(), suitable.next(), all.next(), all.next()) {
            (Some(only), None, ..) | (_, _, Some(only), None) => Ok(only),
            _ => Err(Error::AmbiguousTrigger {
                automation: self.automation.id.to_string(),
                triggers: names(self),
            }),
        }
    }
}

impl Catalog {
    /// Returns the trigger whose records have this key.
    #[must_use]
    pub fn trigger(&self, key: &TriggerKey) -> Option<Mount> {
        self.get(&key.automation)?.mounts().find(|mount| mount.record_id() == &key.trigger)
    }

    /// Returns the trigger whose records have this key.
    ///
    /// # Errors
    /// Returns an error that suggests the nearest name if there is no such automation or trigger.
    pub fn find_mount(&self, key: &TriggerKey) -> Result<Mount, Error> {
        let deployment = self.find(key.automation.as_str())?;
        self.trigger(key).ok_or_else(|| no_such_trigger(deployment, key.trigger.as_str()))
    }

    /// Returns the trigger that people call `name`: `orders/paid`, or `orders` for the only trigger that `suits`, as
    /// [`Deployment::default_mount`] chooses it.
    ///
    /// # Errors
    /// Returns an error that suggests the nearest name if there is no such automation or trigger, or names the triggers if one of
    /// several has to be chosen.
    pub fn find_trigger(&self, name: &str, suits: impl Fn(&Mount) -> bool) -> Result<Mount, Error> {
        let Some((automation, trigger)) = name.split_once('/') else {
            return self.find(name)?.default_mount(suits);
        };
        let deployment = self.find(automation)?;
        // A trigger whose records have moved has both ids.
        let found = TriggerId::parse(trigger).and_then(|id| {
            deployment.mount(&id).or_else(|| deployment.mounts().find(|mount| *mount.record_id() == id))
        });
        found.ok_or_else(|| no_such_trigger(deployment, trigger))
    }
}

/// Formats the names of the triggers of a deployment for people.
fn names(deployment: &Deployment) -> String {
    let automation = &deployment.automation;
    let names = automation.triggers.iter().map(|declared| format!("`{}/{}`", automation.id, declared.id));
    names.collect::<Vec<_>>().join(", ")
}

fn no_such_trigger(deployment: &Deployment, trigger: &str) -> Error {
    let ids = deployment.automation.triggers.iter().map(|declared| declared.id.as_str());
    Error::NoSuchTrigger {
        automation: deployment.automation.id.to_string(),
        trigger: trigger.to_owned(),
        triggers: names(deployment),
        nearest: nearest(trigger, ids).map(str::to_owned),
    }
}

impl Mount {
    /// Returns the definition of the trigger.
    #[must_use]
    pub fn declared(&self) -> &DeclaredTrigger {
        &self.deployment.automation.triggers[self.index]
    }

    /// Returns what starts executions.
    #[must_use]
    pub fn on(&self) -> &Trigger {
        &self.declared().on
    }

    /// Returns the name of the event of the outbox that starts executions; `None` if no event of the outbox does.
    #[must_use]
    pub fn event_name(&self) -> Option<&str> {
        self.on().own_event().map(|own| own.name.name.as_str())
    }

    /// Returns the key under which the records of the trigger are stored.
    #[must_use]
    pub fn key(&self) -> TriggerKey {
        self.deployment.automation.trigger_key(self.record_id())
    }

    /// Returns the id under which the records of the trigger are stored: its own, unless they have moved.
    fn record_id(&self) -> &TriggerId {
        self.mounted().and_then(|mounted| mounted.moved_to.as_ref()).unwrap_or(&self.declared().id)
    }

    /// Returns true if a person starts it with inputs alone.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        matches!(self.on(), Trigger::Manual)
    }

    /// Returns true if it starts executions.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.deployment.automation.is_mounted(self.declared())
    }

    fn mounted(&self) -> Option<&MountedTrigger> {
        self.deployment.mounted.get(self.index)
    }

    /// Returns the live and test tokens; `None` if the trigger has never had an address.
    #[must_use]
    pub fn address(&self) -> Option<&Arc<Address>> {
        self.mounted()?.address.as_ref()
    }

    /// Returns the compiled schedule; `None` for other triggers.
    #[must_use]
    pub fn schedule(&self) -> Option<&Arc<Schedule>> {
        self.mounted()?.schedule.as_ref()
    }

    /// Returns the next `count` fire times; empty without a schedule or if disabled.
    #[must_use]
    pub fn next_fires(&self, now: Timestamp, count: usize) -> Vec<Timestamp> {
        match self.schedule() {
            Some(schedule) if self.is_enabled() => schedule.fires(now).take(count).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the live URL below `base`; `None` unless the trigger is a webhook.
    #[must_use]
    pub fn live_url(&self, base: &str) -> Option<String> {
        self.url(base, |address| &address.live)
    }

    /// Returns the test URL below `base`; `None` unless the trigger is a webhook.
    #[must_use]
    pub fn test_url(&self, base: &str) -> Option<String> {
        self.url(base, |address| &address.test)
    }

    fn url(&self, base: &str, token: impl Fn(&Address) -> &String) -> Option<String> {
        let address = self.address().filter(|_| matches!(self.on(), Trigger::Webhook(_)))?;
        Some(format!("{}/trigger/{}", base.trim_end_matches('/'), token(address)))
    }
}
