//! The JSON Schemas (draft 2020-12) of project files, for completion and documentation in editors.
//!
//! They are generated from the tables that the loader reads by, so the two agree on keys, keywords and bounds. Rules that a
//! schema cannot express (unique ids, expressions that resolve, one response on a path) are checked by the loader only:
//! every file that loads matches its schema, not the other way round.

mod actions;
mod inputs;

use model::action::{ActionSpec, InputSpec};
use serde_json::{Map, Value, json};

use crate::load::keys::{ANY_NAME, Choice, Key, Object, Shape};
use crate::load::{AUTOMATION, CONFIG_VAR, CONNECTION, PROJECT, STEP_KEYS, SUITE, VERBS};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A duration, as [`text::units::parse_duration`] reads it.
const DURATION: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
/// A size, as [`text::units::parse_size`] reads it.
const SIZE: &str = "^[0-9]+(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)$";

/// The names of a project that its schemas list. If it is empty, schemas accept any action and connection type.
#[derive(Clone, Debug, Default)]
pub struct ProjectContext<'a> {
    /// The actions, connector by connector.
    pub actions: Vec<&'a ActionSpec>,
    /// The types of connections.
    pub connection_types: Vec<ConnectionType<'a>>,
    /// The existing connections: name and type.
    pub connections: Vec<(&'a str, &'a str)>,
}

/// A type of connections as its connector declares it.
#[derive(Clone, Debug)]
pub struct ConnectionType<'a> {
    /// The full name, such as `wiki.basic`.
    pub name: &'a str,
    /// A summary of one line.
    pub title: &'a str,
    /// Details for authors.
    pub description: Option<&'a str>,
    /// Its inputs.
    pub inputs: Vec<&'a InputSpec>,
}

/// The schema of an Automation.
#[must_use]
pub fn automation(around: &ProjectContext<'_>) -> Value {
    let mut schema =
        root("Automation", "One file, one automation: a trigger and the steps it starts.", &AUTOMATION);
    let mut definitions = Definitions::default();
    inputs::define(&mut definitions);
    definitions.put("steps", json!({"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1}));
    definitions.put("anySteps", json!({"type": "array", "items": {"$ref": "#/$defs/step"}}));
    let verbs: Vec<Value> =
        VERBS.iter().map(|row| json!({"$ref": format!("#/$defs/{}Step", row.word)})).collect();
    let about = "One piece of work: a step has exactly one verb.";
    definitions.put("step", json!({"description": about, "oneOf": verbs}));
    for key in STEP_KEYS {
        definitions.put(&format!("every.{}", key.name), value(key));
    }
    for row in VERBS {
        let mut step = object(&row.keys.iter().collect::<Vec<_>>(), Choice::Any);
        // "action step": editors use it to offer the required keys of the verb.
        let title = row.what.split_once(' ').map_or(row.what, |(_, what)| what);
        set(&mut step, "title", title.replace('`', ""));
        set(&mut step, "description", row.about);
        let common = STEP_KEYS.iter().filter(|key| row.keys.iter().all(|own| own.name != key.name));
        if let Some(properties) = step.get_mut("properties").and_then(Value::as_object_mut) {
            properties
                .extend(common.map(|key| {
                    (key.name.to_owned(), json!({"$ref": format!("#/$defs/every.{}", key.name)}))
                }));
        }
        if row.word == "action" {
            actions::extend(&mut step, around, &mut definitions);
        }
        definitions.put(&format!("{}Step", row.word), step);
    }
    set(&mut schema, "$defs", definitions.all);
    schema
}

/// The schema of a connection.
#[must_use]
pub fn connection(around: &ProjectContext<'_>) -> Value {
    let mut schema =
        root("Connection", "Named credentials of a type that a connector declares.", &CONNECTION);
    let mut definitions = Definitions::default();
    inputs::define(&mut definitions);
    actions::extend_connection(&mut schema, around, &mut definitions);
    set(&mut schema, "$defs", definitions.all);
    schema
}

/// The schema of `project.yaml`.
#[must_use]
pub fn project() -> Value {
    let mut schema = root("Project", "What the files of a project share.", &PROJECT);
    // The file may be empty.
    set(&mut schema, "type", vec!["object", "null"]);
    schema
}

/// The `$defs` of a schema under construction.
#[derive(Default)]
struct Definitions {
    all: Map<String, Value>,
}

impl Definitions {
    /// Adds a schema under a name, and returns a reference to it.
    fn put(&mut self, name: &str, schema: Value) -> Value {
        self.all.insert(name.to_owned(), schema);
        json!({"$ref": format!("#/$defs/{name}")})
    }

    /// Like [`put`](Self::put), but with another name if another schema has this one already.
    fn share(&mut self, name: &str, schema: Value) -> Value {
        let mut free = name.to_owned();
        for count in 2.. {
            match self.all.get(&free) {
                Some(other) if *other == schema => break,
                Some(_) => free = format!("{name}{count}"),
                None => return self.put(&free, schema),
            }
        }
        json!({"$ref": format!("#/$defs/{free}")})
    }
}

/// The schema of a test file.
#[must_use]
pub fn test_suite() -> Value {
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
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), value(key))).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    if !required.is_empty() {
        set(&mut schema, "required", required);
    }
    match choice {
        Choice::Any => {}
        Choice::ExactlyOne(names) => {
            let one: Vec<Value> = names.iter().map(|name| json!({"required": [name]})).collect();
            set(&mut schema, "oneOf", one);
        }
        Choice::AtMostOne(names) => set(&mut schema, "not", two_of(names)),
        Choice::ExactlyOneUnless { one, when: (key, value), all } => {
            set(&mut schema, "not", two_of(one));
            set(&mut schema, "if", json!({"required": [key], "properties": {key: {"const": value}}}));
            set(&mut schema, "then", json!({"required": all}));
            let any: Vec<Value> = one.iter().map(|name| json!({"required": [name]})).collect();
            set(&mut schema, "else", json!({"anyOf": any}));
        }
    }
    schema
}

/// Matches a mapping that has two of these keys.
fn two_of(names: &[&str]) -> Value {
    let pairs = names.iter().enumerate().flat_map(|(at, first)| {
        names[at + 1..].iter().map(move |second| json!({"required": [first, second]}))
    });
    json!({"anyOf": pairs.collect::<Vec<Value>>()})
}

/// The schema of a key's value, with its description.
fn value(key: &Key) -> Value {
    let mut schema = shape(&key.shape);
    set(&mut schema, "description", key.about);
    schema
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::Text => json!({"type": "string"}),
        Shape::NonBlankText => json!({"type": "string", "pattern": r"\S"}),
        Shape::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::ConstTrue => json!({"const": true}),
        Shape::Integer(min, max) if min == max => json!({"const": min}),
        Shape::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Number(min, max) if *min == f64::MIN && *max == f64::MAX => json!({"type": "number"}),
        Shape::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
        Shape::Duration => json!({"type": "string", "pattern": DURATION, "examples": ["10s", "5m", "1h30m"]}),
        Shape::Size => json!({"type": "string", "pattern": SIZE, "examples": ["256KiB", "6MiB"]}),
        Shape::Enum(words) => json!({"enum": words}),
        Shape::Optional(inner) => json!({"anyOf": [shape(inner), {"type": "null"}]}),
        Shape::AnyOf(shapes) => json!({"anyOf": shapes.iter().map(shape).collect::<Vec<Value>>()}),
        Shape::List(item) => json!({"type": "array", "items": shape(item)}),
        Shape::OneOrMore(item) => {
            let item = shape(item);
            json!({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]})
        }
        Shape::Object(inner) => object(&inner.keys.iter().collect::<Vec<_>>(), inner.choice),
        Shape::MapOf(pattern, value) => named(pattern, value),
        Shape::NonEmptyMapOf(pattern, value) => {
            let mut schema = named(pattern, value);
            set(&mut schema, "minProperties", 1);
            schema
        }
        Shape::Expression => json!({"type": ["string", "boolean"]}),
        Shape::ListOrExpression => json!({"type": ["string", "array"]}),
        Shape::WrappedExpression => json!({"type": "string", "pattern": r"\$\{\{"}),
        Shape::Template => json!({}),
        Shape::Steps => json!({"$ref": "#/$defs/steps"}),
        Shape::MaybeEmptySteps => json!({"$ref": "#/$defs/anySteps"}),
        Shape::ConfigVar => config_var(),
    }
}

/// A mapping with names chosen by the author.
fn named(pattern: &str, value: &Shape) -> Value {
    let mut schema = json!({"type": "object", "additionalProperties": shape(value)});
    if pattern != ANY_NAME {
        set(&mut schema, "propertyNames", json!({"pattern": pattern}));
    }
    schema
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
