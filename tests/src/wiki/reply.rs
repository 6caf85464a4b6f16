//! An answer before it is written to the connection.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// Status, headers and body. A value, so that the fault script can still change it.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    /// JSON with `Content-Type: application/json`.
    pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => Self::bytes(status, "application/json", bytes.into()),
            Err(error) => {
                let text = format!("the simulator cannot write its answer: {error}");
                Self::text(StatusCode::INTERNAL_SERVER_ERROR, &text)
            }
        }
    }

    /// 200 with JSON.
    pub(super) fn ok(body: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 204: what every delete answers.
    pub(super) fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// 302 to another address.
    pub(super) fn found(location: &str) -> Self {
        let mut reply = Self { status: StatusCode::FOUND, headers: HeaderMap::new(), body: Bytes::new() };
        reply.set(LOCATION.as_str(), location);
        reply
    }

    /// Plain text.
    pub(super) fn text(status: StatusCode, text: &str) -> Self {
        Self::bytes(status, "text/plain; charset=utf-8", Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Any bytes under any media type.
    pub(super) fn bytes(status: StatusCode, media_type: &str, body: Bytes) -> Self {
        let mut reply = Self { status, headers: HeaderMap::new(), body };
        reply.set(CONTENT_TYPE.as_str(), media_type);
        reply
    }

    /// Sets a header. A name or value that HTTP cannot carry is left out: it can only come from a fault script, and a
    /// client would not have seen it either.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            self.headers.insert(name, value);
        }
    }
}
