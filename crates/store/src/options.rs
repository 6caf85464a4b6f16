//! The options with which a store is opened.

use std::path::PathBuf;

use model::automation::Retention;
use model::failpoint::Failpoints;

/// The point at which a write counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After it is synced to disk: it survives a power failure.
    #[default]
    Full,
    /// After it is handed to the operating system: it survives a crash of the daemon, but a power failure can lose the
    /// last writes. [`crate::Info::weakened`] reports this.
    Relaxed,
}

/// The options with which a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The point at which a write counts as durable.
    pub durability: Durability,
    /// The size limit of the database and its blobs together, in bytes; `None`: only the disk limits it.
    ///
    /// A write beyond it returns [`crate::Error::Full`]; accepting an execution does so when less than a twentieth is
    /// left. The write-ahead log, up to 32 MiB, is not counted.
    pub max_bytes: Option<u64>,
    /// The retention of the daemon, which nodes that share a store compare. The store deletes nothing on its own.
    pub retention: Option<Retention>,
    /// Values of an event that take this many bytes or more as JSON are stored as blobs.
    pub blob_bytes: usize,
    /// The folder on this machine of a store on a server: files that arrive, and the identity of the daemon, by which a restarted
    /// one continues at once. `None`: a temporary folder, and a new identity. A store in a file does not use it.
    pub local: Option<PathBuf>,
    /// Faults that a test injects around commits.
    pub failpoints: Failpoints,
}

impl Options {
    /// The default of [`Options::blob_bytes`]. A smaller value is cheaper in its row than in a file with two syncs.
    pub const BLOB_BYTES: usize = 64 << 10;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            max_bytes: None,
            retention: None,
            blob_bytes: Self::BLOB_BYTES,
            local: None,
            failpoints: Failpoints::default(),
        }
    }
}
