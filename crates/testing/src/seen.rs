//! What is seen of an execution by its events: how each step ended, which branches were taken, how many turns were made.

use std::collections::{BTreeMap, BTreeSet};

use model::action::ActionError;
use model::automation::{Automation, Block, Runs, Step};
use model::execution::{Event, Outcome, StepOutcome};
use model::trial::StepEnding;
use model::value::{Map, Value};

/// The steps of an execution, by their ids with the turns around them.
pub(super) struct Seen<'a> {
    steps: BTreeMap<&'a str, SeenStep<'a>>,
}

/// What is seen of one step, in one turn of the loops around it.
#[derive(Clone, Copy, Default)]
pub(super) struct SeenStep<'a> {
    /// How it ended, if it did.
    pub(super) outcome: Option<&'a StepOutcome>,
    /// How many of its tries failed and were followed by another.
    pub(super) retries: u32,
    /// Why it failed for good, where its `onError` list has begun.
    failure: Option<&'a ActionError>,
    /// How often it failed for good, other tries of the whole execution among them.
    pub(super) failures: u32,
    /// How often its guard let it through.
    pub(super) runs: u32,
    /// How often its guard kept it back.
    pub(super) skips: u32,
}

impl<'a> Seen<'a> {
    pub(super) fn of(events: &'a [Event]) -> Self {
        let mut steps: BTreeMap<&str, SeenStep<'_>> = BTreeMap::new();
        for event in events {
            match event {
                Event::StepStarted { step, .. } => {
                    steps.entry(step).or_default();
                }
                Event::StepRetry { step, .. } => steps.entry(step).or_default().retries += 1,
                Event::StepFailed { step, error, .. } => {
                    let seen = steps.entry(step).or_default();
                    (seen.failures, seen.failure) = (seen.failures + 1, Some(error));
                }
                // What failed begins anew.
                Event::Retried { .. } => steps.values_mut().for_each(|seen| seen.failure = None),
                Event::StepFinished { step, outcome, .. } => {
                    let seen = steps.entry(step).or_default();
                    match outcome {
                        StepOutcome::Skipped => seen.skips += 1,
                        StepOutcome::Failed { .. } => {
                            (seen.failures, seen.runs) = (seen.failures + 1, seen.runs + 1)
                        }
                        _ => seen.runs += 1,
                    }
                    seen.outcome = Some(outcome);
                }
                _ => {}
            }
        }
        Self { steps }
    }

    /// A step by its id with the turns around it.
    pub(super) fn step(&self, key: &str) -> Option<SeenStep<'a>> {
        self.steps.get(key).copied()
    }

    /// Every step that was seen, each with the turns around it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, SeenStep<'a>)> + '_ {
        self.steps.iter().map(|(key, step)| (*key, *step))
    }

    /// The keys of the step with this id, one for each turn of the loops around it.
    pub(super) fn keys_of(&self, id: &str) -> Vec<&'a str> {
        self.steps.keys().copied().filter(|key| split(key).0 == id).collect()
    }

    /// Whether anything of a list of steps was reached in these turns.
    pub(super) fn reached(&self, block: &Block, turns: &str) -> bool {
        let mut reached = false;
        block.walk(&mut |step| {
            reached |= self.keys_of(&step.id).iter().any(|key| split(key).1.starts_with(turns))
        });
        reached
    }

    /// Which of the lists of a step that branches ran, in these turns.
    pub(super) fn branch(&self, step: &Step, turns: &str) -> Option<String> {
        let lists = step.verb.lists().into_iter();
        let mut cases = lists.filter(|list| matches!(list.runs, Runs::Case { .. })).peekable();
        cases.peek()?;
        let taken = cases.find(|list| self.reached(list.block, turns));
        Some(taken.and_then(|list| list.name).unwrap_or("none").to_owned())
    }

    /// How many turns a loop made, in these turns of the loops around it.
    pub(super) fn turns(&self, step: &Step, turns: &str) -> Option<usize> {
        let lists = step.verb.lists().into_iter();
        let mut loops = lists.filter(|list| matches!(list.runs, Runs::Turns { .. })).peekable();
        loops.peek()?;
        let mut indices = BTreeSet::new();
        for list in loops {
            list.block.walk(&mut |inner| {
                let keys = self.keys_of(&inner.id);
                indices.extend(keys.iter().filter_map(|key| {
                    let (index, _) = split(key).1.strip_prefix(turns)?.strip_prefix('[')?.split_once(']')?;
                    index.parse::<usize>().ok()
                }));
            });
        }
        Some(indices.len())
    }
}

impl<'a> SeenStep<'a> {
    /// How it ended, in the words of a test; `None` if it has not.
    pub(super) fn ending(self) -> Option<StepEnding> {
        Some(match self.outcome? {
            StepOutcome::Skipped => StepEnding::Skipped,
            StepOutcome::Failed { .. } => StepEnding::Failed,
            // Its `onError` list has led out of it.
            StepOutcome::Left { .. } if self.failure.is_some() => StepEnding::Failed,
            _ => StepEnding::Succeeded,
        })
    }

    /// Its result: what others read as `steps.x.results`.
    pub(super) fn result(self) -> Value {
        match self.outcome {
            Some(StepOutcome::Succeeded { result } | StepOutcome::Failed { handled: Some(result), .. }) => {
                result.clone()
            }
            _ => Value::Null,
        }
    }

    /// Its error, where it failed.
    pub(super) fn error(self) -> Option<&'a ActionError> {
        match self.outcome {
            Some(StepOutcome::Failed { error, .. }) => Some(error),
            Some(StepOutcome::Left { .. }) => self.failure,
            _ => None,
        }
    }

    /// What conditions read of it.
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

/// How an execution ended, if it did.
pub(super) fn outcome(events: &[Event]) -> Option<&Outcome> {
    match events.last() {
        Some(Event::Finished { outcome, .. }) => Some(outcome),
        _ => None,
    }
}

/// The step of an Automation with this id.
pub(super) fn find<'a>(automation: &'a Automation, id: &str) -> Option<&'a Step> {
    let mut found = None;
    automation.walk(&mut |step| {
        if step.id.as_ref() == id {
            found = Some(step);
        }
    });
    found
}

/// `copy[2][0]` is the step `copy` in the turns `[2][0]`.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.split_at(key.find('[').unwrap_or(key.len()))
}
