//! Derives the course of an execution from its events: step outcomes, branches taken, numbers of iterations.

use std::collections::{BTreeMap, BTreeSet};

use model::action::ActionError;
use model::automation::{Block, BlockKind, Step};
use model::execution::{Event, History, Outcome, StepHistory, StepOutcome, split_key};
use model::test_suite::StepEnding;
use value::{Map, Value};

/// Observed steps of an execution, in the order of their keys (id and iterations).
pub(super) struct ObservedSteps<'a> {
    steps: BTreeMap<&'a str, ObservedStep<'a>>,
}

/// Observed step, in one iteration of its loops.
#[derive(Clone, Copy)]
pub(super) struct ObservedStep<'a> {
    /// Outcome; `None` if it has not finished.
    pub(super) outcome: Option<&'a StepOutcome>,
    /// Number of failed attempts that were followed by a retry.
    pub(super) retries: u32,
    /// Final error, if the `onError` list has started.
    failure: Option<&'a ActionError>,
    /// Number of final failures, over all attempts of the execution.
    pub(super) failures: u32,
    /// Number of times its guard was true.
    pub(super) runs: u32,
    /// Number of times its guard was false.
    pub(super) skips: u32,
}

impl<'a> ObservedSteps<'a> {
    pub(super) fn from_events(events: &'a [Event]) -> Self {
        let history = History::new(events);
        let observed = history.steps().iter().map(|step| {
            let StepHistory { outcome, retries, failure, failures, runs, skips, .. } = *step;
            (step.key, ObservedStep { outcome, retries, failure, failures, runs, skips })
        });
        Self { steps: observed.collect() }
    }

    /// Returns a step by its key.
    pub(super) fn step(&self, key: &str) -> Option<ObservedStep<'a>> {
        self.steps.get(key).copied()
    }

    /// Iterates over all observed steps with their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, ObservedStep<'a>)> + '_ {
        self.steps.iter().map(|(key, step)| (*key, *step))
    }

    /// Returns the keys of the step with this id, one per iteration.
    pub(super) fn keys_of(&self, id: &str) -> Vec<&'a str> {
        self.steps.keys().copied().filter(|key| split_key(key).0 == id).collect()
    }

    /// Returns true if a step of the list was reached in these iterations.
    pub(super) fn reached(&self, block: &Block, turns: &str) -> bool {
        let mut reached = false;
        block.walk(&mut |step| {
            reached |= self.keys_of(&step.id).iter().any(|key| split_key(key).1.starts_with(turns))
        });
        reached
    }

    /// Returns the branch that a step took in these iterations, or `none`; `None` if the step has no branches.
    pub(super) fn branch(&self, step: &Step, turns: &str) -> Option<String> {
        let lists = step.verb.nested_blocks().into_iter();
        let mut cases = lists.filter(|list| matches!(list.kind, BlockKind::Case { .. })).peekable();
        cases.peek()?;
        let taken = cases.find(|list| self.reached(list.block, turns));
        Some(taken.and_then(|list| list.name).unwrap_or("none").to_owned())
    }

    /// Returns the number of iterations of a loop; `None` if the step is not a loop. `turns` are the outer
    /// iterations.
    pub(super) fn turns(&self, step: &Step, turns: &str) -> Option<usize> {
        let lists = step.verb.nested_blocks().into_iter();
        let mut loops = lists.filter(|list| matches!(list.kind, BlockKind::Loop { .. })).peekable();
        loops.peek()?;
        let mut indices = BTreeSet::new();
        for list in loops {
            list.block.walk(&mut |inner| {
                let keys = self.keys_of(&inner.id);
                indices.extend(keys.iter().filter_map(|key| {
                    let (index, _) =
                        split_key(key).1.strip_prefix(turns)?.strip_prefix('[')?.split_once(']')?;
                    index.parse::<usize>().ok()
                }));
            });
        }
        Some(indices.len())
    }
}

impl<'a> ObservedStep<'a> {
    /// Returns the ending in the terms of a test; `None` if the step has not finished.
    pub(super) fn ending(self) -> Option<StepEnding> {
        Some(match self.outcome? {
            StepOutcome::Skipped => StepEnding::Skipped,
            StepOutcome::Failed { .. } => StepEnding::Failed,
            StepOutcome::Jumped { by, .. } if by.cuts() => return None,
            // Its `onError` list left the step, as `break` does.
            StepOutcome::Jumped { .. } if self.failure.is_some() => StepEnding::Failed,
            _ => StepEnding::Succeeded,
        })
    }

    /// Returns the result, as `steps.x.results` reads it.
    pub(super) fn result(self) -> Value {
        match self.outcome {
            Some(StepOutcome::Succeeded { result } | StepOutcome::Failed { handled: Some(result), .. }) => {
                result.clone()
            }
            _ => Value::Null,
        }
    }

    /// Returns the error; `None` if the step did not fail.
    pub(super) fn error(self) -> Option<&'a ActionError> {
        match self.outcome {
            Some(StepOutcome::Failed { error, .. }) => Some(error),
            Some(StepOutcome::Jumped { .. }) => self.failure,
            _ => None,
        }
    }

    /// Returns the step as conditions of a test read it.
    pub(super) fn to_value(self) -> Value {
        let word =
            self.ending().and_then(|ending| StepEnding::ALL.into_iter().find(|(_, other)| *other == ending));
        Value::from(Map::from_iter([
            ("outcome", Value::from(word.map(|(word, _)| word))),
            ("result", self.result()),
            ("error", Value::from(self.error().map(ActionError::to_value))),
            ("tries", Value::from(self.retries + 1)),
        ]))
    }
}

/// Returns the outcome of an execution; `None` if it has not finished.
pub(super) fn outcome(events: &[Event]) -> Option<&Outcome> {
    match events.last() {
        Some(Event::Finished { outcome, .. }) => Some(outcome),
        _ => None,
    }
}
