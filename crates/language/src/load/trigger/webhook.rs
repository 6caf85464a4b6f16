//! `webhook`: started by a request.

use std::time::Duration;

use model::automation::{Automation, StaticResponse, Trigger, WebhookMode, WebhookTrigger};
use text::diagnostic::{Diagnostic, Diagnostics, nearest};
use text::units::format_size;
use text::yaml::{Field, MapReader, Node};

use super::{body_schema, challenge, limits, verify};
use crate::load::common::{duration_within, no_expression, plain};
use crate::load::keys::{ANY_NAME, CONTENT_TYPE, Choice, Key, Object, Shape};
use crate::load::{code, response_headers};

/// The methods that start an execution.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The maximum of `maxBody`. Such a body is on disk, not in memory, and is forwarded from there; bodies that are read
/// completely, such as JSON, are limited to 25 MiB (threat model 4.2), whatever the value of `maxBody`.
pub(crate) const MAX_BODY: u64 = 512 << 20;
const MODES: [(&str, WebhookMode); 2] = [("async", WebhookMode::Async), ("sync", WebhookMode::Sync)];
const LEAST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

pub(in crate::load) static WEBHOOK: Object = Object {
    what: "a webhook",
    keys: &[
        Key::new(
            "mode",
            Shape::Enum(&["async", "sync"]),
            "The caller gets the execution's id at once (async), or waits for the result (sync). Default: async.",
        ),
        Key::new(
            "methods",
            Shape::OneOrMore(&Shape::Enum(&METHODS)),
            "The accepted methods; any other is answered with 405. Default: all five.",
        ),
        Key::new(
            "respond",
            Shape::Object(&RESPONSE),
            "The constant answer to the caller of an asynchronous webhook. Default: the execution's id.",
        ),
        Key::new(
            "timeout",
            Shape::Duration,
            "How long the caller of a synchronous webhook waits, 1s to 15m, before it is answered with 504. Default: 30s.",
        ),
        Key::new(
            "maxBody",
            Shape::Size,
            "The largest body, at most 512MiB; JSON, forms and text have at most 25MiB. Default: 6MiB.",
        ),
        Key::new(
            "verify",
            Shape::AnyOf(&[Shape::Enum(&["none"]), Shape::Object(&verify::VERIFY)]),
            "How the sender signs its requests, or `none` to accept everyone who knows the address.",
        ),
        Key::new(
            "challenge",
            Shape::AnyOf(&[Shape::Enum(challenge::WORDS), Shape::Object(&challenge::CHALLENGE)]),
            "How to answer the sender's check of the address, without an execution. Default: what the preset of `verify` has.",
        ),
        Key::new(
            "dedup",
            Shape::Object(&limits::DEDUP),
            "How to recognise a repeated delivery: it starts nothing, and gets the first answer. Default: nothing does.",
        ),
        Key::new(
            "rateLimit",
            Shape::Object(&limits::RATE_LIMIT),
            "How often it may be started; a request above the limit is answered with 429. Default: no limit.",
        ),
        Key::new(
            "schema",
            Shape::MapOf(ANY_NAME, &Shape::Template),
            "A JSON Schema (draft 2020-12) for the body; a body that does not match is answered with 400. Default: anything.",
        ),
        Key::new(
            "code",
            code::SHAPE,
            "A module that computes the payload, decides if the steps run, and computes the answer of an asynchronous start: \
             `export default async (context, payload) => ({payload, response: {statusCode, contentType, headers, body}})`; \
             with `run: false` no step runs.",
        ),
    ],
    choice: Choice::Any,
};

static RESPONSE: Object = Object {
    what: "a response",
    keys: &[
        Key::new("status", Shape::Integer(200, 599), "The status. Default: 200."),
        Key::new(
            "contentType",
            Shape::Pattern(CONTENT_TYPE),
            "The media type of the body. Default: text/plain.",
        ),
        Key::new("headers", Shape::MapOf(ANY_NAME, &Shape::Text), "Further headers."),
        Key::new("body", Shape::Text, "The body, a text. Default: the execution's id as JSON."),
    ],
    choice: Choice::Any,
};

pub(super) fn lower(node: &Node, diagnostics: &Diagnostics) -> Option<Trigger> {
    if node.is_null() {
        return Some(Trigger::Webhook(Box::new(usual())));
    }
    let mut reader = WEBHOOK.open(node, diagnostics)?;
    let mut webhook = usual();
    webhook.mode = reader.take("mode").one_of(&MODES).unwrap_or(webhook.mode);
    if let Some(methods) = methods(reader.take("methods"), diagnostics) {
        webhook.methods = methods;
    }
    webhook.respond = reader.take("respond").node().and_then(|node| response(node, diagnostics));
    let timeout =
        duration_within(reader.take("timeout"), "timeout", &(LEAST_WAIT..=LONGEST_WAIT), diagnostics);
    webhook.timeout = timeout.unwrap_or(webhook.timeout);
    let size = reader.take("maxBody");
    match size.size() {
        Some(bytes) if (1..=MAX_BODY).contains(&bytes) => {
            webhook.max_body = usize::try_from(bytes).unwrap_or(webhook.max_body);
        }
        Some(bytes) => {
            let most = format_size(MAX_BODY);
            size.error(
                "out-of-range",
                format!("`maxBody` must be from 1B to {most}, found {}", format_size(bytes)),
            );
        }
        None => {}
    }
    webhook.verify = verify::lower(reader.take("verify"), diagnostics);
    webhook.challenge =
        challenge::lower(reader.take("challenge"), node, webhook.verify.as_ref(), diagnostics);
    webhook.dedup = limits::dedup(reader.take("dedup"), node, webhook.verify.as_ref(), diagnostics);
    webhook.rate_limit = limits::rate(reader.take("rateLimit"), diagnostics);
    webhook.code = code::lower(reader.take("code"), diagnostics);
    webhook.schema = body_schema::lower(reader.take("schema"), diagnostics);
    if has_known_mode(node) {
        inert(&reader, webhook.mode, diagnostics);
    }
    reader.finish();
    Some(Trigger::Webhook(Box::new(webhook)))
}

fn usual() -> WebhookTrigger {
    WebhookTrigger {
        mode: WebhookMode::Async,
        methods: METHODS.map(str::to_owned).to_vec(),
        respond: None,
        timeout: Automation::DEFAULT_SYNC_TIMEOUT,
        max_body: Automation::DEFAULT_MAX_BODY,
        verify: None,
        schema: None,
        challenge: None,
        dedup: None,
        rate_limit: None,
        code: None,
    }
}

/// True if anyone may start it: there is no `verify`, and no unknown key that may be a misspelt one.
pub(in crate::load) fn is_unverified(node: &Node) -> bool {
    let is_known = |key: &str| WEBHOOK.keys.iter().any(|known| known.name == key);
    match node.as_map() {
        Some(map) => map.iter().all(|entry| entry.key != "verify" && is_known(&entry.key)),
        None => node.is_null(),
    }
}

/// True if the mode is known. It is unknown if its value cannot be read, or if an unknown key may be a misspelt `mode`.
pub(super) fn has_known_mode(node: &Node) -> bool {
    let Some(map) = node.as_map() else { return node.is_null() };
    let words = || MODES.iter().map(|(word, _)| *word);
    match map.get("mode") {
        Some(mode) => mode.as_str().is_some_and(|word| nearest(word, words()).is_some()),
        None => map.iter().all(|entry| WEBHOOK.keys.iter().any(|key| key.name == entry.key)),
    }
}

/// Reports settings without effect in the chosen mode (semantics 3.4).
fn inert(reader: &MapReader<'_, '_>, mode: WebhookMode, diagnostics: &Diagnostics) {
    if mode == WebhookMode::Sync && reader.has("respond") {
        let message = "`respond` has no effect: the caller of a synchronous webhook gets the result";
        diagnostics.push(
            Diagnostic::warning("unused-setting", message, reader.key_span("respond"))
                .help("remove it, answer with a `respond` step, or write `mode: async`"),
        );
    }
    if mode == WebhookMode::Async && reader.has("code") && reader.has("respond") {
        let message = "`code` and `respond` both answer the caller";
        diagnostics.push(
            Diagnostic::error("conflicting-keys", message, reader.key_span("respond"))
                .help("remove `respond`: what `code` returns as `response` is the answer"),
        );
    }
    if mode == WebhookMode::Async && reader.has("timeout") {
        let message = "`timeout` has no effect: the caller of an asynchronous webhook does not wait";
        diagnostics.push(
            Diagnostic::error("sync-only", message, reader.key_span("timeout"))
                .help("write `mode: sync`, or put `timeout` at the top of the file to limit the execution"),
        );
    }
}

fn methods(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<String>> {
    let items = field.one_or_more()?;
    if items.is_empty() {
        field.error("empty-list", "`methods` names none, so nothing could start this automation");
    }
    let mut found: Vec<String> = Vec::new();
    for item in items {
        let Some(method) = item.choice(&METHODS) else { continue };
        if found.iter().any(|other| other == method) {
            let message = format!("the method `{method}` is named twice");
            let span = item.span().unwrap_or_default();
            diagnostics.push(Diagnostic::warning("duplicate-value", message, span));
        } else {
            found.push(method.to_owned());
        }
    }
    Some(found)
}

fn response(node: &Node, diagnostics: &Diagnostics) -> Option<StaticResponse> {
    let mut reader = RESPONSE.open(node, diagnostics)?;
    response_headers::incomplete(node, diagnostics);
    let status = reader.take("status").integer(200..=599).and_then(|status| u16::try_from(status).ok());
    let status = status.unwrap_or(200);
    let content_type = reader.take("contentType");
    let content_type = plain(content_type, diagnostics).filter(|_| {
        content_type.text().is_some_and(|text| response_headers::content_type(text, diagnostics))
    });
    let headers = headers(reader.take("headers"), diagnostics);
    let body = reader.take("body").text().filter(|text| no_expression(text, diagnostics));
    if let Some(text) = body {
        if response_headers::WITHOUT_BODY.contains(&status) {
            response_headers::no_body(status, reader.key_span("body"), diagnostics);
        } else if content_type.is_some_and(value::mime::is_json) {
            response_headers::json(text, diagnostics);
        }
    } else if content_type.is_some() && !reader.has("body") {
        let message = "`contentType` has no effect without a `body`";
        diagnostics.push(
            Diagnostic::warning("unused-setting", message, reader.key_span("contentType"))
                .help("add `body: …`, or remove it: the execution's id is JSON"),
        );
    }
    reader.finish();
    Some(StaticResponse {
        status,
        content_type: content_type.map(str::to_owned),
        headers,
        body: body.map(|text| text.value.clone()),
    })
}

fn headers(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(String, String)> {
    let Some(entries) = field.entries() else { return Vec::new() };
    let read = entries.iter().filter_map(|entry| {
        let name = response_headers::name(&entry.key, entry.key_span, diagnostics);
        let text = Field::new(&entry.value, &entry.key, diagnostics).text()?;
        let fine = no_expression(text, diagnostics)
            && response_headers::value(&text.value, entry.value.span, diagnostics);
        (name && fine).then(|| (entry.key.clone(), text.value.clone()))
    });
    let read: Vec<(String, String)> = read.collect();
    let bytes: usize = read.iter().map(|(name, value)| name.len() + value.len()).sum();
    let (most, most_bytes) = (StaticResponse::MAX_HEADERS, StaticResponse::MAX_HEADER_BYTES);
    if read.len() > most || bytes > most_bytes {
        let message = format!("a response has at most {most} headers, of {most_bytes} bytes together");
        field.error("out-of-range", message);
    }
    read
}
