//! Reads the input declarations of a manifest, and their types.

use std::cell::Cell;

use model::{InputSpec, InputType};
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader, Node};
use value::Value;

use crate::input::convert_value;

/// The names of types in manifests.
const TYPES: [&str; 10] =
    ["any", "text", "integer", "number", "boolean", "choice", "list", "object", "map", "file"];

/// A declared input, to which actions refer.
pub(super) struct DeclaredInput {
    pub spec: InputSpec,
    /// True if the default is left out of the request, because it is the default of the service.
    pub omit_default: bool,
    /// The separator that joins the items of a list.
    pub join: Option<String>,
    /// The separator that splits a text passed for a list.
    pub split: Option<String>,
    /// True if an empty text is an error.
    pub not_empty: bool,
    /// The position of the name.
    pub span: Span,
    /// True if an action refers to it.
    pub used: Cell<bool>,
}

/// Reads the `inputs` section.
pub(super) fn declared(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<DeclaredInput> {
    let mut inputs = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        super::check_identifier(&entry.key, entry.key_span, diagnostics);
        let Some(mut reader) = MapReader::new(&entry.value, "an input", diagnostics) else { continue };
        let spec = spec(&entry.key, &mut reader);
        let omit_default = reader.take("omitDefault").bool().unwrap_or(false);
        if omit_default && spec.default.is_none() {
            let message = format!("`{}` has no default to omit", entry.key);
            let span = reader.key_span("omitDefault");
            diagnostics.push(Diagnostic::error("missing-default", message, span).help("add `default:`"));
        }
        let mut separator = |key| match spec.kind {
            InputType::List { .. } => reader.take(key).string().map(str::to_owned),
            _ => None,
        };
        let (join, split) = (separator("join"), separator("split"));
        let not_empty = spec.kind == InputType::Text && reader.take("notEmpty").bool().unwrap_or(false);
        reader.finish();
        inputs.push(DeclaredInput {
            spec,
            omit_default,
            join,
            split: split.filter(|split| !split.is_empty()),
            not_empty,
            span: entry.key_span,
            used: Cell::new(false),
        });
    }
    inputs
}

/// Reads the common keys of an input: type, description, `required` and `default`.
pub(super) fn spec(name: &str, reader: &mut MapReader<'_, '_>) -> InputSpec {
    let kind = kind(reader);
    let description = reader.take("description").name().map(str::to_owned);
    let required = reader.take("required").bool().unwrap_or(false);
    let default = reader.take("default").node().map(|node| default(&kind, node, name, reader.diagnostics()));
    if required && default.is_some() {
        let message = format!("`{name}` has a default, so it cannot be required");
        let diagnostic = Diagnostic::error("required-default", message, reader.key_span("required"));
        reader.diagnostics().push(diagnostic.help("remove one of the two"));
    }
    InputSpec { name: name.to_owned(), kind, required, default, description }
}

fn default(kind: &InputType, node: &Node, name: &str, diagnostics: &Diagnostics) -> Value {
    let value = Value::from_serde(node.to_json());
    convert_value(kind, &value).unwrap_or_else(|words| {
        let message = format!("the default of `{name}` {words}");
        diagnostics.push(Diagnostic::error("wrong-default", message, node.head()));
        value
    })
}

/// Reads a type: the key `type`, and the keys that belong to this type.
fn kind(reader: &mut MapReader<'_, '_>) -> InputType {
    match reader.required("type").choice(&TYPES) {
        Some("text") => InputType::Text,
        Some("integer") => {
            let bound = |field: Field<'_, '_>| field.integer(i64::MIN..=i64::MAX);
            InputType::Integer { min: bound(reader.take("min")), max: bound(reader.take("max")) }
        }
        Some("number") => InputType::Number,
        Some("boolean") => InputType::Boolean,
        Some("choice") => {
            let options = reader.required("options").strings().unwrap_or_default();
            InputType::Choice { options: options.into_iter().map(str::to_owned).collect() }
        }
        Some("list") => {
            InputType::List { items: Box::new(inner(reader.required("items"), reader.diagnostics())) }
        }
        Some("map") => {
            InputType::Map { values: Box::new(inner(reader.required("values"), reader.diagnostics())) }
        }
        Some("object") => {
            InputType::Object { fields: fields(reader.required("fields"), reader.diagnostics()) }
        }
        Some("file") => InputType::File,
        _ => InputType::Any,
    }
}

/// Reads the type of items or values: a simple type, or a mapping.
fn inner(field: Field<'_, '_>, diagnostics: &Diagnostics) -> InputType {
    let Some(node) = field.node() else { return InputType::Any };
    if node.as_map().is_some() {
        let Some(mut reader) = MapReader::new(node, "a type", diagnostics) else { return InputType::Any };
        let kind = kind(&mut reader);
        reader.finish();
        return kind;
    }
    match field.choice(&["any", "text", "integer", "number", "boolean", "file"]) {
        Some("text") => InputType::Text,
        Some("integer") => InputType::integer(),
        Some("number") => InputType::Number,
        Some("boolean") => InputType::Boolean,
        Some("file") => InputType::File,
        _ => InputType::Any,
    }
}

fn fields(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<InputSpec> {
    let mut fields = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let Some(mut reader) = MapReader::new(&entry.value, "a field", diagnostics) else { continue };
        fields.push(spec(&entry.key, &mut reader));
        reader.finish();
    }
    fields
}
