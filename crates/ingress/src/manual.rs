//! Starts by a person or a program.

use std::sync::Arc;

use catalog::Mount;
use model::automation::TriggerKey;
use model::execution::ExecutionId;
use model::payload::Payload;
use runtime::{AcceptOptions, Error, ManualStart, ReplayPlan, Start, StartedBy};
use value::{Map, Value};

use crate::hooks::not_now;
use crate::ingress::Ingress;

impl Ingress {
    /// Starts an automation by one of its triggers.
    ///
    /// # Errors
    /// No trigger has this key, the inputs do not fit, too many executions wait, or the store failed.
    pub async fn start(&self, trigger: &TriggerKey, start: ManualStart) -> Result<ExecutionId, Error> {
        let catalog = self.context.catalog();
        let mount = catalog.find_mount(trigger)?;
        let ManualStart { mut payload, inputs, origin } = start;
        let mut terms = AcceptOptions::default();
        if payload.code_result().is_none() {
            let id = self.admission.ids.next(self.context.clock.now());
            terms.id = self.decide(&mount, id, &mut payload).await?;
        }
        let by = self.started_by_hand(&mount, &mut payload, inputs).await?;
        Ok(self.admission.accept(&mount.deployment, Start { payload, origin, by }, terms).await?.id)
    }

    /// Evaluates and checks the inputs of a start by hand. Those of a manual trigger become part of the payload.
    async fn started_by_hand(
        &self,
        mount: &Mount,
        payload: &mut Payload,
        given: Option<Map>,
    ) -> Result<StartedBy, Error> {
        let (automation, trigger) = (&mount.deployment.automation, mount.declared());
        let given = match &*payload {
            Payload::Manual { inputs } => Some(inputs.clone()),
            _ => given,
        };
        let results = match trigger.inputs {
            Some(_) => trigger::results(payload).map_err(|error| Error::Input(error.message))?,
            None => Value::Null,
        };
        let inputs = self.context.trigger_inputs(automation, trigger, &results, given).await;
        let inputs = inputs.map_err(|error| match not_now(error) {
            Ok(error) => Error::Input(error.into_message()),
            Err(error) => error,
        })?;
        let mut by = StartedBy::trigger(&trigger.id);
        match payload {
            Payload::Manual { inputs: slot } => *slot = inputs.unwrap_or_default(),
            _ => by.inputs = inputs.map(Arc::new),
        }
        Ok(by)
    }

    /// Starts a replay; durable when this returns.
    ///
    /// # Errors
    /// The code of the trigger failed, too many executions wait, or the store failed.
    pub async fn replay(&self, plan: ReplayPlan) -> Result<ExecutionId, Error> {
        let ReplayPlan { id, deployment, mut payload, by, origin, kept, .. } = plan;
        let mut terms = AcceptOptions { id, kept, ..AcceptOptions::default() };
        if plan.decides_anew {
            if let Payload::Webhook(request) = &mut payload {
                request.code_result = None;
            }
            if let Some(mount) = deployment.mount(&by.trigger) {
                let id = id.unwrap_or_else(|| self.admission.ids.next(self.context.clock.now()));
                terms.id = self.decide(&mount, id, &mut payload).await?.or(terms.id);
            }
        }
        Ok(self.admission.accept(&deployment, Start { payload, origin, by }, terms).await?.id)
    }

    /// Runs the code of the trigger, if it has any, and adds its decision to the payload. Returns the id of the execution if
    /// the code may have read it.
    async fn decide(
        &self,
        mount: &Mount,
        id: ExecutionId,
        payload: &mut Payload,
    ) -> Result<Option<ExecutionId>, Error> {
        if mount.deployment.plan.code().trigger(&mount.declared().id).is_none() {
            return Ok(None);
        }
        let results = trigger::results(payload).map_err(|error| Error::Input(error.message))?;
        let decided = self.run_trigger_code(mount, id, &results).await?;
        if let Payload::Webhook(payload) = payload {
            payload.code_result = decided.map(Box::new);
        }
        Ok(Some(id))
    }
}
