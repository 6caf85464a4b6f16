//! Detects quiescence (no runnable task, no store call in flight) so that the test clock can advance.
//!
//! All tasks of a test's engine run on one thread. Before the thread parks, it signals that it is idle. If no store
//! call is in flight then, all tasks wait for the clock or for something that never happens. Tests therefore never
//! wait for real time, and the clock never advances too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use store::{Call, Error, Layer};
use tokio::sync::Notify;

/// Detector of quiescence. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Quiescence(Arc<State>);

#[derive(Default)]
struct State {
    /// Number of operations in flight on other threads.
    busy: AtomicUsize,
    idle: Notify,
}

impl Quiescence {
    /// Signals that the test's thread has no runnable task; called before it parks.
    pub(super) fn idle(&self) {
        if self.0.busy.load(Ordering::Acquire) == 0 {
            self.0.idle.notify_waiters();
        }
    }

    /// Waits until nothing is running. The caller is then the only runnable task.
    pub(super) async fn wait(&self) {
        self.0.idle.notified().await;
    }

    /// Marks an operation on another thread as in flight until the guard is dropped.
    pub(super) fn busy(&self) -> BusyGuard {
        self.0.busy.fetch_add(1, Ordering::AcqRel);
        BusyGuard(self.0.clone())
    }
}

/// Guard of an operation in flight on another thread.
pub(super) struct BusyGuard(Arc<State>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

#[async_trait]
impl Layer for Quiescence {
    type Guard = BusyGuard;

    /// Marks the call as in flight until its result arrives on this thread.
    async fn before(&self, _: Call<'_>) -> Result<BusyGuard, Error> {
        Ok(self.busy())
    }
}
