//! Actions that only make a value of values.

use std::sync::Arc;

use async_trait::async_trait;
use model::{ActionError, ActionSpec, InputSpec, Map, ResultType, Value};

use super::{input_error, pure_spec};
use crate::action::{Action, Call};

/// What such an action does; the error says which input is wrong, and why.
pub(super) type Run = fn(&Map) -> Result<Value, String>;

/// What such an action declares of itself.
pub(super) struct Declared {
    pub name: &'static str,
    pub title: &'static str,
    pub about: Option<&'static str>,
    pub inputs: Vec<InputSpec>,
    /// What it gives, in words and as a type.
    pub gives: (&'static str, ResultType),
    /// The `with` of its example, as JSON.
    pub example: serde_json::Value,
    pub run: Run,
}

impl Declared {
    /// The action.
    pub(super) fn action(self) -> Arc<dyn Action> {
        let mut spec = pure_spec(self.name, self.title, self.inputs, Value::from_serde(self.example));
        spec.description = self.about.map(str::to_owned);
        spec.result = Some(self.gives.0.to_owned());
        spec.results = self.gives.1;
        Arc::new(Pure { spec, run: self.run })
    }
}

struct Pure {
    spec: ActionSpec,
    run: Run,
}

#[async_trait]
impl Action for Pure {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        (self.run)(call.inputs).map_err(|words| input_error(format!("`{}`: {words}", self.spec.name)))
    }
}

/// A function of expressions with the inputs as its arguments, all by the same names.
pub(super) fn function(name: &str, inputs: &Map) -> Result<Value, String> {
    let arguments: Vec<_> = inputs.iter().map(|(name, value)| (name.as_ref(), value)).collect();
    model::expression::apply(name, &arguments)
}

/// Whether the flag is given and set.
pub(super) fn flag(inputs: &Map, name: &str) -> bool {
    inputs.get(name).and_then(Value::as_bool).unwrap_or(false)
}
