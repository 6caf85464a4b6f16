//! What of an execution does something, and what only pauses. As long as anything does something, the execution is in
//! memory, and what pauses beside it is slept through, so that it goes on in time. It rests once all of it pauses.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// How many ways through the steps of an execution do something. A list of steps side by side does nothing itself.
#[derive(Default)]
pub(crate) struct Activity {
    busy: AtomicUsize,
    /// How many of them wait for code.
    computing: AtomicUsize,
    /// Told when the last one comes to a pause.
    all_pause: Notify,
    /// Told when something came that a pause may wait for.
    came: Notify,
}

/// A way through steps, as long as this is held.
pub(super) struct Busy<'a>(&'a Activity);

/// A way that waits for code, as long as this is held.
pub(super) struct Computing<'a>(&'a Activity);

/// A way that does nothing, as long as this is held.
pub(super) struct Pausing<'a>(&'a Activity);

impl Activity {
    /// One more way.
    pub(super) fn begin(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(self)
    }

    /// One way less for some time.
    pub(super) fn pause(&self) -> Pausing<'_> {
        self.one_less();
        Pausing(self)
    }

    /// One way waits for code.
    pub(super) fn compute(&self) -> Computing<'_> {
        self.computing.fetch_add(1, Ordering::AcqRel);
        Computing(self)
    }

    /// Whether code is waited for: that changes nothing outside, and is over soon.
    pub(crate) fn computes(&self) -> bool {
        self.computing.load(Ordering::Acquire) > 0
    }

    fn one_less(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_pause.notify_waiters();
        }
    }

    /// Whether no way does anything.
    pub(super) fn is_at_rest(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    /// Comes when the last way comes to a pause.
    pub(super) fn all_pause(&self) -> Notified<'_> {
        self.all_pause.notified()
    }

    /// Comes when something came that a pause may wait for.
    pub(super) fn came(&self) -> Notified<'_> {
        self.came.notified()
    }

    /// Something came that a pause may wait for.
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
