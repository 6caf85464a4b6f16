//! Medians, and times counted by their size so that percentiles of any number of them fit in a few kilobytes.

use std::time::Duration;

/// The buckets of each doubling of a time: a percentile is at most one part in this many too high.
const STEPS: u64 = 64;
/// Buckets for every `u64`.
const BUCKETS: usize = (64 - STEPS.trailing_zeros() as usize + 1) * STEPS as usize;

/// The middle of some numbers; of an even number of them, half-way between the two in the middle. 0 of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => values[middle],
        (_, middle) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Times, counted.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Box<[u32]>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), count: 0 }
    }
}

impl Histogram {
    /// Counts one.
    pub(crate) fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = &mut self.buckets[bucket(nanoseconds)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
    }

    /// Counts all of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket = bucket.saturating_add(*more);
        }
        self.count += other.count;
    }

    /// The number of counted times.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The least time that this share of all does not exceed: `0.5` is the median. Zero where none was counted.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        let rank = ((self.count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            below += u64::from(count);
            if below >= rank {
                return Duration::from_nanos(ceiling(index));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a number: itself while it is small, then its leading bits and how many follow.
fn bucket(number: u64) -> usize {
    let shift = number.max(1).ilog2().saturating_sub(STEPS.trailing_zeros());
    let index = u64::from(shift) * STEPS + (number >> shift);
    usize::try_from(index).unwrap_or(BUCKETS - 1).min(BUCKETS - 1)
}

/// The largest number in a bucket.
fn ceiling(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    let lead = u128::from(index % STEPS + STEPS + 1);
    u64::try_from((lead << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([7.0]), 7.0);
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn a_percentile_is_the_time_that_its_share_does_not_exceed() {
        let mut times = Histogram::default();
        (1..=100).for_each(|nanoseconds| times.add(Duration::from_nanos(nanoseconds)));
        let at = |share| times.percentile(share).as_nanos();
        assert_eq!((at(0.5), at(0.99), at(1.0), at(0.0)), (50, 99, 100, 1));
        assert_eq!(times.count(), 100);
    }

    #[test]
    fn one_slow_response_in_a_hundred_is_the_maximum_and_not_the_99th_percentile() {
        let mut times = Histogram::default();
        (0..99).for_each(|_| times.add(Duration::from_micros(1)));
        times.add(Duration::from_secs(1));
        assert!(times.percentile(0.99) < Duration::from_micros(2));
        assert!(times.percentile(1.0) >= Duration::from_secs(1));
    }

    #[test]
    fn the_percentiles_of_an_empty_histogram_are_zero() {
        assert_eq!(Histogram::default().percentile(0.99), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_bucket_contains_its_values_and_is_narrow(number: u64) {
            let top = ceiling(bucket(number));
            prop_assert!(top >= number);
            prop_assert!(top - number <= number / STEPS, "{number} is counted as {top}");
        }

        #[test]
        fn merged_histograms_equal_one_of_all_values(
            first in prop::collection::vec(0u64..1_000_000, 0..50),
            second in prop::collection::vec(0u64..1_000_000, 0..50),
            share in 0.0..=1.0,
        ) {
            let of = |numbers: &[u64]| {
                let mut times = Histogram::default();
                numbers.iter().for_each(|number| times.add(Duration::from_nanos(*number)));
                times
            };
            let mut merged = of(&first);
            merged.merge(&of(&second));
            let all = of(&[first, second].concat());
            prop_assert_eq!(merged.percentile(share), all.percentile(share));
        }
    }
}
