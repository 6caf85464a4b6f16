//! The only crate that knows SQL: one contract, [`Store`], and what keeps it.
//!
//! [`SqliteStore`] keeps it in one file: all writes of the process go through one thread that commits whatever
//! has queued up as one transaction with one sync, and wakes each caller when its own write is durable.

mod contract;
mod error;
mod prefix;

mod sqlite;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "memory")]
pub mod memory;

pub use contract::{
    Accept, Accepted, Address, Already, Append, Definition, ExecutionFilter, ExecutionRow, Info, Metrics,
    NewExecution, Outcomes, Page, PollEntry, PollStanding, PollWrite, Prune, PruneRule, Resting, Room,
    Sending, Sent, StateEntry, StateRow, StateWrite, Store, Subscription, Wait, Watermark,
};
pub use error::Error;
#[cfg(feature = "memory")]
pub use memory::{Memory, MemoryStore};
pub use prefix::executions_by_prefix;
pub use sqlite::{Backup, Durability, Options, SqliteStore};
