//! The value of a cell.

use calamine::{Data, ExcelDateTime};
use jiff::SignedDuration;
use value::Value;

/// The day after the last one of a spreadsheet, 9999-12-31, counted from 1900 and from 1904.
const END_1900: f64 = 2_958_466.0;
const END_1904: f64 = 2_957_004.0;
/// The numbers below this are exact as whole numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// The milliseconds of a day.
const DAY: f64 = 86_400_000.0;

/// A cell without a value.
#[derive(Debug)]
pub(super) enum Problem {
    /// An error such as `#DIV/0!`.
    Error(String),
    /// A formula whose value is not stored.
    Uncomputed,
    /// Another reason, as a phrase.
    Wrong(String),
}

/// Converts the value of a cell.
pub(super) fn value(data: Data, is_1904: bool) -> Result<Value, Problem> {
    Ok(match data {
        Data::Empty => Value::Null,
        Data::Bool(value) => Value::from(value),
        Data::Int(value) => Value::from(value),
        Data::Float(value) if value.fract() == 0.0 && value.abs() < EXACT => Value::from(value as i64),
        Data::Float(value) if value.is_finite() => Value::from(value),
        Data::Float(_) => return Err(Problem::Wrong("is no finite number".to_owned())),
        Data::String(text) => Value::from(text),
        Data::DateTimeIso(text) => {
            Value::from(text.strip_suffix("T00:00:00").map_or(text.clone(), str::to_owned))
        }
        Data::DurationIso(text) => match text.parse::<SignedDuration>() {
            Ok(time) => Value::from(duration(time.as_secs_f64() / 86_400.0)),
            Err(_) => Value::from(text),
        },
        Data::Error(error) => return Err(Problem::Error(error.to_string())),
        Data::DateTime(date) if date.is_duration() => Value::from(duration(date.as_f64())),
        Data::DateTime(date) => Value::from(date_time(&date, is_1904)?),
    })
}

/// A date, a time of day below the first day, or both. A spreadsheet knows no zone.
fn date_time(date: &ExcelDateTime, is_1904: bool) -> Result<String, Problem> {
    let (days, end) = (date.as_f64(), if is_1904 { END_1904 } else { END_1900 });
    if !(0.0..end).contains(&days) {
        return Err(Problem::Wrong(format!(
            "is the day {days}, which is outside of the calendar of spreadsheets"
        )));
    }
    let (year, month, day, hour, minute, second, millisecond) = date.to_ymd_hms_milli();
    let mut time = format!("{hour:02}:{minute:02}:{second:02}");
    if millisecond > 0 {
        time.push_str(&format!(".{millisecond:03}"));
    }
    if days < 1.0 {
        return Ok(time);
    }
    // Spreadsheets count from 1900 as if it had been a leap year.
    if (year, month, day) == (1900, 2, 29) {
        return Err(Problem::Wrong("is 1900-02-29, a day that there was not".to_owned()));
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    Ok(if time == "00:00:00" { date } else { format!("{date}T{time}") })
}

/// A duration in days as ISO 8601 has it.
fn duration(days: f64) -> String {
    let milliseconds = (days.abs() * DAY).round() as u64;
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let sign = if days < 0.0 { "-" } else { "" };
    let mut text = format!("{sign}PT");
    for (count, unit) in [(hours, 'H'), (minutes, 'M')] {
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    match rest {
        0 if seconds == 0 && hours + minutes > 0 => {}
        0 => text.push_str(&format!("{seconds}S")),
        rest => text.push_str(&format!("{seconds}.{rest:03}S")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::ExcelDateTimeType::{DateTime, TimeDelta};

    fn date(days: f64, is_1904: bool) -> String {
        let data = Data::DateTime(ExcelDateTime::new(days, DateTime, is_1904));
        match value(data, is_1904) {
            Ok(value) => value.to_text(),
            Err(Problem::Wrong(words)) => words,
            Err(problem) => format!("{problem:?}"),
        }
    }

    #[test]
    fn a_date_is_the_day_that_the_sheet_shows() {
        assert_eq!(date(46082.0, false), "2026-03-01");
        assert_eq!(date(46082.0 - 1462.0, true), "2026-03-01");
        assert_eq!(date(46_082.354_166_666_664, false), "2026-03-01T08:30:00");
        assert_eq!(date(0.5, false), "12:00:00");
        assert_eq!(date(1.0, false), "1900-01-01");
        assert_eq!(date(59.0, false), "1900-02-28");
        assert_eq!(date(61.0, false), "1900-03-01");
        assert_eq!(date(2_958_465.0, false), "9999-12-31");
        assert_eq!(date(60.0, false), "is 1900-02-29, a day that there was not");
        for outside in [-1.0, 2_958_466.0, 1e300] {
            assert!(date(outside, false).contains("outside of the calendar"), "{outside}");
        }
    }

    #[test]
    fn a_duration_may_be_longer_than_a_day() {
        let text = |days| value(Data::DateTime(ExcelDateTime::new(days, TimeDelta, false)), false);
        let text = |days| text(days).map(|value| value.to_text()).unwrap_or_default();
        assert_eq!(text(1.25), "PT30H");
        assert_eq!(text(0.0), "PT0S");
        assert_eq!(text(-0.5 / 24.0), "-PT30M");
        assert_eq!(text(1.5 / 86_400.0), "PT1.500S");
    }

    #[test]
    fn a_whole_number_has_no_fraction() {
        let json =
            |number| value(Data::Float(number), false).map(|value| value.to_json()).unwrap_or_default();
        assert_eq!((json(17.0), json(-0.5)), ("17".into(), "-0.5".into()));
        assert!(value(Data::Float(f64::NAN), false).is_err());
    }
}
