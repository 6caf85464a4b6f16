//! Taking requests apart so that every mistake becomes a problem in words.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use value::{JsonLimits, Value};

use super::Problem;

/// Reads the `limit` of a query. Returns an error if it is not from 1 to `most`.
pub(crate) fn limit<T: Copy + From<u8> + PartialOrd + fmt::Display>(
    given: Option<T>,
    default: T,
    most: T,
) -> Result<T, Problem> {
    let limit = given.unwrap_or(default);
    if limit < T::from(1) || limit > most {
        return Err(Problem::bad_request("bad_query", format!("`limit` goes from 1 to {most}")));
    }
    Ok(limit)
}

/// A JSON body, within the limits on depth and size.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let found = <Self as OptionalFromRequest<S>>::from_request(request, state).await?;
        found.ok_or_else(|| Problem::bad_request("bad_json", "the request needs a JSON body"))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> OptionalFromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        let is_json = is_json(request.headers());
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        // A form of another site can send text without asking first, but not this type.
        if !is_json {
            let detail = "send the body as `content-type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail));
        }
        parse(&bytes).map(|body| Some(Self(body)))
    }
}

/// The bytes of a body.
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state).await;
        bytes.map(Self).map_err(|error| Problem::new(error.status(), "broken_body", error.body_text()))
    }
}

/// Returns the value of a header that the caller may leave out.
///
/// # Errors
/// Returns a problem if the value has other characters than visible ones of ASCII. Without it the request would mean something else.
pub(crate) fn optional_header(headers: &HeaderMap, name: impl AsRef<str>) -> Result<Option<&str>, Problem> {
    let name = name.as_ref();
    let Some(value) = headers.get(name) else { return Ok(None) };
    value.to_str().map(Some).map_err(|_| {
        let detail = format!("the header `{name}` has other characters than visible ones of ASCII");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_header", detail)
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let value = Value::from_json(bytes, JsonLimits::default()).map_err(|error| {
        Problem::bad_request("bad_json", format!("the body is not JSON that can be taken: {error}"))
    })?;
    let wrong = |reason: &dyn std::fmt::Display| {
        let detail = format!("the body is not what this address takes: {reason}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail)
    };
    if value.as_map().is_none() {
        return Err(wrong(&format_args!("expected an object, found a {}", value.kind())));
    }
    serde_json::from_value(value.to_serde()).map_err(|error| wrong(&error))
}

/// The parameters after the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let found = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        found.map(|query| Self(query.0)).map_err(|error| Problem::bad_request("bad_query", error.body_text()))
    }
}

/// The variable part of the path.
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        found.map(|path| Self(path.0)).map_err(|error| Problem::bad_request("bad_path", error.body_text()))
    }
}

/// The two variable parts of the path.
pub(crate) struct Segments(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segments {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await;
        let found = found.map_err(|error| Problem::bad_request("bad_path", error.body_text()))?;
        let (first, second) = found.0;
        Ok(Self(first, second))
    }
}

/// A JSON answer with its status.
pub(crate) struct Answer<T>(pub(crate) StatusCode, pub(crate) T);

impl<T> Answer<T> {
    pub(crate) fn ok(body: T) -> Self {
        Self(StatusCode::OK, body)
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.1) {
            Ok(body) => (self.0, [(CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => Problem::internal(&error).into_response(),
        }
    }
}

/// A JSON answer with a tag of its content, or 304 if the client has it (RFC 9110, section 13.1.2).
pub(crate) fn tagged(body: &impl Serialize, headers: &HeaderMap) -> Response {
    let body = match serde_json::to_vec(body) {
        Ok(body) => body,
        Err(error) => return Problem::internal(&error).into_response(),
    };
    let digest = Sha256::digest(&body);
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Weak: the same answer may be sent compressed or not.
    let tag = format!("W/\"{tag}\"");
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|field| field.to_str().ok());
    if known.flat_map(|field| field.split(',')).any(|known| known.trim() == tag) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    (StatusCode::OK, [(CONTENT_TYPE, "application/json".to_owned()), (ETAG, tag)], body).into_response()
}

/// Converts stored JSON to its public form: files lose the mark by which the store recognises them.
pub(crate) fn outside(stored: &impl Serialize) -> serde_json::Value {
    let plain = serde_json::to_value(stored).unwrap_or_default();
    serde_json::from_value::<Value>(plain).map(|value| value.to_serde()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_nested_too_deeply_is_a_400_and_no_crash() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let problem = parse::<serde_json::Value>(deep.as_bytes()).expect_err("too deep");
        assert_eq!((problem.status, problem.code.as_str()), (400, "bad_json"));
    }

    #[test]
    fn a_stored_file_is_shown_without_its_type_tag() {
        let file = value::File { content_type: "text/plain".into(), filename: None, data: "hi".into() };
        let shown = outside(&Value::from(file));
        assert_eq!(
            shown,
            serde_json::json!({"contentType": "text/plain", "size": 2, "encoding": "utf8", "data": "hi"})
        );
    }
}
