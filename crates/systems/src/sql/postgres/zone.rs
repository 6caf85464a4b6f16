//! Zones in texts for types of PostgreSQL that have none: its server drops such a zone without a word.

use tokio_postgres::types::{Kind, Type};
use value::Value;

/// Words of dates and times that are no zones, in the forms from which PostgreSQL takes a beginning of three letters or more.
const LONG_WORDS: [&str; 19] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];
/// Other words that are no zones, and zones that are UTC, in which the session is.
const WORDS: [&str; 15] = [
    "t", "am", "pm", "ad", "bc", "infinity", "epoch", "at", "sept", "z", "utc", "gmt", "zulu", "uct",
    "etc/utc",
];

/// Returns a zone other than UTC in a value of a type that has no zone, with the type that has one.
pub(super) fn lost<'v>(value: &'v Value, of: &Type) -> Option<(&'v str, &'static str)> {
    let zoned = zoned(of)?;
    match value {
        Value::String(text) => zone(text).map(|zone| (zone, zoned)),
        Value::List(list) => list.0.iter().find_map(|item| lost(item, of)),
        _ => None,
    }
}

/// The type with a zone beside a type without one.
fn zoned(of: &Type) -> Option<&'static str> {
    match of.kind() {
        Kind::Domain(inner) | Kind::Array(inner) | Kind::Range(inner) | Kind::Multirange(inner) => {
            zoned(inner)
        }
        _ if *of == Type::TIMESTAMP || *of == Type::DATE => Some("timestamptz"),
        _ if *of == Type::TIME => Some("timetz"),
        _ => None,
    }
}

/// The zone in a text, as PostgreSQL divides it: into numbers, dates and times, words, and a sign with the offset behind it.
fn zone(text: &str) -> Option<&str> {
    let (mut rest, mut has_digits) = (text, false);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '0'..='9' => number(rest),
            '+' | '-' => {
                let offset =
                    rest.len() - rest[1..].trim_start_matches(|c: char| c.is_ascii_digit() || c == ':').len();
                let is_zero = !rest[1..offset].contains(|c: char| matches!(c, '1'..='9'));
                if has_digits && offset > 1 && !is_zero {
                    return rest.get(..offset);
                }
                offset
            }
            'A'..='Z' | 'a'..='z' => {
                let is_part = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_');
                let word = &rest[..rest.len() - rest.trim_start_matches(is_part).len()];
                let lower = word.to_ascii_lowercase();
                let is_long = lower.len() > 2 && LONG_WORDS.iter().any(|long| long.starts_with(&lower));
                if has_digits && !is_long && !WORDS.contains(&&*lower) {
                    return Some(word);
                }
                // A date such as `Jan-08-2026`.
                let is_date = is_long && rest[word.len()..].starts_with('-');
                if is_date { word.len() + 1 } else { word.len() }
            }
            other => other.len_utf8(),
        };
        has_digits |= first.is_ascii_digit();
        rest = rest.get(length..).unwrap_or_default();
    }
    None
}

/// The length of a number, of a date or of a time, which begin with a digit.
fn number(text: &str) -> usize {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let first = digits(text);
    let rest = &text[first..];
    if rest.starts_with(':') {
        return text.len()
            - text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | '.')).len();
    }
    // A date has two of the same separator; what follows the second one is its last part.
    let Some(separator) = rest.chars().next().filter(|c| matches!(c, '-' | '/' | '.')) else { return first };
    let middle = rest[1..].len() - rest[1..].trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
    let end = first + 1 + middle;
    match text[end..].strip_prefix(separator) {
        Some(last) => end + 1 + digits(last),
        // An offset behind a time without colons, or a part of a date.
        None if separator == '-' && first >= 4 => first,
        None => end,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn zones_are_found_in_the_forms_that_postgresql_reads() {
        for (text, expected) in [
            ("2026-03-01T10:00:00+02:00", Some("+02:00")),
            ("2026-03-01 10:00:00.5 -0330", Some("-0330")),
            ("2026-03-01 10:00 Europe/Berlin", Some("Europe/Berlin")),
            ("2026-03-01 10:00 PST", Some("PST")),
            ("2026-03-01T10:00:00+02:00[Europe/Berlin]", Some("+02:00")),
            ("20260301T100000+02", Some("+02")),
            ("2026-03-01+02:00", Some("+02:00")),
            ("10:00:00-08", Some("-08")),
            ("100000-08", Some("-08")),
            ("[2026-03-01 10:00, 2026-03-01 11:00+01)", Some("+01")),
            ("01-Mar-2026 10:00 CET", Some("CET")),
            ("2026-03-01T10:00:00Z", None),
            ("2026-03-01T10:00:00+00:00", None),
            ("20260301T100000Z", None),
            ("2026-03-01 10:00 UTC", None),
            ("2026-03-01", None),
            ("2026-03-01T10:00:00.123456", None),
            ("01/03/2026", None),
            ("01-Mar-2026", None),
            ("March-01-2026 10:00", None),
            ("Sun Mar 1 10:00:00 2026", None),
            ("10:00 PM", None),
            ("44-03-15 BC", None),
            ("2026.060", None),
            ("-infinity", None),
            ("[2026-03-01,infinity)", None),
            ("now", None),
            ("ada", None),
            ("", None),
        ] {
            assert_eq!(zone(text), expected, "{text}");
        }
    }
}
