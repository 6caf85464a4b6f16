//! Durable storage. This is the only crate that knows SQL.
//!
//! [`Store`] joins a trait for each duty. [`open`] returns the store at a [`Location`]; the handle is `Arc<dyn Store>`
//! everywhere. When its last clone is dropped, the queued writes are committed and the files are released;
//! [`Store::close`] does the same without blocking a thread.
//!
//! Modules, in reading order:
//!
//! * `traits`: a trait for each duty; each method says what a crash means
//! * `types`: the arguments and results of the traits
//! * `location`: the address of a store
//! * `options`: the settings of a store
//! * `codec`: the stored forms that both databases share
//! * `sqlite`: the store in one file: a writer thread, a pool of readers, files of large values
//! * `postgres`: the store that several daemons share: lanes of batches, beats, shards, letters
//! * `migration`: moves a store to another place
//! * `counters`: counters of the writer
//! * `outage`: the time in which a store takes no writes
//! * `poison`: the first fatal failure
//! * `prefix`: finds executions by the beginning of their id
//! * `random`: bytes of the system for ids and secrets
//! * `conformance`: the rules that every store passes
//! * `memory`: a store for tests
//! * `error`: the error of this crate

mod codec;
mod counters;
mod error;
mod location;
pub mod migration;
mod options;
mod outage;
mod poison;
mod prefix;
mod random;
mod traits;
mod types;

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "memory")]
pub mod memory;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

pub use codec::{CutEvents, CutValue, HistoryBytes, HistoryRow, SMALL_VALUE};
pub use error::{Error, FailureKind};
pub use location::Location;
#[cfg(feature = "memory")]
pub use memory::Memory;
pub use options::{Durability, Options};
pub use outage::{Outage, OutageKind};
pub use prefix::executions_by_prefix;
pub use random::random;
pub use sqlite::open_regular;
pub use traits::{
    DefinitionStore, ExecutionStore, GenerationStore, MaintenanceStore, PeerStore, SecretStore,
    SharedTriggerStore, StateStore, Store, TriggerStore, WaitStore,
};
pub use types::{
    Accept, AcceptOutcome, Address, Append, AwaitedEvent, BucketKind, Capacity, DedupHit, DedupRecord,
    Definition, DefinitionUse, DeployOutcome, DeployedFile, EventKey, EventWaiter, ExecutionFilter,
    ExecutionRow, Generation, GenerationSource, HandedExecution, Info, InitialEvents, Letter, LetterState,
    Listening, Load, Metrics, NewCapture, NewExecution, NewGeneration, NewListening, News, Node, NodeDetails,
    NodeId, OutcomeFilter, Page, PollEntry, PollState, PollWrite, PruneFilter, PruneRule, Recipient,
    ReplayLog, RunningGeneration, ServerTime, Shard, ShardSet, SharedSettings, Snapshot, SnapshotChange,
    StateEntry, StateRow, StateWrite, Subscription, SuspendedExecution, TokenGrant, TokenRequest, Wait,
    Watermark,
};

/// Opens the store at `location`. Creates it if it is missing, and migrates its tables to the current version.
/// Blocks for some milliseconds; on a server as long as it takes to take over the executions of daemons that are gone.
///
/// # Errors
/// Another process has the store open, the file system is not reliable, the location holds something else, a later
/// release wrote the store, or the system refuses.
pub fn open(location: &Location, options: Options) -> Result<Arc<dyn Store>, Error> {
    match location {
        Location::File(path) => Ok(Arc::new(sqlite::SqliteStore::open(path, options)?)),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Ok(Arc::new(postgres::open(address, options)?)),
    }
}

/// Opens the store at `location` only for reading; a daemon may have it open. Writes return [`Error::ReadOnly`].
///
/// # Errors
/// There is no store, the file system is not reliable, or another release wrote its tables.
pub fn open_read_only(location: &Location) -> Result<Arc<dyn Store>, Error> {
    match location {
        Location::File(path) => Ok(Arc::new(sqlite::SqliteStore::open_read_only(path)?)),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Ok(Arc::new(postgres::open_read_only(address)?)),
    }
}

/// The result of [`examine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Examination {
    /// There is no store; a daemon creates it.
    Missing,
    /// A daemon could open the store.
    Usable {
        /// The version of the tables if an earlier release wrote them, which a daemon migrates when it starts.
        older: Option<u32>,
        /// The wall clock of the server; `None` for a file.
        server_time: Option<Timestamp>,
        /// The guarantees that the server weakens, as sentences for people.
        weakened: Vec<String>,
    },
}

/// Checks that a daemon could open the store at `location` with this durability, and changes nothing. A daemon may have it open. Blocks.
///
/// # Errors
/// The errors of [`open`], except that another daemon has it open.
pub fn examine(location: &Location, durability: Durability) -> Result<Examination, Error> {
    match location {
        Location::File(path) => sqlite::examine(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::examine(address, durability),
    }
}

/// Copies a snapshot of the store at `location` to the new folder `to`; a daemon may have the store open and go on
/// writing. The copy is a store of its own. Blocks until the copy is on disk; after a crash there is no folder `to`.
///
/// # Errors
/// There is no store, `to` exists, a blob is missing or damaged, or the system refuses. A database on a server is not copied.
pub fn back_up(location: &Location, to: &Path) -> Result<Backup, Error> {
    match location {
        Location::File(path) => sqlite::back_up(path, to),
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => Err(Error::Backup {
            path: to.to_owned(),
            reason: "the store is on PostgreSQL; use its own backups, such as `pg_basebackup` with an archive of its log, \
                or `pg_dump`"
                .to_owned(),
        }),
    }
}

/// Restores the store in the folder `from`, which [`back_up`] made, to `location`. Checks it as a whole and migrates it to the
/// current version before it changes anything there. An earlier store is replaced only if `replace` is true, and is kept in a
/// folder beside it, named after `now`. Blocks until everything is on disk; after a crash `location` has the earlier store or the restored one.
///
/// # Errors
/// A daemon has the store at `location` open, there is a store and `replace` is false, `from` holds none or a damaged one, a
/// later release wrote it, or the system refuses. A database on a server is not restored.
pub fn restore(from: &Path, location: &Location, replace: bool, now: Timestamp) -> Result<Restored, Error> {
    match location {
        Location::File(path) => sqlite::restore(from, path, replace, now),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Err(Error::Restore {
            place: address.to_string(),
            reason: "the store is on PostgreSQL; use the means of its own backups, such as `pg_restore`"
                .to_owned(),
        }),
    }
}

/// The result of [`restore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The number of restored executions.
    pub executions: u64,
    /// The number of restored large values, each in a file.
    pub blobs: u64,
    /// The size of the restored store in bytes.
    pub bytes: u64,
    /// The folder that keeps the store that was there before, which is a store of its own; `None` if there was none.
    pub replaced: Option<PathBuf>,
}

/// The result of [`back_up`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The folder of the copy, which is a store of its own.
    pub path: PathBuf,
    /// The number of executions in the copy.
    pub executions: u64,
    /// The number of large values in the copy, each in a file.
    pub blobs: u64,
    /// The size of the copy in bytes.
    pub bytes: u64,
}
