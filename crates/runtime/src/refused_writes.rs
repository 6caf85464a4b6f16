//! The growing pauses of executions whose writes the store refuses for their content: each repeats what was not recorded, and would
//! do so without end at full speed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::ExecutionId;

/// The first and the longest pause.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);

/// The last pause of each execution whose last write was refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedWrites(Mutex<HashMap<ExecutionId, Duration>>);

impl RefusedWrites {
    /// Notes a refused write. Returns the pause before the execution is repeated, which doubles each time.
    pub(crate) fn pause(&self, id: ExecutionId) -> Duration {
        let mut pauses = self.pauses();
        let pause = pauses.get(&id).map_or(FIRST, |last| (*last * 2).min(LONGEST));
        pauses.insert(id, pause);
        pause
    }

    /// Notes that a run of an execution ended otherwise.
    pub(crate) fn forget(&self, id: ExecutionId) {
        self.pauses().remove(&id);
    }

    fn pauses(&self) -> MutexGuard<'_, HashMap<ExecutionId, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_whose_writes_are_refused_is_repeated_after_longer_and_longer_pauses() {
        let (refused, id) = (RefusedWrites::default(), ExecutionId::from_bytes([1; 16]));
        let pauses: Vec<u128> = (0..10).map(|_| refused.pause(id).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
        refused.forget(id);
        assert_eq!(refused.pause(id), FIRST);
    }
}
