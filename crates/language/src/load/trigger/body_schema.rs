//! `webhook.schema`: the schema of the body.

use expression::json_schema::JsonSchema;
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, Kind, Node};

use crate::load::common::no_expression;

pub(super) fn lower(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<JsonSchema> {
    let node = field.node()?;
    field.entries()?;
    if !is_literal(node, diagnostics) {
        return None;
    }
    match JsonSchema::compile(node.to_json()) {
        Ok(schema) => {
            warn_of_strangers(&schema, node, diagnostics);
            Some(schema)
        }
        Err(error) => {
            let message = format!("this is not a JSON Schema (draft 2020-12): {}", place_and(&error));
            let (_, span) = find(node, &error.pointer).unwrap_or((node.head(), node.head()));
            diagnostics.push(Diagnostic::error("invalid-schema", message, span));
            None
        }
    }
}

/// The error, with its key.
fn place_and(error: &expression::json_schema::ValidationError) -> String {
    match error.pointer.rsplit('/').next().filter(|name| !name.is_empty()) {
        Some(name) => format!("`{name}` {error}"),
        None => error.to_string(),
    }
}

/// True if the schema contains no expressions.
fn is_literal(node: &Node, diagnostics: &Diagnostics) -> bool {
    match &node.kind {
        Kind::String(text) => no_expression(text, diagnostics),
        Kind::List(items) => items.iter().all(|item| is_literal(item, diagnostics)),
        Kind::Map(map) => map.iter().all(|entry| is_literal(&entry.value, diagnostics)),
        _ => true,
    }
}

/// An unknown keyword has no effect, so a misspelt one would silently accept everything.
fn warn_of_strangers(schema: &JsonSchema, node: &Node, diagnostics: &Diagnostics) {
    for (pointer, word, near) in schema.unknown_keywords() {
        let (span, _) = find(node, &pointer).unwrap_or((node.head(), node.head()));
        let message = format!("`{word}` is no keyword of JSON Schema, so it has no effect");
        let diagnostic = Diagnostic::warning("unknown-keyword", message, span).nearest(near);
        let help = "remove it, or begin it with `x-` if it is for another tool";
        diagnostics.push(if near.is_none() { diagnostic.help(help) } else { diagnostic });
    }
}

/// Resolves a JSON Pointer (RFC 6901): its last key, and the value there.
fn find(node: &Node, pointer: &str) -> Option<(Span, Span)> {
    let mut place = (node, node.head());
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        place = match &place.0.kind {
            Kind::Map(map) => map.entry(&name).map(|entry| (&entry.value, entry.key_span))?,
            Kind::List(items) => items.get(name.parse::<usize>().ok()?).map(|item| (item, item.head()))?,
            _ => return None,
        };
    }
    Some((place.1, place.0.head()))
}
