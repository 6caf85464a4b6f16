//! The store on one SQLite file in WAL mode.
//!
//! One thread owns the writing connection ([`writer`]); callers encode their write, queue it and wait. All queued writes
//! are committed in one transaction with one sync. A second thread copies the write-ahead log into the file
//! ([`checkpoint`]), so that no commit waits for it. A few other connections serve reads ([`pool`]). Large values are
//! files beside the database ([`blobs`]).

mod settings;

mod dedup;
mod paths;
mod schema;

mod blobs;
mod check;
mod columns;
mod encode;
mod error_map;
mod queue;
mod replay;
mod state;
mod statements;
mod usage;
mod waits;
mod write;
mod writer;

mod checkpoint;
mod readahead;
mod regular;

mod list;
mod polls;
mod pool;
mod read;

mod backup;
mod examine;
mod migration;
mod probe;
mod prune;
mod restore;

mod store;

pub(crate) use backup::back_up;
pub(crate) use examine::examine;
pub(crate) use migration::open_side;
pub(crate) use paths::exists;
pub use regular::open_to_read as open_regular;
pub(crate) use restore::restore;
pub(crate) use store::SqliteStore;
