//! The system's clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use rustix::time::ClockId;

use super::{Clock, Steady};

/// The longest that one sleep lasts before the clock is looked at again, so that a step of the wall clock, or a sleep of
/// the whole machine, is noticed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// What the two scales may come apart by before it counts as a step: more than any drift between two looks, less than what
/// matters to a schedule.
const A_STEP: i64 = 500_000_000;

/// The clock that no one sets. Where the system has one that goes on while the machine sleeps, it is that.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// What the wall clock was ahead of [`STEADY`] when the process first looked, in nanoseconds.
static BEGAN: OnceLock<i64> = OnceLock::new();
/// By how much it was set since, in nanoseconds. Those of one process agree on it, whoever saw a step first.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// The system's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let began = began();
        let (wall, steady) = (wall(), steady() + began);
        let nanoseconds = i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX);
        let ahead = nanoseconds.saturating_sub(steady);
        if ahead.saturating_sub(AHEAD.load(Ordering::Relaxed)).abs() > A_STEP {
            noticed(ahead);
        }
        wall
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            while let Ok(left) = Duration::try_from(clock.now().duration_until(at)) {
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LOOK_AGAIN)).await;
            }
        })
    }

    fn steady_now(&self) -> Steady {
        Steady(Timestamp::from_nanosecond(i128::from(steady() + began())).unwrap_or(Timestamp::MAX))
    }

    fn sleep_until_steady(&self, at: Steady) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = at.since(clock.steady_now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LOOK_AGAIN)).await;
            }
        })
    }

    fn ahead(&self) -> SignedDuration {
        SignedDuration::from_nanos(AHEAD.load(Ordering::Relaxed))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn wall() -> Timestamp {
    Timestamp::now()
}

/// Nanoseconds on the clock that no one sets.
fn steady() -> i64 {
    let now = rustix::time::clock_gettime(STEADY);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

fn began() -> i64 {
    *BEGAN.get_or_init(|| {
        // Both at one time, as near as that goes: whoever is interrupted between the two looks again.
        let look = || {
            let (before, wall, after) = (steady(), wall(), steady());
            let wall = i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX);
            (after - before, wall.saturating_sub(before))
        };
        let looks = std::iter::repeat_with(look).take(5);
        looks.min_by_key(|(took, _)| *took).map_or(0, |(_, ahead)| ahead)
    })
}

#[cold]
fn noticed(ahead: i64) {
    let before = AHEAD.swap(ahead, Ordering::Relaxed);
    let by = SignedDuration::from_nanos(ahead.saturating_sub(before));
    tracing::warn!(
        "the system's clock was set by {by:#}; what lasts a certain time goes on as before, schedules follow the clock"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_step_both_scales_say_the_same() {
        let clock = SystemClock;
        let (wall, steady) = (clock.now(), clock.steady_now());
        let apart = wall.duration_until(steady.shown(clock.ahead())).abs();
        assert!(apart < SignedDuration::from_millis(400), "{apart}");
        assert_eq!(clock.ahead(), SignedDuration::ZERO);
    }

    #[tokio::test]
    async fn what_lasts_no_time_is_over_at_once() {
        SystemClock.sleep_for(Duration::ZERO).await;
        SystemClock.sleep_until(SystemClock.now()).await;
    }
}
