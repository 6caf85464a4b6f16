//! What a test lets happen to reads and writes.

use crate::Error;
use crate::types::{Accept, Append, Capacity};

/// What writes are told after one whose commit is in doubt.
pub(super) const REASON: &str = "a test lets it fail";

/// Says how reads and writes apply.
pub trait Faults: Send + Sync + 'static {
    /// How this one fares. It is operation when it is made.
    fn plan(&self, operation: Operation<'_>) -> FaultPlan;

    /// How much room there is.
    fn capacity(&self) -> Capacity {
        Capacity::Ample
    }
}

/// What is operation of the store.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// To read something.
    Read,
    /// To accept executions.
    Accept(&'a Accept),
    /// To append to an execution.
    Append(&'a Append),
    /// To write something else.
    Write,
}

/// How a read or a write fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// How often others have their turn before it happens, and once more before it comes back.
    pub yields: u32,
    /// What becomes of it. A read goes well, or never comes back.
    pub outcome: FaultOutcome,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// It does what it should.
    Succeeds,
    /// It is refused since the store is full: nothing was written.
    Full,
    /// Its commit fails: it was written all the same, or it was not.
    CommitFails {
        /// Whether it was.
        is_written: bool,
    },
    /// It never comes back, as in a process that ends meanwhile.
    NeverReturns {
        /// Whether it was written.
        is_written: bool,
    },
}

impl FaultPlan {
    /// It does what it should, at once.
    pub const NONE: Self = Self { yields: 0, outcome: FaultOutcome::Succeeds };
}

/// Lets a write apply so.
pub(super) async fn apply<T>(plan: FaultPlan, write: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..plan.yields {
        tokio::task::yield_now().await;
    }
    let commit_error = || Error::Commit { reason: REASON.to_owned() };
    let done = match plan.outcome {
        FaultOutcome::Succeeds => write(),
        FaultOutcome::Full => Err(Error::Full),
        FaultOutcome::CommitFails { is_written: false } => Err(commit_error()),
        FaultOutcome::CommitFails { is_written: true } => write().and_then(|_| Err(commit_error())),
        FaultOutcome::NeverReturns { is_written } => {
            if is_written {
                // Nobody hears of it.
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
