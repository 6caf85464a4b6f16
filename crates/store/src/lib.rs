//! Durable storage: the traits, and what the stores of all databases share.
//!
//! [`Store`] joins a trait for each duty; the handle is `Arc<dyn Store>` everywhere. When its last clone is dropped, the queued writes are committed and the files are released;
//! [`Store::close`] does the same without blocking a thread.
//!
//! Modules, in reading order:
//!
//! * `traits`: a trait for each duty; each method says what a crash means
//! * `types`: the arguments and results of the traits
//! * `options`: the settings of a store
//! * `codec`: the stored forms that both databases share
//! * `migration`: moves a store to another place
//! * `counters`: counters of the writer
//! * `outage`: the time in which a store takes no writes
//! * `poison`: the first fatal failure
//! * `regular`: opens regular files alone, never through a link
//! * `prefix`: finds executions by the beginning of their id
//! * `random`: bytes of the system for ids and secrets
//! * `conformance`: the rules that every store passes
//! * `memory`: a store for tests
//! * `layered`: a store behind a layer, for tests
//! * `error`: the error of this crate

pub mod codec;
pub mod counters;
mod error;
mod layered;
pub mod migration;
mod options;
pub mod outage;
pub mod poison;
mod prefix;
mod random;
pub mod regular;
mod traits;
mod types;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "memory")]
pub mod memory;

use std::path::PathBuf;

use jiff::Timestamp;

pub use codec::{CutEvents, CutValue, HistoryBytes, HistoryRow, SMALL_VALUE};
pub use error::{Error, FailureKind};
pub use layered::{Call, Layer, Layered};
#[cfg(feature = "memory")]
pub use memory::Memory;
pub use options::{Durability, Options};
pub use outage::{Outage, OutageKind};
pub use prefix::executions_by_prefix;
pub use random::random;
pub use traits::{
    DefinitionStore, ExecutionStore, GenerationStore, MaintenanceStore, OutboxStore, PeerStore, SecretStore,
    SharedTriggerStore, StateStore, Store, TriggerStore, WaitStore,
};
pub use types::{
    Accept, AcceptOutcome, Address, Append, AwaitedEvent, BucketKind, Capacity, DedupHit, DedupRecord,
    Definition, DefinitionUse, DeployOutcome, DeployedFile, EventKey, EventWaiter, ExecutionFilter,
    ExecutionRow, Generation, GenerationSource, HandedExecution, Info, InitialEvents, Letter, LetterState,
    Listening, Load, Metrics, NewCapture, NewExecution, NewGeneration, NewListening, News, Node, NodeDetails,
    NodeId, OutboxCount, OutboxRow, OutcomeFilter, Page, PollEntry, PollState, PollWrite, PruneFilter,
    PruneRule, Recipient, ReplayLog, RunningGeneration, ServerTime, Shard, ShardSet, SharedSettings,
    Snapshot, SnapshotChange, StateEntry, StateRow, StateWrite, Subscription, SuspendedExecution, TokenGrant,
    TokenRequest, Wait, Watermark,
};

/// The result of an examination of a store.
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

/// The result of a restore.
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

/// The result of a backup.
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
