//! Reads the YAML of a manifest into its checked form, and reports all problems with their positions.

mod action;
mod connection;
mod event;
mod graphql;
mod hosts;
mod input;
mod operation;
mod paging;
mod service;
mod types;
mod upload;

use std::sync::Arc;

use ::http::{HeaderName, HeaderValue};
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source};
use text::yaml::{Field, MapReader, Node, parse};
use value::{Map, Value};

use super::example::Mismatch;
use super::{Example, Head, Manifest, NativeSettings, Natives, Shown, example};
use crate::action::Action;
use crate::connection::BaseUrl;
use crate::http::ErrorShape;
use crate::stages::StatusExample;
use input::DeclaredInput;
use types::Types;

/// Reads a manifest. Returns `None` if there are errors; the report also has warnings.
pub(crate) fn read(source: Arc<Source>, natives: &Natives) -> (Option<Manifest>, Report) {
    let diagnostics = Diagnostics::new(source);
    let manifest = parse(&diagnostics).and_then(|node| manifest(&node, natives, &diagnostics));
    let report = diagnostics.into_report();
    (manifest.filter(|_| !report.has_errors()), report)
}

/// The name of an action, and the request of its example or the reason why it has none.
type NamedExample = (String, Result<Shown, String>);

/// Returns the requests of all actions for the inputs of their examples, regardless of the requests in the examples.
///
/// # Errors
/// Returns the first other error of the manifest.
pub(crate) fn examples(source: Arc<Source>, natives: &Natives) -> Result<Vec<NamedExample>, String> {
    let diagnostics = Diagnostics::new(source);
    let manifest = parse(&diagnostics).and_then(|node| manifest(&node, natives, &diagnostics));
    let report = diagnostics.into_report();
    let wrong = |found: &&Diagnostic| found.severity == Severity::Error && found.code != "wrong-example";
    if let Some(found) = report.diagnostics().iter().find(wrong) {
        return Err(found.message.clone());
    }
    let actions = manifest.map(|manifest| manifest.actions).unwrap_or_default();
    let name = |action: &Arc<dyn Action>| action.spec().name.split_once('.').map(|(_, name)| name.to_owned());
    Ok(actions.iter().filter_map(|action| Some((name(action)?, example::show(&**action)?))).collect())
}

fn manifest(node: &Node, natives: &Natives, diagnostics: &Diagnostics) -> Option<Manifest> {
    let mut reader = MapReader::new(node, "a connector", diagnostics)?;
    let name_field = reader.required("connector");
    let name = identifier(name_field, diagnostics).unwrap_or_default();
    let title = reader.required("title").name().unwrap_or_default().to_owned();
    let version = reader.required("version").name().unwrap_or_default().to_owned();
    let description = reader.take("description").name().map(str::to_owned);
    let subject = reader.take("subject").name().map_or_else(|| title.clone(), str::to_owned);
    let base = reader
        .take("baseUrl")
        .text()
        .and_then(|text| base_url(text, reader.key_span("baseUrl"), diagnostics));
    let headers = headers(reader.take("headers"), diagnostics);
    let connections = connection::read(reader.take("connections"), &name, base.as_ref(), diagnostics);
    let required = reader.take("connection").one_of(&[("required", true), ("optional", false)]);
    let declared = input::declared(reader.take("inputs"), diagnostics);
    let types = Types::read(reader.take("types"), diagnostics);
    let paging = reader.take("paging").map("paging").map(paging::read);
    let errors = reader.take("errors").map("errors").map_or_else(ErrorShape::default, service::errors);
    let proof = reader.take("proof").map("a proof").and_then(service::proof);
    let idempotency = service::idempotency(reader.take("idempotency"), diagnostics).unwrap_or_default();
    let rate = reader.take("rate").map("a rate limit").and_then(service::rate);
    let rules = Arc::new(idempotency.rules(rate, None));
    let head = Arc::new(Head {
        connection_types: connections.iter().map(|connection| connection.name.clone()).collect(),
        connection_required: required.unwrap_or(!connections.is_empty()),
        name,
        title,
        version,
        description,
        subject,
        base,
        headers,
        paging,
        errors,
        proof,
        idempotency,
        rules,
    });
    paging::check(&head, &declared, &reader, diagnostics);
    let mut actions = action::read(reader.take("actions"), &head, &declared, &types, diagnostics);
    actions.extend(native_actions(reader.take("natives"), &head, natives, diagnostics));
    if actions.is_empty() && !reader.has("actions") && !reader.has("natives") {
        let message = "a connector needs actions";
        let help = "add `actions:` with at least one action";
        diagnostics.push(Diagnostic::error("missing-key", message, node.head()).help(help));
    }
    let events = event::read(reader.take("events"), &head, (&actions, &connections), diagnostics);
    warn_unused(&declared, diagnostics);
    types.warn_unused();
    reader.finish();
    let name_span = name_field.span().unwrap_or_default();
    Some(Manifest { head, name_span, connections, actions, events })
}

/// Reads a camelCase identifier: letters and digits, text_prefix with a lower-case letter.
fn identifier(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<String> {
    let name = field.string()?;
    check_identifier(name, field.span().unwrap_or_default(), diagnostics).then(|| name.to_owned())
}

fn check_identifier(name: &str, span: Span, diagnostics: &Diagnostics) -> bool {
    let good =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
    if !good {
        let message = format!("`{name}` is not a name; use camelCase, letters and digits only");
        diagnostics.push(Diagnostic::error("invalid-name", message, span));
    }
    good
}

fn base_url(text: &text::yaml::Text, span: Span, diagnostics: &Diagnostics) -> Option<BaseUrl> {
    let error = match BaseUrl::parse(&text.value, None) {
        Ok(base) => return Some(base),
        Err(error) => error,
    };
    diagnostics.push(Diagnostic::error("invalid-address", format!("`baseUrl` {error}"), span));
    None
}

fn headers(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let Some(value) = Field::new(&entry.value, &entry.key, diagnostics).string() else { continue };
        let name = HeaderName::from_bytes(entry.key.as_bytes());
        if name.is_err() || HeaderValue::from_bytes(value.as_bytes()).is_err() {
            let message = format!("`{}` is not a header that can be sent", entry.key);
            diagnostics.push(Diagnostic::error("invalid-header", message, entry.key_span));
        }
        headers.push((entry.key.clone(), value.to_owned()));
    }
    headers
}

fn native_actions(
    field: Field<'_, '_>,
    head: &Arc<Head>,
    natives: &Natives,
    diagnostics: &Diagnostics,
) -> Vec<Arc<dyn Action>> {
    let mut actions = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let Some((name, build)) = natives.iter().find(|(name, _)| *name == entry.key) else {
            let message = format!("`{}` is not a native action", entry.key);
            let names = natives.iter().map(|(name, _)| *name);
            let diagnostic = Diagnostic::error("unknown-native", message, entry.key_span);
            diagnostics.push(diagnostic.expected_names(&entry.key, names));
            continue;
        };
        let Some(mut reader) = MapReader::new(&entry.value, "a native action", diagnostics) else { continue };
        let path = reader.take("path").name().map(str::to_owned);
        let example = reader.required("example").map("an example").map(read_native_example);
        reader.finish();
        let shown = example.as_ref().map_or(Value::Null, |(example, _)| Value::from(example.with.clone()));
        match build(head, &NativeSettings { name, path, example: shown }) {
            Ok(action) => {
                if let Some((example, node)) = &example {
                    check_example(&*action, example, node, diagnostics);
                }
                actions.push(action);
            }
            Err(message) => diagnostics.push(Diagnostic::error("invalid-native", message, entry.key_span)),
        }
    }
    actions
}

/// Reads an example, and returns it with its node for the positions of mismatches.
fn read_example<'n>(reader: MapReader<'n, '_>) -> (Example, &'n Node) {
    read_any_example(reader, true)
}

/// Reads an example of an action that may send no request.
fn read_native_example<'n>(reader: MapReader<'n, '_>) -> (Example, &'n Node) {
    read_any_example(reader, false)
}

fn read_any_example<'n>(mut reader: MapReader<'n, '_>, sends: bool) -> (Example, &'n Node) {
    let map = |field: Field<'_, '_>| match field.entries() {
        Some(_) => field
            .node()
            .map(|node| Value::from_serde(node.to_json()))
            .and_then(|value| value.as_map().cloned()),
        None => None,
    };
    let status = if sends { reader.take("status").map("the last answer").and_then(status) } else { None };
    let example = Example {
        with: map(reader.required("with")).unwrap_or_default(),
        request: if sends { reader.required("request") } else { reader.take("request") }
            .name()
            .unwrap_or_default()
            .to_owned(),
        body: reader.take("body").node().map(|node| Value::from_serde(node.to_json())),
        headers: map(reader.take("headers")).unwrap_or_else(Map::new),
        answer: if sends {
            reader.take("answer").node().map(|node| Value::from_serde(node.to_json()))
        } else {
            None
        },
        status,
    };
    let node = reader.node();
    reader.finish();
    (example, node)
}

/// Reads the last look at the operation of an example.
fn status(mut reader: MapReader<'_, '_>) -> Option<StatusExample> {
    let request = reader.required("request").name().map(str::to_owned);
    let answer = reader.required("answer").node().map(|node| Value::from_serde(node.to_json()));
    reader.finish();
    Some(StatusExample { request: request?, answer: answer? })
}

/// Reports a mismatch between an example and the request of the action.
fn check_example(action: &dyn Action, example: &Example, node: &Node, diagnostics: &Diagnostics) {
    let Err(mismatch) = example::check(action, example) else { return };
    let (key, words) = match mismatch {
        Mismatch::With(words) => ("with", words),
        Mismatch::Request(words) => ("request", words),
        Mismatch::Body(words) => ("body", words),
        Mismatch::Headers(words) => ("headers", words),
    };
    let span = node.get(key).map_or_else(|| node.head(), Node::head);
    let message = format!("the example does not show what the action does: {words}");
    diagnostics.push(Diagnostic::error("wrong-example", message, span));
}

fn warn_unused(declared: &[DeclaredInput], diagnostics: &Diagnostics) {
    for input in declared.iter().filter(|input| !input.used.get()) {
        let message = format!("the input `{}` is used by no action", input.spec.name);
        let help = "name it in the `inputs` of an action, or remove it";
        diagnostics.push(Diagnostic::warning("unused-input", message, input.span).help(help));
    }
}
