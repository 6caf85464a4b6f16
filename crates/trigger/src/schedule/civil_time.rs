//! Evaluates a cron expression in the civil time of a zone.
//!
//! A zone's timeline is divided at its clock changes into periods of constant UTC offset. Within a period, local time is elapsed
//! time plus the offset, so the `cron` crate computes with plain local times only. For zoned times it is wrong: it ignores
//! skipped times, and for repeated times it may return an instant before the requested one.
//!
//! All numbers are whole seconds: `instant` counts from the Unix epoch, `local` is an instant plus the offset of the period.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};

use super::LAST_YEAR;
use super::cron_expression::{CronExpression, ValueSet};
use super::error::ScheduleError;

const DAY: i64 = 86_400;

/// Before every local time of 1970 in any zone; earlier instants are not searched.
const EARLIEST: Timestamp = Timestamp::constant(-2 * DAY, 0);

/// An upper bound of the number of clock changes of a zone until [`LAST_YEAR`].
const MAX_PERIODS: usize = 4_096;

#[derive(Clone, Debug)]
pub(super) struct CivilTime {
    expression: CronExpression,
    /// One schedule, or two if both day fields are restricted and either may match: `cron` requires both to match.
    schedules: Vec<cron::Schedule>,
}

/// A period of constant UTC offset between two clock changes.
#[derive(Debug)]
struct OffsetPeriod {
    /// Seconds from UTC to local time.
    offset: i64,
    /// Local times before this one already occurred in the previous period, before the clocks were set back.
    repeats_until: i64,
    /// The clock change at the end; `None` if there is none.
    end: Option<ClockChange>,
}

/// A clock change.
#[derive(Clone, Copy, Debug)]
struct ClockChange {
    /// The first instant after the change.
    at: i64,
    /// The offset after the change.
    offset: i64,
}

impl CivilTime {
    pub(super) fn new(expression: CronExpression) -> Result<Self, ScheduleError> {
        let (dates, weekdays) = (expression.days_restricted, expression.weekdays_restricted);
        let day_fields: &[(bool, bool)] =
            if dates && weekdays { &[(true, false), (false, true)] } else { &[(true, true)] };
        let schedules = day_fields
            .iter()
            .map(|(by_date, by_weekday)| {
                let days = if *by_date { expression.days } else { ValueSet::range(1, 31) };
                let weekdays = if *by_weekday { expression.weekdays } else { ValueSet::range(0, 6) };
                schedule(&expression, days, weekdays)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { expression, schedules })
    }

    pub(super) fn expression(&self) -> &CronExpression {
        &self.expression
    }

    /// The first instant after `after`; `None` if there is none.
    pub(super) fn next_after(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        // The schedule fires at whole seconds, so the fraction is irrelevant.
        let mut cursor = after.max(EARLIEST);
        let mut last = floor(cursor);
        for _ in 0..MAX_PERIODS {
            let period = self.offset_period(zone, cursor);
            let mut local = last + period.offset;
            if self.expression.hour_fixed {
                local = local.max(period.repeats_until - 1);
            }
            let found = self.next_local(local);
            let Some(change) = period.end else {
                return Timestamp::from_second(found? - period.offset).ok();
            };
            // If nothing matches after the gap, nothing matches inside it, since the times of a gap precede those after it.
            let instant = found? - period.offset;
            if instant < change.at {
                return Timestamp::from_second(instant).ok();
            }
            let end = Timestamp::from_second(change.at).ok()?;
            if self.expression.hour_fixed && self.skips_match(&period, change) {
                return Some(end);
            }
            (cursor, last) = (end, change.at - 1);
        }
        None
    }

    /// The number of instants after `since`, up to and including `now`. The cost grows with the number of days, not of instants.
    pub(super) fn count(&self, zone: &TimeZone, since: Timestamp, now: Timestamp) -> u64 {
        let mut cursor = since.max(EARLIEST);
        let (mut last, now) = (floor(cursor), floor(now));
        let mut total = 0;
        for _ in 0..MAX_PERIODS {
            let period = self.offset_period(zone, cursor);
            let change = period.end.filter(|change| change.at <= now);
            let until = change.map_or(now + 1, |change| change.at);
            let mut from = last + 1 + period.offset;
            if self.expression.hour_fixed {
                from = from.max(period.repeats_until);
            }
            total += self.count_local(from, until + period.offset);
            let Some(change) = change else { return total };
            let first = change.at + change.offset;
            if self.expression.hour_fixed
                && self.skips_match(&period, change)
                && self.count_local(first, first + 1) == 0
            {
                total += 1;
            }
            let Ok(end) = Timestamp::from_second(change.at) else { return total };
            (cursor, last) = (end, change.at - 1);
        }
        total
    }

    /// The period of constant offset around an instant.
    fn offset_period(&self, zone: &TimeZone, instant: Timestamp) -> OffsetPeriod {
        let offset = seconds(zone.to_offset(instant));
        let end = zone.following(instant).next().map(|change| ClockChange {
            at: change.timestamp().as_second(),
            offset: seconds(change.offset()),
        });
        // Local times before 1970 never fire, so 0 means that no time repeats.
        let mut repeats_until = 0;
        if self.expression.hour_fixed {
            // `preceding` excludes the instant itself, which may be the first of its period.
            let nanosecond = jiff::Span::new().nanoseconds(1);
            let start = instant.checked_add(nanosecond).ok().and_then(|after| zone.preceding(after).next());
            let before = start.as_ref().and_then(|start| start.timestamp().checked_sub(nanosecond).ok());
            if let (Some(start), Some(before)) = (start, before) {
                let offset_before = seconds(zone.to_offset(before));
                if offset_before > offset {
                    repeats_until = start.timestamp().as_second() + offset_before;
                }
            }
        }
        OffsetPeriod { offset, repeats_until, end }
    }

    /// True if the change at the end of a period skips a local time that matches.
    fn skips_match(&self, period: &OffsetPeriod, change: ClockChange) -> bool {
        let (from, to) = (change.at + period.offset, change.at + change.offset);
        from < to && self.next_local(from - 1).is_some_and(|local| local < to)
    }

    /// The first matching local time after `local`.
    fn next_local(&self, local: i64) -> Option<i64> {
        let question = DateTime::<Utc>::from_timestamp(local, 0)?;
        let answers = self.schedules.iter().filter_map(|schedule| schedule.after(&question).next());
        answers.map(|answer| answer.timestamp()).min()
    }

    /// The number of matching local times from `from` to before `to`.
    fn count_local(&self, from: i64, to: i64) -> u64 {
        let Some(limit) = Date::new(LAST_YEAR + 1, 1, 1).ok().map(days_of) else { return 0 };
        let (from, to) = (from.max(0), to.min(limit * DAY));
        if from >= to {
            return 0;
        }
        // Round both bounds up to whole minutes, since the schedule fires at the start of a minute.
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

    /// The number of matching minutes of a day from `from` to before `to`.
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

/// Converts the expression for the `cron` crate: seconds first, weekdays from 1 for Sunday.
fn schedule(
    expression: &CronExpression,
    days: ValueSet,
    weekdays: ValueSet,
) -> Result<cron::Schedule, ScheduleError> {
    let list = |set: ValueSet, all: ValueSet, first: u8| {
        if set == all {
            return "*".to_owned();
        }
        set.values().map(|value| (value + first).to_string()).collect::<Vec<_>>().join(",")
    };
    let text = format!(
        "0 {} {} {} {} {}",
        list(expression.minutes, ValueSet::range(0, 59), 0),
        list(expression.hours, ValueSet::range(0, 23), 0),
        list(days, ValueSet::range(1, 31), 0),
        list(expression.months, ValueSet::range(1, 12), 0),
        list(weekdays, ValueSet::range(0, 6), 1),
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

/// The number of days from the epoch to a date.
fn days_of(date: Date) -> i64 {
    Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).map_or(0, |midnight| midnight.as_second().div_euclid(DAY))
}

/// The date of a number of days from the epoch.
fn date_of(days: i64) -> Option<Date> {
    Timestamp::from_second(days.checked_mul(DAY)?)
        .ok()
        .map(|midnight| Offset::UTC.to_datetime(midnight).date())
}
