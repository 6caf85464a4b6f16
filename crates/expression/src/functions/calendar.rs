//! Calculations with dates: in the calendar of a time zone, which is UTC if the call names none.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Unit};
use text::units::{self, Period};
use value::Value;
use value::instant::Instant;

use super::arguments::{Arguments, shorten};
use super::date::{out_of_range, parse, to_value, zone_argument};

/// The units of calculations with dates, each with its other names.
pub(crate) const UNITS: [(&str, &[&str]); 9] = [
    ("millisecond", &["milliseconds", "millis", "ms"]),
    ("second", &["seconds", "sec", "secs", "s"]),
    ("minute", &["minutes", "min", "mins", "m"]),
    ("hour", &["hours", "h"]),
    ("day", &["days", "d"]),
    ("week", &["weeks", "w", "isoweek"]),
    ("month", &["months", "mo", "mon"]),
    ("quarter", &["quarters", "q"]),
    ("year", &["years", "y"]),
];

/// `addDuration(date, duration, timezone=)`: first months and days in the calendar of the zone, then the time.
pub(super) fn add_duration(arguments: &Arguments<'_>) -> Result<Value, String> {
    let zone = zone_argument(arguments)?;
    let at = parse(arguments.value("date"), &zone, "s")?;
    let (sign, period) = period_argument(arguments)?;
    let moved = if period.months == 0 && period.days == 0 {
        Some(at)
    } else {
        let (months, days) = (sign * i64::from(period.months), sign * i64::from(period.days));
        let calendar = Span::new().try_months(months).and_then(|span| span.try_days(days));
        let calendar = calendar.map_err(|_| out_of_range())?;
        let (local, _) = at.in_zone(&zone).ok_or_else(out_of_range)?;
        local.checked_add(calendar).ok().map(|local| Instant::local(local, &zone))
    };
    let time = SignedDuration::try_from(period.time).map_err(|error| error.to_string())?;
    let time = if sign < 0 { -time } else { time };
    to_value(moved.and_then(|moved| moved.checked_add(time)).ok_or_else(out_of_range)?)
}

/// The sign and the length of the `duration` argument.
fn period_argument(arguments: &Arguments<'_>) -> Result<(i64, Period), String> {
    let text = arguments.value("duration").to_text();
    let (sign, length) = split_sign(&text);
    let period = units::parse_period(length).map_err(|error| error.to_string())?;
    Ok((sign, period))
}

/// Splits the sign from a duration.
pub(crate) fn split_sign(duration: &str) -> (i64, &str) {
    match duration.strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, duration.strip_prefix('+').unwrap_or(duration)),
    }
}

/// `duration(duration)`: whole seconds as an integer, others as a float.
pub(super) fn seconds(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (sign, period) = period_argument(arguments)?;
    let length = period.fixed_length().ok_or_else(|| {
        let text = shorten(&arguments.value("duration").to_text());
        units::Error::NoFixedLength(text).to_string()
    })?;
    let whole = i64::try_from(length.as_secs()).map_err(|error| error.to_string())?;
    Ok(match length.subsec_nanos() {
        0 => Value::from(sign * whole),
        _ if sign < 0 => Value::from(-length.as_secs_f64()),
        _ => Value::from(length.as_secs_f64()),
    })
}

/// `dateDiff(start, end, unit=, timezone=)`: the whole units from one date to the other, negative if it is earlier.
pub(super) fn date_diff(arguments: &Arguments<'_>) -> Result<Value, String> {
    let zone = zone_argument(arguments)?;
    let start = parse(arguments.value("start"), &zone, "s")?;
    let end = parse(arguments.value("end"), &zone, "s")?;
    let unit = unit_argument(arguments, "second")?;
    let elapsed = start.utc().duration_until(end.utc());
    let local = |at: Instant| at.in_zone(&zone).map(|(local, _)| local).ok_or_else(out_of_range);
    let calendar = |largest: Unit| -> Result<Span, String> {
        local(start)?.until((largest, local(end)?)).map_err(|_| out_of_range())
    };
    let count = match unit {
        "millisecond" => i64::try_from(elapsed.as_millis()).map_err(|_| out_of_range())?,
        "minute" => elapsed.as_secs() / 60,
        "hour" => elapsed.as_secs() / 3_600,
        "day" => calendar(Unit::Day)?.get_days().into(),
        "week" => calendar(Unit::Week)?.get_weeks().into(),
        "month" => calendar(Unit::Month)?.get_months().into(),
        "quarter" => i64::from(calendar(Unit::Month)?.get_months()) / 3,
        "year" => calendar(Unit::Year)?.get_years().into(),
        _ => elapsed.as_secs(),
    };
    Ok(Value::from(count))
}

/// `startOf(date, unit, timezone=)`: a week begins on Monday.
pub(super) fn start_of(arguments: &Arguments<'_>) -> Result<Value, String> {
    let zone = zone_argument(arguments)?;
    let at = parse(arguments.value("date"), &zone, "s")?;
    let (local, offset) = at.in_zone(&zone).ok_or_else(out_of_range)?;
    let unit = unit_argument(arguments, "")?;
    let time = local.time();
    let time = match unit {
        "millisecond" => {
            Time::new(time.hour(), time.minute(), time.second(), i32::from(time.millisecond()) * 1_000_000)
        }
        "second" => Time::new(time.hour(), time.minute(), time.second(), 0),
        "minute" => Time::new(time.hour(), time.minute(), 0, 0),
        "hour" => Time::new(time.hour(), 0, 0, 0),
        _ => return first_day(local, unit).and_then(|date| begin(date, &zone)),
    };
    let time = time.map_err(|error| error.to_string())?;
    // In the hour that a change of the clock repeats, the offset tells which of the two it is.
    to_value(Instant::at_offset(DateTime::from_parts(local.date(), time), offset))
}

/// The first day of the day, week, month, quarter or year of a local time.
fn first_day(local: DateTime, unit: &str) -> Result<Date, String> {
    let date = local.date();
    let first = match unit {
        "week" => {
            let days = i64::from(date.weekday().to_monday_zero_offset());
            Span::new().try_days(days).and_then(|days| date.checked_sub(days))
        }
        "month" => Ok(date.first_of_month()),
        "quarter" => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1),
        "year" => Ok(date.first_of_year()),
        _ => Ok(date),
    };
    first.map_err(|_| out_of_range())
}

/// The instant at which a day begins in a zone.
fn begin(date: Date, zone: &TimeZone) -> Result<Value, String> {
    to_value(Instant::local(DateTime::from_parts(date, Time::midnight()), zone))
}

/// The unit of a call, one of [`UNITS`].
fn unit_argument(arguments: &Arguments<'_>, otherwise: &'static str) -> Result<&'static str, String> {
    let Some(text) = arguments.text("unit")? else { return Ok(otherwise) };
    find_unit(text).ok_or_else(|| unknown_unit(text))
}

fn find_unit(text: &str) -> Option<&'static str> {
    UNITS.iter().map(|(unit, _)| *unit).find(|unit| *unit == text)
}

/// The message for a unit that is none.
fn unknown_unit(text: &str) -> String {
    let near = suggest_unit(text).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let names: Vec<String> = UNITS.iter().map(|(unit, _)| format!("`{unit}`")).collect();
    format!("`unit` is `{}`{near}; it may be {}", shorten(text), names.join(", "))
}

/// The unit that another name means.
fn suggest_unit(text: &str) -> Option<&'static str> {
    let lower = text.trim().to_ascii_lowercase();
    let known = UNITS.iter().find(|(unit, others)| *unit == lower || others.contains(&lower.as_str()));
    let near = || {
        let near = text::diagnostic::nearest(&lower, UNITS.iter().map(|(unit, _)| *unit))?;
        find_unit(near)
    };
    known.map(|(unit, _)| *unit).or_else(near)
}

/// The message for a literal unit that is none, and the unit that it means; `None` for a unit.
pub(crate) fn check_unit(text: &str) -> Option<(String, Option<&'static str>)> {
    match find_unit(text) {
        Some(_) => None,
        None => Some((unknown_unit(text), suggest_unit(text))),
    }
}
