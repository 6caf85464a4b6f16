//! Call statistics of connections since the daemon started.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use serde::Serialize;

use super::ConnectionState;

/// Maximum number of connections with statistics.
const MAX_CONNECTIONS: usize = 10_000;

/// Call statistics of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConnectionHealth)]
pub struct Health {
    /// Calls that went well since the daemon started.
    pub succeeded: u64,
    /// Calls that failed for the connection's own sake, or the other side's.
    pub failed: u64,
    /// Time of the last success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// Time of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_at: Option<Timestamp>,
    /// Error of the last call; absent after a successful one.
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

/// Maximum length of a stored error, in characters. Secrets are masked before.
const MAX_ERROR: usize = 500;

/// Statistics of all connections.
#[derive(Default)]
pub(super) struct HealthRegistry(Mutex<BTreeMap<String, Health>>);

impl HealthRegistry {
    pub(super) fn get(&self, name: &str) -> Health {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned().unwrap_or_default()
    }

    pub(super) fn record(&self, name: &str, now: Timestamp, error: Option<&ActionError>) {
        let mut registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !registry.contains_key(name) && registry.len() >= MAX_CONNECTIONS {
            registry.pop_first();
        }
        let health = registry.entry(name.to_owned()).or_default();
        match error.filter(|error| is_about_the_connection(error)) {
            // A rejection of the request itself proves that the connection works.
            None => {
                health.succeeded += 1;
                health.last_success_at = Some(now);
                health.last_error = None;
            }
            Some(error) => {
                health.failed += 1;
                health.last_failure_at = Some(now);
                health.last_error = Some(text::truncate(&error.message, MAX_ERROR).into_owned());
            }
        }
    }
}

/// Returns true if the failure was caused by the connection or the remote system, and not by the request.
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
    fn a_4xx_response_does_not_mark_the_connection_unhealthy() {
        let registry = HealthRegistry::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(registry.get("wiki").state(), ConnectionState::Unused);
        let error = |status| ActionError::new(ErrorKind::Response, "no").with_status(status);
        registry.record("wiki", now, Some(&error(404)));
        assert_eq!(registry.get("wiki").state(), ConnectionState::Healthy);
        registry.record("wiki", now, Some(&error(401)));
        assert_eq!(registry.get("wiki").state(), ConnectionState::Failing);
        registry.record("wiki", now, None);
        assert_eq!(
            (registry.get("wiki").state(), registry.get("wiki").failed),
            (ConnectionState::Healthy, 1)
        );
    }
}
