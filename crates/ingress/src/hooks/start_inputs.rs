//! The inputs that a trigger gives an execution beside its payload.

use std::sync::Arc;

use catalog::Mount;
use model::action::{ActionError, ErrorKind};
use model::payload::Payload;
use runtime::{Error, StartedBy};
use trigger::Rejection;
use value::Value;

use super::rejection_for;
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

    /// Evaluates the condition and the inputs of a trigger for a start without a caller. `None` if nothing starts; the error in the result
    /// is the one with which the execution fails.
    ///
    /// # Errors
    /// It cannot be evaluated now, because a provider of secrets fails: it is to be tried again.
    pub async fn prepare_start(
        &self,
        mount: &Mount,
        payload: &Payload,
    ) -> Result<Option<(StartedBy, Option<ActionError>)>, Error> {
        let by = StartedBy::trigger(&mount.declared().id);
        match self.evaluate_trigger_condition(mount, payload).await?.start() {
            None => return Ok(None),
            Some(Some(error)) => return Ok(Some((by, Some(error)))),
            Some(None) if mount.declared().inputs.is_none() => return Ok(Some((by, None))),
            Some(None) => {}
        }
        let results = trigger::results(payload)
            .map_err(|rejection| ActionError::new(ErrorKind::Input, rejection.message));
        let given = match results {
            Ok(results) => self.started_by(mount, &results).await,
            Err(error) => Err(error),
        };
        Ok(Some(match given {
            Ok(by) => (by, None),
            Err(error) => {
                let error = not_now(error)?;
                tracing::warn!(trigger = %mount.key(), error = error.message, "the inputs of a trigger do not fit; the execution fails");
                (by, Some(error.redacted(&self.context.settings.redactor)))
            }
        }))
    }
}

/// Returns the error again if it is permanent.
///
/// # Errors
/// A provider of secrets fails, which may be over soon.
pub(crate) fn not_now(error: ActionError) -> Result<ActionError, Error> {
    match error.code.as_deref() {
        Some(runtime::PROVIDER_FAILURE) => Err(Error::SecretProvider(error.into_message())),
        _ => Ok(error),
    }
}

/// Rejects a request whose values do not fit the inputs of the automation.
pub(super) fn bad_input(error: ActionError) -> Rejection {
    match not_now(error) {
        Ok(error) => Rejection::new(400, "bad_input", error.into_message()),
        Err(error) => rejection_for(&error, false),
    }
}
