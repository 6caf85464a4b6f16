//! Executions that are read from the store when they are dispatched.

use jiff::SignedDuration;
use model::execution::{DelayReason, Event};

use crate::admission::backlog::Lane;
use crate::clock::{Clock, MonotonicTime};
use crate::metrics::QueueWaits;
use crate::run::ReplaySource;

/// An execution that is read from the store when it is dispatched.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(in crate::admission) source: ReplaySource,
    /// The wall-clock offset when its last event was recorded.
    pub(in crate::admission) wall_offset: SignedDuration,
    /// The memory for the data of its trigger, in bytes, if it has to wait for that; else 0.
    pub(in crate::admission) memory: usize,
    /// When the present wait began.
    pub(in crate::admission) since: MonotonicTime,
    /// Events that explain the history and are not stored yet: waits that have ended, an answer to the caller.
    pub(in crate::admission) notes: Vec<Event>,
    /// True if another node may run it: it has not started, and waits for no other execution.
    pub(in crate::admission) is_movable: bool,
    /// True if this process has accepted it with small data and it has not started: reading it needs no reservation.
    pub(in crate::admission) is_small: bool,
    /// The reason of a cancellation that the store has refused to record: it is cancelled when it runs again.
    pub(in crate::admission) cancel: Option<String>,
}

impl Queued {
    /// Creates an entry for an execution that has not started, or waits again before its first commit.
    pub(in crate::admission) fn new(wall_offset: SignedDuration, since: MonotonicTime) -> Self {
        Self {
            source: ReplaySource::ThisProcess,
            wall_offset,
            memory: 0,
            since,
            notes: Vec::new(),
            is_movable: false,
            is_small: false,
            cancel: None,
        }
    }

    pub(super) fn lane(&self) -> Lane {
        if self.memory > 0 { Lane::Memory } else { Lane::Slot }
    }

    /// The reason of its wait in the backlog.
    pub(super) fn reason(&self) -> DelayReason {
        if self.memory > 0 { DelayReason::Memory } else { DelayReason::Slot }
    }

    /// Ends the present wait, counts it, and notes it if it was long enough.
    pub(super) fn end_wait(&mut self, reason: DelayReason, clock: &dyn Clock, waits: &QueueWaits) {
        let now = clock.monotonic_now();
        let waited = now.since(std::mem::replace(&mut self.since, now));
        waits.observe(&reason, waited);
        if waited >= Event::MIN_WAITED {
            let ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            self.notes.push(Event::Waited { at: clock.now(), step: None, reason, ms });
        }
    }
}
