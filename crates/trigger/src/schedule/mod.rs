//! Schedules: from what is written to the instants at which it fires.
//!
//! Two kinds of time. `every` counts elapsed time from the Unix epoch. All else is local time in an IANA zone, and is one
//! cron expression of five fields inside: `expression` reads it, `local` lays it over the zone's changes of the clocks.
//!
//! # Where the clocks change
//! * A local time that is skipped: an expression with fixed hours runs once, at the first instant after the gap, however
//!   many of its times were skipped. One whose hour is a wildcard passes the gap over, as its next hour is there at once.
//! * A local time that repeats: with fixed hours it runs at the first pass only; with a wildcard hour in both, so that a
//!   job of every ten minutes runs every ten minutes.
//!
//! The hour is a wildcard if it is written with `*` (also `*/2`) or names all 24 hours.

mod describe;
mod error;
mod expression;
mod local;
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

use local::Local;

/// The shortest period.
pub const MIN_PERIOD: Duration = Duration::from_secs(1);

/// The most missed instants that are caught up with.
pub const MAX_CAUGHT_UP: usize = 100;

/// The last year that is looked at; a schedule has no instant after it.
pub const LAST_YEAR: i16 = 2100;

const NANOSECONDS: i128 = 1_000_000_000;

/// A schedule that is known to fire. Cheap to clone, and the same for the same trigger.
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
    Local(Box<Local>),
}

/// What was missed while nobody watched the clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// The instants to run now, oldest first, at most [`MAX_CAUGHT_UP`].
    pub due: Vec<Timestamp>,
    /// How many more were missed, all older than those due, and will not run.
    pub dropped: u64,
}

impl Schedule {
    /// Checks a schedule and makes it ready to ask.
    ///
    /// # Errors
    /// A period under [`MIN_PERIOD`], a cron expression that is none or that never fires, a weekday list without a day, or a
    /// zone that nobody knows. The error says which key is at fault, and where in the expression.
    pub fn compile(trigger: &ScheduleTrigger) -> Result<Self, ScheduleError> {
        let zone = zone::find(&trigger.timezone.name)?;
        let timeline = match &trigger.cadence {
            Cadence::Every(period) if *period < MIN_PERIOD => return Err(ScheduleError::too_often(*period)),
            Cadence::Every(period) => Timeline::Every(
                i128::from(period.as_secs()) * NANOSECONDS + i128::from(period.subsec_nanos()),
            ),
            Cadence::Hourly { minute } => local(&format!("{minute} * * * *"))?,
            Cadence::Daily { at: LocalTime { hour, minute } } => local(&format!("{minute} {hour} * * *"))?,
            Cadence::Weekly { on, .. } if on.is_empty() => return Err(ScheduleError::no_weekday()),
            Cadence::Weekly { on, at: LocalTime { hour, minute } } => {
                local(&format!("{minute} {hour} * * {}", weekdays(on)))?
            }
            Cadence::Cron(text) => local(text)?,
        };
        Ok(Self { timeline, zone })
    }

    /// The first instant after `after`, to the second; none after [`LAST_YEAR`]. Local times before 1970 are none.
    ///
    /// Costs a few hundred nanoseconds; at most about twenty changes of the clocks are looked at, for 29 February.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.timeline {
            Timeline::Every(period) => {
                let next = (after.as_nanosecond().div_euclid(*period) + 1) * period;
                Timestamp::from_nanosecond(next).ok()
            }
            Timeline::Local(local) => local.next_after(&self.zone, after),
        }
    }

    /// The instants after `after`, in order.
    pub fn fires(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// What was due after `since`, up to and including `now`, and what of it runs: nothing, the latest, or the latest
    /// [`MAX_CAUGHT_UP`]. The work does not grow with the number of instants, only slightly with the years between.
    #[must_use]
    pub fn missed(&self, since: Timestamp, now: Timestamp, misfire: Misfire) -> Missed {
        let most = match misfire {
            Misfire::Skip => 0,
            Misfire::Latest => 1,
            Misfire::All => MAX_CAUGHT_UP,
        };
        let total = self.count(since, now);
        let keep = usize::try_from(total).map_or(most, |total| total.min(most));
        let dropped = total - u64::try_from(keep).unwrap_or(total);
        if keep == 0 {
            return Missed { due: Vec::new(), dropped };
        }
        let start = self.start_of_latest(since, now, keep);
        let due = self.fires(start).take_while(|instant| *instant <= now).take(keep).collect();
        Missed { due, dropped }
    }

    /// The name of the zone, as IANA writes it.
    #[must_use]
    pub fn timezone(&self) -> &str {
        zone::name(&self.zone)
    }

    /// What an execution of this schedule starts with.
    #[must_use]
    pub fn payload(&self, scheduled_at: Timestamp, started_at: Timestamp) -> Payload {
        Payload::Schedule { scheduled_at, started_at, timezone: self.timezone().to_owned() }
    }

    /// The schedule in plain words: `every 5 minutes from 8:00 to 16:55, Monday to Friday (Europe/Berlin)`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.timeline {
            Timeline::Every(period) => describe::period(*period / 1_000_000),
            Timeline::Local(local) => {
                format!("{} ({})", describe::expression(local.expression()), self.timezone())
            }
        }
    }

    /// The identity of the timeline: equal for schedules that fire at the same instants because they say the same in other
    /// words (`daily: {at: "08:30"}` and `cron: "30 8 * * *"`). A watermark with another one belongs to another schedule.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        match &self.timeline {
            // Elapsed time is the same in every zone.
            Timeline::Every(period) => format!("every {period}ns"),
            Timeline::Local(local) => format!("cron {} {}", local.expression().canonical(), self.timezone()),
        }
    }

    /// How many instants there are after `since`, up to and including `now`.
    fn count(&self, since: Timestamp, now: Timestamp) -> u64 {
        if now <= since {
            return 0;
        }
        match &self.timeline {
            Timeline::Every(period) => {
                let index = |instant: Timestamp| instant.as_nanosecond().div_euclid(*period);
                u64::try_from(index(now) - index(since)).unwrap_or(u64::MAX)
            }
            Timeline::Local(local) => local.count(&self.zone, since, now),
        }
    }

    /// An instant with exactly the `keep` latest of the instants up to `now` after it. There are at least as many after
    /// `since`.
    fn start_of_latest(&self, since: Timestamp, now: Timestamp, keep: usize) -> Timestamp {
        let keep = u64::try_from(keep).unwrap_or(u64::MAX);
        let enough = |start: Timestamp| self.count(start, now) >= keep;
        // Widen until it holds enough, then halve: a few dozen counts over a span that is not much wider than needed.
        let mut span = Duration::from_secs(64);
        let (mut wide, mut narrow) = loop {
            let start = now.checked_sub(span).ok().filter(|start| *start > since);
            match start {
                Some(start) if !enough(start) => span = span.saturating_mul(2),
                Some(start) => break (start, now),
                None => break (since, now),
            }
        };
        // To the nanosecond, since a period may be of any length; `wide` always holds enough and `narrow` never.
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

/// The instant half-way, if there is one between the two.
fn between(earlier: Timestamp, later: Timestamp) -> Option<Timestamp> {
    let (earlier, later) = (earlier.as_nanosecond(), later.as_nanosecond());
    let middle = earlier + (later - earlier) / 2;
    if middle <= earlier { None } else { Timestamp::from_nanosecond(middle).ok() }
}

fn local(text: &str) -> Result<Timeline, ScheduleError> {
    Ok(Timeline::Local(Box::new(Local::new(expression::parse(text)?)?)))
}

fn weekdays(days: &[Weekday]) -> String {
    let numbers = days.iter().filter_map(|day| Weekday::ALL.iter().position(|(_, other)| other == day));
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}
