//! Parsing of a body by its content type.

use std::error::Error as _;

use model::value::{JsonError, JsonLimits, Reserved};
use model::{File, Value};

use super::content_type::{self, Kind, MAX_PARSED_BYTES};
use super::{multipart, urlencoded};
use crate::Rejection;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses `body.data`. `raw` is the same body as a file value.
pub(super) fn parse(body: &File, raw: &Value) -> Result<Value, Rejection> {
    if body.data.is_empty() {
        // Probes and `DELETE` requests often send a content type without a body.
        return Ok(Value::Null);
    }
    let kind = content_type::kind(&body.content_type);
    if matches!(kind, Kind::Multipart | Kind::Binary) {
        return if kind == Kind::Multipart { multipart::parse(body) } else { Ok(raw.clone()) };
    }
    let too_large = |_| Rejection::payload_too_large(MAX_PARSED_BYTES);
    let data = match (kind, body.data.in_memory()) {
        // The listener inspects a body before it spools it to disk, so an external body is not a JSON document.
        (Kind::Unknown, None) => return Ok(raw.clone()),
        // The listener has reserved memory for such a body, and loaded it.
        _ => &body.data.load(MAX_PARSED_BYTES, &Reserved::new(MAX_PARSED_BYTES, ())).map_err(too_large)?,
    };
    match kind {
        Kind::Json => json(data, "request body"),
        Kind::Form => match urlencoded::decode(data) {
            Some(map) => Ok(Value::from(map)),
            None => Err(Rejection::bad_request("bad_form", "request body has too many form fields")),
        },
        Kind::Text => Ok(Value::from(content_type::decode(data, &body.content_type))),
        Kind::Binary | Kind::Multipart | Kind::Unknown => {
            // Require a list or a map, so that bytes such as `1` or `null` stay a file.
            let value = looks_like_json(data).then(|| json(data, "request body"));
            Ok(value.and_then(Result::ok).unwrap_or_else(|| raw.clone()))
        }
    }
}

/// True if a body of this type and with this start must be in memory to be parsed.
pub(super) fn must_load(content_type: &str, start: &[u8]) -> bool {
    match content_type::kind(content_type) {
        Kind::Json | Kind::Form | Kind::Text => true,
        Kind::Multipart | Kind::Binary => false,
        Kind::Unknown => looks_like_json(start),
    }
}

fn looks_like_json(data: &[u8]) -> bool {
    matches!(strip_byte_order_mark(data).trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Parses JSON from outside; `what` is the subject of the error message.
pub(super) fn json(data: &[u8], what: &str) -> Result<Value, Rejection> {
    let data = strip_byte_order_mark(data);
    if data.is_empty() {
        return Ok(Value::Null);
    }
    let limits = JsonLimits::default();
    Value::from_json(data, limits).map_err(|error| {
        if is_too_large(&error) {
            let JsonLimits { depth, nodes } = limits;
            let most = format!(
                "{what} exceeds the limits of JSON: at most {depth} levels and {nodes} keys and items"
            );
            Rejection::bad_request("json_too_large", most)
        } else {
            Rejection::bad_request("bad_json", format!("{what} is not valid JSON"))
        }
    })
}

/// True if the JSON exceeds the limits; only such errors are data errors instead of syntax errors.
fn is_too_large(error: &JsonError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<serde_json::Error>());
    cause.is_some_and(serde_json::Error::is_data)
}

fn strip_byte_order_mark(data: &[u8]) -> &[u8] {
    data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data)
}
