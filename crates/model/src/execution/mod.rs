//! Executions: their ids, events and log lines, and the state folded from the events.

mod event;
mod fold;
mod id;
mod log;
mod outcome;

pub use event::{CallRecord, DelayReason, Event, Origin, Signal, WaitReason};
pub use fold::{Execution, InvalidEvent, StepState, StepWait};
pub use id::ExecutionId;
pub use log::{LogLevel, LogLine};
pub use outcome::{Jump, Outcome, Status, StepOutcome};
