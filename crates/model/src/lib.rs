//! Data model of Cogwork: checked files, and the stored form of executions. No I/O, no clock, no async.
//!
//! An [`Automation`] is one checked file. A [`Payload`] starts an execution of it. The history of an execution is a log of
//! [`Event`]s, whose fold is a [`History`]. Steps pass [`Value`](value::Value)s to each other.
//!
//! Modules, in reading order:
//!
//! * `action`: specifications of actions, their inputs, results and errors
//! * `automation`: the checked types of a file; `step.rs` has the verbs
//! * `execution`: events, and `history`, the fold of a log
//! * `log`: log lines of executions
//! * `payload`: the input of an execution, and the response to a caller
//! * `engine_event`: events of the engine, `cogwork.*`
//! * `retry`: retry policies
//! * `backoff`: growing pauses between attempts
//! * `connection`: named credentials
//! * `described`: statements with the types that a database states
//! * `project`: `project.yaml`, what the files of a project share
//! * `test_suite`: tests of automations
//! * `reserved_headers`: headers that a response may not have
//! * `metric`: counters and histograms
//! * `failpoint`: faults that tests inject

pub mod action;
pub mod automation;
pub mod backoff;
pub mod connection;
pub mod described;
pub mod engine_event;
pub mod execution;
pub mod failpoint;
mod log;
pub mod metric;
pub mod payload;
pub mod project;
pub mod reserved_headers;
pub mod retry;
pub mod test_suite;

pub use action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
pub use automation::{Automation, AutomationId, Block, DefinitionHash, OnError, Step, Trigger, Verb};
pub use backoff::Backoff;
pub use connection::Connection;
pub use execution::{Event, ExecutionId, History, Origin, Outcome, Status, StepOutcome};
pub use log::{LogLevel, LogLine};
pub use payload::{EmittedEvent, HttpResponse, Payload};
pub use retry::RetryPolicy;
