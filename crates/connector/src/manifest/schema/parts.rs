//! The parts that schemas of manifests are made of.

use serde_json::{Map, Value, json};

pub(super) const NAME: &str = "^[a-z][A-Za-z0-9]*$";

/// A key: its name, its schema and its description. The prefix `*` marks a required key.
pub(super) type Key = (&'static str, Value, &'static str);

pub(super) fn object(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, schema, about) in keys {
        let mut schema = schema.clone();
        put(&mut schema, "description", json!(about));
        let key = key.strip_prefix('*').inspect(|key| required.push(*key)).unwrap_or(key);
        properties.insert(key.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        put(&mut schema, "required", json!(required));
    }
    schema
}

pub(super) fn put(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(key.to_owned(), value);
    }
}

pub(super) fn schema_of(definition: &str) -> Value {
    json!({"$ref": format!("#/$defs/{definition}")})
}

pub(super) fn text() -> Value {
    json!({"type": "string", "pattern": r"\S"})
}

pub(super) fn name() -> Value {
    json!({"type": "string", "pattern": NAME})
}

pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

pub(super) fn words(words: &[&str]) -> Value {
    json!({"enum": words})
}

pub(super) fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

pub(super) fn map_of(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// Returns the schema of a map with identifiers as keys.
pub(super) fn named(values: Value) -> Value {
    json!({"type": "object", "propertyNames": {"pattern": NAME}, "additionalProperties": values})
}

pub(super) fn one_or_more(item: Value) -> Value {
    json!({"anyOf": [item, {"type": "array", "items": item}]})
}
