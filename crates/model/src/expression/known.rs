//! Names of filters, tests and functions, checked when an expression is compiled: MiniJinja itself looks them up only
//! when it comes to them, which for a mistyped `default` may be in the one execution that needed it.

use std::ops::Range;

use minijinja::Environment;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{CallArg, Expr};

use super::functions::FUNCTIONS;
use super::strange;
use super::{SyntaxError, Unknown};
use crate::diagnostic::nearest;

/// MiniJinja's filters that are offered in the place of an unknown one, beside [`FUNCTIONS`].
pub(super) const FILTERS: [&str; 43] = [
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];
/// What is offered in the place of an unknown test.
pub(super) const TESTS: [&str; 28] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

/// The kind of a name.
#[derive(Clone, Copy)]
enum Kind {
    Filter,
    Test,
    Function,
}

/// What is wrong with the names that an expression uses itself, the expressions inside it left out.
pub(super) fn check(environment: &Environment<'_>, expr: &Expr<'_>, text: &str) -> Option<SyntaxError> {
    match expr {
        Expr::Filter(filter) => unknown(environment, Kind::Filter, filter.name, filter.span(), text)
            .or_else(|| named(environment, filter.name, &filter.args, filter.span(), text)),
        Expr::Test(test) => unknown(environment, Kind::Test, test.name, test.span(), text),
        Expr::Call(call) => match &call.expr {
            Expr::Var(function) => unknown(environment, Kind::Function, function.id, call.span(), text),
            _ => None,
        },
        _ => None,
    }
}

/// Checks the filter or test that another filter is given by its name: `map('upper')`, `selectattr('n', 'gt', 1)`.
fn named(
    environment: &Environment<'_>,
    filter: &str,
    args: &[CallArg<'_>],
    span: Span,
    text: &str,
) -> Option<SyntaxError> {
    let (kind, position) = match filter {
        "map" => (Kind::Filter, 0),
        "select" | "reject" => (Kind::Test, 0),
        "selectattr" | "rejectattr" => (Kind::Test, 1),
        _ => return None,
    };
    let CallArg::Pos(Expr::Const(constant)) = args.get(position)? else { return None };
    unknown(environment, kind, constant.value.as_str()?, span, text)
}

fn unknown(
    environment: &Environment<'_>,
    kind: Kind,
    name: &str,
    span: Span,
    text: &str,
) -> Option<SyntaxError> {
    let (word, names): (&str, Vec<&str>) = match kind {
        Kind::Filter => {
            let ours = FUNCTIONS.iter().map(|(name, _)| *name);
            ("filter", FILTERS.iter().copied().chain(ours).collect())
        }
        Kind::Test => ("test", TESTS.to_vec()),
        Kind::Function => (
            "function",
            environment.globals().map(|(name, _)| name).filter(|name| !name.starts_with('_')).collect(),
        ),
    };
    let known = match kind {
        Kind::Function => names.contains(&name),
        Kind::Filter | Kind::Test => {
            // MiniJinja's own tests `is filter` and `is test`.
            environment.empty_state().perform_test(word, &[minijinja::Value::from(name)]).unwrap_or(true)
        }
    };
    if known {
        return None;
    }
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
