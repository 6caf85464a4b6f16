//! Types of columns: converts the cells of a table to the values that its author names.

use std::fmt::Display;
use std::str::FromStr as _;

use jiff::civil::{Date, DateTime};
use model::{ActionError, ErrorKind, InputSpec, InputType};
use serde::{Deserialize, Serialize};
use value::Decimal;
use value::{Map, Value};

/// The digits that a number keeps exactly, whatever they are.
const EXACT_DIGITS: usize = 15;
/// The numbers below this are exact as whole numbers.
const EXACT_NUMBERS: f64 = 9_007_199_254_740_992.0;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ColumnType {
    Text,
    Integer,
    Number,
    Decimal,
    Boolean,
    Date,
    DateTime,
}

impl ColumnType {
    const ALL: [(&'static str, Self); 7] = [
        ("text", Self::Text),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("decimal", Self::Decimal),
        ("boolean", Self::Boolean),
        ("date", Self::Date),
        ("dateTime", Self::DateTime),
    ];

    /// The name in YAML.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("text", |(name, _)| name)
    }

    /// Converts the value of a cell. An empty cell is null, but for a text.
    ///
    /// # Errors
    /// Returns the reason, which names `place`.
    pub(crate) fn convert(self, value: Value, place: &dyn Display) -> Result<Value, String> {
        let text = match &value {
            Value::Null => return Ok(Value::Null),
            Value::Number(_) if self == Self::Number => return Ok(value),
            Value::Number(_) => exact_text(&value).ok_or_else(|| {
                format!(
                    "{place} is `{}`, a number with more digits than a sheet keeps; store it as a text",
                    value.to_text()
                )
            })?,
            Value::Bool(_) | Value::String(_) => value.to_text(),
            other => return Err(format!("{place} is {}, not a {}", other.kind(), self.name())),
        };
        let trimmed = text.trim();
        if trimmed.is_empty() && self != Self::Text {
            return Ok(Value::Null);
        }
        let converted = match self {
            Self::Text => Some(Value::from(text.as_str())),
            Self::Integer => integer(trimmed),
            Self::Number => return number(trimmed, place),
            Self::Decimal => Decimal::parse(trimmed).ok().map(|_| Value::from(trimmed)),
            Self::Boolean => boolean(trimmed),
            Self::Date => date(trimmed),
            Self::DateTime => date_time(trimmed),
        };
        converted.ok_or_else(|| {
            let shown: String = trimmed.chars().take(40).collect();
            format!(
                "{place} is `{shown}`, {}; take it as `text` and convert it in a later step",
                self.expected()
            )
        })
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Text => "not a text",
            Self::Integer => "not a whole number of at most 64 bits",
            Self::Number | Self::Decimal => "not a number such as `-1234.5`",
            Self::Boolean => "neither `true` nor `false`",
            Self::Date => "not a date such as `2026-03-01`",
            Self::DateTime => "not a time such as `2026-03-01T08:30:00`",
        }
    }
}

/// A number with the digits that a sheet keeps and shows: the sum of 0.1 and 0.2 is 0.3. `None` if it has lost digits.
fn exact_text(value: &Value) -> Option<String> {
    if value.as_i64().is_some() {
        return Some(value.to_text());
    }
    let number = value.to_text().parse::<f64>().ok()?;
    if number.fract() == 0.0 && number.abs() >= EXACT_NUMBERS {
        return None;
    }
    let rounded = format!("{number:.*e}", EXACT_DIGITS - 1).parse::<f64>().ok()?;
    Some(Value::from(rounded).to_text())
}

fn integer(text: &str) -> Option<Value> {
    let digits = text.strip_suffix(".0").unwrap_or(text);
    digits.parse::<i64>().map(Value::from).or_else(|_| digits.parse::<u64>().map(Value::from)).ok()
}

fn number(text: &str, place: &dyn Display) -> Result<Value, String> {
    if let Some(integer) = integer(text) {
        return Ok(integer);
    }
    let wrong = || {
        format!("{place} is `{}`, not a number such as `-1234.5`", text.chars().take(40).collect::<String>())
    };
    Decimal::parse(text).map_err(|_| wrong())?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if digits.trim_matches('0').len() > EXACT_DIGITS {
        return Err(format!(
            "{place} has more digits than a number keeps; take it as `decimal`, which keeps all"
        ));
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from).ok_or_else(wrong)
}

fn boolean(text: &str) -> Option<Value> {
    match text {
        "1" => Some(true.into()),
        "0" => Some(false.into()),
        _ if text.eq_ignore_ascii_case("true") => Some(true.into()),
        _ if text.eq_ignore_ascii_case("false") => Some(false.into()),
        _ => None,
    }
}

/// A date without a time, or with midnight.
fn date(text: &str) -> Option<Value> {
    let day = text.strip_suffix("T00:00:00").unwrap_or(text);
    is_date(day).then(|| Value::from(day))
}

fn date_time(text: &str) -> Option<Value> {
    if is_date(text) {
        return Some(Value::from(format!("{text}T00:00:00")));
    }
    let time = text.replacen(' ', "T", 1);
    let is_time = DateTime::from_str(&time).is_ok() || jiff::Timestamp::from_str(&time).is_ok();
    (is_time && time.get(10..11) == Some("T")).then(|| Value::from(time))
}

/// True for a date as `2026-03-01`.
pub(crate) fn is_date(text: &str) -> bool {
    text.len() == 10 && Date::from_str(text).is_ok()
}

/// The input `types`.
pub(crate) fn types_input() -> InputSpec {
    let options = ColumnType::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    let values = Box::new(InputType::Choice { options });
    InputSpec {
        name: "types".to_owned(),
        kind: InputType::Map { values },
        required: false,
        default: None,
        description: Some(
            "The type of a column, by its name; a cell that does not fit is an error that names it."
                .to_owned(),
        ),
    }
}

/// The types of columns, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Types(Vec<(String, ColumnType)>);

impl Types {
    /// Reads the input `types`.
    pub(crate) fn of(inputs: &Map) -> Result<Self, ActionError> {
        let types = inputs.get("types").and_then(Value::as_map);
        let read = types.into_iter().flat_map(Map::iter).map(|(name, kind)| {
            let word = kind.as_str().unwrap_or_default();
            let found = ColumnType::ALL.iter().find(|(name, _)| *name == word);
            let unknown = || input_error(format!("`types.{name}` is `{word}`, which is no type of a column"));
            found.map(|(_, kind)| (name.to_string(), *kind)).ok_or_else(unknown)
        });
        read.collect::<Result<_, _>>().map(Self)
    }

    /// True if no column has a type.
    #[cfg(feature = "documents")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The type of each column.
    ///
    /// # Errors
    /// Returns the reason if a type is of a column that does not exist.
    pub(crate) fn of_columns<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<Vec<Option<ColumnType>>, String> {
        if let Some((missing, _)) = self.0.iter().find(|(typed, _)| !names.clone().any(|name| name == typed))
        {
            let there: Vec<String> = names.take(20).map(|name| format!("`{name}`")).collect();
            return Err(format!("`types.{missing}` is no column; there are {}", there.join(", ")));
        }
        let find = |name: &str| self.0.iter().find(|(typed, _)| typed == name).map(|(_, kind)| *kind);
        Ok(names.map(find).collect())
    }
}

/// An error of the inputs.
pub(crate) fn input_error(message: impl Into<String>) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}

/// The text of an input that is given.
pub(crate) fn text_of<'i>(inputs: &'i Map, name: &str) -> Option<&'i str> {
    inputs.get(name).and_then(Value::as_str)
}

/// The texts of a list that is given.
pub(crate) fn texts_of(inputs: &Map, name: &str) -> Option<Vec<String>> {
    Some(inputs.get(name)?.as_list()?.iter().map(Value::to_text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ColumnType, cell: impl Into<Value>, expected: &str) {
        let converted = kind.convert(cell.into(), &"C7");
        let shown = converted.map_or_else(|error| error, |value| value.to_json());
        assert!(
            if expected.starts_with("C7") { shown.contains(expected) } else { shown == expected },
            "{shown}"
        );
    }

    #[test]
    fn a_cell_becomes_the_type_of_its_column_or_an_error_that_names_it() {
        check(ColumnType::Text, "007", "\"007\"");
        check(ColumnType::Text, 7, "\"7\"");
        check(ColumnType::Integer, "007", "7");
        check(ColumnType::Integer, 17.0, "17");
        check(ColumnType::Integer, "1.5", "C7 is `1.5`");
        check(ColumnType::Integer, "18446744073709551615", "18446744073709551615");
        check(ColumnType::Number, "12.50", "12.5");
        check(ColumnType::Number, 0.1 + 0.2, "0.30000000000000004");
        check(ColumnType::Decimal, 0.1 + 0.2, "\"0.3\"");
        check(ColumnType::Text, 0.1 + 0.2, "\"0.3\"");
        check(ColumnType::Text, 1.234_567_890_123_456_8e16, "C7 is `1");
        check(ColumnType::Number, "0.1234567890123456789", "C7 has more digits");
        check(ColumnType::Number, "1,5", "C7 is `1,5`");
        check(ColumnType::Number, "inf", "C7 is `inf`");
        check(ColumnType::Decimal, "0.1234567890123456789", "\"0.1234567890123456789\"");
        check(ColumnType::Boolean, "TRUE", "true");
        check(ColumnType::Boolean, "yes", "C7 is `yes`");
        check(ColumnType::Date, "2026-03-01", "\"2026-03-01\"");
        check(ColumnType::Date, "2026-02-29", "C7 is `2026-02-29`");
        check(ColumnType::Date, "01.03.2026", "C7 is `01.03.2026`");
        check(ColumnType::DateTime, "2026-03-01 08:30:00", "\"2026-03-01T08:30:00\"");
        check(ColumnType::DateTime, "2026-03-01", "\"2026-03-01T00:00:00\"");
        check(ColumnType::Number, " ", "null");
    }
}
