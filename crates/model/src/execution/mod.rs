//! Executions: their ids, events and log lines, and the state folded from the events.

mod event;
mod history;
mod id;
mod log;
mod outcome;

pub use event::{CallRecord, DelayReason, Event, Origin, Signal, WaitReason};
pub use history::{
    History, InvalidEvent, PastWait, Start, StepAnswer, StepAttempt, StepHistory, StepProgress, WaitCause,
    WaitEnd, split_key,
};
pub use id::ExecutionId;
pub use log::{LogLevel, LogLine};
pub use outcome::{Jump, Outcome, Status, StepOutcome};
