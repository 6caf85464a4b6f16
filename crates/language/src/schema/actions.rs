//! Schemas of the inputs of each action, and of the fields of each connection type.

use model::action::ActionSpec;
use serde_json::{Value, json};

use super::{ConnectionType, Definitions, ProjectContext, inputs, set, shape};
use crate::load::CONNECTION_KEYS;
use crate::load::keys::Shape;

/// Adds the inputs of each action to the schema of a step that calls an action.
pub(super) fn extend(step: &mut Value, around: &ProjectContext<'_>, definitions: &mut Definitions) {
    if around.actions.is_empty() {
        return;
    }
    if let Some(action) = step.pointer_mut("/properties/action") {
        let named = around.actions.iter().map(|spec| (spec.name.as_str(), about(spec)));
        choose(action, &named.collect::<Vec<_>>());
    }
    let cases: Vec<Value> = around.actions.iter().map(|spec| case(spec, around, definitions)).collect();
    set(step, "allOf", cases);
}

/// The description of an action, from its connector's manifest.
fn about(spec: &ActionSpec) -> String {
    let result = spec.result.as_ref().map(|result| format!("Gives {result}."));
    let parts = [Some(format!("{}.", spec.title)), spec.description.clone(), result];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The schema of a step that calls this action.
fn case(spec: &ActionSpec, around: &ProjectContext<'_>, definitions: &mut Definitions) -> Value {
    let owner = spec.name.split('.').next().unwrap_or_default();
    let mut with = inputs::mapping(&spec.inputs, owner, definitions);
    set(&mut with, "title", format!("inputs of {}", spec.name));
    set(&mut with, "description", about(spec));
    let connection = connection(spec, around, definitions);
    // Editors offer all required keys as one completion, under the title.
    let mut then = json!({"title": spec.name, "properties": {"with": with, "connection": connection}});
    // `connection` is never required: `defaults` may have it.
    if spec.inputs.iter().any(inputs::is_needed) {
        set(&mut then, "required", vec!["with"]);
    }
    json!({"if": is("action", &spec.name), "then": then})
}

/// Matches a mapping that has this text under this key.
fn is(key: &str, text: &str) -> Value {
    json!({"type": "object", "properties": {key: {"const": text}}, "required": [key]})
}

/// The connection of an action: offers the project's connections of its types.
fn connection(spec: &ActionSpec, around: &ProjectContext<'_>, definitions: &mut Definitions) -> Value {
    if spec.connections.is_empty() {
        return json!(false);
    }
    let kinds = spec.connections.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(" or ");
    let description = format!(
        "The name of a file in `connections/`, of type {kinds}, or `{{name, of}}`. Default: that of `defaults`; `null`: none."
    );
    let mut literal = json!({"type": ["string", "null"]});
    let mut selected = shape(&Shape::Object(&CONNECTION_KEYS));
    let fitting =
        around.connections.iter().filter(|(_, kind)| spec.connections.iter().any(|one| one == kind));
    let names: Vec<&str> = fitting.map(|(name, _)| *name).collect();
    if !names.is_empty() {
        set(&mut literal, "examples", names.as_slice());
        for of in ["/properties/of/anyOf/0", "/properties/of/anyOf/1/items"] {
            if let Some(candidate) = selected.pointer_mut(of) {
                set(candidate, "examples", names.as_slice());
            }
        }
    }
    let schema = json!({"anyOf": [literal, selected], "description": description});
    let owner = spec.name.split('.').next().unwrap_or_default();
    definitions.share(&format!("{owner}.connection"), schema)
}

/// Adds the inputs of each type to the schema of a connection.
pub(super) fn extend_connection(
    schema: &mut Value,
    around: &ProjectContext<'_>,
    definitions: &mut Definitions,
) {
    let types = &around.connection_types;
    if types.is_empty() {
        return;
    }
    let about = |kind: &ConnectionType<'_>| match kind.description {
        Some(description) => format!("{}. {description}", kind.title),
        None => format!("{}.", kind.title),
    };
    let named = types.iter().map(|kind| (kind.name, about(kind)));
    if let Some(kind) = schema.pointer_mut("/properties/type") {
        choose(kind, &named.collect::<Vec<_>>());
    }
    let cases = types.iter().map(|kind| {
        let inputs = kind.inputs.iter().copied();
        let needed = kind.inputs.iter().any(|input| inputs::is_needed(input));
        let mut with = inputs::mapping(inputs, kind.name, definitions);
        set(&mut with, "title", format!("inputs of {}", kind.name));
        set(&mut with, "description", about(kind));
        let mut then = json!({"title": kind.name, "properties": {"with": with}});
        if needed {
            set(&mut then, "required", ["with"].as_slice());
        }
        json!({"if": is("type", kind.name), "then": then})
    });
    let cases: Vec<Value> = cases.collect();
    set(schema, "allOf", cases);
}

/// Makes the schema of a two-part name offer these names, each with its description. Connectors that are not known
/// accept any name.
fn choose(schema: &mut Value, named: &[(&str, String)]) {
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    let about: Vec<&str> = named.iter().map(|(_, about)| about.as_str()).collect();
    let mut connectors: Vec<&str> = names.iter().filter_map(|name| name.split('.').next()).collect();
    connectors.dedup();
    let others = format!(r"^(?!({})\.)[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$", connectors.join("|"));
    let description = schema.get("description").cloned().unwrap_or_default();
    *schema = json!({
        "description": description,
        "anyOf": [{"enum": names, "enumDescriptions": about}, {"type": "string", "pattern": others}],
    });
}
