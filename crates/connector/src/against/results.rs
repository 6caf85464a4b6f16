//! Compares the declared type of a result with the described response.

use model::ResultType;
use serde_json::Value;

use super::operation::Exchange;
use crate::import::Document;

/// The largest depth of a type that is compared.
const MAX_DEPTH: usize = 12;

impl Exchange<'_> {
    /// Returns the declared fields that the response of the operation has not.
    pub(super) fn result_differences(&self, declared: &ResultType) -> Vec<String> {
        let Some(schema) = self.response_schema() else { return Vec::new() };
        let mut found = Vec::new();
        compare(self.document, declared, schema, "", 0, &mut found);
        found
    }
}

fn compare(
    document: &Document<'_>,
    declared: &ResultType,
    schema: &Value,
    at: &str,
    depth: usize,
    found: &mut Vec<String>,
) {
    let described = alternatives(document, schema, 0);
    if depth == MAX_DEPTH || described.iter().any(|schema| is_open(schema)) {
        return;
    }
    for kind in declared.alternatives() {
        match kind {
            ResultType::Object(object) => {
                for field in &object.fields {
                    let at = if at.is_empty() { field.name.clone() } else { format!("{at}.{}", field.name) };
                    let schemas = described.iter().copied();
                    let fields: Vec<&Value> =
                        schemas.filter_map(|schema| property(schema, &field.name)).collect();
                    match fields.as_slice() {
                        [] => found.push(format!("the result `{at}` is not in the described answer")),
                        [schema, ..] => compare(document, &field.kind, schema, &at, depth + 1, found),
                    }
                }
            }
            ResultType::List { items } => {
                let lists: Vec<&&Value> =
                    described.iter().filter(|schema| schema["items"].is_object()).collect();
                match lists.as_slice() {
                    [] => found.push(format!("the result `{at}` is described as no list")),
                    [list, ..] => {
                        compare(document, items, &list["items"], &format!("{at}[]"), depth + 1, found);
                    }
                }
            }
            simple => {
                if !described.iter().any(|schema| is_kind(simple, schema)) {
                    let words = simple.describe();
                    found.push(format!("the result `{at}` is described as something else than {words}"));
                }
            }
        }
    }
}

/// Returns the schemas that describe a value, each without references and lists of schemas.
fn alternatives<'d>(document: &'d Document<'_>, schema: &'d Value, depth: usize) -> Vec<&'d Value> {
    let schema = document.resolve(schema);
    let mut all = vec![schema];
    let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| schema[*word].as_array());
    if depth < MAX_DEPTH {
        all.extend(lists.flatten().flat_map(|branch| alternatives(document, branch, depth + 1)));
    }
    let is_bare = |schema: &&Value| {
        let lists = ["allOf", "anyOf", "oneOf"].iter().any(|word| schema[*word].is_array());
        !lists || schema["properties"].is_object() || schema["type"].is_string()
    };
    all.into_iter().filter(is_bare).collect()
}

/// True if the schema says nothing about the value.
fn is_open(schema: &Value) -> bool {
    let says = ["type", "properties", "items", "enum", "const", "additionalProperties"];
    let is_any_map = schema["type"] == "object"
        && !schema["properties"].is_object()
        && !schema["additionalProperties"].is_object();
    !says.iter().any(|word| schema.get(*word).is_some()) || is_any_map
}

fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema["properties"]
        .get(name)
        .or_else(|| Some(&schema["additionalProperties"]).filter(|more| more.is_object()))
}

fn is_kind(kind: &ResultType, schema: &Value) -> bool {
    let of = |words: &[&str]| match &schema["type"] {
        Value::String(one) => words.contains(&one.as_str()),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(|one| words.contains(&one)),
        _ => schema["enum"].is_array() || schema.get("const").is_some(),
    };
    match kind {
        ResultType::Null => schema["nullable"] == true || of(&["null"]),
        ResultType::Text | ResultType::Choice { .. } => of(&["string"]),
        ResultType::Integer => of(&["integer", "number"]),
        ResultType::Number => of(&["number", "integer"]),
        ResultType::Boolean => of(&["boolean"]),
        ResultType::Map { .. } => of(&["object"]) || schema["properties"].is_object(),
        _ => true,
    }
}
