//! Counters of the writer, for the status page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Metrics;

/// Counters that only the writer changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    writes: AtomicU64,
    commits: AtomicU64,
    last_batch: AtomicU64,
    commit_ns: AtomicU64,
    last_commit_ns: AtomicU64,
    slowest_commit_ns: AtomicU64,
}

impl Counters {
    /// Counts a commit that made `writes` writes durable.
    pub(super) fn committed(&self, writes: usize, took: Duration) {
        let inner = &*self.0;
        let writes = u64::try_from(writes).unwrap_or(u64::MAX);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        inner.writes.fetch_add(writes, Ordering::Relaxed);
        inner.commits.fetch_add(1, Ordering::Relaxed);
        inner.last_batch.store(writes, Ordering::Relaxed);
        inner.commit_ns.fetch_add(took, Ordering::Relaxed);
        inner.last_commit_ns.store(took, Ordering::Relaxed);
        inner.slowest_commit_ns.fetch_max(took, Ordering::Relaxed);
    }

    /// Returns the counters, with the number of queued writes.
    pub(super) fn read(&self, queued: usize) -> Metrics {
        let inner = &*self.0;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = |counter: &AtomicU64| Duration::from_nanos(count(counter));
        Metrics {
            writes: count(&inner.writes),
            commits: count(&inner.commits),
            last_batch: count(&inner.last_batch),
            commit_time: time(&inner.commit_ns),
            last_commit_time: time(&inner.last_commit_ns),
            slowest_commit_time: time(&inner.slowest_commit_ns),
            queued: u64::try_from(queued).unwrap_or(u64::MAX),
        }
    }
}
