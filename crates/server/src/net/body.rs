//! Reading a request's body: no larger, no slower, and no more of them at one time than allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Duration, Instant, sleep_until};

use super::Refusal;
use crate::options::Deadlines;

/// The bytes of bodies that may be in memory at one time.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes) })
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// A body, counted against the budget for as long as this is held.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Bytes,
    budget: Arc<Budget>,
    counted: usize,
}

impl Held {
    fn nothing(budget: &Arc<Budget>) -> Self {
        Self { bytes: Bytes::new(), budget: Arc::clone(budget), counted: 0 }
    }

    /// The bytes, which are shared and not copied.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    fn count(&mut self, bytes: usize) -> Result<(), Refusal> {
        if !self.budget.take(bytes) {
            return Err(Refusal::out_of_memory());
        }
        self.counted += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.counted, Ordering::Relaxed);
    }
}

/// Reads a whole body of at most `limit` bytes. A body that says it is larger is refused before any of it is read; the
/// peer that asked with `Expect: 100-continue` is then never told to go on.
pub(crate) async fn read(
    mut body: Incoming,
    limit: usize,
    budget: &Arc<Budget>,
    deadlines: &Deadlines,
) -> Result<Held, Refusal> {
    let mut held = Held::nothing(budget);
    if body.is_end_stream() {
        return Ok(held);
    }
    let expected = body.size_hint().exact();
    if expected.is_some_and(|expected| expected > limit as u64) {
        return Err(Refusal::too_large(limit));
    }
    let pace = Pace { started: Instant::now(), deadlines };
    let late = sleep_until(pace.deadline(0));
    tokio::pin!(late);
    let mut joined = BytesMut::new();
    while !body.is_end_stream() {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = &mut late => return Err(Refusal::slow_body()),
        };
        let Some(frame) = frame else { break };
        // An error here is a peer that went away or chunks that make no sense: there is nobody to tell much.
        let frame = frame.map_err(|_| Refusal::broken_body())?;
        // Trailers say nothing that a webhook could use.
        let Ok(data) = frame.into_data() else { continue };
        if held.counted + data.len() > limit {
            return Err(Refusal::too_large(limit));
        }
        held.count(data.len())?;
        join(&mut held.bytes, &mut joined, data, expected);
        if !body.is_end_stream() {
            late.as_mut().reset(pace.deadline(held.counted));
        }
    }
    if !joined.is_empty() {
        held.bytes = joined.freeze();
    }
    Ok(held)
}

/// The first piece stays as it is; only a body of several pieces is copied together.
fn join(first: &mut Bytes, joined: &mut BytesMut, data: Bytes, expected: Option<u64>) {
    if joined.is_empty() && first.is_empty() {
        *first = data;
        return;
    }
    if joined.is_empty() {
        let expected = expected.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        joined.reserve(expected.max(first.len() + data.len()));
        joined.extend_from_slice(&std::mem::take(first));
    }
    joined.extend_from_slice(&data);
}

/// When a body is too slow.
struct Pace<'d> {
    started: Instant,
    deadlines: &'d Deadlines,
}

impl Pace<'_> {
    /// The instant by which more must have come than these bytes: each buys the time that it takes at the least pace.
    fn deadline(&self, received: usize) -> Instant {
        let Deadlines { body, body_grace, body_pace, .. } = *self.deadlines;
        let bought = Duration::from_secs_f64(received as f64 / f64::from(body_pace.max(1)));
        self.started + body.min(body_grace.saturating_add(bought))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_given_back_when_the_body_goes() {
        let budget = Budget::new(10);
        let mut held = Held::nothing(&budget);
        assert!(held.count(8).is_ok());
        assert!(Held::nothing(&budget).count(3).is_err());
        drop(held);
        assert!(Held::nothing(&budget).count(10).is_ok());
    }

    #[test]
    fn a_body_in_one_piece_is_not_copied() {
        let data = Bytes::from(vec![1; 100]);
        let (mut first, mut joined) = (Bytes::new(), BytesMut::new());
        join(&mut first, &mut joined, data.clone(), Some(100));
        assert_eq!(first.as_ptr(), data.as_ptr());
        join(&mut first, &mut joined, Bytes::from_static(b"ab"), Some(102));
        assert_eq!((joined.len(), first.len()), (102, 0));
    }

    #[tokio::test]
    async fn each_byte_buys_time_at_the_least_pace_up_to_the_deadline_of_the_whole() {
        let deadlines = Deadlines::default();
        let pace = Pace { started: Instant::now(), deadlines: &deadlines };
        let at = |received| (pace.deadline(received) - pace.started).as_secs_f64();
        assert_eq!([at(0), at(1024), at(10 << 10), at(1 << 20)], [5.0, 6.0, 15.0, 30.0]);
    }
}
