//! The spans of an execution, derived from its log.
//!
//! The execution is a span; below it each step; below a step that calls or computes each attempt. An execution that a
//! restart interrupted also has a span for each stay in memory. Of values only names, states, durations and messages of
//! errors leave the process, redacted as they are stored.

mod data;
mod step;

use std::collections::HashMap;

use jiff::Timestamp;
use model::execution::{Event, ExecutionId, Origin, Outcome};
use opentelemetry::trace::{Event as SpanEvent, Link, SpanId, SpanKind, Status, TraceId};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::SpanData;
use runtime::EndedExecution;

use crate::context::{self, ExecutionTrace};
use crate::tree::StepTree;
use data::{Span, error_attributes, foreign_span};
use step::OpenStep;

/// Maximum number of spans of one execution; the number of further ones is an attribute of its span.
const MAX_SPANS: usize = 10_000;
/// Maximum number of events or links of a span.
const MAX_PARTS: usize = 128;

/// The traces of other executions that are linked, where they are not their own.
pub(crate) type ForeignTraces = HashMap<ExecutionId, TraceId>;

/// The spans of an execution.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) spans: Vec<SpanData>,
    /// The number of spans beyond [`MAX_SPANS`].
    pub(crate) omitted: u64,
}

/// The executions whose traces the log refers to: the caller, the replayed one, and senders of events.
pub(crate) fn linked(events: &[Event]) -> Vec<ExecutionId> {
    let mut found: Vec<ExecutionId> = events
        .iter()
        .filter_map(|event| match event {
            Event::Started { origin: Origin::Call { execution, .. }, .. } => Some(*execution),
            Event::Started { origin: Origin::Emitted { sender, .. }, .. } => *sender,
            Event::Started { origin: Origin::Replay { of, .. }, .. } => Some(*of),
            Event::Signalled { signal, .. } => sender(signal).map(|(execution, _)| execution),
            _ => None,
        })
        .take(MAX_PARTS)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The execution and the step that sent an event; `None` if it came from elsewhere.
fn sender(signal: &model::execution::Signal) -> Option<(ExecutionId, &str)> {
    let execution: ExecutionId = signal.by.as_deref()?.strip_prefix("execution ")?.parse().ok()?;
    let step = signal.id.strip_prefix(&execution.to_string())?.strip_prefix('.')?;
    Some((execution, step))
}

/// Derives the spans of an ended execution from its log.
pub(crate) fn derive(
    ended: &EndedExecution,
    trace: &ExecutionTrace,
    events: &[Event],
    foreign: &ForeignTraces,
    scope: &InstrumentationScope,
) -> Spans {
    let Some(Event::Started { at, origin, .. }) = events.first() else { return Spans::default() };
    let kept = usize::try_from(origin.kept_events()).unwrap_or(usize::MAX);
    let mut builder = Builder {
        id: ended.id,
        trace,
        tree: StepTree::new(&ended.automation),
        foreign,
        scope,
        started_at: *at,
        last_at: *at,
        open: HashMap::new(),
        repetitions: HashMap::new(),
        events: Vec::new(),
        restarts: Vec::new(),
        made: Spans::default(),
    };
    // Events that a replay took from another execution belong to the spans of that one.
    for event in events.iter().skip(1).skip(kept) {
        builder.event(event);
        builder.last_at = builder.last_at.max(event.at());
    }
    let outcome = match events.last() {
        Some(Event::Finished { outcome, .. }) => Some(outcome),
        _ => None,
    };
    builder.finish(ended, origin, outcome)
}

/// The state of the derivation.
struct Builder<'a> {
    id: ExecutionId,
    trace: &'a ExecutionTrace,
    tree: StepTree<'a>,
    foreign: &'a ForeignTraces,
    scope: &'a InstrumentationScope,
    started_at: Timestamp,
    /// The time of the latest event.
    last_at: Timestamp,
    open: HashMap<&'a str, OpenStep>,
    /// The number of times that each step has ended.
    repetitions: HashMap<&'a str, u64>,
    /// The events of the execution's span.
    events: Vec<SpanEvent>,
    /// The time of the last event before each restart, and that of the resumption.
    restarts: Vec<(Timestamp, Timestamp)>,
    made: Spans,
}

impl<'a> Builder<'a> {
    fn event(&mut self, event: &'a Event) {
        match event {
            Event::Resumed { at, .. } => self.resumed(*at),
            Event::Retried { at, attempt, error, .. } => {
                let mut attributes = error_attributes(error);
                attributes.push(KeyValue::new("cogwork.attempt", i64::from(*attempt)));
                self.note("retried", *at, attributes);
            }
            Event::Failing { at, error } => self.note("failing", *at, error_attributes(error)),
            Event::Cancelling { at, .. } => self.note("cancelling", *at, Vec::new()),
            Event::Responded { at, response } => {
                let status = KeyValue::new("http.response.status_code", i64::from(response.status));
                self.note("responded", *at, vec![status]);
            }
            Event::Waited { at, step: None, reason, ms } => {
                self.note("delayed", *at, data::delay_attributes(reason, *ms));
            }
            Event::Started { .. }
            | Event::Finished { .. }
            | Event::Answered { .. }
            | Event::ClockChanged { .. } => {}
            of_step => self.step_event(of_step),
        }
    }

    /// Adds an event to the span of the execution.
    fn note(&mut self, name: &'static str, at: Timestamp, attributes: Vec<KeyValue>) {
        if self.events.len() < MAX_PARTS {
            self.events.push(SpanEvent::new(name, at.into(), attributes, 0));
        }
    }

    /// A daemon took the execution up after a restart: what was in progress ended with the previous process.
    fn resumed(&mut self, at: Timestamp) {
        self.note("resumed", at, Vec::new());
        self.restarts.push((self.last_at, at));
        let interrupted: Vec<&str> = self.open.keys().copied().collect();
        for key in interrupted {
            self.interrupt_attempt(key);
        }
    }

    fn push(&mut self, span: Span<'_>) {
        if self.made.spans.len() < MAX_SPANS {
            self.made.spans.push(span.into_data(self.trace, self.scope));
        } else {
            self.made.omitted += 1;
        }
    }

    /// A link to a span of another execution.
    fn link(&self, execution: ExecutionId, span: SpanId, kind: &'static str) -> Link {
        let trace = self.foreign.get(&execution).copied().unwrap_or_else(|| context::own_trace(execution));
        let attributes = vec![
            KeyValue::new("cogwork.link", kind),
            KeyValue::new("cogwork.execution", execution.to_string()),
        ];
        Link::new(foreign_span(trace, span), attributes, 0)
    }

    fn finish(mut self, ended: &EndedExecution, origin: &Origin, outcome: Option<&Outcome>) -> Spans {
        let left: Vec<&'a str> = self.open.keys().copied().collect();
        for key in left {
            self.abandon_step(key);
        }
        self.push_runs();
        let mut span = self.execution_span(ended, origin);
        outcome.into_iter().for_each(|outcome| span.add_outcome(outcome));
        // The span of the execution is made in any case: all others are below it.
        self.made.spans.push(span.into_data(self.trace, self.scope));
        self.made
    }

    /// The stays in memory between restarts, each linked to the one before; none if there was no restart.
    fn push_runs(&mut self) {
        if self.restarts.is_empty() {
            return;
        }
        let restarts = std::mem::take(&mut self.restarts);
        let mut begin = self.started_at;
        let ends = restarts.iter().map(|(last, resumed)| (*last, Some(*resumed)));
        let ends: Vec<_> = ends.chain([(self.last_at, None)]).collect();
        for (number, (end, next)) in (0_u64..).zip(ends) {
            let mut span = Span::new("run", context::run_span(self.id, number), begin, end);
            span.parent = Some(context::execution_span(self.id));
            span.attributes.push(KeyValue::new("cogwork.run", i64::try_from(number).unwrap_or(i64::MAX)));
            if let Some(previous) = number.checked_sub(1) {
                let previous = self.trace.span(context::run_span(self.id, previous));
                span.links.push(Link::new(previous, vec![KeyValue::new("cogwork.link", "restart")], 0));
            }
            if let Some(next) = next {
                span.status = Status::error("the daemon stopped");
                begin = next;
            }
            self.push(span);
        }
    }

    fn execution_span(&mut self, ended: &EndedExecution, origin: &Origin) -> Span<'static> {
        let name = ended.automation.id.to_string();
        let mut span =
            Span::new(name.clone(), context::execution_span(self.id), self.started_at, self.last_at);
        span.parent = self.trace.parent;
        span.is_parent_remote = self.trace.parent.is_some();
        span.kind = match origin {
            Origin::Webhook | Origin::Test => SpanKind::Server,
            _ => SpanKind::Internal,
        };
        span.attributes = vec![
            KeyValue::new("cogwork.automation", name),
            KeyValue::new("cogwork.execution", self.id.to_string()),
            KeyValue::new("cogwork.origin", origin.as_str()),
        ];
        if origin.is_test() {
            span.attributes.push(KeyValue::new("cogwork.test", true));
        }
        if self.made.omitted > 0 {
            let omitted = i64::try_from(self.made.omitted).unwrap_or(i64::MAX);
            span.attributes.push(KeyValue::new("cogwork.omitted_spans", omitted));
        }
        match origin {
            Origin::Call { execution, step, .. } => {
                span.links.push(self.link(*execution, context::step_span(*execution, step, 0), "call"));
            }
            Origin::Emitted { sender: Some(sender), step: Some(step), .. } => {
                span.links.push(self.link(*sender, context::step_span(*sender, step, 0), "event"));
            }
            Origin::Replay { of, .. } => {
                span.links.push(self.link(*of, context::execution_span(*of), "replay"));
            }
            _ => {}
        }
        span.events = std::mem::take(&mut self.events);
        span
    }
}

#[cfg(test)]
mod tests;
