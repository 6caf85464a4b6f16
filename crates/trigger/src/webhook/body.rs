//! A body by its content type.

use std::error::Error as _;

use model::value::{JsonError, JsonLimits};
use model::{File, Value};

use super::content_type::{self, Kind, MOST_PARSED};
use super::{fields, multipart};
use crate::Rejection;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What `body.data` is. `raw` is the same body as a value, for those kinds that are files.
pub(super) fn parse(body: &File, raw: &Value) -> Result<Value, Rejection> {
    if body.data.is_empty() {
        // Probes and `DELETE`s often name a type and send nothing.
        return Ok(Value::Null);
    }
    let kind = content_type::kind(&body.content_type);
    if matches!(kind, Kind::Multipart | Kind::Binary) {
        return if kind == Kind::Multipart { multipart::parse(body) } else { Ok(raw.clone()) };
    }
    let too_large = |_| Rejection::payload_too_large(MOST_PARSED);
    let data = match (kind, body.data.in_memory()) {
        // What is kept outside was looked at while it arrived, and is no document of JSON.
        (Kind::Unknown, None) => return Ok(raw.clone()),
        _ => &body.data.load(MOST_PARSED).map_err(too_large)?,
    };
    match kind {
        Kind::Json => json(data, "request body"),
        Kind::Form => match fields::decode(data) {
            Some(map) => Ok(Value::from(map)),
            None => Err(Rejection::bad_request("bad_form", "request body has too many form fields")),
        },
        Kind::Text => Ok(Value::from(content_type::decode(data, &body.content_type))),
        Kind::Binary | Kind::Multipart | Kind::Unknown => {
            // Only what looks like a document of JSON: bytes that happen to be `1` or `null` stay bytes.
            let value = looks_like_json(data).then(|| json(data, "request body"));
            Ok(value.and_then(Result::ok).unwrap_or_else(|| raw.clone()))
        }
    }
}

/// Whether a body of this type, beginning so, has to be in memory to be read.
pub(super) fn is_read_whole(content_type: &str, start: &[u8]) -> bool {
    match content_type::kind(content_type) {
        Kind::Json | Kind::Form | Kind::Text => true,
        Kind::Multipart | Kind::Binary => false,
        Kind::Unknown => looks_like_json(start),
    }
}

fn looks_like_json(data: &[u8]) -> bool {
    matches!(without_mark(data).trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Reads JSON from outside; `what` begins the sentence of a refusal.
pub(super) fn json(data: &[u8], what: &str) -> Result<Value, Rejection> {
    let data = without_mark(data);
    if data.is_empty() {
        return Ok(Value::Null);
    }
    let limits = JsonLimits::default();
    Value::from_json(data, limits).map_err(|error| {
        if is_too_large(&error) {
            let JsonLimits { depth, nodes } = limits;
            let most = format!(
                "{what} is more JSON than is taken: at most {depth} levels and {nodes} keys and items"
            );
            Rejection::bad_request("json_too_large", most)
        } else {
            Rejection::bad_request("bad_json", format!("{what} is not valid JSON"))
        }
    })
}

/// Whether it was JSON, but over the limits: only they are errors of the data rather than of its writing.
fn is_too_large(error: &JsonError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<serde_json::Error>());
    cause.is_some_and(serde_json::Error::is_data)
}

fn without_mark(data: &[u8]) -> &[u8] {
    data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data)
}
