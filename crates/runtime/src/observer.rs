//! The trait by which traces and logs leave the process, and the calls of the runtime to it.
//!
//! Without an observer an execution pays one branch at its end, one at each commit with log lines, and one at each call.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::execution::{ExecutionId, Origin};
use model::payload::Payload;
use model::{Automation, LogLine};

/// The header of W3C Trace Context that names the span that caused a request.
pub const TRACEPARENT: &str = "traceparent";

/// Exports traces and logs of executions. No method may block.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Returns the `traceparent` header of the calls of one attempt; `None` if traces are not exported.
    fn traceparent(&self, attempt: &Attempt<'_>) -> Option<String>;

    /// An execution entered memory. `parent` is the `traceparent` header of the request that started it, as received.
    fn entered(&self, execution: ExecutionId, parent: Option<&str>);

    /// Log lines of an execution are being committed.
    fn logged(&self, execution: ExecutionId, parent: Option<&str>, lines: &[LogLine]);

    /// An execution has ended, and its end is committed.
    fn ended(&self, ended: EndedExecution);

    /// The figures since the daemon started.
    fn counts(&self) -> ObserverCounts;
}

/// An attempt of a step.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The execution.
    pub execution: ExecutionId,
    /// The `traceparent` header of the request that started the execution, as received.
    pub parent: Option<&'a str>,
    /// The step, with the index of each iteration around it.
    pub step: &'a str,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The time of its [`StepStarted`](model::Event::StepStarted). It distinguishes an attempt from its repetition after a restart.
    pub started_at: Timestamp,
}

/// An execution that has ended.
#[derive(Clone, Debug)]
pub struct EndedExecution {
    /// Its id.
    pub id: ExecutionId,
    /// The `traceparent` header of the request that started it, as received.
    pub parent: Option<Arc<str>>,
    /// The definition that it ran.
    pub automation: Arc<Automation>,
}

/// The figures of an observer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObserverCounts {
    /// Spans that a collector accepted.
    pub spans_sent: u64,
    /// Spans that were lost: the queue was full, or a collector did not accept them.
    pub spans_dropped: u64,
    /// Executions whose spans were never built, since the queue was full.
    pub executions_dropped: u64,
    /// Log records that a collector accepted.
    pub logs_sent: u64,
    /// Log records that were lost.
    pub logs_dropped: u64,
}

/// The observer of one execution.
#[derive(Debug)]
pub(crate) struct Observed {
    observer: Arc<dyn Observer>,
    execution: ExecutionId,
    parent: Option<Arc<str>>,
}

impl Observed {
    /// Observes an execution that enters memory.
    pub(crate) fn enter(
        observer: &Arc<dyn Observer>,
        execution: ExecutionId,
        payload: &Payload,
        origin: &Origin,
    ) -> Self {
        let parent = traceparent_of(payload, origin).map(Arc::from);
        observer.entered(execution, parent.as_deref());
        Self { observer: observer.clone(), execution, parent }
    }

    pub(crate) fn traceparent(&self, step: &str, number: u32, started_at: Timestamp) -> Option<String> {
        let parent = self.parent.as_deref();
        self.observer.traceparent(&Attempt { execution: self.execution, parent, step, number, started_at })
    }

    pub(crate) fn logged(&self, lines: &[LogLine]) {
        if !lines.is_empty() {
            self.observer.logged(self.execution, self.parent.as_deref(), lines);
        }
    }

    pub(crate) fn ended(&self, automation: &Arc<Automation>) {
        let (id, parent, automation) = (self.execution, self.parent.clone(), automation.clone());
        self.observer.ended(EndedExecution { id, parent, automation });
    }
}

/// Returns the `traceparent` header of the request that started an execution, from its stored payload.
///
/// A replay has the payload of another execution, so its header does not apply.
#[must_use]
pub fn traceparent_of<'p>(payload: &'p Payload, origin: &Origin) -> Option<&'p str> {
    match (payload, origin) {
        (Payload::Webhook(request), Origin::Webhook | Origin::Test) => {
            request.headers.get(TRACEPARENT).map(String::as_str)
        }
        _ => None,
    }
}
