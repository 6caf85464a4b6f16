//! Calls of a batch: each is an isolated run, but later ones may read results of earlier ones, and no call starts after one
//! without a result.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::isolate::Run;
use crate::protocol::Request;

/// The time after the start of a sequence during which replies do not wake the pool; results of slower code reach it while
/// the rest runs.
const QUIET: Duration = Duration::from_millis(2);

/// The progress of a sequence of calls.
#[derive(Default)]
pub(super) struct Sequence {
    began: Option<Instant>,
    /// The results of the calls, as JSON, if the code can read them unchanged: bytes and large integers cannot be.
    results: Vec<Option<Bytes>>,
    must_end: bool,
}

impl Sequence {
    /// The earlier results that a call reads; `None` if it must not start.
    pub(super) fn begin(&mut self, request: &Request, now: Instant) -> Option<Vec<Bytes>> {
        let is_late = match (request.head.follows, self.began) {
            (Some(within), Some(began)) => now.duration_since(began) >= within,
            (Some(_), None) => true,
            (None, _) => {
                *self = Self { began: Some(now), ..Self::default() };
                false
            }
        };
        let given = request.earlier.iter().map(|place| self.results.get(*place)?.clone());
        let given: Option<Vec<Bytes>> = given.collect();
        self.must_end |= is_late || given.is_none();
        given.filter(|_| !self.must_end)
    }

    /// Records the end of a call; `None` if it could not start.
    pub(super) fn end(&mut self, run: Option<&Run>) {
        match run {
            Some(Run::Succeeded(given)) => {
                self.results.push((!given.has_marked).then(|| given.result.clone()));
            }
            Some(Run::Failed(_)) | None => self.must_end = true,
        }
    }

    /// True if the pool must learn of the end of this call immediately.
    pub(super) fn must_wake_pool(&self, request: &Request, now: Instant) -> bool {
        let is_late = self.began.is_none_or(|began| now.duration_since(began) >= QUIET);
        !request.head.is_followed || self.must_end || is_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_wake_the_pool_after_the_quiet_time_and_no_call_starts_too_late() {
        let together = Duration::from_millis(20);
        let (first, mut next) = (Request::for_module("1"), Request::for_module("2"));
        next.head.follows = Some(together);
        next.head.is_followed = true;
        let (began, moment) = (Instant::now(), Duration::from_nanos(1));
        let mut sequence = Sequence::default();
        assert!(sequence.begin(&first, began).is_some());
        assert!(!sequence.must_wake_pool(&next, began + QUIET - moment));
        assert!(sequence.must_wake_pool(&next, began + QUIET));
        assert!(sequence.begin(&next, began + together - moment).is_some());
        assert!(sequence.begin(&next, began + together).is_none());
    }
}
