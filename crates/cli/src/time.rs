//! Instants and spans of time as people write and read them.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use runtime::Clock as _;
use value::instant::Instant;

/// This instant.
pub(crate) fn now() -> Timestamp {
    runtime::SystemClock.now()
}

/// An instant in the zone of this machine, to the second.
pub(crate) fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// An instant in the zone of this machine, to the millisecond.
pub(crate) fn local_precise(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
}

/// An instant in a zone, with its name: `2026-11-22 08:30 Europe/Berlin`.
pub(crate) fn in_zone(at: Timestamp, zone: &str) -> String {
    match TimeZone::get(zone) {
        Ok(found) => format!("{} {zone}", at.to_zoned(found).strftime("%Y-%m-%d %H:%M:%S")),
        Err(_) => format!("{} UTC", at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S")),
    }
}

/// A span of time in the two units that matter, rounded as the web UI does: `850 µs`, `12 ms`, `1.25 s`, `2 m 5 s`, `3 h 12 m`.
pub(crate) fn took(span: Duration) -> String {
    let millis = (span + Duration::from_micros(500)).as_millis();
    let hundredths = (span + Duration::from_millis(5)).as_millis() / 10;
    let seconds = (span + Duration::from_millis(500)).as_secs();
    match seconds {
        0 if span.as_millis() == 0 => format!("{} µs", span.as_micros()),
        0 | 1 if millis < 1000 => format!("{millis} ms"),
        0..=60 if hundredths < 6000 => format!("{}.{:02} s", hundredths / 100, hundredths % 100),
        0..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The time between two instants; none where the clock went back.
pub(crate) fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// The time since an instant: `5 m ago`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = between(at, now).as_secs();
    match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} m ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// An instant as a person gives it: a span before `now` (`2h`, `7d`), a day or a local time (`2026-11-21`,
/// `2026-11-21 08:30`), or an instant with its offset (`2026-11-21T08:30:00Z`).
///
/// # Errors
/// It is none of these; the message says so.
pub(crate) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(span) = text::units::parse_duration(text) {
        let back = SignedDuration::try_from(span).ok().and_then(|span| now.checked_sub(span).ok());
        return back.ok_or_else(|| format!("`{text}` is longer ago than time goes"));
    }
    Instant::parse_in(text, &TimeZone::system()).map(Instant::to_timestamp).ok_or_else(|| {
        format!("`{text}` is no moment; write a span such as `2h` or `7d`, a day such as `2026-11-21`, or `2026-11-21T08:30:00Z`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    #[test]
    fn a_duration_counts_back_from_now() {
        let now = at("2026-11-21T12:00:00Z");
        assert_eq!(moment("2h", now), Ok(at("2026-11-21T10:00:00Z")));
        assert_eq!(moment("1d", now), Ok(at("2026-11-20T12:00:00Z")));
        assert_eq!(moment("2026-11-21T08:30:00+01:00", now), Ok(at("2026-11-21T07:30:00Z")));
        assert!(moment("2026-11-21", now).is_ok());
        assert!(moment("yesterday", now).expect_err("no moment").contains("`2h`"));
    }

    #[test]
    fn a_duration_is_shown_in_its_two_largest_units() {
        let shown = [0, 850, 12_000, 1_250_000, 125_000_000, 11_520_000_000, 180_000_000_000];
        let shown = shown.map(|us| took(Duration::from_micros(us)));
        assert_eq!(shown, ["0 µs", "850 µs", "12 ms", "1.25 s", "2 m 5 s", "3 h 12 m", "2 d 2 h"]);
    }

    #[test]
    fn a_duration_is_rounded_and_never_shows_a_full_larger_unit() {
        let shown = [22_963, 999_499, 999_500, 1_259_000, 59_994_000, 59_995_000, 3_599_600_000];
        let shown = shown.map(|us| took(Duration::from_micros(us)));
        assert_eq!(shown, ["23 ms", "999 ms", "1.00 s", "1.26 s", "59.99 s", "1 m 0 s", "1 h 0 m"]);
    }

    #[test]
    fn an_instant_is_shown_in_the_zone_of_its_schedule() {
        assert_eq!(in_zone(at("2026-11-21T07:30:00Z"), "Europe/Berlin"), "2026-11-21 08:30:00 Europe/Berlin");
        assert_eq!(in_zone(at("2026-11-21T07:30:00Z"), "Nowhere/At-All"), "2026-11-21 07:30:00 UTC");
    }
}
