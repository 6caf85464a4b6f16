//! Starts by a person or a program, without a trigger.

use std::sync::Arc;

use catalog::Deployment;
use model::automation::AutomationId;
use model::execution::ExecutionId;
use model::payload::Payload;
use runtime::{AcceptOptions, Error, ReplayPlan, Start, check_inputs};

use crate::ingress::Ingress;

impl Ingress {
    /// Starts an automation.
    ///
    /// # Errors
    /// No automation has this id, the inputs do not fit, too many executions wait, or the store failed.
    pub async fn start(&self, id: &AutomationId, mut start: Start) -> Result<ExecutionId, Error> {
        let catalog = self.context.catalog();
        let deployment = catalog.find(id.as_str())?;
        if let Payload::Manual { inputs } = &start.payload {
            check_inputs(&deployment.automation, inputs)?;
        }
        let mut terms = AcceptOptions::default();
        if start.payload.code_result().is_none() {
            let id = self.admission.ids.next(self.context.clock.now());
            terms.id = self.decide(deployment, id, &mut start.payload).await?;
        }
        Ok(self.admission.accept(deployment, start, terms).await?.id)
    }

    /// Starts a replay; durable when this returns.
    ///
    /// # Errors
    /// The code of the trigger failed, too many executions wait, or the store failed.
    pub async fn replay(&self, plan: ReplayPlan) -> Result<ExecutionId, Error> {
        let ReplayPlan { id, deployment, mut payload, origin, kept, .. } = plan;
        let mut terms = AcceptOptions { id, kept, ..AcceptOptions::default() };
        if plan.decides_anew {
            if let Payload::Webhook(request) = &mut payload {
                request.code_result = None;
            }
            let id = id.unwrap_or_else(|| self.admission.ids.next(self.context.clock.now()));
            terms.id = self.decide(&deployment, id, &mut payload).await?.or(terms.id);
        }
        Ok(self.admission.accept(&deployment, Start { payload, origin }, terms).await?.id)
    }

    /// Runs the code of the trigger, if it has any, and adds its decision to the payload. Returns the id of the execution if
    /// the code may have read it.
    async fn decide(
        &self,
        deployment: &Arc<Deployment>,
        id: ExecutionId,
        payload: &mut Payload,
    ) -> Result<Option<ExecutionId>, Error> {
        if deployment.plan.code().trigger().is_none() {
            return Ok(None);
        }
        let results = trigger::results(payload).map_err(|error| Error::Input(error.message))?;
        let decided = self.run_trigger_code(deployment, id, &results).await.map_err(Error::Input)?;
        if let Payload::Webhook(payload) = payload {
            payload.code_result = decided.map(Box::new);
        }
        Ok(Some(id))
    }
}
