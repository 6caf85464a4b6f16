//! Dates: texts of one format that can be compared, `2026-03-01T10:00:00.000Z`.

use jiff::SignedDuration;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::{self, TimeZone};
use value::Value;
use value::instant::Instant;

use super::arguments::{Arguments, article, shorten};

/// The maximum length of a date, and of its format, in bytes.
const MAX_LENGTH: usize = 200;
/// RFC 3339 with the UTC offset of the zone.
const FORMAT: &str = "%Y-%m-%dT%H:%M:%S%:z";

/// `parseDate(date, format=, timezone=, unit=)`.
pub(super) fn parse_date(arguments: &Arguments<'_>) -> Result<Value, String> {
    to_value(instant_argument(arguments)?)
}

/// `formatDate(date, format=, timezone=)`: the default format is RFC 3339 with the offset of the zone, to the second.
pub(super) fn format_date(arguments: &Arguments<'_>) -> Result<Value, String> {
    let zone = zone_argument(arguments)?;
    // A date without an offset is in this zone.
    let at = parse(arguments.value("date"), &zone, "s")?;
    let format = arguments.text("format")?.unwrap_or(FORMAT);
    check_length(format, "the format")?;
    check_format(format)?;
    let text = write(at, &zone, format)?.map_err(|error| {
        format!("`{}` is not a format: {error}; it is one such as `%Y-%m-%d %H:%M`", shorten(format))
    })?;
    Ok(Value::from(text))
}

/// Writes an instant in a zone. The inner error is about the format.
fn write(at: Instant, zone: &TimeZone, format: &str) -> Result<Result<String, jiff::Error>, String> {
    let timestamp = at.to_timestamp();
    if Instant::from(timestamp) == at {
        return Ok(strtime::format(format, &timestamp.to_zoned(zone.clone())));
    }
    // The last day of the year 9999, which has no timestamp.
    let (local, offset) = at.in_zone(zone).ok_or_else(out_of_range)?;
    let mut parts = BrokenDownTime::from(local);
    parts.set_offset(Some(offset));
    let mut text = String::new();
    Ok(parts.format(format, &mut text).map(|()| text))
}

/// Rejects a format without any `%`, whose output would be constant.
fn check_format(format: &str) -> Result<(), String> {
    match foreign_format(format) {
        None => Ok(()),
        Some((message, None)) => Err(message),
        Some((message, Some(meant))) => Err(format!("{message}; write `'{meant}'`")),
    }
}

/// The error of a date format without any `%`, or with the month in place of the minute, and the equivalent format if it is known.
/// `None` for a valid format.
pub(crate) fn foreign_format(format: &str) -> Option<(String, Option<String>)> {
    if format.len() > MAX_LENGTH {
        return None;
    }
    if format.contains('%') {
        let meant = with_minute_and_month(format);
        let message = format!(
            "in `{}` the month and the minute are exchanged: `%m` is the month, `%M` the minute",
            shorten(format)
        );
        return Some((message, Some(meant))).filter(|(_, meant)| meant.as_deref() != Some(format));
    }
    let message = format!("`{}` has no `%`, so every date would give the same text", shorten(format));
    Some((message, translate_format(format)))
}

/// Writes `%M` behind an hour, and `%m` beside a day or a year.
fn with_minute_and_month(format: &str) -> String {
    let mut meant = format.to_owned();
    for hour in ["%H", "%I", "%-H", "%-I"] {
        meant = meant.replace(&format!("{hour}:%m"), &format!("{hour}:%M"));
    }
    for other in ["%d", "%Y", "%y", "%-d"] {
        for sign in ['-', '.', '/'] {
            meant = meant.replace(&format!("{other}{sign}%M"), &format!("{other}{sign}%m"));
            meant = meant.replace(&format!("%M{sign}{other}"), &format!("%m{sign}{other}"));
        }
    }
    meant
}

/// Format letters of other tools (Java, .NET, Moment, Luxon), longest first.
const LETTERS: [(&str, &str); 38] = [
    ("yyyy", "%Y"),
    ("YYYY", "%Y"),
    ("yy", "%y"),
    ("YY", "%y"),
    ("MMMM", "%B"),
    ("MMM", "%b"),
    ("MM", "%m"),
    ("M", "%-m"),
    ("dddd", "%A"),
    ("ddd", "%a"),
    ("dd", "%d"),
    ("d", "%-d"),
    ("DDDD", "%j"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("D", "%-d"),
    ("EEEE", "%A"),
    ("EEE", "%a"),
    ("E", "%a"),
    ("HH", "%H"),
    ("H", "%-H"),
    ("hh", "%I"),
    ("h", "%-I"),
    ("mm", "%M"),
    ("m", "%-M"),
    ("ss", "%S"),
    ("s", "%-S"),
    ("SSS", "%3f"),
    ("fff", "%3f"),
    ("tt", "%p"),
    ("a", "%p"),
    ("A", "%p"),
    ("XXX", "%:z"),
    ("ZZ", "%z"),
    ("zzz", "%:z"),
    ("xxx", "%:z"),
    ("Z", "%:z"),
    ("T", "T"),
];

/// Translates a format of another tool; `None` if it has unknown letters.
fn translate_format(format: &str) -> Option<String> {
    let (mut rest, mut out, mut any) = (format, String::new(), false);
    while let Some(first) = rest.chars().next() {
        let close = match first {
            '\'' => Some('\''),
            '[' => Some(']'),
            _ => None,
        };
        // Literal text: `'T'` in Java, `[T]` in Moment.
        if let Some((inside, after)) = close.and_then(|close| rest[1..].split_once(close)) {
            out.push_str(inside);
            rest = after;
            continue;
        }
        if !first.is_ascii_alphabetic() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let run = rest.find(|c| c != first).unwrap_or(rest.len());
        let (_, here) = LETTERS.iter().find(|(letters, _)| *letters == &rest[..run])?;
        any |= here.starts_with('%');
        out.push_str(here);
        rest = &rest[run..];
    }
    any.then_some(out)
}

/// The instant of the `date` argument, read with the arguments `format`, `timezone` and `unit`.
fn instant_argument(arguments: &Arguments<'_>) -> Result<Instant, String> {
    let zone = zone_argument(arguments)?;
    let date = arguments.value("date");
    match (arguments.text("format")?, date) {
        (Some(format), Value::String(text)) => {
            check_length(format, "the format")?;
            check_format(format)?;
            check_length(text, "the date")?;
            parse_format(format, text, &zone).map_err(|error| {
                format!("`{}` is not a date of the format `{}`: {error}", shorten(text), shorten(format))
            })
        }
        _ => parse(date, &zone, arguments.word("unit", &["s", "ms"])?),
    }
}

fn parse_format(format: &str, text: &str, zone: &TimeZone) -> Result<Instant, jiff::Error> {
    let parts = strtime::parse(format, text)?;
    if parts.timestamp().is_some() {
        return parts.to_timestamp().map(Instant::from);
    }
    if parts.iana_time_zone().is_some() {
        return parts.to_zoned().map(|at| Instant::from(at.timestamp()));
    }
    let midnight = jiff::civil::Time::midnight();
    let time = if parts.hour().is_some() { parts.to_time()? } else { midnight };
    let local = parts.to_date()?.to_datetime(time);
    Ok(match parts.offset() {
        Some(offset) => Instant::at_offset(local, offset),
        None => Instant::local(local, zone),
    })
}

pub(super) fn parse(date: &Value, zone: &TimeZone, unit: &str) -> Result<Instant, String> {
    match date {
        Value::String(text) => {
            check_length(text, "the date")?;
            parse_plain(text.trim(), zone).ok_or_else(|| {
                format!(
                    "`{}` is not a date; write one such as `2026-03-01T10:00:00Z`, or read it first with \
                     `parseDate(…, format='%d.%m.%Y')`",
                    shorten(text)
                )
            })
        }
        Value::Number(number) => {
            let elapsed = match (number.as_i64(), unit) {
                (Some(whole), "ms") => Some(SignedDuration::from_millis(whole)),
                (Some(whole), _) => Some(SignedDuration::from_secs(whole)),
                (None, unit) => {
                    let seconds = number.as_f64().unwrap_or(f64::MAX) / if unit == "ms" { 1e3 } else { 1.0 };
                    SignedDuration::try_from_secs_f64(seconds).ok()
                }
            };
            elapsed.and_then(Instant::from_epoch).ok_or_else(out_of_range)
        }
        other => Err(format!("`date` is {}, not a date", article(other))),
    }
}

/// Parses RFC 3339 and similar formats, with or without an offset, a date alone, and the format of HTTP and mail headers.
fn parse_plain(text: &str, zone: &TimeZone) -> Option<Instant> {
    Instant::parse_in(text, zone)
        .or_else(|| rfc2822::DateTimeParser::new().parse_timestamp(text).ok().map(Instant::from))
}

/// The zone of the `timezone` argument, else UTC. Uses the system's time zone database, or the built-in one if there is none.
pub(super) fn zone_argument(arguments: &Arguments<'_>) -> Result<TimeZone, String> {
    let Some(name) = arguments.text("timezone")? else { return Ok(TimeZone::UTC) };
    let found = tz::db().get(name).ok().filter(|zone| !zone.is_unknown() && zone.iana_name().is_some());
    found.ok_or_else(|| {
        let hint = match value::instant::suggest_zone(name) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "write an IANA name such as `Europe/Berlin` or `UTC`".to_owned(),
        };
        format!("`{}` is not a time zone; {hint}", shorten(name))
    })
}

/// Formats a date as functions return it: UTC with milliseconds and a constant length, so that texts compare like instants.
pub(super) fn to_value(at: impl Into<Instant>) -> Result<Value, String> {
    let at = at.into().utc();
    if !(0..=9999).contains(&at.year()) {
        return Err(out_of_range());
    }
    strtime::format("%Y-%m-%dT%H:%M:%S.%3fZ", at).map(Value::from).map_err(|error| error.to_string())
}

pub(super) fn out_of_range() -> String {
    "the date is outside the years 0 to 9999".to_owned()
}

fn check_length(text: &str, what: &str) -> Result<(), String> {
    if text.len() > MAX_LENGTH { Err(format!("{what} is longer than {MAX_LENGTH} bytes")) } else { Ok(()) }
}
