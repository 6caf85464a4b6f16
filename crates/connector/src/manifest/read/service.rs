//! Reads how a service states errors, takes the key of a call and limits its callers, and the proof of a manifest.

use ::http::HeaderName;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader};
use value::Value;

use crate::http::{ErrorShape, Mark, RateHeaders, RateUnit};
use crate::manifest::{Idempotency, Proof, ProofKind};

/// Reads the `errors` section.
pub(super) fn errors(mut reader: MapReader<'_, '_>) -> ErrorShape {
    let mut list = |key| {
        let items = reader.take(key).one_or_more().unwrap_or_default();
        items.into_iter().filter_map(|item| item.name().map(str::to_owned)).collect::<Vec<_>>()
    };
    let (message, detail, code) = (list("message"), list("detail"), list("code"));
    let (request_id, retry, unknown) = (list("requestId"), list("retry"), list("unknown"));
    let when = reader.take("when").map("the mark of a refusal").and_then(mark);
    let retry_after = reader.take("retryAfter").name().map(str::to_owned);
    for (key, codes) in [("retry", &retry), ("unknown", &unknown)] {
        if !codes.is_empty() && code.is_empty() {
            let message = format!("`{key}` lists codes, and nothing says where an answer has its code");
            let diagnostic = Diagnostic::error("missing-key", message, reader.key_span(key));
            reader.diagnostics().push(diagnostic.help("add `code: path` beside it"));
        }
    }
    reader.finish();
    ErrorShape { message, detail, code, request_id, when, retry, unknown, retry_after }
}

/// Reads a mark in a response: a path, and the value or the values that it may lead to.
pub(super) fn mark(mut reader: MapReader<'_, '_>) -> Option<Mark> {
    let path = reader.required("path").name().map(str::to_owned);
    let is = match reader.take("is").node().map(|node| Value::from_serde(node.to_json())) {
        None => Vec::new(),
        Some(Value::List(values)) => values.0.clone(),
        Some(value) => vec![value],
    };
    reader.finish();
    Some(Mark { path: path?, is })
}

/// Reads the placement of the key of a call: `none`, `safe`, `{header: NAME}` or `{body: PATH}`. `None` if the key is absent.
pub(super) fn idempotency(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Idempotency> {
    let node = field.node()?;
    if node.as_map().is_none() {
        let words = [("none", false), ("safe", true)];
        return field
            .one_of(&words)
            .map(|is_safe| if is_safe { Idempotency::Safe } else { Idempotency::None });
    }
    let mut reader = MapReader::new(node, "idempotency", diagnostics)?;
    let placed = match reader.exactly_one_of(&["header", "body"]) {
        Some("header") => {
            let header = reader.take("header");
            let name = header.name()?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                header.error("invalid-header", format!("`{name}` is not the name of a header"));
            });
            name.ok().map(Idempotency::Header)
        }
        Some(_) => {
            let path = reader.take("body").name();
            path.map(|path| Idempotency::Body(path.split('.').map(str::to_owned).collect()))
        }
        None => None,
    };
    reader.finish();
    placed
}

/// Reads the `rate` section.
pub(super) fn rate(mut reader: MapReader<'_, '_>) -> Option<RateHeaders> {
    let mut header = |key| reader.required(key).name().map(str::to_ascii_lowercase);
    let (remaining, reset) = (header("remaining"), header("reset"));
    let unit = reader.take("unit").one_of(&[
        ("seconds", RateUnit::Seconds),
        ("milliseconds", RateUnit::Milliseconds),
        ("epoch", RateUnit::Epoch),
        ("time", RateUnit::Time),
    ]);
    reader.finish();
    Some(RateHeaders { remaining: remaining?, reset: reset?, unit: unit.unwrap_or(RateUnit::Seconds) })
}

/// Reads the `proof` section.
pub(super) fn proof(mut reader: MapReader<'_, '_>) -> Option<Proof> {
    let by = reader.required("by").one_of(&[
        ("openapi", ProofKind::OpenApi),
        ("examples", ProofKind::Examples),
        ("live", ProofKind::Live),
    ]);
    let date = reader.required("date");
    let day = date.name().filter(|text| {
        let is_day = text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10;
        if !is_day {
            date.error("wrong-date", format!("`{text}` is not a day; write it like `2026-11-30`"));
        }
        is_day
    });
    reader.finish();
    Some(Proof { by: by?, date: day?.to_owned() })
}
