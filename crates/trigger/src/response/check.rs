//! What is wrong with a static answer, found when the Automation is loaded.

use std::fmt;

use model::Value;
use model::automation::StaticResponse;
use model::value::JsonLimits;

use super::headers::{MAX_HEADER_BYTES, MAX_HEADERS, is_media_type, refusal, too_many};
use super::is_status;

/// One problem of a static answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key of `respond` at fault: `status`, `contentType`, `headers` or `body`.
    pub key: &'static str,
    /// The header at fault, as it is written, where it is one.
    pub header: Option<String>,
    /// What is wrong and the way out.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// All problems of a static answer; none when it can be sent just as it is written.
#[must_use]
pub fn check_static_response(response: &StaticResponse) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |key, message: String| problems.push(Problem { key, header: None, message });
    let StaticResponse { status, content_type, headers, body } = response;
    if !is_status(*status) {
        report("status", format!("`{status}` is not a status to answer with; use 200 to 599"));
    }
    if body.is_some() && matches!(status, 204 | 205 | 304) {
        report(
            "body",
            format!("an answer with status {status} has no body; remove `body` or use another status"),
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
        report("body", format!("`contentType` says JSON, but `body` is none: {error}"));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        report("headers", too_many());
    }
    for (name, value) in headers {
        if let Some(message) = refusal(name, value) {
            problems.push(Problem { key: "headers", header: Some(name.clone()), message });
        }
    }
    problems
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}
