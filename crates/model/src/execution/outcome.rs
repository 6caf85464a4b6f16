//! How steps and executions end, and where an execution stands.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::action::ActionError;
use crate::value::Value;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum StepOutcome {
    /// With this result.
    Succeeded {
        /// The result; `null` for steps that give none.
        result: Value,
    },
    /// Its guard did not hold.
    Skipped,
    /// With this error.
    Failed {
        /// Why.
        error: ActionError,
        /// What takes its place where `onError` lets the execution go on; absent where the error passes up.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::value::deserialize_present"
        )]
        handled: Option<Value>,
    },
    /// By a step inside it, or itself, that led out of more than it.
    #[serde(rename = "left")]
    Jumped {
        /// How.
        by: Jump,
        /// The execution's result, for `stop`.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    },
}

/// What leads out of more than one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Jump {
    /// Out of the loop.
    Break,
    /// Out of the turn of the loop.
    Continue,
    /// Out of the execution.
    Stop,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// With this result.
    Succeeded {
        /// The last step's result, or the Automation's `outputs`.
        result: Value,
    },
    /// With this error.
    Failed {
        /// Why.
        error: ActionError,
    },
    /// Somebody ended it.
    Cancelled {
        /// Who or what, in words.
        reason: String,
    },
    /// A crash interrupted the same step too often; it is kept for a person to look at.
    Stuck {
        /// Why.
        error: ActionError,
    },
}

impl Outcome {
    /// The status it leaves.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Succeeded { .. } => Status::Succeeded,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled { .. } => Status::Cancelled,
            Self::Stuck { .. } => Status::Stuck,
        }
    }

    /// What went wrong, in words, if anything did.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Succeeded { .. } => None,
            Self::Failed { error } | Self::Stuck { error } => Some(&error.message),
            Self::Cancelled { reason } => Some(reason),
        }
    }
}

/// Where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Accepted, not begun.
    Queued,
    /// Its steps run, or wait for a retry.
    Running,
    /// It is paused: for a time, an event, an answer or another execution. It takes no slot.
    Waiting,
    /// It ended well.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// It was interrupted too often.
    Stuck,
}

impl Status {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Stuck,
    ];

    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting)
    }

    /// The word for it in JSON, tables and filters.
    #[must_use]
    pub fn word(self) -> &'static str {
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
        Self::ALL.into_iter().find(|status| status.word() == text).ok_or_else(|| {
            format!("`{text}` is no state of an execution; use {}", Self::ALL.map(Self::word).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ErrorKind;

    #[test]
    fn what_takes_the_place_of_an_error_is_read_back_though_it_is_nothing() {
        let error = ActionError::new(ErrorKind::Failed, "no");
        for handled in [None, Some(Value::Null), Some(Value::from(1))] {
            let outcome = StepOutcome::Failed { error: error.clone(), handled };
            let text = serde_json::to_string(&outcome).expect("it is JSON");
            let read: StepOutcome = serde_json::from_str(&text).expect("it was written so");
            assert_eq!(read, outcome, "{text}");
        }
    }
}
