//! Listens where an author wants a poll to run at once. What arrives only wakes the poll, so a lost message costs one interval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catalog::Catalog;
use connector::{EventSource, PolledEvent};
use model::Backoff;
use model::automation::{EventTrigger, Trigger, TriggerKey};
use tokio::task::AbortHandle;
use value::Value;

use super::request::listen;
use crate::ingress::Ingress;

/// The delays before the daemon listens again.
const DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The tasks that listen, by trigger.
#[derive(Default)]
pub(super) struct Listeners(BTreeMap<TriggerKey, Listener>);

/// A task that listens. Dropping it ends the task and its connection.
struct Listener {
    /// The definition that it listens for.
    of: String,
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listeners {
    /// Begins to listen for the polls of this node that want it, and ends what listens for others.
    pub(super) fn adopt(&mut self, ingress: &Arc<Ingress>, here: impl Iterator<Item = TriggerKey>) {
        let catalog = ingress.context.catalog.load_full();
        let mut before = std::mem::take(&mut self.0);
        for key in here {
            let Some(of) = catalog.trigger(&key).and_then(|mount| definition(mount.on(), &catalog)) else {
                continue;
            };
            let kept =
                before.remove(&key).filter(|listener| listener.of == of && !listener.task.is_finished());
            let listener = kept.unwrap_or_else(|| {
                let task = ingress.context.tracker.spawn(run(ingress.clone(), key.clone()));
                Listener { of, task: task.abort_handle() }
            });
            self.0.insert(key, listener);
        }
    }
}

/// Returns the event of a trigger that wants to be woken.
pub(super) fn woken<'t>(trigger: &'t Trigger, catalog: &Catalog) -> Option<(&'t EventTrigger, PolledEvent)> {
    let Trigger::Event(event) = trigger else { return None };
    let EventSource::Poll(polled) = &catalog.registry().event(&event.call.action.name)?.source else {
        return None;
    };
    let input = polled.wake.as_ref()?;
    let given = event.call.with.iter().find(|(name, _)| name.name == *input);
    let is_off = |value: &Value| value.is_null() || value.as_bool() == Some(false);
    given.filter(|(_, template)| !template.literal().is_some_and(is_off))?;
    Some((event, polled.clone()))
}

/// The text of all that a listener depends on, apart from the values of its connection.
fn definition(trigger: &Trigger, catalog: &Catalog) -> Option<String> {
    let (event, _) = woken(trigger, catalog)?;
    let connection = event.call.connection.as_ref().and_then(model::automation::NameSetting::literal);
    let connection = connection.and_then(|name| catalog.connection(&name.name));
    let source = connection.map(|connection| connection.source.text());
    Some(format!("{:?}\n{source:?}", event.call.with))
}

/// Listens until the engine stops or the task is aborted.
async fn run(ingress: Arc<Ingress>, key: TriggerKey) {
    let mut delays = DELAYS;
    while ingress.context.accepting() {
        let has_listened = AtomicBool::new(false);
        let wake = || {
            has_listened.store(true, Ordering::Relaxed);
            ingress.polls.wake_up(&key, ingress.context.clock.monotonic_now());
        };
        let end = ingress.context.closing.run_until_cancelled(listen(&ingress, &key, &wake)).await;
        let Some(Err(reason)) = end else { return };
        if has_listened.load(Ordering::Relaxed) {
            delays.reset();
        }
        let reason = ingress.context.settings.redactor.redact_message(&reason).into_owned();
        tracing::warn!(trigger = %key, reason, "does not listen for now; the poll goes on at its interval");
        let pause = ingress.context.clock.sleep_for(delays.pause());
        if ingress.context.closing.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}
