//! Connections that write, and the errors of the server.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use store::{Error, OutageKind};

/// The settings of a session that writes batches. The plans are made once: for arrays of any length the primary key is the way
/// to the rows, and a scan or a hash join would read all of a table.
pub(super) const LANE_SESSION: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; \
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
    SET idle_in_transaction_session_timeout = '5s'; SET statement_timeout = 0; SET lock_timeout = 0; \
    SET client_min_messages = warning; SET standard_conforming_strings = on; \
    SET default_transaction_isolation = 'read committed'";

/// The time after which a request that no transaction can hold up has no answer any more: something on the way swallows it.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why the database cannot be used at the moment.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) kind: OutageKind,
    pub(super) reason: String,
}

impl Trouble {
    pub(super) fn unreachable(reason: String) -> Self {
        Self { kind: OutageKind::Unreachable, reason }
    }
}

impl From<&tokio_postgres::Error> for Trouble {
    fn from(error: &tokio_postgres::Error) -> Self {
        let kind = outage_kind(error).unwrap_or(OutageKind::Refused);
        Self { kind, reason: message(error) }
    }
}

/// Waits for the answer to a request that no transaction can hold up. Returns the reason if there is none.
pub(super) async fn in_time<T>(
    request: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(ANSWER_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| Trouble::from(&error)),
        Err(_) => {
            let reason = format!("there is no answer within {} s", ANSWER_TIMEOUT.as_secs());
            Err(Trouble::unreachable(reason))
        }
    }
}

/// A connection of its own, not one of a pool.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    /// The number of warnings that the server has sent.
    warnings: Arc<AtomicU64>,
}

impl Session {
    /// Opens a connection and applies `settings`. The task of the connection ends with the client.
    pub(super) async fn open(
        config: &Config,
        encryption: &MakeRustlsConnect,
        settings: &str,
    ) -> Result<Self, tokio_postgres::Error> {
        Self::listening(config, encryption, settings, |_| {}).await
    }

    /// Opens a connection, applies `settings`, and calls `receive` with the payload of each notification.
    pub(super) async fn listening(
        config: &Config,
        encryption: &MakeRustlsConnect,
        settings: &str,
        receive: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, tokio_postgres::Error> {
        let (client, mut connection) = config.connect(encryption.clone()).await?;
        let warnings = Arc::new(AtomicU64::new(0));
        let count = warnings.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    AsyncMessage::Notice(notice) if notice.severity() == "WARNING" => {
                        // A commit with a warning is looked at by the lane; a terminated backend that is gone is no news.
                        tracing::debug!(message = notice.message(), "the database warns");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    AsyncMessage::Notification(notification) => receive(notification.payload()),
                    _ => {}
                }
            }
        });
        client.batch_execute(settings).await?;
        Ok(Self { client, warnings })
    }

    /// Returns the number of warnings so far.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }
}

/// Returns true if the connection is lost, or the server cannot take requests at the moment.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        // A parameter that has no form in the database never has one on another connection either.
        None => !error.to_string().starts_with("error serializing parameter"),
        Some(code) => {
            // The connection is lost, the login is refused, or there is no such database.
            ["08", "28", "3D"].iter().any(|class| code.code().starts_with(class))
                || [
                    &SqlState::ADMIN_SHUTDOWN,
                    &SqlState::CRASH_SHUTDOWN,
                    &SqlState::CANNOT_CONNECT_NOW,
                    &SqlState::TOO_MANY_CONNECTIONS,
                    &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    &SqlState::READ_ONLY_SQL_TRANSACTION,
                ]
                .contains(&code)
        }
    }
}

/// Returns true if the same batch can succeed when it is sent again.
pub(super) fn is_transient(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::LOCK_NOT_AVAILABLE,
        ]
        .contains(&code)
    })
}

/// Returns the message of an error with its causes, in which the server names no password.
pub(super) fn message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => db.message().to_owned(),
        None => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        }
    }
}

/// Returns true if the client says that no server of the address takes writes. The system uses the same kind of error for a socket
/// that may not be opened.
fn is_read_only(cause: &std::io::Error) -> bool {
    cause.kind() == std::io::ErrorKind::PermissionDenied
        && cause.to_string().contains("does not allow writes")
}

/// Returns the kind of the outage that an error of a write tells of; `None` if the write itself is at fault, so that others succeed.
pub(super) fn outage_kind(error: &tokio_postgres::Error) -> Option<OutageKind> {
    let Some(code) = error.code() else {
        if !is_lost(error) {
            return None;
        }
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
        let is_read_only = cause.is_some_and(is_read_only);
        return Some(if is_read_only { OutageKind::ReadOnly } else { OutageKind::Unreachable });
    };
    if is_lost(error) {
        let is_read_only = *code == SqlState::READ_ONLY_SQL_TRANSACTION;
        return Some(if is_read_only { OutageKind::ReadOnly } else { OutageKind::Unreachable });
    }
    match code.code().get(..2) {
        _ if *code == SqlState::DISK_FULL => Some(OutageKind::Full),
        // Data exceptions, violated constraints, limits of the server, and the codes of its own functions.
        Some("22" | "23" | "54" | "CW") => None,
        _ => Some(OutageKind::Refused),
    }
}

/// Converts an error of a read.
pub(super) fn read_error(error: &tokio_postgres::Error) -> Error {
    match error.code() {
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            Error::DatabaseDamaged { detail: message(error) }
        }
        _ => Error::Read { reason: message(error) },
    }
}

/// Converts an error of a write that was rolled back. One with [`Error::Invalid`] would fail again whenever it is sent.
pub(super) fn write_error(error: &tokio_postgres::Error) -> Error {
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => Error::Full,
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            Error::DatabaseDamaged { detail: message(error) }
        }
        _ if outage_kind(error).is_none() => Error::Invalid { reason: message(error) },
        _ => Error::Write { reason: message(error) },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::is_read_only;

    #[test]
    fn a_socket_permission_error_is_not_a_read_only_database() {
        assert!(is_read_only(&Error::new(ErrorKind::PermissionDenied, "database does not allow writes")));
        assert!(!is_read_only(&Error::from(ErrorKind::PermissionDenied)));
    }
}
