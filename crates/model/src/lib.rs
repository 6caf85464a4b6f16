//! Data model of Cogwork: checked files, and the stored form of executions. No I/O, no clock, no async.
//!
//! An [`Automation`] is one checked file. A [`Payload`] starts an execution of it. The history of an execution is a log of
//! [`Event`]s, whose fold is an [`Execution`]. Steps pass [`Value`](value::Value)s to each other.

pub mod action;
pub mod automation;
pub mod backoff;
pub mod connection;
pub mod execution;
pub mod failpoint;
mod log;
pub mod metric;
pub mod payload;
pub mod reserved_headers;
pub mod retry;
pub mod test_suite;

pub use action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
pub use automation::{Automation, AutomationId, Block, DefinitionHash, OnError, Step, Trigger, Verb};
pub use backoff::Backoff;
pub use connection::Connection;
pub use execution::{Event, Execution, ExecutionId, Origin, Outcome, Status, StepOutcome};
pub use log::{LogLevel, LogLine};
pub use payload::{HttpResponse, Payload};
pub use retry::RetryPolicy;
