//! Equalities that a condition requires. An index over them finds the conditions that an event may satisfy without evaluating
//! the others.

use minijinja::machinery::ast::{BinOpKind, CompareOpKind, Expr};
use minijinja::machinery::parse_expr;
use value::{Key, Value};

use super::Expression;
use super::compare::Numeric;
use super::comparison;
use super::dependencies::{self, Item, Link};
use super::jinja::Program;
use super::program::Node;

/// The longest text that is part of a key, in bytes. Longer texts with the same length and beginning have the same key.
const MAX_KEY_TEXT: usize = 128;

/// An equality without which a condition is not true: the member of a variable at `path` equals `value`.
#[derive(Clone, Debug)]
pub struct RequiredEquality {
    /// The names of the members, from the variable to the compared value; at least one.
    pub path: Vec<Key>,
    /// The other operand, which does not read the variable.
    pub value: Expression,
}

/// Finds the first equality that `condition` requires between a member of `variable` and anything else.
pub(super) fn find_required(condition: &Expression, variable: &str) -> Option<RequiredEquality> {
    let parsed = parse_expr(condition.text()).ok()?;
    find(&parsed, condition, variable)
}

fn find(expr: &Expr<'_>, condition: &Expression, variable: &str) -> Option<RequiredEquality> {
    match expr {
        Expr::BinOp(op) => match op.op {
            BinOpKind::ScAnd => {
                find(&op.left, condition, variable).or_else(|| find(&op.right, condition, variable))
            }
            BinOpKind::Eq => equality(&op.left, &op.right, condition, variable),
            _ => None,
        },
        // All comparisons of a chain have to be true.
        Expr::Compare(chain) => {
            let lefts = std::iter::once(&chain.expr).chain(chain.ops.iter().map(|op| &op.expr));
            lefts
                .zip(&chain.ops)
                .filter(|(_, op)| matches!(op.op, CompareOpKind::Eq))
                .find_map(|(left, op)| equality(left, &op.expr, condition, variable))
        }
        _ => None,
    }
}

fn equality(
    left: &Expr<'_>,
    right: &Expr<'_>,
    condition: &Expression,
    variable: &str,
) -> Option<RequiredEquality> {
    let of = |member: &Expr<'_>, other: &Expr<'_>| {
        let path = member_path(member, variable)?;
        let operand = comparison::operand(other, &Item::default(), condition.text());
        let reads_variable =
            |read: &dependencies::Reference| read.path.first().is_none_or(|name| name == variable);
        if operand.reads.iter().any(reads_variable) {
            return None;
        }
        let program = Program::from_tree(Node::build(other, false)?);
        let text = condition.text().get(operand.at).unwrap_or_default();
        Some(RequiredEquality { path, value: condition.part(text, program) })
    };
    of(left, right).or_else(|| of(right, left))
}

/// The names from `variable` to the member; `None` if `expr` is anything but a member of it.
fn member_path(expr: &Expr<'_>, variable: &str) -> Option<Vec<Key>> {
    if matches!(expr, Expr::Filter(_)) {
        return None;
    }
    let mut links = dependencies::direct_path(expr, &Item::default())?.into_iter();
    if !matches!(links.next()?, Link::Name(name) if name == variable) {
        return None;
    }
    let names = links.map(|link| if let Link::Name(name) = link { Some(name) } else { None });
    names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty())
}

/// A text that is the same for all values that are equal in expressions; `None` for lists, maps and files. Values that differ
/// may have the same key.
#[must_use]
pub fn equality_key(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => {
            // Equal numbers have the same nearest float; adding zero removes the sign of a negative zero.
            format!("n:{:e}", Numeric::from_value(value)?.to_float() + 0.0)
        }
        Value::Decimal(number) => format!("n:{:e}", number.to_float() + 0.0),
        Value::String(text) if text.len() <= MAX_KEY_TEXT => format!("s:{text}"),
        Value::String(text) => {
            format!("s{}:{}", text.len(), &text[..text.floor_char_boundary(MAX_KEY_TEXT)])
        }
        Value::List(_) | Value::Map(_) | Value::File(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use text::diagnostic::Span;
    use value::Map;
    use value::budget::Budget;

    use super::*;

    fn required(text: &str) -> Option<String> {
        let condition = Expression::compile(text, Span::default()).expect("it compiles");
        let found = condition.required_equality("event")?;
        let scope = Value::from(Map::from_iter([(
            "vars",
            Value::from(Map::from_iter([("id", Value::from(7)), ("name", Value::from("Ada"))])),
        )]));
        let value = found.value.evaluate(&scope, &Budget::default()).expect("it has a value");
        Some(format!("{} = {}", found.path.join("."), value.to_json()))
    }

    #[test]
    fn an_equality_that_the_condition_requires_is_extracted() {
        for (text, expected) in [
            ("event.data.id == vars.id", Some("data.id = 7")),
            ("vars.id == event.data['order-id']", Some("data.order-id = 7")),
            ("event.data.n > 3 and (event.data.id == vars.id + 1 and true)", Some("data.id = 8")),
            ("event.data.id == (vars.name | lower) and not event.data.test", Some(r#"data.id = "ada""#)),
            ("event.data.kind == 'paid' and event.data.id == vars.id", Some(r#"data.kind = "paid""#)),
            ("1 == event.data.id == vars.id", Some("data.id = 1")),
            ("event.data.id == vars.id or true", None),
            ("not (event.data.id == vars.id)", None),
            ("(event.data.id == vars.id) == false", None),
            ("event.data.id != vars.id", None),
            ("event.data.id == event.data.other", None),
            ("event.data.id | lower == vars.name", None),
            ("event.data.items[0] == vars.id", None),
            ("event == vars.id", None),
            ("vars.id == 7", None),
            ("event.data.id == vars.id if vars.id else true", None),
            ("event.data.id", None),
            ("$.event.data[?@.id == 7]", None),
        ] {
            assert_eq!(required(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn values_that_are_equal_have_the_same_key() {
        let long = "é".repeat(100);
        let numbers = [Value::from(0), Value::from(false), Value::from(-0.0), Value::from(0.0)];
        for (one, other) in [
            (Value::from(1), Value::from(1.0)),
            (Value::from(true), Value::from(1)),
            (Value::from(u64::MAX), Value::from(u64::MAX)),
            (Value::from(1_u64 << 60), Value::from(1152921504606846976.0)),
            (Value::from(long.as_str()), Value::from(long.as_str())),
            (Value::Null, Value::Null),
        ]
        .into_iter()
        .chain(numbers.iter().map(|number| (numbers[0].clone(), number.clone())))
        {
            assert_eq!(equality_key(&one), equality_key(&other), "{one:?} and {other:?}");
        }
        for (one, other) in [("1", Value::from(1)), ("null", Value::Null), ("true", Value::from(true))] {
            assert_ne!(equality_key(&Value::from(one)), equality_key(&other), "{other:?}");
        }
        assert_eq!(equality_key(&Value::from(Map::new())), None);
    }
}
