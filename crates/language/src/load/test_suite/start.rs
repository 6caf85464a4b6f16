//! Lowering of the start of a test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::automation::SpannedName;
use model::test_suite::{Request, RequestBody, Start};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, MapReader, Node};

use super::super::common::{inner, named};
use super::super::keys::{ANY_NAME, Choice, IDENTIFIER, Key, Object, Shape};
use super::super::response_headers;
use super::super::template::literal;
use super::{instant, values};

/// The methods of a request, also those that a webhook always rejects.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

pub(super) const INPUTS: Shape = Shape::MapOf(IDENTIFIER, &Shape::Template);

pub(super) static PAYLOAD: Object = Object {
    what: "a payload",
    keys: &[
        Key::new(
            "method",
            Shape::Enum(&METHODS),
            "The method. Default: POST, or the first that the webhook takes.",
        ),
        Key::new("pathFragment", Shape::Text, "The path after the token: `/pages/17`."),
        Key::new(
            "queryParameters",
            Shape::MapOf(ANY_NAME, &Shape::Template),
            "The parameters of the query; a list repeats its parameter.",
        ),
        Key::new(
            "headers",
            Shape::MapOf(ANY_NAME, &Shape::Text),
            "The headers. The default of `content-type` is that of the body.",
        ),
        Key::new("body", Shape::Template, "The body: a text is sent unchanged, any other value as JSON."),
        Key::new("bodyBase64", Shape::Text, "The body as bytes, in base64."),
        Key::new(
            "verify",
            Shape::Bool,
            "`true`: the signature in the headers is verified as the trigger says, with the test's secrets. \
             Default: false, and the request counts as one of the right sender.",
        ),
        Key::new(
            "bodyFile",
            Shape::NonBlankText,
            "The body as the bytes of a file in `automations/` or `payloads/`, by its path from the tests' folder.",
        ),
    ],
    choice: Choice::AtMostOne(&["body", "bodyBase64", "bodyFile"]),
};

/// The start of a test, with its span.
pub(super) fn read(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<(Start, Span)> {
    let [payload, inputs, due, found] =
        ["payload", "inputs", "scheduledAt", "found"].map(|key| reader.take(key));
    if let Some(node) = payload.node() {
        return Some((Start::Request(request(node, diagnostics)?), reader.key_span("payload")));
    }
    if inputs.is_present() {
        return Some((Start::Inputs(values(inputs, diagnostics)), reader.key_span("inputs")));
    }
    if let Some(node) = found.node() {
        let found = literal(node, "a value of a test", diagnostics);
        return Some((Start::Polled(found), reader.key_span("found")));
    }
    let at = instant(due, diagnostics)?;
    Some((Start::ScheduledAt(at), due.span().unwrap_or_default()))
}

fn request(node: &Node, diagnostics: &Diagnostics) -> Option<Request> {
    let mut reader = PAYLOAD.open(node, diagnostics)?;
    let field = reader.take("method");
    let method = field
        .choice(&METHODS)
        .map(|method| SpannedName { name: method.to_owned(), span: field.span().unwrap_or_default() });
    let path_fragment = reader.take("pathFragment").string().unwrap_or_default().to_owned();
    let query_parameters = values(reader.take("queryParameters"), diagnostics);
    let headers = headers(reader.take("headers"), diagnostics);
    let body = body(&mut reader, diagnostics);
    let verify = reader.take("verify").bool().unwrap_or(false);
    reader.finish();
    Some(Request { method, path_fragment, query_parameters, headers, body, verify })
}

fn headers(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(SpannedName, String)> {
    let entries = field.entries().into_iter().flatten();
    let read = entries.filter_map(|entry| {
        let text = Field::new(&entry.value, "headers", diagnostics).text()?;
        response_headers::value(&text.value, inner(text), diagnostics);
        Some((SpannedName { name: entry.key.clone(), span: entry.key_span }, text.value.clone()))
    });
    read.collect()
}

fn body(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> RequestBody {
    let [value, base64, file] = ["body", "bodyBase64", "bodyFile"].map(|key| reader.take(key));
    if let Some(node) = value.node() {
        return RequestBody::Value(literal(node, "a value of a test", diagnostics));
    }
    if let Some(text) = base64.text() {
        // Long values span several lines.
        let packed: String = text.value.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        return match STANDARD.decode(packed) {
            Ok(bytes) => RequestBody::Bytes(bytes.into()),
            Err(error) => {
                let message = format!("`bodyBase64` is no base64: {error}");
                diagnostics.push(Diagnostic::error("wrong-type", message, inner(text)));
                RequestBody::Empty
            }
        };
    }
    named(file, diagnostics).map_or(RequestBody::Empty, RequestBody::File)
}
