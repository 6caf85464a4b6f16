//! A clock that a test moves by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use super::{Clock, MonotonicTime, shifted};

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
}

struct State {
    now: Timestamp,
    wall_offset: SignedDuration,
    /// The sleepers by wall-clock time and by monotonic time; the number orders sleepers of one instant.
    by_wall: BTreeMap<(Timestamp, u64), oneshot::Sender<()>>,
    by_monotonic: BTreeMap<(MonotonicTime, u64), oneshot::Sender<()>>,
    count: u64,
    arrivals: tokio::sync::watch::Sender<u64>,
}

impl State {
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime::from_wall(self.now, self.wall_offset)
    }

    /// Wakes the sleepers that are due, in order. A sleeper that was dropped does not receive its message.
    fn wake(&mut self) {
        let (now, monotonic_now) = (self.now, self.monotonic_now());
        loop {
            let by_wall = self.by_wall.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= now);
            let by_monotonic = self.by_monotonic.first_key_value().map(|((at, _), _)| *at);
            let by_monotonic = by_monotonic.filter(|at| *at <= monotonic_now);
            let woken = match (by_wall, by_monotonic) {
                (None, None) => return,
                (Some(wall), Some(steady)) if wall <= steady.to_wall(self.wall_offset) => {
                    self.by_wall.pop_first().map(|(_, wake)| wake)
                }
                (Some(_), None) => self.by_wall.pop_first().map(|(_, wake)| wake),
                (_, Some(_)) => self.by_monotonic.pop_first().map(|(_, wake)| wake),
            };
            let _ = woken.map(|wake| wake.send(()));
        }
    }
}

impl ManualClock {
    /// Creates a clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let (arrivals, _) = tokio::sync::watch::channel(0);
        let state = State {
            now,
            wall_offset: SignedDuration::ZERO,
            by_wall: BTreeMap::new(),
            by_monotonic: BTreeMap::new(),
            count: 0,
            arrivals,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Advances the clock, and wakes the sleepers that are due, in order.
    pub fn advance(&self, by: Duration) {
        let now = self.lock().now;
        self.advance_to(now.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Advances the clock to an instant, as [`ManualClock::advance`] does; never back.
    pub fn advance_to(&self, at: Timestamp) {
        let mut state = self.lock();
        state.now = state.now.max(at);
        state.wake();
    }

    /// Sets the wall clock forward or back; no time passes on the monotonic scale.
    pub fn step(&self, by: SignedDuration) {
        let mut state = self.lock();
        state.now = shifted(state.now, by);
        state.wall_offset += by;
        state.wake();
    }

    /// The instants at which sleepers wake, as the wall clock will show them, earliest first.
    #[must_use]
    pub fn sleeping_until(&self) -> Vec<Timestamp> {
        let state = self.lock();
        let by_wall = state.by_wall.iter().filter(|(_, wake)| !wake.is_closed()).map(|((at, _), _)| *at);
        let by_monotonic = state.by_monotonic.iter().filter(|(_, wake)| !wake.is_closed());
        let mut all: Vec<Timestamp> =
            by_wall.chain(by_monotonic.map(|((at, _), _)| at.to_wall(state.wall_offset))).collect();
        all.sort_unstable();
        all
    }

    /// Returns the number of started sleeps.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.lock().count
    }

    /// Completes when something sleeps until exactly `at`, for tests that advance the clock only when the other side waits
    /// for it.
    pub async fn somebody_sleeps_until(&self, at: Timestamp) {
        let mut arrivals = self.lock().arrivals.subscribe();
        loop {
            if self.sleeping_until().contains(&at) {
                return;
            }
            if arrivals.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a sleeper with `put`, unless its instant has come.
    fn sleep(
        &self,
        is_due: impl Fn(&State) -> bool,
        put: impl FnOnce(&mut State, u64, oneshot::Sender<()>),
    ) -> BoxFuture<'static, ()> {
        let mut state = self.lock();
        if is_due(&state) {
            return Box::pin(std::future::ready(()));
        }
        let (wake, woken) = oneshot::channel();
        state.count += 1;
        let count = state.count;
        put(&mut state, count, wake);
        state.arrivals.send_replace(count);
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.sleep(
            |state| at <= state.now,
            |state, count, wake| drop(state.by_wall.insert((at, count), wake)),
        )
    }

    fn monotonic_now(&self) -> MonotonicTime {
        self.lock().monotonic_now()
    }

    fn sleep_until_monotonic(&self, at: MonotonicTime) -> BoxFuture<'static, ()> {
        self.sleep(
            |state| at <= state.monotonic_now(),
            |state, count, wake| drop(state.by_monotonic.insert((at, count), wake)),
        )
    }

    fn wall_offset(&self) -> SignedDuration {
        self.lock().wall_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn setting_the_wall_clock_does_not_move_durations() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let hour = SignedDuration::from_hours(1);
        let mut wall = clock.sleep_until(Timestamp::UNIX_EPOCH + hour);
        let mut steady = clock.sleep_for(Duration::from_secs(60));
        clock.step(hour);
        assert_eq!((&mut wall).now_or_never(), Some(()), "the clock shows its instant");
        assert_eq!((&mut steady).now_or_never(), None);
        assert_eq!((clock.now(), clock.wall_offset()), (Timestamp::UNIX_EPOCH + hour, hour));
        clock.step(-hour - hour);
        clock.advance(Duration::from_secs(59));
        assert_eq!((&mut steady).now_or_never(), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(steady.now_or_never(), Some(()));
    }
}
