//! Checks the names of filters, tests and functions at compile time. MiniJinja itself resolves them during evaluation, so that
//! a misspelt `default` would fail only in the one execution that needs it.

use std::borrow::Cow;
use std::ops::Range;

use minijinja::machinery::Span;
use minijinja::machinery::ast::{CallArg, Expr, GetAttr};
use text::diagnostic::nearest;

use super::literal_arguments;
use super::other_dialects;
use super::rewrite;
use super::signature;
use super::{SyntaxError, UnknownName};
use super::{filters, functions, predicates};

/// The names of all filters, including functions that are also filters.
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

/// Checks the names that an expression uses itself, without its subexpressions.
pub(super) fn check(expr: &Expr<'_>, text: &str) -> Option<SyntaxError> {
    match expr {
        Expr::Filter(filter) => check_name(Kind::Filter, filter.name, filter.span(), text)
            .or_else(|| check_named_argument(filter.name, &filter.args, filter.span(), text))
            .or_else(|| check_date_format(filter.name, filter.args.first(), &filter.args, text))
            .or_else(|| match (filter.name, &filter.expr) {
                ("format", Some(pattern)) => literal_arguments::check_format(pattern, &filter.args, text),
                _ => None,
            })
            .or_else(|| {
                signature::check_filter(
                    filter.name,
                    &filter.args,
                    name_range(filter.name, filter.span(), text),
                    text,
                )
            }),
        Expr::Test(test) => check_name(Kind::Test, test.name, test.span(), text).or_else(|| {
            signature::check_test(test.name, &test.args, name_range(test.name, test.span(), text))
        }),
        Expr::Call(call) => match &call.expr {
            Expr::Var(function) => check_name(Kind::Function, function.id, call.span(), text)
                .or_else(|| check_date_format(function.id, call.args.get(1), &call.args, text))
                .or_else(|| {
                    signature::check_function(
                        function.id,
                        &call.args,
                        name_range_before_arguments(function.id, call.span(), text),
                        text,
                    )
                }),
            Expr::GetAttr(method) => Some(method_error(method, call.span(), text)),
            _ => None,
        },
        _ => None,
    }
}

/// The error for a method call: values have no methods.
fn method_error(method: &GetAttr<'_>, span: Span, text: &str) -> SyntaxError {
    let name = method.name;
    let of_object = match &method.expr {
        Expr::Var(object) => other_dialects::static_method(object.id, name),
        _ => None,
    };
    let usage = if of_object.is_some() { rewrite::Use::StaticMethod } else { rewrite::Use::Method };
    let equivalent = of_object.or_else(|| other_dialects::method(name));
    let help: Cow<'static, str> = match equivalent {
        Some(equivalent) => equivalent.help.into(),
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
    // The span of a call may begin after the name of its method.
    let at = match inside.rfind(name) {
        Some(at) => start + at..start + at + name.len(),
        None => name_range_before(name, start.min(text.len()), text),
    };
    let unknown = Some(UnknownName { nearest: None });
    let fix = equivalent.and_then(|equivalent| rewrite::by_template(text, &at, usage, equivalent.template));
    let help = Some(help);
    SyntaxError {
        help,
        unknown,
        fix: fix.map(Box::new),
        ..SyntaxError::new(format!("there is no method `{name}`: values have no methods"), at)
    }
}

/// The last occurrence of a name before an offset.
fn name_range_before(name: &str, end: usize, text: &str) -> Range<usize> {
    let before = text.get(..end).and_then(|before| before.rfind(name));
    before.map_or(0..text.len(), |at| at..at + name.len())
}

/// The error for a literal date format in the syntax of another tool.
fn check_date_format(
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
    let fix = meant.as_ref().filter(|_| at.end - at.start == format.len());
    let fix = fix.map(|meant| Box::new((at.clone(), meant.clone())));
    let help = meant.map(|meant| format!("write `'{meant}'`").into());
    Some(SyntaxError { help, fix, code: Some("date-format"), ..SyntaxError::new(message, at) })
}

/// Checks a filter or test that is the argument of another filter: `map('upper')`, `selectattr('n', 'gt', 1)`.
fn check_named_argument(filter: &str, args: &[CallArg<'_>], span: Span, text: &str) -> Option<SyntaxError> {
    let (kind, position) = match filter {
        "map" => (Kind::Filter, 0),
        "select" | "reject" => (Kind::Test, 0),
        "selectattr" | "rejectattr" => (Kind::Test, 1),
        _ => return None,
    };
    let CallArg::Pos(Expr::Const(constant)) = args.get(position)? else { return None };
    let name = constant.value.as_str()?;
    let mut error = check_name(kind, name, span, text)?;
    if matches!(name, "=" | "===") && matches!(kind, Kind::Test) {
        error.help = Some("write `'=='`".into());
        error.fix = Some(Box::new((error.at.clone(), "==".to_owned())));
        return Some(error);
    }
    let is_unknown = error.help.is_none() && error.unknown.as_ref().is_some_and(|it| it.nearest.is_none());
    if filter == "map" && is_unknown {
        error.help = Some(format!("for a field of each item write `map(attribute='{name}')`").into());
        let quote = error.at.start.checked_sub(1)?;
        error.fix = Some(Box::new((quote..quote, "attribute=".to_owned())));
    } else if error.fix.is_some() {
        // The equivalent is written for `x | name`, not for a name in quotes.
        error.fix = None;
    }
    Some(error)
}

fn check_name(kind: Kind, name: &str, span: Span, text: &str) -> Option<SyntaxError> {
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
    let at = match kind {
        Kind::Function => name_range_before_arguments(name, span, text),
        Kind::Filter | Kind::Test => name_range(name, span, text),
    };
    // The filter or function of the same name as an unknown test, and so on, is the best equivalent.
    // A filter is often named as the method of a value.
    let method = || other_dialects::method(name).filter(|_| matches!(kind, Kind::Filter));
    let equivalent = other_dialects::name(name).or_else(method);
    let near = nearest(name, names).filter(|_| equivalent.is_none()).map(str::to_owned);
    let unknown = Some(UnknownName { nearest: near });
    let usage = match kind {
        Kind::Filter => rewrite::Use::Filter,
        Kind::Test => rewrite::Use::Test,
        Kind::Function => rewrite::Use::Function,
    };
    let own_filter = || {
        let is_filter = matches!(kind, Kind::Function) && filters::find(name).is_some();
        is_filter.then(|| format!("{{x}} | {name}"))
    };
    let template = equivalent.map(|equivalent| equivalent.template.to_owned()).or_else(own_filter);
    let fix = template.and_then(|template| rewrite::by_template(text, &at, usage, &template));
    let help = equivalent.map(|equivalent| Cow::from(equivalent.help)).or_else(|| other_kind(kind, name));
    Some(SyntaxError { help, unknown, fix: fix.map(Box::new), ..SyntaxError::new(message, at) })
}

/// The help for a name that exists as another kind.
fn other_kind(kind: Kind, name: &str) -> Option<Cow<'static, str>> {
    let is_filter = filters::find(name).is_some();
    let is_function = functions::find(name).is_some();
    let is_test = predicates::find(name).is_some();
    let text = match kind {
        Kind::Filter if is_test => format!("`{name}` is a test: write `x is {name}`"),
        Kind::Filter if is_function => format!("`{name}` is a function: write `{name}(x)`"),
        Kind::Test if is_function => {
            format!("`{name}` is a function, not a test; a test is one as `x is defined`")
        }
        Kind::Test if is_filter => format!("`{name}` is a filter: write `x | {name}`"),
        Kind::Function if is_filter => format!("`{name}` is a filter: write `x | {name}`"),
        Kind::Function if is_test => format!("`{name}` is a test: write `x is {name}`"),
        _ => return None,
    };
    Some(text.into())
}

/// The name of a function at the start of its call; the span of a call may begin after it.
fn name_range_before_arguments(name: &str, span: Span, text: &str) -> Range<usize> {
    let end = (span.end_offset as usize).min(text.len());
    let start = (span.start_offset as usize).min(end);
    let is_at = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(name));
    if is_at(start) { start..start + name.len() } else { name_range_before(name, start.max(1), text) }
}

/// The last occurrence of a name within its expression; the whole expression if there is none.
fn name_range(name: &str, span: Span, text: &str) -> Range<usize> {
    let (start, end) = (span.start_offset as usize, (span.end_offset as usize).min(text.len()));
    let inside = text.get(start..end).unwrap_or_default();
    inside.rfind(name).map_or(start.min(end)..end, |at| start + at..start + at + name.len())
}
