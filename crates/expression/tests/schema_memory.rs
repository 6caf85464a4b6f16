//! Hostile bodies for a schema: the memory of a check, in addition to the body's, is bounded.
//!
//! The tests of a file share one allocator, so this file has a single test, which runs alone in its process.

#![expect(clippy::expect_used, reason = "a test fails with the reason")]

use std::alloc::System;

use cap::Cap;
use expression::json_schema::{CheckError, JsonSchema};
use serde_json::json;
use value::budget::Budget;
use value::{JsonLimits, Map, Value};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const MIB: usize = 1 << 20;
/// The peak memory of a check, in addition to the value. Its budget limits the total of allocations to 64 MiB.
const PEAK: usize = 32 * MIB;

type Bomb = (&'static str, serde_json::Value, Value);

fn read(text: &str) -> Value {
    Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON within its limits")
}

/// The schema and the body of 361 bytes whose check once took 3.4 GiB, and deeper variants.
fn trees() -> Vec<Bomb> {
    let variant = |name: &str| {
        json!({"type": "object", "required": ["type"], "properties": {
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}, "type": {"const": name},
        }})
    };
    let variants = json!([variant("a"), variant("b"), variant("c")]);
    let tree = |applicator: &str| json!({"$ref": "#/$defs/node", "$defs": {"node": {applicator: variants}}});
    let deep =
        |levels: usize| {
            read(&(0..levels).fold(r#"{"type":"z"}"#.to_owned(), |inner, _| {
                format!(r#"{{"type":"a","children":[{inner}]}}"#)
            }))
        };
    let wide = read(&format!(
        r#"{{"type":"a","children":[{}{{"type":"z"}}]}}"#,
        r#"{"type":"c","children":[]},"#.repeat(60_000)
    ));
    vec![
        ("a tree of oneOf", tree("oneOf"), deep(12)),
        ("a deep tree of oneOf", tree("oneOf"), deep(31)),
        ("a deep tree of anyOf", tree("anyOf"), deep(31)),
        ("a wide tree", tree("oneOf"), wide),
    ]
}

fn large_bodies() -> Vec<Bomb> {
    let any = json!({"$ref": "#/$defs/any", "$defs": {"any": {"anyOf": [
        {"type": ["null", "boolean", "number", "string"]}, {"type": "array", "items": {"$ref": "#/$defs/any"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}},
    ]}}});
    let items = read(&format!("[{}0]", "1,".repeat(240_000)));
    let members: Map = (0..100_000_u64).map(|index| (format!("key{index}"), index)).collect();
    let members = Value::from(members);
    let texts: Value = (0..100_000).map(|index| Value::from(format!("{}{index}", "x".repeat(50)))).collect();
    let text = Value::from("x".repeat(5 * MIB));
    vec![
        ("any JSON", any, items.clone()),
        ("failures of every item", json!({"items": {"type": "string"}}), items.clone()),
        ("items that are equal in parts", json!({"uniqueItems": true}), texts),
        ("unevaluated items", json!({"unevaluatedItems": {"type": "string"}}), items),
        ("members that must not be there", json!({"additionalProperties": false}), members.clone()),
        ("unevaluated members", json!({"unevaluatedProperties": false}), members.clone()),
        ("names", json!({"propertyNames": {"pattern": "^x"}}), members),
        ("a text and a pattern", json!({"pattern": "^y"}), text.clone()),
        ("a text and a choice", json!({"enum": ["y"]}), text),
    ]
}

#[test]
fn a_schema_check_has_bounded_memory() {
    for (name, document, body) in trees().into_iter().chain(large_bodies()) {
        let schema = JsonSchema::compile(document).expect("a schema");
        let held = MEMORY.allocated();
        MEMORY.set_limit(held + PEAK).expect("a limit above what is held");
        let result = schema.check(&body, &Budget::default());
        MEMORY.set_limit(usize::MAX).expect("no limit");
        match result {
            Err(CheckError::Invalid(error)) => assert!(error.message.len() <= 1_300, "{name}"),
            Err(error @ CheckError::TooCostly(_)) => panic!("{name}: {error}"),
            Ok(()) => assert!(matches!(name, "any JSON" | "items that are equal in parts"), "{name}"),
        }
    }
}
