//! Time and ids, both in the simulator's own hands.
//!
//! Nothing in the simulator asks the machine for the time except a [`Clock::system`], so that a test decides when a
//! token expires, when a rate-limit window ends and when a list catches up with a write.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

/// The largest moment that prints with a four-digit year in every time zone: 9999-12-30T22:00:00.000Z, in milliseconds.
const LATEST_MS: i64 = 253_402_207_200_000;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
///
/// It serialises as the wiki writes dates: UTC ISO 8601 with milliseconds (`2026-01-15T09:00:00.000Z`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Moment(i64);

impl Moment {
    /// The end of time: every other moment is earlier or equal.
    pub const MAX: Self = Self(LATEST_MS);

    /// The moment this many milliseconds after the epoch, held within the years 1970 to 9999.
    pub fn from_millis(milliseconds: i64) -> Self {
        Self(milliseconds.clamp(0, LATEST_MS))
    }

    /// Reads an ISO 8601 instant such as `2026-01-15T09:00:00Z`; nothing when the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self::from_millis(at.as_millisecond()))
    }

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// This moment and then a while.
    pub fn plus(self, while_: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(whole_millis(while_)))
    }

    /// This moment but a while before.
    pub fn minus(self, while_: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(whole_millis(while_)))
    }

    /// The way HTTP headers write dates: `Thu, 15 Jan 2026 09:00:00 GMT`. Milliseconds are dropped.
    pub fn http_date(self) -> String {
        self.timestamp().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The simulator's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    last_stamp: Moment,
}

#[derive(Clone, Debug)]
enum Source {
    Fixed(Moment),
    System { ahead_ms: i64 },
}

impl Clock {
    /// A clock that stands still until it is advanced. Each write moves it by one millisecond, since a write takes time.
    pub fn fixed(start: Moment) -> Self {
        Self { source: Source::Fixed(start), last_stamp: Moment(0) }
    }

    /// The machine's clock, which can still be moved forwards.
    pub fn system() -> Self {
        Self { source: Source::System { ahead_ms: 0 }, last_stamp: Moment(0) }
    }

    /// The current time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the simulator reads the machine's clock"
    )]
    pub fn now(&self) -> Moment {
        match self.source {
            Source::Fixed(now) => now,
            Source::System { ahead_ms } => {
                let since_epoch =
                    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                Moment::from_millis(whole_millis(since_epoch).saturating_add(ahead_ms))
            }
        }
    }

    /// Moves the clock forwards.
    pub fn advance(&mut self, by: Duration) {
        match &mut self.source {
            Source::Fixed(now) => *now = now.plus(by),
            Source::System { ahead_ms } => {
                *ahead_ms = ahead_ms.saturating_add(whole_millis(by)).min(LATEST_MS)
            }
        }
    }

    /// The time of a write: later than every earlier one by at least a millisecond.
    pub(super) fn stamp(&mut self) -> Moment {
        let now = self.now();
        let stamp = if now > self.last_stamp { now } else { Moment::from_millis(self.last_stamp.0 + 1) };
        if let Source::Fixed(now) = &mut self.source {
            *now = stamp;
        }
        self.last_stamp = stamp;
        stamp
    }
}

/// The one counter that ids come from. An id is never given twice.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    next: u64,
}

impl Ids {
    pub(super) fn starting_at(first: u64) -> Self {
        Self { next: first }
    }

    pub(super) fn take(&mut self) -> u64 {
        let id = self.next;
        self.next = self.next.saturating_add(1);
        id
    }
}

fn whole_millis(while_: Duration) -> i64 {
    i64::try_from(while_.as_millis()).unwrap_or(LATEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_as_the_wiki_and_as_http_write_them() {
        let moment = Moment::parse("2026-01-15T09:00:00.05Z").unwrap();
        assert_eq!(moment.to_string(), "2026-01-15T09:00:00.050Z");
        assert_eq!(moment.http_date(), "Thu, 15 Jan 2026 09:00:00 GMT");
        assert_eq!(Moment::parse("yesterday"), None);
    }

    #[test]
    fn a_fixed_clock_stands_still_but_for_writes_and_advances() {
        let mut clock = Clock::fixed(Moment::from_millis(1_000));
        assert_eq!(clock.now(), clock.now());
        let first = clock.stamp();
        let second = clock.stamp();
        assert!(second > first);
        assert_eq!(clock.now(), second);
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now(), second.plus(Duration::from_secs(3)));
        assert_eq!(clock.stamp(), clock.now());
    }

    #[test]
    fn stamps_of_a_system_clock_never_repeat() {
        let mut clock = Clock::system();
        let stamps: Vec<Moment> = (0..50).map(|_| clock.stamp()).collect();
        assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn no_arithmetic_leaves_the_calendar() {
        assert_eq!(Moment::MAX.plus(Duration::MAX), Moment::MAX);
        assert_eq!(Moment::from_millis(5).minus(Duration::MAX), Moment::from_millis(0));
        assert_eq!(Moment::MAX.to_string(), "9999-12-30T22:00:00.000Z");
    }
}
