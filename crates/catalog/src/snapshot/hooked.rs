//! Which Automations other applications tell of events.

use connector::{EventSource, HookedEvent};
use model::automation::{EventTrigger, Trigger};

use super::{Catalog, Deployed};

/// The hook of the event that starts an Automation, if it is one that the other application tells of.
pub fn hooked<'a>(deployed: &'a Deployed, catalog: &Catalog) -> Option<(&'a EventTrigger, HookedEvent)> {
    let Trigger::Event(event) = &deployed.automation.trigger else { return None };
    match &catalog.registry().event(&event.asks.action.name)?.source {
        EventSource::Hook(hook) => Some((event, hook.clone())),
        EventSource::Poll(_) => None,
    }
}
