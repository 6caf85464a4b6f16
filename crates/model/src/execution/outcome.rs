//! Outcomes of steps and executions, and the status of an execution.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use value::{Json, Map, Value};

use crate::action::ActionError;

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum StepOutcome {
    /// The step succeeded.
    Succeeded {
        /// The result; `null` for steps without one.
        result: Value,
    },
    /// The step's `if` was false.
    Skipped,
    /// The step failed.
    Failed {
        /// The error.
        error: ActionError,
        /// The result from `onError`, with which the execution continues; `None` if the error propagates.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "value::deserialize_present"
        )]
        handled: Option<Value>,
    },
    /// The step, or a step nested in it, ended a loop, an iteration or the execution.
    #[serde(rename = "left")]
    Jumped {
        /// The kind of jump.
        by: Jump,
        /// The execution's result, for `stop`; that of the iteration, for `continue`. Of a step that was cut off: [`Jump::Timeout`],
        /// [`Jump::Cut`].
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    },
}

/// A jump out of several nested steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Jump {
    /// Ends the innermost loop.
    Break,
    /// Ends the iteration of the innermost loop.
    Continue,
    /// Ends the execution.
    Stop,
    /// A timeout around the step cut it off. The result is the depth of the step with that timeout; 0 is the execution.
    Timeout,
    /// A cancellation, or the end of the step around it, cut it off. The result is the reason.
    Cut,
}

impl Jump {
    /// True if the step was cut off. Recorded only of steps with a `finally`, after it.
    #[must_use]
    pub fn cuts(self) -> bool {
        matches!(self, Self::Timeout | Self::Cut)
    }
}

impl StepOutcome {
    /// True if another attempt of the execution, or of a step around this one, repeats the step.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        match self {
            Self::Failed { handled, .. } => handled.is_none(),
            Self::Jumped { by, .. } => by.cuts(),
            Self::Succeeded { .. } | Self::Skipped => false,
        }
    }

    /// The value of `outcome` in the `finally` of the step: `{status, reason, error, result}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let (status, reason, error, result) = match self {
            Self::Succeeded { result } => (Status::Succeeded, None, None, result.clone()),
            Self::Skipped => (Status::Succeeded, None, None, Value::Null),
            Self::Failed { error, handled } => {
                (Status::Failed, None, Some(error.to_value()), handled.clone().unwrap_or_default())
            }
            Self::Jumped { by: Jump::Timeout, .. } => {
                let reason = "a timeout around the step has passed";
                (Status::Cancelled, Some(Value::from(reason)), None, Value::Null)
            }
            Self::Jumped { by: Jump::Cut, result } => {
                (Status::Cancelled, Some(result.clone()), None, Value::Null)
            }
            Self::Jumped { result, .. } => (Status::Succeeded, None, None, result.clone()),
        };
        outcome_value(status, reason, error, result)
    }
}

fn outcome_value(status: Status, reason: Option<Value>, error: Option<Value>, result: Value) -> Value {
    Value::from(Map::from_iter([
        ("status", Value::from(status.as_str())),
        ("reason", reason.unwrap_or_default()),
        ("error", error.unwrap_or_default()),
        ("result", result),
    ]))
}

/// The outcome of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// The execution succeeded.
    Succeeded {
        /// The result: the automation's `outputs`, or the result of the last step.
        #[schema(value_type = Json)]
        result: Value,
    },
    /// The execution failed.
    Failed {
        /// The error.
        error: ActionError,
    },
    /// The execution was cancelled.
    Cancelled {
        /// The reason, as text that names the source of the cancellation.
        reason: String,
    },
    /// Crashes interrupted the same step too often. The execution is kept for a person to inspect.
    Stuck {
        /// The error.
        error: ActionError,
    },
}

impl Outcome {
    /// Returns the final status.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Succeeded { .. } => Status::Succeeded,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled { .. } => Status::Cancelled,
            Self::Stuck { .. } => Status::Stuck,
        }
    }

    /// The value of `outcome` in the `finally` of the execution: `{status, reason, error, result}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let (reason, error, result) = match self {
            Self::Succeeded { result } => (None, None, result.clone()),
            Self::Failed { error } | Self::Stuck { error } => (None, Some(error.to_value()), Value::Null),
            Self::Cancelled { reason } => (Some(Value::from(reason.as_str())), None, Value::Null),
        };
        outcome_value(self.status(), reason, error, result)
    }

    /// Returns the error message or the cancellation reason; `None` after success.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Succeeded { .. } => None,
            Self::Failed { error } | Self::Stuck { error } => Some(&error.message),
            Self::Cancelled { reason } => Some(reason),
        }
    }
}

/// The status of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecutionStatus)]
pub enum Status {
    /// Accepted, not started.
    Queued,
    /// Its steps run or wait for a retry.
    Running,
    /// It waits for a time, an event, an answer or another execution, and holds no slot.
    Waiting,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Crashes interrupted it too often.
    Stuck,
}

impl Status {
    /// All statuses, in the order of a life cycle.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Stuck,
    ];

    /// True if the execution has finished.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting)
    }

    /// Returns the name used in JSON, tables and filters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stuck => "stuck",
        }
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            format!(
                "`{text}` is not a status of an execution; use one of {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ErrorKind;

    #[test]
    fn a_handled_result_of_null_survives_a_round_trip() {
        let error = ActionError::new(ErrorKind::Failed, "no");
        for handled in [None, Some(Value::Null), Some(Value::from(1))] {
            let outcome = StepOutcome::Failed { error: error.clone(), handled };
            let text = serde_json::to_string(&outcome).expect("it is JSON");
            let read: StepOutcome = serde_json::from_str(&text).expect("it was written so");
            assert_eq!(read, outcome, "{text}");
        }
    }
}
