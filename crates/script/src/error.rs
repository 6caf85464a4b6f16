//! Errors of runs and checks.

use std::time::Duration;

use crate::call::LogLine;
use crate::module::Position;

/// The reason why a run, or a check, has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The code threw, or its return value is invalid.
    #[error("{}", .0.message)]
    Thrown(Box<Failure>),
    /// The code was still running at its deadline.
    #[error("the code was stopped after {} ms: raise its `timeout`, or do less", .deadline.as_millis())]
    Overrun {
        /// The time limit.
        deadline: Duration,
        /// The time from the delivery of the call until the worker reported the stop, or until it was killed.
        took: Duration,
        /// The log lines up to then.
        logs: Vec<LogLine>,
    },
    /// The code exceeded its memory limit.
    #[error("the code ran out of memory: it may hold {} MiB", .limit / 1024 / 1024)]
    OutOfMemory {
        /// The heap limit, in bytes.
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
    /// The worker ended, or violated the protocol. It has been replaced.
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
        /// The number of waiting runs.
        waiting: usize,
    },
    /// No worker became free in time.
    #[error("no code worker became free within {} s: raise the number of code workers", .waited.as_secs())]
    Waited {
        /// The waiting time.
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
    /// The position of the throw, in the author's file.
    pub at: Option<Position>,
    /// The author's functions on the stack, innermost first.
    pub frames: Vec<Frame>,
    /// The log lines up to the exception.
    pub logs: Vec<LogLine>,
}

/// One of the author's functions on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name; `None` for anonymous functions and for the module itself.
    pub function: Option<String>,
    /// The position, in the author's file.
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

    /// The position of the failure, in the author's file.
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
