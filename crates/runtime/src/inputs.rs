//! Converts inputs to their declared types.

use expression::Template;
use model::action::{ActionSpec, InputSpec, InputType};
use model::automation::Automation;
use value::{Map, Value};

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
        let near = text::diagnostic::nearest(unknown, names().filter(|name| !given.contains_key(name)));
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

/// Converts the data of an event to the types that a trigger declares. What it does not declare stays as it is, since other triggers may read
/// it; a missing value gets its default, else null.
///
/// # Errors
/// Returns an error if the data are no map, a required value is missing, or a value does not fit its type.
pub fn convert_event_data(declared: &[InputSpec], data: &Value) -> Result<Value, Error> {
    if declared.is_empty() {
        return Ok(data.clone());
    }
    let empty = Map::new();
    let given = match data {
        Value::Map(given) => &**given,
        Value::Null => &empty,
        other => {
            return Err(Error::Input(format!("the data of the event are a {}, not a map", other.kind())));
        }
    };
    let of_trigger = given.iter().filter(|(name, _)| declared.iter().any(|input| input.name == **name));
    let of_trigger: Map = of_trigger.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut converted = convert_declared(declared, &of_trigger, "the data of the event")?;
    for input in declared {
        if !converted.contains_key(&input.name) {
            converted.insert(input.name.as_str(), input.default.clone().unwrap_or_default());
        }
    }
    let mut all = given.clone();
    converted.into_iter().for_each(|(name, value)| drop(all.insert(name, value)));
    Ok(Value::from(all))
}

/// Returns true for an interpolated text in a URL input: its values are encoded by their position.
pub fn is_address(spec: &ActionSpec, name: &str, template: &Template) -> bool {
    // Check the template first; it decides for most inputs.
    matches!(template, Template::Text(_))
        && spec.input(name).is_some_and(|input| input.kind == InputType::Url)
}
