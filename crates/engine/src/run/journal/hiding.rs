//! Keeps the secrets that an execution has read out of its log. Where it has read none, nothing is looked at.
//!
//! What later steps read (results, variables, errors) is hidden when it is made, so that they read the same after a
//! restart; everything else when it is committed.

use std::sync::atomic::Ordering;

use model::action::ActionError;
use model::execution::{CallRecord, Event, LogLine, Outcome, StepOutcome, WaitReason};
use model::payload::HttpResponse;
use model::value::{Map, Value};
use store::Append;

use super::{Journal, Line};

impl Journal {
    /// Takes note that the execution has read a secret.
    pub(crate) fn reads_secrets(&self) {
        self.reads_secrets.store(true, Ordering::Relaxed);
    }

    /// Whether what steps give is what others read, since it can hold no secret.
    pub(crate) fn has_nothing_to_hide(&self) -> bool {
        !self.reads_secrets.load(Ordering::Relaxed) || self.redactor.is_idle()
    }

    /// The value without the secrets that the execution has read.
    pub(crate) fn hidden(&self, value: Value) -> Value {
        if self.has_nothing_to_hide() { value } else { self.redactor.value(value) }
    }

    /// The same of the values of a map.
    pub(crate) fn hidden_map(&self, map: Map) -> Map {
        if self.has_nothing_to_hide() {
            return map;
        }
        map.into_iter().map(|(key, value)| (key, self.redactor.value(value))).collect()
    }

    /// The same of a failure.
    pub(crate) fn hidden_error(&self, error: ActionError) -> ActionError {
        if self.has_nothing_to_hide() { error } else { self.redactor.error(error) }
    }

    /// The same of the end of the execution.
    pub(crate) fn hidden_outcome(&self, outcome: Outcome) -> Outcome {
        if self.has_nothing_to_hide() {
            return outcome;
        }
        match outcome {
            Outcome::Succeeded { result } => Outcome::Succeeded { result: self.redactor.value(result) },
            Outcome::Failed { error } => Outcome::Failed { error: self.redactor.error(error) },
            Outcome::Stuck { error } => Outcome::Stuck { error: self.redactor.error(error) },
            Outcome::Cancelled { reason } => {
                Outcome::Cancelled { reason: self.redactor.message(&reason).into_owned() }
            }
        }
    }

    /// The same of an answer to a caller.
    pub(crate) fn hidden_response(&self, mut response: HttpResponse) -> HttpResponse {
        if self.has_nothing_to_hide() {
            return response;
        }
        for (_, value) in &mut response.headers {
            *value = self.redactor.text(value).into_owned().into();
        }
        if let Some(body) = response.body.in_memory().and_then(|body| self.redactor.bytes(body)) {
            response.body = body.into();
        }
        response
    }

    /// Hides what is about to be committed.
    pub(super) fn hide(&self, append: &mut Append) {
        if self.has_nothing_to_hide() {
            return;
        }
        self.hide_events(&mut append.events);
        for write in &mut append.state {
            write.value = write.value.take().map(|value| self.redactor.value(value));
        }
    }

    /// The same of events alone.
    pub(super) fn hide_events(&self, events: &mut [Event]) {
        if !self.has_nothing_to_hide() {
            events.iter_mut().for_each(|event| self.hide_event(event));
        }
    }

    /// The lines as they may be committed.
    pub(super) fn hidden_lines(&self, lines: Vec<Line>) -> Vec<LogLine> {
        let has_nothing_to_hide = self.has_nothing_to_hide();
        let hidden = lines.into_iter().map(|Line { mut line, shows_credentials }| {
            if !has_nothing_to_hide && !shows_credentials {
                line.message = self.redactor.message(&line.message).into_owned();
            }
            line
        });
        hidden.collect()
    }

    fn hide_event(&self, event: &mut Event) {
        let redactor = &self.redactor;
        let in_error = |error: &mut ActionError| *error = redactor.error(error.clone());
        let in_value = |value: &mut Value| *value = redactor.value(std::mem::take(value));
        let in_text = |text: &mut String| *text = redactor.message(text).into_owned();
        match event {
            Event::StepRetry { error, .. }
            | Event::StepFailed { error, .. }
            | Event::Failing { error, .. }
            | Event::Retried { error, .. } => in_error(error),
            Event::StepFinished { outcome, .. } => match outcome {
                // Hidden when it was made.
                StepOutcome::Succeeded { .. } | StepOutcome::Skipped => {}
                StepOutcome::Failed { error, handled } => {
                    in_error(error);
                    handled.iter_mut().for_each(in_value);
                }
                StepOutcome::Left { result, .. } => in_value(result),
            },
            Event::StepDated { state, .. } => in_value(state),
            Event::Waiting { on: WaitReason::Approval { message, options }, .. } => {
                in_text(message);
                options.iter_mut().for_each(in_text);
            }
            Event::Signalled { signal, .. } => {
                in_value(&mut signal.data);
                signal.by.iter_mut().for_each(in_text);
            }
            Event::Cancelling { reason, .. } => in_text(reason),
            Event::StepCalled { call: CallRecord::Request { url, .. }, .. } => in_text(url),
            // The answer and the end are hidden when they are made: whoever waits gets them as they are stored.
            Event::Responded { .. }
            | Event::Finished { .. }
            | Event::Waiting { .. }
            | Event::WaitEnded { .. }
            | Event::Started { .. }
            | Event::Resumed { .. }
            | Event::ClockSet { .. }
            | Event::StepCalled { .. }
            | Event::StepStarted { .. } => {}
        }
    }
}
