//! Names of filters, tests and functions, checked when an expression is compiled: MiniJinja itself looks them up only
//! when it comes to them, which for a mistyped `default` may be in the one execution that needed it.

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
            .or_else(|| named(filter.name, &filter.args, filter.span(), text)),
        Expr::Test(test) => unknown(Kind::Test, test.name, test.span(), text),
        Expr::Call(call) => match &call.expr {
            Expr::Var(function) => unknown(Kind::Function, function.id, call.span(), text),
            _ => None,
        },
        _ => None,
    }
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
    let help = strange::name(name);
    let near = nearest(name, names).filter(|_| help.is_none()).map(str::to_owned);
    Some(SyntaxError { message, at: place(name, span, text), help, unknown: Some(Unknown { nearest: near }) })
}

/// Where a name stands: the last time within its expression, else the whole of that.
fn place(name: &str, span: Span, text: &str) -> Range<usize> {
    let (start, end) = (span.start_offset as usize, (span.end_offset as usize).min(text.len()));
    let inside = text.get(start..end).unwrap_or_default();
    inside.rfind(name).map_or(start.min(end)..end, |at| start + at..start + at + name.len())
}
