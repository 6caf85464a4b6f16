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
    /// The event that ends the wait.
    pub event: Option<AwaitedEvent>,
    /// The execution whose end ends the wait.
    pub child: Option<ExecutionId>,
}

/// The events for which a step waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitedEvent {
    /// The name of the events.
    pub name: String,
    /// The key of the events; the empty key matches every event of the name.
    pub key: EventKey,
    /// The condition on the events, in the form of the engine; `None` if the store has none.
    pub condition: Option<String>,
}

/// A value of a member of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// The path of the member.
    pub path: String,
    /// The value of the member.
    pub value: String,
}

/// A step that waits for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWaiter {
    /// The execution.
    pub execution: ExecutionId,
    /// The step, with its loop indexes.
    pub step: String,
    /// The value of the key for which it waits.
    pub value: String,
    /// The condition on the event, in the form of the engine.
    pub condition: Option<String>,
}

impl Wait {
    /// The maximum number of open waits of an execution.
    pub const MAX: usize = 10_000;

    /// The mark behind a step that waits for the next look at work of a service, and not for its next attempt.
    pub const OPERATION: &str = "#operation";
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
