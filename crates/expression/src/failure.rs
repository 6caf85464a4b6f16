//! The reason why an evaluation failed.

use value::Value;
use value::budget::Exceeded;

/// The value of a node; `None` if it is undefined.
pub(crate) type EvalResult = Result<Option<Value>, Failure>;

/// The reason why an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An operation does not support its operands, or data is missing.
    Message(String),
    /// The evaluation exceeded a limit of the budget.
    Exceeded(Exceeded),
}

impl From<Exceeded> for Failure {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::Message(message.to_owned())
    }
}
