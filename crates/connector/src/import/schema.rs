//! Conversion of JSON Schemas to types of inputs and results.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::document::{Document, one_line, pascal};

/// The largest depth of an input type; deeper parts are `any`.
const MAX_DEPTH: usize = 4;
/// The largest depth of a result type; deeper parts are `any`.
const MAX_RESULT_DEPTH: usize = 8;
/// The largest number of parts of a result type, including the types that it refers to.
const MAX_PARTS: usize = 800;
/// The largest number of options of a choice; with more it is text.
const MAX_OPTIONS: usize = 100;

/// Flattens `allOf` recursively.
pub(super) fn merged(document: &Document<'_>, schema: &Value) -> Value {
    let mut whole = document.resolve(schema).clone();
    for _ in 0..MAX_DEPTH {
        if !whole["allOf"].is_array() {
            break;
        }
        whole = merged_once(document, &whole);
    }
    whole
}

fn merged_once(document: &Document<'_>, schema: &Value) -> Value {
    let parts = schema["allOf"].as_array().cloned().unwrap_or_default();
    let mut whole = schema.as_object().cloned().unwrap_or_default();
    whole.remove("allOf");
    for part in parts.iter().map(|part| document.resolve(part)) {
        for (key, value) in part.as_object().into_iter().flatten() {
            match (whole.get_mut(key), value) {
                (Some(Value::Object(mine)), Value::Object(more)) => mine.extend(more.clone()),
                (Some(Value::Array(mine)), Value::Array(more)) => mine.extend(more.clone()),
                (Some(_), _) => {}
                (None, _) => _ = whole.insert(key.clone(), value.clone()),
            }
        }
    }
    Value::Object(whole)
}

/// Returns the type of a schema, and true if it may be null.
fn kind(schema: &Value) -> (&str, bool) {
    let nullable = schema["nullable"] == true;
    match &schema["type"] {
        Value::String(kind) => (kind, nullable),
        Value::Array(kinds) => {
            let has_null = kinds.iter().any(|kind| kind == "null");
            let mut others = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            match (others.next(), others.next()) {
                (Some(one), None) => (one, nullable || has_null),
                _ => ("", nullable || has_null),
            }
        }
        _ if schema["properties"].is_object() => ("object", nullable),
        _ if options(schema).is_some() => ("string", nullable),
        _ => ("", nullable),
    }
}

/// Returns the possible texts of a value; `None` if it is not an enumeration of texts.
fn options(schema: &Value) -> Option<Vec<&str>> {
    let options = schema["enum"].as_array()?.iter().filter(|option| !option.is_null());
    let options: Vec<&str> = options.map(Value::as_str).collect::<Option<_>>()?;
    (!options.is_empty() && options.len() <= MAX_OPTIONS && options.iter().all(|option| !option.is_empty()))
        .then_some(options)
}

/// Returns the keys of an input type.
pub(super) fn input(document: &Document<'_>, schema: &Value, depth: usize) -> Map<String, Value> {
    let schema = &merged(document, schema);
    let any = json!({"type": "any"});
    let made = match kind(schema).0 {
        "string" if schema["format"] == "binary" => json!({"type": "file"}),
        "file" => json!({"type": "file"}),
        "string" => match options(schema) {
            Some(options) => json!({"type": "choice", "options": options}),
            None => json!({"type": "text"}),
        },
        "integer" => {
            let mut made = json!({"type": "integer"});
            for (key, bound) in [("min", &schema["minimum"]), ("max", &schema["maximum"])] {
                if bound.is_i64() {
                    made[key] = bound.clone();
                }
            }
            made
        }
        "number" => json!({"type": "number"}),
        "boolean" => json!({"type": "boolean"}),
        "array" => json!({"type": "list", "items": inner(document, &schema["items"], depth)}),
        "object" if depth < MAX_DEPTH => match schema["properties"].as_object().filter(|all| !all.is_empty())
        {
            Some(properties) => {
                let fields =
                    properties.iter().filter(|(_, field)| document.resolve(field)["readOnly"] != true);
                let fields = fields.map(|(name, field)| {
                    (name.clone(), Value::Object(one_field(document, schema, name, field, depth)))
                });
                json!({"type": "object", "fields": fields.collect::<Map<_, _>>()})
            }
            None if schema["additionalProperties"].is_object() => {
                json!({"type": "map", "values": inner(document, &schema["additionalProperties"], depth)})
            }
            None => json!({"type": "map", "values": "any"}),
        },
        _ => any,
    };
    made.as_object().cloned().unwrap_or_default()
}

fn one_field(
    document: &Document<'_>,
    of: &Value,
    name: &str,
    schema: &Value,
    depth: usize,
) -> Map<String, Value> {
    let mut made = input(document, schema, depth + 1);
    if is_required(of, name) {
        made.insert("required".into(), json!(true));
    }
    describe(document, schema, &mut made);
    made
}

/// Returns the type of items or values: a single word if that suffices.
fn inner(document: &Document<'_>, schema: &Value, depth: usize) -> Value {
    if depth >= MAX_DEPTH {
        return json!("any");
    }
    let made = input(document, schema, depth + 1);
    let is_word = made.len() == 1 && made["type"] != "choice";
    if is_word { made["type"].clone() } else { Value::Object(made) }
}

/// True if the schema requires this property.
pub(super) fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name))
}

/// Adds a one-line description.
pub(super) fn describe(document: &Document<'_>, schema: &Value, made: &mut Map<String, Value>) {
    let own = schema["description"].as_str().or_else(|| document.resolve(schema)["description"].as_str());
    let line = one_line(own.unwrap_or_default(), 160);
    if !line.is_empty() {
        made.insert("description".into(), json!(line));
    }
}

/// Result types; named ones are declared when first used.
#[derive(Default)]
pub(super) struct Results {
    pub types: Map<String, Value>,
    /// The type and its number of parts by name.
    known: HashMap<String, (Value, usize)>,
    /// The types under construction; a recursive reference to one becomes `any`.
    open: Vec<String>,
}

impl Results {
    /// Returns the result type of a schema.
    pub(super) fn result_type(&mut self, document: &Document<'_>, schema: &Value) -> Value {
        let (made, size) = self.one(document, schema, 0);
        if size > MAX_PARTS { json!("any") } else { made }
    }

    fn one(&mut self, document: &Document<'_>, schema: &Value, depth: usize) -> (Value, usize) {
        if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
            return self.named(document, &pascal(&crate::http::decode(name)), schema, depth);
        }
        let schema = &merged(document, schema);
        let (kind, nullable) = kind(schema);
        let (mut made, size) = match kind {
            "string" => match options(schema) {
                Some(options) => (json!({"type": "choice", "options": options}), 1),
                None => (json!({"type": "text"}), 1),
            },
            "integer" | "number" | "boolean" => (json!({"type": kind}), 1),
            "array" if depth < MAX_RESULT_DEPTH => {
                let (items, size) = self.one(document, &schema["items"], depth + 1);
                (json!({"type": "list", "items": items}), size + 1)
            }
            "object" if depth < MAX_RESULT_DEPTH => self.object(document, schema, depth),
            _ => (json!({"type": "any"}), 1),
        };
        if size > MAX_PARTS {
            return (json!("any"), 1);
        }
        if nullable && made["type"] != "any" {
            made["nullable"] = json!(true);
        }
        let is_word = made.as_object().is_some_and(|made| made.len() == 1);
        (if is_word { made["type"].clone() } else { made }, size)
    }

    fn object(&mut self, document: &Document<'_>, schema: &Value, depth: usize) -> (Value, usize) {
        let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
            if !schema["additionalProperties"].is_object() {
                return (json!({"type": "any"}), 1);
            }
            let (values, size) = self.one(document, &schema["additionalProperties"], depth + 1);
            return (json!({"type": "map", "values": values}), size + 1);
        };
        let (mut fields, mut whole) = (Map::new(), 1);
        for (name, property) in
            properties.iter().filter(|(_, property)| document.resolve(property)["writeOnly"] != true)
        {
            let (made, size) = self.one(document, property, depth + 1);
            whole += size;
            let mut field = match made {
                Value::Object(field) => field,
                word => Map::from_iter([("type".to_owned(), word)]),
            };
            if !is_required(schema, name) {
                field.insert("optional".into(), json!(true));
            }
            describe(document, property, &mut field);
            fields.insert(name.clone(), Value::Object(field));
        }
        let mut made = json!({"type": "object", "fields": fields});
        if schema["additionalProperties"] == true || schema["additionalProperties"].is_object() {
            made["open"] = json!(true);
        }
        (made, whole)
    }

    fn named(&mut self, document: &Document<'_>, name: &str, schema: &Value, depth: usize) -> (Value, usize) {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        if self.open.iter().any(|open| open == name) || depth >= MAX_RESULT_DEPTH {
            return (json!("any"), 1);
        }
        self.open.push(name.to_owned());
        let (made, size) = self.one(document, document.resolve(schema), depth);
        self.open.pop();
        // A simple type needs no name, and a type that is too large gets none.
        let known = if made.is_object() && size <= MAX_PARTS {
            self.types.insert(name.to_owned(), made);
            (json!(name), size)
        } else {
            (made, size.min(MAX_PARTS))
        };
        self.known.insert(name.to_owned(), known.clone());
        known
    }
}
