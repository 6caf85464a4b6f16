//! The tests of expressions: `value is name(arguments)`, `select('name')`. A new test needs a row here and a line of the hostile
//! corpus in `tests/hostile.rs`.

use value::Value;

use super::compare::{self, Numeric};
use super::evaluation::{Evaluation, UNDEFINED};
use super::failure::Failure;
use super::program::Comparison;
use super::{filters, text_form};

/// A test.
pub(super) struct Predicate {
    pub(super) name: &'static str,
    run: Run,
}

/// The implementation of a test, by the operands it takes.
enum Run {
    /// A value that may be undefined.
    Any(fn(Option<&Value>) -> bool),
    /// A value.
    Value(fn(&Value) -> bool),
    /// A text, charged by its length.
    Text(fn(&str) -> bool),
    /// A value and an argument, compared.
    Compare(Comparison),
    /// A text and a prefix or suffix.
    Affix(fn(&str, &str) -> bool),
    DivisibleBy,
    SameAs,
    /// A name: true if a filter or a test of that name exists.
    Known(fn(&str) -> bool),
}

const fn value(name: &'static str, run: fn(&Value) -> bool) -> Predicate {
    Predicate { name, run: Run::Value(run) }
}

const fn compared(name: &'static str, comparison: Comparison) -> Predicate {
    Predicate { name, run: Run::Compare(comparison) }
}

/// All tests, by name.
pub(super) const TABLE: [Predicate; 43] = [
    compared("!=", Comparison::NotEqual),
    compared("<", Comparison::Less),
    compared("<=", Comparison::LessOrEqual),
    compared("==", Comparison::Equal),
    compared(">", Comparison::Greater),
    compared(">=", Comparison::GreaterOrEqual),
    value("boolean", |value| matches!(value, Value::Bool(_))),
    Predicate { name: "defined", run: Run::Any(|value| value.is_some()) },
    Predicate { name: "divisibleby", run: Run::DivisibleBy },
    Predicate { name: "endingwith", run: Run::Affix(|text, end| text.ends_with(end)) },
    compared("eq", Comparison::Equal),
    compared("equalto", Comparison::Equal),
    value("escaped", |_| false),
    value("even", |value| integer(value).is_some_and(|integer| integer % 2 == 0)),
    value("false", |value| matches!(value, Value::Bool(false))),
    value("file", |value| matches!(value, Value::File(_))),
    Predicate { name: "filter", run: Run::Known(|name| filters::find(name).is_some()) },
    value("float", |value| matches!(value, Value::Number(number) if number.is_f64())),
    compared("ge", Comparison::GreaterOrEqual),
    compared("greaterthan", Comparison::Greater),
    compared("gt", Comparison::Greater),
    compared("in", Comparison::In),
    value("int", |value| matches!(value, Value::Number(number) if !number.is_f64())),
    value("integer", |value| matches!(value, Value::Number(number) if !number.is_f64())),
    value("iterable", |value| {
        matches!(value, Value::List(_) | Value::Map(_) | Value::String(_) | Value::Null)
    }),
    compared("le", Comparison::LessOrEqual),
    compared("lessthan", Comparison::Less),
    Predicate {
        name: "lower",
        run: Run::Text(|text| is_cased(text, char::is_lowercase, char::is_uppercase)),
    },
    compared("lt", Comparison::Less),
    value("mapping", |value| matches!(value, Value::Map(_))),
    compared("ne", Comparison::NotEqual),
    value("none", Value::is_null),
    value("number", |value| matches!(value, Value::Number(_) | Value::Bool(_) | Value::Decimal(_))),
    value("odd", |value| integer(value).is_some_and(|integer| integer % 2 != 0)),
    value("safe", |_| false),
    Predicate { name: "sameas", run: Run::SameAs },
    value("sequence", |value| matches!(value, Value::List(_))),
    Predicate { name: "startingwith", run: Run::Affix(|text, start| text.starts_with(start)) },
    value("string", |value| matches!(value, Value::String(_))),
    Predicate { name: "test", run: Run::Known(|name| find(name).is_some()) },
    value("true", |value| matches!(value, Value::Bool(true))),
    Predicate { name: "undefined", run: Run::Any(|value| value.is_none()) },
    Predicate {
        name: "upper",
        run: Run::Text(|text| is_cased(text, char::is_uppercase, char::is_lowercase)),
    },
];

/// The test of this name; `None` if it does not exist.
pub(super) fn find(name: &str) -> Option<&'static Predicate> {
    TABLE.iter().find(|predicate| predicate.name == name)
}

impl Predicate {
    /// True if the test takes an argument.
    pub(super) fn takes_argument(&self) -> bool {
        matches!(self.run, Run::Compare(_) | Run::Affix(_) | Run::DivisibleBy | Run::SameAs)
    }

    /// Evaluates the test for `value`, which is `None` if it is undefined.
    pub(super) fn apply(
        &self,
        evaluation: &Evaluation<'_>,
        value: Option<&Value>,
        arguments: &[Value],
    ) -> Result<bool, Failure> {
        let budget = evaluation.budget;
        budget.charge(1)?;
        if let Run::Any(run) = self.run {
            return Ok(run(value));
        }
        let value = value.ok_or(UNDEFINED)?;
        let other = || -> Result<&Value, Failure> {
            arguments.first().ok_or_else(|| format!("the test `{}` takes an argument", self.name).into())
        };
        Ok(match self.run {
            Run::Any(run) => run(Some(value)),
            Run::Value(run) => run(value),
            Run::Text(run) => {
                let Value::String(text) = value else { return Ok(false) };
                budget.charge_text(text.len())?;
                run(text)
            }
            Run::Compare(comparison) => evaluation.holds(comparison, value, other()?)?,
            Run::Affix(run) => {
                let (text, affix) =
                    (text_form::stringify(value, budget)?, text_form::stringify(other()?, budget)?);
                budget.charge_text(affix.len().min(text.len()))?;
                run(&text, &affix)
            }
            Run::DivisibleBy => divides(other()?, value),
            Run::SameAs => is_same_kind(value, other()?) && compare::equal(value, other()?, budget)?,
            Run::Known(run) => value.as_str().is_some_and(run),
        })
    }
}

/// True if both values have the same type. An integer and a float have different types.
fn is_same_kind(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.is_f64() == right.is_f64(),
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

fn integer(value: &Value) -> Option<i128> {
    if let Value::Decimal(number) = value {
        return number.to_integer().filter(|whole| value::Decimal::from(*whole) == **number);
    }
    match Numeric::from_value(value)? {
        Numeric::Integer(integer) => Some(integer),
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the range of an i128")]
        Numeric::Float(float) => (float.trunc() == float && float.abs() < 1e30).then_some(float as i128),
    }
}

fn divides(divisor: &Value, value: &Value) -> bool {
    match (Numeric::from_value(value), Numeric::from_value(divisor)) {
        (Some(Numeric::Integer(value)), Some(Numeric::Integer(divisor))) => {
            value.checked_rem(divisor).is_some_and(|rest| rest == 0)
        }
        (Some(value), Some(divisor)) => value.to_float() % divisor.to_float() == 0.0,
        _ => false,
    }
}

/// True if a text has letters of one case and none of the other.
fn is_cased(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}
