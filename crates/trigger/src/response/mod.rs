//! All responses to callers, as plain values.
//!
//! Each passes [`seal`], so that a browser neither executes nor caches anything that an Automation or a request puts into a
//! response.

mod check;
mod code;
mod headers;
#[cfg(test)]
mod tests;

use model::automation::{StaticResponse, WebhookTrigger};
use model::payload::HeaderText;
use model::{ExecutionId, HttpResponse};
use value::{Data, FileLoadError, MAX_LOADED_BYTES, Map, Value, encode_json};

pub use check::{Problem, check_static_response};
pub use code::from_code;
pub use headers::seal;

use headers::{CONTENT_SECURITY_POLICY, SANDBOX_EXCEPTIONS, header_error, is_media_type};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The header with the execution's id, on every response that belongs to an execution.
pub const EXECUTION_ID: &str = "x-execution-id";

/// The response to an asynchronous start: the trigger's static response if it has one, else [`started`].
#[must_use]
pub fn asynchronous(trigger: &WebhookTrigger, id: &ExecutionId) -> HttpResponse {
    trigger.respond.as_ref().map_or_else(|| started(id), |definition| static_response(definition, id))
}

/// 200 with exactly `{"executionId": "…"}`.
#[must_use]
pub fn started(id: &ExecutionId) -> HttpResponse {
    let id = id.to_string();
    let body = [r#"{"executionId":""#, &id, r#""}"#].concat();
    // Equal to the output of `seal`. Most requests get this response, and it has no untrusted content.
    let headers = [
        ("content-type", JSON.into()),
        (EXECUTION_ID, id.into()),
        ("cache-control", "no-store".into()),
        ("x-content-type-options", "nosniff".into()),
        ("referrer-policy", "no-referrer".into()),
    ];
    let headers = headers.map(|(name, value)| (name.into(), value)).into();
    HttpResponse { status: 200, headers, body: body.into() }
}

/// A static response. Without a body of its own it has that of [`started`]; 204, 205 and 304 have no body.
#[must_use]
pub fn static_response(definition: &StaticResponse, id: &ExecutionId) -> HttpResponse {
    finish(build_static(definition, || execution_id(id)), id)
}

/// The response to a request that is captured for a listener and starts nothing: the trigger's static response if it has one,
/// else `{"captured": true}`.
#[must_use]
pub fn captured(trigger: &WebhookTrigger) -> HttpResponse {
    let default_body = || Value::from(Map::from_iter([("captured", true)]));
    let response = trigger.respond.as_ref().map(|definition| build_static(definition, default_body));
    seal(response.unwrap_or_else(|| HttpResponse::json(200, &default_body())))
}

/// A static response; if it has no body, the JSON of `default_body` is the body.
fn build_static(definition: &StaticResponse, default_body: impl FnOnce() -> Value) -> HttpResponse {
    let (content_type, body) = match &definition.body {
        Some(body) => {
            (definition.content_type.clone().map_or(TEXT.into(), HeaderText::from), Data::from(body.clone()))
        }
        None => (JSON.into(), default_body().to_json().into()),
    };
    let mut response = HttpResponse::new(definition.status, content_type, body);
    for (name, value) in &definition.headers {
        if header_error(name, value).is_none() {
            response = response.with_header(name.clone(), value.clone());
        }
    }
    response
}

/// The response to a synchronous start: the result of the last step. A text is `text/plain`, a file its bytes with its type,
/// any other value JSON. 500 if JSON would contain a file that is too large to load.
#[must_use]
pub fn result(value: &Value, id: &ExecutionId) -> HttpResponse {
    match default_content(value) {
        Ok((content_type, body)) => finish(HttpResponse::new(200, content_type, body), id),
        Err(error) => failed(&error.to_string(), id),
    }
}

/// The parts of a `respond` step, evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct RespondParts {
    /// 200 to 599, as a number or a text.
    pub status: Value,
    /// The media type; `null` for the default of the body.
    pub content_type: Value,
    /// A map of names to texts, numbers, booleans, or lists of them (a repeated header); `null` omits the header.
    pub headers: Value,
    /// The body.
    pub body: Body,
    /// True if the sandboxed page may submit forms.
    pub allows_forms: bool,
    /// True if the sandboxed page may run scripts.
    pub allows_scripts: bool,
}

/// The body of a `respond` step.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// No body.
    Empty,
    /// A text as `text/plain` by default, a file with its type, any other value as JSON.
    Any(Value),
    /// JSON of any value.
    Json(Value),
    /// The bytes of a file, with its type.
    File(Value),
}

/// An invalid part of a `respond` step; the step fails with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PartsError {
    /// The part: `status`, `contentType`, `headers` or `body`.
    pub part: &'static str,
    /// The message, with the allowed values.
    pub message: String,
}

/// The response of a `respond` step. 204, 205 and 304 have no body.
///
/// # Errors
/// Returns an error if the status is outside 200 to 599, the content type is invalid, a header is not allowed or has control
/// characters, there are too many headers, or `file` is not a file.
pub fn respond(parts: &RespondParts, id: &ExecutionId) -> Result<HttpResponse, PartsError> {
    let status = status(&parts.status)?;
    let (own_type, body) = match &parts.body {
        Body::Empty => (None, Data::default()),
        Body::Any(value) => default_content(value).map(some_type).map_err(|error| body_error(&error))?,
        Body::Json(value) => (Some(JSON.into()), json(value).map_err(|error| body_error(&error))?),
        Body::File(value) if value.as_file().is_some() => {
            default_content(value).map(some_type).map_err(|error| body_error(&error))?
        }
        Body::File(other) => {
            let message =
                format!("`file` needs a file, found a {}; use `body` or `json` for it", other.kind());
            return Err(PartsError { part: "body", message });
        }
    };
    let content_type = match &parts.content_type {
        Value::Null => own_type,
        given => Some(media_type(given)?.into()),
    };
    let mut response = HttpResponse { status, headers: Vec::new(), body };
    if let Some(content_type) = content_type {
        response = response.with_header("content-type", content_type);
    }
    response.headers.extend(header_list(&parts.headers)?);
    let exceptions =
        [(parts.allows_forms, SANDBOX_EXCEPTIONS[0]), (parts.allows_scripts, SANDBOX_EXCEPTIONS[1])];
    for (_, exception) in exceptions.into_iter().filter(|(is_allowed, _)| *is_allowed) {
        response = response.with_header(CONTENT_SECURITY_POLICY, format!("sandbox {exception}"));
    }
    Ok(finish(response, id))
}

/// The header that marks the response to a duplicate request, which repeats the first response.
pub const DUPLICATE: &str = "x-duplicate";

/// Marks the response of an earlier request as one to a duplicate.
#[must_use]
pub fn duplicate(response: HttpResponse) -> HttpResponse {
    seal(response.with_header(DUPLICATE, "true"))
}

/// 500: the execution failed. The body is `{"error": …, "executionId": …}`.
#[must_use]
pub fn failed(message: &str, id: &ExecutionId) -> HttpResponse {
    let body = [("error", Value::from(message)), ("executionId", Value::from(id.to_string()))];
    finish(HttpResponse::json(500, &Value::from(body.into_iter().collect::<Map>())), id)
}

/// 504: the synchronous wait timed out. The execution continues, and the caller can look it up.
#[must_use]
pub fn timed_out(id: &ExecutionId) -> HttpResponse {
    let body = [
        ("error", Value::from("the execution has not finished in time; it continues")),
        ("code", Value::from("timeout")),
        ("executionId", Value::from(id.to_string())),
    ];
    finish(HttpResponse::json(504, &Value::from(body.into_iter().collect::<Map>())), id)
}

fn finish(response: HttpResponse, id: &ExecutionId) -> HttpResponse {
    seal(response.with_header(EXECUTION_ID, id.to_string()))
}

fn execution_id(id: &ExecutionId) -> Value {
    Value::from([("executionId", Value::from(id.to_string()))].into_iter().collect::<Map>())
}

/// The body of a value, with its default type. The bytes of a file stay where they are.
fn default_content(value: &Value) -> Result<(HeaderText, Data), FileLoadError> {
    Ok(match value {
        Value::String(text) => (TEXT.into(), Data::from(text.to_string())),
        Value::File(file) if is_media_type(&file.content_type) => {
            (file.content_type.to_string().into(), file.data.clone())
        }
        Value::File(file) => ("application/octet-stream".into(), file.data.clone()),
        other => (JSON.into(), json(other)?),
    })
}

/// The JSON of a value, including the bytes of its files, which are read while it is sent. Blocks if a file is external.
fn json(value: &Value) -> Result<Data, FileLoadError> {
    encode_json(value, MAX_LOADED_BYTES)
}

fn body_error(error: &FileLoadError) -> PartsError {
    PartsError { part: "body", message: error.to_string() }
}

fn some_type((content_type, body): (HeaderText, Data)) -> (Option<HeaderText>, Data) {
    (Some(content_type), body)
}

fn status(value: &Value) -> Result<u16, PartsError> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    };
    let status = number.and_then(|number| u16::try_from(number).ok()).filter(|status| is_status(*status));
    status.ok_or_else(|| {
        let message =
            format!("`status` is {}; it must be a whole number from 200 to 599", format_value(value));
        PartsError { part: "status", message }
    })
}

/// True for a valid final status; 1xx is not final.
pub(crate) fn is_status(status: u16) -> bool {
    (200..=599).contains(&status)
}

fn media_type(value: &Value) -> Result<String, PartsError> {
    let text = value.as_str().map(str::trim).filter(|text| is_media_type(text));
    text.map(str::to_owned).ok_or_else(|| {
        let message =
            format!("`contentType` is {}; it must be a media type such as `text/html`", format_value(value));
        PartsError { part: "contentType", message }
    })
}

fn header_list(value: &Value) -> Result<Vec<(HeaderText, HeaderText)>, PartsError> {
    let wrong = |message: String| PartsError { part: "headers", message };
    let map = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Map(map) => map,
        other => return Err(wrong(format!("`headers` must be a map, found a {}", other.kind()))),
    };
    let mut headers: Vec<(HeaderText, HeaderText)> = Vec::with_capacity(map.len());
    for (name, value) in map.iter() {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        for value in values {
            let text = match value {
                Value::Null => continue,
                Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_text(),
                other => {
                    return Err(wrong(format!("header `{name}` must be a text, found a {}", other.kind())));
                }
            };
            if let Some(reason) = header_error(name, &text) {
                return Err(wrong(reason));
            }
            headers.push((name.to_string().into(), text.into()));
        }
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > headers::MAX_HEADERS || bytes > headers::MAX_HEADER_BYTES {
        return Err(wrong(headers::too_many_headers()));
    }
    Ok(headers)
}

/// Formats a value for a message, shortened.
fn format_value(value: &Value) -> String {
    format!("`{}`", text::truncate(&value.to_json(), 40))
}
