//! Executions: their ids and events, and the state folded from the events.

mod event;
mod fold;
mod id;
mod outcome;

pub use crate::{LogLevel, LogLine};
pub use event::{CallRecord, DelayReason, Event, Origin, Signal, WaitReason};
pub use fold::{Execution, InvalidEvent, StepState, StepWait};
pub use id::ExecutionId;
pub use outcome::{Jump, Outcome, Status, StepOutcome};
