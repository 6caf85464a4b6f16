//! Sessions with a database: what each kind of database has to offer, and how its errors count.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use model::{ActionError, ErrorKind};
use tokio::time::Instant;

use super::description::Description;
use super::params::Bound;
use super::rows::RowSink;
use crate::pool::Pooled;

/// A session in which one transaction runs at a time.
#[async_trait]
pub(super) trait Session: Send {
    /// Begins a transaction, whose statements may take `limit`.
    async fn begin(&mut self, mode: Mode, limit: Duration) -> Result<(), Failure>;

    /// Runs a statement and passes its rows on.
    async fn run(&mut self, statement: &Bound, rows: &mut RowSink<'_>) -> Result<Done, Failure>;

    /// Describes a statement without running it.
    async fn describe(&mut self, sql: &str) -> Result<Description, Failure>;

    /// Commits the transaction. After [`Class::Lost`] the outcome is unknown.
    async fn commit(&mut self) -> Result<(), Failure>;

    /// Takes the transaction back. An error leaves that to the end of the session.
    async fn rollback(&mut self) -> Result<(), Failure>;

    /// True if a statement has rows that were not read. To end the transaction they would have to be read: the session is closed
    /// instead, which takes the transaction back.
    fn is_cut(&self) -> bool {
        false
    }

    /// False if the session cannot be used again.
    fn is_usable(&self) -> bool;
}

/// An open session of any database.
pub(super) struct Opened(pub Box<dyn Session>);

impl Pooled for Opened {
    const MAX_IDLE: Duration = Duration::from_secs(60);
    type Shared = Swept;

    fn is_usable(&self) -> bool {
        self.0.is_usable()
    }
}

/// The time at which old keys were last deleted.
pub(super) type Swept = Mutex<Option<Instant>>;

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It reads.
    Read,
    /// It writes, with this isolation.
    Write(Isolation),
}

/// The isolation of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Isolation {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    pub(super) fn parse(name: &str) -> Self {
        match name {
            "repeatableRead" => Self::RepeatableRead,
            "serializable" => Self::Serializable,
            _ => Self::ReadCommitted,
        }
    }

    /// The words of SQL.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }
}

/// The effect of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub affected: u64,
    /// The last id that the database gave, where it says so.
    pub last_id: Option<i64>,
}

/// A failed operation.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: ActionError,
    pub class: Class,
}

/// The consequence of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing: the transaction failed.
    Other,
    /// The transaction collided with another one, was taken back, and may succeed when it is tried again.
    Conflict,
    /// The connection is lost.
    Lost,
    /// A table does not exist.
    NoTable,
}

impl Failure {
    pub(super) fn new(class: Class, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { error: ActionError::new(kind, message), class }
    }
}

impl From<ActionError> for Failure {
    fn from(error: ActionError) -> Self {
        Self { error, class: Class::Other }
    }
}
