//! Rejections of requests that start no execution, as the caller sees them.

use std::time::Duration;

use expression::json_schema::LimitExceeded;
use model::HttpResponse;
use text::units;
use value::{Map, Value};

use crate::response;

/// The rejection of a request: a status, a stable code for programs and a sentence for people.
///
/// Codes: `invalid_signature` (401), `bad_challenge`, `bad_idempotency_key` (400), `idempotency_mismatch` (422),
/// `loop_detected` (508), `unknown_trigger`, `automation_disabled`, `trigger_disabled`, `not_a_webhook` (404), `method_not_allowed` (405),
/// `payload_too_large` (413), `unsupported_encoding` (415), `bad_content_type`, `bad_json`, `json_too_large`,
/// `bad_form`, `bad_query`, `bad_multipart`, `schema_mismatch`, `schema_too_costly` (400), `rate_limited` (429),
/// `unavailable` (503).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The code for programs; it does not change between versions.
    pub code: &'static str,
    /// The sentence for people: lower case, no final stop.
    pub message: String,
    /// The allowed methods, if the method was not.
    pub allow: Option<String>,
    /// The delay before a retry, if one may succeed.
    pub retry_after: Option<Duration>,
    /// The cause in words for the author of the Automation. It is never sent to the caller.
    pub detail: Option<String>,
}

impl Rejection {
    /// A rejection with any status and code.
    #[must_use]
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), allow: None, retry_after: None, detail: None }
    }

    /// Adds the cause for the author of the Automation.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// 404: no Automation has this address. The response does not reveal whether a token was ever valid.
    #[must_use]
    pub fn unknown_trigger() -> Self {
        Self::new(404, "unknown_trigger", "no such trigger")
    }

    /// 404: the Automation of this address is disabled. Not 410, on which some senders unsubscribe.
    #[must_use]
    pub fn automation_disabled() -> Self {
        Self::new(404, "automation_disabled", "the automation of this trigger is disabled")
    }

    /// 404: the trigger of this address is disabled, and its Automation is not.
    #[must_use]
    pub fn trigger_disabled() -> Self {
        Self::new(404, "trigger_disabled", "this trigger is disabled")
    }

    /// 404: the trigger of the Automation is not a webhook.
    #[must_use]
    pub fn not_a_webhook() -> Self {
        Self::new(404, "not_a_webhook", "this automation is not started by a webhook")
    }

    /// 405: the trigger does not allow the method; `Allow` lists those it does.
    #[must_use]
    pub fn method_not_allowed(method: &str, allow: String) -> Self {
        let method: String = method.chars().take(32).collect();
        let message = format!("this trigger does not take {method}; it takes {allow}");
        Self { allow: Some(allow), ..Self::new(405, "method_not_allowed", message) }
    }

    /// 413: the body exceeds the limit of the trigger.
    #[must_use]
    pub fn payload_too_large(max_body: usize) -> Self {
        let most = units::format_size(u64::try_from(max_body).unwrap_or(u64::MAX));
        Self::new(413, "payload_too_large", format!("request body is larger than {most}"))
    }

    /// 415: the body is compressed or otherwise encoded.
    #[must_use]
    pub fn unsupported_encoding() -> Self {
        let message = "this content-encoding is not supported; send the body as gzip or without one";
        Self::new(415, "unsupported_encoding", message)
    }

    /// 400: the request is malformed.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// 400: checking the body against the trigger's schema exceeds the limits.
    pub(crate) fn schema_too_costly(limit: &LimitExceeded) -> Self {
        let message = format!("request body takes too much to check against its schema: {limit}");
        Self::bad_request("schema_too_costly", message)
    }

    /// 429: too many requests for this trigger.
    #[must_use]
    pub fn rate_limited(retry_after: Duration) -> Self {
        let rejection = Self::new(429, "rate_limited", "too many requests for this trigger");
        Self { retry_after: Some(retry_after), ..rejection }
    }

    /// 429: no slot or no memory is free for a synchronous execution.
    #[must_use]
    pub fn no_slot(retry_after: Duration) -> Self {
        let rejection = Self::new(429, "rate_limited", "too many executions are running");
        Self { retry_after: Some(retry_after), ..rejection }
    }

    /// 401: the verification failed. The reason goes to the log and not to the sender.
    #[must_use]
    pub fn unverified() -> Self {
        Self::new(401, "invalid_signature", "invalid signature")
    }

    /// 422: the idempotency key was used for a different request.
    #[must_use]
    pub fn idempotency_mismatch() -> Self {
        let message = "this `Idempotency-Key` was sent with another request; use a new one";
        Self::new(422, "idempotency_mismatch", message)
    }

    /// 508: executions start each other in a loop.
    #[must_use]
    pub fn loop_detected(most: u32) -> Self {
        let message = format!("executions started one another more than {most} times in a row");
        Self::new(508, "loop_detected", message)
    }

    /// 503: the daemon cannot accept requests: the queue is full, the store does not respond, or the daemon is stopping.
    #[must_use]
    pub fn unavailable(message: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(503, "unavailable", message) }
    }

    /// The response: `{"error": …, "code": …}`, with `Allow` and `Retry-After` if they apply.
    #[must_use]
    pub fn response(&self) -> HttpResponse {
        let body: Map = [("error", Value::from(self.message.as_str())), ("code", Value::from(self.code))]
            .into_iter()
            .collect();
        let mut response = HttpResponse::json(self.status, &Value::from(body));
        if let Some(allow) = &self.allow {
            response = response.with_header("allow", allow.clone());
        }
        if let Some(delay) = self.retry_after {
            // Whole seconds, rounded up and at least 1, so that an obedient caller does not retry too early.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            response = response.with_header("retry-after", seconds.max(1).to_string());
        }
        response::seal(response)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(rejection: &Rejection, expected: &str) {
        let response = rejection.response();
        let extra = ["allow", "retry-after"].map(|name| response.header(name).unwrap_or("-").to_owned());
        let body = response.body.for_display();
        let body = String::from_utf8_lossy(&body);
        assert_eq!(format!("{} {} {}", response.status, extra.join(" "), body), expected);
    }

    #[test]
    fn a_rejection_has_a_status_a_message_and_a_code() {
        check(
            &Rejection::unknown_trigger(),
            r#"404 - - {"error":"no such trigger","code":"unknown_trigger"}"#,
        );
        check(
            &Rejection::automation_disabled(),
            r#"404 - - {"error":"the automation of this trigger is disabled","code":"automation_disabled"}"#,
        );
        check(
            &Rejection::trigger_disabled(),
            r#"404 - - {"error":"this trigger is disabled","code":"trigger_disabled"}"#,
        );
        check(
            &Rejection::not_a_webhook(),
            r#"404 - - {"error":"this automation is not started by a webhook","code":"not_a_webhook"}"#,
        );
        check(
            &Rejection::payload_too_large(6 << 20),
            r#"413 - - {"error":"request body is larger than 6MiB","code":"payload_too_large"}"#,
        );
    }

    #[test]
    fn a_rejected_method_lists_the_allowed_ones() {
        let rejection = Rejection::method_not_allowed("GET", "POST, PUT".into());
        check(
            &rejection,
            r#"405 POST, PUT - {"error":"this trigger does not take GET; it takes POST, PUT","code":"method_not_allowed"}"#,
        );
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
        let body = r#"{"error":"too many requests for this trigger","code":"rate_limited"}"#;
        check(&Rejection::rate_limited(Duration::from_millis(1_001)), &format!("429 - 2 {body}"));
        check(&Rejection::rate_limited(Duration::ZERO), &format!("429 - 1 {body}"));
        let full = Rejection::unavailable("the queue is full", Duration::from_secs(5));
        check(&full, r#"503 - 5 {"error":"the queue is full","code":"unavailable"}"#);
    }
}
