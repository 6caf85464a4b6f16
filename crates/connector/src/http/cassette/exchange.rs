//! The serialised form of an exchange, readable and comparable.

use std::collections::BTreeMap;

use ::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use value::Data;
use value::redact::{MASK, Redactor};

use super::super::multipart::Part;
use super::super::request::{Body, Request};
use super::super::response::Response;
use super::call::RecordedCall;
use super::mask::Mask;

/// Request headers that differ in each execution; recording them would only add noise.
const VOLATILE_HEADERS: [&str; 3] =
    ["idempotency-key", crate::trace::TRACE_HEADER, crate::trace::TRACEPARENT];

/// Exchanges in the order in which they happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    /// The exchanges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Exchange>,
    /// The calls of actions that send no request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RecordedCall>,
}

/// One request and its response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange {
    /// The request.
    pub request: RecordedRequest,
    /// The response.
    pub response: RecordedResponse,
}

/// A recorded request. Replay compares method, address and body; the headers are for readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The address, including the query.
    pub url: String,
    /// The headers by lower-case name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderValues>,
    /// The body.
    #[serde(default, skip_serializing_if = "RecordedBody::is_empty")]
    pub body: RecordedBody,
}

/// A recorded response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedResponse {
    /// The status.
    pub status: u16,
    /// The headers by lower-case name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderValues>,
    /// The body.
    #[serde(default, skip_serializing_if = "RecordedBody::is_empty")]
    pub body: RecordedBody,
}

/// One value of a header, or several if it is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeaderValues {
    /// A single value.
    One(String),
    /// Several values in order.
    Many(Vec<String>),
}

/// A body in its most readable form: at most one field is set, and none for an empty body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedBody {
    /// A JSON object or array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Any other text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes that are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The parts of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<RecordedPart>>,
}

/// A part of a form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedPart {
    /// The name of the field.
    pub name: String,
    /// The file name; `None` for a plain field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The media type; `None` for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The content.
    #[serde(default, skip_serializing_if = "RecordedBody::is_empty")]
    pub body: RecordedBody,
}

impl RecordedRequest {
    pub(super) fn new(request: &Request<Data>, url: &Url, headers: &HeaderMap, mask: &Mask) -> Self {
        let body = match &request.body {
            Body::Empty => RecordedBody::default(),
            Body::Whole(data) => RecordedBody::new(&data.for_display(), media_type(headers).as_deref(), mask),
            Body::Multipart(parts) => RecordedBody {
                parts: Some(parts.iter().map(|part| RecordedPart::new(part, mask)).collect()),
                ..RecordedBody::default()
            },
        };
        Self {
            method: request.method.to_string(),
            url: mask.mask_url(url),
            headers: recorded_headers(headers, &VOLATILE_HEADERS, mask),
            body,
        }
    }

    /// Method and address.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.url)
    }

    /// True if the other request has the same method, address and body.
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.method == other.method && self.url == other.url && self.body == other.body
    }

    /// True if the other request has the same method and path, and is therefore probably the same call.
    pub(super) fn is_similar(&self, other: &Self) -> bool {
        let path = |url: &str| {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            let path = rest.split_once('/').map_or("", |(_, path)| path);
            path.split('?').next().unwrap_or_default().to_owned()
        };
        self.method == other.method && path(&self.url) == path(&other.url)
    }

    /// Describes the differences of another request from this recorded one.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.url != other.url {
            found.push(format!("the address was recorded as {}", self.url));
        }
        if self.body != other.body {
            match (&self.body.json, &other.body.json) {
                (Some(recorded), Some(sent)) => differences("body", recorded, sent, &mut found),
                _ => found.push(format!(
                    "the body was recorded as {}, and is {}",
                    self.body.summary(),
                    other.body.summary()
                )),
            }
        }
        found
    }
}

/// Describes the differences of the inputs of a call from recorded ones.
pub(super) fn input_differences(recorded: &Value, made: &Value) -> Vec<String> {
    let mut found = Vec::new();
    differences("with", recorded, made, &mut found);
    found
}

/// Collects the differences of two JSON values.
fn differences(path: &str, recorded: &Value, sent: &Value, found: &mut Vec<String>) {
    match (recorded, sent) {
        (Value::Object(recorded), Value::Object(sent)) => {
            for (key, value) in recorded {
                match sent.get(key) {
                    Some(other) => differences(&format!("{path}.{key}"), value, other, found),
                    None => found
                        .push(format!("`{path}.{key}` was recorded as {}, and is not there", excerpt(value))),
                }
            }
            for (key, value) in sent.iter().filter(|(key, _)| !recorded.contains_key(key.as_str())) {
                found.push(format!("`{path}.{key}` is {}, and was not recorded", excerpt(value)));
            }
        }
        (Value::Array(recorded), Value::Array(sent)) if recorded.len() == sent.len() => {
            for (index, (one, other)) in recorded.iter().zip(sent).enumerate() {
                differences(&format!("{path}[{index}]"), one, other, found);
            }
        }
        (recorded, sent) if recorded == sent => {}
        (recorded, sent) => {
            found.push(format!("`{path}` was recorded as {}, and is {}", excerpt(recorded), excerpt(sent)));
        }
    }
}

fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl RecordedResponse {
    pub(super) fn new(response: &Response, mask: &Mask) -> Self {
        // The body is stored decompressed, so headers about its transfer form no longer apply.
        let left_out = [CONTENT_LENGTH.as_str(), CONTENT_ENCODING.as_str(), TRANSFER_ENCODING.as_str()];
        Self {
            status: response.status.as_u16(),
            headers: recorded_headers(&response.headers, &left_out, mask),
            body: RecordedBody::new(&response.body, media_type(&response.headers).as_deref(), mask),
        }
    }

    /// Restores the response, apart from redactions.
    pub(super) fn to_response(&self, url: &Url) -> Result<Response, String> {
        let status =
            StatusCode::from_u16(self.status).map_err(|_| format!("`{}` is no status", self.status))?;
        let mut headers = HeaderMap::new();
        for (name, values) in &self.headers {
            let header =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no header"))?;
            for value in values.iter() {
                let value =
                    HeaderValue::from_str(value).map_err(|_| format!("`{name}` has no proper value"))?;
                headers.append(header.clone(), value);
            }
        }
        let body = self.body.to_bytes()?;
        Ok(Response { status, headers, body, url: url.clone(), redactor: Redactor::default(), parsed: None })
    }
}

impl HeaderValues {
    fn iter(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::One(value) => std::slice::from_ref(value).iter(),
            Self::Many(values) => values.iter(),
        }
    }
}

/// Returns the headers without those in `left_out`, with secrets masked.
fn recorded_headers(headers: &HeaderMap, left_out: &[&str], mask: &Mask) -> BTreeMap<String, HeaderValues> {
    let names = headers.keys().filter(|name| !left_out.contains(&name.as_str()));
    let kept = names.map(|name| {
        let values = headers.get_all(name).iter();
        let shown = |value: &HeaderValue| match value.is_sensitive() {
            true => MASK.to_owned(),
            false => mask.mask_named(name.as_str(), &String::from_utf8_lossy(value.as_bytes())),
        };
        let mut values: Vec<String> = values.map(shown).collect();
        let values =
            if values.len() == 1 { HeaderValues::One(values.remove(0)) } else { HeaderValues::Many(values) };
        (name.as_str().to_owned(), values)
    });
    kept.collect()
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let whole = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

impl RecordedBody {
    fn new(data: &Bytes, media_type: Option<&str>, mask: &Mask) -> Self {
        let none = Self::default();
        if data.is_empty() {
            return none;
        }
        let Ok(text) = std::str::from_utf8(data) else {
            return Self { base64: Some(STANDARD.encode(data)), ..none };
        };
        let media_type = media_type.unwrap_or_default();
        if media_type == "application/x-www-form-urlencoded" {
            return Self { text: Some(mask.mask_pairs(text)), ..none };
        }
        let is_json = media_type == "application/json" || media_type.ends_with("+json");
        match serde_json::from_str(text) {
            Ok(json @ (Value::Object(_) | Value::Array(_))) if is_json && is_exact(&json, text) => {
                Self { json: Some(mask.mask_json(json)), ..none }
            }
            _ => Self { text: Some(mask.mask_text(text)), ..none },
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn to_bytes(&self) -> Result<Bytes, String> {
        if let Some(json) = &self.json {
            return Ok(json.to_string().into());
        }
        if let Some(text) = &self.text {
            return Ok(text.clone().into());
        }
        match &self.base64 {
            Some(packed) => {
                STANDARD.decode(packed).map(Bytes::from).map_err(|error| format!("base64: {error}"))
            }
            None => Ok(Bytes::new()),
        }
    }

    fn summary(&self) -> String {
        match (&self.json, &self.text, &self.base64, &self.parts) {
            (Some(json), ..) => excerpt(json),
            (_, Some(text), ..) => excerpt(&Value::from(text.as_str())),
            (_, _, Some(packed), _) => format!("{} bytes", packed.len() / 4 * 3),
            (_, _, _, Some(parts)) => {
                let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
                format!("a form with {}", names.join(", "))
            }
            _ => "empty".to_owned(),
        }
    }
}

/// True if serialising the JSON restores the text: a number beyond exact range would change.
fn is_exact(json: &Value, text: &str) -> bool {
    fn numbers(json: &Value, found: &mut usize) {
        match json {
            Value::Number(number) if number.is_f64() => *found += 1,
            Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
            Value::Object(entries) => entries.values().for_each(|value| numbers(value, found)),
            _ => {}
        }
    }
    let mut floats = 0;
    numbers(json, &mut floats);
    // Integers of up to 64 bits are exact; others only if the text itself is restored.
    let comes_back =
        |written: Result<String, serde_json::Error>| written.is_ok_and(|written| written == text.trim());
    floats == 0 || comes_back(serde_json::to_string(json)) || comes_back(serde_json::to_string_pretty(json))
}

impl RecordedPart {
    fn new(part: &Part<Data>, mask: &Mask) -> Self {
        let media_type = part
            .content_type
            .as_deref()
            .map(|whole| whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        Self {
            name: part.name.clone(),
            file_name: part.file_name.clone(),
            content_type: part.content_type.clone(),
            body: RecordedBody::new(&part.content.for_display(), media_type.as_deref(), mask),
        }
    }
}
