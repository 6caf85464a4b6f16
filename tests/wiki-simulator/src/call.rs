//! A request that has been read whole, and its answer or error.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::files::File;
use super::model::Kind;

/// The query of a request, in the order it was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    raw: String,
    pub(super) pairs: Vec<(String, String)>,
}

/// A request that has been read whole.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) method: String,
    /// Without the gateway's `/ex/{slug}/{cloudId}`.
    pub(super) path: String,
    /// The cloud id in the path of a call through the gateway.
    pub(super) cloud_id: Option<String>,
    /// The decoded segments of the path, without `/wiki/api/v2` on paths of that API.
    pub(super) segments: Vec<String>,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The files of a multipart body.
    pub(super) upload: Option<Result<Vec<File>, ApiError>>,
    /// The scopes of the caller, once authenticated; `None` for all rights.
    pub(super) scopes: Option<String>,
}

impl Call {
    /// A header as text; empty when it is absent.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn segment(&self, index: usize) -> &str {
        self.segments.get(index).map_or("", String::as_str)
    }

    /// The kind of content named by the first segment.
    pub(super) fn kind(&self) -> Result<Kind, ApiError> {
        Kind::of_path(self.segment(0)).ok_or_else(ApiError::not_found)
    }

    /// The id after the first segment.
    pub(super) fn id(&self) -> Result<u64, ApiError> {
        parse_id(self.kind()?, "id", self.segment(1))
    }

    /// The body as a JSON object.
    pub(super) fn json(&self) -> Result<Value, ApiError> {
        let bad = |error| ApiError::bad_request(format!("The body is not a JSON object: {error}"));
        serde_json::from_slice::<serde_json::Map<String, Value>>(&self.body).map(Value::Object).map_err(bad)
    }
}

impl Query {
    pub(super) fn parse(raw: &str) -> Self {
        let pairs = url::form_urlencoded::parse(raw.as_bytes()).into_owned().collect();
        Self { raw: raw.to_owned(), pairs }
    }

    /// The query as it was sent, without the parameter of this name.
    pub(super) fn raw_without<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.raw.split('&').filter(move |pair| !pair.is_empty() && pair.split('=').next() != Some(name))
    }

    /// The first value of this name. An empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        value.filter(|text| !text.is_empty())
    }

    /// The values of an array parameter: comma-separated, repeated, or both.
    pub(super) fn array(&self, name: &str) -> Vec<&str> {
        let values = self.pairs.iter().filter(|(key, _)| key == name).flat_map(|(_, value)| value.split(','));
        values.map(str::trim).filter(|value| !value.is_empty()).collect()
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(ApiError::wrong_type(name, other, "boolean")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, ApiError> {
        let parse = |text: &str| text.parse().map_err(|_| ApiError::wrong_type(name, text, "int"));
        self.get(name).map(parse).transpose()
    }

    /// A word of a closed set.
    pub(super) fn one_of(&self, name: &str, allowed: &[&str]) -> Result<Option<&str>, ApiError> {
        self.get(name).map(|word| check_word(name, word, allowed)).transpose()
    }
}

/// Returns the word if it is one of those allowed.
pub(super) fn check_word<'a>(name: &str, word: &'a str, allowed: &[&str]) -> Result<&'a str, ApiError> {
    if allowed.contains(&word) {
        return Ok(word);
    }
    let known = format!("Valid values: {}", allowed.join(", "));
    Err(ApiError::bad_parameter(format!("The value '{word}' is not valid for '{name}'. {known}")))
}

/// Reads an id: a decimal 64-bit number, with or without `att` for an attachment. A negative one becomes 0, which no
/// content has.
pub(super) fn parse_id(kind: Kind, name: &str, text: &str) -> Result<u64, ApiError> {
    let digits = if kind == Kind::Attachment { text.strip_prefix("att").unwrap_or(text) } else { text };
    let id = digits.parse::<i64>().map_err(|_| ApiError::wrong_type(name, text, "long"))?;
    Ok(u64::try_from(id).unwrap_or(0))
}

/// A failure of the simulator itself; no client sees it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(super) String);

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self(format!("cannot seed: {error}"))
    }
}

/// The shapes of error bodies: of the v2 API, of the API under `/wiki/rest/api`, of the gateway, of the token endpoint, and
/// plain text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    V2,
    V1,
    Gateway,
    OAuth,
    Text,
}

/// An error that the wiki answers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{status} {title}")]
pub struct ApiError {
    pub(super) shape: Shape,
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) title: String,
    pub(super) detail: Option<&'static str>,
    pub(super) header: Option<(&'static str, String)>,
}

impl ApiError {
    pub(super) fn new(shape: Shape, status: u16, code: &str, title: impl Into<String>) -> Self {
        Self { shape, status, code: code.to_owned(), title: title.into(), detail: None, header: None }
    }

    /// An error of the v2 API whose code is the name of its status.
    pub(super) fn v2(status: u16, title: impl Into<String>) -> Self {
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let code = reason.unwrap_or("Error").to_uppercase().replace(' ', "_");
        Self::new(Shape::V2, status, &code, title)
    }

    pub(super) fn bad_request(title: impl Into<String>) -> Self {
        Self::v2(400, title)
    }

    pub(super) fn bad_parameter(title: impl Into<String>) -> Self {
        Self::new(Shape::V2, 400, "INVALID_REQUEST_PARAMETER", title)
    }

    /// A value of the wrong type.
    pub(super) fn wrong_type(name: &str, value: &str, expected: &str) -> Self {
        let shown: String = value.chars().take(100).collect();
        Self::bad_parameter(format!(
            "The value {{{shown}}} for '{name}' is not the correct type. Expected type is {expected}"
        ))
    }

    /// The answer for content that does not exist or that the user may not see.
    pub(super) fn not_found() -> Self {
        Self::v2(404, "Not Found")
    }

    pub(super) fn stale_version(what: &str, current: u32, sent: i64) -> Self {
        let rule = format!("The version of a {what} must be incremented by one on every update.");
        Self::v2(409, format!("{rule} Current Version: [{current}]. Provided version: [{sent}]"))
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(Shape::V2, 413, "PAYLOAD_TOO_LARGE", format!("The body is larger than {limit} bytes"))
    }

    pub(super) fn gateway(status: u16, message: &str) -> Self {
        Self::new(Shape::Gateway, status, "", message)
    }

    pub(super) fn with(self, name: &'static str, value: &str) -> Self {
        Self { header: Some((name, value.to_owned())), ..self }
    }

    /// The same error as the API under `/wiki/rest/api` writes it.
    pub(super) fn into_v1(self) -> Self {
        Self { shape: if self.shape == Shape::V2 { Shape::V1 } else { self.shape }, ..self }
    }

    pub(super) fn reply(&self) -> Reply {
        let Self { status, code, title, detail, .. } = self;
        let body = match self.shape {
            Shape::V2 => {
                json!({"errors": [{"status": status, "code": code, "title": title, "detail": detail}]})
            }
            Shape::V1 => {
                let data = json!({"authorized": true, "valid": false, "errors": [], "successful": false});
                json!({"statusCode": status, "data": data, "message": title})
            }
            Shape::Gateway => json!({"code": status, "message": title}),
            Shape::OAuth => json!({"error": code, "error_description": title}),
            Shape::Text => return Reply::bytes(*status, "text/plain; charset=utf-8", title.clone().into()),
        };
        let mut reply = Reply::json(*status, &body);
        if let Some((name, value)) = &self.header {
            reply.set(name, value);
        }
        reply
    }
}

/// Fails with an error of the v2 API if the condition holds.
pub(super) fn reject_if(condition: bool, status: u16, title: impl Into<String>) -> Result<(), ApiError> {
    if condition { Err(ApiError::v2(status, title)) } else { Ok(()) }
}

/// An answer before it is written to the connection.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn empty(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(super) fn bytes(status: u16, media_type: &str, body: Bytes) -> Self {
        let mut reply = Self { body, ..Self::empty(status) };
        reply.set("content-type", media_type);
        reply
    }

    pub(super) fn json(status: u16, body: &impl Serialize) -> Self {
        Self::bytes(status, "application/json", serde_json::to_vec(body).unwrap_or_default().into())
    }

    pub(super) fn ok(body: &impl Serialize) -> Self {
        Self::json(200, body)
    }

    pub(super) fn redirect(location: &str) -> Self {
        let mut reply = Self::empty(302);
        reply.set("location", location);
        reply
    }

    /// Sets a header. A name or a value that HTTP cannot carry is left out.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            self.headers.insert(name, value);
        }
    }
}
