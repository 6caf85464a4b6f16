//! The values of a connection, and the time of calls over it.

use connector::net::Route;
use connector::{ConnectionValue, LogSink, ResolvedConnection};
use model::{ActionError, ErrorKind, LogLevel};
use sha2::{Digest as _, Sha256};
use value::Value;

/// The values of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a>(pub &'a ResolvedConnection);

impl<'a> Inputs<'a> {
    /// A text or a secret; `None` if it is not set or empty.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        let text = match self.0.values.get(name)? {
            ConnectionValue::Plain(value) => value.as_str()?,
            ConnectionValue::Secret(secret) => secret.expose(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    fn plain(self, name: &str) -> Option<&'a Value> {
        match self.0.values.get(name)? {
            ConnectionValue::Plain(value) => Some(value),
            ConnectionValue::Secret(_) => None,
        }
    }

    pub(crate) fn number(self, name: &str) -> Option<i64> {
        self.plain(name)?.as_i64()
    }

    pub(crate) fn flag(self, name: &str) -> bool {
        self.plain(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Refuses to send data without encryption, except to a server that the operator has allowed. `setting` is that of the connection:
    /// `tls: none`.
    pub(crate) fn check_open(
        self,
        route: &Route,
        (subject, setting): (&str, &str),
        log: &dyn LogSink,
    ) -> Result<(), ActionError> {
        if !route.is_allowed() {
            return Err(self.refuse(format_args!(
                "with `{setting}` a password and the data would travel for everybody to read; only a server that the setting \
                 `outbound.allow` names is called so"
            )));
        }
        let message = format!("the connection to {subject} at `{}` is not encrypted", route.address());
        log.line(LogLevel::Warn, &message);
        Ok(())
    }

    /// Returns a hash of the values: other values make another session.
    pub(crate) fn digest(self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        };
        add(&self.0.kind);
        for (name, value) in &self.0.values {
            add(name);
            match value {
                ConnectionValue::Plain(value) => add(&value.to_json()),
                ConnectionValue::Secret(secret) => add(secret.expose()),
            }
        }
        hash.finalize().into()
    }

    /// The error of a connection that cannot be used.
    pub(crate) fn refuse(self, words: impl std::fmt::Display) -> ActionError {
        connection_error(format!("the connection `{}` cannot be used: {words}", self.0.name))
    }
}

/// An error of the connection itself.
pub(crate) fn connection_error(message: String) -> ActionError {
    ActionError::new(ErrorKind::Connection, message)
}

/// The time of a call of a step without a timeout.
#[cfg(any(feature = "mail", feature = "sftp"))]
const USUAL_LIMIT: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// Runs the work of a call within its time. If `writes` is true, nobody knows the outcome of work that was cut off.
///
/// # Errors
/// The error of the work, or that the system, which `subject` names, did not finish.
#[cfg(any(feature = "mail", feature = "sftp"))]
pub(crate) async fn within(
    call: &connector::Call<'_>,
    (subject, writes): (&str, bool),
    work: impl Future<Output = Result<Value, ActionError>>,
) -> Result<Value, ActionError> {
    let limit = call.time_left.unwrap_or(USUAL_LIMIT);
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("{subject} did not finish within {}", text::units::format_duration(limit));
        let error = ActionError::new(ErrorKind::Timeout, message);
        Err(if writes { error.with_outcome_unknown() } else { error })
    })
}
