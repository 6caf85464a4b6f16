//! Names of filters, tests and functions, checked when an expression is compiled: MiniJinja itself looks them up only
//! when it comes to them, which for a mistyped `default` may be in the one execution that needed it.

use std::borrow::Cow;
use std::ops::Range;

use minijinja::machinery::Span;
use minijinja::machinery::ast::{CallArg, Expr};

use super::strange;
use super::{SyntaxError, Unknown};
use super::{filters, functions, predicates};
use crate::diagnostic::nearest;

/// The names of all filters, those that are functions as well among them.
pub(super) fn filter_names() -> impl Iterator<Item = &'static str> {
    let functions = functions::TABLE.iter().filter(|function| function.is_filter());
    filters::TABLE.iter().map(|row| row.name).chain(functions.map(|function| function.name))
}

/// The names of all tests that are words.
pub(super) fn test_names() -> impl Iterator<Item = &'static str> {
    let is_word = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic());
    predicates::TABLE.iter().map(|predicate| predicate.name).filter(is_word)
}

/// The kind of a name.
#[derive(Clone, Copy)]
enum Kind {
    Filter,
    Test,
    Function,
}

/// What is wrong with the names that an expression uses itself, the expressions inside it left out.
pub(super) fn check(expr: &Expr<'_>, text: &str) -> Option<SyntaxError> {
    match expr {
        Expr::Filter(filter) => unknown(Kind::Filter, filter.name, filter.span(), text)
            .or_else(|| named(filter.name, &filter.args, filter.span(), text))
            .or_else(|| date_format(filter.name, filter.args.first(), &filter.args, text)),
        Expr::Test(test) => unknown(Kind::Test, test.name, test.span(), text),
        Expr::Call(call) => match &call.expr {
            Expr::Var(function) => unknown(Kind::Function, function.id, call.span(), text)
                .or_else(|| date_format(function.id, call.args.get(1), &call.args, text)),
            Expr::GetAttr(method) => Some(no_method(method.name, call.span(), text)),
            _ => None,
        },
        _ => None,
    }
}

/// The complaint about a call of a member: values have no methods.
fn no_method(name: &str, span: Span, text: &str) -> SyntaxError {
    let help: Cow<'static, str> = match strange::method(name) {
        Some(help) => help.into(),
        None if filters::find(name).is_some() || functions::find(name).is_some_and(|it| it.is_filter()) => {
            format!("write `x | {name}`").into()
        }
        None => match nearest(name, filter_names()) {
            Some(near) => format!("there are filters in their place, such as `x | {near}`").into(),
            None => "there are filters in their place, such as `x | upper`, and functions, such as `hash(x)`"
                .into(),
        },
    };
    let (start, end) = (span.start_offset as usize, (span.end_offset as usize).min(text.len()));
    let inside = text.get(start.min(end)..end).unwrap_or_default();
    // The span of a call may begin behind the name of its method.
    let at = match inside.rfind(name) {
        Some(at) => start + at..start + at + name.len(),
        None => place_before(name, start.min(text.len()), text),
    };
    let unknown = Some(Unknown { nearest: None });
    let help = Some(help);
    SyntaxError {
        help,
        unknown,
        ..SyntaxError::new(format!("there is no method `{name}`: values have none"), at)
    }
}

/// Where a name stands last before a place.
fn place_before(name: &str, end: usize, text: &str) -> Range<usize> {
    let before = text.get(..end).and_then(|before| before.rfind(name));
    before.map_or(0..text.len(), |at| at..at + name.len())
}

/// The complaint about the format of a date that is written out and is another tool's.
fn date_format(
    function: &str,
    second: Option<&CallArg<'_>>,
    args: &[CallArg<'_>],
    text: &str,
) -> Option<SyntaxError> {
    if !matches!(function, "formatDate" | "parseDate") {
        return None;
    }
    let named = args.iter().find_map(|argument| match argument {
        CallArg::Kwarg("format", expr) => Some(expr),
        _ => None,
    });
    let positional = match second {
        Some(CallArg::Pos(expr)) => Some(expr),
        _ => None,
    };
    let Expr::Const(constant) = named.or(positional)? else { return None };
    let format = constant.value.as_str()?;
    let (message, meant) = functions::foreign_format(format)?;
    let at = text.find(format).filter(|_| !format.is_empty());
    let at = at.map_or(0..text.len(), |at| at..at + format.len());
    let help = meant.map(|meant| format!("write `'{meant}'`").into());
    Some(SyntaxError { help, code: Some("date-format"), ..SyntaxError::new(message, at) })
}

/// Checks the filter or test that another filter is given by its name: `map('upper')`, `selectattr('n', 'gt', 1)`.
fn named(filter: &str, args: &[CallArg<'_>], span: Span, text: &str) -> Option<SyntaxError> {
    let (kind, position) = match filter {
        "map" => (Kind::Filter, 0),
        "select" | "reject" => (Kind::Test, 0),
        "selectattr" | "rejectattr" => (Kind::Test, 1),
        _ => return None,
    };
    let CallArg::Pos(Expr::Const(constant)) = args.get(position)? else { return None };
    unknown(kind, constant.value.as_str()?, span, text)
}

fn unknown(kind: Kind, name: &str, span: Span, text: &str) -> Option<SyntaxError> {
    let known = match kind {
        Kind::Filter => filters::find(name).is_some(),
        Kind::Test => predicates::find(name).is_some(),
        Kind::Function => functions::find(name).is_some(),
    };
    if known {
        return None;
    }
    let (word, names): (&str, Vec<&str>) = match kind {
        Kind::Filter => ("filter", filter_names().collect()),
        Kind::Test => ("test", test_names().collect()),
        Kind::Function => ("function", functions::names().collect()),
    };
    let message = format!("there is no {word} `{name}`");
    let help = strange::name(name).map(Cow::from);
    let near = nearest(name, names).filter(|_| help.is_none()).map(str::to_owned);
    let unknown = Some(Unknown { nearest: near });
    Some(SyntaxError { help, unknown, ..SyntaxError::new(message, place(name, span, text)) })
}

/// Where a name stands: the last time within its expression, else the whole of that.
fn place(name: &str, span: Span, text: &str) -> Range<usize> {
    let (start, end) = (span.start_offset as usize, (span.end_offset as usize).min(text.len()));
    let inside = text.get(start..end).unwrap_or_default();
    inside.rfind(name).map_or(start.min(end)..end, |at| start + at..start + at + name.len())
}
