//! `log.debug`, `log.info`, `log.warn`, `log.error`: write a line to the execution's log.

use std::sync::Arc;

use async_trait::async_trait;
use model::{ActionError, ActionSpec, InputType, LogLevel, ResultType};
use value::{Map, Value};

use super::{optional, pure_spec, required};
use crate::action::{Action, Call};

struct Log {
    level: LogLevel,
    spec: ActionSpec,
}

/// Returns the four actions. They are pure: a line is stored with the next commit, and writing it again changes
/// nothing.
pub(crate) fn actions() -> Vec<Arc<dyn Action>> {
    let levels = [
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ];
    let action = |(name, level)| {
        let inputs = vec![
            required("message", InputType::Any, "The message."),
            optional("data", InputType::Any, "A value to add to the line, as JSON."),
        ];
        let example: Map = [("message", Value::from("order received"))].into_iter().collect();
        let title = format!("Write a line of level {name} to the execution's log");
        let mut spec = pure_spec(&format!("log.{name}"), &title, inputs, Value::from(example));
        spec.result = Some("null".to_owned());
        spec.results = ResultType::Null;
        Arc::new(Log { level, spec }) as Arc<dyn Action>
    };
    levels.into_iter().map(action).collect()
}

#[async_trait]
impl Action for Log {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let mut line = call.inputs.get("message").map(Value::to_text).unwrap_or_default();
        if let Some(data) = call.inputs.get("data") {
            line.push(' ');
            line.push_str(&data.to_json());
        }
        call.log.line(self.level, &line);
        Ok(Value::Null)
    }
}
