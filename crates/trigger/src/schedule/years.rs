//! Compares three years of 40 patterns in six zones with a walk over every minute.
//!
//! The walk shares no code with the schedules: it parses fields on its own, uses the zones of `chrono-tz`, and defines clock
//! changes differently: the skipped minutes are those between two consecutive local times, and a time repeats if a later one
//! has occurred.

use chrono::{Datelike as _, NaiveDate, NaiveDateTime, Offset as _, TimeZone as _};
use chrono_tz::Tz;

use super::tests::{cron, instant};

const PATTERNS: [&str; 40] = [
    "*/15 * * * *",
    "7 * * * *",
    "0,30 * * * *",
    "59 * * * *",
    "0 */2 * * *",
    "30 */3 * * *",
    "45 */6 1-15 * *",
    "*/20 * 1,15 * *",
    "0-10 * * 3,4,10,11 sun",
    "*/5 8-16 * * 1-5",
    "0 0 * * *",
    "30 0 * * *",
    "15 1 * * *",
    "59 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "45 2 * * *",
    "0 3 * * *",
    "10 3 * * *",
    "30 3 * * *",
    "0 4 * * *",
    "59 23 * * *",
    "*/10 2 * * *",
    "0,30 1-3 * * *",
    "*/30 0-4 * * sat,sun",
    "20 0,12 * * *",
    "0 9-17 * * 1-5",
    "0 22-23,0-2 * * *",
    "30 2 * * 0",
    "30 2 * * 7",
    "0 1 * * mon",
    "0 0 1 * *",
    "0 0 31 * *",
    "15 2 1-7 4,10 *",
    "0 12 13 * fri",
    "30 2 */2 * mon",
    "0 0 29 2 *",
    "5 0 1 1,7 *",
    "40 1-2 25-31 3,10 *",
];

/// True if the hours of a pattern are a wildcard, which goes by elapsed time.
fn is_wildcard(hours: &str) -> bool {
    hours.starts_with('*')
}

/// The values of a field, by position.
fn values(field: &str, most: usize) -> Vec<bool> {
    const NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let number = |text: &str| {
        let named = NAMES.iter().position(|name| *name == text);
        named.unwrap_or_else(|| text.parse().expect("a number"))
    };
    let mut values = vec![false; most + 1];
    for item in field.split(',') {
        let (range, step) = item.split_once('/').map_or((item, 1), |(range, step)| (range, number(step)));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (usize::from(most == 31 || most == 12), most),
            Some((from, to)) => (number(from), number(to)),
            None => (number(range), number(range)),
        };
        for value in (from..=to).step_by(step) {
            values[value] = true;
        }
    }
    values
}

struct Pattern {
    minutes: Vec<bool>,
    hours: Vec<bool>,
    days: Vec<bool>,
    months: Vec<bool>,
    weekdays: Vec<bool>,
    /// True if either day field may match instead of both.
    either: bool,
    fixed: bool,
}

impl Pattern {
    fn read(text: &str) -> Self {
        let fields: Vec<&str> = text.split(' ').collect();
        let mut weekdays = values(fields[4], 7);
        weekdays[0] |= weekdays[7];
        Self {
            minutes: values(fields[0], 59),
            hours: values(fields[1], 23),
            days: values(fields[2], 31),
            months: values(fields[3], 12),
            weekdays,
            either: fields[2] != "*" && fields[4] != "*",
            fixed: !is_wildcard(fields[1]),
        }
    }

    fn matches_day(&self, day: i64) -> bool {
        let date = NaiveDate::from_num_days_from_ce_opt(i32::try_from(day).expect("a day") + 719_163);
        let date = date.expect("a date");
        let by_date = self.days[date.day() as usize];
        let by_weekday = self.weekdays[date.weekday().num_days_from_sunday() as usize];
        self.months[date.month() as usize]
            && if self.either { by_date || by_weekday } else { by_date && by_weekday }
    }

    /// Visits every minute of local time in chronological order.
    fn fires(&self, periods: &[OffsetPeriod]) -> Vec<i64> {
        let mut found = Vec::new();
        let (mut latest, mut today) = (i64::MIN, (i64::MIN, false));
        let mut matches = |local: i64| {
            let (day, minute) = (local.div_euclid(1_440), local.rem_euclid(1_440));
            if today.0 != day {
                today = (day, self.matches_day(day));
            }
            let (hour, minute) = ((minute / 60) as usize, (minute % 60) as usize);
            today.1 && self.minutes[minute] && self.hours[hour]
        };
        for period in periods {
            for minute in period.from..period.to {
                let local = minute + period.offset;
                let fires = if self.fixed {
                    let skipped = if latest == i64::MIN { local..local } else { latest + 1..local };
                    (local > latest && matches(local))
                        | skipped.fold(false, |any, local| any | matches(local))
                } else {
                    matches(local)
                };
                latest = latest.max(local);
                if fires {
                    found.push(minute * 60);
                }
            }
        }
        found
    }
}

/// A range of minutes since the epoch with a constant UTC offset, in minutes.
struct OffsetPeriod {
    from: i64,
    to: i64,
    offset: i64,
}

fn periods(zone: Tz, from: i64, to: i64) -> Vec<OffsetPeriod> {
    let offset = |minute: i64| {
        let at: NaiveDateTime =
            chrono::DateTime::from_timestamp(minute * 60, 0).expect("an instant").naive_utc();
        i64::from(zone.offset_from_utc_datetime(&at).fix().local_minus_utc() / 60)
    };
    let mut found: Vec<OffsetPeriod> = Vec::new();
    // For decades all zones have changed their clocks at a quarter of an hour.
    for quarter in (from..to).step_by(15) {
        let offset = offset(quarter);
        match found.last_mut() {
            Some(last) if last.offset == offset => last.to = quarter + 15,
            _ => found.push(OffsetPeriod { from: quarter, to: quarter + 15, offset }),
        }
    }
    found
}

fn check(zone: &str, changes: usize) {
    let (from, to) = (instant("2017-01-01T00:00:00Z"), instant("2020-01-01T00:00:00Z"));
    let table: Tz = zone.parse().expect("chrono-tz knows the zone");
    let periods = periods(table, from.as_second() / 60, to.as_second() / 60);
    assert_eq!(periods.len() - 1, changes, "the clocks of {zone} changed as often as history says");
    for text in PATTERNS {
        let expected = Pattern::read(text).fires(&periods);
        // Include the first minute itself.
        let before = from - jiff::SignedDuration::from_secs(1);
        let schedule = cron(text, zone);
        let fires: Vec<i64> =
            schedule.fires(before).take_while(|at| *at < to).map(|at| at.as_second()).collect();
        let differs = fires.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differs, None, "`{text}` in {zone}, seconds since the epoch");
        assert_eq!(fires.len(), expected.len(), "`{text}` in {zone}");
    }
}

#[test]
fn three_years_in_berlin_match_a_walk_over_the_minutes() {
    check("Europe/Berlin", 6);
}

#[test]
fn three_years_in_new_york_match_a_walk_over_the_minutes() {
    check("America/New_York", 6);
}

#[test]
fn three_years_on_lord_howe_with_half_hour_changes_match_a_walk() {
    check("Australia/Lord_Howe", 6);
}

#[test]
fn three_years_on_the_chatham_islands_with_quarter_hour_offsets_match_a_walk() {
    check("Pacific/Chatham", 6);
}

#[test]
fn three_years_in_sao_paulo_without_summer_time_since_2019_match_a_walk() {
    check("America/Sao_Paulo", 5);
}

#[test]
fn three_years_in_casablanca_with_lunar_changes_match_a_walk() {
    check("Africa/Casablanca", 9);
}
