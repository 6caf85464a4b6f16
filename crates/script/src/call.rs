//! The inputs and results of a run.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use value::Value;

use crate::module::Module;

/// One run of a module.
#[derive(Clone, Copy, Debug)]
pub struct Call<'call> {
    /// The module to run.
    pub module: &'call Module,
    /// The caller's kind, a step or a trigger, which decides the form of parameters and result.
    pub kind: Kind,
    /// The first parameter.
    pub context: Context<'call>,
    /// The second parameter: a step's `stepResults`, a trigger's `payload`.
    pub argument: &'call Value,
    /// The time limit from the delivery to the worker. Waiting for a worker does not count.
    pub deadline: Duration,
}

/// A run in a sequence, which may read the results of earlier ones; see [`crate::Pool::run_sequence`].
#[derive(Clone, Copy, Debug)]
pub struct SequenceCall<'call> {
    /// The run itself.
    pub call: Call<'call>,
    /// The earlier runs whose results it reads: a key of `argument`, present with any value, and the index of that run
    /// in the sequence, from 0. The code finds `{results, error: null, ok: true}` there, with the results as in
    /// [`Outcome::value`].
    pub earlier: &'call [(Arc<str>, usize)],
}

/// The kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// `(context, stepResults)`; `{data}` is unwrapped.
    Step,
    /// `(context, payload)`; the result is the return value.
    Trigger,
}

/// The properties of `context`, without its logger.
#[derive(Clone, Copy, Debug)]
pub struct Context<'call> {
    /// `context.configVars`.
    pub config_vars: &'call Value,
    /// `context.executionId`.
    pub execution_id: &'call str,
    /// `context.stepId`; null for a trigger.
    pub step_id: Option<&'call str>,
    /// `context.startedAt`, as RFC 3339.
    pub started_at: &'call str,
    /// The state of the keys that the code names ([`crate::ModuleInfo::state`]); `None` if a key has no value. Other keys can
    /// be written, but reading one is an error.
    pub state: &'call [(Arc<str>, Option<Value>)],
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The result.
    pub value: Value,
    /// The form of the return value.
    pub shape: Shape,
    /// The log lines of the code, in order.
    pub logs: Vec<LogLine>,
    /// The writes to the state, in order, the last write of each key only.
    pub state: Vec<StateWrite>,
    /// The run time measured by the worker.
    pub took: Duration,
}

/// The form of a return value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{data: …}`: the result is the value of `data`.
    Data,
    /// A response: an object with an integer `statusCode`, or with `body` and without `data`. The result is the object.
    Response,
    /// Anything else: the result is the return value. Always the case for a trigger.
    Plain,
    /// Nothing was returned: the result is null.
    Nothing,
}

/// A line of the code's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// The severity.
    pub level: Level,
    /// The text, at most 4,096 characters.
    pub message: String,
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// `logger.debug`
    Debug,
    /// `logger.info`
    Info,
    /// `logger.warn`
    Warn,
    /// `logger.error`
    Error,
}

/// A state key that the code has written; the caller applies the write.
#[derive(Clone, Debug, PartialEq)]
pub struct StateWrite {
    /// The key.
    pub key: Arc<str>,
    /// The change.
    pub change: StateChange,
}

/// A change of a state key.
#[derive(Clone, Debug, PartialEq)]
pub enum StateChange {
    /// Sets this value.
    Set(Value),
    /// Deletes the value.
    Delete,
}

impl Outcome {
    /// Advice for the author about the form of a step's result: the contract asks for `{data: …}`.
    #[must_use]
    pub fn warning(&self, kind: Kind) -> Option<&'static str> {
        match (kind, self.shape) {
            (Kind::Trigger, _) | (Kind::Step, Shape::Data | Shape::Response) => None,
            (Kind::Step, Shape::Nothing) => {
                Some("the code returned nothing, so the result is null: end it with `return {data: …}`")
            }
            (Kind::Step, Shape::Plain) => Some(
                "the code returned a value without `data`, which is taken as the result as it is: write `return {data: …}`",
            ),
        }
    }
}
