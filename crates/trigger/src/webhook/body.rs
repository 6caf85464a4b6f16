//! Parsing of a body by its content type.

use std::error::Error as _;

use encoding_rs::Encoding;
use value::{File, JsonError, JsonLimits, Reserved, Value, mime};

use super::content_type::{self, Kind, MAX_PARSED_BYTES};
use super::{multipart, urlencoded};
use crate::Rejection;

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
        _ => &body.data.load(MAX_PARSED_BYTES, &Reserved::uncounted(MAX_PARSED_BYTES)).map_err(too_large)?,
    };
    let charset = mime::charset(&body.content_type);
    match kind {
        Kind::Json => json(data, charset, "request body"),
        Kind::Form => match urlencoded::decode(data, charset) {
            Some(map) => Ok(Value::from(map)),
            None => Err(Rejection::bad_request("bad_form", "request body has too many form fields")),
        },
        Kind::Text => Ok(Value::from(mime::decode(data, charset).into_owned())),
        Kind::Binary | Kind::Multipart | Kind::Unknown => {
            // Require a list or a map, so that bytes such as `1` or `null` stay a file.
            let value = looks_like_json(data).then(|| json(data, None, "request body"));
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
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    matches!(data.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Parses JSON from outside; `what` is the subject of the error message.
pub(super) fn json(data: &[u8], charset: Option<&'static Encoding>, what: &str) -> Result<Value, Rejection> {
    let Some(text) = mime::decode_exact(data, charset) else {
        return Err(Rejection::bad_request("bad_json", invalid_text(data, charset, what)));
    };
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let limits = JsonLimits::default();
    Value::from_json(text.as_bytes(), limits).map_err(|error| {
        if is_too_large(&error) {
            let JsonLimits { depth, nodes } = limits;
            let most = format!(
                "{what} exceeds the limits of JSON: at most {depth} levels and {nodes} keys and items"
            );
            Rejection::bad_request("json_too_large", most)
        } else {
            Rejection::bad_request("bad_json", format!("{what} is not valid JSON: {error}"))
        }
    })
}

/// True if the JSON exceeds the limits; only such errors are data errors instead of syntax errors.
fn is_too_large(error: &JsonError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<serde_json::Error>());
    cause.is_some_and(serde_json::Error::is_data)
}

/// The message about bytes that are no text in their encoding.
fn invalid_text(data: &[u8], charset: Option<&'static Encoding>, what: &str) -> String {
    let declared = charset.or_else(|| Encoding::for_bom(data).map(|(encoding, _)| encoding));
    match (declared, std::str::from_utf8(data)) {
        (Some(encoding), _) => format!("{what} is not valid JSON: its bytes are not {}", encoding.name()),
        (None, Err(error)) => format!(
            "{what} is not valid JSON: byte {} is not UTF-8; another charset has to be named in the content-type, \
             such as `application/json; charset=windows-1252`",
            error.valid_up_to() + 1
        ),
        (None, Ok(_)) => format!("{what} is not valid JSON: its bytes are not UTF-8"),
    }
}
