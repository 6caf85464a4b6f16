//! The JSON Schemas (draft 2020-12) of what people write, so that editors complete and explain it.
//!
//! They are made of the tables that the loader reads by, so the two agree on keys, words and bounds. What a schema
//! cannot say (unique ids, expressions that resolve, one answer on a path) only the loader checks: every file that
//! loads is valid by its schema, not the other way round.

use serde_json::{Map, Value, json};

use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::{AUTOMATION, CONFIG_VAR, CONNECTION, STEP_KEYS, SUITE, VERBS};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A duration, as [`crate::units::parse_duration`] reads it.
const DURATION: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
/// A size, as [`crate::units::parse_size`] reads it.
const SIZE: &str = "^[0-9]+(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)$";

/// The schema of an Automation.
#[must_use]
pub fn automation() -> Value {
    let mut schema =
        root("Automation", "One file, one automation: a trigger and the steps it starts.", &AUTOMATION);
    let mut definitions = Map::new();
    definitions
        .insert("steps".into(), json!({"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1}));
    definitions.insert("anySteps".into(), json!({"type": "array", "items": {"$ref": "#/$defs/step"}}));
    let verbs: Vec<Value> =
        VERBS.iter().map(|row| json!({"$ref": format!("#/$defs/{}Step", row.word)})).collect();
    definitions.insert(
        "step".into(),
        json!({"description": "One piece of work: a step has exactly one verb.", "oneOf": verbs}),
    );
    for row in VERBS {
        let common = STEP_KEYS.iter().filter(|key| row.keys.iter().all(|own| own.name != key.name));
        let keys: Vec<&Key> = row.keys.iter().chain(common).collect();
        let mut step = object(&keys, Choice::Free);
        set(&mut step, "description", row.about);
        definitions.insert(format!("{}Step", row.word), step);
    }
    set(&mut schema, "$defs", definitions);
    schema
}

/// The schema of a connection.
#[must_use]
pub fn connection() -> Value {
    root("Connection", "Named credentials of a type that a connector declares.", &CONNECTION)
}

/// The schema of a file of tests.
#[must_use]
pub fn trial() -> Value {
    root(
        "Tests",
        "Tests of an automation: what starts it, what stands in for the outside, what must hold.",
        &SUITE,
    )
}

fn root(title: &str, about: &str, of: &Object) -> Value {
    let keys: Vec<&Key> = of.keys.iter().collect();
    let mut schema = json!({"$schema": DRAFT, "title": title, "description": about});
    if let (Value::Object(schema), Value::Object(object)) = (&mut schema, object(&keys, of.choice)) {
        schema.extend(object);
    }
    schema
}

fn object(keys: &[&Key], choice: Choice) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| {
            let mut schema = shape(&key.shape);
            set(&mut schema, "description", key.about);
            (key.name.to_owned(), schema)
        })
        .collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    if !required.is_empty() {
        set(&mut schema, "required", required);
    }
    match choice {
        Choice::Free => {}
        Choice::One(names) => {
            let one: Vec<Value> = names.iter().map(|name| json!({"required": [name]})).collect();
            set(&mut schema, "oneOf", one);
        }
        Choice::AtMostOne(names) => {
            let pairs = names.iter().enumerate().flat_map(|(at, first)| {
                names[at + 1..].iter().map(move |second| json!({"required": [first, second]}))
            });
            set(&mut schema, "not", json!({"anyOf": pairs.collect::<Vec<Value>>()}));
        }
    }
    schema
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::Text => json!({"type": "string"}),
        Shape::Name => json!({"type": "string", "pattern": r"\S"}),
        Shape::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::True => json!({"const": true}),
        Shape::Integer(min, max) if min == max => json!({"const": min}),
        Shape::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Number(min, max) if *min == f64::MIN && *max == f64::MAX => json!({"type": "number"}),
        Shape::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
        Shape::Duration => json!({"type": "string", "pattern": DURATION, "examples": ["10s", "5m", "1h30m"]}),
        Shape::Size => json!({"type": "string", "pattern": SIZE, "examples": ["256KiB", "6MiB"]}),
        Shape::Words(words) => json!({"enum": words}),
        Shape::Optional(inner) => json!({"anyOf": [shape(inner), {"type": "null"}]}),
        Shape::Either(shapes) => json!({"anyOf": shapes.iter().map(shape).collect::<Vec<Value>>()}),
        Shape::List(item) => json!({"type": "array", "items": shape(item)}),
        Shape::OneOrMore(item) => {
            let item = shape(item);
            json!({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]})
        }
        Shape::Object(inner) => object(&inner.keys.iter().collect::<Vec<_>>(), inner.choice),
        Shape::Named(pattern, value) => {
            json!({"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": shape(value)})
        }
        Shape::SomeNamed(pattern, value) => json!({
            "type": "object", "propertyNames": {"pattern": pattern},
            "additionalProperties": shape(value), "minProperties": 1,
        }),
        Shape::Expression => json!({"type": ["string", "boolean"]}),
        Shape::Items => json!({"type": ["string", "array"]}),
        Shape::WrappedExpression => json!({"type": "string", "pattern": r"\$\{\{"}),
        Shape::Template => json!({}),
        Shape::Steps => json!({"$ref": "#/$defs/steps"}),
        Shape::AnySteps => json!({"$ref": "#/$defs/anySteps"}),
        Shape::ConfigVar => config_var(),
    }
}

/// A plain value, or a mapping with `value`: the mapping that has either key is the long form.
fn config_var() -> Value {
    let long = object(&CONFIG_VAR.keys.iter().collect::<Vec<_>>(), CONFIG_VAR.choice);
    let is_long = json!({"type": "object", "anyOf": [{"required": ["value"]}, {"required": ["secret"]}]});
    json!({"if": is_long, "then": long})
}

fn set(schema: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(schema) = schema {
        schema.insert(key.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests;
