//! The executions that events start.

use catalog::Mount;
use connector::Trace;
use model::action::{ActionError, ErrorKind};
use model::automation::TriggerId;
use model::execution::OutboxEvent;
use model::payload::{EmittedEvent, Payload};
use runtime::{Error, NewStart, Start, StartedBy, convert_event_data};

use crate::ingress::Ingress;

impl Ingress {
    /// Evaluates an event for a trigger that is named after it: converts the data to the types that the trigger declares, and evaluates
    /// its condition and its inputs. `None` if nothing starts; with an error in the result, the execution fails with it.
    ///
    /// # Errors
    /// A provider of secrets fails: it is to be tried again.
    pub async fn prepare_event(
        &self,
        mount: &Mount,
        event: EmittedEvent,
    ) -> Result<Option<(Payload, StartedBy, Option<ActionError>)>, Error> {
        let declared = mount.on().own_event().map_or(&[][..], |own| own.data.as_slice());
        let (event, misfit) = match convert_event_data(declared, &event.data) {
            Ok(data) => (EmittedEvent { data, ..event }, None),
            Err(error) => (event, Some(error)),
        };
        let payload = Payload::Emitted(event);
        let Some(misfit) = misfit else {
            let prepared = self.prepare_start(mount, &payload).await?;
            return Ok(prepared.map(|(by, fails)| (payload, by, fails)));
        };
        // A condition can exclude events whose data are of another form; a condition that cannot be evaluated excludes nothing.
        if self.evaluate_trigger_condition(mount, &payload).await?.start().is_none() {
            return Ok(None);
        }
        let error = ActionError::new(ErrorKind::Input, misfit.to_string());
        tracing::warn!(trigger = %mount.key(), error = error.message, "the data of an event do not fit; the execution fails");
        let error = error.redacted(&self.context.settings.redactor);
        Ok(Some((payload, StartedBy::trigger(&mount.declared().id), Some(error))))
    }

    /// Returns the start of a trigger by an event; `None` if it starts nothing.
    ///
    /// # Errors
    /// A provider of secrets fails: it is to be tried again.
    pub(super) async fn event_start(
        &self,
        mount: &Mount,
        event: &OutboxEvent,
    ) -> Result<Option<NewStart>, Error> {
        let key = Some(key(&mount.key().trigger, &event.event.id));
        let trace = event.trace.as_deref().and_then(|trace| trace.parse::<Trace>().ok());
        let trace = trace.map(|trace| Trace { depth: trace.depth.saturating_add(1), ..trace }.to_string());
        let origin = event.origin(trace);
        let prepared = self.prepare_event(mount, event.event.clone()).await?;
        Ok(prepared.map(|(payload, by, fails)| {
            let start = Start { payload, origin, by };
            NewStart { start, fails, key, dedup: Vec::new() }
        }))
    }
}

/// Returns the key of the execution of a trigger for an event. An id of an event may be any text.
pub(crate) fn key(trigger: &TriggerId, event: &str) -> String {
    if trigger.is_main() { format!("event:{event}") } else { format!("event#{trigger}:{event}") }
}
