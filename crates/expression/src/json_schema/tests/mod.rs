//! Tests of compiling and checking.

use pretty_assertions::assert_eq;
use serde_json::json;
use value::JsonLimits;

use super::*;

mod cost;
mod differential;
mod evaluation;

fn schema(document: serde_json::Value) -> JsonSchema {
    JsonSchema::compile(document).unwrap_or_else(|error| panic!("{error} at {}", error.pointer))
}

/// The pointer and the message of a mismatch; empty for a match.
fn failure(schema: &JsonSchema, value: &Value) -> String {
    match schema.check(value, &Budget::default()) {
        Ok(()) => String::new(),
        Err(CheckError::Invalid(error)) => format!("{} {error}", error.pointer),
        Err(error @ CheckError::TooCostly(_)) => panic!("{error}"),
    }
}

fn value(json: serde_json::Value) -> Value {
    Value::from_serde(json)
}

fn order() -> JsonSchema {
    schema(json!({
        "type": "object",
        "required": ["orderId", "items"],
        "properties": {
            "orderId": {"type": "string", "pattern": "^[0-9]+$"},
            "express": {"type": ["boolean", "null"]},
            "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/item"}},
        },
        "additionalProperties": false,
        "$defs": {"item": {"type": "object", "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}}}},
    }))
}

#[test]
fn a_value_is_checked_and_the_first_failure_reported() {
    let schema = order();
    let check = |text: &str, expected: &str| {
        let value = Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON");
        assert_eq!(failure(&schema, &value), expected, "{text}");
    };
    check(r#"{"orderId": "1", "express": null, "items": [{"sku": "a", "quantity": 2, "more": true}]}"#, "");
    check("null", " must be object, found null");
    check(r#"{"orderId": "1"}"#, " needs `items`");
    check(
        r#"{"orderId": "1", "items": [{"quantity": "2"}]}"#,
        "/items/0/quantity must be integer, found string",
    );
    check(r#"{"orderId": "1", "items": [{"quantity": 0}]}"#, "/items/0/quantity must be >=1, but got 0");
    check(r#"{"orderId": "1", "items": [{}], "a/b": 1}"#, " must not have `a/b`");
    check(r#"{"orderId": "x", "items": [{}]}"#, "/orderId 'x' does not match pattern '^[0-9]+$'");
}

#[test]
fn the_deepest_failure_of_several_alternatives_is_reported() {
    let schema = schema(
        json!({"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]}),
    );
    let value = Value::from_json(br#"{"a": "x"}"#, JsonLimits::default()).expect("JSON");
    assert_eq!(failure(&schema, &value), "/a must be integer, found string");
}

#[test]
fn an_invalid_schema_is_rejected_with_its_pointer() {
    let check = |document: serde_json::Value, pointer: &str, message: &str| {
        let error = JsonSchema::compile(document).expect_err("it is none");
        assert!(error.message.contains(message), "{error}");
        assert_eq!(error.pointer, pointer, "{error}");
    };
    check(json!({"properties": {"a": {"type": "txt"}}}), "/properties/a/type", "");
    check(json!({"required": "a"}), "/required", "must be array, found string");
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        "/$schema",
        "names another draft than 2020-12; leave it out",
    );
    check(json!({"minimum": "1"}), "/minimum", "must be number, found string");
    let outside = "a schema can only name parts of itself";
    check(
        json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}),
        "/properties/a/$ref",
        outside,
    );
    check(json!({"$ref": "file:///etc/passwd"}), "/$ref", outside);
    check(json!({"$id": "https://a.example/", "$ref": "b.json"}), "", "b.json");
    check(
        json!({"items": {"$ref": "#/$defs/nothing"}}),
        "/items/$ref",
        "there is no `#/$defs/nothing` in this schema",
    );
    check(
        json!({"properties": {"a": {"pattern": "(?=a)"}}}),
        "/properties/a/pattern",
        "`(?=a)` is not a supported pattern",
    );
}

#[test]
fn unknown_keywords_are_reported_with_their_pointer() {
    let found = schema(json!({
        "propertes": {}, "x-note": 1, "properties": {"propertes": {"minimun": 1}, "a/b": {"const": {"minimun": 1}, "zzz": 1}},
    }));
    let found: Vec<String> = found
        .unknown_keywords()
        .into_iter()
        .map(|(at, word, near)| format!("{at} {word} {}", near.unwrap_or("-")))
        .collect();
    assert_eq!(
        found,
        [
            "/propertes propertes properties",
            "/properties/propertes/minimun minimun minimum",
            "/properties/a~1b/zzz zzz -"
        ]
    );
}

#[test]
fn a_recursive_schema_terminates() {
    let tree = schema(
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": false}),
    );
    let value = Value::from_json(br#"{"next": {"next": {"next": 1}}}"#, JsonLimits::default()).expect("JSON");
    assert_eq!(failure(&tree, &value), "/next/next/next must be object, found number");
    assert_ne!(failure(&schema(json!({"$ref": "#"})), &value), "", "nothing fits");
}
