//! A cron expression over the local time of a zone.
//!
//! The zone's timeline is cut where its clocks change; within one stretch local time is elapsed time plus a constant, so
//! the `cron` crate is only ever asked about plain local times, in which it knows no zone. It would answer wrongly about
//! zoned ones: it passes skipped times over, and where times repeat it can answer with an instant before the question.
//!
//! All numbers are whole seconds: `instant` counts from the Unix epoch, `local` is an instant plus the stretch's offset.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};

use super::LAST_YEAR;
use super::error::ScheduleError;
use super::expression::{Expression, Set};

const DAY: i64 = 86_400;

/// No local time of 1970 is before this instant in any zone, and none before 1970 is looked at.
const EARLIEST: Timestamp = Timestamp::constant(-2 * DAY, 0);

/// More changes of the clocks than any zone has until the last year that is looked at.
const MAX_STRETCHES: usize = 4_096;

#[derive(Clone, Debug)]
pub(super) struct Local {
    expression: Expression,
    /// One, or two of which either may fire where both day fields are restricted: `cron` wants both to match.
    schedules: Vec<cron::Schedule>,
}

/// A stretch of a zone's timeline between two changes of the clocks.
#[derive(Debug)]
struct TemplateToken {
    /// Seconds from UTC to local time.
    offset: i64,
    /// Local times before this one have been once already, before the clocks were set back.
    repeats_until: i64,
    /// The change at its end.
    end: Option<Change>,
}

/// A change of the clocks.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// The first instant after it.
    at: i64,
    /// The offset from then on.
    offset: i64,
}

impl Local {
    pub(super) fn new(expression: Expression) -> Result<Self, ScheduleError> {
        let (dates, weekdays) = (expression.days_restricted, expression.weekdays_restricted);
        let day_fields: &[(bool, bool)] =
            if dates && weekdays { &[(true, false), (false, true)] } else { &[(true, true)] };
        let schedules = day_fields
            .iter()
            .map(|(by_date, by_weekday)| {
                let days = if *by_date { expression.days } else { Set::range(1, 31) };
                let weekdays = if *by_weekday { expression.weekdays } else { Set::range(0, 6) };
                schedule(&expression, days, weekdays)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { expression, schedules })
    }

    pub(super) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The first instant after `after`.
    pub(super) fn next_after(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        // Fires are whole seconds, so the fraction of the question does not matter.
        let mut moment = after.max(EARLIEST);
        let mut last = floor(moment);
        for _ in 0..MAX_STRETCHES {
            let stretch = self.stretch(zone, moment);
            let mut local = last + stretch.offset;
            if self.expression.hour_fixed {
                local = local.max(stretch.repeats_until - 1);
            }
            let found = self.next_local(local);
            let Some(change) = stretch.end else {
                return Timestamp::from_second(found? - stretch.offset).ok();
            };
            // Without a match after it there is none in a gap either: the times of a gap come after it too.
            let instant = found? - stretch.offset;
            if instant < change.at {
                return Timestamp::from_second(instant).ok();
            }
            let end = Timestamp::from_second(change.at).ok()?;
            if self.expression.hour_fixed && self.skips(&stretch, change) {
                return Some(end);
            }
            (moment, last) = (end, change.at - 1);
        }
        None
    }

    /// How many instants there are after `since`, up to and including `now`. Walks over days, not over instants.
    pub(super) fn count(&self, zone: &TimeZone, since: Timestamp, now: Timestamp) -> u64 {
        let mut moment = since.max(EARLIEST);
        let (mut last, now) = (floor(moment), floor(now));
        let mut total = 0;
        for _ in 0..MAX_STRETCHES {
            let stretch = self.stretch(zone, moment);
            let change = stretch.end.filter(|change| change.at <= now);
            let until = change.map_or(now + 1, |change| change.at);
            let mut from = last + 1 + stretch.offset;
            if self.expression.hour_fixed {
                from = from.max(stretch.repeats_until);
            }
            total += self.count_local(from, until + stretch.offset);
            let Some(change) = change else { return total };
            let first = change.at + change.offset;
            if self.expression.hour_fixed
                && self.skips(&stretch, change)
                && self.count_local(first, first + 1) == 0
            {
                total += 1;
            }
            let Ok(end) = Timestamp::from_second(change.at) else { return total };
            (moment, last) = (end, change.at - 1);
        }
        total
    }

    /// The stretch around an instant.
    fn stretch(&self, zone: &TimeZone, moment: Timestamp) -> TemplateToken {
        let offset = seconds(zone.to_offset(moment));
        let end = zone
            .following(moment)
            .next()
            .map(|change| Change { at: change.timestamp().as_second(), offset: seconds(change.offset()) });
        // Local times before 1970 are none, so 0 says that no time repeats.
        let mut repeats_until = 0;
        if self.expression.hour_fixed {
            // `preceding` leaves the instant itself out, and it may be the first of its stretch.
            let nanosecond = jiff::Span::new().nanoseconds(1);
            let start = moment.checked_add(nanosecond).ok().and_then(|after| zone.preceding(after).next());
            let before = start.as_ref().and_then(|start| start.timestamp().checked_sub(nanosecond).ok());
            if let (Some(start), Some(before)) = (start, before) {
                let offset_before = seconds(zone.to_offset(before));
                if offset_before > offset {
                    repeats_until = start.timestamp().as_second() + offset_before;
                }
            }
        }
        TemplateToken { offset, repeats_until, end }
    }

    /// Whether a local time that should fire is skipped by the change at the end of a stretch.
    fn skips(&self, stretch: &TemplateToken, change: Change) -> bool {
        let (from, to) = (change.at + stretch.offset, change.at + change.offset);
        from < to && self.next_local(from - 1).is_some_and(|local| local < to)
    }

    /// The first local time after this one.
    fn next_local(&self, local: i64) -> Option<i64> {
        let question = DateTime::<Utc>::from_timestamp(local, 0)?;
        let answers = self.schedules.iter().filter_map(|schedule| schedule.after(&question).next());
        answers.map(|answer| answer.timestamp()).min()
    }

    /// How many local times there are from `from` to before `to`.
    fn count_local(&self, from: i64, to: i64) -> u64 {
        let Some(limit) = Date::new(LAST_YEAR + 1, 1, 1).ok().map(days_of) else { return 0 };
        let (from, to) = (from.max(0), to.min(limit * DAY));
        if from >= to {
            return 0;
        }
        // In whole minutes, the start rounded up and the end too: a fire is at the start of its minute.
        let (from, to) =
            (from.div_euclid(60) + i64::from(from % 60 > 0), to.div_euclid(60) + i64::from(to % 60 > 0));
        let a_day = u64::from(self.expression.minutes.len() * self.expression.hours.len());
        let mut total = 0;
        let Some(mut date) = date_of(from.div_euclid(1_440)) else { return 0 };
        let mut start = from.div_euclid(1_440) * 1_440;
        while start < to {
            if self.matches(date) {
                let (first, end) = ((from - start).max(0), (to - start).min(1_440));
                total += if first == 0 && end == 1_440 { a_day } else { self.count_in_day(first, end) };
            }
            start += 1_440;
            let Ok(tomorrow) = date.tomorrow() else { break };
            date = tomorrow;
        }
        total
    }

    /// How many fires a day has from its minute `from` to before its minute `to`.
    fn count_in_day(&self, from: i64, to: i64) -> u64 {
        let in_hour = |hour: u8| {
            let start = i64::from(hour) * 60;
            let bound = |minute: i64| u8::try_from((minute - start).clamp(0, 60)).unwrap_or(60);
            u64::from(self.expression.minutes.count_in(bound(from)..bound(to)))
        };
        self.expression.hours.values().map(in_hour).sum()
    }

    fn matches(&self, date: Date) -> bool {
        let number = |number: i8| u8::try_from(number).unwrap_or_default();
        let weekday = number(date.weekday().to_sunday_zero_offset());
        self.expression.matches_day(number(date.month()), number(date.day()), weekday)
    }
}

/// The expression for the `cron` crate: seconds first, weekdays from 1 for Sunday.
fn schedule(expression: &Expression, days: Set, weekdays: Set) -> Result<cron::Schedule, ScheduleError> {
    let list = |set: Set, all: Set, first: u8| {
        if set == all {
            return "*".to_owned();
        }
        set.values().map(|value| (value + first).to_string()).collect::<Vec<_>>().join(",")
    };
    let text = format!(
        "0 {} {} {} {} {}",
        list(expression.minutes, Set::range(0, 59), 0),
        list(expression.hours, Set::range(0, 23), 0),
        list(days, Set::range(1, 31), 0),
        list(expression.months, Set::range(1, 12), 0),
        list(weekdays, Set::range(0, 6), 1),
    );
    cron::Schedule::from_str(&text)
        .map_err(|error| ScheduleError::new(format!("`{text}` is not understood: {error}")))
}

fn seconds(offset: Offset) -> i64 {
    i64::from(offset.seconds())
}

/// The whole second at or before an instant.
fn floor(instant: Timestamp) -> i64 {
    instant.as_second() - i64::from(instant.subsec_nanosecond() < 0)
}

/// The day number of a date, counted from the epoch.
fn days_of(date: Date) -> i64 {
    Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).map_or(0, |midnight| midnight.as_second().div_euclid(DAY))
}

/// The date of a day number, counted from the epoch.
fn date_of(days: i64) -> Option<Date> {
    Timestamp::from_second(days.checked_mul(DAY)?)
        .ok()
        .map(|midnight| Offset::UTC.to_datetime(midnight).date())
}
