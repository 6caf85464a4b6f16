//! The keywords of JSON Schema (draft 2020-12), and iteration over the subschemas of a schema.

use serde_json::{Map, Value};

/// The type of a keyword's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeywordValue {
    Schema,
    Schemas,
    NamedSchemas,
    Data,
}

const KEYWORDS: [(&str, KeywordValue); 59] = [
    ("additionalProperties", KeywordValue::Schema),
    ("propertyNames", KeywordValue::Schema),
    ("items", KeywordValue::Schema),
    ("contains", KeywordValue::Schema),
    ("not", KeywordValue::Schema),
    ("if", KeywordValue::Schema),
    ("then", KeywordValue::Schema),
    ("else", KeywordValue::Schema),
    ("unevaluatedItems", KeywordValue::Schema),
    ("unevaluatedProperties", KeywordValue::Schema),
    ("contentSchema", KeywordValue::Schema),
    ("allOf", KeywordValue::Schemas),
    ("anyOf", KeywordValue::Schemas),
    ("oneOf", KeywordValue::Schemas),
    ("prefixItems", KeywordValue::Schemas),
    ("properties", KeywordValue::NamedSchemas),
    ("patternProperties", KeywordValue::NamedSchemas),
    ("dependentSchemas", KeywordValue::NamedSchemas),
    ("$defs", KeywordValue::NamedSchemas),
    ("type", KeywordValue::Data),
    ("enum", KeywordValue::Data),
    ("const", KeywordValue::Data),
    ("required", KeywordValue::Data),
    ("dependentRequired", KeywordValue::Data),
    ("multipleOf", KeywordValue::Data),
    ("maximum", KeywordValue::Data),
    ("exclusiveMaximum", KeywordValue::Data),
    ("minimum", KeywordValue::Data),
    ("exclusiveMinimum", KeywordValue::Data),
    ("maxLength", KeywordValue::Data),
    ("minLength", KeywordValue::Data),
    ("pattern", KeywordValue::Data),
    ("maxItems", KeywordValue::Data),
    ("minItems", KeywordValue::Data),
    ("uniqueItems", KeywordValue::Data),
    ("maxContains", KeywordValue::Data),
    ("minContains", KeywordValue::Data),
    ("maxProperties", KeywordValue::Data),
    ("minProperties", KeywordValue::Data),
    ("format", KeywordValue::Data),
    ("contentEncoding", KeywordValue::Data),
    ("contentMediaType", KeywordValue::Data),
    ("title", KeywordValue::Data),
    ("description", KeywordValue::Data),
    ("default", KeywordValue::Data),
    ("deprecated", KeywordValue::Data),
    ("readOnly", KeywordValue::Data),
    ("writeOnly", KeywordValue::Data),
    ("examples", KeywordValue::Data),
    ("$schema", KeywordValue::Data),
    ("$id", KeywordValue::Data),
    ("$ref", KeywordValue::Data),
    ("$anchor", KeywordValue::Data),
    ("$dynamicRef", KeywordValue::Data),
    ("$dynamicAnchor", KeywordValue::Data),
    ("$comment", KeywordValue::Data),
    ("$vocabulary", KeywordValue::Data),
    ("externalDocs", KeywordValue::Data),
    ("discriminator", KeywordValue::Data),
];

/// The names of the keywords.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    KEYWORDS.iter().map(|(name, _)| *name)
}

/// Calls `visit` with a schema and all its subschemas, each with its JSON Pointer (RFC 6901).
pub(super) fn visit_schemas<'s>(schema: &'s Value, visit: &mut dyn FnMut(&'s Map<String, Value>, &str)) {
    visit_schemas_at(schema, "", visit);
}

fn visit_schemas_at<'s>(schema: &'s Value, at: &str, visit: &mut dyn FnMut(&'s Map<String, Value>, &str)) {
    let Some(map) = schema.as_object() else { return };
    visit(map, at);
    for (key, value) in map {
        let Some((_, kind)) = KEYWORDS.iter().find(|(name, _)| name == key) else { continue };
        visit_value(*kind, value, &format!("{at}/{key}"), &mut |schema, at| {
            visit_schemas_at(schema, at, visit)
        });
    }
}

/// Calls `visit` with each direct subschema of the schema `map` at the pointer `at`. Includes the schemas under
/// `definitions`, the name of `$defs` in earlier drafts.
pub(super) fn visit_subschemas<'s>(
    map: &'s Map<String, Value>,
    at: &str,
    visit: &mut dyn FnMut(&'s Value, &str),
) {
    for (key, value) in map {
        let known = KEYWORDS.iter().find(|(name, _)| name == key).map(|(_, kind)| *kind);
        if let Some(kind) = known.or((key == "definitions").then_some(KeywordValue::NamedSchemas)) {
            visit_value(kind, value, &format!("{at}/{key}"), visit);
        }
    }
}

fn visit_value<'s>(kind: KeywordValue, value: &'s Value, at: &str, visit: &mut dyn FnMut(&'s Value, &str)) {
    match (kind, value) {
        (KeywordValue::Schema, schema) => visit(schema, at),
        (KeywordValue::Schemas, Value::Array(schemas)) => {
            for (index, schema) in schemas.iter().enumerate() {
                visit(schema, &format!("{at}/{index}"));
            }
        }
        (KeywordValue::NamedSchemas, Value::Object(schemas)) => {
            for (name, schema) in schemas {
                visit(schema, &format!("{at}/{}", escape_token(name)));
            }
        }
        _ => {}
    }
}

/// Escapes a name as a token of a JSON Pointer.
pub(super) fn escape_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
