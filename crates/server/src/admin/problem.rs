//! Errors of the API, as RFC 9457 has them.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use store::FailureKind;
use utoipa::ToSchema;

use crate::net::Refusal;

/// The media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// Reason for the failure of a request to the API (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{detail}")]
pub struct Problem {
    /// The type of the problem: `urn:cogwork:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The title of the type.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The cause, with the way out if there is one.
    pub detail: String,
    /// The stable code of the type, for programs.
    pub code: String,
    /// When to try again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<u64>,
    /// The methods that the address takes.
    #[serde(skip)]
    pub allow: Option<String>,
}

impl Problem {
    /// A problem with this status, code and detail; its title is the status in words.
    #[must_use]
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:cogwork:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            retry_after: None,
            allow: None,
        }
    }

    pub(crate) fn bad_request(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn not_found(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    pub(crate) fn nothing_here() -> Self {
        Self::not_found(
            "not_found",
            "there is nothing at this address; `/api/openapi.json` describes what there is",
        )
    }

    pub(crate) fn method_not_allowed(allow: Option<String>) -> Self {
        let takes = allow.as_deref().unwrap_or("other methods");
        let detail = format!("this address takes {takes}");
        Self { allow, ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail) }
    }

    pub(crate) fn unauthorized() -> Self {
        let detail =
            "give the admin token as `authorization: Bearer …`; it is in `admin-token` in the data folder";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// The credential of a request has no scope for it.
    pub(crate) fn scope_missing(needed: &dyn std::fmt::Display, credential: &dyn std::fmt::Display) -> Self {
        let detail = format!(
            "this needs the scope `{needed}`, which the {credential} does not have; `cogwork token create` makes a token that has it"
        );
        Self::new(StatusCode::FORBIDDEN, "scope_missing", detail)
    }

    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        // Errors of the store or a file system may contain paths and addresses, so they go to the log of the daemon
        // only.
        tracing::error!(error, "a request to the API failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the daemon failed on this request; its log says why",
        )
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let retry_after = refusal.retry_after.map(u64::from);
        Self { retry_after, ..Self::new(refusal.status, refusal.code, refusal.message) }
    }
}

impl From<runtime::Error> for Problem {
    fn from(error: runtime::Error) -> Self {
        use catalog::Error as CatalogError;
        use runtime::Error;
        let detail = error.to_string();
        let unavailable = |code, detail: String, retry_after| Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
        };
        match error {
            Error::Catalog(CatalogError::NoSuchAutomation { .. }) => {
                Self::not_found("unknown_automation", detail)
            }
            Error::Catalog(CatalogError::NoSuchTrigger { .. }) => Self::not_found("unknown_trigger", detail),
            Error::Catalog(CatalogError::AmbiguousTrigger { .. }) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "ambiguous_trigger", detail)
            }
            Error::NoSuchExecution(_) => Self::not_found("unknown_execution", detail),
            Error::NoSuchConnection { .. } => Self::not_found("unknown_connection", detail),
            Error::Disabled(_) => Self::new(StatusCode::CONFLICT, "automation_disabled", detail),
            Error::NotReplayable(_) => Self::new(StatusCode::CONFLICT, "not_replayable", detail),
            Error::Input(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_input", detail),
            Error::SecretProvider(_) => unavailable("secret_provider", detail, 5),
            Error::Vault(_) => Self::new(StatusCode::CONFLICT, "secrets_sealed", detail),
            Error::Busy { retry_after }
            | Error::ReadersBusy { retry_after }
            | Error::Recovering { retry_after } => unavailable("busy", detail, retry_after.as_secs().max(1)),
            Error::Store(failure) => match failure.kind() {
                FailureKind::Unreachable => unavailable("store_unreachable", detail, 5),
                FailureKind::Full => unavailable("store_full", detail, 1),
                FailureKind::Refused => {
                    let detail =
                        "the store refused the write, and nothing was changed; the daemon's log says why";
                    unavailable("store_refused", detail.to_owned(), 5)
                }
                FailureKind::Closing => unavailable("closing", Error::Closing.to_string(), 1),
                FailureKind::Other => Self::internal(&failure),
            },
            Error::Unanswered => unavailable("unanswered", detail, 5),
            Error::Closing => unavailable("closing", detail, 1),
            other => Self::internal(&other),
        }
    }
}

impl From<catalog::Error> for Problem {
    fn from(error: catalog::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A problem holds texts and numbers only, which always have a JSON form.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::try_from(allow).ok()) {
            headers.insert(ALLOW, allow);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"cogwork\""));
        }
        response
    }
}
