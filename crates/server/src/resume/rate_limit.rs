//! The rate limit of each resume address: every request reads the execution's events.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use model::ExecutionId;

/// The average interval of requests, in milliseconds: ten a second.
const EVERY_MS: i64 = 100;
/// The burst after a quiet time.
const AT_ONCE: i64 = 50;
/// The most addresses that are tracked; each is dropped once it was quiet for five seconds.
const REMEMBERED: usize = 10_000;

/// The recent requests of each address.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    /// For each execution, the instant up to which its requests are spread out.
    until: Mutex<HashMap<ExecutionId, Timestamp>>,
}

impl RateLimit {
    /// True if a request may be answered now.
    pub(super) fn try_acquire(&self, id: ExecutionId, now: Timestamp) -> bool {
        let latest = now + SignedDuration::from_millis(EVERY_MS * AT_ONCE);
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= REMEMBERED {
            until.retain(|_, until| *until > now);
            if until.len() >= REMEMBERED {
                return false;
            }
        }
        // A clock that was set back must not lock anybody out.
        let spread = until.get(&id).copied().unwrap_or(now).clamp(now, latest);
        let next = spread + SignedDuration::from_millis(EVERY_MS);
        if next > latest {
            return false;
        }
        until.insert(id, next);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millisecond).expect("an instant")
    }

    #[test]
    fn after_a_burst_requests_are_limited_to_ten_per_second() {
        let (rate_limit, id) = (RateLimit::default(), ExecutionId::from_bytes([1; 16]));
        let burst = (0..60).filter(|_| rate_limit.try_acquire(id, at(0))).count();
        assert_eq!(burst, 50);
        let later = (1..=20).filter(|step| rate_limit.try_acquire(id, at(step * 50))).count();
        assert_eq!(later, 10);
        assert!(rate_limit.try_acquire(ExecutionId::from_bytes([2; 16]), at(0)), "others are not held up");
        assert!(rate_limit.try_acquire(id, at(60_000)));
    }

    #[test]
    fn a_clock_set_back_does_not_block_new_clients() {
        let (rate_limit, id) = (RateLimit::default(), ExecutionId::from_bytes([1; 16]));
        assert!(rate_limit.try_acquire(id, at(3_600_000)));
        assert!(!rate_limit.try_acquire(id, at(0)));
        let quiet = ExecutionId::from_bytes([3; 16]);
        assert!(rate_limit.try_acquire(quiet, at(0)));
    }

    #[test]
    fn the_number_of_rate_limited_executions_is_bounded() {
        let rate_limit = RateLimit::default();
        let id = |n: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            ExecutionId::from_bytes(bytes)
        };
        let admitted = (0..REMEMBERED + 5).filter(|n| rate_limit.try_acquire(id(*n), at(0))).count();
        assert_eq!(admitted, REMEMBERED);
        assert!(rate_limit.try_acquire(id(REMEMBERED), at(10_000)));
    }
}
