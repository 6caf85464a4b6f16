//! Selects triggers on events pushed by an application.

use connector::{EventSource, SubscribedEvent};
use model::automation::{EventTrigger, Trigger};

use super::Catalog;

/// Returns the event trigger and its hook; `None` unless the application pushes the event to a webhook.
pub fn trigger_hook<'a>(
    trigger: &'a Trigger,
    catalog: &Catalog,
) -> Option<(&'a EventTrigger, SubscribedEvent)> {
    let Trigger::Event(event) = trigger else { return None };
    match &catalog.registry().event(&event.call.action.name)?.source {
        EventSource::Hook(hook) => Some((event, hook.clone())),
        EventSource::Poll(_) | EventSource::Stream(_) | EventSource::Engine => None,
    }
}
