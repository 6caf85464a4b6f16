//! `respond`: responds to the caller of a synchronous webhook.

use std::sync::Arc;

use expression::template::Template;
use model::automation::{RespondBody, RespondStep, SandboxPermission, Verb};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, Kind, MapReader, Node};
use value::{Map, Value, mime};

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{ANY_NAME, CONTENT_TYPE, Choice, Key, Object, Shape};
use crate::load::response_headers;
use crate::load::template::{holds_expression, template};

pub(super) static RESPONSE: Object = Object {
    what: "an answer",
    keys: &[
        Key::new(
            "status",
            Shape::AnyOf(&[Shape::Integer(200, 599), Shape::WrappedExpression]),
            "The status, 200 to 599. Default: 200.",
        ),
        Key::new(
            "contentType",
            Shape::AnyOf(&[Shape::Pattern(CONTENT_TYPE), Shape::WrappedExpression]),
            "The media type. Default: the body's own: text/plain, application/json, or the file's.",
        ),
        Key::new(
            "headers",
            Shape::AnyOf(&[
                Shape::MapOf(
                    ANY_NAME,
                    &Shape::AnyOf(&[Shape::Text, Shape::Bool, Shape::Number(f64::MIN, f64::MAX)]),
                ),
                Shape::WrappedExpression,
            ]),
            "Further headers.",
        ),
        Key::new("body", Shape::Template, "The body: a text is sent unchanged, any other value as JSON."),
        Key::new("json", Shape::Template, "The body: any value, sent as JSON."),
        Key::new("file", Shape::WrappedExpression, "The body as a file: its bytes with its type."),
        Key::new(
            "allow",
            Shape::OneOrMore(&Shape::Enum(&["forms", "scripts"])),
            "What a page may do although it is sandboxed: send `forms`, run `scripts`. Default: neither.",
        ),
    ],
    choice: Choice::AtMostOne(&["body", "json", "file"]),
};

pub(super) static RESPOND: VerbSpec = VerbSpec {
    word: "respond",
    what: "a `respond` step",
    about: "Answers the caller of a synchronous webhook; later steps still run. Its result is null.",
    marks: &["respond"],
    keys: &[Key::required(
        "respond",
        Shape::Object(&RESPONSE),
        "The answer: `{status, contentType, headers, body}`, with `json` or `file` instead of `body`.",
    )],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let reader = step.object("respond", &RESPONSE)?;
    Some(Verb::Respond(Box::new(response(reader))))
}

/// Lowers a response, also one that another verb sends.
pub(super) fn response(mut reader: MapReader<'_, '_>) -> RespondStep {
    let diagnostics = reader.diagnostics();
    let status = status(reader.take("status"), diagnostics);
    let content_type = content_type(reader.take("contentType"), diagnostics);
    let headers = headers(reader.take("headers"), diagnostics);
    let body = body(&mut reader, diagnostics);
    response_headers::incomplete(reader.node(), diagnostics);
    checked_body(&reader, &status, content_type.as_ref(), diagnostics);
    let allow = allow(reader.take("allow"));
    reader.finish();
    RespondStep { status, content_type, headers, body, allow }
}

/// A placeholder for a response that could not be read.
pub(super) fn empty_response() -> RespondStep {
    let headers = Template::Literal(Value::from(Map::new()));
    let status = Template::Literal(Value::from(200_u16));
    RespondStep { status, content_type: None, headers, body: RespondBody::Empty, allow: Vec::new() }
}

fn allow(field: Field<'_, '_>) -> Vec<SandboxPermission> {
    let rights = [("forms", SandboxPermission::Forms), ("scripts", SandboxPermission::Scripts)];
    let items = field.one_or_more().unwrap_or_default();
    items.into_iter().filter_map(|item| item.one_of(&rights)).collect()
}

fn status(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Template {
    let usual = Template::Literal(Value::from(200_u16));
    match field.node() {
        None => usual,
        Some(node) if holds_expression(node) && node.as_str().is_some() => template(node, diagnostics),
        Some(_) => field.integer(200..=599).map_or(usual, |status| Template::Literal(Value::from(status))),
    }
}

fn content_type(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Template> {
    let text = field.text()?;
    if text.value.contains("${{") || response_headers::content_type(text, diagnostics) {
        return field.node().map(|node| template(node, diagnostics));
    }
    None
}

fn headers(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Template {
    let none = || Template::Literal(Value::from(Map::new()));
    let Some(node) = field.node() else { return none() };
    if node.as_str().is_some() && holds_expression(node) {
        return template(node, diagnostics);
    }
    let Some(entries) = field.entries() else { return none() };
    let mut read = Vec::with_capacity(entries.len());
    for entry in entries {
        response_headers::name(&entry.key, entry.key_span, diagnostics);
        header_value(&entry.value, &entry.key, diagnostics);
        read.push((Arc::from(entry.key.as_str()), template(&entry.value, diagnostics)));
    }
    if read.is_empty() { none() } else { Template::Map(read) }
}

fn header_value(node: &Node, name: &str, diagnostics: &Diagnostics) {
    match &node.kind {
        Kind::String(text) if text.value.contains("${{") => {}
        Kind::String(text) => {
            response_headers::value(&text.value, node.span, diagnostics);
        }
        Kind::Bool(_) | Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {}
        Kind::Null | Kind::List(_) | Kind::Map(_) => {
            // Reports the actual type.
            let _ = Field::new(node, name, diagnostics).text();
        }
    }
}

fn body(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> RespondBody {
    if let Some(node) = reader.take("body").node() {
        return RespondBody::Body(template(node, diagnostics));
    }
    if let Some(node) = reader.take("json").node() {
        return RespondBody::Json(template(node, diagnostics));
    }
    let file = reader.take("file");
    let Some(node) = file.node() else { return RespondBody::Empty };
    if node.as_str().is_none() || !holds_expression(node) {
        let message = format!("expected an expression for `file`, found {}", node.kind_name());
        diagnostics.push(Diagnostic::error("wrong-type", message, node.head()).help(
            "a file comes from the trigger or another step: `file: ${{ steps.download.results.body }}`",
        ));
    }
    RespondBody::File(template(node, diagnostics))
}

/// Checks the body as far as its literal parts allow.
fn checked_body(
    reader: &MapReader<'_, '_>,
    status: &Template,
    content_type: Option<&Template>,
    diagnostics: &Diagnostics,
) {
    let status = status.literal().and_then(Value::as_i64).and_then(|status| u16::try_from(status).ok());
    if let Some(status) = status.filter(|status| response_headers::WITHOUT_BODY.contains(status)) {
        for key in ["body", "json", "file"].into_iter().filter(|key| reader.has(key)) {
            response_headers::no_body(status, reader.key_span(key), diagnostics);
        }
        return;
    }
    let is_json = content_type.and_then(Template::literal).and_then(Value::as_str).is_some_and(mime::is_json);
    if let Some(text) = reader.node().get("body").and_then(Node::as_text)
        && is_json
    {
        response_headers::json(text, diagnostics);
    }
}
