//! The progress of the deliveries of events of the engine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::MonotonicTime;

/// The time between two executions of a group, and the window of the maximum number of starts.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// The progress of the deliveries of events of the engine, by the names of their rows. It is derived from the store after a start.
#[derive(Default)]
pub(crate) struct EngineDeliveries(Mutex<HashMap<String, Progress>>);

#[derive(Default)]
pub(super) struct Progress {
    /// The earliest next start of each group that has started one within [`PERIOD`].
    pub(super) next: HashMap<String, MonotonicTime>,
    /// The starts within [`PERIOD`], each with its time, oldest first.
    pub(super) started: Vec<MonotonicTime>,
    /// The failures in a row that have started an execution, by what failed.
    pub(super) streaks: HashMap<String, String>,
    /// Rows are not read before this time.
    pub(super) look_at: Option<MonotonicTime>,
    pub(super) is_read_back: bool,
}

impl EngineDeliveries {
    fn state(&self) -> MutexGuard<'_, HashMap<String, Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, name: &str) -> Progress {
        self.state().remove(name).unwrap_or_default()
    }

    pub(super) fn put(&self, name: &str, progress: Progress) {
        self.state().insert(name.to_owned(), progress);
    }
}

impl Progress {
    /// Forgets delivered events.
    pub(super) fn expire(&mut self, now: MonotonicTime) {
        self.next.retain(|_, at| *at > now);
        self.started.retain(|at| at.after(PERIOD) > now);
    }
}
