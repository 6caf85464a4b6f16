//! Selects automations that start on events pushed by an application.

use connector::{EventSource, SubscribedEvent};
use model::automation::{EventTrigger, Trigger};

use super::{Catalog, Deployment};

/// Returns the event trigger and its hook; `None` unless the application pushes the event to a webhook.
pub fn trigger_hook<'a>(
    deployment: &'a Deployment,
    catalog: &Catalog,
) -> Option<(&'a EventTrigger, SubscribedEvent)> {
    let Trigger::Event(event) = &deployment.automation.trigger else { return None };
    match &catalog.registry().event(&event.call.action.name)?.source {
        EventSource::Hook(hook) => Some((event, hook.clone())),
        EventSource::Poll(_) => None,
    }
}
