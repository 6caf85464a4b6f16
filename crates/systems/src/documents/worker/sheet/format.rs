//! The formats of columns, and the numbers that a spreadsheet stores for dates.

use std::str::FromStr as _;

use jiff::civil::{Date, DateTime, Time};
use value::Decimal;
use value::Value;

/// The digits that a number of a spreadsheet keeps.
const DIGITS: usize = 15;

/// The kind of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No format: a value stays what it is.
    Plain,
    Text,
    Number,
    Date,
}

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Empty,
    Text(String),
    /// A number, as its text.
    Number(String),
    Bool(bool),
}

impl Kind {
    /// The kind of a format as a spreadsheet has it, such as `yyyy-mm-dd`.
    pub(super) fn of(format: &str) -> Self {
        let (mut code, mut letters) = (String::new(), format.chars());
        while let Some(letter) = letters.next() {
            match letter {
                // A text in quotes, a colour or a condition, a letter that stands for itself.
                '"' => letters.by_ref().take_while(|letter| *letter != '"').for_each(drop),
                '[' => {
                    let inner: String = letters.by_ref().take_while(|letter| *letter != ']').collect();
                    // `[h]` is a duration.
                    if inner.chars().all(|letter| matches!(letter.to_ascii_lowercase(), 'h' | 'm' | 's')) {
                        code.push_str(&inner);
                    }
                }
                '\\' | '_' | '*' => drop(letters.next()),
                letter => code.push(letter.to_ascii_lowercase()),
            }
        }
        if code.contains('@') {
            Self::Text
        } else if code != "general" && code.contains(['y', 'm', 'd', 'h', 's']) {
            Self::Date
        } else {
            Self::Number
        }
    }

    /// The content of a cell with this format.
    ///
    /// # Errors
    /// Returns the reason why the value has no such content, as a phrase.
    pub(super) fn content(self, value: &Value) -> Result<Content, String> {
        let text = match value {
            Value::Null => return Ok(Content::Empty),
            Value::Bool(value) => return Ok(Content::Bool(*value)),
            Value::String(text) => text.to_string(),
            Value::Number(_) => {
                let text = value.to_text();
                return match self {
                    Self::Text => Ok(Content::Text(text)),
                    // A longer number, such as an id, would lose its last digits.
                    Self::Plain
                        if digits(&text) > DIGITS
                            && value.as_i64().is_some_and(|n| n.unsigned_abs() > 1 << 53) =>
                    {
                        Ok(Content::Text(text))
                    }
                    _ => number(&text),
                };
            }
            other => return Ok(Content::Text(other.to_json())),
        };
        match self {
            _ if text.is_empty() => Ok(Content::Empty),
            Self::Plain | Self::Text => Ok(Content::Text(text)),
            Self::Number => number(text.trim()),
            Self::Date => date(text.trim()),
        }
    }
}

fn digits(text: &str) -> usize {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

fn number(text: &str) -> Result<Content, String> {
    if Decimal::parse(text).is_err() || !text.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(format!("is `{}`, not a number as its format has it", shown(text)));
    }
    // A float has the digits of its shortest text, which a spreadsheet reads as the same number.
    if digits(text) > DIGITS + 2 || (digits(text) > DIGITS && !text.contains(['.', 'e', 'E'])) {
        return Err(format!(
            "is `{}`, and a spreadsheet keeps {DIGITS} digits; give it the format `@`",
            shown(text)
        ));
    }
    Ok(Content::Number(text.trim_start_matches('+').to_owned()))
}

/// The day number of a date, a time or both, as they are written: a spreadsheet knows no zone.
fn date(text: &str) -> Result<Content, String> {
    let wrong = || format!("is `{}`, not a date such as `2026-03-01` or `2026-03-01T08:30:00`", shown(text));
    let number = |days: f64| Ok(Content::Number(format!("{days}")));
    // A time may be read from a text with a date too, which would be lost.
    let is_time = text.get(2..3) == Some(":");
    if let Some(time) = is_time.then(|| Time::from_str(text).ok()).flatten() {
        return number(fraction(time));
    }
    let (date, time) = if text.len() == 10 {
        (Date::from_str(text).map_err(|_| wrong())?, 0.0)
    } else {
        // The time as it is written there, whatever its zone.
        let local = DateTime::from_str(text.strip_suffix(['Z', 'z']).unwrap_or(text)).map_err(|_| wrong())?;
        (local.date(), fraction(local.time()))
    };
    let days = days(date).ok_or_else(|| format!("is `{text}`, before 1900, where a spreadsheet begins"))?;
    number(f64::from(days) + time)
}

fn fraction(time: Time) -> f64 {
    let seconds = u32::try_from(time.hour()).unwrap_or_default() * 3600
        + u32::try_from(time.minute()).unwrap_or_default() * 60
        + u32::try_from(time.second()).unwrap_or_default();
    (f64::from(seconds) + f64::from(time.subsec_nanosecond()) / 1e9) / 86_400.0
}

/// The days since the start of 1900, as spreadsheets count them: with a 29 February.
fn days(date: Date) -> Option<i32> {
    let days = jiff::civil::date(1899, 12, 31).until((jiff::Unit::Day, date)).ok()?.get_days();
    let days = if date >= jiff::civil::date(1900, 3, 1) { days + 1 } else { days };
    (days >= 1).then_some(days)
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_says_if_its_column_has_numbers_dates_or_texts() {
        for (format, kind) in [
            ("0.00", Kind::Number),
            ("#,##0.00 \"days\"", Kind::Number),
            ("[Red]0;[Blue]-0", Kind::Number),
            ("General", Kind::Number),
            ("yyyy-mm-dd", Kind::Date),
            ("[h]:mm", Kind::Date),
            ("@", Kind::Text),
        ] {
            assert_eq!(Kind::of(format), kind, "{format}");
        }
    }

    fn check(kind: Kind, value: impl Into<Value>, expected: &str) {
        let shown = match kind.content(&value.into()) {
            Ok(Content::Number(text)) => format!("number {text}"),
            Ok(Content::Text(text)) => format!("text {text}"),
            other => format!("{other:?}"),
        };
        assert!(shown.contains(expected), "{shown} has not {expected}");
    }

    #[test]
    fn a_text_becomes_a_number_or_a_date_only_by_the_format_of_its_column() {
        check(Kind::Plain, "=1+1", "text =1+1");
        check(Kind::Plain, "007", "text 007");
        check(Kind::Plain, "2026-03-01", "text 2026-03-01");
        check(Kind::Plain, 12.5, "number 12.5");
        check(Kind::Plain, 12_345_678_901_234_567_i64, "text 12345678901234567");
        check(Kind::Number, "9.50", "number 9.50");
        check(Kind::Number, "nine", "not a number");
        check(Kind::Number, 12_345_678_901_234_567_i64, "keeps 15 digits");
        check(Kind::Date, "2026-03-01", "number 46082");
        check(Kind::Date, "2026-03-01T12:00:00Z", "number 46082.5");
        check(Kind::Date, "2026-03-01T12:00:00", "number 46082.5");
        check(Kind::Date, "2026-03-01 12:00", "number 46082.5");
        check(Kind::Date, "2026-03-01T12:00:00.5+02:00", "number 46082.500005787");
        check(Kind::Date, "2026-03-01T12:00:00 and more", "not a date");
        check(Kind::Number, "1e400", "not a number");
        check(Kind::Date, "1900-01-01", "number 1");
        check(Kind::Date, "1900-03-01", "number 61");
        check(Kind::Date, "1899-12-31", "before 1900");
        check(Kind::Date, "12:00:00", "number 0.5");
        check(Kind::Date, "2026-02-29", "not a date");
        check(Kind::Text, 7, "text 7");
    }
}
