//! The errors of the engine, with messages for people.

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
        /// The requested name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The automation is disabled.
    #[error("automation `{0}` is disabled; set `enabled: true` in its file")]
    Disabled(AutomationId),
    /// No execution has this id.
    #[error("there is no execution `{0}`")]
    NoSuchExecution(ExecutionId),
    /// The execution cannot be replayed in this way.
    #[error("{0}")]
    NotReplayable(String),
    /// The queue for a slot is full.
    #[error("too many executions are waiting; try again in {} s", .retry_after.as_secs())]
    Busy {
        /// The delay before the next try.
        retry_after: Duration,
    },
    /// Other requests have the memory for large executions.
    #[error("other requests read large executions; try again in {} s", .retry_after.as_secs())]
    ReadersBusy {
        /// The delay before the next try.
        retry_after: Duration,
    },
    /// Executions that were accepted before are being started, so that this one cannot begin at once.
    #[error("executions that were accepted before are being started; try again in {} s", .retry_after.as_secs())]
    Recovering {
        /// The delay before the next try.
        retry_after: Duration,
    },
    /// The input is invalid.
    #[error("{0}")]
    Input(String),
    /// The sealed secrets, or the key that seals them, cannot be used.
    #[error("the secrets of the store cannot be used: {0}")]
    Vault(String),
    /// A secret provider fails, and no earlier answer may be used.
    #[error("{0}")]
    SecretProvider(String),
    /// The node that has the execution does not answer.
    #[error("another daemon has the execution and does not answer; try again")]
    Unanswered,
    /// The engine is stopping.
    #[error("the daemon is stopping")]
    Closing,
    /// Reading or writing a file failed.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// The path of the file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The built-in connectors or the HTTP client cannot be set up.
    #[error("the connectors cannot be set up: {0}")]
    Connectors(String),
}

impl Error {
    /// Returns the error of a start that has to wait and may not.
    #[must_use]
    pub fn busy() -> Self {
        Self::Busy { retry_after: Duration::from_secs(1) }
    }
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
