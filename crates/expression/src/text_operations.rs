//! Finds operations on texts that always fail: a subtraction of texts, a duration added to a date, a member of a date.

use minijinja::machinery::ast::{BinOpKind, Expr};
use text::units;
use value::Value;

use super::SyntaxError;
use super::comparison::{literal_of, range};
use super::operation::{Form, form, form_of};

/// Members of dates in other languages, each with its format here; numbers end with `true`.
const PARTS: [(&str, &str, bool); 14] = [
    ("date", "%Y-%m-%d", false),
    ("day", "%d", true),
    ("dayOfWeek", "%u", true),
    ("hour", "%H", true),
    ("hours", "%H", true),
    ("minute", "%M", true),
    ("minutes", "%M", true),
    ("month", "%m", true),
    ("second", "%S", true),
    ("seconds", "%S", true),
    ("time", "%H:%M:%S", false),
    ("timestamp", "%s", true),
    ("weekday", "%u", true),
    ("year", "%Y", true),
];

/// Checks one operation, without its operands. `optional` is true if the enclosing expression handles an undefined value.
pub(super) fn check(expr: &Expr<'_>, optional: bool, text: &str) -> Option<SyntaxError> {
    match expr {
        Expr::BinOp(op) if matches!(op.op, BinOpKind::Rem) => formatted(expr, &op.left, &op.right, text),
        Expr::GetItem(link) => span_of_numbers(expr, &link.expr, text),
        Expr::BinOp(op) if is_mixed(op.op, &op.left, &op.right) => mixed(&op.left, &op.right, text),
        Expr::BinOp(op) => {
            let sign = match op.op {
                BinOpKind::Sub => '-',
                BinOpKind::Add => '+',
                _ => return None,
            };
            let (left, right) = (returned_text(&op.left), returned_text(&op.right));
            if let Some(length) = duration(&op.right) {
                let is_date = left == Some(Returned::Date);
                return is_date.then(|| moved_date(expr, &op.left, sign, length, text));
            }
            (sign == '-' && (left.is_some() || right.is_some())).then(|| subtraction(expr, left, right, text))
        }
        Expr::GetAttr(link) if !optional => {
            (returned_text(&link.expr)? == Returned::Date).then(|| member(&link.expr, link.name, text))?
        }
        _ => None,
    }
}

/// A text that an operand always is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Returned {
    Date,
    Text,
}

fn returned_text(expr: &Expr<'_>) -> Option<Returned> {
    let name = match expr {
        Expr::Call(call) => match &call.expr {
            Expr::Var(function) => function.id,
            _ => return None,
        },
        Expr::Filter(filter) => filter.name,
        Expr::Const(constant) => return constant.value.as_str().map(|_| Returned::Text),
        _ => return None,
    };
    match form_of(name) {
        Form::Instant => Some(Returned::Date),
        Form::Text => Some(Returned::Text),
        _ => None,
    }
}

/// A literal duration in any notation that is understood: `1d`, `1 day`.
fn duration(expr: &Expr<'_>) -> Option<String> {
    let Expr::Const(constant) = expr else { return None };
    let written = constant.value.as_str()?;
    match units::parse_period(written) {
        Ok(_) => Some(written.to_owned()),
        Err(_) => units::suggest_duration(written),
    }
}

/// True for an operation on an exact number and a literal float, which always fails.
fn is_mixed(operator: BinOpKind, left: &Expr<'_>, right: &Expr<'_>) -> bool {
    let is_arithmetic = matches!(operator, BinOpKind::Add | BinOpKind::Sub | BinOpKind::Mul | BinOpKind::Div);
    is_arithmetic
        && ((is_float(left) && form(right) == Form::Decimal)
            || (form(left) == Form::Decimal && is_float(right)))
}

fn is_float(expr: &Expr<'_>) -> bool {
    matches!(literal_of(expr), Some(Value::Number(number)) if number.is_f64())
}

/// The error for `(x | decimal) * 1.19`.
fn mixed(left: &Expr<'_>, right: &Expr<'_>, text: &str) -> Option<SyntaxError> {
    let at = range(if is_float(left) { left } else { right }, text);
    let meant = format!("('{}' | decimal)", text.get(at.clone())?);
    Some(SyntaxError {
        help: Some(format!("write `{meant}`").into()),
        fix: Some(Box::new((at.clone(), meant))),
        code: Some("wrong-operand"),
        ..SyntaxError::new("a decimal and a float do not mix, because a float is not exact", at)
    })
}

/// The error for `now() - '1d'`.
fn moved_date(expr: &Expr<'_>, date: &Expr<'_>, sign: char, length: String, text: &str) -> SyntaxError {
    let (date, at) = (range(date, text), range(expr, text));
    let sign = if sign == '-' { "-" } else { "" };
    let date = text.get(date).unwrap_or("now()");
    let meant = format!("addDuration({date}, '{sign}{length}')");
    SyntaxError {
        help: Some(format!("write `{meant}`").into()),
        fix: Some(Box::new((at.clone(), meant))),
        code: Some("wrong-operand"),
        ..SyntaxError::new("a date is a text, which no duration can be added to or taken from", at)
    }
}

/// The error for `'Hello %s' % name` of Python.
fn formatted(expr: &Expr<'_>, left: &Expr<'_>, right: &Expr<'_>, text: &str) -> Option<SyntaxError> {
    let Expr::Const(pattern) = left else { return None };
    pattern.value.as_str()?;
    let [at, left, right] = [expr, left, right].map(|part| range(part, text));
    let arguments = text.get(right)?.trim();
    // A tuple of Python is the list of arguments.
    let arguments = arguments.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(arguments);
    let meant = format!("{} | format({arguments})", text.get(left)?);
    Some(SyntaxError {
        help: Some(format!("write `{meant}`").into()),
        fix: Some(Box::new((at.clone(), meant))),
        code: Some("wrong-operand"),
        ..SyntaxError::new("`%` calculates a remainder; it does not put values into a text", at)
    })
}

/// The error for `1..5`, which is read as a member of a number.
fn span_of_numbers(expr: &Expr<'_>, number: &Expr<'_>, text: &str) -> Option<SyntaxError> {
    let Expr::Const(constant) = number else { return None };
    if !constant.value.is_number() {
        return None;
    }
    let bounds =
        text.split_once("..").map(|(from, to)| (from.trim().parse::<i64>(), to.trim().parse::<i64>()));
    let Some((Ok(from), Ok(to))) = bounds else { return None };
    let meant = format!("range({from}, {})", to.checked_add(1)?);
    Some(SyntaxError {
        help: Some(format!("write `{meant}`: the end is not part of a range").into()),
        fix: Some(Box::new((0..text.len(), meant))),
        code: Some("wrong-operand"),
        ..SyntaxError::new("a number has no members, and `..` is not an operator here", range(expr, text))
    })
}

fn subtraction(expr: &Expr<'_>, left: Option<Returned>, right: Option<Returned>, text: &str) -> SyntaxError {
    let sides = [left, right];
    let help = match sides.contains(&Some(Returned::Date)) {
        true => {
            "the seconds between two dates are `(formatDate(a, '%s') | int) - (formatDate(b, '%s') | int)`; an earlier date is `addDuration(a, '-1d')`"
        }
        false => {
            "`| int` and `| float` make a number of a text; `| replace('part', '')` removes a part of it"
        }
    };
    SyntaxError {
        help: Some(help.into()),
        code: Some("wrong-operand"),
        ..SyntaxError::new("`-` subtracts numbers, and one side is always a text", range(expr, text))
    }
}

/// The error for `now().year`.
fn member(date: &Expr<'_>, name: &str, text: &str) -> Option<SyntaxError> {
    let at_date = range(date, text);
    let date = text.get(at_date.clone())?;
    // The span of a call ends with its bracket.
    let dot = text.get(at_date.end..)?.find('.')? + at_date.end;
    let at = text.get(dot..)?.find(name).map(|at| dot + at..dot + at + name.len())?;
    let part = PARTS.iter().find(|(known, ..)| *known == name);
    let meant = part.map(|(_, format, is_number)| {
        let text = format!("formatDate({date}, '{format}')");
        if *is_number { format!("({text} | int)") } else { text }
    });
    let help = match &meant {
        Some(meant) => format!("write `{meant}`"),
        None => format!("write `formatDate({date}, '%Y')` for a part of it"),
    };
    let fix = meant.map(|meant| Box::new((at_date.start..at.end, meant)));
    let message = format!("a date is a text, which has no member `{name}`");
    Some(SyntaxError {
        help: Some(help.into()),
        fix,
        code: Some("wrong-operand"),
        ..SyntaxError::new(message, at)
    })
}
