//! Parsing and formatting of durations and sizes: `10s`, `1h30m`, `250ms`; `256KiB`, `6MiB`.
//!
//! A number without a unit is an error, because a reader cannot distinguish seconds from milliseconds.

use std::fmt::Write as _;
use std::time::Duration;

/// The longest duration accepted: ten years of 365 days.
pub const MAX_DURATION: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// Units of a duration, longest first, with their length in milliseconds.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of a size with their length in bytes. [`format_size`] uses only the binary units, which come first.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

/// An error in a duration or a size. The message says how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A duration without a unit.
    #[error("`{0}` has no unit; write `{0}s` for seconds, `{0}m` for minutes, or `{0}ms` for milliseconds")]
    DurationWithoutUnit(String),
    /// A size without a unit.
    #[error("`{0}` has no unit; write `{0}B` for bytes, `{0}KiB` or `{0}MiB`")]
    SizeWithoutUnit(String),
    /// A text that is not a duration.
    #[error(
        "`{0}` is not a duration; write a number and a unit (ms, s, m, h, d), like `10s`, `5m` or `1h30m`"
    )]
    NotADuration(String),
    /// A text that is not a size.
    #[error("`{0}` is not a size; write a number and a unit (B, KiB, MiB, GiB), like `256KiB` or `6MiB`")]
    NotASize(String),
    /// A duration above [`MAX_DURATION`].
    #[error("`{0}` is too much; the longest duration is 3650d")]
    DurationTooLong(String),
    /// A size above 64 bits.
    #[error("`{0}` is too much for a size")]
    SizeTooLarge(String),
    /// Months or years where only a fixed length has a meaning.
    #[error("`{0}` has no fixed length, because months and years differ; write days, like `30d`")]
    NoFixedLength(String),
}

/// A duration of data: months and days of a calendar, and a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    /// The months; a year has 12.
    pub months: u32,
    /// The days.
    pub days: u32,
    /// The time in addition to them.
    pub time: Duration,
}

impl Period {
    /// The length if a day has 24 hours; `None` with months.
    #[must_use]
    pub fn fixed_length(&self) -> Option<Duration> {
        (self.months == 0).then(|| self.time + Duration::from_secs(u64::from(self.days) * DAY_SECONDS))
    }
}

/// The seconds of a day.
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// The longest period in months: the years that dates have.
const MAX_MONTHS: u64 = 9_999 * 12;

/// Parses a duration: whole numbers, each with a unit of `ms`, `s`, `m`, `h` or `d`, the longer units first.
///
/// # Errors
/// Returns an error if the text is malformed, lacks a unit, or is over [`MAX_DURATION`].
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let wrong = || Error::NotADuration(quote(text));
    if is_bare_number(text) {
        return Err(Error::DurationWithoutUnit(quote(text)));
    }
    let (mut rest, mut total, mut allowed) = (text, 0_u64, 0);
    while !rest.is_empty() || allowed == 0 {
        let (digits, after) = split_at_first(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_at_first(after, |c| c.is_ascii_digit());
        let position = DURATION_UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(wrong)?;
        if digits.is_empty() || position < allowed {
            return Err(wrong());
        }
        let count: u64 = digits.parse().map_err(|_| Error::DurationTooLong(quote(text)))?;
        let length = count.checked_mul(DURATION_UNITS[position].1);
        total = length
            .and_then(|length| total.checked_add(length))
            .ok_or_else(|| Error::DurationTooLong(quote(text)))?;
        (rest, allowed) = (after, position + 1);
    }
    let duration = Duration::from_millis(total);
    if duration > MAX_DURATION { Err(Error::DurationTooLong(quote(text))) } else { Ok(duration) }
}

/// Parses a duration that comes from data: the forms of [`parse_duration`], with `y` and `mo` in addition, and those of ISO 8601,
/// such as `P1M` and `P1DT2H30M`.
///
/// # Errors
/// Returns an error if the text is malformed, lacks a unit, or is too long.
pub fn parse_period(text: &str) -> Result<Period, Error> {
    if let Some(rest) = text.strip_prefix('P') {
        return parse_iso(text, rest);
    }
    let too_long = || Error::DurationTooLong(quote(text));
    let (mut rest, mut counts) = (text, [0_u64; 3]);
    for (unit, sum) in ["y", "mo", "d"].into_iter().zip(&mut counts) {
        let (digits, after) = split_at_first(rest, |c| !c.is_ascii_digit());
        let Some(after) = after.strip_prefix(unit).filter(|_| !digits.is_empty()) else { continue };
        *sum = digits.parse().map_err(|_| too_long())?;
        rest = after;
    }
    let [years, months, days] = counts;
    let time = match rest {
        "" if rest.len() < text.len() => Duration::ZERO,
        // Days come before.
        _ if rest.len() < text.len() && rest.contains('d') => return Err(Error::NotADuration(quote(text))),
        _ if rest.len() < text.len() => parse_duration(rest).map_err(|error| match error {
            Error::DurationTooLong(_) => too_long(),
            // The message shows the whole text.
            _ => Error::NotADuration(quote(text)),
        })?,
        _ => parse_duration(text)?,
    };
    period(years.saturating_mul(12).saturating_add(months), days, time).ok_or_else(too_long)
}

/// A period within the limits.
fn period(months: u64, days: u64, time: Duration) -> Option<Period> {
    let length = Duration::from_secs(days.saturating_mul(DAY_SECONDS)).checked_add(time)?;
    let period = Period { months: u32::try_from(months).ok()?, days: u32::try_from(days).ok()?, time };
    (length <= MAX_DURATION && months <= MAX_MONTHS).then_some(period)
}

/// Parses a duration that comes from data and has a fixed length: as [`parse_period`], but without months and years.
///
/// # Errors
/// As [`parse_period`].
pub fn parse_fixed_period(text: &str) -> Result<Duration, Error> {
    parse_period(text)?.fixed_length().ok_or_else(|| Error::NoFixedLength(quote(text)))
}

/// Units of an ISO 8601 duration before and behind its `T`, longest first: the letter, its months, and its milliseconds.
const ISO_DATE: [(char, u64, u64); 4] =
    [('Y', 12, 0), ('M', 1, 0), ('W', 0, 7 * DAY_SECONDS * 1_000), ('D', 0, DAY_SECONDS * 1_000)];
const ISO_TIME: [(char, u64, u64); 3] = [('H', 0, 3_600_000), ('M', 0, 60_000), ('S', 0, 1_000)];

/// Parses what follows the `P` of an ISO 8601 duration. Only the last number may have a fraction, and only in the time.
fn parse_iso(text: &str, rest: &str) -> Result<Period, Error> {
    let (wrong, too_long) = (|| Error::NotADuration(quote(text)), || Error::DurationTooLong(quote(text)));
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return Err(wrong()),
        Some((date, time)) => (date, time),
        None if rest.is_empty() => return Err(wrong()),
        None => (rest, ""),
    };
    let (mut months, mut day_millis, mut millis) = (0_u64, 0_u64, 0_u64);
    for (part, units, is_time) in [(date, &ISO_DATE[..], false), (time, &ISO_TIME[..], true)] {
        let (mut rest, mut allowed) = (part, 0);
        while !rest.is_empty() {
            let (digits, after) = split_at_first(rest, |c| !c.is_ascii_digit());
            let (fraction, after) = match after.strip_prefix(['.', ',']).filter(|_| is_time) {
                Some(after) => split_at_first(after, |c| !c.is_ascii_digit()),
                None => ("", after),
            };
            let letter = after.chars().next().ok_or_else(wrong)?;
            let position = units.iter().position(|(unit, ..)| *unit == letter).filter(|at| *at >= allowed);
            let (_, unit_months, unit_millis) = units[position.ok_or_else(wrong)?];
            (rest, allowed) = (&after[letter.len_utf8()..], position.map_or(0, |at| at + 1));
            if digits.is_empty()
                || digits.len() > 12
                || fraction.len() > 9
                || (!fraction.is_empty() && !rest.is_empty())
            {
                return Err(if digits.len() > 12 { too_long() } else { wrong() });
            }
            let count: u64 = digits.parse().map_err(|_| too_long())?;
            let parts: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
            let scale = 10_u64.pow(u32::try_from(fraction.len()).unwrap_or_default());
            months = months.saturating_add(count.saturating_mul(unit_months));
            let length = count.saturating_mul(unit_millis).saturating_add(unit_millis * parts / scale);
            let sum = if is_time { &mut millis } else { &mut day_millis };
            *sum = sum.saturating_add(length);
        }
    }
    period(months, day_millis / (DAY_SECONDS * 1_000), Duration::from_millis(millis)).ok_or_else(too_long)
}

/// Parses a size in bytes: one whole number and a unit of `B`, `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) or `KB`,
/// `MB`, `GB`, `TB` (powers of 1000).
///
/// # Errors
/// Returns an error if the text is malformed, lacks a unit, or does not fit 64 bits.
pub fn parse_size(text: &str) -> Result<u64, Error> {
    if is_bare_number(text) {
        return Err(Error::SizeWithoutUnit(quote(text)));
    }
    let (digits, unit) = split_at_first(text, |c| !c.is_ascii_digit());
    let bytes = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
    let bytes = bytes.filter(|_| !digits.is_empty()).ok_or_else(|| Error::NotASize(quote(text)))?;
    let count: Option<u64> = digits.parse().ok();
    count.and_then(|count| count.checked_mul(bytes)).ok_or_else(|| Error::SizeTooLarge(quote(text)))
}

/// Suggests a duration for a text that [`parse_duration`] rejects: `10s` for `PT10S`, `10m` for `10 minutes`. `None` if the
/// text cannot be understood.
#[must_use]
pub fn suggest_duration(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(length) = clock_duration(&text) {
        return Some(format_duration(length));
    }
    let (mut rest, is_iso) = match text.strip_prefix('p') {
        Some(rest) => (rest, true),
        None => (text.as_str(), false),
    };
    let (mut millis, mut in_time, mut any) = (0_f64, false, false);
    while !rest.is_empty() {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if let Some(after) = rest.strip_prefix('t').filter(|_| is_iso && !in_time) {
            (rest, in_time) = (after, true);
            continue;
        }
        let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit() && c != '.');
        let after = after.trim_start();
        // In an ISO duration each unit is one letter; the `T` of `P1DT2H` is a separator.
        let (unit, after) = match after.chars().next() {
            Some(first) if is_iso => after.split_at(first.len_utf8()),
            _ => split_at_first(after, |c| !c.is_ascii_alphabetic()),
        };
        let length = match unit {
            "y" | "w" if is_iso && !in_time => return None,
            "m" if is_iso && !in_time => return None,
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            "w" | "week" | "weeks" => 7.0 * 86_400_000.0,
            _ => return None,
        };
        millis += number.parse::<f64>().ok()? * length;
        (rest, any) = (after.trim_start(), true);
        if let Some(after) = rest.strip_prefix("and ") {
            rest = after;
        }
    }
    let most = MAX_DURATION.as_secs_f64() * 1_000.0;
    let duration =
        Duration::try_from_secs_f64(millis.round() / 1_000.0).ok().filter(|_| any && millis <= most)?;
    Some(format_duration(duration))
}

/// A duration in the form of a clock: `00:00:10`.
fn clock_duration(text: &str) -> Option<Duration> {
    let parts: Vec<u64> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts.as_slice() else { return None };
    let total = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(*seconds)?;
    Some(Duration::from_secs(total)).filter(|length| !length.is_zero() && *length <= MAX_DURATION)
}

/// Suggests a size for a text that [`parse_size`] rejects: `5MB` for `5 mb`. `None` if the text cannot be understood.
#[must_use]
pub(crate) fn suggest_size(text: &str) -> Option<String> {
    let text = text.trim();
    let (digits, unit) = split_at_first(text, |c| !c.is_ascii_digit());
    let unit = unit.trim().to_ascii_lowercase();
    let unit = match unit.as_str() {
        "b" | "byte" | "bytes" => "B",
        "k" | "kb" | "kilobyte" | "kilobytes" => "KB",
        "m" | "mb" | "megabyte" | "megabytes" => "MB",
        "g" | "gb" | "gigabyte" | "gigabytes" => "GB",
        "ki" | "kib" => "KiB",
        "mi" | "mib" => "MiB",
        "gi" | "gib" => "GiB",
        _ => return None,
    };
    let meant = format!("{digits}{unit}");
    parse_size(&meant).is_ok().then_some(meant)
}

/// Formats a duration for [`parse_duration`], to the millisecond: `1h30m`. Zero is `0s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut out = String::new();
    for (unit, length) in DURATION_UNITS {
        if left >= length {
            let _ = write!(out, "{}{unit}", left / length);
            left %= length;
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

/// Formats a size for [`parse_size`], exactly, in the largest binary unit that divides it.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let fits = |(_, length): &&(&str, u64)| bytes >= *length && bytes.is_multiple_of(*length);
    let (unit, length) = SIZE_UNITS[..5].iter().find(fits).unwrap_or(&SIZE_UNITS[4]);
    format!("{}{unit}", bytes / length)
}

fn is_bare_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text != "."
}

fn split_at_first(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// Shortens a text of any length for a message.
fn quote(text: &str) -> String {
    crate::truncate(text, 40).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn duration(text: &str, milliseconds: u64) {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
    }

    fn refused(text: &str, words: &str) {
        let message = parse_duration(text).map(format_duration).unwrap_or_else(|error| error.to_string());
        assert!(message.contains(words), "{text}: {message}");
    }

    #[test]
    fn a_period_of_data_has_months_days_and_a_time() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        for (text, months, days, time) in [
            ("1mo", 1, 0, hours(0)),
            ("1y2mo3d4h", 14, 3, hours(4)),
            ("36h", 0, 0, hours(36)),
            ("1d30m", 0, 1, Duration::from_secs(1800)),
            ("P1Y2M3DT4H", 14, 3, hours(4)),
            ("PT15M", 0, 0, Duration::from_secs(900)),
            ("P2W", 0, 14, hours(0)),
            ("PT36H", 0, 0, hours(36)),
            ("PT0.5S", 0, 0, Duration::from_millis(500)),
            ("PT1,5H", 0, 0, Duration::from_secs(5400)),
        ] {
            assert_eq!(parse_period(text), Ok(Period { months, days, time }), "{text}");
        }
        for text in [
            "P", "PT", "P1", "P1S", "PT1D", "P1DT", "PT1H2H", "PT1M2H", "P0.5D", "PT1.5H2M", "pt1h", "1mo1y",
            "1d1mo", "1d2d", "1m1d", "mo", "1.5y", "P-1D",
        ] {
            assert!(parse_period(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_with_months_has_no_fixed_length() {
        assert_eq!(parse_fixed_period("P1DT1H"), Ok(Duration::from_secs(25 * 3600)));
        for text in ["1mo", "P1M", "P1Y"] {
            let message =
                parse_fixed_period(text).map(format_duration).unwrap_or_else(|error| error.to_string());
            assert!(message.contains("has no fixed length"), "{text}: {message}");
        }
        for text in ["3651d", "PT87601H", "P3651D", "10000y", "P10000Y", "P99999999999999999999D"] {
            assert!(matches!(parse_period(text), Err(Error::DurationTooLong(_))), "{text}");
        }
        assert_eq!(parse_period("90"), Err(Error::DurationWithoutUnit("90".to_owned())));
    }

    #[test]
    fn durations_are_numbers_with_units() {
        duration("10s", 10_000);
        duration("5m", 300_000);
        duration("2h", 7_200_000);
        duration("1d", 86_400_000);
        duration("250ms", 250);
        duration("1h30m", 5_400_000);
        duration("0s", 0);
    }

    #[test]
    fn a_number_without_a_unit_is_rejected_with_a_suggestion() {
        refused("10", "write `10s` for seconds");
        refused("1.5", "has no unit");
        assert!(parse_size("10").is_err_and(|error| error.to_string().contains("`10B` for bytes")));
    }

    #[test]
    fn other_notations_have_a_suggestion() {
        for (text, meant) in [
            ("PT10S", Some("10s")),
            ("P1DT2H", Some("1d2h")),
            ("10 minutes", Some("10m")),
            ("1.5h", Some("1h30m")),
            ("90 sec", Some("1m30s")),
            ("2 hours and 5 min", Some("2h5m")),
            ("1 week", Some("7d")),
            ("P1M", None),
            ("soon", None),
            ("", None),
            ("9999999d", None),
        ] {
            assert_eq!(suggest_duration(text).as_deref(), meant, "{text}");
        }
        for (text, meant) in
            [("5 MB", Some("5MB")), ("256k", Some("256KB")), ("1 mib", Some("1MiB")), ("big", None)]
        {
            assert_eq!(suggest_size(text).as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in ["", "s", "10 s", "-1s", "1.5h", "10sec", "1m1h", "1s1s", "１s", "10S"] {
            refused(text, "is not a duration");
        }
        for text in ["3651d", "99999999999999999999d", "18446744073709551615d"] {
            refused(text, "is too much");
        }
    }

    #[test]
    fn sizes_are_numbers_with_units() {
        assert_eq!(parse_size("256KiB"), Ok(256 * 1024));
        assert_eq!(parse_size("6MiB"), Ok(6 * 1024 * 1024));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        assert_eq!(parse_size("0B"), Ok(0));
        for text in ["", "KiB", "1.5MiB", "1 KiB", "6mib", "99999999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatted_values_parse_back(ms in 0..=315_360_000_000_u64, bytes: u64) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "(?s).{0,20}|[0-9a-zA-Z.]{0,30}") {
            let _ = (parse_duration(&text), parse_size(&text), parse_period(&text), parse_period(&format!("P{text}")));
        }
    }
}
