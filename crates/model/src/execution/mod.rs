//! Executions: their ids and events, and the state folded from the events.

mod event;
mod history;
mod id;
mod outbox;
mod outcome;

pub use crate::{LogLevel, LogLine};
pub use event::{CallRecord, DelayReason, Event, Origin, Signal, WaitReason};
pub use history::{
    History, InvalidEvent, PastWait, Start, StepAnswer, StepAttempt, StepHistory, StepProgress, WaitCause,
    WaitEnd, split_key,
};
pub use id::ExecutionId;
pub use outbox::OutboxEvent;
pub use outcome::{Jump, Outcome, Status, StepOutcome};
