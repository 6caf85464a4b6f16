//! Counters of the writer, for the status page and the metrics endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::metric::{Counter, Histogram, WORK_BOUNDS};

use crate::Metrics;

/// Upper bounds of the number of writes in a commit.
const BATCH_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Counters that only the writer changes.
#[derive(Clone, Debug, Default)]
pub struct Counters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writes: Counter,
    commits: Counter,
    bytes: Counter,
    last_batch: AtomicU64,
    commit_ns: Counter,
    last_commit_ns: AtomicU64,
    slowest_commit_ns: AtomicU64,
    commit_durations: Histogram,
    batch_sizes: Histogram,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            writes: Counter::default(),
            commits: Counter::default(),
            bytes: Counter::default(),
            last_batch: AtomicU64::default(),
            commit_ns: Counter::default(),
            last_commit_ns: AtomicU64::default(),
            slowest_commit_ns: AtomicU64::default(),
            commit_durations: Histogram::new(WORK_BOUNDS),
            batch_sizes: Histogram::new(BATCH_BOUNDS),
        }
    }
}

impl Counters {
    /// Counts a commit that made `writes` writes of about `bytes` bytes durable.
    pub fn committed(&self, writes: usize, bytes: usize, took: Duration) {
        let inner = &*self.0;
        inner.commit_durations.observe_duration(took);
        let writes = u64::try_from(writes).unwrap_or(u64::MAX);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        inner.batch_sizes.observe(writes);
        inner.writes.add(writes);
        inner.commits.increment();
        inner.bytes.add(u64::try_from(bytes).unwrap_or(u64::MAX));
        inner.last_batch.store(writes, Ordering::Relaxed);
        inner.commit_ns.add(took);
        inner.last_commit_ns.store(took, Ordering::Relaxed);
        inner.slowest_commit_ns.fetch_max(took, Ordering::Relaxed);
    }

    /// Returns the counters, with the number of queued writes.
    pub fn read(&self, queued: usize) -> Metrics {
        let inner = &*self.0;
        let last = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Metrics {
            writes: inner.writes.get(),
            commits: inner.commits.get(),
            last_batch: last(&inner.last_batch),
            commit_time: Duration::from_nanos(inner.commit_ns.get()),
            last_commit_time: Duration::from_nanos(last(&inner.last_commit_ns)),
            slowest_commit_time: Duration::from_nanos(last(&inner.slowest_commit_ns)),
            queued: u64::try_from(queued).unwrap_or(u64::MAX),
            bytes: inner.bytes.get(),
            commit_durations: Some(inner.commit_durations.snapshot()),
            batch_sizes: Some(inner.batch_sizes.snapshot()),
        }
    }
}
