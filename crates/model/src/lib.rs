//! Data model of Cogwork: the YAML language, its evaluation, and the stored form of executions. No I/O, no clock, no async.
//!
//! An [`Automation`] is one checked file. A [`Payload`] starts an execution of it. The history of an execution is a log of
//! [`Event`]s, whose fold is an [`Execution`]. Steps pass [`Value`]s to each other.

pub mod diagnostic;
pub mod excerpt;
pub mod units;
pub mod yaml;

pub mod budget;
pub mod expression;
pub mod template;
pub mod value;

pub mod action;
pub mod automation;
pub mod backoff;
pub mod connection;
pub mod execution;
pub mod failpoint;
pub mod instant;
mod log;
pub mod metric;
pub mod mime;
pub mod payload;
pub mod redact;
pub mod reserved_headers;
pub mod retry;
pub mod test_suite;
pub mod url_template;

pub mod edit;
pub mod json_schema;
pub mod load;
pub mod reference_docs;
pub mod schema;

pub use action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
pub use automation::{Automation, AutomationId, Block, DefinitionHash, OnError, Step, Trigger, Verb};
pub use backoff::Backoff;
pub use budget::Budget;
pub use connection::Connection;
pub use diagnostic::{Diagnostic, Severity, Source, Span};
pub use execution::{Event, Execution, ExecutionId, Origin, Outcome, Status, StepOutcome};
pub use expression::Expression;
pub use json_schema::JsonSchema;
pub use log::{LogLevel, LogLine};
pub use payload::{HttpResponse, Payload};
pub use redact::Secret;
pub use retry::RetryPolicy;
pub use template::Template;
pub use value::{File, List, Map, Value};
