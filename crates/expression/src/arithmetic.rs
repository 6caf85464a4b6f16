//! Arithmetic operators of expressions.
//!
//! Integers are exact up to 64 bits, as values are; a result beyond is an error and never rounded.

use value::Value;
use value::budget::Budget;

use super::compare::Numeric;
use super::decimals;
use super::failure::Failure;

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

/// Evaluates `left operator right`.
pub(super) fn apply(
    operator: Arithmetic,
    left: &Value,
    right: &Value,
    budget: &Budget,
) -> Result<Value, Failure> {
    match (operator, left, right) {
        (Arithmetic::Add, Value::String(left), Value::String(right)) => {
            budget.allocate(left.len() + right.len())?;
            return Ok(Value::from([left.as_str(), right.as_str()].concat()));
        }
        (Arithmetic::Add, Value::List(left), Value::List(right)) => {
            budget.allocate_list(left.0.len() + right.0.len())?;
            return Ok(left.0.iter().chain(&right.0).cloned().collect());
        }
        (Arithmetic::Multiply, Value::String(text), Value::Number(_)) => return repeat(text, right, budget),
        (Arithmetic::Multiply, Value::Number(_), Value::String(text)) => return repeat(text, left, budget),
        (Arithmetic::Multiply, Value::List(list), Value::Number(_)) => {
            return repeat_list(&list.0, right, budget);
        }
        (Arithmetic::Multiply, Value::Number(_), Value::List(list)) => {
            return repeat_list(&list.0, left, budget);
        }
        (_, Value::Decimal(_), _) | (_, _, Value::Decimal(_)) => {
            return decimals::apply(operator, symbol(operator), left, right, budget);
        }
        _ => {}
    }
    let sign = symbol(operator);
    let (Some(a), Some(b)) = (Numeric::from_value(left), Numeric::from_value(right)) else {
        let hint = match operator {
            Arithmetic::Add if left.as_str().or(right.as_str()).is_some() => "; `~` joins texts",
            _ => "",
        };
        return Err(format!("`{sign}` does not take a {} and a {}{hint}", left.kind(), right.kind()).into());
    };
    let result = match (a, b) {
        (Numeric::Integer(a), Numeric::Integer(b)) => apply_integers(operator, a, b),
        _ => apply_floats(operator, a.to_float(), b.to_float()),
    };
    result.and_then(to_value).ok_or_else(|| Failure::Message(error_message(sign, left, right)))
}

/// Evaluates `-value`.
pub(super) fn negate(value: &Value) -> Result<Value, Failure> {
    let negated = match value {
        Value::Number(number) => match Numeric::from_number(number) {
            Numeric::Integer(integer) => to_value(Numeric::Integer(-integer)),
            Numeric::Float(float) => to_value(Numeric::Float(-float)),
        },
        Value::Decimal(number) => Some(decimals::to_value(number.negate())),
        other => return Err(format!("`-` does not take a {}", other.kind()).into()),
    };
    negated.ok_or_else(|| format!("-{value} has more than 64 bits").into())
}

fn symbol(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::FloorDivide => "//",
        Arithmetic::Remainder => "%",
        Arithmetic::Power => "**",
    }
}

fn error_message(sign: &str, left: &Value, right: &Value) -> String {
    let zero = right.as_i64() == Some(0) && matches!(sign, "/" | "//" | "%");
    let why = if zero { "division by zero" } else { "the result is not a number of 64 bits" };
    format!("{left} {sign} {right} cannot be calculated: {why}")
}

/// Converts a number to a value; `None` if no value can represent it.
pub(super) fn to_value(number: Numeric) -> Option<Value> {
    match number {
        Numeric::Integer(integer) => match i64::try_from(integer) {
            Ok(integer) => Some(Value::from(integer)),
            Err(_) => u64::try_from(integer).ok().map(Value::from),
        },
        Numeric::Float(float) => float.is_finite().then(|| Value::from(float)),
    }
}

fn apply_integers(operator: Arithmetic, a: i128, b: i128) -> Option<Numeric> {
    Some(Numeric::Integer(match operator {
        Arithmetic::Add => a.checked_add(b)?,
        Arithmetic::Subtract => a.checked_sub(b)?,
        Arithmetic::Multiply => a.checked_mul(b)?,
        Arithmetic::Divide if b == 0 => return None,
        // A whole quotient stays a whole number: `9900 / 100` is `99` in a text.
        Arithmetic::Divide if a.checked_rem(b) == Some(0) => a.checked_div(b)?,
        Arithmetic::Divide => {
            return apply_floats(operator, Numeric::Integer(a).to_float(), Numeric::Integer(b).to_float());
        }
        Arithmetic::FloorDivide => floor_divide(a, b)?.0,
        Arithmetic::Remainder => floor_divide(a, b)?.1,
        Arithmetic::Power if b < 0 => {
            return apply_floats(operator, Numeric::Integer(a).to_float(), Numeric::Integer(b).to_float());
        }
        Arithmetic::Power => a.checked_pow(u32::try_from(b).ok()?)?,
    }))
}

/// Quotient and remainder, rounded towards minus infinity as in Python.
fn floor_divide(a: i128, b: i128) -> Option<(i128, i128)> {
    let (quotient, remainder) = (a.checked_div(b)?, a.checked_rem(b)?);
    let crosses = remainder != 0 && (remainder < 0) != (b < 0);
    Some(if crosses { (quotient - 1, remainder + b) } else { (quotient, remainder) })
}

fn apply_floats(operator: Arithmetic, a: f64, b: f64) -> Option<Numeric> {
    let divides = matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder);
    if divides && b == 0.0 {
        return None;
    }
    let result = match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::FloorDivide => (a / b).floor(),
        Arithmetic::Remainder => a - b * (a / b).floor(),
        Arithmetic::Power => a.powf(b),
    };
    result.is_finite().then_some(Numeric::Float(result))
}

fn repeat_count(count: &Value) -> Result<usize, Failure> {
    let count = count.as_i64().and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| "texts and lists are repeated a whole number of times".into())
}

fn repeat(text: &str, count: &Value, budget: &Budget) -> Result<Value, Failure> {
    let count = repeat_count(count)?;
    budget.allocate(text.len().saturating_mul(count))?;
    Ok(Value::from(text.repeat(count)))
}

fn repeat_list(items: &[Value], count: &Value, budget: &Budget) -> Result<Value, Failure> {
    let count = repeat_count(count)?;
    budget.allocate_list(items.len().saturating_mul(count))?;
    let mut repeated = Vec::with_capacity(items.len() * count);
    if !items.is_empty() {
        (0..count).for_each(|_| repeated.extend_from_slice(items));
    }
    Ok(Value::from(repeated))
}
