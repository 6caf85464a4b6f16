//! Responses of the listener itself, before any handler sees the request.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};

use crate::options::Limits;

/// A rejected request, whose connection is closed after the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The stable code for programs.
    pub(crate) code: &'static str,
    /// The message for people.
    pub(crate) message: Cow<'static, str>,
    /// The retry delay, in seconds.
    pub(crate) retry_after: Option<u32>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    pub(crate) fn bad_request(code: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn target_too_long(limit: usize) -> Self {
        Self::new(StatusCode::URI_TOO_LONG, "target_too_long", format!("the target may have {limit} bytes"))
    }

    pub(crate) fn header_too_large(limits: &Limits) -> Self {
        let message =
            format!("headers may have {} fields and {} bytes", limits.header_fields, limits.header_bytes);
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "header_too_large", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            format!("the body may have {limit} bytes"),
        )
    }

    pub(crate) fn slow_body() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body did not arrive in time")
    }

    pub(crate) fn broken_body() -> Self {
        Self::bad_request("broken_body", "the body did not arrive whole")
    }

    pub(crate) fn out_of_memory() -> Self {
        let message = "too many bodies are being read at this moment";
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message) }
    }

    pub(crate) fn no_room_for_response() -> Self {
        let message = "the execution has ended, and there is no room for its response at this moment";
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message) }
    }

    pub(crate) fn fault() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the daemon failed on this request")
    }

    /// The response, in the format of the hook listener.
    pub(crate) fn into_response<B: From<Bytes>>(self) -> Response<B> {
        let body = serde_json::json!({ "error": self.message, "code": self.code }).to_string();
        let mut response = Response::new(B::from(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
