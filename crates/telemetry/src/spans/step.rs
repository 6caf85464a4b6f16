//! The spans of steps and of their attempts.

use jiff::{SignedDuration, Timestamp};
use model::action::{ActionError, ErrorKind};
use model::automation::Verb;
use model::execution::{CallRecord, Event, StepOutcome};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event as SpanEvent, Link, SpanId, SpanKind, Status};

use super::data::{Span, call_attributes, delay_attributes, error_attributes};
use super::{Builder, MAX_PARTS, sender};
use crate::context;
use crate::tree::id_of;

/// A started step that has not ended.
#[derive(Debug)]
pub(super) struct OpenStep {
    /// The first sign of it.
    start: Timestamp,
    /// The attempt in progress, if its start is recorded.
    attempt: Option<(u32, Timestamp)>,
    /// The number of failed attempts.
    failed: u32,
    /// True if a failure that no retry follows is recorded already.
    is_failing: bool,
    /// The start of the next attempt, after a failed one.
    next_at: Option<Timestamp>,
    /// The attempt that a restart interrupted.
    interrupted: Option<SpanId>,
    call: Option<CallRecord>,
    events: Vec<SpanEvent>,
    links: Vec<Link>,
}

impl OpenStep {
    fn new(start: Timestamp) -> Self {
        Self {
            start,
            attempt: None,
            failed: 0,
            is_failing: false,
            next_at: None,
            interrupted: None,
            call: None,
            events: Vec::new(),
            links: Vec::new(),
        }
    }

    fn note(&mut self, name: &'static str, at: Timestamp, attributes: Vec<KeyValue>) {
        if self.events.len() < MAX_PARTS {
            self.events.push(SpanEvent::new(name, at.into(), attributes, 0));
        }
    }

    fn link(&mut self, link: Link) {
        if self.links.len() < MAX_PARTS {
            self.links.push(link);
        }
    }
}

impl<'a> Builder<'a> {
    /// Handles an event that belongs to a step.
    pub(super) fn step_event(&mut self, event: &'a Event) {
        match event {
            Event::StepStarted { at, step, attempt } => {
                // A start without an end: the previous process died in it.
                self.interrupt_attempt(step);
                self.open(step, *at).attempt = Some((*attempt, *at));
            }
            Event::StepContextRecorded { at, step, .. } => {
                let marks = [Event::BEGUN, Event::CHECKPOINT];
                let bare = marks.iter().find_map(|mark| step.strip_suffix(mark));
                self.open(bare.unwrap_or(step), *at);
            }
            Event::StepCalled { at, step, call } => {
                if let CallRecord::Execution { id } = call {
                    let link = self.link(*id, context::execution_span(*id), "call");
                    self.open(step, *at).link(link);
                }
                self.open(step, *at).call = Some(call.clone());
            }
            Event::StepRetry { at, step, error, next_at, .. } => {
                self.end_attempt(step, *at, None, Some(error));
                let open = self.open(step, *at);
                open.next_at = Some(*next_at);
                open.note("retry", *at, error_attributes(error));
            }
            Event::StepFailed { at, step, error } => {
                self.end_attempt(step, *at, None, Some(error));
                self.open(step, *at).is_failing = true;
            }
            Event::StepFinished { at, step, took_us, outcome } => self.end_step(step, *at, *took_us, outcome),
            Event::Waiting { at, step, on, .. } => {
                let reason = KeyValue::new("cogwork.reason", on.as_str());
                self.open(step, *at).note("waiting", *at, vec![reason]);
            }
            Event::Signalled { at, step, signal } => {
                if let Some((execution, sending)) = sender(signal) {
                    let link = self.link(execution, context::step_span(execution, sending, 0), "event");
                    self.open(step, *at).link(link);
                }
                let name = KeyValue::new("cogwork.event", signal.name.clone());
                self.open(step, *at).note("signalled", *at, vec![name]);
            }
            Event::WaitEnded { at, step, .. } => self.open(step, *at).note("wait ended", *at, Vec::new()),
            Event::Waited { at, step: Some(step), reason, ms } => {
                let began =
                    at.saturating_sub(SignedDuration::from_millis(i64::try_from(*ms).unwrap_or_default()));
                let began = began.unwrap_or(*at).max(self.started_at);
                self.open(step, began).note("delayed", *at, delay_attributes(reason, *ms));
            }
            _ => {}
        }
    }

    /// The open step with this key, which this event may be the first sign of.
    fn open(&mut self, key: &'a str, at: Timestamp) -> &mut OpenStep {
        let open = self.open.entry(key).or_insert_with(|| OpenStep::new(at));
        open.start = open.start.min(at);
        open
    }

    fn repetition(&self, key: &str) -> u64 {
        self.repetitions.get(key).copied().unwrap_or_default()
    }

    /// Ends the attempt in progress because its process died; the next attempt is linked to it.
    pub(super) fn interrupt_attempt(&mut self, key: &'a str) {
        let Some(open) = self.open.get_mut(key) else { return };
        let Some((number, started_at)) = open.attempt.take() else { return };
        let id = context::started_attempt_span(self.id, key, number, started_at);
        open.interrupted = Some(id);
        let mut span = Span::new("attempt", id, started_at, self.last_at);
        span.parent = Some(context::step_span(self.id, key, self.repetition(key)));
        span.kind = SpanKind::Client;
        span.attributes = vec![KeyValue::new("cogwork.attempt", i64::from(number))];
        span.attributes.push(KeyValue::new("error.type", "interrupted"));
        span.status = Status::error("the daemon stopped during the attempt");
        self.push(span);
    }

    /// Ends an attempt. `took` is its duration, if it is recorded.
    fn end_attempt(
        &mut self,
        key: &'a str,
        at: Timestamp,
        took: Option<SignedDuration>,
        error: Option<&ActionError>,
    ) {
        let repetition = self.repetition(key);
        let open = self.open(key, at);
        let is_interruption = error.is_some_and(|error| error.kind == ErrorKind::Interrupted);
        if is_interruption && open.attempt.is_none() && open.interrupted.take().is_some() {
            // Its span ended with the process that died.
            open.failed += 1;
            return;
        }
        let (number, start) = match open.attempt.take() {
            Some((number, started_at)) => (number, Some(started_at)),
            None => (open.failed + 1, None),
        };
        let id = match start {
            Some(start) => context::started_attempt_span(self.id, key, number, start),
            None => context::attempt_span(self.id, key, number, repetition),
        };
        let open = self.open(key, at);
        let by_duration = took.and_then(|took| at.checked_sub(took).ok());
        let start = start.or(by_duration).or(open.next_at).unwrap_or(open.start);
        open.failed = open.failed.max(number);
        let (call, interrupted) = (open.call.take(), open.interrupted.take());
        let mut span = Span::new("attempt", id, start, at);
        span.parent = Some(context::step_span(self.id, key, repetition));
        span.attributes = vec![KeyValue::new("cogwork.attempt", i64::from(number))];
        if let Some(call) = call {
            span.attributes.extend(call_attributes(&call));
            if matches!(call, CallRecord::Request { .. }) {
                span.kind = SpanKind::Client;
            }
        }
        if let Some(before) = interrupted {
            let restart = vec![KeyValue::new("cogwork.link", "restart")];
            span.links.push(Link::new(self.trace.span(before), restart, 0));
        }
        error.into_iter().for_each(|error| span.fail(error));
        self.push(span);
    }

    fn end_step(&mut self, key: &'a str, at: Timestamp, took_us: u64, outcome: &StepOutcome) {
        let took = SignedDuration::from_micros(i64::try_from(took_us).unwrap_or_default());
        let began = at.checked_sub(took).unwrap_or(at).max(self.started_at);
        let works = self
            .tree
            .step(key)
            .is_some_and(|step| matches!(step.verb, Verb::Action(_) | Verb::Code(_) | Verb::Call(_)));
        let open = self.open(key, began);
        let has_attempts = open.attempt.is_some() || open.failed > 0 || works;
        let is_run = has_attempts && !open.is_failing && !matches!(outcome, StepOutcome::Skipped);
        if is_run {
            let error = match outcome {
                StepOutcome::Failed { error, .. } => Some(error),
                _ => None,
            };
            self.end_attempt(key, at, Some(took), error);
        }
        let Some(open) = self.open.remove(key) else { return };
        let mut span = self.step_span(key, open, at);
        match outcome {
            StepOutcome::Failed { error, handled: None } => span.fail(error),
            StepOutcome::Failed { error, handled: Some(_) } => {
                span.attributes.extend(error_attributes(error))
            }
            StepOutcome::Succeeded { .. } | StepOutcome::Skipped | StepOutcome::Jumped { .. } => {}
        }
        span.attributes.push(KeyValue::new("cogwork.status", status(outcome)));
        *self.repetitions.entry(key).or_default() += 1;
        self.push(span);
    }

    /// Ends a step that the end of the execution cut off.
    pub(super) fn abandon_step(&mut self, key: &'a str) {
        let at = self.last_at;
        if self.open.get(key).is_some_and(|open| open.attempt.is_some()) {
            self.end_attempt(key, at, None, None);
        }
        let Some(open) = self.open.remove(key) else { return };
        let mut span = self.step_span(key, open, at);
        span.attributes.push(KeyValue::new("cogwork.status", "cancelled"));
        span.status = Status::error("the execution ended before the step");
        self.push(span);
    }

    fn step_span(&self, key: &'a str, open: OpenStep, at: Timestamp) -> Span<'a> {
        let id = context::step_span(self.id, key, self.repetition(key));
        let mut span = Span::new(id_of(key), id, open.start, at);
        span.parent = Some(match self.tree.parent(key) {
            Some(parent) => context::step_span(self.id, &parent, self.repetition(&parent)),
            None => context::execution_span(self.id),
        });
        span.attributes.push(KeyValue::new("cogwork.step", key.to_owned()));
        if let Some(step) = self.tree.step(key) {
            span.attributes.push(KeyValue::new("cogwork.verb", step.verb.keyword()));
            if let Verb::Action(call) = &step.verb {
                span.attributes.push(KeyValue::new("cogwork.action", call.action.name.to_string()));
            }
            // The log does not name the automation that an expression selects.
            if let Verb::Call(call) = &step.verb
                && let Some(called) = call.automation.literal()
            {
                span.attributes.push(KeyValue::new("cogwork.called_automation", called.name.clone()));
            }
        }
        span.events = open.events;
        span.links = open.links;
        span
    }
}

fn status(outcome: &StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::Succeeded { .. } => "succeeded",
        StepOutcome::Skipped => "skipped",
        StepOutcome::Failed { handled: None, .. } => "failed",
        StepOutcome::Failed { handled: Some(_), .. } => "handled",
        StepOutcome::Jumped { by, .. } if by.cuts() => "cancelled",
        StepOutcome::Jumped { .. } => "left",
    }
}
