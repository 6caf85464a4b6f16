//! Why a run gave no result.

use std::time::Duration;

use crate::call::LogLine;
use crate::module::Position;

/// Why a run, or a check, gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The code threw, or what it returned cannot be taken.
    #[error("{}", .0.message)]
    Thrown(Box<Failure>),
    /// The code was still running when its time was up.
    #[error("the code was stopped after {} ms: raise its `timeout`, or do less", .deadline.as_millis())]
    Overrun {
        /// The time it had.
        deadline: Duration,
        /// From when the worker had the call until it said that it had stopped, or until it was killed.
        took: Duration,
        /// The log lines up to then.
        logs: Vec<LogLine>,
    },
    /// The code wanted more memory than it may have.
    #[error("the code ran out of memory: it may hold {} MiB", .limit / 1024 / 1024)]
    OutOfMemory {
        /// The heap it may have, in bytes.
        limit: usize,
        /// The log lines up to then.
        logs: Vec<LogLine>,
    },
    /// An input or a result is too large.
    #[error("{what} is larger than the {} MiB that code can take or give", .limit / 1024 / 1024)]
    TooLarge {
        /// The name of the value.
        what: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The worker ended, or said what no worker says. It has been replaced.
    #[error("the process that ran the code {what}; it has been replaced")]
    Worker {
        /// A clause that describes the failure.
        what: &'static str,
        /// The log lines up to then.
        logs: Vec<LogLine>,
    },
    /// Too many runs wait for a worker.
    #[error(
        "too much code is waiting to run ({waiting} runs): try again, or raise the number of code workers"
    )]
    Busy {
        /// How many wait.
        waiting: usize,
    },
    /// No worker became free in time.
    #[error("no code worker became free within {} s: raise the number of code workers", .waited.as_secs())]
    Waited {
        /// How long it waited.
        waited: Duration,
    },
    /// A worker cannot be started.
    #[error("a code worker cannot be started: {0}")]
    Start(String),
}

/// An exception of the code, in the author's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The message, with the error's name before it unless it is plain `Error`.
    pub message: String,
    /// Where it was thrown, in the author's file.
    pub at: Option<Position>,
    /// The author's functions on the way there, innermost first.
    pub frames: Vec<Frame>,
    /// The log lines up to the exception.
    pub logs: Vec<LogLine>,
}

/// One of the author's functions on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name; none where it has none, and for the module itself.
    pub function: Option<String>,
    /// Where it was, in the author's file.
    pub at: Position,
}

impl Error {
    /// The log lines of the code before it failed.
    #[must_use]
    pub fn logs(&self) -> &[LogLine] {
        match self {
            Self::Thrown(failure) => &failure.logs,
            Self::Overrun { logs, .. } | Self::OutOfMemory { logs, .. } | Self::Worker { logs, .. } => logs,
            _ => &[],
        }
    }

    /// Where it failed, in the author's file.
    #[must_use]
    pub fn at(&self) -> Option<Position> {
        if let Self::Thrown(failure) = self { failure.at } else { None }
    }

    /// True if another attempt may succeed without a change: the error was not caused by the code.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Worker { .. } | Self::Busy { .. } | Self::Waited { .. } | Self::Start(_))
    }
}
