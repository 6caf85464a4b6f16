//! The reasons why a walk ends early.

use std::sync::Arc;

use model::action::ActionError;
use model::execution::{Jump, StepOutcome};
use value::Value;

/// The reason why a walk ended early.
#[derive(Debug)]
pub(crate) enum Exit {
    /// `stop` ended the execution successfully.
    Stop(Value),
    /// `break` ended the loop around the step.
    Break,
    /// `continue` ended the iteration of the loop around the step, with this result.
    Continue(Value),
    /// A step failed, and nothing has handled the error so far.
    Failed(ActionError),
    /// The deadline that was set at this depth has passed.
    Expired(u32),
    /// The execution was cancelled.
    Cancelled,
    /// The engine stops: the execution goes on at its next start.
    ShuttingDown,
    /// Nothing but pauses is left: the execution goes on when one of them ends.
    Suspended,
    /// Acceptance failed or found a duplicate: the run is discarded; it had no side effects.
    NotAccepted,
    /// The journal cannot be written: the next start reads how far the execution has come.
    StoreFailed(Arc<store::Error>),
}

impl Exit {
    /// The outcome of a step that it leads out of; `None` for a failure, and if the step goes on later. `reason` is that of a cut.
    pub(super) fn leaves(&self, reason: impl FnOnce() -> String) -> Option<StepOutcome> {
        let (by, result) = match self {
            Self::Stop(result) => (Jump::Stop, result.clone()),
            Self::Break => (Jump::Break, Value::Null),
            Self::Continue(result) => (Jump::Continue, result.clone()),
            Self::Expired(depth) => (Jump::Timeout, Value::from(*depth)),
            Self::Cancelled => (Jump::Cut, Value::from(reason())),
            _ => return None,
        };
        Some(StepOutcome::Jumped { by, result })
    }

    /// The exit of a step that was left, or cut off.
    pub(super) fn left(by: Jump, result: Value) -> Self {
        match by {
            Jump::Stop => Self::Stop(result),
            Jump::Break => Self::Break,
            Jump::Continue => Self::Continue(result),
            Jump::Timeout => {
                Self::Expired(result.as_i64().and_then(|depth| u32::try_from(depth).ok()).unwrap_or_default())
            }
            Jump::Cut => Self::Cancelled,
        }
    }

    /// The exit of lists that ended with this outcome.
    pub(super) fn of(outcome: StepOutcome) -> Self {
        match outcome {
            StepOutcome::Failed { error, .. } => Self::Failed(error),
            StepOutcome::Jumped { by, result } => Self::left(by, result),
            StepOutcome::Succeeded { .. } | StepOutcome::Skipped => Self::Cancelled,
        }
    }

    /// True if the execution, or a branch of it, ends or goes on elsewhere at once.
    pub(super) fn is_immediate(&self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Suspended | Self::NotAccepted | Self::StoreFailed(_))
    }
}
