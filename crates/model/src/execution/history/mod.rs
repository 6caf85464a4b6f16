//! The history of an execution: its log folded to steps, attempts, waits, signals and calls. Every view of an execution looks at it.
//!
//! It borrows the events, so it copies no values. The state at an earlier moment is the history of the first events.

mod step;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Event, Origin, Outcome, WaitReason};
use crate::action::ActionError;
use crate::automation::{AutomationId, DefinitionHash, TriggerId};
use crate::payload::{HttpResponse, Payload};
use value::{Map, Value};

pub use step::{StepAttempt, StepHistory, StepProgress, split_key};
pub use waits::{PastWait, WaitCause, WaitEnd};

use waits::Waits;

/// The state of an execution after the events that were applied.
#[derive(Clone, Debug, Default)]
pub struct History<'e> {
    /// The steps in the order of their first event. A loop's entries for its own iterations (`poll[2]#delay`) are not among them.
    steps: Vec<StepHistory<'e>>,
    places: HashMap<&'e str, usize>,
    waits: Waits<'e>,
    answers: Vec<StepAnswer<'e>>,
    /// The start; `None` before the first event.
    pub start: Option<Start<'e>>,
    /// The number of the attempt of the whole execution, from 1.
    pub attempt: u32,
    /// The time of the next attempt of the whole execution, while one is due.
    pub retry_at: Option<Timestamp>,
    /// The error that the closing steps read, if they began with one.
    pub closing: Option<&'e ActionError>,
    /// The response that a step decided.
    pub response: Option<&'e HttpResponse>,
    /// The status of the response after a timeout, which the execution did not decide.
    pub answered: Option<u16>,
    /// The outcome; `None` if the execution has not finished.
    pub outcome: Option<&'e Outcome>,
    /// The time of the last event.
    pub last_at: Option<Timestamp>,
    /// The number of applied events.
    pub events: usize,
    /// The first event that cannot stand where it stands.
    invalid: Option<InvalidEvent>,
}

/// The key of a step, and the result or the error of one of its attempts.
pub type StepAnswer<'e> = (&'e str, Result<&'e Value, &'e ActionError>);

/// The start of an execution.
#[derive(Clone, Copy, Debug)]
pub struct Start<'e> {
    /// The time of acceptance.
    pub at: Timestamp,
    /// The id of the automation.
    pub automation: &'e AutomationId,
    /// The hash of the definition.
    pub definition: DefinitionHash,
    /// The kind of start.
    pub origin: &'e Origin,
    /// The input.
    pub payload: &'e Arc<Payload>,
    /// The trigger that started it.
    pub trigger: &'e TriggerId,
    /// The inputs that the start gave beside the payload.
    pub inputs: Option<&'e Arc<Map>>,
}

/// Error: an event cannot follow the previous ones. The log is damaged, or another program wrote it.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("event {index} of the execution is not possible there: {reason}")]
pub struct InvalidEvent {
    /// The index of the event, from 0.
    pub index: usize,
    /// The violated rule.
    pub reason: &'static str,
}

impl<'e> History<'e> {
    /// Folds events.
    pub fn new(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut history = Self { attempt: 1, ..Self::default() };
        events.into_iter().for_each(|event| history.apply(event));
        history
    }

    /// Folds the whole log of an execution.
    ///
    /// # Errors
    /// Returns the first event that cannot follow the previous ones; the first one must be *started*.
    pub fn checked(events: impl IntoIterator<Item = &'e Event>) -> Result<(Self, Start<'e>), InvalidEvent> {
        let history = Self::new(events);
        let missing = InvalidEvent { index: 0, reason: "the first event must be `started`" };
        match (history.invalid, history.start) {
            (Some(invalid), _) => Err(invalid),
            (None, None) => Err(missing),
            (None, Some(start)) => Ok((history, start)),
        }
    }

    /// Folds one more event.
    pub fn apply(&mut self, event: &'e Event) {
        if self.outcome.is_some() {
            self.violates("the execution has finished");
        } else if self.start.is_some() == matches!(event, Event::Started { .. }) {
            self.violates("the first event is `started`, and no other");
        }
        match event {
            Event::Started { at, automation, definition, origin, payload, trigger, inputs } => {
                let (at, definition, inputs) = (*at, *definition, inputs.as_ref());
                self.start = Some(Start { at, automation, definition, origin, payload, trigger, inputs });
            }
            Event::Resumed { at, waited: false } => self.waits.interrupted(self.last_at.unwrap_or(*at), *at),
            Event::Retried { at, attempt, next_at, .. } => {
                (self.attempt, self.retry_at) = (attempt.saturating_add(1), Some(*next_at));
                self.waits.end_all(*at);
                self.waits.begin(None, *at, WaitCause::Retry, Some(*next_at));
                self.steps.iter_mut().for_each(StepHistory::execution_retried);
            }
            Event::Waited { at, step, reason, ms } => {
                let length = SignedDuration::from_millis(i64::try_from(*ms).unwrap_or(i64::MAX));
                let from = at.checked_sub(length).unwrap_or(*at);
                self.waits.delayed(step.as_deref(), (from, *at), reason);
            }
            Event::Responded { response, .. } => self.responded(response),
            Event::Answered { status, .. } => self.answered = Some(*status),
            Event::Failing { at, error } => {
                self.closing = Some(error);
                self.waits.end_all(*at);
            }
            Event::Cancelling { at, .. } => self.waits.end_all(*at),
            Event::Finished { at, outcome } => {
                (self.outcome, self.retry_at) = (Some(outcome), None);
                self.waits.end_all(*at);
                self.steps.iter_mut().for_each(StepHistory::leave);
            }
            _ => {}
        }
        if let Some(key) = step_of(event) {
            self.apply_to_step(key, event);
        }
        (self.last_at, self.events) = (Some(event.at()), self.events + 1);
    }

    fn apply_to_step(&mut self, key: &'e str, event: &'e Event) {
        self.waits.apply(key, event);
        if matches!(event, Event::StepStarted { .. } | Event::StepFinished { .. }) {
            self.retry_at = None;
        }
        // An entry of a loop for one of its iterations is not a step.
        if key.contains('#') || matches!(event, Event::StepContextRecorded { .. } | Event::WaitEnded { .. }) {
            return;
        }
        let place = match self.places.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.steps.push(StepHistory::new(key));
                *new.insert(self.steps.len() - 1)
            }
        };
        let kept = self.start.map_or(0, |start| start.origin.kept_events() as usize);
        let Some(step) = self.steps.get_mut(place) else { return };
        self.answers.extend(step.answer(event).map(|answer| (key, answer)));
        let is_violated = step.is_closed && step.is_worked_on_by(event);
        step.apply(event, self.events);
        if (1..=kept).contains(&self.events) {
            step.keep();
        }
        if matches!(event, Event::StepRetry { .. }) {
            // The log does not show which steps are nested in this one, so any failed step may run again.
            self.steps.iter_mut().for_each(StepHistory::reopen);
        }
        if is_violated {
            self.violates("a finished step never runs again");
        }
    }

    fn responded(&mut self, response: &'e HttpResponse) {
        if self.response.replace(response).is_some() {
            self.violates("the caller is answered once");
        }
    }

    fn violates(&mut self, reason: &'static str) {
        self.invalid.get_or_insert(InvalidEvent { index: self.events, reason });
    }

    /// Returns the steps in the order of their first event.
    #[must_use]
    pub fn steps(&self) -> &[StepHistory<'e>] {
        &self.steps
    }

    /// Returns a step by its key: the id with its loop iterations.
    #[must_use]
    pub fn step(&self, key: &str) -> Option<&StepHistory<'e>> {
        self.places.get(key).and_then(|place| self.steps.get(*place))
    }

    /// Returns the result or the error of each attempt that ended, in the order of their ends.
    pub fn answers(&self) -> &[StepAnswer<'e>] {
        &self.answers
    }

    /// Returns the waits that have ended, in the order of their end.
    pub fn ended_waits(&self) -> impl Iterator<Item = (&PastWait<'e>, &WaitEnd<'e>)> {
        self.waits.ended()
    }

    /// Returns the waits for an answer or an event, a call or an instant that steps began, in the order of their beginning.
    pub fn step_waits(&self) -> impl Iterator<Item = (&'e str, &'e WaitReason, &PastWait<'e>)> {
        self.waits.all().filter_map(|wait| match (wait.step, wait.cause) {
            (Some(step), WaitCause::Step(on)) => Some((step, on, wait)),
            _ => None,
        })
    }

    /// Returns the step that an ended execution failed at, with its loop iterations, as far as the log shows it.
    #[must_use]
    pub fn failed_step(&self) -> Option<&'e str> {
        let (Outcome::Failed { error } | Outcome::Stuck { error }) = self.outcome? else { return None };
        let id = error.step.as_deref()?;
        if id.contains('[') {
            return Some(id);
        }
        // The error of the execution may name the step without its iterations.
        let failed = self.steps.iter().filter(|step| step.id() == id && step.failed_event.is_some());
        Some(failed.max_by_key(|step| step.failed_event).map_or(id, |step| step.key))
    }
}

/// Returns the key of the step that an event belongs to.
fn step_of(event: &Event) -> Option<&str> {
    match event {
        Event::StepStarted { step, .. }
        | Event::StepRetry { step, .. }
        | Event::StepFailed { step, .. }
        | Event::StepClosing { step, .. }
        | Event::StepFinished { step, .. }
        | Event::StepCalled { step, .. }
        | Event::StepContextRecorded { step, .. }
        | Event::Waiting { step, .. }
        | Event::Signalled { step, .. }
        | Event::WaitEnded { step, .. }
        | Event::Waited { step: Some(step), .. } => Some(step),
        _ => None,
    }
}
