//! Filters that return numbers and booleans.

use value::Value;

use super::Call;
use super::scalars::to_minijinja;
use crate::arithmetic;
use crate::compare::Numeric;
use crate::decimals;
use crate::failure::{EvalResult, Failure};

/// `abs`.
pub(super) fn abs(call: &Call<'_>) -> EvalResult {
    let absolute = match call.value()? {
        Value::Number(number) => match Numeric::from_number(number) {
            Numeric::Integer(integer) => Numeric::Integer(integer.abs()),
            Numeric::Float(float) => Numeric::Float(float.abs()),
        },
        Value::Decimal(number) => return Ok(Some(decimals::to_value(number.abs()))),
        other => return Err(format!("takes a number, not a {}", other.kind()).into()),
    };
    number(absolute)
}

/// The texts that `bool` converts to true, and the texts that it converts to false.
const TRUTHS: [(&str, bool); 9] = [
    ("true", true),
    ("yes", true),
    ("on", true),
    ("1", true),
    ("false", false),
    ("no", false),
    ("off", false),
    ("0", false),
    ("", false),
];

/// `bool`: the boolean that a text spells in any case; of other values the truth as a condition.
pub(super) fn bool(call: &Call<'_>) -> EvalResult {
    let Value::String(text) = call.value()? else {
        return Ok(Some(Value::from(call.value()?.is_truthy())));
    };
    call.budget().charge_text(text.len())?;
    let word = text.trim();
    match TRUTHS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)) {
        Some((_, holds)) => Ok(Some(Value::from(*holds))),
        None => {
            Err("the text is neither true, yes, on, 1 nor false, no, off, 0; `x != ''` tests for any text"
                .into())
        }
    }
}

/// `int`: converts a number or a text to an integer, or returns `default`.
pub(super) fn int(call: &Call<'_>) -> EvalResult {
    let base = call.count("base")?.unwrap_or(10);
    let default = || call.argument("default").cloned();
    let parsed = match call.value()? {
        Value::Null => return Ok(Some(default().unwrap_or_else(|| Value::from(0)))),
        Value::Bool(value) => return Ok(Some(Value::from(i64::from(*value)))),
        Value::Number(number) => match Numeric::from_number(number) {
            Numeric::Integer(_) => return call.value().cloned().map(Some),
            Numeric::Float(float) => whole(float),
        },
        Value::String(text) => {
            call.budget().charge_text(text.len())?;
            integer(text, base).or_else(|| text.parse::<f64>().ok().and_then(whole))
        }
        Value::Decimal(number) => number.to_integer(),
        _ => None,
    };
    match parsed.and_then(|integer| arithmetic::to_value(Numeric::Integer(integer))).or_else(default) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("the {} is not a whole number of 64 bits", call.value()?.kind()).into()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "what is beyond 64 bits is refused afterwards")]
fn whole(float: f64) -> Option<i128> {
    float.is_finite().then_some(float as i128)
}

/// Parses an integer in a base from 2 to 36, with or without a prefix (`0b`, `0o`, `0x`).
fn integer(text: &str, base: usize) -> Option<i128> {
    let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base))?;
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = match digits.get(..prefix.len()) {
        Some(found) if !prefix.is_empty() && found.eq_ignore_ascii_case(prefix) => &digits[prefix.len()..],
        _ => digits,
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from_str_radix(digits, base).ok()?;
    Some(if negative { -number } else { number })
}

/// `float`: converts a number or a text to a float, or returns `default`.
pub(super) fn float(call: &Call<'_>) -> EvalResult {
    let default = || call.argument("default").cloned();
    let parsed = match call.value()? {
        Value::Null => return Ok(Some(default().unwrap_or_else(|| Value::from(0.0)))),
        Value::String(text) => {
            call.budget().charge_text(text.len())?;
            text.parse::<f64>().ok()
        }
        Value::Decimal(number) => Some(number.to_float()),
        other => Numeric::from_value(other).map(Numeric::to_float),
    };
    match parsed.filter(|float| float.is_finite()).map(Value::from).or_else(default) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("the {} is not a number", call.value()?.kind()).into()),
    }
}

/// `round`: rounds to `precision` digits by `method` (`common`, `ceil`, `floor`), with MiniJinja's implementation.
pub(super) fn round(call: &Call<'_>) -> EvalResult {
    if let Value::Decimal(number) = call.value()? {
        return super::decimals::round(number, call);
    }
    let subject @ Value::Number(_) = call.value()? else {
        return Err(format!("takes a number, not a {}", call.value()?.kind()).into());
    };
    let precision = match call.argument("precision") {
        None => None,
        Some(value) => {
            let precision = value.as_i64().and_then(|precision| i32::try_from(precision).ok());
            Some(precision.ok_or("`precision` is a whole number")?)
        }
    };
    let method = call.text_argument("method")?;
    let options = minijinja::value::Kwargs::from_iter(Vec::<(String, minijinja::Value)>::new());
    let rounded = minijinja::filters::round(to_minijinja(subject), precision, method.as_deref(), options)
        .map_err(|error| Failure::Message(error.detail().unwrap_or("cannot be rounded").to_owned()))?;
    let rounded = if rounded.is_integer() {
        i128::try_from(rounded).map(Numeric::Integer)
    } else {
        f64::try_from(rounded).map(Numeric::Float)
    };
    rounded.map_err(|_| Failure::Message("cannot be rounded".to_owned())).and_then(number)
}

fn number(number: Numeric) -> EvalResult {
    let value = arithmetic::to_value(number);
    value.map(Some).ok_or_else(|| "the result is not a number of 64 bits".into())
}
