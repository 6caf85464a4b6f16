//! Sample values for examples: those of the document if they fit, or else the simplest valid values.

use serde_json::{Map, Value, json};

use super::document::Document;
use super::schema::{is_required, merged};

/// Returns a value of an input type (`made`) that was generated from `schema`.
pub(super) fn sample_value(
    document: &Document<'_>,
    schema: &Value,
    made: &Map<String, Value>,
    name: &str,
) -> Value {
    let schema = &merged(document, schema);
    let own = [&schema["example"], &schema["examples"][0], &schema["default"]];
    let own = own.into_iter().find(|value| !is_nothing(value));
    match made["type"].as_str().unwrap_or_default() {
        "text" => own.and_then(scalar).map_or_else(|| json!(text(schema, name)), Value::String),
        "choice" => {
            let options = made["options"].as_array();
            let is_one = |own: &&Value| options.is_some_and(|options| options.contains(own));
            own.filter(is_one).or_else(|| options?.first()).cloned().unwrap_or_default()
        }
        "integer" => {
            let (min, max) =
                (made.get("min").and_then(Value::as_i64), made.get("max").and_then(Value::as_i64));
            let fits =
                |number: &i64| min.is_none_or(|min| *number >= min) && max.is_none_or(|max| *number <= max);
            let least = min.or(max.filter(|max| *max < 1)).unwrap_or(1);
            json!(own.and_then(Value::as_i64).filter(fits).unwrap_or(least))
        }
        "number" => own.filter(|own| own.is_number()).cloned().unwrap_or_else(|| json!(1)),
        "boolean" => own.filter(|own| own.is_boolean()).cloned().unwrap_or_else(|| json!(true)),
        "file" => json!("the content"),
        "list" => {
            let items = inner(&made["items"]);
            json!([sample_value(document, &schema["items"], &items, name.trim_end_matches('s'))])
        }
        "map" => json!({"key": "value"}),
        "object" => object(document, schema, made),
        _ => own.filter(|own| !own.is_null()).cloned().unwrap_or_else(|| json!("value")),
    }
}

/// Returns an object with its required fields, or with the first field if none is required.
fn object(document: &Document<'_>, schema: &Value, made: &Map<String, Value>) -> Value {
    let fields = made.get("fields").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut wanted: Vec<&String> = fields.keys().filter(|name| is_required(schema, name)).collect();
    if wanted.is_empty() {
        wanted.extend(fields.keys().next());
    }
    let sample = |name: &String| {
        let field = fields[name].as_object().cloned().unwrap_or_default();
        (name.clone(), sample_value(document, &schema["properties"][name], &field, name))
    };
    Value::Object(wanted.into_iter().map(sample).collect())
}

/// Returns the keys of a type, which may also be a single word.
fn inner(made: &Value) -> Map<String, Value> {
    match made {
        Value::Object(made) => made.clone(),
        word => Map::from_iter([("type".to_owned(), word.clone())]),
    }
}

/// True for values that are not sent, which would make an example useless.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.len() <= 200 => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn text(schema: &Value, name: &str) -> String {
    match schema["format"].as_str().unwrap_or_default() {
        "date" => "2026-01-31".to_owned(),
        "date-time" => "2026-01-31T08:00:00Z".to_owned(),
        "uuid" => "5f0c1f5e-7a4f-4f0c-9d86-1d2f3a4b5c6d".to_owned(),
        "email" => "ada@example.com".to_owned(),
        "uri" | "url" => "https://example.com/".to_owned(),
        _ => name.to_owned(),
    }
}
