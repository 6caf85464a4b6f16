//! Checkpoints: how far the calls of steps that take several requests have come.

use model::action::Effect;
use model::execution::Event;
use value::Value;

use super::{Journal, State};
use crate::clock::MonotonicTime;

/// The checkpoint of a call.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    /// The data, as stored.
    pub(crate) data: Value,
    /// The time of its record.
    pub(crate) at: MonotonicTime,
}

impl Journal {
    /// The checkpoint of the call that the step makes; `None` if the call begins.
    pub(crate) fn checkpoint(&self, step: &str) -> Option<Checkpoint> {
        self.state().checkpoints.get(step).cloned()
    }

    /// The number of times that the call of the step has begun anew.
    pub(crate) fn begun_anew(&self, step: &str) -> u32 {
        self.state().begun_anew.get(step).copied().unwrap_or_default()
    }

    /// Records a checkpoint, or with null that another attempt begins anew. The first request of the call counts as ended: it is not
    /// interrupted by a later stop.
    pub(crate) fn record_checkpoint(&self, step: &str, data: Value) {
        let mut state = self.state();
        let at = self.clock.now();
        let steady = MonotonicTime::from_wall(at, self.clock.wall_offset());
        state.reach(step, data.clone(), steady);
        state.watermark.record(Effect::Write);
        state.watermark.call_recorded(step);
        let step = [step, Event::CHECKPOINT].concat();
        state.record(&*self.clock, Event::StepContextRecorded { at, step, state: data });
    }
}

impl State {
    /// Sets the checkpoint of a step, or removes it if `data` is null.
    pub(super) fn reach(&mut self, step: &str, data: Value, at: MonotonicTime) {
        self.interrupted.remove(step);
        if data.is_null() {
            self.checkpoints.remove(step);
            let times = self.begun_anew.entry(step.to_owned()).or_default();
            *times = times.saturating_add(1);
        } else {
            self.checkpoints.insert(step.to_owned(), Checkpoint { data, at });
        }
    }

    /// Removes the checkpoint of a step that has ended. Most executions have none.
    pub(super) fn forget_checkpoint(&mut self, step: &str) {
        if !self.checkpoints.is_empty() {
            self.checkpoints.remove(step);
        }
    }
}
