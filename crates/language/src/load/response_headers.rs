//! Rules for headers, media type and JSON of responses: static responses of webhooks, and `respond` steps.

use model::reserved_headers::reserved_header_reason;
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Node, Text};
use value::mime::json_error;

use super::common::{inner, shorten};

/// Statuses whose response has no body (RFC 9110 6.4.1 and 15.3.6).
pub(super) const WITHOUT_BODY: [u16; 3] = [204, 205, 304];

/// Checks a header's name.
pub(super) fn name(name: &str, span: Span, diagnostics: &Diagnostics) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        let message = format!("`{}` is no header name", shorten(name));
        let help = "a header name has letters, digits and `-`";
        diagnostics.push(Diagnostic::error("forbidden-header", message, span).help(help));
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let Some(reason) = reserved_header_reason(&lower) else { return true };
    let help = match lower.as_str() {
        "content-type" => "write `contentType: …` beside `headers`".to_owned(),
        _ => format!("{reason}; remove it"),
    };
    let message = format!("the header `{}` cannot be set", shorten(name));
    diagnostics.push(Diagnostic::error("forbidden-header", message, span).help(help));
    false
}

/// Checks a literal header value.
pub(super) fn value(value: &str, span: Span, diagnostics: &Diagnostics) -> bool {
    let fine = value.chars().all(|c| c == '\t' || !c.is_control());
    if !fine {
        let message = "a header's value is one line without control characters";
        diagnostics.push(Diagnostic::error("forbidden-header", message, span));
    }
    fine
}

/// Checks a media type.
pub(super) fn content_type(text: &Text, diagnostics: &Diagnostics) -> bool {
    let value = &text.value;
    let essence = value.split(';').next().unwrap_or_default().trim();
    let part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
    let fine = essence.split_once('/').is_some_and(|(kind, sub)| part(kind) && part(sub));
    if !fine || value.contains(|c: char| c.is_control() || !c.is_ascii()) || value.starts_with(' ') {
        let message = format!("`{}` is no content type", shorten(value));
        let help = "write a type and a subtype, like `application/json` or `text/plain; charset=utf-8`";
        diagnostics.push(Diagnostic::error("invalid-content-type", message, inner(text)).help(help));
        return false;
    }
    true
}

/// Checks that a text is JSON up to its first expression, and reports the error position.
pub(super) fn json(text: &Text, diagnostics: &Diagnostics) -> bool {
    let error = match text.value.split_once("${{") {
        Some((start, _)) => json_error(start, false),
        None => serde_json::from_str::<serde::de::IgnoredAny>(&text.value).err(),
    };
    let Some(error) = error else { return true };
    let line_start =
        text.value.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = (line_start + error.column().saturating_sub(1)).min(text.value.len());
    let at = text.value.floor_char_boundary(at);
    let end = text.value[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    let full = error.to_string();
    let words = full.split(" at line ").next().unwrap_or_default();
    let message = format!("the content type is JSON, but this body is not: {words}");
    diagnostics.push(
        Diagnostic::error("invalid-json", message, text.locate_span(at, end))
            .help("correct it, or write another `contentType`"),
    );
    false
}

/// Redirect statuses, which need `location`.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Warns of a redirect without `location`, and of HTML sent as plain text, in the response at `node`.
pub(super) fn incomplete(node: &Node, diagnostics: &Diagnostics) {
    let Some(map) = node.as_map() else { return };
    let warn = |key: &str, message: String, help: &str| {
        let span = map.entry(key).map_or_else(|| node.head(), |entry| entry.key_span);
        diagnostics.push(Diagnostic::warning("missing-key", message, span).help(help));
    };
    let status = node.get("status").and_then(Node::as_integer).and_then(|status| u16::try_from(status).ok());
    let names = |headers: &Node| match headers.as_map() {
        Some(map) => map.iter().any(|entry| entry.key.eq_ignore_ascii_case("location")),
        None => !headers.is_null(),
    };
    if let Some(status) = status.filter(|status| REDIRECTS.contains(status))
        && !node.get("headers").is_some_and(names)
    {
        let message = format!("a redirect ({status}) needs the header `location`: it says where to");
        warn("status", message, "add `headers: {location: https://…}`");
    }
    let body = node.get("body").and_then(Node::as_str).unwrap_or_default().trim_start();
    let starts = |with: &str| body.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    if ["<!doctype html", "<html"].into_iter().any(starts) && map.entry("contentType").is_none() {
        let message = "this page is sent as `text/plain`, so a browser shows its source".to_owned();
        warn("body", message, "add `contentType: text/html`");
    }
}

/// Reports a body that would never be sent.
pub(super) fn no_body(status: u16, span: Span, diagnostics: &Diagnostics) {
    let message = format!("an answer with the status {status} has no body, so this is never sent");
    diagnostics
        .push(Diagnostic::warning("body-not-sent", message, span).help("remove it, or take the status 200"));
}
