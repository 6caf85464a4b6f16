//! The system's clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use rustix::time::ClockId;

use super::{Clock, MonotonicTime};

/// The maximum time of one sleep before the clock is read again, to notice that the wall clock was set or that the machine
/// was asleep.
const MAX_SLEEP: Duration = Duration::from_secs(5);
/// The difference between the scales, in nanoseconds, above which the wall clock counts as set: more than any drift between
/// two readings, less than matters to a schedule.
const MIN_STEP: i64 = 500_000_000;

/// The monotonic clock of the system; on Linux the one that also runs while the machine is asleep.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MONOTONIC: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const MONOTONIC: ClockId = ClockId::Monotonic;

/// The wall clock minus [`MONOTONIC`] at the first reading, in nanoseconds.
static FIRST_READING: OnceLock<i64> = OnceLock::new();
/// The wall offset in nanoseconds, shared by all clocks of the process.
static WALL_OFFSET: AtomicI64 = AtomicI64::new(0);

/// The system's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let first_reading = first_reading();
        let (wall, steady) = (wall(), monotonic() + first_reading);
        let nanoseconds = i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX);
        let offset = nanoseconds.saturating_sub(steady);
        if offset.saturating_sub(WALL_OFFSET.load(Ordering::Relaxed)).abs() > MIN_STEP {
            note_step(offset);
        }
        wall
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(sleep_until_wall(*self, at))
    }

    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(
            Timestamp::from_nanosecond(i128::from(monotonic() + first_reading())).unwrap_or(Timestamp::MAX),
        )
    }

    fn sleep_until_monotonic(&self, at: MonotonicTime) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = at.since(clock.monotonic_now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(MAX_SLEEP)).await;
            }
        })
    }

    fn wall_offset(&self) -> SignedDuration {
        SignedDuration::from_nanos(WALL_OFFSET.load(Ordering::Relaxed))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub(super) fn wall() -> Timestamp {
    Timestamp::now()
}

/// Sleeps until the wall clock shows `at` or later. Reads the clock at least each [`MAX_SLEEP`], since it may be set.
pub(super) async fn sleep_until_wall(clock: impl Clock, at: Timestamp) {
    while let Ok(left) = Duration::try_from(clock.now().duration_until(at)) {
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(MAX_SLEEP)).await;
    }
}

/// The reading of [`MONOTONIC`] in nanoseconds.
fn monotonic() -> i64 {
    let now = rustix::time::clock_gettime(MONOTONIC);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

fn first_reading() -> i64 {
    *FIRST_READING.get_or_init(|| {
        // Both clocks are read as closely together as possible: the reading with the shortest interruption wins.
        let read = || {
            let (before, wall, after) = (monotonic(), wall(), monotonic());
            let wall = i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX);
            (after - before, wall.saturating_sub(before))
        };
        let readings = std::iter::repeat_with(read).take(5);
        readings.min_by_key(|(took, _)| *took).map_or(0, |(_, offset)| offset)
    })
}

#[cold]
fn note_step(offset: i64) {
    let before = WALL_OFFSET.swap(offset, Ordering::Relaxed);
    let by = SignedDuration::from_nanos(offset.saturating_sub(before));
    tracing::warn!(
        "the system's clock was set by {by:#}; timeouts and pauses are not affected, schedules follow the clock"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_clock_step_wall_and_monotonic_time_agree() {
        let clock = SystemClock;
        let (wall, steady) = (clock.now(), clock.monotonic_now());
        let apart = wall.duration_until(steady.to_wall(clock.wall_offset())).abs();
        assert!(apart < SignedDuration::from_millis(400), "{apart}");
        assert_eq!(clock.wall_offset(), SignedDuration::ZERO);
    }

    #[tokio::test]
    async fn a_zero_sleep_completes_at_once() {
        SystemClock.sleep_for(Duration::ZERO).await;
        SystemClock.sleep_until(SystemClock.now()).await;
    }
}
