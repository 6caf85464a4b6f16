//! Calls that were sent together: each is a run of its own, but the later ones may read what the earlier ones gave, and
//! none is begun after one that gave nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::cell::Run;
use crate::protocol::Request;

/// How long the pool is not woken for answers, from when the first call of a sequence was begun: it may as well have the results
/// of slower code while the rest of it runs.
const QUIET: Duration = Duration::from_millis(2);

/// Where a sequence of calls stands.
#[derive(Default)]
pub(super) struct Sequence {
    began: Option<Instant>,
    /// What each call gave, as JSON, where it can be read as it stands: bytes and large integers cannot.
    results: Vec<Option<Bytes>>,
    is_over: bool,
}

impl Sequence {
    /// What a call reads of the calls before it; none if it is not to be begun.
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
        self.is_over |= is_late || given.is_none();
        given.filter(|_| !self.is_over)
    }

    /// Takes note of how a call ended; `None` if it could not be begun.
    pub(super) fn end(&mut self, run: Option<&Run>) {
        match run {
            Some(Run::Clean(given)) => {
                self.results.push((!given.has_marked).then(|| given.result.clone()));
            }
            Some(Run::Faulty(_)) | None => self.is_over = true,
        }
    }

    /// Whether the pool is to hear of the end of this call at once.
    pub(super) fn is_told(&self, request: &Request, now: Instant) -> bool {
        let is_late = self.began.is_none_or(|began| now.duration_since(began) >= QUIET);
        !request.head.is_followed || self.is_over || is_late
    }
}
