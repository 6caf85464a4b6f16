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
    /// The outcome of the steps that it leads out of; `None` for a failure, and if the steps go on later.
    pub(super) fn leaves(&self) -> Option<StepOutcome> {
        Some(match self {
            Self::Stop(result) => StepOutcome::Jumped { by: Jump::Stop, result: result.clone() },
            Self::Break => StepOutcome::Jumped { by: Jump::Break, result: Value::Null },
            Self::Continue(result) => StepOutcome::Jumped { by: Jump::Continue, result: result.clone() },
            _ => return None,
        })
    }

    /// The exit of a step that led out of its list.
    pub(super) fn left(by: Jump, result: Value) -> Self {
        match by {
            Jump::Stop => Self::Stop(result),
            Jump::Break => Self::Break,
            Jump::Continue => Self::Continue(result),
        }
    }
}
