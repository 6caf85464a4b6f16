//! The attempt that the failed or retried step of an execution is at, in short form, for lists.

use model::automation::Automation;
use model::execution::{History, split_key};
use serde::Serialize;
use store::{ExecutionRow, ExecutionStore, SMALL_VALUE};

use crate::error::Error;
use crate::records::Records;
use crate::wait_listing::{PauseKind, Pauses};

/// Maximum number of events of an execution that a list reads. A longer one is listed without its attempt.
const MAX_EVENTS: u32 = 500;

/// An attempt of a step that may be retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepAttempt {
    /// The step with its loop iterations.
    pub step: String,
    /// The number of the attempt that failed last, from 1.
    pub attempt: u32,
    /// Maximum number of attempts, by the retry policy of the step; absent if an expression computes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
}

impl StepAttempt {
    /// Derives the attempt of a step from the history of its execution; `None` if the step has no retry policy.
    #[must_use]
    pub fn new(automation: &Automation, step: &str, history: &History<'_>) -> Option<Self> {
        let (id, _) = split_key(step);
        let retry = automation.step(id)?.retry.as_deref().filter(|retry| retry.max() > 0)?;
        let of = (!retry.has_computed_max()).then(|| retry.max().saturating_add(1));
        let failed = history.step(step).map_or(0, |step| step.last_retry);
        // The last attempt of a step that failed permanently has no retry after it.
        let attempt = failed + u32::from(history.outcome.is_some());
        (attempt > 0).then(|| Self { step: step.to_owned(), attempt, of })
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
        store: &dyn ExecutionStore,
        row: &ExecutionRow,
        automation: &Automation,
        pauses: Option<&Pauses>,
    ) -> Result<Option<Self>, store::Error> {
        let mut has_retries = false;
        automation.walk(&mut |step| has_retries |= step.retry.as_ref().is_some_and(|retry| retry.max() > 0));
        if !has_retries || !Self::is_possible(row, pauses) {
            return Ok(None);
        }
        let events = store.events_cut(row.id, SMALL_VALUE).await?.unwrap_or_default().events;
        let history = History::new(&events);
        let step = retried_step(pauses).or_else(|| history.failed_step());
        Ok(step.and_then(|step| Self::new(automation, step, &history)))
    }
}

/// Returns the step that waits for its next attempt, with its loop iterations.
fn retried_step(pauses: Option<&Pauses>) -> Option<&str> {
    let retried =
        pauses.into_iter().flat_map(|pauses| &pauses.first).find(|pause| pause.kind == PauseKind::Retry);
    retried.map(|pause| pause.step.as_str())
}

impl Records {
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
        let _memory = self.context.reserve_for_cut_events(row).await?;
        Ok(StepAttempt::read(&*self.context.store, row, &automation, pauses).await?)
    }
}
