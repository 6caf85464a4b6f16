//! Redaction: keeps secrets that the execution has read out of its log. Skipped if it has read none.
//!
//! Values that later steps read (results, variables, errors) are masked when they are produced, so that they are the
//! same after a restart; everything else is masked when it is committed.

use std::sync::atomic::Ordering;

use model::LogLine;
use model::action::ActionError;
use model::execution::{CallRecord, DelayReason, Event, Outcome, StepOutcome, WaitReason};
use model::payload::HttpResponse;
use store::Append;
use value::{Map, Value};

use super::{Journal, Line};

impl Journal {
    /// Records that the execution has read a secret.
    pub(crate) fn mark_secrets_read(&self) {
        self.reads_secrets.store(true, Ordering::Relaxed);
    }

    /// Returns true if results need no masking, because the execution has read no secret.
    pub(crate) fn needs_no_redaction(&self) -> bool {
        !self.reads_secrets.load(Ordering::Relaxed) || self.redactor.is_empty()
    }

    /// Masks secrets in a value.
    pub(crate) fn redact_value(&self, value: Value) -> Value {
        if self.needs_no_redaction() { value } else { self.redactor.redact_value(value) }
    }

    /// Masks secrets in the values of a map.
    pub(crate) fn redact_map(&self, map: Map) -> Map {
        if self.needs_no_redaction() {
            return map;
        }
        map.into_iter().map(|(key, value)| (key, self.redactor.redact_value(value))).collect()
    }

    /// Masks secrets in an error.
    pub(crate) fn redact_error(&self, error: ActionError) -> ActionError {
        if self.needs_no_redaction() { error } else { error.redacted(&self.redactor) }
    }

    /// Masks secrets in an outcome.
    pub(crate) fn redact_outcome(&self, outcome: Outcome) -> Outcome {
        if self.needs_no_redaction() {
            return outcome;
        }
        match outcome {
            Outcome::Succeeded { result } => {
                Outcome::Succeeded { result: self.redactor.redact_value(result) }
            }
            Outcome::Failed { error } => Outcome::Failed { error: error.redacted(&self.redactor) },
            Outcome::Stuck { error } => Outcome::Stuck { error: error.redacted(&self.redactor) },
            Outcome::Cancelled { reason } => {
                Outcome::Cancelled { reason: self.redactor.redact_message(&reason).into_owned() }
            }
        }
    }

    /// Masks secrets in a response.
    pub(crate) fn redact_response(&self, mut response: HttpResponse) -> HttpResponse {
        if self.needs_no_redaction() {
            return response;
        }
        for (_, value) in &mut response.headers {
            *value = self.redactor.redact_text(value).into_owned().into();
        }
        if let Some(body) = response.body.in_memory().and_then(|body| self.redactor.redact_bytes(body)) {
            response.body = body.into();
        }
        response
    }

    /// Masks secrets in everything that is about to be committed.
    pub(super) fn redact_append(&self, append: &mut Append) {
        if self.needs_no_redaction() {
            return;
        }
        self.redact_events(&mut append.events);
        for write in &mut append.state {
            write.value = write.value.take().map(|value| self.redactor.redact_value(value));
        }
    }

    /// Masks secrets in events.
    pub(super) fn redact_events(&self, events: &mut [Event]) {
        if !self.needs_no_redaction() {
            events.iter_mut().for_each(|event| self.hide_event(event));
        }
    }

    /// Masks secrets in log lines.
    pub(super) fn redact_lines(&self, lines: Vec<Line>) -> Vec<LogLine> {
        let needs_no_redaction = self.needs_no_redaction();
        let hidden = lines.into_iter().map(|Line { mut line, shows_credentials }| {
            if !needs_no_redaction && !shows_credentials {
                line.message = self.redactor.redact_message(&line.message).into_owned();
            }
            line
        });
        hidden.collect()
    }

    fn hide_event(&self, event: &mut Event) {
        let redactor = &self.redactor;
        let in_error = |error: &mut ActionError| *error = error.clone().redacted(redactor);
        let in_value = |value: &mut Value| *value = redactor.redact_value(std::mem::take(value));
        let in_text = |text: &mut String| *text = redactor.redact_message(text).into_owned();
        match event {
            Event::StepRetry { error, .. }
            | Event::StepFailed { error, .. }
            | Event::Failing { error, .. }
            | Event::Retried { error, .. } => in_error(error),
            Event::StepClosing { outcome, .. } | Event::StepFinished { outcome, .. } => match outcome {
                // Masked when it was produced.
                StepOutcome::Succeeded { .. } | StepOutcome::Skipped => {}
                StepOutcome::Failed { error, handled } => {
                    in_error(error);
                    handled.iter_mut().for_each(in_value);
                }
                StepOutcome::Jumped { result, .. } => in_value(result),
            },
            Event::StepContextRecorded { state, .. } => in_value(state),
            Event::Waited { reason: DelayReason::Permit { key, .. }, .. } => in_text(key),
            Event::Waited { reason: DelayReason::Host { host }, .. } => in_text(host),
            Event::Waiting { on: WaitReason::Approval { message, options }, .. } => {
                in_text(message);
                options.iter_mut().for_each(in_text);
            }
            Event::Waiting { on: WaitReason::Operation { id, .. }, .. } => in_text(id),
            Event::Signalled { signal, .. } => {
                in_value(&mut signal.data);
                signal.by.iter_mut().for_each(in_text);
            }
            Event::Cancelling { reason, .. } => in_text(reason),
            Event::StepCalled { call: CallRecord::Request { url, .. }, .. } => in_text(url),
            // Masked when they were produced: waiting callers get them as they are stored.
            Event::Responded { .. }
            | Event::Finished { .. }
            | Event::Waiting { .. }
            | Event::WaitEnded { .. }
            | Event::Started { .. }
            | Event::Resumed { .. }
            | Event::ClockChanged { .. }
            | Event::Waited { .. }
            | Event::Answered { .. }
            | Event::StepCalled { .. }
            | Event::StepStarted { .. } => {}
        }
    }
}
