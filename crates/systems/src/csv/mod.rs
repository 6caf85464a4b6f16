//! CSV: `data.parseCsv` and `data.toCsv`, as a stream.
//!
//! * `spec`: the inputs and results
//! * `decode`: the bytes of a file as UTF-8
//! * `read`: the rows of a text
//! * `write`: the text of rows

pub(crate) mod decode;
mod read;
mod spec;
pub(crate) mod write;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use model::{ActionError, ActionSpec, Effect};
use value::{Map, Value};

use crate::spec::literal_problems;

/// Adds the actions to the connector `data`.
pub(crate) fn register(registry: Registry) -> Registry {
    let parse = Csv { spec: spec::parse(), check: |inputs| read::check(inputs).map(drop) };
    let write = Csv { spec: spec::write(), check: |inputs| write::check(inputs).map(drop) };
    registry.with_more_actions("data", vec![Arc::new(parse), Arc::new(write)])
}

struct Csv {
    spec: ActionSpec,
    /// Checks the inputs that are known before a call.
    check: fn(&Map) -> Result<(), ActionError>,
}

#[async_trait]
impl Action for Csv {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn is_local(&self) -> bool {
        true
    }

    fn effect<'a>(&self, known: &dyn Fn(&str) -> Option<&'a Value>) -> Effect {
        // A file is read once: its result is committed, and not computed again.
        let gives_value =
            known("as").and_then(Value::as_str).is_some_and(|form| matches!(form, "rows" | "text"));
        if gives_value { Effect::Pure } else { Effect::Read }
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        literal_problems(&self.spec.inputs, inputs, self.check)
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        match &*self.spec.name {
            "data.parseCsv" => read::parse(&call).await,
            _ => write::write(&call).await,
        }
    }
}
