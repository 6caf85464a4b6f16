//! The state of an execution, folded from its events.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Event, ExecutionId, Origin, Outcome, Status, StepOutcome, WaitReason};
use crate::action::ActionError;
use crate::automation::{AutomationId, DefinitionHash};
use crate::payload::{HttpResponse, Payload};

/// The state of an execution, folded from its events.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The id.
    pub id: ExecutionId,
    /// The id of the automation.
    pub automation: AutomationId,
    /// The hash of the definition.
    pub definition: DefinitionHash,
    /// The kind of start.
    pub origin: Origin,
    /// The input.
    pub payload: Arc<Payload>,
    /// The time of acceptance.
    pub started_at: Timestamp,
    /// The steps that have started, by step with iteration indices.
    pub steps: HashMap<String, StepState>,
    /// The response set by a `respond` step; `None` if none has run.
    pub response: Option<HttpResponse>,
    /// The number of the attempt of the whole execution, from 1.
    pub attempt: u32,
    /// The time of the next attempt of the whole execution; `None` if none is scheduled.
    pub retry_at: Option<Timestamp>,
    /// The number of interruptions by a daemon's stop since a step last finished an attempt.
    pub interruptions: u32,
    /// The outcome; `None` if the execution has not finished.
    pub outcome: Option<Outcome>,
    /// The time of the end; `None` if the execution has not finished.
    pub finished_at: Option<Timestamp>,
    /// The number of folded events.
    pub events: u32,
}

/// The state of one step of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepState {
    /// The number of failed attempts.
    pub failed_attempts: u32,
    /// True if an attempt has started whose end is not recorded.
    pub in_flight: bool,
    /// The time of the next attempt; `None` if none is scheduled.
    pub retry_at: Option<Timestamp>,
    /// The permanent error, while the `onError` block runs.
    pub failure: Option<ActionError>,
    /// The current wait; `None` if the step does not wait.
    pub waiting: Option<StepWait>,
    /// The outcome; `None` if the step has not finished.
    pub outcome: Option<StepOutcome>,
    /// True if the step failed and a block that may contain it was retried since: the step may run again.
    may_reopen: bool,
}

/// The wait of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepWait {
    /// The start of the wait.
    pub since: Timestamp,
    /// The latest end of the wait; `None` if it is unknown.
    pub until: Option<Timestamp>,
    /// The end condition.
    pub on: WaitReason,
}

/// Error: an event cannot follow the previous ones. The log is damaged, or another program wrote it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("event {index} of execution {id} is not possible there: {reason}")]
pub struct InvalidEvent {
    /// The id of the execution.
    pub id: ExecutionId,
    /// The index of the event, from 0.
    pub index: u32,
    /// The violated rule.
    pub reason: &'static str,
}

impl Execution {
    /// Folds the whole log of an execution.
    ///
    /// # Errors
    /// Returns an error if an event cannot follow the previous ones, or the first one is not `started`.
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

    /// Folds one more event into the state.
    ///
    /// # Errors
    /// Returns an error if the event cannot follow the previous ones.
    pub fn apply(&mut self, event: Event) -> Result<(), InvalidEvent> {
        let illegal = |reason| InvalidEvent { id: self.id, index: self.events, reason };
        if self.outcome.is_some() {
            return Err(illegal("the execution has finished"));
        }
        match event {
            Event::Started { .. } => return Err(illegal("the execution has already started")),
            Event::Resumed { waited, .. } => self.interruptions += u32::from(!waited),
            Event::Cancelling { .. }
            | Event::ClockChanged { .. }
            | Event::Waited { .. }
            | Event::Answered { .. } => {}
            Event::StepStarted { step, .. } => {
                let state = unfinished(&mut self.steps, step).map_err(illegal)?;
                state.in_flight = true;
                state.retry_at = None;
                self.retry_at = None;
            }
            Event::StepRetry { step, attempt, next_at, .. } => {
                let state = unfinished(&mut self.steps, step).map_err(illegal)?;
                *state =
                    StepState { failed_attempts: attempt, retry_at: Some(next_at), ..StepState::default() };
                self.interruptions = 0;
                // The log does not tell which steps are nested in this one, so any failed step may run again.
                for state in self.steps.values_mut() {
                    state.may_reopen =
                        matches!(state.outcome, Some(StepOutcome::Failed { handled: None, .. }));
                }
            }
            Event::StepFailed { step, error, .. } => {
                let state = unfinished(&mut self.steps, step).map_err(illegal)?;
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
                self.retry_at = None;
            }
            Event::StepCalled { .. }
            | Event::StepContextRecorded { .. }
            | Event::Signalled { .. }
            | Event::WaitEnded { .. }
            | Event::Failing { .. } => {}
            // A key with `#` is the delay of a loop iteration, not a step: `poll[2]#delay`.
            Event::Waiting { step, .. } if step.contains('#') => {}
            Event::Waiting { at, step, until, on, .. } => {
                let state = unfinished(&mut self.steps, step).map_err(illegal)?;
                state.waiting = Some(StepWait { since: at, until, on });
            }
            Event::Responded { response, .. } => {
                if self.response.is_some() {
                    return Err(illegal("the caller is answered once"));
                }
                self.response = Some(response);
            }
            Event::Retried { attempt, next_at, .. } => self.retry(attempt, next_at),
            Event::Finished { at, outcome } => {
                self.outcome = Some(outcome);
                self.finished_at = Some(at);
                self.retry_at = None;
            }
        }
        self.events += 1;
        Ok(())
    }

    /// The next attempt starts at the failed step: forgets failed steps, keeps successful ones.
    fn retry(&mut self, failed_attempt: u32, next_at: Timestamp) {
        self.attempt = failed_attempt + 1;
        self.retry_at = Some(next_at);
        self.interruptions = 0;
        self.steps.retain(|_, step| {
            !matches!(step.outcome, None | Some(StepOutcome::Failed { handled: None, .. }))
        });
    }

    /// Returns the status. Waiting executions count as running here.
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.outcome {
            Some(outcome) => outcome.status(),
            None if self.events == 1 + self.origin.kept_events() => Status::Queued,
            None => Status::Running,
        }
    }
}

/// Returns the state of a step that must not have finished, and resets a failed step that may run again.
fn unfinished(steps: &mut HashMap<String, StepState>, step: String) -> Result<&mut StepState, &'static str> {
    let state = steps.entry(step).or_default();
    if state.may_reopen {
        *state = StepState::default();
    }
    if state.outcome.is_some() { Err("a finished step never runs again") } else { Ok(state) }
}
