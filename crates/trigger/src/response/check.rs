//! Checks of static responses when an Automation is loaded.

use std::fmt;

use model::automation::StaticResponse;
use value::{JsonLimits, Value};

use super::headers::{MAX_HEADER_BYTES, MAX_HEADERS, header_error, is_media_type, too_many_headers};
use super::is_status;

/// A problem of a static response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The invalid key of `respond`: `status`, `contentType`, `headers` or `body`.
    pub key: &'static str,
    /// The invalid header, in its original spelling; `None` for other keys.
    pub header: Option<String>,
    /// The message, with a way to fix the problem.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// All problems of a static response; empty if it can be sent unchanged.
#[must_use]
pub fn check_static_response(response: &StaticResponse) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |key, message: String| problems.push(Problem { key, header: None, message });
    let StaticResponse { status, content_type, headers, body } = response;
    if !is_status(*status) {
        report("status", format!("`{status}` is not a valid response status; use 200 to 599"));
    }
    if body.is_some() && matches!(status, 204 | 205 | 304) {
        report(
            "body",
            format!("a response with status {status} has no body; remove `body` or use another status"),
        );
    }
    match content_type {
        Some(text) if !is_media_type(text) => {
            report("contentType", format!("`{text}` is not a media type; write one such as `text/html`"));
        }
        Some(_) if body.is_none() => {
            report("contentType", "`contentType` has no effect without `body`".to_owned());
        }
        _ => {}
    }
    let body_as_json = content_type.as_deref().filter(|text| is_json(text)).and(body.as_deref());
    if let Some(error) =
        body_as_json.and_then(|text| Value::from_json(text.as_bytes(), JsonLimits::default()).err())
    {
        report("body", format!("`contentType` is JSON, but `body` is not valid JSON: {error}"));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        report("headers", too_many_headers());
    }
    for (name, value) in headers {
        if let Some(message) = header_error(name, value) {
            problems.push(Problem { key: "headers", header: Some(name.clone()), message });
        }
    }
    problems
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}
