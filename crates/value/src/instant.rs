//! Instants as people and services write them.

use std::borrow::Cow;

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::Value;

/// The most digits of a second; further ones are cut off.
const MAX_FRACTION: usize = 9;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// An instant, as date and time in UTC. Unlike [`Timestamp`], it has the last day of the year 9999, which many systems write for "no
/// end".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(DateTime);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(TimeZone::UTC.to_datetime(at))
    }
}

impl Instant {
    /// Parses RFC 3339 (RFC 9557 with a zone in brackets), and similar forms of ISO 8601. `None` if it has neither an offset nor a
    /// zone, or if the two contradict each other.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_with(text, None)
    }

    /// The instant that a value gives: such a text, or seconds since 1970.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::from_epoch(SignedDuration::from_secs(number.as_i64()?)),
            _ => None,
        }
    }

    /// As [`Instant::parse`]; a date and time without offset and zone is in `zone`.
    #[must_use]
    pub fn parse_in(text: &str, zone: &TimeZone) -> Option<Self> {
        Self::parse_with(text, Some(zone))
    }

    fn parse_with(text: &str, zone: Option<&TimeZone>) -> Option<Self> {
        let text = cut_fraction(text);
        let pieces = Pieces::parse(&*text).ok()?;
        let local = DateTime::from_parts(pieces.date(), pieces.time().unwrap_or(Time::midnight()));
        let named = pieces.to_time_zone().ok()?;
        match (pieces.offset(), named) {
            (Some(PiecesOffset::Zulu), _) => Some(Self(local)),
            (Some(offset), named) => {
                let offset = offset.to_numeric_offset();
                let at = Self::at_offset(local, offset);
                let agrees = named.is_none_or(|zone| zone.to_offset(at.to_timestamp()) == offset);
                agrees.then_some(at)
            }
            (None, Some(zone)) => Some(Self::local(local, &zone)),
            (None, None) => zone.map(|zone| Self::local(local, zone)),
        }
    }

    /// The instant of a local date and time. In the hour that a change of the clock repeats it is the first one; in a skipped hour it is
    /// as long after the change as the clock says.
    #[must_use]
    pub fn local(local: DateTime, zone: &TimeZone) -> Self {
        let offset = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        Self::at_offset(local, offset)
    }

    /// The instant of a date and time with an offset; at most the end of the year 9999 in UTC.
    #[must_use]
    pub fn at_offset(local: DateTime, offset: Offset) -> Self {
        Self(local.saturating_sub(SignedDuration::from_secs(i64::from(offset.seconds()))))
    }

    /// The instant so long after the beginning of 1970; `None` outside of the years that dates have.
    #[must_use]
    pub fn from_epoch(elapsed: SignedDuration) -> Option<Self> {
        EPOCH.checked_add(elapsed).ok().map(Self)
    }

    /// The instant later by a time, or earlier by a negative one; `None` outside of the years that dates have.
    #[must_use]
    pub fn checked_add(self, time: SignedDuration) -> Option<Self> {
        self.0.checked_add(time).ok().map(Self)
    }

    /// The date and time in UTC.
    #[must_use]
    pub fn utc(self) -> DateTime {
        self.0
    }

    /// The date and time in a zone, with its offset; `None` outside of the years that dates have.
    #[must_use]
    pub fn in_zone(self, zone: &TimeZone) -> Option<(DateTime, Offset)> {
        let offset = zone.to_offset(self.to_timestamp());
        let local = self.0.checked_add(SignedDuration::from_secs(i64::from(offset.seconds()))).ok()?;
        Some((local, offset))
    }

    /// The timestamp, or the nearest one: the last day of the year 9999 is beyond the range of clocks.
    #[must_use]
    pub fn to_timestamp(self) -> Timestamp {
        Offset::UTC
            .to_timestamp(self.0)
            .unwrap_or_else(|_| if self.0 < EPOCH { Timestamp::MIN } else { Timestamp::MAX })
    }
}

/// Cuts the digits of a second that are finer than a nanosecond.
fn cut_fraction(text: &str) -> Cow<'_, str> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    match text.find(['.', ',']).map(|at| (at + 1, digits(at + 1))) {
        Some((at, count)) if count > MAX_FRACTION => {
            Cow::Owned(format!("{}{}", &text[..at + MAX_FRACTION], &text[at + count..]))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Suggests a time zone for a name that is none: the most similar one by its whole name, else by its city alone.
#[must_use]
pub fn suggest_zone(name: &str) -> Option<String> {
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    if let Some(near) = text::diagnostic::nearest(name, names.iter().map(String::as_str)) {
        return Some(near.to_owned());
    }
    let city = name.rsplit('/').next()?;
    let city_of = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let cities: Vec<String> =
        names.iter().filter(|name| name.contains('/')).map(|name| city_of(name)).collect();
    let near = text::diagnostic::nearest(city, cities.iter().map(String::as_str))?;
    names.iter().find(|name| name.contains('/') && city_of(name) == near).cloned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(Instant::parse(text).map(|at| at.utc().to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn an_instant_needs_an_offset_or_a_time_zone() {
        check("2026-03-01T10:00:00Z", Some("2026-03-01T10:00:00"));
        check("2026-03-01T10:00:00+01:00", Some("2026-03-01T09:00:00"));
        check("2024-01-01T10:00:00[Europe/Berlin]", Some("2024-01-01T09:00:00"));
        check("2024-07-01T10:00:00+02:00[Europe/Berlin]", Some("2024-07-01T08:00:00"));
        check("2024-07-01T10:00:00Z[Europe/Berlin]", Some("2024-07-01T10:00:00"));
        check("2024-07-01T10:00:00+05:00[Europe/Berlin]", None);
        check("2024-01-01T10:00:00[Mars/Olympus]", None);
        check("2024-01-01T10:00:00", None);
        check("soon", None);
    }

    #[test]
    fn the_last_day_of_the_year_9999_is_an_instant() {
        check("9999-12-31T23:59:59Z", Some("9999-12-31T23:59:59"));
        check("9999-12-31T23:59:59.999-05:00", Some("9999-12-31T23:59:59.999999999"));
        check("9999-12-31T23:59:59[America/New_York]", Some("9999-12-31T23:59:59.999999999"));
        let last = Instant::parse("9999-12-31T23:59:59Z").expect("an instant");
        assert_eq!(last.to_timestamp(), Timestamp::MAX);
        assert_eq!(Instant::from_epoch(SignedDuration::from_secs(253_402_300_799)), Some(last));
        assert_eq!(last.checked_add(SignedDuration::from_secs(1)), None);
    }

    #[test]
    fn digits_below_a_nanosecond_are_truncated() {
        check("2026-03-01T10:00:00.123456789012Z", Some("2026-03-01T10:00:00.123456789"));
        check("2026-03-01T10:00:00.123456789012345+01:00", Some("2026-03-01T09:00:00.123456789"));
        check("2026-03-01T10:00:00,5Z", Some("2026-03-01T10:00:00.5"));
    }

    #[test]
    fn an_ambiguous_local_time_resolves_to_its_first_occurrence() {
        let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
        let at = |text| Instant::parse_in(text, &berlin).map(|at| at.utc().to_string());
        assert_eq!(at("2024-10-27T02:30:00").as_deref(), Some("2024-10-27T00:30:00"));
        assert_eq!(at("2024-03-31T02:30:00").as_deref(), Some("2024-03-31T01:30:00"));
        assert_eq!(at("2024-03-01").as_deref(), Some("2024-02-29T23:00:00"));
    }
}
