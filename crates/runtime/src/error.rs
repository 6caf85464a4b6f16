//! What can go wrong in the engine, in words for whoever asked.

use std::time::Duration;

use model::{AutomationId, ExecutionId};

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] store::Error),
    /// The catalog has no such automation, or cannot be built.
    #[error(transparent)]
    Catalog(catalog::Error),
    /// There is no such connection.
    #[error("there is no connection `{name}`{}", did_you_mean(.nearest.as_deref()))]
    NoSuchConnection {
        /// What was asked for.
        name: String,
        /// The nearest one there is.
        nearest: Option<String>,
    },
    /// The Automation is switched off.
    #[error("automation `{0}` is disabled; set `enabled: true` in its file")]
    Disabled(AutomationId),
    /// There is no such execution.
    #[error("there is no execution `{0}`")]
    NoSuchExecution(ExecutionId),
    /// More is waiting than may.
    #[error("too many executions are waiting; try again in {} s", .retry_after.as_secs())]
    Busy {
        /// When to try again.
        retry_after: Duration,
    },
    /// What was given cannot start the Automation.
    #[error("{0}")]
    Input(String),
    /// The sealed secrets, or the key that seals them, cannot be used.
    #[error("the secrets of the store cannot be used: {0}")]
    Vault(String),
    /// The engine is stopping.
    #[error("the daemon is stopping")]
    Closing,
    /// Reading or writing a file failed.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The connectors that come with Cogwork, or the client for calls, cannot be set up.
    #[error("the connectors cannot be set up: {0}")]
    Connectors(String),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Self {
        match error {
            catalog::Error::Store(error) => Self::Store(error),
            catalog::Error::Input(message) => Self::Input(message),
            other => Self::Catalog(other),
        }
    }
}
