//! Schemas of OpenAPI documents as JSON Schemas of draft 2020-12, strict about keys: what a description does not have is a mismatch.

use std::cell::RefCell;
use std::collections::BTreeSet;

use expression::JsonSchema;
use expression::json_schema::CheckError;
use serde_json::{Map, Value, json};
use value::{Budget, Value as Plain};

use crate::import::Document;

/// The keywords that are the same in all versions and decide if a value fits.
const SAME: [&str; 11] = [
    "enum",
    "const",
    "required",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
];
/// The keywords with a list of schemas. `oneOf` becomes `anyOf`: alternatives of descriptions often overlap.
const LISTS: [(&str, &str); 3] = [("allOf", "allOf"), ("anyOf", "anyOf"), ("oneOf", "anyOf")];
/// The largest depth of a value that is typed by its schema.
const MAX_DEPTH: usize = 16;

/// The direction in which a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Response,
}

impl Direction {
    /// The mark of properties that do not go in this direction.
    fn absent(self) -> &'static str {
        match self {
            Self::Request => "readOnly",
            Self::Response => "writeOnly",
        }
    }
}

/// The schemas of a document, converted as they are needed.
pub(super) struct Schemas<'d> {
    document: &'d Document<'d>,
    direction: Direction,
    /// The references that occurred, each with true if the value has no other keys than its schema.
    wanted: RefCell<BTreeSet<(String, bool)>>,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(document: &'d Document<'d>, direction: Direction) -> Self {
        Self { document, direction, wanted: RefCell::default() }
    }

    /// Returns the first mismatch of a value with a schema of the document.
    pub(super) fn mismatch(&self, schema: &Value, value: Value) -> Option<String> {
        let whole = self.whole(schema);
        let compiled = match JsonSchema::compile(whole) {
            Ok(compiled) => compiled,
            Err(error) => return Some(format!("its schema at `{}` {error}", error.pointer)),
        };
        match compiled.check(&Plain::from_serde(value), &Budget::default()) {
            Ok(()) => None,
            Err(CheckError::Invalid(error)) => Some(format!("`{}` {error}", error.pointer)),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Returns the schema with all that it refers to.
    fn whole(&self, schema: &Value) -> Value {
        let mut whole = self.convert(schema, true);
        let mut made = Map::new();
        loop {
            let wanted =
                self.wanted.borrow().iter().find(|one| !made.contains_key(&definition(one))).cloned();
            let Some(wanted) = wanted else { break };
            let target = self.document.root.pointer(&crate::http::decode(&wanted.0));
            let converted = target.map_or(json!(true), |target| self.convert(target, wanted.1));
            made.insert(definition(&wanted), converted);
        }
        match &mut whole {
            Value::Object(whole) => _ = whole.insert("$defs".to_owned(), Value::Object(made)),
            other => *other = json!(true),
        }
        whole
    }

    /// Converts a schema. `is_closed` is true if no other schema beside it describes keys of the same value.
    fn convert(&self, schema: &Value, is_closed: bool) -> Value {
        let Some(map) = schema.as_object() else { return json!(true) };
        if let Some(target) =
            map.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'))
        {
            let wanted = (target.to_owned(), is_closed);
            let reference = format!("#/$defs/{}", definition(&wanted));
            self.wanted.borrow_mut().insert(wanted);
            return json!({ "$ref": reference });
        }
        let mut made = Map::new();
        for word in SAME {
            // The answer of an example may be abridged.
            let counts = |value: &&Value| {
                word != "required" || self.direction == Direction::Request && value.is_array()
            };
            if let Some(value) = map.get(word).filter(counts) {
                made.insert(word.to_owned(), value.clone());
            }
        }
        self.convert_type(map, &mut made);
        self.convert_object(map, is_closed, &mut made);
        if let Some(items) = map.get("items") {
            made.insert("items".to_owned(), self.convert(items, true));
        }
        if map.get("nullable") == Some(&json!(true)) { nullable(made) } else { Value::Object(made) }
    }

    fn convert_type(&self, map: &Map<String, Value>, made: &mut Map<String, Value>) {
        match map.get("type") {
            // A file of version 2.0.
            Some(kind) if kind == "file" => {}
            Some(kind) => _ = made.insert("type".to_owned(), kind.clone()),
            None => {}
        }
    }

    fn convert_object(&self, map: &Map<String, Value>, is_closed: bool, made: &mut Map<String, Value>) {
        let own = map.get("properties").and_then(Value::as_object);
        let absent = |schema: &Value| self.document.resolve(schema)[self.direction.absent()] == true;
        if let Some(own) = own {
            let converted = own.iter().filter(|(_, schema)| !absent(schema));
            let converted: Map<String, Value> =
                converted.map(|(name, schema)| (name.clone(), self.convert(schema, true))).collect();
            if let Some(Value::Array(required)) = made.get_mut("required") {
                required.retain(|name| {
                    name.as_str().is_none_or(|name| own.get(name).is_none_or(|schema| !absent(schema)))
                });
            }
            made.insert("properties".to_owned(), Value::Object(converted));
        }
        let has_lists = LISTS.iter().any(|(word, _)| map.contains_key(*word));
        let mut alternatives = Vec::new();
        for (word, becomes) in LISTS {
            let Some(schemas) = map.get(word).and_then(Value::as_array) else { continue };
            // A branch that stands for the whole value is as strict as the value itself.
            let is_whole = is_closed && own.is_none() && word != "allOf" && !map.contains_key("allOf");
            let schemas = schemas.iter().map(|schema| self.convert(schema, is_whole)).collect::<Vec<_>>();
            alternatives.push(json!({ becomes: schemas }));
        }
        let is_split = alternatives.len() > 1;
        for alternative in alternatives {
            if let (Value::Object(alternative), false) = (&alternative, is_split) {
                made.extend(alternative.clone());
            }
            if is_split
                && let Some(Value::Array(all)) = Some(made.entry("allOf").or_insert_with(|| json!([])))
            {
                all.push(alternative);
            }
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(open)) => _ = made.insert("additionalProperties".to_owned(), json!(open)),
            Some(schema) => {
                let schema = self.convert(schema, true);
                made.insert("additionalProperties".to_owned(), schema);
            }
            None if is_closed && own.is_some_and(|own| !own.is_empty())
                || is_closed && has_lists && map.contains_key("allOf") =>
            {
                made.insert("unevaluatedProperties".to_owned(), json!(false));
            }
            None => {}
        }
    }

    /// Gives the texts of a form the types of their schema.
    pub(super) fn typed(&self, schema: &Value, value: &Value) -> Value {
        self.typed_at(schema, value, 0)
    }

    fn typed_at(&self, schema: &Value, value: &Value, depth: usize) -> Value {
        let schema = self.document.resolve(schema);
        if depth == MAX_DEPTH {
            return value.clone();
        }
        let branches = LISTS.iter().filter_map(|(word, _)| schema[*word].as_array()).flatten();
        let branches: Vec<&Value> = branches.collect();
        match value {
            Value::String(text) => {
                let typed = scalar(schema, text);
                let of_branch = || {
                    let mut made = branches.iter().map(|branch| self.typed_at(branch, value, depth + 1));
                    made.find(|made| made != value)
                };
                typed.or_else(of_branch).unwrap_or_else(|| value.clone())
            }
            Value::Object(map) if schema["items"].is_object() => {
                map.values().map(|item| self.typed_at(&schema["items"], item, depth + 1)).collect()
            }
            Value::Array(list) if schema["items"].is_object() => {
                list.iter().map(|item| self.typed_at(&schema["items"], item, depth + 1)).collect()
            }
            Value::Object(map)
                if schema["properties"].is_object() || schema["additionalProperties"].is_object() =>
            {
                let of = |name: &str| match &schema["properties"][name] {
                    Value::Null => &schema["additionalProperties"],
                    property => property,
                };
                let typed =
                    map.iter().map(|(name, value)| (name.clone(), self.typed_at(of(name), value, depth + 1)));
                Value::Object(typed.collect())
            }
            Value::Object(_) | Value::Array(_) => {
                let mut made = branches.iter().map(|branch| self.typed_at(branch, value, depth + 1));
                made.find(|made| made != value).unwrap_or_else(|| value.clone())
            }
            other => other.clone(),
        }
    }
}

/// Returns the value of a text for a simple type; `None` if it stays a text.
fn scalar(schema: &Value, text: &str) -> Option<Value> {
    match schema["type"].as_str()? {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text.parse::<f64>().ok().map(Value::from),
        "boolean" => text.parse::<bool>().ok().map(Value::from),
        _ => None,
    }
}

/// Adds null to the values of a schema.
fn nullable(schema: Map<String, Value>) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// The key of a referred schema under `$defs`.
fn definition((target, is_closed): &(String, bool)) -> String {
    let name: String =
        target.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    if *is_closed { format!("{name}.closed") } else { name }
}
