//! Deduplication of what starts executions.

use jiff::Timestamp;
use model::ExecutionId;

/// A deduplication record that an execution takes in its Automation. While it is unexpired, an execution with the same
/// key is a duplicate and is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupRecord {
    /// The hash that identifies the request or item. The first execution with it is accepted.
    pub key: [u8; 32],
    /// The hash of the whole content; `None` if equal keys may have different content.
    pub content: Option<[u8; 32]>,
    /// The expiry, which does not depend on the fate of the execution.
    pub until: Timestamp,
}

impl DedupRecord {
    /// The maximum number of records of one execution.
    pub const MAX: usize = 500;
}

/// The stored record with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupHit {
    /// The execution that took the key. It may have been pruned.
    pub execution: ExecutionId,
    /// The hash of the whole content, if it was recorded.
    pub content: Option<[u8; 32]>,
}

impl DedupHit {
    /// True if both hashes are known and differ: the same key has different content.
    #[must_use]
    pub fn conflicts_with(&self, content: Option<[u8; 32]>) -> bool {
        matches!((self.content, content), (Some(first), Some(second)) if first != second)
    }
}
