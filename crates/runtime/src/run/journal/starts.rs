//! The starts of steps: the time and the state that a step read stay the same after a restart.

use jiff::Timestamp;
use model::action::Effect;
use model::execution::{CallRecord, Event, Status};
use value::Value;

use super::Journal;
use crate::clock::MonotonicTime;

/// The start of a step, and the state that it read.
pub(super) struct StepStart {
    pub(super) at: Timestamp,
    pub(super) steady: MonotonicTime,
    pub(super) read: Value,
}

impl Journal {
    /// Records the start of a try with an outside effect, publishes it at once, and returns its time.
    pub(crate) fn step_started(&self, step: &str, attempt: u32) -> Timestamp {
        let at = self.clock.now();
        let event = Event::StepStarted { at, step: step.to_owned(), attempt };
        if self.is_watched() {
            self.publish(Status::Running, vec![event.clone()], Vec::new());
        }
        self.push(event);
        at
    }

    /// Records a call that the step made. It is written by the next commit.
    pub(crate) fn step_called(&self, step: &str, call: CallRecord) {
        self.push(Event::StepCalled { at: self.clock.now(), step: step.to_owned(), call });
    }

    /// True if a try of the step was in progress when the previous process stopped.
    pub(crate) fn was_interrupted(&self, step: &str) -> bool {
        self.resumed && self.state().interrupted.contains(step)
    }

    /// True if an earlier attempt of the step may have had its effect: the step was interrupted, or it, a step around it or the
    /// execution is tried again, which may have cut it off. Of steps in parallel branches, that is exact only for steps whose start
    /// is committed before their effect.
    pub(crate) fn may_have_begun(&self, step: &str) -> bool {
        let repeats = self.resumed && !self.has_passed();
        repeats
            || self.attempt() > 1
            || self.was_interrupted(step)
            || self.begins_again(step)
            // Steps elsewhere that are tried again cost a look-up only.
            || !self.state().tries.is_empty()
    }

    /// The start of the step, if it was recorded.
    pub(crate) fn started_at(&self, step: &str) -> Option<(Timestamp, MonotonicTime)> {
        self.state().step_starts.get(step).map(|start| (start.at, start.steady))
    }

    /// The state that the step read, if that was recorded.
    pub(crate) fn state_read(&self, step: &str) -> Option<Value> {
        self.state().step_starts.get(step).map(|start| start.read.clone()).filter(|state| !state.is_null())
    }

    /// Records the start of a step and the state that it read, before any outside effect that depends on them.
    pub(crate) fn record_start(&self, step: &str, at: Timestamp, read: Option<&Value>) {
        let mut state = self.state();
        let known = state.step_starts.get(step).is_some_and(|known| read.is_none() || !known.read.is_null());
        if known {
            return;
        }
        let read = read.cloned().unwrap_or_default();
        let steady = MonotonicTime::from_wall(at, self.clock.wall_offset());
        state.step_starts.insert(step.to_owned(), StepStart { at, steady, read: read.clone() });
        state.watermark.record(Effect::Write);
        state.record(&*self.clock, Event::StepContextRecorded { at, step: step.to_owned(), state: read });
    }
}
