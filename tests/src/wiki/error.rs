//! Errors: [`ApiError`] is a response of the wiki, [`Error`] is a failure of the simulator itself.

use http::StatusCode;
use serde::Serialize;

use super::reply::Reply;

/// A failure of the simulator itself: it never reaches a client of the wiki.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`: {source}")]
    Listen {
        /// The operation.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Something that a test waited for did not come in time.
    #[error("waited {seconds} s for {what} in vain")]
    WaitedInVain {
        /// How long, in seconds.
        seconds: u64,
        /// For what.
        what: String,
    },
    /// More was scripted than the simulator keeps.
    #[error("at most {limit} {what} are kept; clear some first")]
    TooMany {
        /// The kind of item that exceeds its limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Seeding named something that does not exist or broke a rule of the wiki.
    #[error("cannot seed: {0}")]
    Seed(#[from] ApiError),
}

/// An error answer of the wiki, in the shape of the part of it that answers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{} {}", .status.as_u16(), .body.summary())]
pub struct ApiError {
    pub(super) status: StatusCode,
    pub(super) body: ErrorBody,
    pub(super) headers: Vec<(&'static str, String)>,
}

/// The five shapes in which an error is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ErrorBody {
    /// `{"errors":[{status, code, title, detail}]}`: the v2 API and the site.
    V2 { code: &'static str, title: String, detail: Option<String> },
    /// `{statusCode, message, data}`: the older API under `/wiki/rest/api`.
    V1 { message: String },
    /// `{code, message}`: the gateway.
    Gateway { message: String },
    /// `{error, error_description}`: the token endpoint.
    OAuth { error: &'static str, description: String },
    /// Plain text.
    Text(String),
}

impl ErrorBody {
    fn summary(&self) -> &str {
        match self {
            Self::V2 { title, .. } => title,
            Self::V1 { message } | Self::Gateway { message } => message,
            Self::OAuth { description, .. } => description,
            Self::Text(text) => text,
        }
    }
}

impl ApiError {
    fn v2(status: StatusCode, code: &'static str, title: impl Into<String>) -> Self {
        Self { status, body: ErrorBody::V2 { code, title: title.into(), detail: None }, headers: Vec::new() }
    }

    /// 400 BAD_REQUEST.
    pub(super) fn bad_request(title: impl Into<String>) -> Self {
        Self::v2(StatusCode::BAD_REQUEST, "BAD_REQUEST", title)
    }

    /// 400 INVALID_REQUEST_PARAMETER, with an optional second sentence.
    pub(super) fn bad_parameter(title: impl Into<String>, detail: Option<&str>) -> Self {
        let mut error = Self::v2(StatusCode::BAD_REQUEST, "INVALID_REQUEST_PARAMETER", title);
        if let ErrorBody::V2 { detail: slot, .. } = &mut error.body {
            *slot = detail.map(str::to_owned);
        }
        error
    }

    /// 404, for what does not exist and for what the user may not see: the wiki does not tell the two apart.
    pub(super) fn not_found() -> Self {
        Self::v2(StatusCode::NOT_FOUND, "NOT_FOUND", "Not Found")
    }

    /// 409 CONFLICT.
    pub(super) fn conflict(title: impl Into<String>) -> Self {
        Self::v2(StatusCode::CONFLICT, "CONFLICT", title)
    }

    /// 409 whose title carries both numbers in brackets.
    pub(super) fn stale_version(what: &str, current: u32, provided: i64) -> Self {
        Self::conflict(format!(
            "The version of a {what} must be incremented by one on every update. \
             Current Version: [{current}]. Provided version: [{provided}]"
        ))
    }

    /// 403 FORBIDDEN.
    pub(super) fn forbidden(title: impl Into<String>) -> Self {
        Self::v2(StatusCode::FORBIDDEN, "FORBIDDEN", title)
    }

    /// 413 for a body above its limit.
    pub(super) fn too_large(limit_bytes: usize) -> Self {
        Self::v2(
            StatusCode::PAYLOAD_TOO_LARGE,
            "PAYLOAD_TOO_LARGE",
            format!("The body of the request is larger than {limit_bytes} bytes"),
        )
    }

    /// 405 with the methods that the path has.
    pub(super) fn wrong_method(allowed: &str) -> Self {
        let mut error = Self::v2(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "Method Not Allowed");
        error.headers.push(("allow", allowed.to_owned()));
        error
    }

    /// 415 for a write whose `Content-Type` is not JSON. The status is ours: the document says only what is taken.
    pub(super) fn wrong_media_type() -> Self {
        Self::v2(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UNSUPPORTED_MEDIA_TYPE",
            "The Content-Type of the request must be application/json",
        )
    }

    /// 501 for a call that the real service has and the simulator does not.
    pub(super) fn not_simulated(method: &str, path: &str) -> Self {
        Self::v2(
            StatusCode::NOT_IMPLEMENTED,
            "NOT_IMPLEMENTED",
            format!("The simulator does not have {method} {path}"),
        )
    }

    /// 401 of the site: no, malformed or unknown credentials.
    pub(super) fn unauthorized() -> Self {
        let mut error = Self::v2(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "Unauthorized");
        error.headers.push(("www-authenticate", "Basic realm=\"wiki\"".to_owned()));
        error
    }

    /// 401 of the site for a password where an API token belongs.
    pub(super) fn password_refused() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            body: ErrorBody::Text(
                "Basic authentication with a password is deprecated. Use an API token in its place."
                    .to_owned(),
            ),
            headers: Vec::new(),
        }
    }

    /// 401 of the gateway: an unknown or expired token.
    pub(super) fn gateway_unauthorized() -> Self {
        Self::gateway(StatusCode::UNAUTHORIZED, "Unauthorized")
    }

    /// 401 of the gateway for a token that is good but lacks a scope. Refreshing does not help.
    pub(super) fn scope_mismatch() -> Self {
        let mut error = Self::gateway(StatusCode::UNAUTHORIZED, "Unauthorized; scope does not match");
        error.headers.push(("x-failure-category", "FAILURE_CLIENT_SCOPE_CHECK".to_owned()));
        error
    }

    /// An error in the gateway's own shape.
    pub(super) fn gateway(status: StatusCode, message: &str) -> Self {
        Self { status, body: ErrorBody::Gateway { message: message.to_owned() }, headers: Vec::new() }
    }

    /// An error of the token endpoint.
    pub(super) fn oauth(status: StatusCode, error: &'static str, description: &str) -> Self {
        let body = ErrorBody::OAuth { error, description: description.to_owned() };
        Self { status, body, headers: Vec::new() }
    }

    /// The same failure, as the older API under `/wiki/rest/api` writes it.
    pub(super) fn into_v1(self) -> Self {
        let body = match self.body {
            ErrorBody::V2 { title, .. } => ErrorBody::V1 { message: title },
            other => other,
        };
        Self { body, ..self }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// The answer to send.
    pub(super) fn reply(&self) -> Reply {
        let mut reply = match &self.body {
            ErrorBody::V2 { code, title, detail } => {
                let entry = V2Entry { status: self.status.as_u16(), code, title, detail: detail.as_deref() };
                Reply::json(self.status, &V2Errors { errors: [entry] })
            }
            ErrorBody::V1 { message } => {
                let data = V1Data { authorized: true, valid: false, errors: [], successful: false };
                Reply::json(self.status, &V1Error { status_code: self.status.as_u16(), message, data })
            }
            ErrorBody::Gateway { message } => {
                Reply::json(self.status, &GatewayError { code: self.status.as_u16(), message })
            }
            ErrorBody::OAuth { error, description } => {
                Reply::json(self.status, &OAuthError { error, error_description: description })
            }
            ErrorBody::Text(text) => Reply::text(self.status, text),
        };
        for (name, value) in &self.headers {
            reply.set(name, value);
        }
        reply
    }
}

#[derive(Serialize)]
struct V2Errors<'a> {
    errors: [V2Entry<'a>; 1],
}

#[derive(Serialize)]
struct V2Entry<'a> {
    status: u16,
    code: &'a str,
    title: &'a str,
    detail: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct V1Error<'a> {
    status_code: u16,
    data: V1Data,
    message: &'a str,
}

#[derive(Serialize)]
struct V1Data {
    authorized: bool,
    valid: bool,
    errors: [(); 0],
    successful: bool,
}

#[derive(Serialize)]
struct GatewayError<'a> {
    code: u16,
    message: &'a str,
}

#[derive(Serialize)]
struct OAuthError<'a> {
    error: &'a str,
    error_description: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &ApiError, status: u16, body: &str) {
        let reply = error.reply();
        assert_eq!(reply.status.as_u16(), status);
        assert_eq!(String::from_utf8_lossy(&reply.body), body);
    }

    #[test]
    fn every_part_of_the_wiki_writes_errors_in_its_own_shape() {
        let missing = r#"{"errors":[{"status":404,"code":"NOT_FOUND","title":"Not Found","detail":null}]}"#;
        check(&ApiError::not_found(), 404, missing);
        let old = r#"{"statusCode":404,"data":{"authorized":true,"valid":false,"errors":[],"successful":false},"message":"Not Found"}"#;
        check(&ApiError::not_found().into_v1(), 404, old);
        check(&ApiError::gateway_unauthorized(), 401, r#"{"code":401,"message":"Unauthorized"}"#);
        let denied = ApiError::oauth(StatusCode::UNAUTHORIZED, "access_denied", "Unauthorized");
        check(&denied, 401, r#"{"error":"access_denied","error_description":"Unauthorized"}"#);
    }

    #[test]
    fn a_stale_version_carries_both_numbers_in_brackets() {
        let text = ApiError::stale_version("page", 3, 3).to_string();
        assert!(text.ends_with("Current Version: [3]. Provided version: [3]"), "{text}");
    }
}
