//! Counters and histograms that the crates of the engine keep and the metrics endpoint reads.
//!
//! An observation costs one or three relaxed atomic additions: no lock, no allocation. Their names, labels and text form
//! belong to the crate `server`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows while the process runs.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The present value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The distribution of a quantity over fixed buckets.
///
/// The unit of the observed integers is that of the bounds: microseconds for durations.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One count for each bound, and one for everything above the last.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// Upper bounds of work that takes from a tenth of a millisecond to a minute, in microseconds.
pub const WORK_BOUNDS: &[u64] = &[
    100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];

/// Upper bounds of waits that take from a millisecond to an hour, in microseconds.
pub const WAIT_BOUNDS: &[u64] = &[
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    3_600_000_000,
];

impl Histogram {
    /// An empty histogram. `bounds` are the inclusive upper bounds of its buckets, in ascending order.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts one observation.
    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts one duration, in microseconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// The present counts. They are read one after the other: an observation made meanwhile may be in some of them only.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// The counts of a [`Histogram`] at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// The inclusive upper bounds of the buckets.
    pub bounds: &'static [u64],
    /// The observations of each bucket alone, and of everything above the last bound.
    pub counts: Vec<u64>,
    /// The sum of all observations.
    pub sum: u64,
}

impl HistogramSnapshot {
    /// The number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_larger_values_to_the_overflow_bucket() {
        let histogram = Histogram::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101, 5_000] {
            histogram.observe(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.counts, [2, 2, 2]);
        assert_eq!((snapshot.count(), snapshot.sum), (6, 5_222));
    }

    #[test]
    fn histogram_bounds_ascend() {
        for bounds in [WORK_BOUNDS, WAIT_BOUNDS] {
            assert!(bounds.is_sorted_by(|lower, upper| lower < upper), "{bounds:?}");
        }
    }
}
