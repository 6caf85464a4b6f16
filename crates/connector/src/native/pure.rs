//! Pure actions, which compute a value from their inputs.

use std::sync::Arc;

use async_trait::async_trait;
use model::{ActionError, ActionSpec, InputSpec, ResultType};
use value::{Map, Value};

use super::{input_error, pure_spec};
use crate::action::{Action, Call};
use crate::static_inputs::{InputProblem, StaticInputs};

/// The function of a pure action. The error names the invalid input and the reason.
pub(super) type Run = fn(&Map) -> Result<Value, String>;

/// The declaration of a pure action.
pub(super) struct PureActionSpec {
    pub name: &'static str,
    pub title: &'static str,
    pub about: Option<&'static str>,
    pub inputs: Vec<InputSpec>,
    /// The result as text for people, and as a type.
    pub gives: (&'static str, ResultType),
    /// The inputs of its example, as JSON.
    pub example: serde_json::Value,
    pub run: Run,
}

impl PureActionSpec {
    /// Builds the action.
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

    /// Runs the function with the literal inputs, and the values of the example in place of the computed ones. Only an error that
    /// names a literal input is one of the file.
    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let mut known = Map::new();
        for input in &self.spec.inputs {
            let value = match (inputs.template)(&input.name) {
                Some(_) => {
                    inputs.literal(&input.name).cloned().or_else(|| self.spec.example.get(&input.name))
                }
                None => input.default.clone(),
            };
            if let Some(value) = value {
                known.insert(&*input.name, value);
            }
        }
        let Err(error) = (self.run)(&known) else { return Vec::new() };
        let named = self.spec.inputs.iter().filter(|input| inputs.literal(&input.name).is_some());
        let mut named = named.filter(|input| error.starts_with(&format!("`{}`", input.name)));
        let problem = |input: &InputSpec| InputProblem::new(&input.name, &*error, "correct it");
        named.next().map(problem).into_iter().collect()
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        (self.run)(call.inputs).map_err(|words| input_error(format!("`{}`: {words}", self.spec.name)))
    }
}

/// Calls a function of expressions with the inputs as arguments of the same names.
pub(super) fn function(name: &str, inputs: &Map) -> Result<Value, String> {
    let arguments: Vec<_> = inputs.iter().map(|(name, value)| (name.as_ref(), value)).collect();
    expression::apply(name, &arguments)
}

/// True if the Boolean input is set and true.
pub(super) fn flag(inputs: &Map, name: &str) -> bool {
    inputs.get(name).and_then(Value::as_bool).unwrap_or(false)
}
