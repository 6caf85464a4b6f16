//! Every answer a caller can get, as plain values.
//!
//! All of them pass [`sealed`], so whatever an Automation or a request puts into an answer, a browser that opens it
//! runs nothing of it and keeps nothing of it.

mod check;
mod code;
mod headers;
#[cfg(test)]
mod tests;

use model::automation::{StaticResponse, WebhookTrigger};
use model::payload::HeaderText;
use model::value::{Data, FileLoadError, MAX_LOADED_BYTES};
use model::{ExecutionId, HttpResponse, Map, Value};

pub use check::{Problem, check_static_response};
pub use code::of_code;
pub use headers::sealed;

use headers::{ALLOWED, POLICY, is_media_type, refusal};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The header that names the execution, on every answer that has one.
pub const EXECUTION_ID: &str = "x-execution-id";

/// The answer to an asynchronous start: the trigger's static one if it has one, else [`started`].
#[must_use]
pub fn asynchronous(trigger: &WebhookTrigger, id: &ExecutionId) -> HttpResponse {
    trigger.respond.as_ref().map_or_else(|| started(id), |fixed| stated(fixed, id))
}

/// 200 with exactly `{"executionId": "…"}`.
#[must_use]
pub fn started(id: &ExecutionId) -> HttpResponse {
    let id = id.to_string();
    let body = [r#"{"executionId":""#, &id, r#""}"#].concat();
    // What `sealed` makes of it: most requests get this answer, and nothing in it is anybody else's.
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

/// A static answer. Without a body it is its status with the execution's id, as [`started`]; 204, 205 and 304 have none.
#[must_use]
pub fn stated(fixed: &StaticResponse, id: &ExecutionId) -> HttpResponse {
    finish(as_written(fixed, || execution_id(id)), id)
}

/// What a sender is told whose request is kept for whoever listens and starts nothing: the trigger's static answer if it
/// has one, else that it was captured.
#[must_use]
pub fn captured(trigger: &WebhookTrigger) -> HttpResponse {
    let told = || Value::from(Map::from_iter([("captured", true)]));
    let written = trigger.respond.as_ref().map(|fixed| as_written(fixed, told));
    sealed(written.unwrap_or_else(|| HttpResponse::json(200, &told())))
}

/// A static answer; JSON of another value is its body where it has none.
fn as_written(fixed: &StaticResponse, otherwise: impl FnOnce() -> Value) -> HttpResponse {
    let (content_type, body) = match &fixed.body {
        Some(body) => {
            (fixed.content_type.clone().map_or(TEXT.into(), HeaderText::from), Data::from(body.clone()))
        }
        None => (JSON.into(), otherwise().to_json().into()),
    };
    let mut response = HttpResponse::new(fixed.status, content_type, body);
    for (name, value) in &fixed.headers {
        if refusal(name, value).is_none() {
            response = response.with_header(name.clone(), value.clone());
        }
    }
    response
}

/// The answer to a synchronous start: the result of the last step. A text is `text/plain`, a file its bytes with its
/// type, anything else JSON. 500 where JSON would hold a file that is too large to be in memory.
#[must_use]
pub fn result(value: &Value, id: &ExecutionId) -> HttpResponse {
    match content(value) {
        Ok((content_type, body)) => finish(HttpResponse::new(200, content_type, body), id),
        Err(error) => failed(&error.to_string(), id),
    }
}

/// A `respond` step with its expressions evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// 200 to 599: a number, or a text of one.
    pub status: Value,
    /// The media type, where it is not the body's own; `null` is none.
    pub content_type: Value,
    /// A map of names to texts, numbers, booleans, or lists of them (a repeated header); a `null` leaves its header out.
    pub headers: Value,
    /// The body.
    pub body: Body,
    /// True where a page may send forms, although it is sandboxed.
    pub allows_forms: bool,
    /// True where a page may run scripts, although it is sandboxed.
    pub allows_scripts: bool,
}

/// The body of a `respond` step.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// None.
    Empty,
    /// A text, `text/plain` unless the type says otherwise; a file with its type; any other value as JSON.
    Any(Value),
    /// JSON, whatever the value.
    Json(Value),
    /// A file's bytes with its type.
    File(Value),
}

/// Why the parts of a `respond` step make no answer; the step fails with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PartsError {
    /// Which part: `status`, `contentType`, `headers` or `body`.
    pub part: &'static str,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// The answer of a `respond` step. 204, 205 and 304 are sent without a body, whatever it is.
///
/// # Errors
/// A status outside 200 to 599, a content type that is none, a header that may not be set or has control characters,
/// more headers than are taken, or a file that is none.
pub fn respond(parts: &Parts, id: &ExecutionId) -> Result<HttpResponse, PartsError> {
    let status = status(&parts.status)?;
    let (own_type, body) = match &parts.body {
        Body::Empty => (None, Data::default()),
        Body::Any(value) => content(value).map(some_type).map_err(|error| in_body(&error))?,
        Body::Json(value) => (Some(JSON.into()), json(value).map_err(|error| in_body(&error))?),
        Body::File(value) if value.as_file().is_some() => {
            content(value).map(some_type).map_err(|error| in_body(&error))?
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
    let rights = [(parts.allows_forms, ALLOWED[0]), (parts.allows_scripts, ALLOWED[1])];
    for (_, right) in rights.into_iter().filter(|(is_allowed, _)| *is_allowed) {
        response = response.with_header(POLICY, format!("sandbox {right}"));
    }
    Ok(finish(response, id))
}

/// The header that marks the answer to what was sent before: it is the first one's.
pub const DUPLICATE: &str = "x-duplicate";

/// The answer of an earlier sending, given again.
#[must_use]
pub fn duplicate(response: HttpResponse) -> HttpResponse {
    sealed(response.with_header(DUPLICATE, "true"))
}

/// 500: the execution failed. The body is `{"error": …, "executionId": …}`.
#[must_use]
pub fn failed(message: &str, id: &ExecutionId) -> HttpResponse {
    let body = [("error", Value::from(message)), ("executionId", Value::from(id.to_string()))];
    finish(HttpResponse::json(500, &Value::from(body.into_iter().collect::<Map>())), id)
}

/// 504: the caller has waited its time. The execution goes on, and the caller can look it up.
#[must_use]
pub fn timed_out(id: &ExecutionId) -> HttpResponse {
    let body = [
        ("error", Value::from("the execution has not finished in time; it goes on")),
        ("code", Value::from("timeout")),
        ("executionId", Value::from(id.to_string())),
    ];
    finish(HttpResponse::json(504, &Value::from(body.into_iter().collect::<Map>())), id)
}

fn finish(response: HttpResponse, id: &ExecutionId) -> HttpResponse {
    sealed(response.with_header(EXECUTION_ID, id.to_string()))
}

fn execution_id(id: &ExecutionId) -> Value {
    Value::from([("executionId", Value::from(id.to_string()))].into_iter().collect::<Map>())
}

/// A value as a body, with its own type. A file is handed on as it is, wherever its bytes are.
fn content(value: &Value) -> Result<(HeaderText, Data), FileLoadError> {
    Ok(match value {
        Value::String(text) => (TEXT.into(), Data::from(text.to_string())),
        Value::File(file) if is_media_type(&file.content_type) => {
            (file.content_type.to_string().into(), file.data.clone())
        }
        Value::File(file) => ("application/octet-stream".into(), file.data.clone()),
        other => (JSON.into(), json(other)?),
    })
}

/// JSON with the bytes of the files in it. Blocks where one is kept outside of memory.
fn json(value: &Value) -> Result<Data, FileLoadError> {
    Ok(value.load_files(MAX_LOADED_BYTES)?.to_json().into())
}

fn in_body(error: &FileLoadError) -> PartsError {
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
        let message = format!("`status` is {}; it must be a whole number from 200 to 599", shown(value));
        PartsError { part: "status", message }
    })
}

/// Whether an answer may have this status: 1xx is not final, and beyond 599 is nothing.
pub(crate) fn is_status(status: u16) -> bool {
    (200..=599).contains(&status)
}

fn media_type(value: &Value) -> Result<String, PartsError> {
    let text = value.as_str().map(str::trim).filter(|text| is_media_type(text));
    text.map(str::to_owned).ok_or_else(|| {
        let message =
            format!("`contentType` is {}; it must be a media type such as `text/html`", shown(value));
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
            if let Some(reason) = refusal(name, &text) {
                return Err(wrong(reason));
            }
            headers.push((name.to_string().into(), text.into()));
        }
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > headers::MAX_HEADERS || bytes > headers::MAX_HEADER_BYTES {
        return Err(wrong(headers::too_many()));
    }
    Ok(headers)
}

/// A value in a message, shortened.
fn shown(value: &Value) -> String {
    format!("`{}`", model::redact::cut(&value.to_json(), 40))
}
