//! The keywords of JSON Schema (draft 2020-12), and the schemas inside a schema.

use serde_json::{Map, Value};

/// What stands under a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Schema,
    Schemas,
    NamedSchemas,
    Data,
}

const KEYWORDS: [(&str, Holds); 59] = [
    ("additionalProperties", Holds::Schema),
    ("propertyNames", Holds::Schema),
    ("items", Holds::Schema),
    ("contains", Holds::Schema),
    ("not", Holds::Schema),
    ("if", Holds::Schema),
    ("then", Holds::Schema),
    ("else", Holds::Schema),
    ("unevaluatedItems", Holds::Schema),
    ("unevaluatedProperties", Holds::Schema),
    ("contentSchema", Holds::Schema),
    ("allOf", Holds::Schemas),
    ("anyOf", Holds::Schemas),
    ("oneOf", Holds::Schemas),
    ("prefixItems", Holds::Schemas),
    ("properties", Holds::NamedSchemas),
    ("patternProperties", Holds::NamedSchemas),
    ("dependentSchemas", Holds::NamedSchemas),
    ("$defs", Holds::NamedSchemas),
    ("type", Holds::Data),
    ("enum", Holds::Data),
    ("const", Holds::Data),
    ("required", Holds::Data),
    ("dependentRequired", Holds::Data),
    ("multipleOf", Holds::Data),
    ("maximum", Holds::Data),
    ("exclusiveMaximum", Holds::Data),
    ("minimum", Holds::Data),
    ("exclusiveMinimum", Holds::Data),
    ("maxLength", Holds::Data),
    ("minLength", Holds::Data),
    ("pattern", Holds::Data),
    ("maxItems", Holds::Data),
    ("minItems", Holds::Data),
    ("uniqueItems", Holds::Data),
    ("maxContains", Holds::Data),
    ("minContains", Holds::Data),
    ("maxProperties", Holds::Data),
    ("minProperties", Holds::Data),
    ("format", Holds::Data),
    ("contentEncoding", Holds::Data),
    ("contentMediaType", Holds::Data),
    ("title", Holds::Data),
    ("description", Holds::Data),
    ("default", Holds::Data),
    ("deprecated", Holds::Data),
    ("readOnly", Holds::Data),
    ("writeOnly", Holds::Data),
    ("examples", Holds::Data),
    ("$schema", Holds::Data),
    ("$id", Holds::Data),
    ("$ref", Holds::Data),
    ("$anchor", Holds::Data),
    ("$dynamicRef", Holds::Data),
    ("$dynamicAnchor", Holds::Data),
    ("$comment", Holds::Data),
    ("$vocabulary", Holds::Data),
    ("externalDocs", Holds::Data),
    ("discriminator", Holds::Data),
];

/// The names of the keywords.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    KEYWORDS.iter().map(|(name, _)| *name)
}

/// Calls `visit` with every schema inside a schema, itself first, each with where it stands (RFC 6901).
pub(super) fn walk<'s>(schema: &'s Value, visit: &mut dyn FnMut(&'s Map<String, Value>, &str)) {
    walk_at(schema, "", visit);
}

fn walk_at<'s>(schema: &'s Value, at: &str, visit: &mut dyn FnMut(&'s Map<String, Value>, &str)) {
    let Some(map) = schema.as_object() else { return };
    visit(map, at);
    for (key, value) in map {
        let Some((_, holds)) = KEYWORDS.iter().find(|(name, _)| name == key) else { continue };
        subschemas(*holds, value, &format!("{at}/{key}"), &mut |schema, at| walk_at(schema, at, visit));
    }
}

/// Calls `visit` with each schema directly inside `map`, which stands at `at`, and with its place. Beside the keywords,
/// these are the schemas under `definitions`, the name of `$defs` in earlier drafts.
pub(super) fn children<'s>(map: &'s Map<String, Value>, at: &str, visit: &mut dyn FnMut(&'s Value, &str)) {
    for (key, value) in map {
        let known = KEYWORDS.iter().find(|(name, _)| name == key).map(|(_, holds)| *holds);
        if let Some(holds) = known.or((key == "definitions").then_some(Holds::NamedSchemas)) {
            subschemas(holds, value, &format!("{at}/{key}"), visit);
        }
    }
}

fn subschemas<'s>(holds: Holds, value: &'s Value, at: &str, visit: &mut dyn FnMut(&'s Value, &str)) {
    match (holds, value) {
        (Holds::Schema, schema) => visit(schema, at),
        (Holds::Schemas, Value::Array(schemas)) => {
            for (index, schema) in schemas.iter().enumerate() {
                visit(schema, &format!("{at}/{index}"));
            }
        }
        (Holds::NamedSchemas, Value::Object(schemas)) => {
            for (name, schema) in schemas {
                visit(schema, &format!("{at}/{}", escaped(name)));
            }
        }
        _ => {}
    }
}

/// A name as a part of a JSON Pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
