//! Schedules: compute the instants at which a schedule trigger fires.
//!
//! There are two kinds of time. `every` counts elapsed time from the Unix epoch. All others use the civil time of an IANA zone and
//! are converted to a cron expression of five fields: `expression` parses it, `civil_time` evaluates it across clock changes.
//!
//! # Clock changes
//! * Skipped local times: an expression with fixed hours runs once, at the first instant after the gap, for any number of
//!   skipped times. An expression with a wildcard hour ignores the gap, because its next hour follows immediately.
//! * Repeated local times: an expression with fixed hours runs in the first pass only; one with a wildcard hour runs in both, so
//!   that a job of every ten minutes runs every ten minutes.
//!
//! The hour is a wildcard if it contains `*` (also `*/2`) or names all 24 hours.

mod civil_time;
mod cron_expression;
mod describe;
mod error;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod years;
mod zone;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::Payload;
use model::automation::{Cadence, LocalTime, Misfire, ScheduleTrigger, Weekday};

pub use error::{ScheduleError, ScheduleKey};

use civil_time::CivilTime;

/// The shortest period.
pub const MIN_PERIOD: Duration = Duration::from_secs(1);

/// The maximum number of missed instants that run later.
pub const MAX_CAUGHT_UP: usize = 100;

/// The last year in which a schedule fires.
pub const LAST_YEAR: i16 = 2100;

const NANOSECONDS: i128 = 1_000_000_000;

/// A schedule that is known to fire. Cheap to clone; equal triggers produce equal schedules.
#[derive(Clone, Debug)]
pub struct Schedule {
    timeline: Timeline,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Timeline {
    /// Elapsed time, in nanoseconds.
    Every(i128),
    /// Local time.
    Civil(Box<CivilTime>),
}

/// The instants that were missed while the daemon was not running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissedFires {
    /// The instants to run now, oldest first, at most [`MAX_CAUGHT_UP`].
    pub due: Vec<Timestamp>,
    /// The number of missed instants that will not run; all are older than those in `due`.
    pub dropped: u64,
}

impl Schedule {
    /// Compiles a schedule.
    ///
    /// # Errors
    /// Returns an error if the period is under [`MIN_PERIOD`], the cron expression is invalid or never fires, the weekday list is
    /// empty, or the zone is unknown. The error has the invalid key and the range in the expression.
    pub fn compile(trigger: &ScheduleTrigger) -> Result<Self, ScheduleError> {
        let zone = zone::find(&trigger.timezone.name)?;
        let timeline = match &trigger.cadence {
            Cadence::Every(period) if *period < MIN_PERIOD => return Err(ScheduleError::too_often(*period)),
            Cadence::Every(period) => Timeline::Every(
                i128::from(period.as_secs()) * NANOSECONDS + i128::from(period.subsec_nanos()),
            ),
            Cadence::Hourly { minute } => parse_civil(&format!("{minute} * * * *"))?,
            Cadence::Daily { at: LocalTime { hour, minute } } => {
                parse_civil(&format!("{minute} {hour} * * *"))?
            }
            Cadence::Weekly { on, .. } if on.is_empty() => return Err(ScheduleError::no_weekday()),
            Cadence::Weekly { on, at: LocalTime { hour, minute } } => {
                parse_civil(&format!("{minute} {hour} * * {}", weekdays(on)))?
            }
            Cadence::Cron(text) => parse_civil(text)?,
        };
        Ok(Self { timeline, zone })
    }

    /// The first instant after `after`, to the second; `None` after [`LAST_YEAR`]. Local times before 1970 never fire.
    ///
    /// Costs a few hundred nanoseconds. Visits at most about twenty clock changes, for 29 February.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.timeline {
            Timeline::Every(period) => {
                let next = (after.as_nanosecond().div_euclid(*period) + 1) * period;
                Timestamp::from_nanosecond(next).ok()
            }
            Timeline::Civil(local) => local.next_after(&self.zone, after),
        }
    }

    /// Iterates over the instants after `after`, in order.
    pub fn fires(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// The instants after `since`, up to and including `now`, of which `misfire` runs none, the latest, or the latest
    /// [`MAX_CAUGHT_UP`]. The cost does not depend on the number of instants, and only slightly on the number of years.
    #[must_use]
    pub fn missed(&self, since: Timestamp, now: Timestamp, misfire: Misfire) -> MissedFires {
        let most = match misfire {
            Misfire::Skip => 0,
            Misfire::Latest => 1,
            Misfire::All => MAX_CAUGHT_UP,
        };
        let total = self.count(since, now);
        let keep = usize::try_from(total).map_or(most, |total| total.min(most));
        let dropped = total - u64::try_from(keep).unwrap_or(total);
        if keep == 0 {
            return MissedFires { due: Vec::new(), dropped };
        }
        let start = self.start_of_latest(since, now, keep);
        let due = self.fires(start).take_while(|instant| *instant <= now).take(keep).collect();
        MissedFires { due, dropped }
    }

    /// The IANA name of the zone.
    #[must_use]
    pub fn timezone(&self) -> &str {
        zone::name(&self.zone)
    }

    /// The payload of an execution that this schedule starts.
    #[must_use]
    pub fn payload(&self, scheduled_at: Timestamp, started_at: Timestamp) -> Payload {
        Payload::Schedule { scheduled_at, started_at, timezone: self.timezone().to_owned() }
    }

    /// A description in plain English: `every 5 minutes from 8:00 to 16:55, Monday to Friday (Europe/Berlin)`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.timeline {
            Timeline::Every(period) => describe::period(*period / 1_000_000),
            Timeline::Civil(local) => {
                format!("{} ({})", describe::expression(local.expression()), self.timezone())
            }
        }
    }

    /// The identity of the timeline. Schedules that fire at the same instants have the same fingerprint, even in different notations
    /// (`daily: {at: "08:30"}` and `cron: "30 8 * * *"`). A watermark with a different fingerprint belongs to another schedule.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        match &self.timeline {
            // Elapsed time is independent of the zone.
            Timeline::Every(period) => format!("every {period}ns"),
            Timeline::Civil(local) => format!("cron {} {}", local.expression().canonical(), self.timezone()),
        }
    }

    /// The number of instants after `since`, up to and including `now`.
    fn count(&self, since: Timestamp, now: Timestamp) -> u64 {
        if now <= since {
            return 0;
        }
        match &self.timeline {
            Timeline::Every(period) => {
                let index = |instant: Timestamp| instant.as_nanosecond().div_euclid(*period);
                u64::try_from(index(now) - index(since)).unwrap_or(u64::MAX)
            }
            Timeline::Civil(local) => local.count(&self.zone, since, now),
        }
    }

    /// An instant after which exactly the latest `keep` instants up to `now` follow. Requires at least as many after `since`.
    fn start_of_latest(&self, since: Timestamp, now: Timestamp, keep: usize) -> Timestamp {
        let keep = u64::try_from(keep).unwrap_or(u64::MAX);
        let enough = |start: Timestamp| self.count(start, now) >= keep;
        // Double the span until it contains enough, then bisect: a few dozen counts over a span not much wider than needed.
        let mut span = Duration::from_secs(64);
        let (mut wide, mut narrow) = loop {
            let start = now.checked_sub(span).ok().filter(|start| *start > since);
            match start {
                Some(start) if !enough(start) => span = span.saturating_mul(2),
                Some(start) => break (start, now),
                None => break (since, now),
            }
        };
        // Bisect to the nanosecond, since a period may have any length. `wide` always contains enough, `narrow` never does.
        while let Some(middle) = between(wide, narrow) {
            if enough(middle) {
                wide = middle;
            } else {
                narrow = middle;
            }
        }
        wide
    }
}

/// The instant half-way; `None` if there is none strictly between.
fn between(earlier: Timestamp, later: Timestamp) -> Option<Timestamp> {
    let (earlier, later) = (earlier.as_nanosecond(), later.as_nanosecond());
    let middle = earlier + (later - earlier) / 2;
    if middle <= earlier { None } else { Timestamp::from_nanosecond(middle).ok() }
}

fn parse_civil(text: &str) -> Result<Timeline, ScheduleError> {
    Ok(Timeline::Civil(Box::new(CivilTime::new(cron_expression::parse(text)?)?)))
}

fn weekdays(days: &[Weekday]) -> String {
    let numbers = days.iter().filter_map(|day| Weekday::ALL.iter().position(|(_, other)| other == day));
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}
