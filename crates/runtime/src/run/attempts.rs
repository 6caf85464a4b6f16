//! The attempts of a step: until one succeeds, or no retry policy covers its error.

use std::time::Duration;

use jiff::Timestamp;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{Step, StepRetry, Verb};
use model::execution::Event;
use value::Value;

use super::journal::Tries;
use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};
use crate::clock::MonotonicTime;

impl Run {
    /// Runs attempts until one succeeds or the retry policy gives up.
    pub(super) async fn run_attempts(
        &self,
        step: &Step,
        key: &str,
        mut began: MonotonicTime,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Tried, Exit> {
        let mut tries = self.journal.tries(key);
        if let Some(next_at) = tries.next_at.take() {
            self.pause_before_try(key, next_at, Some(frame)).await?;
            began = self.context.clock.monotonic_now();
        }
        if self.journal.was_interrupted(key) && self.effect(step) == Effect::Write && is_call(step) {
            self.journal.attempt_interrupted(key, tries.failed + 1);
        }
        loop {
            if step.timeout.is_some() && (spans_pauses(step) || self.has_stages(step)) {
                // An inner wait may outlive this process, and the attempt's time limit must continue after a restart.
                began = self.journal.started_at(key).map_or(began, |(_, steady)| steady.min(began));
                self.journal.record_start(key, began.to_wall(self.context.clock.wall_offset()), None);
            }
            let inner = frame.inner(began, frame.timeout(step));
            let done = self.verb(step, key, tries.failed + 1, scope, &inner).await;
            let took_us = self.work_us(began, &inner);
            self.count_attempt(step, &done, took_us.max(scope.pipelined_us));
            let error = match done {
                Ok(result) => return Ok(Tried { result: Ok(result), took_us }),
                Err(Exit::Failed(error)) => error,
                Err(Exit::Expired(depth)) if depth == inner.depth => {
                    let limit = text::units::format_duration(frame.timeout(step).unwrap_or_default());
                    let message = format!("step `{}` took longer than its timeout of {limit}", step.id);
                    let mut error = ActionError::new(ErrorKind::Timeout, message);
                    error.outcome_unknown = is_call(step) && self.effect(step) == Effect::Write;
                    error
                }
                Err(exit) if exit.is_immediate() => return Err(exit),
                Err(exit) => return Ok(Tried { result: Err(exit), took_us }),
            };
            self.abandon_inside(step, key);
            let failed = tries.failed + 1;
            let error = self.journal.attempt_failed(key, failed, error);
            let granted = match frame.retry(step) {
                Some(retry) => self.next_try(step, retry, (key, &tries), &error, scope, frame).await?,
                None => None,
            };
            let Some((policy, delay)) = granted else {
                return Ok(Tried { result: Err(Exit::Failed(error)), took_us });
            };
            let due = self.context.clock.monotonic_now().after(delay);
            tries.add(failed, policy, due);
            self.record_retry(key, &tries, error, policy, delay);
            // The delay may be long, so the results and the attempt count are committed first.
            self.await_commit(key, &inner, self.journal.commit()).await?;
            self.send_due_response(key, scope, &inner).await?;
            self.pause_before_try(key, due, Some(frame)).await?;
            began = self.context.clock.monotonic_now();
        }
    }

    /// Records a failed attempt, and that another one follows after a delay.
    fn record_retry(
        &self,
        key: &str,
        tries: &Tries,
        error: ActionError,
        policy: Option<u32>,
        delay: Duration,
    ) {
        let at = self.context.clock.now();
        let next_at = at.checked_add(delay).unwrap_or(Timestamp::MAX);
        let (step, attempt) = (key.to_owned(), tries.failed);
        let event = Event::StepRetry { at, step, attempt, error, next_at, policy };
        self.journal.step_retry(&self.deployment.automation, key, event, tries);
    }

    /// Returns the delay before the next attempt, with the number of the policy that grants it if the step has several; `None` to give
    /// up. The first policy that covers the error decides.
    async fn next_try(
        &self,
        step: &Step,
        retry: &StepRetry,
        (key, tries): (&str, &Tries),
        error: &ActionError,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Option<(Option<u32>, Duration)>, Exit> {
        for (index, rule) in retry.rules.iter().enumerate() {
            let covers = match &rule.condition {
                None => rule.policy.covers(error),
                Some(condition) => {
                    let mut error = error.clone();
                    error.step.get_or_insert_with(|| step.id.to_string());
                    let mut inner = scope.fork();
                    inner.bind("error", error.to_value());
                    match self.condition_holds(condition, &inner, "retry.if", frame).await {
                        Err(Exit::Failed(error)) => {
                            let message = format!("the step is not tried again: {}", error.message);
                            self.journal.log(model::LogLevel::Error, Some(key), &message);
                            return Ok(None);
                        }
                        covers => covers?,
                    }
                }
            };
            if covers {
                let delay = rule.next_delay(tries.of_policy(index) + 1, error);
                let number = (retry.rules.len() > 1).then(|| u32::try_from(index + 1).unwrap_or(u32::MAX));
                return Ok(delay.map(|delay| (number, delay)));
            }
        }
        Ok(None)
    }

    /// Counts an attempt of an action or of code that has come to an end.
    fn count_attempt(&self, step: &Step, done: &Result<Value, Exit>, took_us: u64) {
        let action = match &step.verb {
            Verb::Action(call) => call.action.name.as_str(),
            Verb::Code(_) => crate::metrics::CODE_BLOCKS,
            _ => return,
        };
        let failed = match done {
            Ok(_) => false,
            Err(Exit::Failed(_) | Exit::Expired(_)) => true,
            Err(_) => return,
        };
        self.context.metrics.count_attempt(action, took_us, failed);
    }
}

/// The end of the last try of a step.
pub(super) struct Tried {
    /// The result, the error, or the exit that led out of the step.
    pub(super) result: Result<Value, Exit>,
    /// The time that the try worked, in microseconds.
    pub(super) took_us: u64,
}

/// Returns true if the step calls an action.
fn is_call(step: &Step) -> bool {
    matches!(step.verb, Verb::Action(_))
}

/// Returns true if an attempt of the step may contain a wait that outlives the process.
fn spans_pauses(step: &Step) -> bool {
    matches!(step.verb, Verb::Wait(_) | Verb::Call(_)) || !step.verb.nested_blocks().is_empty()
}
