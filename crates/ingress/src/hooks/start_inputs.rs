//! The inputs that a trigger gives an execution beside its payload.

use std::sync::Arc;

use catalog::Mount;
use model::action::{ActionError, ErrorKind};
use model::payload::Payload;
use runtime::StartedBy;
use trigger::Rejection;
use value::Value;

use crate::ingress::Ingress;

impl Ingress {
    /// Evaluates what a trigger gives an execution beside its payload.
    ///
    /// # Errors
    /// Returns an error of kind `input` if an input cannot be evaluated or does not fit.
    pub(crate) async fn started_by(&self, mount: &Mount, results: &Value) -> Result<StartedBy, ActionError> {
        let (automation, trigger) = (&mount.deployment.automation, mount.declared());
        let inputs = self.context.trigger_inputs(automation, trigger, results, None).await?;
        Ok(StartedBy { trigger: trigger.id.clone(), inputs: inputs.map(Arc::new) })
    }

    /// Evaluates the condition and the inputs of a trigger for a start without a caller. `None` if nothing starts; an error is the one
    /// with which the execution fails.
    pub async fn prepare_start(
        &self,
        mount: &Mount,
        payload: &Payload,
    ) -> Option<(StartedBy, Option<ActionError>)> {
        let by = StartedBy::trigger(&mount.declared().id);
        if let Some(error) = self.evaluate_trigger_condition(mount, payload).await.start()? {
            return Some((by, Some(error)));
        }
        if mount.declared().inputs.is_none() {
            return Some((by, None));
        }
        let results = trigger::results(payload)
            .map_err(|rejection| ActionError::new(ErrorKind::Input, rejection.message));
        let given = match results {
            Ok(results) => self.started_by(mount, &results).await,
            Err(error) => Err(error),
        };
        Some(match given {
            Ok(by) => (by, None),
            Err(error) => {
                tracing::warn!(trigger = %mount.key(), error = error.message, "the inputs of a trigger do not fit; the execution fails");
                (by, Some(error.redacted(&self.context.settings.redactor)))
            }
        })
    }
}

/// Rejects a request whose values do not fit the inputs of the automation.
pub(super) fn bad_input(error: ActionError) -> Rejection {
    Rejection::new(400, "bad_input", error.into_message())
}
