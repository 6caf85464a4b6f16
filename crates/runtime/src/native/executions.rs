//! `executions.cancel`: ends an execution that this one has called.

use std::sync::Arc;

use model::action::{ActionError, ErrorKind};
use model::execution::{ExecutionId, Origin};
use value::{Map, Value};

use crate::error::Error;
use crate::run::{Exit, Run};

impl Run {
    pub(super) async fn cancel_execution_action(&self, inputs: &Map) -> Result<Value, Exit> {
        let text = inputs.get("executionId").map(|id| id.to_text()).unwrap_or_default();
        let refuse = || {
            let message = format!("`{text}` is not an execution that a `call` of this execution has started");
            Exit::Failed(ActionError::new(ErrorKind::Input, message))
        };
        let id: ExecutionId = text.parse().map_err(|_| refuse())?;
        let row = match self.context.store.execution(id).await {
            Ok(row) => row.ok_or_else(refuse)?,
            Err(error) => return Err(Exit::StoreFailed(Arc::new(error))),
        };
        let own = self.journal.id();
        if !matches!(row.origin, Origin::Call { execution, .. } if execution == own) {
            return Err(refuse());
        }
        let reason = match inputs.get("reason").filter(|reason| !reason.is_null()) {
            // It becomes part of the log of the other execution.
            Some(reason) => self.journal.redact_value(reason.clone()).to_text(),
            None => format!("cancelled by the execution {own} that called it"),
        };
        match self.starter.clone().end(id, &reason).await {
            Ok(cancelled) => Ok(Value::from(Map::from_iter([("cancelled", cancelled)]))),
            Err(Error::Closing) => Err(Exit::ShuttingDown),
            // The step is repeated.
            Err(Error::Store(error)) => Err(Exit::StoreFailed(Arc::new(error))),
            Err(error) => Err(Exit::Failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }
}
