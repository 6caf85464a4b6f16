//! `events.emit`: sends an event to the executions that wait for it.

use model::action::{ActionError, ActionSpec, Effect, ErrorKind, InputType, ResultType};
use model::execution::Signal;
use model::value::{Map, Value};

use super::{input, spec};
use crate::run::{Exit, Run};

pub(super) fn specs() -> Vec<ActionSpec> {
    let inputs = vec![
        input("name", InputType::Text, true, "The event's name, as in the `waitFor` steps"),
        input("data", InputType::Any, false, "The result of those steps"),
    ];
    let example = Map::from_iter([("name", Value::from("order-17-paid"))]);
    let title = "Send an event to the executions that wait for it";
    let mut emit = spec(
        "events.emit",
        title,
        Effect::Write,
        inputs,
        (
            "`{delivered}`: the number of steps that received it",
            ResultType::object([("delivered", ResultType::Integer)]),
        ),
        example,
    );
    emit.description = Some(
        "Executions that wait receive it at once. It is kept for 7 days for executions that were accepted before and wait for it later. If a crash repeats it, it counts once for each of them."
            .to_owned(),
    );
    vec![emit]
}

impl Run {
    pub(super) async fn emit_action(&self, inputs: &Map, key: &str) -> Result<Value, Exit> {
        let name = inputs.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let signal = Signal {
            // The same in every attempt of this step, which makes the signal idempotent.
            id: format!("{}.{key}", self.journal.id()),
            name,
            // The data is stored in the logs of other executions.
            data: self.journal.redact_value(inputs.get("data").cloned().unwrap_or_default()),
            by: Some(format!("execution {}", self.journal.id())),
        };
        match self.services.emit(&signal).await {
            Ok(delivered) => Ok(Value::from(Map::from_iter([("delivered", delivered)]))),
            Err(crate::Error::Closing) => Err(Exit::Parked),
            Err(error) => Err(Exit::Failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }
}
