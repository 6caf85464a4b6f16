//! Tries of steps, of lists of steps, and of the whole execution.

use std::collections::{HashMap, HashSet};

use model::action::{ActionError, ErrorKind, LostAttempt};
use model::automation::Automation;
use model::execution::{Event, StepOutcome};

use super::{Journal, State};
use crate::clock::MonotonicTime;

/// The tries of a step that has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    /// How many have failed.
    pub(crate) failed: u32,
    /// When the next begins, if one is due.
    pub(crate) next_at: Option<MonotonicTime>,
}

/// The first attempt at a step that may have had its effect although it failed, and how many attempts failed since.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    attempt: Box<LostAttempt>,
    since: u32,
}

impl Journal {
    /// The error of a failed attempt at a step: after an attempt whose outcome is unknown, its message says so.
    /// `attempt` is the number of the attempt in its own list of tries, from 1.
    pub(crate) fn attempt_failed(&self, step: &str, attempt: u32, error: ActionError) -> ActionError {
        self.state().attempt_failed(step, attempt, error)
    }

    /// Records that an attempt with an effect was under way when the process before this one stopped.
    pub(crate) fn attempt_interrupted(&self, step: &str, attempt: u32) {
        let message = "the daemon stopped while it waited for it".to_owned();
        let attempt =
            LostAttempt { attempt, kind: ErrorKind::Interrupted, message, status: None, request_id: None };
        self.state()
            .lost
            .entry(step.to_owned())
            .or_insert_with(|| Lost { attempt: Box::new(attempt), since: 0 });
    }

    /// Whether it waits for a try that begins after `now`, so that a stop interrupts no step.
    pub(crate) fn waits_beyond(&self, now: MonotonicTime) -> bool {
        let state = self.state();
        let tries = state.tries.values().map(|tries| tries.next_at);
        tries.chain([state.retry_at]).flatten().any(|at| at > now)
    }

    /// The tries that the step has behind it.
    pub(crate) fn tries(&self, step: &str) -> Tries {
        if !self.keeps_outcomes {
            return Tries::default();
        }
        self.state().tries.get(step).copied().unwrap_or_default()
    }

    /// Records that a try failed and another follows. Failures inside a block are forgotten with it.
    /// The next begins at `next_at`.
    pub(crate) fn step_retry(
        &self,
        automation: &Automation,
        step: &str,
        event: Event,
        next_at: MonotonicTime,
    ) {
        let Event::StepRetry { attempt, .. } = event else { return };
        let mut state = self.state();
        state.interrupted.remove(step);
        state.tries.insert(step.to_owned(), Tries { failed: attempt, next_at: Some(next_at) });
        if !state.finished.is_empty() || !state.step_starts.is_empty() {
            state.forget_failures_inside(step, &Inside::of_all(automation));
        }
        state.record(&*self.clock, event);
    }

    /// Records that the whole execution is tried again: what succeeded stays, what failed is forgotten.
    /// The next try begins at `next_at`.
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
                error.after_lost(lost.attempt.attempt + lost.since, Some(lost.attempt.clone()))
            }
            None => {
                self.remember_lost(step, attempt, &error);
                error
            }
        }
    }

    /// Takes over from the log that an attempt at a step failed with this error.
    pub(super) fn replay_failure(&mut self, step: &str, attempt: u32, error: &ActionError) {
        match self.lost.get_mut(step) {
            Some(lost) => lost.since += 1,
            None => self.remember_lost(step, attempt, error),
        }
    }

    /// The same of the last attempt of a step, which failed for good.
    pub(super) fn replay_last_failure(&mut self, step: &str, error: &ActionError) {
        let attempt = self.tries.get(step).map_or(1, |tries| tries.failed + 1);
        self.replay_failure(step, attempt, error);
    }

    /// Takes over from the log that a step ended. If its `onError` list began, its failure has been taken over before.
    pub(super) fn replay_end(&mut self, step: &str, outcome: &StepOutcome) {
        if let (StepOutcome::Failed { error, .. }, None) = (outcome, self.failing.get(step)) {
            self.replay_last_failure(step, error);
        }
        self.settle(step, outcome);
    }

    fn remember_lost(&mut self, step: &str, attempt: u32, error: &ActionError) {
        // An error of a step inside belongs to that step, which is tried again by itself.
        let own = error.step.as_deref().is_none_or(|id| id == split_turns(step).0);
        if let Some(attempt) = error.as_lost(attempt).filter(|_| own) {
            self.lost.insert(step.to_owned(), Lost { attempt, since: 0 });
        }
    }

    /// Forgets the lost attempt of a step that will not be tried again.
    pub(super) fn settle(&mut self, step: &str, outcome: &StepOutcome) {
        let is_open = matches!(outcome, StepOutcome::Failed { handled: None, .. });
        if !is_open && !self.lost.is_empty() {
            self.lost.remove(step);
        }
    }

    /// What succeeded stays, what failed is forgotten.
    pub(super) fn retry(&mut self, attempt: u32, next_at: MonotonicTime) {
        self.attempt = attempt + 1;
        self.retry_at = Some(next_at);
        self.tries.clear();
        self.failing.clear();
        self.interrupted.clear();
        self.step_starts.clear();
        self.pauses.clear(next_at);
        self.finished.retain(|_, outcome| !matches!(outcome, StepOutcome::Failed { handled: None, .. }));
    }

    /// Forgets what failed inside a step, since it is tried again.
    pub(super) fn forget_failures_inside(&mut self, step: &str, inside: &Inside) {
        let is_inside = inside.of(step);
        self.step_starts.retain(|key, _| key != step && !is_inside(key));
        self.finished.retain(|key, outcome| {
            !(matches!(outcome, StepOutcome::Failed { handled: None, .. }) && is_inside(key))
        });
    }
}

/// Which steps are inside which.
pub(crate) struct Inside(HashMap<String, HashSet<String>>);

impl Inside {
    /// For each step that holds others, the ids of all of those.
    pub(crate) fn of_all(automation: &Automation) -> Self {
        let mut found = HashMap::new();
        automation.walk(&mut |step| {
            let mut inner = HashSet::new();
            for list in step.verb.lists() {
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

    /// Says of a step whether it is inside `step`, in the same turns of the loops around that.
    pub(crate) fn of<'a>(&'a self, step: &'a str) -> impl Fn(&str) -> bool + 'a {
        let (id, turns) = split_turns(step);
        let inner = self.0.get(id);
        move |key| {
            let (key_id, key_turns) = split_turns(key);
            // What a loop keeps of itself for one of its turns has a mark: `poll[2]#delay`.
            let own = key_id == id && key_turns.contains('#');
            (own || inner.is_some_and(|inner| inner.contains(key_id))) && key_turns.starts_with(turns)
        }
    }
}

/// `copy[2][0]` is the step `copy` in the turns `[2][0]`.
fn split_turns(key: &str) -> (&str, &str) {
    key.split_at(key.find('[').unwrap_or(key.len()))
}
