//! Acceptance of several executions of one trigger in one commit, for polls and events.

use std::sync::Arc;

use catalog::Deployment;
use model::action::ActionError;
use model::execution::{ExecutionId, Origin};
use store::{Accept, AcceptOutcome, DedupRecord, NewExecution, News, PollWrite};

use super::Admission;
use super::accept::{initial_events, started};
use super::concurrency::is_gated;
use crate::api::Start;
use crate::detached::spawn_on_drop;
use crate::error::Error;
use crate::memory::trigger_memory;

/// A start of a batch.
#[derive(Debug)]
pub struct NewStart {
    /// The start.
    pub start: Start,
    /// The error with which the execution fails.
    pub fails: Option<ActionError>,
    /// A key that is unique in its automation.
    pub key: Option<String>,
    /// The deduplication records to take.
    pub dedup: Vec<DedupRecord>,
}

impl NewStart {
    /// Returns the origin, and the memory for the data of its trigger, in bytes; 0 if they are small.
    fn origin_and_memory(&self) -> (Origin, usize) {
        (self.start.origin.clone(), trigger_memory(&self.start.payload, &self.start.by, None))
    }
}

impl Admission {
    /// Commits the result of a poll together with the executions that it starts, each with its initial error, and runs them.
    pub async fn accept_polled(
        self: &Arc<Self>,
        deployment: &Arc<Deployment>,
        starts: Vec<(Start, Option<ActionError>)>,
        poll: PollWrite,
    ) -> Result<(), Error> {
        if !starts.is_empty() && self.queue_room() < starts.len() {
            self.context.rejections.count(Some(&deployment.automation.id), "busy");
            return Err(Error::busy());
        }
        let starts =
            starts.into_iter().map(|(start, fails)| NewStart { start, fails, key: None, dedup: Vec::new() });
        let with = Accept { poll: Some(poll), ..Accept::default() };
        self.accept_batch(deployment, starts.collect(), with).await.map(drop)
    }

    /// Returns the number of executions that may join the queue.
    #[must_use]
    pub fn queue_room(&self) -> usize {
        self.context.settings.limits.queue.saturating_sub(self.queued())
    }

    /// Commits executions of one trigger together with the writes in `with`, and runs them. One whose key or deduplication record is taken
    /// is not started. Returns the outcomes in the order of the starts.
    ///
    /// # Errors
    /// The engine stops, or the store failed. Nothing is accepted, unless the outcome is unknown.
    pub async fn accept_batch(
        self: &Arc<Self>,
        deployment: &Arc<Deployment>,
        starts: Vec<NewStart>,
        with: Accept,
    ) -> Result<Vec<AcceptOutcome>, Error> {
        if !self.context.accepting() {
            return Err(Error::Closing);
        }
        // As in `accept`, executions that are committed run.
        spawn_on_drop(&self.context.tracker, self.clone().accept_all(deployment.clone(), starts, with)).await
    }

    async fn accept_all(
        self: Arc<Self>,
        deployment: Arc<Deployment>,
        starts: Vec<NewStart>,
        with: Accept,
    ) -> Result<Vec<AcceptOutcome>, Error> {
        let (automation, now, wall_offset) =
            (&deployment.automation, self.context.clock.now(), self.context.clock.wall_offset());
        let trigger = starts.first().map(|new| new.start.by.trigger.clone()).unwrap_or_default();
        let accepted: Vec<(Origin, usize)> = starts.iter().map(NewStart::origin_and_memory).collect();
        let new = |NewStart { mut start, fails, key, dedup }: NewStart| {
            self.mask_credentials(automation, &start.by.trigger, &mut start.payload, None);
            let started = started(now, automation, &start.origin, start.payload.into(), &start.by);
            NewExecution {
                id: self.ids.next(now),
                started,
                key,
                dedup,
                starts_running: false,
                initial: initial_events(now, Vec::new(), fails),
                gated: is_gated(automation, &start.origin, &start.by.trigger),
            }
        };
        let executions: Vec<NewExecution> = starts.into_iter().map(new).collect();
        let ids: Vec<ExecutionId> = executions.iter().map(|new| new.id).collect();
        let outcomes = self.accept_durably(&deployment, Accept { executions, ..with }).await?;
        // The executions of one trigger are gated all or not at all.
        let gated = accepted.first().is_some_and(|(origin, _)| is_gated(automation, origin, &trigger));
        let (mut queued, mut handed) = (Vec::new(), None);
        for ((id, (origin, memory)), outcome) in ids.into_iter().zip(accepted).zip(&outcomes) {
            if matches!(outcome, AcceptOutcome::New | AcceptOutcome::Elsewhere) {
                self.context.metrics.count_accepted(&origin);
            }
            match outcome {
                AcceptOutcome::New => {
                    queued.push((id, self.queued_since_now(&origin, gated, wall_offset, memory)));
                }
                AcceptOutcome::Elsewhere => handed = Some(id),
                AcceptOutcome::Duplicate(_) | AcceptOutcome::Mismatch(_) => {}
            }
        }
        self.enqueue(&automation.id, gated, queued);
        // One node has them all.
        if let Some(id) = handed {
            self.hand_over(id).await;
        }
        Ok(outcomes)
    }

    /// Tells the node that has an accepted execution. It is accepted, whether the hint can be sent or not.
    pub(super) async fn hand_over(&self, id: ExecutionId) {
        if let Ok(Some(owner)) = self.context.store.owner(id).await {
            self.context.store.tell(Some(owner), News::Handed);
        }
    }
}
