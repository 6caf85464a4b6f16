//! Waits of suspended executions.

use jiff::Timestamp;
use model::ExecutionId;

/// An open wait of an execution: for a time, an event, another execution, or any combination of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The step that waits, with its loop indexes. A step has at most one wait.
    pub step: String,
    /// The end of the wait; `None` if it has no time limit. The store has no clock, so it does not act at this time.
    pub until: Option<Timestamp>,
    /// The name of the event that ends the wait.
    pub event: Option<String>,
    /// The execution whose end ends the wait.
    pub child: Option<ExecutionId>,
}

impl Wait {
    /// The most open waits of an execution.
    pub const MAX: usize = 10_000;
}

/// A waiting execution, as an item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspendedExecution {
    /// The execution.
    pub execution: ExecutionId,
    /// The earliest `until` of its waits; `None` if none of them has one.
    pub wake_at: Option<Timestamp>,
    /// True if it keeps its concurrency permit while it waits.
    pub keeps_permit: bool,
}
