//! Time, injected: the system's clock, or one that a test moves by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::oneshot;

/// The clock of an engine.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Comes back once `at` has been reached.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;
}

/// The system's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

/// The longest that one sleep of the system's clock lasts before it looks at the clock again, so that a step of the
/// wall clock is noticed.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = clock.now().duration_until(at);
                let Ok(left) = Duration::try_from(left) else { return };
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LOOK_AGAIN)).await;
            }
        })
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub struct ManualClock {
    state: Arc<Mutex<ManualState>>,
}

struct ManualState {
    now: Timestamp,
    sleepers: BTreeMap<(Timestamp, u64), oneshot::Sender<()>>,
    count: u64,
    arrivals: tokio::sync::watch::Sender<u64>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let (arrivals, _) = tokio::sync::watch::channel(0);
        let state = ManualState { now, sleepers: BTreeMap::new(), count: 0, arrivals };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Moves the clock on and wakes whoever waited for an instant up to then, in order.
    pub fn advance(&self, by: Duration) {
        let now = self.lock().now;
        self.advance_to(now.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Moves the clock on to an instant, as [`ManualClock::advance`] does; never back.
    pub fn advance_to(&self, at: Timestamp) {
        let mut state = self.lock();
        state.now = state.now.max(at);
        let due = state.now;
        while let Some(entry) = state.sleepers.first_entry() {
            if entry.key().0 > due {
                break;
            }
            // Nobody listens any more where the sleeper was dropped.
            let _ = entry.remove().send(());
        }
    }

    /// The instants that somebody sleeps for, earliest first.
    #[must_use]
    pub fn sleeping_until(&self) -> Vec<Timestamp> {
        self.lock().sleepers.iter().filter(|(_, wake)| !wake.is_closed()).map(|((at, _), _)| *at).collect()
    }

    /// How often somebody went to sleep, so how often somebody was awake.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.lock().count
    }

    /// Comes back once somebody sleeps for `at` or later than `at` but not for ever: for tests that must move the
    /// clock only when the other side waits for it.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, ManualState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let mut state = self.lock();
        if at <= state.now {
            return Box::pin(std::future::ready(()));
        }
        let (wake, woken) = oneshot::channel();
        state.count += 1;
        let count = state.count;
        state.sleepers.insert((at, count), wake);
        state.arrivals.send_replace(count);
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}
