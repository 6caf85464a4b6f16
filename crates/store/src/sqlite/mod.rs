//! The contract, kept in one SQLite file in WAL mode.
//!
//! One thread owns the connection that writes ([`writer`]); callers encode, queue and wait. A second thread copies
//! the write-ahead log into the file ([`checkpoint`]), so that no commit waits for it. Reads go to a few
//! connections of their own ([`pool`]). Large values are files beside it ([`blobs`]).

mod settings;

mod place;
mod schema;
mod sendings;

mod blobs;
mod check;
mod encode;
mod gauge;
mod queue;
mod start;
mod state;
mod statements;
mod stored;
mod trouble;
mod waits;
mod write;
mod writer;

mod checkpoint;
mod counters;
mod poison;
mod readahead;

mod list;
mod polls;
mod pool;
mod read;

mod backup;
mod forget;

mod handle;

pub(crate) use backup::back_up;
pub(crate) use handle::SqliteStore;
pub(crate) use place::exists;
