//! Infers the type of a webhook's body from saved payloads.

use std::path::Path;

use expression::json_schema::JsonSchema;
use model::ResultType;
use model::payload::Payload;
use serde_json::{Map, json};
use value::Value;

use crate::project_dir::{self, EntryKind, read_project_file};

/// Maximum number of payloads read.
const MAX_PAYLOADS: usize = 20;
/// Maximum size of a payload in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum nesting depth examined.
const MAX_DEPTH: usize = 16;

/// Merges the types of the bodies in the `*.json` files of a folder: an open map of the fields of all bodies, with
/// conflicting fields of unknown type. Returns `None` without saved payloads. The folder is relative to `root`, the
/// project folder.
pub(crate) fn body(root: &Path, folder: &Path) -> Option<ResultType> {
    let mut files: Vec<_> = project_dir::list(root, folder)
        .ok()?
        .into_iter()
        .filter(|entry| matches!(entry.kind, Ok(EntryKind::File(_))))
        .map(|entry| folder.join(entry.name))
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    let bodies = files.iter().take(MAX_PAYLOADS).filter_map(|path| data(root, path));
    let schema = bodies.map(|body| schema(&body, MAX_DEPTH)).reduce(merged)?;
    Some(ResultType::of_schema(&JsonSchema::compile(schema).ok()?))
}

/// Reads the body of a saved payload.
fn data(root: &Path, path: &Path) -> Option<Value> {
    let payload: Payload = serde_json::from_slice(&read_project_file(root, path, MAX_BYTES).ok()?).ok()?;
    let is_request = matches!(payload, Payload::Webhook(_));
    trigger::results(&payload).ok().filter(|_| is_request)?.get("body")?.get("data")
}

/// Derives a JSON Schema from a value.
fn schema(value: &Value, depth: usize) -> serde_json::Value {
    if depth == 0 {
        return json!({});
    }
    match value {
        Value::Map(map) => {
            let properties: Map<String, serde_json::Value> =
                map.iter().map(|(name, value)| (name.to_string(), schema(value, depth - 1))).collect();
            json!({"type": "object", "properties": properties})
        }
        Value::List(items) => {
            let items = items.0.iter().take(MAX_PAYLOADS).map(|item| schema(item, depth - 1)).reduce(merged);
            json!({"type": "array", "items": items.unwrap_or_else(|| json!({}))})
        }
        Value::String(_) | Value::Decimal(_) => json!({"type": "string"}),
        Value::Number(_) => json!({"type": "number"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Null | Value::File(_) => json!({}),
    }
}

/// Merges two schemas; where they conflict, the result is unrestricted.
fn merged(one: serde_json::Value, other: serde_json::Value) -> serde_json::Value {
    if one["type"] != other["type"] {
        return json!({});
    }
    let mut both = one;
    if let (Some(mine), Some(theirs)) =
        (both["properties"].as_object().cloned(), other["properties"].as_object())
    {
        let mut properties = mine;
        for (name, theirs) in theirs {
            let merged = match properties.remove(name) {
                Some(mine) => merged(mine, theirs.clone()),
                None => theirs.clone(),
            };
            properties.insert(name.clone(), merged);
        }
        both["properties"] = properties.into();
    }
    // An empty list says nothing about its items.
    match other.get("items") {
        Some(items) if both["items"] == json!({}) => both["items"] = items.clone(),
        Some(items) if *items != json!({}) => both["items"] = merged(both["items"].clone(), items.clone()),
        _ => {}
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_schemas_merge_and_conflicts_become_unrestricted() {
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let one = read(r#"{"id": 1, "who": {"name": "a"}, "rows": [{"x": 1}, {"y": "b"}]}"#);
        let other = read(r#"{"id": "1", "who": {"mail": "b"}, "rows": [], "extra": null}"#);
        let both = merged(schema(&one, MAX_DEPTH), schema(&other, MAX_DEPTH));
        assert_eq!(both["properties"]["id"], json!({}));
        assert_eq!(
            both["properties"]["who"]["properties"],
            json!({"name": {"type": "string"}, "mail": {"type": "string"}})
        );
        assert_eq!(both["properties"]["extra"], json!({}));
        assert_eq!(
            both["properties"]["rows"]["items"]["properties"],
            json!({"x": {"type": "number"}, "y": {"type": "string"}})
        );
    }
}
