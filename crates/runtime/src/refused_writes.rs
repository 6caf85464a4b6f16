//! The growing pauses of executions that have left memory because the store refuses their writes: each repeats what was not recorded,
//! and would do so without end at full speed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Backoff, ExecutionId};

const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(60));

/// The pauses of each execution whose last write was refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedWrites(Mutex<HashMap<ExecutionId, Backoff>>);

impl RefusedWrites {
    /// Notes a refused write. Returns the pause before the execution is repeated, which doubles each time.
    pub(crate) fn pause(&self, id: ExecutionId) -> Duration {
        self.pauses().entry(id).or_insert(PAUSES).pause()
    }

    /// Returns true if the last write of an execution was refused.
    pub(crate) fn has(&self, id: ExecutionId) -> bool {
        self.pauses().contains_key(&id)
    }

    /// Notes that a run of an execution ended otherwise.
    pub(crate) fn forget(&self, id: ExecutionId) {
        self.pauses().remove(&id);
    }

    fn pauses(&self) -> MutexGuard<'_, HashMap<ExecutionId, Backoff>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_with_refused_writes_is_repeated_with_backoff() {
        let (refused, id) = (RefusedWrites::default(), ExecutionId::from_bytes([1; 16]));
        let pauses: Vec<u128> = (0..10).map(|_| refused.pause(id).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
        assert!(refused.has(id));
        refused.forget(id);
        assert!(!refused.has(id));
        assert_eq!(refused.pause(id).as_millis(), 250);
    }
}
