//! Parts of specifications.

use std::sync::Arc;

use connector::{InputProblem, StaticInputs};
use model::action::{ObjectType, ResultField};
use model::{ActionError, ActionSpec, InputSpec, InputType, ResultType};
use value::{Map, Value};

pub(crate) fn optional(name: &str, kind: InputType, about: &str) -> InputSpec {
    let description = Some(about.to_owned());
    InputSpec { name: name.to_owned(), kind, required: false, default: None, description }
}

pub(crate) fn required(name: &str, kind: InputType, about: &str) -> InputSpec {
    InputSpec { required: true, ..optional(name, kind, about) }
}

pub(crate) fn defaulted(name: &str, kind: InputType, default: impl Into<Value>, about: &str) -> InputSpec {
    InputSpec { default: Some(default.into()), ..optional(name, kind, about) }
}

pub(crate) fn choice(options: &[&str]) -> InputType {
    InputType::Choice { options: options.iter().map(|option| (*option).to_owned()).collect() }
}

pub(crate) fn object(fields: impl IntoIterator<Item = ResultField>) -> ResultType {
    ResultType::Object(Arc::new(ObjectType { fields: fields.into_iter().collect(), ..ObjectType::default() }))
}

/// The problem that `check` finds in the inputs that are literals. Its message begins with the name of the input.
pub(crate) fn literal_problems(
    spec: &ActionSpec,
    inputs: &StaticInputs<'_>,
    check: impl Fn(&Map) -> Result<(), ActionError>,
) -> Vec<InputProblem> {
    let literal = |name: &str| Some((name.to_owned(), inputs.literal(name)?.clone()));
    let known: Map = spec.inputs.iter().filter_map(|input| literal(&input.name)).collect();
    let Err(error) = check(&known) else { return Vec::new() };
    let message = error.into_message();
    let named = known.keys().find(|name| message.starts_with(&format!("`{name}")));
    named.map(|name| InputProblem::new(name, &*message, "correct it")).into_iter().collect()
}
