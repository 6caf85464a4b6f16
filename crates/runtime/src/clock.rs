//! Time, injected: the system's clock, or one that a test moves by hand.
//!
//! There are two scales. The *wall clock* is what people read and what calendars go by; somebody may set it at any
//! moment, forward or back. The *steady* scale is the wall clock without the steps by which it was set since the process
//! began: whatever lasts a certain time (a time limit, a pause, the delay before another try) goes by that one.

mod manual;
mod system;

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

pub use manual::ManualClock;
pub use system::SystemClock;

/// The clock of an engine.
pub trait Clock: Send + Sync + 'static {
    /// Now, as the wall clock shows it.
    fn now(&self) -> Timestamp;

    /// Comes back once the wall clock shows `at`, be it because it was set.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;

    /// Now, on the steady scale.
    fn steady_now(&self) -> Steady;

    /// Comes back once `at` has been reached on the steady scale.
    fn sleep_until_steady(&self, at: Steady) -> BoxFuture<'static, ()>;

    /// How far the wall clock is ahead of the steady scale: the sum of the steps that were seen, zero without any.
    fn ahead(&self) -> SignedDuration;

    /// Comes back after this time, whatever becomes of the wall clock meanwhile.
    fn sleep_for(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until_steady(self.steady_now().after(time))
    }
}

/// An instant on the steady scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Steady(Timestamp);

impl Steady {
    /// Later than any instant that comes.
    pub const NEVER: Self = Self(Timestamp::MAX);

    /// The instant at which the wall clock shows `at`, while it is so far ahead.
    #[must_use]
    pub fn of(at: Timestamp, ahead: SignedDuration) -> Self {
        Self(shifted(at, -ahead))
    }

    /// What the wall clock shows at this instant, while it is so far ahead.
    #[must_use]
    pub fn shown(self, ahead: SignedDuration) -> Timestamp {
        shifted(self.0, ahead)
    }

    /// The instant so much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.checked_add(time).unwrap_or(Timestamp::MAX))
    }

    /// How long this instant is after an earlier one; nothing where it is before it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(earlier.0.duration_until(self.0)).unwrap_or_default()
    }
}

/// An instant moved by so much, as far as there are instants.
fn shifted(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}
