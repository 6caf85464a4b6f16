//! The clock of daemons that share a store.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp, Unit};
use store::ServerTime;
use tokio::sync::watch;

use super::system::{SystemClock, sleep_until_wall, wall};
use super::{Clock, MonotonicTime, shifted};

/// The difference to the clock of the server from which on this clock is set: more than the jitter of readings, less than matters
/// to a schedule.
const MIN_STEP: SignedDuration = SignedDuration::from_millis(200);
/// The difference between the clocks of this machine and of the server from which on the log warns.
const WARN_BEYOND: SignedDuration = SignedDuration::from_secs(2);

/// The clock of the database server. Between two readings, the monotonic clock of this machine carries it on.
///
/// All nodes of a cluster have the same time by it, within half a second, however the clocks of their machines are set: an
/// instant that one node stores, such as the end of a pause, is the same instant for another one. If the clock of the server
/// is set, or a server with another clock takes its place, the nodes see a step of the wall clock with their next beat.
#[derive(Clone, Debug)]
pub struct ClusterClock(Arc<State>);

#[derive(Debug)]
struct State {
    /// The monotonic time of this clock minus that of the system's clock: when this clock starts, its scales agree.
    base: SignedDuration,
    /// The wall offset, in nanoseconds.
    wall_offset: AtomicI64,
    /// True while the clock of this machine is known to be wrong.
    is_machine_wrong: AtomicBool,
}

impl ClusterClock {
    /// Starts the clock with the latest reading. It follows later ones until the store is closed or the clock is dropped. Needs
    /// a runtime.
    pub fn start(mut readings: watch::Receiver<ServerTime>) -> Self {
        let first = *readings.borrow_and_update();
        let clock = Self(Arc::new(State {
            base: first.now().duration_since(steady()),
            wall_offset: AtomicI64::new(0),
            is_machine_wrong: AtomicBool::new(false),
        }));
        clock.compare_machine(&first);
        tokio::spawn(follow(Arc::downgrade(&clock.0), readings));
        clock
    }

    /// Sets the clock to a reading if it differs by more than the reading can be wrong.
    fn learn(&self, reading: &ServerTime) {
        self.compare_machine(reading);
        let offset = reading.now().duration_since(self.monotonic_now().to_wall(SignedDuration::ZERO));
        let by = offset.saturating_sub(self.wall_offset());
        let uncertain = SignedDuration::try_from(reading.round_trip / 2).unwrap_or(SignedDuration::MAX);
        if by.abs() <= MIN_STEP.saturating_add(uncertain) {
            return;
        }
        let offset = i64::try_from(offset.as_nanos()).unwrap_or_default();
        self.0.wall_offset.store(offset, Ordering::Relaxed);
        let by = by.round(Unit::Millisecond).unwrap_or(by);
        tracing::warn!(
            "the clock of the database was set by {by:#}; timeouts and pauses are not affected, schedules follow the clock"
        );
    }

    /// Warns when the clock of this machine becomes wrong.
    fn compare_machine(&self, reading: &ServerTime) {
        let by = wall().duration_since(reading.now());
        let is_wrong = by.abs() > WARN_BEYOND;
        if !self.0.is_machine_wrong.swap(is_wrong, Ordering::Relaxed) && is_wrong {
            let by = by.round(Unit::Second).unwrap_or(by);
            tracing::warn!(
                "the clock of this machine differs from that of the database by {by:#}; the daemon uses that of the database"
            );
        }
    }
}

/// Sets the clock to each reading.
async fn follow(clock: Weak<State>, mut readings: watch::Receiver<ServerTime>) {
    while readings.changed().await.is_ok() {
        let Some(state) = clock.upgrade() else { return };
        ClusterClock(state).learn(&readings.borrow_and_update());
    }
}

/// The monotonic time of the system's clock.
fn steady() -> Timestamp {
    SystemClock.monotonic_now().0
}

impl Clock for ClusterClock {
    fn now(&self) -> Timestamp {
        self.monotonic_now().to_wall(self.wall_offset())
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(sleep_until_wall(self.clone(), at))
    }

    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(shifted(steady(), self.0.base))
    }

    fn sleep_until_monotonic(&self, at: MonotonicTime) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until_monotonic(MonotonicTime(shifted(at.0, -self.0.base)))
    }

    fn wall_offset(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.0.wall_offset.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Builds a reading of this machine's time plus `by`.
    fn reading(by: SignedDuration, round_trip: Duration) -> ServerTime {
        ServerTime { told: wall() + by, received: Instant::now(), round_trip }
    }

    fn differs_from_machine_by(clock: &ClusterClock, by: SignedDuration) -> bool {
        (clock.now().duration_since(wall()) - by).abs() < SignedDuration::from_millis(150)
    }

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    #[tokio::test]
    async fn the_cluster_clock_shows_the_time_of_the_server() {
        let (_told, readings) = watch::channel(reading(HOUR, Duration::ZERO));
        let clock = ClusterClock::start(readings);
        assert!(differs_from_machine_by(&clock, HOUR), "{}", clock.now());
        assert_eq!(clock.wall_offset(), SignedDuration::ZERO);
    }

    #[tokio::test]
    async fn a_clock_step_of_the_server_moves_the_wall_clock_and_no_duration() {
        let (told, readings) = watch::channel(reading(SignedDuration::ZERO, Duration::ZERO));
        let clock = ClusterClock::start(readings);
        let (before, slept) = (clock.monotonic_now(), clock.sleep_until(wall() + HOUR));
        told.send_replace(reading(HOUR, Duration::ZERO));
        while clock.wall_offset().is_zero() {
            tokio::task::yield_now().await;
        }
        // It ends though no hour has passed.
        slept.await;
        assert!(differs_from_machine_by(&clock, HOUR), "{}", clock.now());
        assert!(clock.monotonic_now().since(before) < Duration::from_secs(60));
        assert!((clock.wall_offset() - HOUR).abs() < MIN_STEP, "{}", clock.wall_offset());
    }

    #[tokio::test]
    async fn a_reading_within_its_own_error_changes_nothing() {
        let clock = ClusterClock::start(watch::channel(reading(SignedDuration::ZERO, Duration::ZERO)).1);
        clock.learn(&reading(SignedDuration::from_millis(150), Duration::ZERO));
        assert_eq!(clock.wall_offset(), SignedDuration::ZERO, "jitter");
        // Four seconds on the way back, and not two.
        clock.learn(&reading(SignedDuration::from_secs(-2), Duration::from_secs(8)));
        assert_eq!(clock.wall_offset(), SignedDuration::ZERO, "a slow answer");
        clock.learn(&reading(SignedDuration::from_secs(2), Duration::from_millis(10)));
        assert!(clock.wall_offset() > SignedDuration::from_secs(1), "{}", clock.wall_offset());
    }
}
