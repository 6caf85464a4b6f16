//! The reason why a job has no result.

use std::io;

/// A failure, without the name of the document.
#[derive(Debug)]
pub(super) struct Failure {
    /// True if the document is too large, rather than wrong.
    pub is_limit: bool,
    pub message: String,
}

impl Failure {
    /// The document, or an input, is wrong.
    pub(super) fn input(message: impl Into<String>) -> Self {
        Self { is_limit: false, message: message.into() }
    }

    /// The document exceeds a bound.
    pub(super) fn limit(message: impl Into<String>) -> Self {
        Self { is_limit: true, message: message.into() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::input(format!("it cannot be read: {error}"))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::input(message)
    }
}
