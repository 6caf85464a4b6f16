//! What executions wait for while they are paused.

use jiff::Timestamp;
use model::ExecutionId;

/// One open wait of an execution. What it waits for may be a time, an event and another execution, in any mixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which step waits, with its loop turns. One step has one wait at most.
    pub step: String,
    /// Until when, if not for ever. Nothing happens at that time by itself: the store has no clock.
    pub until: Option<Timestamp>,
    /// The name of the event that ends it.
    pub event: Option<String>,
    /// The execution whose end ends it.
    pub child: Option<ExecutionId>,
}

impl Wait {
    /// How many open waits an execution can have.
    pub const MAX: usize = 10_000;
}

/// An execution that is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resting {
    /// Which execution.
    pub execution: ExecutionId,
    /// The earliest `until` of its waits, if one has any.
    pub wake_at: Option<Timestamp>,
    /// Whether it keeps a place among others while it waits.
    pub holds: bool,
}
