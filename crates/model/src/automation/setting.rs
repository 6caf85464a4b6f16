//! Settings that are literal, or that an expression computes when their step begins.
//!
//! A computed number or duration has the range of the literal one. A computed name is one of a list in the file, so that data from
//! outside never choose credentials or code.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use expression::Expression;
use text::diagnostic::Span;
use text::units::{MAX_DURATION, format_duration, parse_fixed_period};
use value::Value;

use super::SpannedName;

/// A number or a duration: a literal, or an expression that computes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting<T> {
    /// The value in the file.
    Literal(T),
    /// The expression, evaluated when the step begins.
    Computed(Expression),
}

impl<T: Copy> Setting<T> {
    /// Returns the literal value; `None` if it is computed.
    #[must_use]
    pub fn literal(&self) -> Option<T> {
        if let Self::Literal(value) = self { Some(*value) } else { None }
    }

    /// Returns the expression; `None` for a literal.
    #[must_use]
    pub fn expression(&self) -> Option<&Expression> {
        if let Self::Computed(expression) = self { Some(expression) } else { None }
    }

    /// Returns the literal as `describe` writes it, or the expression in `${{ }}`.
    #[must_use]
    pub fn describe(&self, describe: impl FnOnce(T) -> String) -> String {
        match self {
            Self::Literal(value) => describe(*value),
            Self::Computed(expression) => in_braces(expression),
        }
    }
}

/// Returns the text of an expression in `${{ }}`.
#[must_use]
pub fn in_braces(expression: &Expression) -> String {
    format!("${{{{ {} }}}}", expression.text())
}

/// The name and the range of a setting that is a whole number.
#[derive(Clone, Copy, Debug)]
pub struct CountRule {
    /// The name in messages: `retry.max`.
    pub name: &'static str,
    /// The least value.
    pub least: i64,
    /// The largest value.
    pub most: i64,
}

/// The name and the range of a setting that is a duration.
#[derive(Clone, Copy, Debug)]
pub struct DurationRule {
    /// The name in messages: `timeout`.
    pub name: &'static str,
    /// The shortest duration.
    pub least: Duration,
    /// The longest duration.
    pub most: Duration,
}

/// The maximum delay between attempts and between iterations.
const MAX_DELAY: Duration = Duration::from_secs(24 * 3600);

/// `timeout` of a step.
pub const TIMEOUT: DurationRule =
    DurationRule { name: "timeout", least: Duration::from_millis(1), most: MAX_DURATION };
/// `timeout` of a `waitFor` step for an event: zero takes only an event that has come already.
pub const EVENT_TIMEOUT: DurationRule = DurationRule { least: Duration::ZERO, ..TIMEOUT };
/// `retry.max` of a step.
pub const RETRY_MAX: CountRule = CountRule { name: "retry.max", least: 0, most: 100 };
/// `retry.delay` of a step.
pub const RETRY_DELAY: DurationRule =
    DurationRule { name: "retry.delay", least: Duration::ZERO, most: MAX_DELAY };
/// `repeat.max`.
pub const REPEAT_MAX: CountRule = CountRule { name: "repeat.max", least: 1, most: 1_000_000 };
/// `repeat.delay`.
pub const REPEAT_DELAY: DurationRule =
    DurationRule { name: "repeat.delay", least: Duration::ZERO, most: MAX_DELAY };
/// `concurrency` of a `forEach`.
pub const FOR_EACH_CONCURRENCY: CountRule = CountRule { name: "concurrency", least: 1, most: 100 };
/// `concurrency.limit` of an automation.
pub const CONCURRENCY_LIMIT: CountRule = CountRule { name: "concurrency.limit", least: 1, most: 1000 };

/// Longest excerpt of a value in a message, in characters.
const EXCERPT: usize = 60;

impl CountRule {
    /// Returns the range.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<i64> {
        self.least..=self.most
    }

    /// Reads a computed value.
    ///
    /// # Errors
    /// Returns a message if it is not a whole number of the range.
    pub fn read(&self, value: &Value) -> Result<u32, String> {
        let Self { name, least, most } = self;
        let number = value.as_i64().filter(|number| self.range().contains(number));
        number.and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
            let hint = match value.as_str() {
                Some(text) if text.trim().parse::<i64>().is_ok() => "; convert the text with `| int`",
                _ => "",
            };
            format!("`{name}` must be a whole number from {least} to {most}, found {}{hint}", found(value))
        })
    }
}

impl DurationRule {
    /// Returns the range.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<Duration> {
        self.least..=self.most
    }

    /// Reads a computed value: a text such as `90s` or `PT15M`.
    ///
    /// # Errors
    /// Returns a message if it is not a duration of the range.
    pub fn read(&self, value: &Value) -> Result<Duration, String> {
        let Self { name, least, most } = self;
        let Some(text) = value.as_str() else {
            return Err(format!(
                "`{name}` must be a duration such as `90s`, found {}; write a number with its unit: `${{{{ number ~ 's' }}}}`",
                found(value)
            ));
        };
        let duration = parse_fixed_period(text).map_err(|error| format!("`{name}`: {error}"))?;
        if self.range().contains(&duration) {
            return Ok(duration);
        }
        let [least, most] = [*least, *most].map(format_duration);
        Err(format!("`{name}` must be from {least} to {most}, found {}", format_duration(duration)))
    }
}

/// Describes a value for a message.
fn found(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => value.to_text(),
        Value::String(text) => format!("the text `{}`", text::truncate(text, EXCERPT)),
        other => other.kind().to_owned(),
    }
}

/// The name of a connection or of an automation: a literal, or one of a list that an expression selects.
#[derive(Clone, Debug)]
pub enum NameSetting {
    /// The name in the file.
    Literal(SpannedName),
    /// The expression and the names that it may have as its value.
    Selected(Box<NameSelection>),
}

/// One of several names, selected when the step begins.
#[derive(Clone, Debug)]
pub struct NameSelection {
    /// The expression, whose value must be one of the names.
    pub name: Expression,
    /// The names, each once; at most [`NameSetting::MAX_NAMES`].
    pub of: Vec<SpannedName>,
    /// The span of the mapping.
    pub span: Span,
}

impl NameSetting {
    /// The maximum number of names from which an expression may select.
    pub const MAX_NAMES: usize = 100;

    /// Returns each name that it may be.
    #[must_use]
    pub fn candidates(&self) -> &[SpannedName] {
        match self {
            Self::Literal(name) => std::slice::from_ref(name),
            Self::Selected(selection) => &selection.of,
        }
    }

    /// Returns the literal name; `None` if an expression selects it.
    #[must_use]
    pub fn literal(&self) -> Option<&SpannedName> {
        if let Self::Literal(name) = self { Some(name) } else { None }
    }

    /// Returns the selection; `None` for a literal name.
    #[must_use]
    pub fn selection(&self) -> Option<&NameSelection> {
        if let Self::Selected(selection) = self { Some(selection) } else { None }
    }

    /// Returns its span in the file.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Literal(name) => name.span,
            Self::Selected(selection) => selection.span,
        }
    }
}

impl fmt::Display for NameSetting {
    /// Writes the literal name, or all candidates: `crmEu or crmUs`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, candidate) in self.candidates().iter().enumerate() {
            let separator = if index > 0 { " or " } else { "" };
            write!(formatter, "{separator}{}", candidate.name)?;
        }
        Ok(())
    }
}

impl NameSelection {
    /// Returns the name that a value selects: the text must be equal. `what` is the key, for the message.
    ///
    /// # Errors
    /// Returns a message if the value is not in `of`.
    pub fn select(&self, what: &str, value: &Value) -> Result<&SpannedName, String> {
        let selected = value.as_str().and_then(|text| self.of.iter().find(|name| name.name == text));
        selected.ok_or_else(|| {
            let names: Vec<&str> = self.of.iter().map(|name| name.name.as_str()).collect();
            let names = text::truncate(&names.join("`, `"), 10 * EXCERPT).into_owned();
            format!(
                "`{what}` must be one of `{names}`, found {}; only the names in `of` can be selected",
                found(value)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_computed_number_has_the_range_of_the_literal() {
        assert_eq!(RETRY_MAX.read(&Value::from(0_i64)), Ok(0));
        assert_eq!(RETRY_MAX.read(&Value::from(100_i64)), Ok(100));
        for (value, expected) in [
            (Value::from(101_i64), "found 101"),
            (Value::from(-1_i64), "found -1"),
            (Value::from(2.5), "found 2.5"),
            (Value::from("3"), "found the text `3`; convert the text with `| int`"),
            (Value::Null, "found null"),
        ] {
            let message = RETRY_MAX.read(&value).expect_err(expected);
            assert_eq!(message, format!("`retry.max` must be a whole number from 0 to 100, {expected}"));
        }
    }

    #[test]
    fn a_computed_duration_is_a_text_of_the_literals_range() {
        assert_eq!(TIMEOUT.read(&Value::from("90s")), Ok(Duration::from_secs(90)));
        assert_eq!(TIMEOUT.read(&Value::from("PT15M")), Ok(Duration::from_secs(900)));
        assert_eq!(REPEAT_DELAY.read(&Value::from("0s")), Ok(Duration::ZERO));
        for (value, expected) in [
            (Value::from("0s"), "must be from 1ms to"),
            (Value::from("P1M"), "no fixed length"),
            (Value::from("soon"), "is not a duration"),
            (Value::from(90_i64), "found 90"),
            (Value::Null, "found null"),
        ] {
            let message = TIMEOUT.read(&value).expect_err(expected);
            assert!(message.starts_with("`timeout`") && message.contains(expected), "{message}");
        }
        assert!(RETRY_DELAY.read(&Value::from("25h")).is_err());
    }

    #[test]
    fn only_a_text_that_equals_a_name_selects_it() {
        let name = |name: &str| SpannedName { name: name.to_owned(), span: Span::default() };
        let selection = NameSelection {
            name: Expression::placeholder(Span::default()),
            of: vec![name("crmEu"), name("1")],
            span: Span::default(),
        };
        let selected = |value| selection.select("connection", &value).ok().map(|name| name.name.as_str());
        assert_eq!(selected(Value::from("crmEu")), Some("crmEu"));
        for value in [
            Value::from("crmeu"),
            Value::from(" crmEu"),
            Value::from("crmEu\0"),
            Value::from(""),
            Value::from(1_i64),
            Value::Null,
            Value::from(vec![Value::from("crmEu")]),
        ] {
            assert_eq!(selected(value.clone()), None, "{value:?}");
        }
    }
}
