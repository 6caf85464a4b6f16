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
    all_waiting: Notify,
    /// Notified when a signal arrives.
    signal_arrived: Notify,
}

/// Counts an active branch; dropping it ends the branch.
pub(super) struct ActiveGuard<'a>(&'a Activity);

/// Marks a branch as waiting for code until it is dropped.
pub(super) struct CodeGuard<'a>(&'a Activity);

/// Marks a branch as waiting until it is dropped.
pub(super) struct WaitGuard<'a>(&'a Activity);

impl Activity {
    /// Starts a branch.
    pub(super) fn begin(&self) -> ActiveGuard<'_> {
        self.busy.fetch_add(1, Ordering::AcqRel);
        ActiveGuard(self)
    }

    /// Marks a branch as waiting.
    pub(super) fn pause(&self) -> WaitGuard<'_> {
        self.deactivate();
        WaitGuard(self)
    }

    /// Marks a branch as waiting for code.
    pub(super) fn compute(&self) -> CodeGuard<'_> {
        self.computing.fetch_add(1, Ordering::AcqRel);
        CodeGuard(self)
    }

    /// Returns true if a branch waits for code, which has no external effect and a short time limit.
    pub(crate) fn computes(&self) -> bool {
        self.computing.load(Ordering::Acquire) > 0
    }

    fn deactivate(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_waiting.notify_waiters();
        }
    }

    /// Returns true if no branch is active.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    /// Completes when the last active branch begins to wait.
    pub(super) fn all_waiting(&self) -> Notified<'_> {
        self.all_waiting.notified()
    }

    /// Completes when a signal arrives.
    pub(super) fn signal_arrived(&self) -> Notified<'_> {
        self.signal_arrived.notified()
    }

    /// Notifies waiting branches of a signal.
    pub(crate) fn notify_signal(&self) {
        self.signal_arrived.notify_waiters();
    }
}

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.deactivate();
    }
}

impl Drop for CodeGuard<'_> {
    fn drop(&mut self) {
        self.0.computing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_add(1, Ordering::AcqRel);
    }
}
