//! Steps whose begin is recorded, since their `finally` or `undo` depends on it, and those whose `finally` has begun.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::action::Effect;
use model::automation::Automation;
use model::execution::{Event, StepOutcome};

use super::retries::split_turns;
use super::{Journal, State};

/// The properties of an automation that decide what its journal keeps.
#[derive(Default)]
pub(super) struct Traits {
    /// True if the whole execution, or a step with lists, has retries.
    pub(super) retries_lists: bool,
    /// True if a step has an `undo`.
    pub(super) has_undo: bool,
    /// The steps with a `finally`.
    closing: HashSet<Arc<str>>,
    /// The steps inside the `finally` of a step: their waits outlast the end of the execution's steps.
    inside_finally: HashSet<Arc<str>>,
}

impl Traits {
    pub(super) fn of(automation: &Automation) -> Self {
        let mut traits = Self { retries_lists: automation.retry.max > 0, ..Self::default() };
        automation.walk(&mut |step| {
            traits.has_undo |= step.undo.is_some();
            traits.retries_lists |= step.retry.as_ref().is_some_and(|retry| retry.max() > 0)
                && !step.verb.nested_blocks().is_empty();
            if let Some(block) = &step.finally {
                traits.closing.insert(step.id.clone());
                block.walk(&mut |inner| {
                    traits.inside_finally.insert(inner.id.clone());
                });
            }
        });
        traits
    }

    /// True if the step is inside the `finally` of another.
    pub(super) fn is_in_finally(&self, step: &str) -> bool {
        !self.inside_finally.is_empty() && self.inside_finally.contains(split_turns(step).0)
    }
}

/// The steps that have begun, by key.
#[derive(Default)]
pub(super) struct Begun {
    /// All begun steps, also after their end.
    steps: HashSet<String>,
    /// Steps that have begun more than once, since an attempt of the execution or of a step around them was repeated.
    again: HashSet<String>,
    /// Steps with a `finally` that has not ended.
    open: HashSet<String>,
    /// The outcomes of steps whose `finally` has begun.
    closing: HashMap<String, StepOutcome>,
    /// The ends of lists side by side that were cut off.
    cuts: HashMap<String, StepOutcome>,
}

impl Journal {
    /// Records that a step begins whose `finally` or `undo` depends on it, unless that is recorded. Written with the next commit, and
    /// so before any effect of the step.
    pub(crate) fn begin(&self, step: &str) {
        let mut state = self.state();
        let is_closed = self.traits.closing.contains(split_turns(step).0);
        // Each begin of a step with a `finally` counts, since it runs that list once more.
        let known = if is_closed { &state.begun.open } else { &state.begun.steps };
        if known.contains(step) {
            return;
        }
        state.begin(step, &self.traits);
        state.watermark.record(Effect::Write);
        let step = [step, Event::BEGUN].concat();
        let at = self.clock.now();
        state.record(&*self.clock, Event::StepContextRecorded { at, step, state: value::Value::Null });
    }

    /// True if the start of the step is recorded, in any attempt of the execution.
    pub(crate) fn has_begun(&self, step: &str) -> bool {
        self.state().begun.steps.contains(step)
    }

    /// True if the start of the step is recorded more than once.
    pub(crate) fn begins_again(&self, step: &str) -> bool {
        self.state().begun.again.contains(step)
    }

    /// True if the step has begun and its `finally` has not ended.
    pub(crate) fn is_open(&self, step: &str) -> bool {
        self.state().begun.open.contains(step)
    }

    /// True if such a step has begun and its `finally` has not ended.
    pub(crate) fn any_open(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.state().begun.open.iter().any(|step| is_such(step))
    }

    /// True if such a step with a `finally` has begun, and its `finally` has not begun.
    pub(crate) fn any_unclosed(&self, is_such: impl Fn(&str) -> bool) -> bool {
        let begun = &self.state().begun;
        begun.open.iter().any(|step| is_such(step) && !begun.closing.contains_key(step))
    }

    /// True if a step of the automation has a `finally`.
    pub(crate) fn closes_steps(&self) -> bool {
        !self.traits.closing.is_empty()
    }

    /// The outcome of a step whose `finally` has begun.
    pub(crate) fn closing_outcome(&self, step: &str) -> Option<StepOutcome> {
        if !self.closes_steps() {
            return None;
        }
        self.state().begun.closing.get(step).cloned()
    }

    /// The end of lists side by side that were cut off.
    pub(crate) fn cut_outcome(&self, lists: &str) -> Option<StepOutcome> {
        self.state().begun.cuts.get(lists).cloned()
    }

    /// Records that lists side by side are cut off, before the first `finally` in them. No step in them starts from then on.
    pub(crate) fn cut(&self, lists: &str, outcome: StepOutcome) {
        let mut state = self.state();
        state.begun.cuts.insert(lists.to_owned(), outcome.clone());
        let (at, step) = (self.clock.now(), [lists, Event::CUT].concat());
        state.record(&*self.clock, Event::StepClosing { at, step, outcome });
    }

    /// Records the outcome of a step before its `finally` begins.
    pub(crate) fn step_closing(&self, step: &str, outcome: &StepOutcome) {
        let mut state = self.state();
        self.end_pause(&mut state, step);
        state.watermark.record(Effect::Write);
        state.watermark.call_recorded(step);
        state.events.step_ended(step, outcome);
        state.begun.closing.insert(step.to_owned(), outcome.clone());
        let (at, step, outcome) = (self.clock.now(), step.to_owned(), outcome.clone());
        state.record(&*self.clock, Event::StepClosing { at, step, outcome });
    }
}

impl State {
    /// Notes that a step has begun, at its position in the order in which steps are undone.
    pub(super) fn begin(&mut self, step: &str, traits: &Traits) {
        if traits.closing.contains(split_turns(step).0) {
            self.begun.open.insert(step.to_owned());
        }
        if !self.begun.steps.insert(step.to_owned()) {
            self.begun.again.insert(step.to_owned());
        }
        self.note_finish_order(step, traits.has_undo);
    }

    /// Notes that the `finally` of a step has begun, or that lists side by side were cut off. Returns false for such lists.
    pub(super) fn closes(&mut self, step: &str, outcome: &StepOutcome) -> bool {
        let lists = step.strip_suffix(Event::CUT);
        let outcomes = if lists.is_some() { &mut self.begun.cuts } else { &mut self.begun.closing };
        outcomes.insert(lists.unwrap_or(step).to_owned(), outcome.clone());
        lists.is_none()
    }

    /// Forgets the cuts of lists that are repeated.
    pub(super) fn forget_cuts(&mut self, is_repeated: impl Fn(&str) -> bool) {
        self.begun.cuts.retain(|lists, _| !is_repeated(lists));
    }

    /// Notes that a step has ended.
    pub(super) fn close_ended(&mut self, step: &str) {
        if !self.begun.open.is_empty() {
            self.begun.open.remove(step);
            self.begun.closing.remove(step);
        }
    }

    /// True if no step with a `finally` is open.
    pub(super) fn has_none_open(&self) -> bool {
        self.begun.open.is_empty()
    }
}
