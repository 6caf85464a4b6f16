//! `events.emit`: sends an event to the executions that wait for it.

use std::sync::Arc;

use model::action::{ActionError, ErrorKind};
use model::execution::Signal;
use value::{Map, Value};

use crate::error::Error;
use crate::run::{Exit, Run};

impl Run {
    pub(super) async fn emit_action(&self, inputs: &Map, key: &str) -> Result<Value, Exit> {
        let name = inputs.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let signal = Signal {
            // The same however often this step begins.
            id: format!("{}.{key}", self.journal.id()),
            name,
            // It becomes part of the logs of other executions.
            data: self.journal.redact_value(inputs.get("data").cloned().unwrap_or_default()),
            by: Some(format!("execution {}", self.journal.id())),
        };
        let (sender, may_repeat) = (self.journal.id(), self.journal.may_have_begun(key));
        match self.starter.clone().emit(signal, sender, may_repeat).await {
            Ok(sent) => Ok(Value::from(Map::from_iter([("delivered", sent.delivered)]))),
            Err(Error::Closing) if !self.context.accepting() => Err(Exit::ShuttingDown),
            // The step is repeated, and the steps that have the event already know it.
            Err(Error::Store(error)) => Err(Exit::StoreFailed(Arc::new(error))),
            Err(error) => Err(Exit::Failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }
}
