//! What was sent before.

use jiff::Timestamp;
use model::ExecutionId;

/// A name of what starts an execution: whatever else has it, within its time, is the same and starts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// A hash; of those with the same one in an Automation, the first stands.
    pub key: [u8; 32],
    /// A hash of all that was sent, where the same key must not stand for anything else.
    pub content: Option<[u8; 32]>,
    /// From when on it counts as absent, whatever becomes of the execution.
    pub until: Timestamp,
}

impl Sending {
    /// How many names one execution may have.
    pub const MAX: usize = 4;
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The execution that it started; its history may be gone.
    pub execution: ExecutionId,
    /// A hash of all that was sent.
    pub content: Option<[u8; 32]>,
}

impl Sent {
    /// Whether the same name stands for something else.
    #[must_use]
    pub fn differs(&self, content: Option<[u8; 32]>) -> bool {
        matches!((self.content, content), (Some(first), Some(second)) if first != second)
    }
}
