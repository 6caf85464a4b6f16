//! The closing steps of an execution, `undo`, `onError` and `finally`, and the `finally` of a step.
//!
//! The outcome is in the log before the first of them: the steps that it ended never start again. They run to their end: no cancellation
//! and no timeout around them cuts them off, only their own limit of five minutes.

use std::time::Duration;

use model::action::{ActionError, ErrorKind};
use model::automation::{Block, Step, Verb};
use model::execution::{Event, Outcome, StepOutcome};

use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};

/// The timeout of each list of closing steps.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(300);

impl Run {
    /// Runs the closing steps of the execution: `undo` lists, after a failure `onError`, then `finally`.
    pub(super) async fn close(&self, outcome: Outcome, scope: &mut Scope) -> Result<Outcome, Exit> {
        let automation = &self.deployment.automation;
        let (error, is_cancelled) = match &outcome {
            Outcome::Failed { error } => (error.clone(), false),
            Outcome::Cancelled { reason } => (ActionError::new(ErrorKind::Cancelled, reason.as_str()), true),
            Outcome::Succeeded { .. } | Outcome::Stuck { .. } => {
                return self.run_finally(outcome, scope).await;
            }
        };
        let undos = self.undos(is_cancelled).await?;
        let on_error = automation.on_error.as_ref().filter(|_| !is_cancelled);
        if !undos.is_empty() || on_error.is_some() || automation.finally.is_some() {
            if is_cancelled {
                self.record_cancelling(&error.message).await?;
            } else {
                if self.journal.closing().is_none() {
                    // Branches that the failure cut off no longer pause, and must not wake the closing steps.
                    self.abandon(|_| true);
                }
                self.journal.close(&error);
            }
        }
        self.undo(undos, &error).await?;
        if let Some(block) = on_error {
            let mut inner = scope.fork();
            inner.bind("error", error.to_value());
            let frame = self.frame_of_closing(block, &self.frame());
            self.apply_successes(&mut inner, &frame);
            self.run_closing(block, &mut inner, &frame, ("`onError`", None)).await?;
        }
        self.run_finally(outcome, scope).await
    }

    /// Records the cancellation of the execution before its first closing step: after a restart no other step must go on.
    async fn record_cancelling(&self, reason: &str) -> Result<(), Exit> {
        if self.journal.cancelling().is_none() {
            for child in self.journal.abandon_main() {
                self.cancel_child(child);
            }
        }
        self.journal.cancel(reason);
        self.journal.commit().await
    }

    async fn run_finally(&self, outcome: Outcome, scope: &mut Scope) -> Result<Outcome, Exit> {
        let Some(block) = &self.deployment.automation.finally else { return Ok(outcome) };
        if let Outcome::Failed { error } = &outcome {
            scope.bind("error", error.to_value());
        }
        scope.bind("outcome", outcome.to_value());
        let frame = self.frame_of_closing(block, &self.frame());
        self.apply_successes(scope, &frame);
        match self.run_closing(block, scope, &frame, ("`finally`", None)).await? {
            Some(error) if matches!(outcome, Outcome::Succeeded { .. }) => Ok(Outcome::Failed { error }),
            _ => Ok(outcome),
        }
    }

    /// Runs the `finally` of a step that has begun, and returns the outcome of the step. Its variables stay inside it.
    pub(super) async fn run_step_finally(
        &self,
        step: &Step,
        key: &str,
        outcome: StepOutcome,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<StepOutcome, Exit> {
        let Some(block) = step.finally.as_ref().filter(|_| self.journal.is_open(key)) else {
            return Ok(outcome);
        };
        if self.is_cancelled(frame) {
            self.record_cancelling(&self.cancelled.reason()).await?;
        }
        if self.journal.closing_outcome(key).is_some() {
            self.replay_inside(step, scope, frame);
        } else {
            self.journal.step_closing(key, &outcome);
            self.await_commit(key, frame, self.journal.commit()).await?;
        }
        let mut inner = scope.fork();
        if !self.is_loop_item(step, "outcome") {
            inner.bind("outcome", outcome.to_value());
        }
        self.apply_successes(&mut inner, frame);
        let what = format!("`finally` of `{key}`");
        let closing = self.frame_of_closing(block, frame);
        let what = (what.as_str(), Some(&*step.id));
        let Some(mut error) = self.run_closing(block, &mut inner, &closing, what).await? else {
            return Ok(outcome);
        };
        error.step.get_or_insert_with(|| step.id.to_string());
        let error = self.journal.redact_error(error);
        Ok(if outcome.may_repeat() { outcome } else { StepOutcome::Failed { error, handled: None } })
    }

    /// True if a loop around the step gives its item this name.
    fn is_loop_item(&self, step: &Step, name: &str) -> bool {
        let mut found = false;
        self.deployment.automation.walk(&mut |each| {
            if let Verb::ForEach(loops) = &each.verb
                && &*loops.item == name
            {
                loops.steps.walk(&mut |inner| found |= inner.id == step.id);
            }
        });
        found
    }

    /// Runs closing steps. A failure of theirs is logged, with their name and the step that they belong to, and returned.
    pub(super) async fn run_closing(
        &self,
        block: &Block,
        scope: &mut Scope,
        frame: &Frame,
        (what, step): (&str, Option<&str>),
    ) -> Result<Option<ActionError>, Exit> {
        let error = match self.block(block, scope, frame).await {
            Ok(_) | Err(Exit::Stop(_) | Exit::Break | Exit::Continue(_)) => return Ok(None),
            Err(Exit::Failed(error)) => error,
            Err(Exit::Expired(_)) => ActionError::new(
                ErrorKind::Timeout,
                format!("the steps of {what} took longer than 5 minutes"),
            ),
            Err(Exit::Cancelled) => ActionError::new(ErrorKind::Cancelled, self.cancelled.reason()),
            Err(exit @ (Exit::ShuttingDown | Exit::Suspended | Exit::NotAccepted | Exit::StoreFailed(_))) => {
                return Err(exit);
            }
        };
        self.journal.log(model::LogLevel::Error, step, &format!("{what} failed: {}", error.message));
        Ok(Some(error))
    }

    /// The frame of closing steps, in the iterations of `around`. If they may outlive this process, the start of their time limit is
    /// recorded, so that it goes on after a pause or a restart.
    pub(super) fn frame_of_closing(&self, list: &Block, around: &Frame) -> Frame {
        let now = self.context.clock.monotonic_now();
        let mut frame = self.closing_frame().in_turns_of(around);
        let Some(first) = list.steps.first().filter(|_| self.may_pause(list)) else { return frame };
        let key = [&frame.key(&first.id), Event::LIMITED].concat();
        match self.journal.started_at(&key) {
            Some((_, began)) => frame.end = began.after(CLOSING_TIMEOUT),
            None => self.journal.record_start(&key, now.to_wall(self.context.clock.wall_offset()), None),
        }
        frame
    }

    /// The frame of closing work that begins now.
    pub(super) fn closing_frame(&self) -> Frame {
        Frame::closing(self.context.clock.monotonic_now().after(CLOSING_TIMEOUT))
    }

    /// True if a step of the list may pause.
    fn may_pause(&self, list: &Block) -> bool {
        let mut found = false;
        list.walk(&mut |step| {
            found |= matches!(step.verb, Verb::Wait(_) | Verb::WaitFor(_) | Verb::Call(_))
                || step.retry.as_ref().is_some_and(|retry| retry.max() > 0)
                || self.has_stages(step);
        });
        found
    }
}
