//! The attempt that the failed or retried step of an execution is at, in short form, for lists.

use model::automation::Automation;
use model::execution::{Event, Outcome, StepOutcome};
use serde::Serialize;
use store::{ExecutionRow, SMALL_VALUE, Store};

use crate::context::Runtime;
use crate::error::Error;
use crate::wait_listing::{PauseKind, Pauses};

/// The most events of an execution that a list reads. A longer one is listed without its attempt.
const MAX_EVENTS: u32 = 500;

/// An attempt of a step that may be retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepAttempt {
    /// The step with its loop turns.
    pub step: String,
    /// The number of the attempt that failed last, from 1.
    pub attempt: u32,
    /// The most attempts, by the retry policy of the step.
    pub of: u32,
}

impl StepAttempt {
    /// Derives the attempt of a step from the events of its execution; `None` if the step has no retry policy.
    #[must_use]
    pub fn new(automation: &Automation, step: &str, events: &[Event]) -> Option<Self> {
        let id = step.split('[').next().unwrap_or_default();
        let mut retries = 0;
        automation.walk(&mut |known| {
            if known.id.as_ref() == id {
                retries = known.retry.as_ref().map_or(0, |policy| policy.max);
            }
        });
        if retries == 0 {
            return None;
        }
        let has_ended = matches!(events.last(), Some(Event::Finished { .. }));
        let failed = events.iter().rev().find_map(|event| match event {
            Event::StepRetry { step: retried, attempt, .. } if retried == step => Some(*attempt),
            _ => None,
        });
        // The last attempt of a step that failed for good has no retry after it.
        let attempt = failed.unwrap_or(0) + u32::from(has_ended);
        (attempt > 0).then(|| Self { step: step.to_owned(), attempt, of: retries.saturating_add(1) })
    }

    /// Returns true if an execution may have an attempt: it failed, or a step of it waits for its next attempt.
    #[must_use]
    pub fn is_possible(row: &ExecutionRow, pauses: Option<&Pauses>) -> bool {
        let has_failed = matches!(row.status, model::Status::Failed | model::Status::Stuck);
        row.events <= MAX_EVENTS && (has_failed || retried_step(pauses).is_some())
    }

    /// Reads the attempt of the step that an execution on `automation` failed at or retries; `None` if no step of it is retried.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn read(
        store: &dyn Store,
        row: &ExecutionRow,
        automation: &Automation,
        pauses: Option<&Pauses>,
    ) -> Result<Option<Self>, store::Error> {
        let mut has_retries = false;
        automation.walk(&mut |step| has_retries |= step.retry.as_ref().is_some_and(|policy| policy.max > 0));
        if !has_retries || !Self::is_possible(row, pauses) {
            return Ok(None);
        }
        let events = store.events_cut(row.id, SMALL_VALUE).await?.unwrap_or_default().events;
        let step = retried_step(pauses).or_else(|| failed_step(&events));
        Ok(step.and_then(|step| Self::new(automation, step, &events)))
    }
}

/// Returns the step that waits for its next attempt, with its loop turns.
fn retried_step(pauses: Option<&Pauses>) -> Option<&str> {
    let retried =
        pauses.into_iter().flat_map(|pauses| &pauses.first).find(|pause| pause.kind == PauseKind::Retry);
    retried.map(|pause| pause.step.as_str())
}

/// Returns the step that an ended execution failed at, with its loop turns.
fn failed_step(events: &[Event]) -> Option<&str> {
    let Some(Event::Finished { outcome: Outcome::Failed { error } | Outcome::Stuck { error }, .. }) =
        events.last()
    else {
        return None;
    };
    let id = error.step.as_deref()?;
    if id.contains('[') {
        return Some(id);
    }
    // The error of the execution may name the step without its turns.
    let with_turns = events.iter().rev().find_map(|event| match event {
        Event::StepFinished { step, outcome: StepOutcome::Failed { .. }, .. }
        | Event::StepFailed { step, .. } => (step.split('[').next() == Some(id)).then_some(step.as_str()),
        _ => None,
    });
    with_turns.or(Some(id))
}

impl Runtime {
    /// Returns the attempt of the step that an execution failed at or retries; `None` if no step of it is retried.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn last_attempt(
        &self,
        row: &ExecutionRow,
        pauses: Option<&Pauses>,
    ) -> Result<Option<StepAttempt>, Error> {
        if !StepAttempt::is_possible(row, pauses) {
            return Ok(None);
        }
        let Some(automation) = self.automation_of(row).await else { return Ok(None) };
        let _memory = self.reserve_for_cut_events(row).await?;
        Ok(StepAttempt::read(&*self.store, row, &automation, pauses).await?)
    }
}
