//! Errors of the protocol and of the connection, as the kinds of the engine.

use model::{ActionError, ErrorKind};
use russh_sftp::client::error::Error;
use russh_sftp::protocol::StatusCode;

/// The length at which a message of the server is cut, in characters.
const MAX_MESSAGE: usize = 300;

/// The error of a request for a path.
pub(super) fn failure(subject: &str, path: &str, error: &Error) -> ActionError {
    match error {
        Error::Status(status) => {
            let code = code(status.status_code);
            let said = text::truncate(&status.error_message, MAX_MESSAGE);
            let kind = match status.status_code {
                StatusCode::NoConnection | StatusCode::ConnectionLost => ErrorKind::Network,
                _ => ErrorKind::Response,
            };
            let message = format!("{subject} refused `{path}`: {code}: {said}");
            ActionError::new(kind, message).with_code(code)
        }
        Error::Timeout => {
            ActionError::new(ErrorKind::Timeout, format!("{subject} did not answer a request for `{path}`"))
        }
        Error::Limited(words) => ActionError::new(
            ErrorKind::Limit,
            format!("{subject} does not take the request for `{path}`: {words}"),
        ),
        Error::IO(_) | Error::UnexpectedPacket | Error::UnexpectedBehavior(_) => {
            ActionError::new(ErrorKind::Network, format!("the connection to {subject} broke"))
        }
    }
}

/// True if the error says that there is no such file.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Status(status) if status.status_code == StatusCode::NoSuchFile)
}

/// True if the error says no more than that the request failed.
pub(super) fn has_failed(error: &Error) -> bool {
    matches!(error, Error::Status(status) if status.status_code == StatusCode::Failure)
}

/// True if the error is the answer of the server, and not that of a broken connection.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Status(_))
}

/// The name of a status in the specification of the protocol.
fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::Ok => "SSH_FX_OK",
        StatusCode::Eof => "SSH_FX_EOF",
        StatusCode::NoSuchFile => "SSH_FX_NO_SUCH_FILE",
        StatusCode::PermissionDenied => "SSH_FX_PERMISSION_DENIED",
        StatusCode::Failure => "SSH_FX_FAILURE",
        StatusCode::BadMessage => "SSH_FX_BAD_MESSAGE",
        StatusCode::NoConnection => "SSH_FX_NO_CONNECTION",
        StatusCode::ConnectionLost => "SSH_FX_CONNECTION_LOST",
        StatusCode::OpUnsupported => "SSH_FX_OP_UNSUPPORTED",
    }
}
