//! Checks inputs against their declarations.

use expression::Template;
use model::action::{ActionSpec, InputSpec, InputType};
use model::automation::Automation;
use value::Map;

use crate::error::Error;

/// Checks the inputs of a manual start or a call against the automation's declaration.
pub fn check_inputs(automation: &Automation, given: &Map) -> Result<(), Error> {
    check_declared(&automation.inputs, given, &format!("automation `{}`", automation.id))
}

/// Checks inputs against a declaration. `what` names the owner in errors.
pub fn check_declared(declared: &[InputSpec], given: &Map, what: &str) -> Result<(), Error> {
    let names = || declared.iter().map(|input| input.name.as_str());
    if let Some(unknown) = given.keys().find(|key| !names().any(|name| name == *key)) {
        let near = text::diagnostic::nearest(unknown, names());
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let all: Vec<&str> = names().collect();
        let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(Error::Input(format!("{what} has no input `{unknown}`{near} (its inputs: {known})")));
    }
    for input in declared {
        match given.get(&input.name) {
            Some(value) => connector::check_value(&input.kind, value)
                .map_err(|problem| Error::Input(format!("input `{}`: {problem}", input.name)))?,
            None if input.required && input.default.is_none() => {
                let kind = input.kind.describe();
                return Err(Error::Input(format!("input `{}` is required ({kind})", input.name)));
            }
            None => {}
        }
    }
    Ok(())
}

/// Returns true for an interpolated text in a URL input: its values are encoded by their position.
pub fn is_address(spec: &ActionSpec, name: &str, template: &Template) -> bool {
    // Check the template first; it decides for most inputs.
    matches!(template, Template::Text(_))
        && spec.input(name).is_some_and(|input| input.kind == InputType::Url)
}
