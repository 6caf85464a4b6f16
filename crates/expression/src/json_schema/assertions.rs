//! Assertions: keywords that test the value itself, without a subschema.

use value::budget::{Budget, Exceeded};
use value::{Map, Number, Value};

use super::compare::{duplicate, equal, integer};
use super::program::Keyword;

/// Evaluates an assertion. Returns true for a keyword with subschemas, which is not one.
///
/// # Errors
/// Returns an error if the budget is spent.
pub(super) fn is_valid(keyword: &Keyword, value: &Value, budget: &Budget) -> Result<bool, Exceeded> {
    match (keyword, value) {
        (Keyword::False, _) => Ok(false),
        (Keyword::Type(types), _) => Ok(types.contain(value)),
        (Keyword::Const(expected), _) => equal(expected, value, budget),
        (Keyword::Enum(options), _) => {
            for option in options {
                if equal(option, value, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (_, Value::Map(map)) => check_map(keyword, map, budget),
        (_, Value::List(list)) => match keyword {
            Keyword::MinItems(min) => Ok(list.0.len() >= *min),
            Keyword::MaxItems(max) => Ok(list.0.len() <= *max),
            Keyword::UniqueItems => Ok(duplicate(&list.0, budget)?.is_none()),
            _ => Ok(true),
        },
        (_, Value::String(text)) => match keyword {
            Keyword::MinLength(min) => Ok(length(text, budget)? >= *min),
            Keyword::MaxLength(max) => Ok(length(text, budget)? <= *max),
            Keyword::Pattern(pattern) => pattern.is_match(text, budget),
            _ => Ok(true),
        },
        (_, Value::Number(number)) => Ok(check_number(keyword, number)),
        _ => Ok(true),
    }
}

fn check_map(keyword: &Keyword, map: &Map, budget: &Budget) -> Result<bool, Exceeded> {
    match keyword {
        Keyword::MinProperties(min) => Ok(map.len() >= *min),
        Keyword::MaxProperties(max) => Ok(map.len() <= *max),
        Keyword::Required(names) => has_all(map, names, budget),
        Keyword::DependentRequired(dependent) => {
            for (name, needs) in dependent {
                budget.charge(1)?;
                if map.contains_key(name) && !has_all(map, needs, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(true),
    }
}

fn has_all(map: &Map, names: &[String], budget: &Budget) -> Result<bool, Exceeded> {
    budget.charge(names.len())?;
    Ok(names.iter().all(|name| map.contains_key(name)))
}

/// The length of a text in characters.
pub(super) fn length(text: &str, budget: &Budget) -> Result<usize, Exceeded> {
    budget.charge_text(text.len())?;
    Ok(text.chars().count())
}

fn check_number(keyword: &Keyword, number: &Number) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match keyword {
        Keyword::Minimum(limit) => compare(number, limit) != Less,
        Keyword::Maximum(limit) => compare(number, limit) != Greater,
        Keyword::ExclusiveMinimum(limit) => !matches!(compare(number, limit), Less | Equal),
        Keyword::ExclusiveMaximum(limit) => !matches!(compare(number, limit), Greater | Equal),
        Keyword::MultipleOf(divisor) => is_multiple(number, divisor),
        _ => true,
    }
}

fn compare(one: &Number, other: &Number) -> std::cmp::Ordering {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => float(one).total_cmp(&float(other)),
    }
}

/// The number as a float, without a negative zero.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

fn is_multiple(number: &Number, divisor: &Number) -> bool {
    match (integer(number), integer(divisor)) {
        (Some(number), Some(divisor)) if divisor != 0 => number % divisor == 0,
        _ => (float(number) / float(divisor)).fract() == 0.0,
    }
}
