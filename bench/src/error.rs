//! Errors of measuring.

use std::fmt::Display;

/// The reason why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The arguments are wrong.
    #[error("{0}\n\n{help}", help = crate::options::HELP)]
    Usage(String),
    /// Reading, writing or starting something failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A server did not do what it should.
    #[error("{0}")]
    Server(String),
    /// The database of a baseline failed.
    #[error("the baseline's database: {0}")]
    Database(#[from] rusqlite::Error),
    /// PostgreSQL failed.
    #[error("PostgreSQL: {0}")]
    Postgres(#[from] postgres_server::Error),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] runtime::Error),
    /// The project cannot be checked.
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    /// Code failed.
    #[error(transparent)]
    Code(#[from] script::Error),
    /// QuickJS, by itself, failed.
    #[error("QuickJS: {0}")]
    QuickJs(#[from] rquickjs::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Converts a system error to an error that names its object.
    pub(crate) fn io(what: impl Display) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what: what.to_string(), source }
    }
}
