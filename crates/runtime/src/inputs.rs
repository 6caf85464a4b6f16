//! Converts inputs to their declared types.

use expression::Template;
use model::action::{ActionSpec, InputSpec, InputType};
use model::automation::Automation;
use value::Map;

use crate::error::Error;

/// Converts the inputs of a start to the types that the automation declares.
///
/// # Errors
/// See [`convert_declared`].
pub fn convert_inputs(automation: &Automation, given: &Map) -> Result<Map, Error> {
    convert_declared(&automation.inputs, given, &format!("automation `{}`", automation.id))
}

/// Converts values to their declared types, as the inputs of an action are converted. `what` names the owner in errors. The result has
/// the given values only: readers add the defaults.
///
/// # Errors
/// Returns an error if a name is unknown, a required value is missing, or a value does not fit its type.
pub fn convert_declared(declared: &[InputSpec], given: &Map, what: &str) -> Result<Map, Error> {
    let names = || declared.iter().map(|input| input.name.as_str());
    if let Some(unknown) = given.keys().find(|key| !names().any(|name| name == *key)) {
        let near = text::diagnostic::nearest(unknown, names());
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let all: Vec<&str> = names().collect();
        let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(Error::Input(format!("{what} has no input `{unknown}`{near} (its inputs: {known})")));
    }
    let mut converted = Map::with_capacity(given.len());
    for input in declared {
        let value = given.get(&input.name).map(|value| connector::convert_input(input, value));
        let value = value
            .transpose()
            .map_err(|problem| Error::Input(format!("input `{}`: {problem}", input.name)))?;
        match value.flatten() {
            Some(value) => drop(converted.insert(input.name.as_str(), value)),
            None if input.required && input.default.is_none() => {
                let kind = input.kind.describe();
                return Err(Error::Input(format!("input `{}` is required ({kind})", input.name)));
            }
            None => {}
        }
    }
    Ok(converted)
}

/// Returns true for an interpolated text in a URL input: its values are encoded by their position.
pub fn is_address(spec: &ActionSpec, name: &str, template: &Template) -> bool {
    // Check the template first; it decides for most inputs.
    matches!(template, Template::Text(_))
        && spec.input(name).is_some_and(|input| input.kind == InputType::Url)
}
