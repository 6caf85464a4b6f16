//! The store on one SQLite file in WAL mode.
//!
//! One thread owns the writing connection ([`writer`]); callers encode their write, queue it and wait. All queued writes
//! are committed in one transaction with one sync. A second thread copies the write-ahead log into the file
//! ([`checkpoint`]), so that no commit waits for it. A few other connections serve reads ([`pool`]). Large values are
//! files beside the database ([`blobs`]).
//!
//! Modules, in reading order:
//!
//! * `handle`: opens and closes a store; the methods of the traits
//! * `paths`: directory, permissions and lock file
//! * `settings`: the setup of connections
//! * `schema`: the tables and their migrations
//! * `check`: the integrity of a file
//! * `encode`: writes, encoded by the callers
//! * `queue`: the writes that wait
//! * `writer`: the thread that commits them
//! * `write`: executes them in a transaction
//! * `statements`: prepared statements
//! * `columns`: the shelves of executions
//! * `dedup`: deduplication records
//! * `state`: values by scope and key
//! * `waits`: open waits
//! * `outbox`: events on their way to triggers
//! * `checkpoint`: copies the log into the file
//! * `readahead`: reads the part of the log that is overwritten next
//! * `blobs`: large values in files
//! * `usage`: the size against its limit
//! * `probe`: finds the end of an outage
//! * `error_map`: errors of SQLite
//! * `pool`: reading connections
//! * `read`: queries of executions, definitions and addresses
//! * `replay`: the events of an execution
//! * `list`: lists of executions
//! * `polls`: polls and subscriptions
//! * `triggers`: moves the rows of a trigger to another key
//! * `prune`: deletes old records
//! * `examine`: checks a file without changing it
//! * `backup`: copies a store in use
//! * `restore`: puts a copy in the place of a store
//! * `migration`: one end of a move to another place

mod backup;
mod blobs;
mod check;
mod checkpoint;
mod columns;
mod dedup;
mod encode;
mod error_map;
mod examine;
mod handle;
mod list;
mod migration;
mod outbox;
mod paths;
mod polls;
mod pool;
mod probe;
mod prune;
mod queue;
mod read;
mod readahead;
mod replay;
mod restore;
mod schema;
mod settings;
mod state;
mod statements;
mod triggers;
mod usage;
mod waits;
mod write;
mod writer;

pub use backup::back_up;
pub use examine::examine;
pub use handle::{open, open_read_only};
pub use migration::open_side;
pub use paths::exists;
pub use restore::restore;
