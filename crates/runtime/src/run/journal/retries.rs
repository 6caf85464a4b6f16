//! Attempts of steps, of blocks and of the whole execution.

use std::collections::{HashMap, HashSet};

use model::action::{ActionError, Effect, ErrorKind, LostAttempt};
use model::automation::{Automation, StepRetry};
use model::execution::{Event, StepOutcome};

use super::{Journal, State};
use crate::clock::MonotonicTime;

/// Attempts of an unfinished step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tries {
    /// Number of failed attempts.
    pub(crate) failed: u32,
    /// Number of failed attempts by the index of the policy that covers them; empty if the step has one policy.
    pub(crate) by_policy: Vec<u32>,
    /// Start of the next attempt; `None` if none is due.
    pub(crate) next_at: Option<MonotonicTime>,
}

/// The first attempt of a step whose outcome is unknown, and the number of failed attempts since.
#[derive(Clone, Debug)]
pub(crate) struct UnknownAttempt {
    attempt: Box<LostAttempt>,
    since: u32,
}

impl Tries {
    /// Number of failed attempts that a policy covers.
    pub(crate) fn of_policy(&self, index: usize) -> u32 {
        if self.by_policy.is_empty() && index == 0 {
            return self.failed;
        }
        self.by_policy.get(index).copied().unwrap_or_default()
    }

    /// Adds a failed attempt. `policy` is the number of the policy that covers it, from 1; `None` if the step has one policy.
    pub(crate) fn add(&mut self, failed: u32, policy: Option<u32>, next_at: MonotonicTime) {
        self.failed = failed;
        self.next_at = Some(next_at);
        let Some(index) = policy.and_then(|number| (number as usize).checked_sub(1)) else { return };
        if index >= StepRetry::MAX_RULES {
            return;
        }
        if self.by_policy.len() <= index {
            self.by_policy.resize(index + 1, 0);
        }
        self.by_policy[index] += 1;
    }
}

impl Journal {
    /// Completes the error of a failed attempt: after an attempt with an unknown outcome, its message says so.
    /// `attempt` is the number of the attempt in its own series, from 1.
    pub(crate) fn attempt_failed(&self, step: &str, attempt: u32, error: ActionError) -> ActionError {
        self.state().attempt_failed(step, attempt, error)
    }

    /// Records that an attempt with an effect was running when the previous process stopped.
    pub(crate) fn attempt_interrupted(&self, step: &str, attempt: u32) {
        let message = "the daemon stopped while it waited for it".to_owned();
        let attempt =
            LostAttempt { attempt, kind: ErrorKind::Interrupted, message, status: None, request_id: None };
        self.state()
            .lost
            .entry(step.to_owned())
            .or_insert_with(|| UnknownAttempt { attempt: Box::new(attempt), since: 0 });
    }

    /// Returns true if the execution waits for an attempt later than `now`, so that a stop interrupts no step.
    pub(crate) fn waits_beyond(&self, now: MonotonicTime) -> bool {
        let state = self.state();
        let tries = state.tries.values().map(|tries| tries.next_at);
        tries.chain([state.retry_at]).flatten().any(|at| at > now)
    }

    /// Attempts of a step so far.
    pub(crate) fn tries(&self, step: &str) -> Tries {
        if !self.keeps_outcomes {
            return Tries::default();
        }
        self.state().tries.get(step).cloned().unwrap_or_default()
    }

    /// Records a failed attempt that will be followed by another, as `tries` says. Failures inside a block are cleared
    /// with it.
    pub(crate) fn step_retry(&self, automation: &Automation, step: &str, event: Event, tries: &Tries) {
        let mut state = self.state();
        state.interrupted.remove(step);
        if state.watermark.is_calling(step) {
            // The end of the attempt counts like that of the step.
            state.watermark.record(Effect::Write);
            state.watermark.call_recorded(step);
        }
        self.end_pause(&mut state, step);
        state.tries.insert(step.to_owned(), tries.clone());
        let has_inner = !state.step_starts.is_empty() || !state.checkpoints.is_empty();
        if !state.finished.is_empty() || has_inner || self.closes_steps() {
            state.forget_failures_inside(step, &Inside::of_all(automation));
        }
        state.record(&*self.clock, event);
    }

    /// Records that the whole execution is retried at `next_at`: successful steps keep their results, failures are
    /// cleared.
    pub(crate) fn retry_execution(&self, event: Event, next_at: MonotonicTime) {
        let mut state = self.state();
        if let Event::Retried { attempt, .. } = event {
            state.retry(attempt, next_at);
        }
        state.record(&*self.clock, event);
    }
}

impl State {
    fn attempt_failed(&mut self, step: &str, attempt: u32, error: ActionError) -> ActionError {
        match self.lost.get_mut(step) {
            Some(lost) => {
                lost.since += 1;
                error.with_lost_attempt(lost.attempt.attempt + lost.since, Some(lost.attempt.clone()))
            }
            None => {
                self.remember_lost(step, attempt, &error);
                error
            }
        }
    }

    /// Replays a failed attempt of a step.
    pub(super) fn replay_failure(&mut self, step: &str, attempt: u32, error: &ActionError) {
        match self.lost.get_mut(step) {
            Some(lost) => lost.since += 1,
            None => self.remember_lost(step, attempt, error),
        }
    }

    /// Replays the last attempt of a step, which failed permanently.
    pub(super) fn replay_last_failure(&mut self, step: &str, error: &ActionError) {
        let attempt = self.tries.get(step).map_or(1, |tries| tries.failed + 1);
        self.replay_failure(step, attempt, error);
    }

    /// Replays the end of a step. If its `onError` list began, its failure has been replayed before.
    pub(super) fn replay_end(&mut self, step: &str, outcome: &StepOutcome) {
        if let (StepOutcome::Failed { error, .. }, None) = (outcome, self.failing.get(step)) {
            self.replay_last_failure(step, error);
        }
        self.settle(step, outcome);
    }

    fn remember_lost(&mut self, step: &str, attempt: u32, error: &ActionError) {
        // The error of an inner step belongs to that step, which is retried separately.
        let own = error.step.as_deref().is_none_or(|id| id == split_turns(step).0);
        if let Some(attempt) = error.to_lost_attempt(attempt).filter(|_| own) {
            self.lost.insert(step.to_owned(), UnknownAttempt { attempt, since: 0 });
        }
    }

    /// Removes the unknown attempt of a step that will not be retried.
    pub(super) fn settle(&mut self, step: &str, outcome: &StepOutcome) {
        let is_open = matches!(outcome, StepOutcome::Failed { handled: None, .. });
        if !is_open && !self.lost.is_empty() {
            self.lost.remove(step);
        }
    }

    /// Keeps successful results and clears failures.
    pub(super) fn retry(&mut self, attempt: u32, next_at: MonotonicTime) {
        self.attempt = attempt + 1;
        self.retry_at = Some(next_at);
        self.tries.clear();
        self.failing.clear();
        self.interrupted.clear();
        self.step_starts.clear();
        self.checkpoints.clear();
        self.pauses.clear(next_at);
        self.finished.retain(|_, outcome| !outcome.may_repeat());
        self.forget_cuts(|_| true);
    }

    /// Clears failures inside a step that is retried. The step itself goes on from its checkpoint.
    pub(super) fn forget_failures_inside(&mut self, step: &str, inside: &Inside) {
        let is_inside = inside.contains_step(step);
        self.step_starts.retain(|key, _| key != step && !is_inside(key));
        self.checkpoints.retain(|key, _| !is_inside(key));
        self.forget_cuts(|key| key == step || is_inside(key));
        self.finished.retain(|key, outcome| !(outcome.may_repeat() && is_inside(key)));
    }
}

/// Nesting of steps.
pub(crate) struct Inside(HashMap<String, HashSet<String>>);

impl Inside {
    /// Collects the inner step ids of each step that contains others.
    pub(crate) fn of_all(automation: &Automation) -> Self {
        let mut found = HashMap::new();
        automation.walk(&mut |step| {
            let mut inner = HashSet::new();
            for list in step.verb.nested_blocks() {
                list.block.walk(&mut |step| {
                    inner.insert(step.id.to_string());
                });
            }
            if !inner.is_empty() {
                found.insert(step.id.to_string(), inner);
            }
        });
        Self(found)
    }

    /// Returns a predicate for steps inside `step`, in the same iterations of its loops.
    pub(crate) fn contains_step<'a>(&'a self, step: &'a str) -> impl Fn(&str) -> bool + 'a {
        let (id, turns) = split_turns(step);
        let inner = self.0.get(id);
        move |key| {
            let (key_id, key_turns) = split_turns(key);
            // Entries of a loop for its own iterations have a mark: `poll[2]#delay`.
            let own = key_id == id && key_turns.contains('#');
            (own || inner.is_some_and(|inner| inner.contains(key_id))) && key_turns.starts_with(turns)
        }
    }
}

/// Splits a key: `copy[2][0]` is the step `copy` in the iterations `[2][0]`. A mark belongs to the iterations.
pub(super) fn split_turns(key: &str) -> (&str, &str) {
    key.split_at(key.find(['[', '#']).unwrap_or(key.len()))
}
