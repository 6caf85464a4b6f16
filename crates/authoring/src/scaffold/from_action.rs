//! A new automation whose first step calls an action, with a test that calls no other system.

use std::fmt::Write as _;

use catalog::Catalog;
use connector::{ConnectionInput, ConnectionType};
use language::edit::Operation;
use model::AutomationId;
use model::action::{ActionSpec, Effect, ResultType};
use text::yaml::edit::Segment;
use value::{Map, Value};

use super::{Kind, NewAutomation, connection_path, find_connection, new_automation};

/// The number of levels of a result that the answer of a double has.
const RESULT_LEVELS: usize = 3;
/// The value of an input that a person has to fill in.
const PLACEHOLDER: &str = "fill-in";

/// Writes the texts of a new automation with one step: it calls an action with the inputs of the action's example, by a
/// connection of the project that fits. Its test answers the call in place of another system.
///
/// # Errors
/// There is no such action, or its example cannot be written as YAML, for this reason.
pub fn automation_with_action(
    catalog: &Catalog,
    (kind, id, name): (&Kind, &AutomationId, &str),
    action: &str,
) -> Result<NewAutomation, String> {
    let found = catalog.registry().action(action);
    let spec = found.ok_or_else(|| format!("there is no action `{action}`"))?.spec();
    let mut new = new_automation(catalog, kind, id, name);
    let step = spec.name.rsplit('.').next().unwrap_or_default();
    let mut text = new.trigger_text().to_owned();
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "\n# The steps run from top to bottom. An expression in ${{{{ }}}} is evaluated when its step runs.\nsteps:\n  \
         - id: {step}\n    action: {action}\n"
    );
    if let Some(connection) = connection(catalog, spec, &mut new.connections) {
        let _ = writeln!(text, "    connection: {connection}");
    }
    if spec.example.as_map().is_some_and(|example| !example.is_empty()) {
        let at = ["steps", "", "with"].map(|key| match key {
            "" => Segment::Index(0),
            key => Segment::Key(key.to_owned()),
        });
        let with = Operation::Set { at: at.into(), value: spec.example.to_serde() };
        text = language::edit::edit_file(&new.path, &text, &[with]).map_err(|error| error.to_string())?.text;
    }
    new.text = text;
    let mut test = format!("{}tests:\n  - name: its step calls {action}\n", new.test_head());
    if !kind.start.is_empty() {
        let _ = writeln!(test, "    {}", kind.start);
    }
    let mut expect = format!("      steps: {{{step}: succeeded}}\n");
    if spec.effect != Effect::Pure {
        let result = sample(&spec.results, RESULT_LEVELS).unwrap_or_default();
        let _ = writeln!(test, "    doubles:\n      {action}: {{result: {}}}", result.to_json());
        let _ = writeln!(expect, "      calls: {{{action}: 1}}");
    }
    new.test = format!("{test}    expect:\n{expect}");
    Ok(new)
}

/// The connection that a step of this action names, if it has to name one. One that the project does not have is added to the
/// new files.
fn connection(catalog: &Catalog, spec: &ActionSpec, files: &mut Vec<(String, String)>) -> Option<String> {
    if !spec.connection_required {
        return None;
    }
    if let Some(name) = find_connection(catalog, |kind| spec.connections.iter().any(|fits| fits == kind)) {
        return Some(name);
    }
    let kind = catalog.registry().connection_type(spec.connections.first()?)?;
    let name = catalog.registry().usual_connection_name(&kind.name);
    let path = connection_path(&name);
    if !files.iter().any(|(other, _)| *other == path) {
        let text = connection_text(kind, &name);
        files.push((path, text));
    }
    Some(name)
}

/// The text of a connection to be filled in: its required inputs, and the names of its secrets.
fn connection_text(kind: &ConnectionType, name: &str) -> String {
    let mut text = format!(
        "# yaml-language-server: $schema=../schemas/connection.schema.json\n#\n# {}: to be filled in. Steps name it by the \
         name of this file.\ntype: {}\nwith:\n",
        kind.title, kind.name
    );
    let has_secret = kind.inputs.iter().any(|input| input.secret && input.spec.required);
    let first_secret = kind.inputs.iter().position(|input| input.secret);
    for (index, input) in kind.inputs.iter().enumerate() {
        if !input.spec.required && (has_secret || first_secret != Some(index)) {
            continue;
        }
        if let Some(about) = &input.spec.description {
            let _ = writeln!(text, "  # {about}");
        }
        let key = &input.spec.name;
        if input.secret {
            let secret = secret_name(name, key);
            let _ = writeln!(text, "  # Store it with: cogwork secrets set {secret}");
            let _ = writeln!(text, "  {key}: ${{{{ secrets.{secret} }}}}");
        } else {
            let _ = writeln!(text, "  {key}: {}", placeholder(input));
        }
    }
    text
}

/// The name of a connection's secret: `mainWiki` and `apiToken` give `mainWikiApiToken`.
fn secret_name(connection: &str, input: &str) -> String {
    let mut letters = input.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    connection.chars().chain(first).chain(letters).collect()
}

/// Returns the default of an input, the example in its description, or a placeholder.
fn placeholder(input: &ConnectionInput) -> String {
    if let Some(default) = &input.spec.default {
        return default.to_json();
    }
    let about = input.spec.description.as_deref().unwrap_or_default();
    Value::from(about.split('`').nth(1).unwrap_or(PLACEHOLDER)).to_json()
}

/// A value of a type, as the answer of a double: a text stands for a file. `None` for a choice without options.
fn sample(kind: &ResultType, levels: usize) -> Option<Value> {
    Some(match kind {
        ResultType::Any | ResultType::Null => Value::Null,
        ResultType::Text | ResultType::File => Value::from("text"),
        ResultType::Integer | ResultType::Number => Value::from(1),
        ResultType::Boolean => Value::from(true),
        ResultType::Choice { options } => Value::from(options.first()?.as_str()),
        ResultType::List { items } if levels > 0 => {
            Value::from(sample(items, levels - 1).into_iter().collect::<Vec<_>>())
        }
        ResultType::List { .. } => Value::from(Vec::<Value>::new()),
        ResultType::Map { .. } => Value::from(Map::new()),
        ResultType::Object(object) if levels > 0 => {
            let fields = object.fields.iter().filter(|field| !field.optional);
            let fields =
                fields.filter_map(|field| Some((field.name.as_str(), sample(&field.kind, levels - 1)?)));
            Value::from(fields.collect::<Map>())
        }
        ResultType::Object(_) => Value::from(Map::new()),
        ResultType::OneOf { types } => sample(types.first()?, levels)?,
    })
}
