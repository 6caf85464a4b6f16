//! Tracks how many branches of an execution are active and how many wait. While one is active, waiting branches sleep
//! in memory, so that they continue on time. When all of them wait, the execution can be suspended.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Counts the active branches of an execution. A block with parallel steps is not a branch itself.
#[derive(Default)]
pub(crate) struct Activity {
    busy: AtomicUsize,
    /// Number of active branches that wait for code.
    computing: AtomicUsize,
    /// Notified when the last active branch begins to wait.
    all_pause: Notify,
    /// Notified when a signal arrives.
    came: Notify,
}

/// Counts an active branch; dropping it ends the branch.
pub(super) struct Busy<'a>(&'a Activity);

/// Marks a branch as waiting for code until it is dropped.
pub(super) struct Computing<'a>(&'a Activity);

/// Marks a branch as waiting until it is dropped.
pub(super) struct Pausing<'a>(&'a Activity);

impl Activity {
    /// Starts a branch.
    pub(super) fn begin(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(self)
    }

    /// Marks a branch as waiting.
    pub(super) fn pause(&self) -> Pausing<'_> {
        self.one_less();
        Pausing(self)
    }

    /// Marks a branch as waiting for code.
    pub(super) fn compute(&self) -> Computing<'_> {
        self.computing.fetch_add(1, Ordering::AcqRel);
        Computing(self)
    }

    /// Returns true if a branch waits for code, which has no external effect and a short time limit.
    pub(crate) fn computes(&self) -> bool {
        self.computing.load(Ordering::Acquire) > 0
    }

    fn one_less(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_pause.notify_waiters();
        }
    }

    /// Returns true if no branch is active.
    pub(super) fn is_at_rest(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    /// Completes when the last active branch begins to wait.
    pub(super) fn all_pause(&self) -> Notified<'_> {
        self.all_pause.notified()
    }

    /// Completes when a signal arrives.
    pub(super) fn came(&self) -> Notified<'_> {
        self.came.notified()
    }

    /// Notifies waiting branches of a signal.
    pub(crate) fn note_came(&self) {
        self.came.notify_waiters();
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.one_less();
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.0.computing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_add(1, Ordering::AcqRel);
    }
}
