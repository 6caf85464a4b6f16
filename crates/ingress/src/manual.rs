//! Starts by a person or a program, without a trigger.

use model::automation::AutomationId;
use model::execution::ExecutionId;
use model::payload::Payload;
use runtime::{AcceptOptions, Error, Start, check_inputs};

use crate::ingress::Ingress;

impl Ingress {
    /// Starts an automation.
    ///
    /// # Errors
    /// No automation has this id, the inputs do not fit, too many executions wait, or the store failed.
    pub async fn start(&self, id: &AutomationId, mut start: Start) -> Result<ExecutionId, Error> {
        let runtime = &self.runtime;
        let catalog = runtime.catalog();
        let deployment = catalog.find(id.as_str())?;
        if let Payload::Manual { inputs } = &start.payload {
            check_inputs(&deployment.automation, inputs)?;
        }
        let mut terms = AcceptOptions::default();
        if deployment.plan.code().trigger().is_some() && start.payload.code_result().is_none() {
            let results = trigger::results(&start.payload).map_err(|error| Error::Input(error.message))?;
            let id = runtime.admission.next_id(runtime.clock.now());
            let decided = self.run_trigger_code(deployment, id, &results).await.map_err(Error::Input)?;
            if let Payload::Webhook(payload) = &mut start.payload {
                payload.code_result = decided.map(Box::new);
            }
            terms.id = Some(id);
        }
        Ok(runtime.accept(deployment, start, terms).await?.id)
    }
}
