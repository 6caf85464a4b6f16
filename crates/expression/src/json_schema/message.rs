//! Messages about a value, phrased to follow its pointer. Building one reads no more of the value than the message shows.

use value::budget::{Budget, Exceeded};
use value::{Map, Number, Value};

use super::MAX_MESSAGE;
use super::assertions::length;
use super::compare::duplicate;
use super::program::{Keyword, type_name};

/// The message of an assertion that `value` violates.
///
/// # Errors
/// Returns an error if the budget is spent.
pub(super) fn assertion_message(
    keyword: &Keyword,
    value: &Value,
    budget: &Budget,
) -> Result<String, Exceeded> {
    Ok(match (keyword, value) {
        (Keyword::False, _) => "must not be present".to_owned(),
        (Keyword::Type(types), _) => {
            let names: Vec<&str> = types.names().collect();
            format!("must be {}, found {}", names.join(" or "), type_name(value))
        }
        (Keyword::Const(expected), _) => match literal(expected) {
            Some(expected) => format!("value must be {expected}"),
            None => "const failed".to_owned(),
        },
        (Keyword::Enum(options), _) => {
            let literals: Option<Vec<String>> = options.iter().take(MAX_MESSAGE).map(literal).collect();
            match literals.as_deref() {
                Some([only]) => format!("value must be {only}"),
                Some(several) => format!("value must be one of {}", join(several.iter().cloned())),
                None => "enum failed".to_owned(),
            }
        }
        (_, Value::Map(map)) => map_message(keyword, map),
        (_, Value::List(list)) => list_message(keyword, &list.0, budget)?,
        (_, Value::String(text)) => match keyword {
            Keyword::MinLength(min) => {
                format!("length must be >={min}, but got {}", length(text, budget)?)
            }
            Keyword::MaxLength(max) => {
                format!("length must be <={max}, but got {}", length(text, budget)?)
            }
            Keyword::Pattern(pattern) => {
                format!("{} does not match pattern {}", quote(text), quote(&pattern.source))
            }
            _ => String::new(),
        },
        (_, Value::Number(number)) => number_message(keyword, number),
        _ => String::new(),
    })
}

/// The message of `contains`.
pub(super) fn contains_message(keyword: &Keyword) -> String {
    match keyword {
        Keyword::Contains { min: Some(min), max: Some(max), .. } => {
            format!("needs {min} to {max} items that match contains schema")
        }
        Keyword::Contains { min: Some(min), .. } => {
            format!("minimum {min} items required to match contains schema")
        }
        Keyword::Contains { max: Some(max), .. } => {
            format!("needs 1 to {max} items that match contains schema")
        }
        _ => "no items match contains schema".to_owned(),
    }
}

/// Names in backticks, joined by commas.
pub(super) fn quote_names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    join(names.into_iter().map(|name| format!("`{}`", truncate(name))))
}

/// Truncates a text to the length of a message.
pub(super) fn truncate(text: &str) -> String {
    text::truncate(text, MAX_MESSAGE).into_owned()
}

/// Joins texts by commas, up to about the length of a message.
fn join(texts: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    for text in texts {
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&text);
        if all.len() > 4 * MAX_MESSAGE {
            break;
        }
    }
    all
}

fn quote(text: &str) -> String {
    let text = format!("{:?}", truncate(text)).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", text.get(1..text.len() - 1).unwrap_or_default())
}

/// A scalar as a message shows it; `None` for a list or a map.
fn literal(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(quote(text)),
        Value::List(_) | Value::Map(_) | Value::File(_) => None,
        plain => Some(plain.to_json()),
    }
}

fn map_message(keyword: &Keyword, map: &Map) -> String {
    let missing = |needs: &[String]| {
        let missing = needs.iter().filter(|name| !map.contains_key(name));
        quote_names(missing.map(String::as_str).take(MAX_MESSAGE))
    };
    match keyword {
        Keyword::MinProperties(min) => {
            format!("minimum {min} properties required, but got {} properties", map.len())
        }
        Keyword::MaxProperties(max) => {
            format!("maximum {max} properties required, but got {} properties", map.len())
        }
        Keyword::Required(needs) => format!("needs {}", missing(needs)),
        Keyword::DependentRequired(dependent) => {
            let lacking = |needs: &[String]| needs.iter().any(|name| !map.contains_key(name));
            let broken = dependent.iter().find(|(name, needs)| map.contains_key(name) && lacking(needs));
            broken.map_or_else(String::new, |(name, needs)| {
                format!("needs {} beside `{}`", missing(needs), truncate(name))
            })
        }
        _ => String::new(),
    }
}

fn list_message(keyword: &Keyword, items: &[Value], budget: &Budget) -> Result<String, Exceeded> {
    Ok(match keyword {
        Keyword::MinItems(min) => format!("minimum {min} items required, but got {} items", items.len()),
        Keyword::MaxItems(max) => format!("maximum {max} items required, but got {} items", items.len()),
        Keyword::UniqueItems => duplicate(items, budget)?
            .map_or_else(String::new, |(one, other)| format!("items at {one} and {other} are equal")),
        _ => String::new(),
    })
}

fn number_message(keyword: &Keyword, number: &Number) -> String {
    match keyword {
        Keyword::Minimum(limit) => format!("must be >={limit}, but got {number}"),
        Keyword::Maximum(limit) => format!("must be <={limit}, but got {number}"),
        Keyword::ExclusiveMinimum(limit) => format!("must be > {limit} but got {number}"),
        Keyword::ExclusiveMaximum(limit) => format!("must be < {limit} but got {number}"),
        Keyword::MultipleOf(divisor) => format!("{number} is not multipleOf {divisor}"),
        _ => String::new(),
    }
}
