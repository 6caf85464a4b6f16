//! Faults that a test injects into reads and writes.

use crate::Error;
use crate::types::{Accept, Append, Capacity};

/// The reason of writes after a failed commit.
pub(super) const REASON: &str = "a test lets it fail";

/// A source of faults.
pub trait Faults: Send + Sync + 'static {
    /// Returns the fault for an operation. Called once when the operation starts.
    fn plan(&self, operation: Operation<'_>) -> FaultPlan;

    /// Returns true if news to another node are lost.
    fn loses_news(&self) -> bool {
        false
    }

    /// Returns the capacity that is left.
    fn capacity(&self) -> Capacity {
        Capacity::Ample
    }
}

/// An operation of the store.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// A read.
    Read,
    /// Accepting executions.
    Accept(&'a Accept),
    /// Appending to an execution.
    Append(&'a Append),
    /// Any other write.
    Write,
}

/// The fault for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The number of yields to other tasks before the operation runs; if not zero, one more follows before it returns.
    pub yields: u32,
    /// The outcome. A read can only succeed or never return.
    pub outcome: FaultOutcome,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// It succeeds.
    Succeeds,
    /// It fails because the store is full, without writing.
    Full,
    /// It is refused, without writing, and the store continues.
    Refused,
    /// Its commit fails with an unknown outcome.
    CommitFails {
        /// True if it was written.
        is_written: bool,
    },
    /// It never returns, as in a process that ends.
    NeverReturns {
        /// True if it was written.
        is_written: bool,
    },
}

impl FaultPlan {
    /// No fault: it succeeds at once.
    pub const NONE: Self = Self { yields: 0, outcome: FaultOutcome::Succeeds };
}

/// Runs an operation with a fault.
pub(super) async fn apply<T>(plan: FaultPlan, write: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..plan.yields {
        tokio::task::yield_now().await;
    }
    let commit_error = || Error::Commit { reason: REASON.to_owned() };
    let done = match plan.outcome {
        FaultOutcome::Succeeds => write(),
        FaultOutcome::Full => Err(Error::Full),
        FaultOutcome::Refused => Err(Error::Invalid { reason: REASON.to_owned() }),
        FaultOutcome::CommitFails { is_written: false } => Err(commit_error()),
        FaultOutcome::CommitFails { is_written: true } => write().and_then(|_| Err(commit_error())),
        FaultOutcome::NeverReturns { is_written } => {
            if is_written {
                // No caller gets the result.
                let _ = write();
            }
            std::future::pending().await
        }
    };
    if plan.yields > 0 {
        tokio::task::yield_now().await;
    }
    done
}
