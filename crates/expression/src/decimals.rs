//! Exact numbers, made by the filter `decimal`. They exist within one evaluation, which returns their texts.

use std::cmp::Ordering;
use std::sync::Arc;

use value::budget::{Budget, ENTRY_MEMORY};
use value::{Decimal, DecimalError, Map, Number, Value};

use super::arithmetic::Arithmetic;
use super::compare;
use super::failure::Failure;

/// The work of an operation on exact numbers, in units.
pub(super) const OPERATION: usize = 50;
/// The work of a division of exact numbers, in units.
const DIVISION: usize = 1_000;

/// The exact number of a number or a text; a float is the shortest number that is read as that float.
pub(super) fn parse(value: &Value) -> Result<Decimal, DecimalError> {
    match value {
        Value::Decimal(number) => Ok(Decimal::clone(number)),
        Value::Number(number) => parse_number(number),
        Value::String(text) => Decimal::parse(text),
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) | Value::File(_) => {
            Err(DecimalError::NotANumber)
        }
    }
}

fn parse_number(number: &Number) -> Result<Decimal, DecimalError> {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), ..) => Ok(i128::from(integer).into()),
        (_, Some(integer), _) => Ok(i128::from(integer).into()),
        (.., float) => Decimal::parse(&float.unwrap_or_default().to_string()),
    }
}

/// An operand of a calculation: an exact number or an integer; `None` for any other value.
fn operand(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) if number.is_f64() => None,
        Value::Number(_) | Value::Decimal(_) => parse(value).ok(),
        _ => None,
    }
}

/// Fails for an exact number beside a float, which is not exact.
pub(super) fn check_operands(left: &Value, right: &Value) -> Result<(), Failure> {
    let is_float = |value: &Value| matches!(value, Value::Number(number) if number.is_f64());
    if is_float(left) || is_float(right) {
        return Err(
            "a decimal and a float do not mix, because a float is not exact; `| decimal` converts it".into(),
        );
    }
    Ok(())
}

/// Evaluates `left operator right`, of which one is an exact number.
pub(super) fn apply(
    operator: Arithmetic,
    sign: &str,
    left: &Value,
    right: &Value,
    budget: &Budget,
) -> Result<Value, Failure> {
    budget.charge(if operator == Arithmetic::Divide { DIVISION } else { OPERATION })?;
    check_operands(left, right)?;
    let (Some(a), Some(b)) = (operand(left), operand(right)) else {
        let hint = if operator == Arithmetic::Add { "; `~` joins texts" } else { "" };
        return Err(format!("`{sign}` does not take a {} and a {}{hint}", left.kind(), right.kind()).into());
    };
    let result = match operator {
        Arithmetic::Add => a.add(&b),
        Arithmetic::Subtract => a.subtract(&b),
        Arithmetic::Multiply => a.multiply(&b),
        Arithmetic::Divide => a.divide(&b),
        Arithmetic::FloorDivide | Arithmetic::Remainder | Arithmetic::Power => {
            return Err(format!("`{sign}` does not take a decimal; `| int` and `| float` convert it").into());
        }
    };
    result.map(to_value).map_err(|error| format!("{a} {sign} {b} cannot be calculated: {error}").into())
}

pub(super) fn to_value(number: Decimal) -> Value {
    Value::Decimal(Arc::new(number))
}

/// Compares two numbers of which one is exact; `None` if one is no number.
pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    let is_number = |value: &Value| matches!(value, Value::Number(_) | Value::Decimal(_));
    if !is_number(left) || !is_number(right) {
        return None;
    }
    let float = |value: &Value| match value {
        Value::Decimal(number) => number.to_float(),
        Value::Number(number) => number.as_f64().unwrap_or_default(),
        _ => 0.0,
    };
    Some(match (parse(left), parse(right)) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        // A float with more digits than an exact number has.
        _ => float(left).total_cmp(&float(right)),
    })
}

/// Replaces the exact numbers in a value by their texts.
pub(super) fn to_texts(value: Value, budget: &Budget) -> Result<Value, Failure> {
    compare::charge_whole(&value, budget)?;
    Ok(replace(&value, budget)?.unwrap_or(value))
}

/// The value with texts in place of exact numbers; `None` if it has none.
fn replace(value: &Value, budget: &Budget) -> Result<Option<Value>, Failure> {
    Ok(match value {
        Value::Decimal(number) => Some(Value::from(number.to_string())),
        Value::List(list) => {
            let replaced = list.0.iter().map(|item| replace(item, budget)).collect::<Result<Vec<_>, _>>()?;
            if replaced.iter().all(Option::is_none) {
                return Ok(None);
            }
            budget.allocate_list(replaced.len())?;
            let items = list.0.iter().zip(replaced);
            Some(items.map(|(item, new)| new.unwrap_or_else(|| item.clone())).collect())
        }
        Value::Map(map) => {
            let mut changed = None::<Map>;
            for (key, item) in map.iter() {
                if let Some(new) = replace(item, budget)? {
                    if changed.is_none() {
                        budget.allocate(map.len() * ENTRY_MEMORY)?;
                    }
                    changed.get_or_insert_with(|| Map::clone(map)).insert(key.clone(), new);
                }
            }
            changed.map(Value::from)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::File(_) => None,
    })
}
