//! Parts of specifications.

use std::sync::Arc;
use std::time::Duration;

use connector::{InputProblem, StaticInputs};
use jiff::Timestamp;
use model::action::{ObjectType, ResultField};
use model::{ActionError, InputSpec, InputType, ResultType};
use value::instant::Instant;
use value::{File, Map, Value};

use crate::convert::input_error;
use crate::csv::decode::document;

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

/// The problem that `check` finds in the inputs as far as they are known: a map without its computed entries, and the default of an input that
/// is not set. It is one of the input that its message names in backticks.
pub(crate) fn literal_problems(
    specs: &[InputSpec],
    inputs: &StaticInputs<'_>,
    check: impl Fn(&Map) -> Result<(), ActionError>,
) -> Vec<InputProblem> {
    let mut known: Map =
        specs.iter().filter_map(|input| Some((&*input.name, inputs.known(&input.name)?))).collect();
    let given: Vec<String> = known.keys().map(str::to_owned).collect();
    for input in specs {
        let is_computed =
            (inputs.template)(&input.name).is_some_and(|template| template.literal() != Some(&Value::Null));
        if let Some(usual) = input.default.as_ref().filter(|_| !is_computed) {
            known.insert(&*input.name, usual.clone());
        }
    }
    let Err(error) = check(&known) else { return Vec::new() };
    let message = error.into_message();
    let place = |name: &str| {
        let begin = format!("`{name}");
        let ends =
            |at: usize| message.get(at + begin.len()..).is_some_and(|rest| rest.starts_with(['`', '.', '[']));
        let mut places = message.match_indices(&*begin).map(|(at, _)| at);
        places.find(|at| ends(*at))
    };
    let named = given.iter().filter_map(|name| Some((place(name)?, name))).min();
    named.map(|(_, name)| InputProblem::new(name, &*message, "correct it")).into_iter().collect()
}

/// Reads a time in an input; `None` if it is not known.
pub(crate) fn period_of(inputs: &Map, name: &str) -> Result<Option<Duration>, ActionError> {
    let text = inputs.get(name).map(Value::to_text);
    let time = text.map(|text| text::units::parse_fixed_period(&text)).transpose();
    time.map_err(|error| input_error(format!("`{name}`: {error}")))
}

/// Reads an instant in an input; `None` if it is empty, or not known.
pub(crate) fn instant_of(inputs: &Map, name: &str) -> Result<Option<Timestamp>, ActionError> {
    let text = inputs.get(name).map(Value::to_text).filter(|text| !text.is_empty());
    let wrong = || input_error(format!("`{name}` is not an instant with its zone"));
    text.map(|text| Instant::parse(&text).map(|at| at.to_timestamp()).ok_or_else(wrong)).transpose()
}

/// Checks an input that is a text or a file, as far as it is known.
pub(crate) fn check_content(inputs: &Map, name: &str) -> Result<(), ActionError> {
    if inputs.contains_key(name) { content_of(inputs, name).map(drop) } else { Ok(()) }
}

/// The file in an input; a text is a file too.
pub(crate) fn content_of(inputs: &Map, name: &str) -> Result<File, ActionError> {
    let value = inputs.get(name);
    let kind = value.map_or("nothing", Value::kind);
    let wrong = || input_error(format!("`{name}` is a {kind}; it takes a text or a file"));
    value.and_then(document).ok_or_else(wrong)
}
