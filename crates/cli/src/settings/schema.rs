//! The JSON Schema of `cogwork.yaml`, from the table of settings.

use serde_json::{Map, Value, json};

use super::secret_sources;
use super::table::{SETTINGS, Setting};

/// The JSON Schema of the settings file.
pub(crate) fn schema() -> Value {
    let mut root = Map::new();
    for setting in SETTINGS {
        let property = property(setting);
        match setting.key.split_once('.') {
            None => {
                root.insert(setting.key.to_owned(), property);
            }
            Some((group, key)) => {
                let group = root.entry(group).or_insert_with(
                    || json!({"type": ["object", "null"], "additionalProperties": false, "properties": {}}),
                );
                group["properties"][key] = property;
            }
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Cogwork",
        "description": "The settings of a project, in `cogwork.yaml`. Variables and flags override them.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": root,
    })
}

fn property(setting: &Setting) -> Value {
    let mut property = value(setting);
    let mut about = format!("{}.", setting.about);
    match setting.sample.default() {
        Some(default) => about.push_str(&format!(" Default: `{default}`.")),
        None => about.push_str(&format!(" Example: `{}`.", setting.sample.text())),
    }
    about.push_str(&format!(" Variable: `{}`. Flag: `--{}`.", setting.variable(), setting.flag()));
    property["description"] = about.into();
    property
}

/// The schema of its values, by their placeholder in the help.
fn value(setting: &Setting) -> Value {
    if setting.is_structured() {
        return secret_sources::schema(setting.key).unwrap_or_else(|| json!({}));
    }
    let one = match setting.value {
        "DURATION" => json!({"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"}),
        "true|false" => json!({"type": "boolean"}),
        "N" | "DAYS" => json!({"type": "integer", "minimum": 1}),
        "SIZE" => json!({"type": "string", "pattern": "^[0-9]+(B|[KMGT]i?B)$"}),
        // A port alone means the loopback address.
        "ADDRESS" => json!({"type": ["string", "integer"]}),
        "EMAIL=SCOPES" | "GROUP=SCOPES" => {
            let scopes = server::Scope::ALL.map(server::Scope::as_str).join("|");
            json!({"type": "string", "pattern": format!(r"^.+=\s*({scopes})\s*(\+\s*({scopes})\s*)*$")})
        }
        words if words.contains('|') => json!({"enum": words.split('|').collect::<Vec<_>>()}),
        _ => json!({"type": "string"}),
    };
    if setting.list { json!({"anyOf": [{"type": "array", "items": one}, one]}) } else { one }
}
