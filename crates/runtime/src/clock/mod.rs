//! The injected clock: of the system, of a cluster, or moved by a test.
//!
//! There are two time scales. The *wall clock* serves calendars and what people read; it may be set forward or back at any
//! moment. The *monotonic* scale is the wall clock without the steps by which it was set since the process began; it serves
//! durations: timeouts, pauses, the delay before a retry. The *wall offset* is the difference between the two.

mod cluster;
mod manual;
mod system;

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

pub use cluster::ClusterClock;
pub use manual::ManualClock;
pub use system::SystemClock;

/// The clock of an engine.
pub trait Clock: Send + Sync + 'static {
    /// The current time of the wall clock.
    fn now(&self) -> Timestamp;

    /// Completes when the wall clock shows `at` or later, also if it has been set.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;

    /// The current monotonic time.
    fn monotonic_now(&self) -> MonotonicTime;

    /// Completes at a monotonic time.
    fn sleep_until_monotonic(&self, at: MonotonicTime) -> BoxFuture<'static, ()>;

    /// The wall offset: the sum of the steps of the wall clock that were noticed since the process began.
    fn wall_offset(&self) -> SignedDuration;

    /// Completes after this time, even if the wall clock is set meanwhile.
    fn sleep_for(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until_monotonic(self.monotonic_now().after(time))
    }
}

/// An instant on the monotonic scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicTime(Timestamp);

impl MonotonicTime {
    /// Later than any other instant.
    pub const NEVER: Self = Self(Timestamp::MAX);

    /// The instant at which the wall clock shows `at`, with this wall offset.
    #[must_use]
    pub fn from_wall(at: Timestamp, wall_offset: SignedDuration) -> Self {
        Self(shifted(at, -wall_offset))
    }

    /// The time that the wall clock shows at this instant, with this wall offset.
    #[must_use]
    pub fn to_wall(self, wall_offset: SignedDuration) -> Timestamp {
        shifted(self.0, wall_offset)
    }

    /// The instant so much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.checked_add(time).unwrap_or(Timestamp::MAX))
    }

    /// The time since an earlier instant; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(earlier.0.duration_until(self.0)).unwrap_or_default()
    }
}

/// Moves an instant, within the range of timestamps.
fn shifted(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}
