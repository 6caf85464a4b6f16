//! Errors of the store, as the kinds of the engine.

use connector::http::Response;
use model::{ActionError, ErrorKind};

use super::document::{items, read, text_at};

/// Codes of a refused login.
const LOGIN: [&str; 9] = [
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidIdentityToken",
    "InvalidToken",
    "MissingSecurityHeader",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];
/// Codes of a refusal that does not last.
const TEMPORARY: [&str; 8] = [
    "Busy",
    "ConditionalRequestConflict",
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "ThrottlingException",
];
/// The length at which a message of the store is cut, in characters.
const MAX_MESSAGE: usize = 400;

/// An error in the words of the store.
pub(super) struct Refusal {
    pub code: String,
    message: String,
    request_id: String,
}

impl Refusal {
    /// Reads the document of an error; `None` if it is another one.
    pub(super) fn of(response: &Response) -> Option<Self> {
        let document = read(&response.text()).ok()?;
        // The token service puts its error into another element, where it is one of a list.
        let error =
            document.get("Error").or_else(|| items(&document, "ErrorResponse.Error").into_iter().next())?;
        let (code, message) = (text_at(&error, "Code"), text_at(&error, "Message"));
        let request_id = text_at(&error, "RequestId");
        (!code.is_empty()).then_some(Self { code, message, request_id })
    }

    /// The code and the message of an entry for one of several keys.
    pub(super) fn for_key(code: String, message: String) -> Self {
        Self { code, message, request_id: String::new() }
    }
}

/// Returns the error of an answer with an error status, or with an error in a good answer.
pub(super) fn failure(subject: &str, response: &Response, refusal: Option<Refusal>) -> ActionError {
    let status = response.status;
    let refusal = refusal.or_else(|| Refusal::of(response)).unwrap_or_else(|| Refusal {
        code: status.canonical_reason().unwrap_or_default().replace(' ', ""),
        message: String::new(),
        request_id: String::new(),
    });
    let kind = kind_of(&refusal.code, status.as_u16());
    let said = text::truncate(&refusal.message, MAX_MESSAGE);
    let separator = if said.is_empty() { "" } else { ": " };
    let mut message = format!("{subject} answered {} {}{separator}{said}", status.as_u16(), refusal.code);
    if let Some(region) = response.header("x-amz-bucket-region").filter(|_| status.is_redirection()) {
        message.push_str(&format!("; the bucket is in the region `{region}`: set it as `region`"));
    }
    let mut error = ActionError::new(kind, message).with_code(refusal.code).with_status(status.as_u16());
    let request_id = response.header("x-amz-request-id").map(str::to_owned).unwrap_or(refusal.request_id);
    if !request_id.is_empty() {
        error = error.with_request_id(request_id);
    }
    let wait = response.header("retry-after").and_then(|text| text.parse().ok());
    if let Some(seconds) = wait {
        error = error.with_retry_after(std::time::Duration::from_secs(seconds));
    }
    error
}

fn kind_of(code: &str, status: u16) -> ErrorKind {
    if LOGIN.contains(&code) {
        ErrorKind::Connection
    } else if TEMPORARY.contains(&code) || status >= 500 || matches!(status, 408 | 429) {
        ErrorKind::Network
    } else {
        ErrorKind::Response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_decides_whether_another_attempt_helps() {
        for (code, status, kind) in [
            ("NoSuchKey", 404, ErrorKind::Response),
            ("AccessDenied", 403, ErrorKind::Response),
            ("PreconditionFailed", 412, ErrorKind::Response),
            ("SignatureDoesNotMatch", 403, ErrorKind::Connection),
            ("ExpiredToken", 400, ErrorKind::Connection),
            ("SlowDown", 503, ErrorKind::Network),
            ("RequestTimeout", 400, ErrorKind::Network),
            ("ConditionalRequestConflict", 409, ErrorKind::Network),
            ("BadGateway", 502, ErrorKind::Network),
            ("TooManyRequests", 429, ErrorKind::Network),
        ] {
            assert_eq!(kind_of(code, status), kind, "{code}");
        }
    }
}
