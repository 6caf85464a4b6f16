//! The state of an execution: the fold of its events.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Event, ExecutionId, Origin, Outcome, Status, StepOutcome, WaitReason};
use crate::action::ActionError;
use crate::automation::{AutomationId, DefinitionHash};
use crate::payload::{HttpResponse, Payload};

/// The state of an execution: the fold of its events.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// Of which Automation.
    pub automation: AutomationId,
    /// On which definition.
    pub definition: DefinitionHash,
    /// What started it.
    pub origin: Origin,
    /// With what.
    pub payload: Arc<Payload>,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// The steps that have begun, by step with loop turns.
    pub steps: HashMap<String, StepState>,
    /// The answer that a `respond` step decided.
    pub response: Option<HttpResponse>,
    /// The try of the whole execution, from 1.
    pub attempt: u32,
    /// When the next try of the whole execution begins, while one is due.
    pub retry_at: Option<Timestamp>,
    /// How often it was taken up again since a step last came to the end of a try.
    pub interruptions: u32,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
    /// When it ended, if it did.
    pub finished_at: Option<Timestamp>,
    /// How many events were folded.
    pub events: u32,
}

/// Where one step of an execution stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepState {
    /// The tries that have failed.
    pub failed_attempts: u32,
    /// Whether a try has begun whose end is not known.
    pub in_flight: bool,
    /// When the next try begins, while one is due.
    pub retry_at: Option<Timestamp>,
    /// Why it failed for good, while its `onError` list runs.
    pub failure: Option<ActionError>,
    /// For what it pauses, while it does.
    pub waiting: Option<StepWait>,
    /// How it ended, if it did.
    pub outcome: Option<StepOutcome>,
    /// Whether it failed and a list has been tried again since in which it may stand, so that it may begin again.
    may_reopen: bool,
}

/// A pause.
#[derive(Clone, Debug, PartialEq)]
pub struct StepWait {
    /// When it began.
    pub since: Timestamp,
    /// When it ends at the latest, where that is known.
    pub until: Option<Timestamp>,
    /// For what.
    pub on: WaitReason,
}

/// An event that cannot follow the ones before it: the log is damaged or was written by something else.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("event {index} of execution {id} is not possible there: {reason}")]
pub struct InvalidEvent {
    /// Of which execution.
    pub id: ExecutionId,
    /// Which event, from 0.
    pub index: u32,
    /// Why.
    pub reason: &'static str,
}

impl Execution {
    /// Folds the whole log of an execution.
    ///
    /// # Errors
    /// An event that cannot stand where it stands.
    pub fn from_events(
        id: ExecutionId,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, InvalidEvent> {
        let mut events = events.into_iter();
        let Some(Event::Started { at, automation, definition, origin, payload }) = events.next() else {
            return Err(InvalidEvent { id, index: 0, reason: "the first event must be `started`" });
        };
        let mut execution = Self {
            id,
            automation,
            definition,
            origin,
            payload,
            started_at: at,
            steps: HashMap::new(),
            response: None,
            attempt: 1,
            retry_at: None,
            interruptions: 0,
            outcome: None,
            finished_at: None,
            events: 1,
        };
        for event in events {
            execution.apply(event)?;
        }
        Ok(execution)
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// The event cannot follow those before it.
    pub fn apply(&mut self, event: Event) -> Result<(), InvalidEvent> {
        let illegal = |reason| InvalidEvent { id: self.id, index: self.events, reason };
        if self.outcome.is_some() {
            return Err(illegal("the execution has finished"));
        }
        match event {
            Event::Started { .. } => return Err(illegal("it has started already")),
            Event::Resumed { waited, .. } => self.interruptions += u32::from(!waited),
            Event::Cancelling { .. }
            | Event::ClockChanged { .. }
            | Event::Waited { .. }
            | Event::Answered { .. } => {}
            Event::StepStarted { step, .. } => {
                let state = open(&mut self.steps, step).map_err(illegal)?;
                state.in_flight = true;
                state.retry_at = None;
            }
            Event::StepRetry { step, attempt, next_at, .. } => {
                let state = open(&mut self.steps, step).map_err(illegal)?;
                *state =
                    StepState { failed_attempts: attempt, retry_at: Some(next_at), ..StepState::default() };
                self.interruptions = 0;
                // Which steps are inside it, the log does not say: what failed there may begin again.
                for state in self.steps.values_mut() {
                    state.may_reopen =
                        matches!(state.outcome, Some(StepOutcome::Failed { handled: None, .. }));
                }
            }
            Event::StepFailed { step, error, .. } => {
                let state = open(&mut self.steps, step).map_err(illegal)?;
                *state = StepState { failure: Some(error), ..StepState::default() };
                self.interruptions = 0;
            }
            Event::StepFinished { step, outcome, .. } => {
                let state = self.steps.entry(step).or_default();
                if state.outcome.is_some() && !state.may_reopen {
                    return Err(illegal("a step finishes once"));
                }
                *state = StepState { outcome: Some(outcome), ..StepState::default() };
                self.interruptions = 0;
            }
            Event::StepCalled { .. }
            | Event::StepContextRecorded { .. }
            | Event::Signalled { .. }
            | Event::WaitEnded { .. }
            | Event::Failing { .. } => {}
            // What a loop keeps of one of its turns is no step: `poll[2]#delay`.
            Event::Waiting { step, .. } if step.contains('#') => {}
            Event::Waiting { at, step, until, on, .. } => {
                let state = open(&mut self.steps, step).map_err(illegal)?;
                state.waiting = Some(StepWait { since: at, until, on });
            }
            Event::Responded { response, .. } => {
                if self.response.is_some() {
                    return Err(illegal("the caller is answered once"));
                }
                self.response = Some(response);
            }
            Event::Retried { attempt, next_at, .. } => {
                self.attempt = attempt + 1;
                self.retry_at = Some(next_at);
                self.interruptions = 0;
                // What failed is forgotten, what succeeded stays: the next try starts at the failure.
                self.steps.retain(|_, step| {
                    !matches!(step.outcome, None | Some(StepOutcome::Failed { handled: None, .. }))
                });
            }
            Event::Finished { at, outcome } => {
                self.outcome = Some(outcome);
                self.finished_at = Some(at);
            }
        }
        self.events += 1;
        Ok(())
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.outcome {
            Some(outcome) => outcome.status(),
            None if self.events == 1 => Status::Queued,
            None => Status::Running,
        }
    }
}

/// The state of a step that something more happens to: it must not have ended.
fn open(steps: &mut HashMap<String, StepState>, step: String) -> Result<&mut StepState, &'static str> {
    let state = steps.entry(step).or_default();
    if state.may_reopen {
        *state = StepState::default();
    }
    if state.outcome.is_some() { Err("a finished step never runs again") } else { Ok(state) }
}
