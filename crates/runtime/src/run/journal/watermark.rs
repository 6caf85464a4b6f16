//! The durability watermark of a log: which recorded effects the store has, and so which call may begin.

use std::collections::HashSet;

use model::action::Effect;

/// The recorded effects of an execution, and how far they are committed.
///
/// Recorded results with an outside effect are counted. Each mark is the count at some moment: a result is in the store once
/// `committed` has reached its count.
#[derive(Default)]
pub(super) struct Watermark {
    recorded: u64,
    /// The count at the last result that changed something outside.
    changed: u64,
    /// The count at the last recorded end of a call that may not be repeated.
    called: u64,
    committed: u64,
    /// The steps with a call under way that may not be repeated.
    calls: HashSet<String>,
    /// The strongest effect of the calls that have ended since the last write began.
    ended_calls: Effect,
}

impl Watermark {
    /// Counts a recorded result by its effect.
    pub(super) fn record(&mut self, effect: Effect) {
        if effect != Effect::Pure {
            self.recorded += 1;
        }
        if effect == Effect::Write {
            self.changed = self.recorded;
        }
    }

    /// Begins a write of everything that is recorded; returns the mark for [`Self::commit`].
    pub(super) fn begin_write(&mut self) -> u64 {
        self.ended_calls = Effect::Pure;
        self.recorded
    }

    /// Notes that a write up to this mark is durable.
    pub(super) fn commit(&mut self, mark: u64) {
        self.committed = mark;
    }

    /// The mark of everything that is recorded; `None` if it is committed.
    pub(super) fn missing(&self) -> Option<u64> {
        (self.committed < self.recorded).then_some(self.recorded)
    }

    /// True if everything up to a mark is committed.
    pub(super) fn has_reached(&self, mark: u64) -> bool {
        self.committed >= mark
    }

    /// The strongest effect whose result is recorded and not committed.
    pub(super) fn uncommitted(&self) -> Effect {
        if self.committed < self.changed {
            Effect::Write
        } else if self.committed < self.recorded {
            Effect::Read
        } else {
            Effect::Pure
        }
    }

    /// Notes that a call begins that may not be repeated.
    pub(super) fn call_begins(&mut self, step: &str) {
        self.calls.insert(step.to_owned());
    }

    /// True if the step has a call under way that may not be repeated.
    pub(super) fn is_calling(&self, step: &str) -> bool {
        self.calls.contains(step)
    }

    /// Notes that the end of a step's call is recorded. Most steps have none, and the check for an empty set is cheaper than a
    /// look-up.
    pub(super) fn call_recorded(&mut self, step: &str) {
        if !self.calls.is_empty() && self.calls.remove(step) {
            self.called = self.recorded;
        }
    }

    /// True if a call may have had an effect that the store does not have, so that a repetition of the execution would repeat it.
    pub(super) fn has_unstored_call(&self) -> bool {
        !self.calls.is_empty() || self.committed < self.called
    }

    /// Notes that a call has ended, so that its result is committed in the background.
    pub(super) fn call_ended(&mut self, effect: Effect) {
        self.ended_calls = self.ended_calls.max(effect);
    }

    /// The strongest effect of the calls that have ended since the last write began.
    pub(super) fn ended_calls(&self) -> Effect {
        self.ended_calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_effect_that_is_not_committed_counts() {
        let mut watermark = Watermark::default();
        for (effect, expected) in [
            (Effect::Pure, Effect::Pure),
            (Effect::Read, Effect::Read),
            (Effect::Write, Effect::Write),
            (Effect::Read, Effect::Write),
        ] {
            watermark.record(effect);
            assert_eq!(watermark.uncommitted(), expected);
        }
    }

    #[test]
    fn a_write_covers_what_was_recorded_when_it_began() {
        let mut watermark = Watermark::default();
        watermark.record(Effect::Write);
        let mark = watermark.begin_write();
        watermark.record(Effect::Read);
        assert!(!watermark.has_reached(mark));
        watermark.commit(mark);
        assert!(watermark.has_reached(mark));
        assert_eq!((watermark.uncommitted(), watermark.missing()), (Effect::Read, Some(2)));
        let mark = watermark.begin_write();
        watermark.commit(mark);
        assert_eq!((watermark.uncommitted(), watermark.missing()), (Effect::Pure, None));
    }

    #[test]
    fn a_call_is_stored_once_its_recorded_end_is_committed() {
        let mut watermark = Watermark::default();
        watermark.call_begins("a");
        assert!(watermark.is_calling("a") && watermark.has_unstored_call(), "it is under way");
        let early = watermark.begin_write();
        watermark.record(Effect::Write);
        watermark.call_recorded("a");
        watermark.commit(early);
        assert!(!watermark.is_calling("a") && watermark.has_unstored_call(), "its end is not committed");
        let mark = watermark.begin_write();
        watermark.commit(mark);
        assert!(!watermark.has_unstored_call());
        watermark.call_recorded("b");
        watermark.record(Effect::Read);
        assert!(!watermark.has_unstored_call(), "other steps have no such call");
    }

    #[test]
    fn a_write_settles_the_calls_that_ended_before_it_began() {
        let mut watermark = Watermark::default();
        watermark.call_ended(Effect::Write);
        watermark.call_ended(Effect::Read);
        assert_eq!(watermark.ended_calls(), Effect::Write);
        let mark = watermark.begin_write();
        watermark.call_ended(Effect::Read);
        watermark.commit(mark);
        assert_eq!(watermark.ended_calls(), Effect::Read, "it ended during the write");
    }
}
