//! How calls with each connection ended, since the daemon started.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use model::redact;
use serde::Serialize;

use super::ConnectionState;

/// The most connections of which the health is kept.
const MOST: usize = 10_000;

/// How calls with a connection ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// How many calls went well.
    pub succeeded: u64,
    /// How many failed for the connection's own sake, or the other side's.
    pub failed: u64,
    /// When one went well last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// When one failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_at: Option<Timestamp>,
    /// Why it failed last; gone once one goes well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl Health {
    pub(super) fn state(&self) -> ConnectionState {
        match (&self.last_error, self.succeeded) {
            (Some(_), _) => ConnectionState::Failing,
            (None, 0) => ConnectionState::Unused,
            (None, _) => ConnectionState::Healthy,
        }
    }
}

/// The most characters that are kept of an error, whose secrets are hidden before.
const MAX_ERROR: usize = 500;

/// The health of all connections.
#[derive(Default)]
pub(super) struct Book(Mutex<BTreeMap<String, Health>>);

impl Book {
    pub(super) fn of(&self, name: &str) -> Health {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned().unwrap_or_default()
    }

    pub(super) fn note(&self, name: &str, now: Timestamp, error: Option<&ActionError>) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !book.contains_key(name) && book.len() >= MOST {
            book.pop_first();
        }
        let health = book.entry(name.to_owned()).or_default();
        match error.filter(|error| is_about_the_connection(error)) {
            // What the other side refuses for the sake of what was asked shows that the connection works.
            None => {
                health.succeeded += 1;
                health.last_success_at = Some(now);
                health.last_error = None;
            }
            Some(error) => {
                health.failed += 1;
                health.last_failure_at = Some(now);
                health.last_error = Some(redact::cut(&error.message, MAX_ERROR).into_owned());
            }
        }
    }
}

/// Whether a failure tells something of the connection or the other side, and not of what was asked.
fn is_about_the_connection(error: &ActionError) -> bool {
    match error.status {
        Some(status) => matches!(status, 401 | 403 | 407 | 429) || status >= 500,
        None => !matches!(error.kind, ErrorKind::Input | ErrorKind::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_wrongly_says_nothing_against_the_connection() {
        let book = Book::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(book.of("wiki").state(), ConnectionState::Unused);
        let error = |status| ActionError::new(ErrorKind::Response, "no").with_status(status);
        book.note("wiki", now, Some(&error(404)));
        assert_eq!(book.of("wiki").state(), ConnectionState::Healthy);
        book.note("wiki", now, Some(&error(401)));
        assert_eq!(book.of("wiki").state(), ConnectionState::Failing);
        book.note("wiki", now, None);
        assert_eq!((book.of("wiki").state(), book.of("wiki").failed), (ConnectionState::Healthy, 1));
    }
}
