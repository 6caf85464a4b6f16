//! A JSON Schema and a body: the schema is refused, or the body checked within its budget.

#![no_main]

use expression::JsonSchema;
use value::{Budget, JsonLimits, Value};

libfuzzer_sys::fuzz_target!(|input: &str| {
    let (schema, body) = input.split_once('\n').unwrap_or((input, "{}"));
    let Ok(document) = serde_json::from_str(schema) else { return };
    let Ok(schema) = JsonSchema::compile(document) else { return };
    let body = Value::from_json(body.as_bytes(), JsonLimits::default()).unwrap_or_default();
    let _ = schema.check(&body, &Budget::inline());
});
