//! Checks the arguments of filters, tests and functions against their parameters at compile time: an unknown, surplus or missing
//! argument, and a literal that the filter or function refuses. Without this check each of them fails in the execution.

use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr};

use super::SyntaxError;
use super::evaluation::{Evaluation, Failure, Values};
use super::filters::{self, Filter};
use super::functions;
use super::predicates;
use super::program::literal;
use super::tokens::Tokens;
use crate::budget::Budget;
use crate::diagnostic::nearest;
use crate::units;
use crate::value::{Map, Value};

/// The diagnostic code.
const CODE: &str = "wrong-argument";

/// Names of arguments in other languages, each with the parameters that it may mean here.
const ALIASES: [(&str, &[&str]); 28] = [
    ("by", &["attribute"]),
    ("decimals", &["precision"]),
    ("delimiter", &["separator", "d"]),
    ("desc", &["reverse"]),
    ("descending", &["reverse"]),
    ("digits", &["precision"]),
    ("fallback", &["default_value", "default"]),
    ("field", &["attribute"]),
    ("fill", &["fill_with"]),
    ("fmt", &["format"]),
    ("from", &["old"]),
    ("key", &["attribute"]),
    ("ndigits", &["precision"]),
    ("pattern", &["format"]),
    ("places", &["precision"]),
    ("property", &["attribute"]),
    ("radix", &["base"]),
    ("replacement", &["new"]),
    ("search", &["old"]),
    ("sep", &["separator", "d", "delimiter"]),
    ("separator", &["d", "delimiter"]),
    ("size", &["count"]),
    ("to", &["new"]),
    ("tz", &["timezone"]),
    ("value", &["default_value", "default"]),
    ("with", &["new"]),
    ("zone", &["timezone"]),
    ("limit", &["maxsplit"]),
];

/// The parameters of a filter, test or function.
struct Signature<'a> {
    name: &'a str,
    parameters: &'a [&'static str],
    required: usize,
}

/// Checks the arguments of a filter. `at` is its name in `text`.
pub(super) fn check_filter(
    name: &str,
    args: &[CallArg<'_>],
    at: Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let found = filters::find(name)?;
    let (parameters, required) = match found {
        Filter::Builtin(row) => row.signature()?,
        Filter::Function(function) => (function.parameters.get(1..)?, function.required.saturating_sub(1)),
    };
    check(&Signature { name, parameters, required }, args, at.clone(), text)
        .or_else(|| check_duration(parameters, args, text))
        .or_else(|| check_literals(found, args, at))
}

/// Checks the arguments of a function. `at` is its name in `text`.
pub(super) fn check_function(
    name: &str,
    args: &[CallArg<'_>],
    at: Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let function = functions::find(name)?;
    if function.takes_any() {
        return None;
    }
    let parameters = function.parameters;
    check(&Signature { name, parameters, required: function.required }, args, at.clone(), text)
        .or_else(|| check_duration(parameters, args, text))
        .or_else(|| {
            check_literals(Filter::Function(function), args.get(1..)?, at).filter(|_| function.is_filter())
        })
}

/// Checks the number of arguments of a test.
pub(super) fn check_test(name: &str, args: &[CallArg<'_>], at: Range<usize>) -> Option<SyntaxError> {
    let takes_one = predicates::find(name)?.takes_argument();
    let message = match (takes_one, args) {
        (true, []) => format!("the test `{name}` takes an argument"),
        _ => return None,
    };
    let help = Some(format!("write `x is {name}(…)`").into());
    Some(SyntaxError { help, code: Some(CODE), ..SyntaxError::new(message, at) })
}

/// Checks names and numbers of arguments. Unpacked arguments are unknown, so their calls are not checked.
fn check(
    signature: &Signature<'_>,
    args: &[CallArg<'_>],
    at: Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let Signature { name, parameters, required } = signature;
    let mut given = vec![false; parameters.len()];
    let positional = args.iter().filter(|argument| matches!(argument, CallArg::Pos(_))).count();
    if args.iter().any(|argument| matches!(argument, CallArg::PosSplat(_) | CallArg::KwargSplat(_))) {
        return None;
    }
    let error =
        |message: String, at: Range<usize>| SyntaxError { code: Some(CODE), ..SyntaxError::new(message, at) };
    if positional > parameters.len() {
        let message = match parameters.len() {
            0 => format!("`{name}` takes no arguments"),
            max => format!("`{name}` takes at most {max} arguments: {}", parameters.join(", ")),
        };
        let fix = parameters.is_empty().then(|| without_brackets(&at, text)).flatten();
        let help = parameters.is_empty().then(|| format!("write `{name}` without brackets").into());
        return Some(SyntaxError {
            fix: fix.map(Box::new),
            help: help.filter(|_| !is_call(&at, text)),
            ..error(message, at)
        });
    }
    given[..positional].fill(true);
    for argument in args {
        let CallArg::Kwarg(found, _) = argument else { continue };
        let place = argument_range(found, &at, text).unwrap_or_else(|| at.clone());
        match parameters.iter().position(|parameter| parameter == found) {
            Some(slot) if given[slot] => {
                return Some(error(format!("`{found}` of `{name}` is given twice"), place));
            }
            Some(slot) => given[slot] = true,
            None => {
                let meant = meant(found, parameters);
                let message = format!(
                    "`{name}` has no argument `{found}`; {}",
                    if parameters.is_empty() {
                        "it takes none".to_owned()
                    } else {
                        format!("it takes {}", parameters.join(", "))
                    }
                );
                let help = meant.map(|meant| format!("write `{meant}=…`").into());
                let fix =
                    meant.filter(|_| place != at).map(|meant| Box::new((place.clone(), meant.to_owned())));
                return Some(SyntaxError { help, fix, ..error(message, place) });
            }
        }
    }
    let missing = (0..*required).find(|slot| !given[*slot])?;
    let help = format!("it takes {}", parameters.join(", "));
    Some(SyntaxError {
        help: Some(help.into()),
        ..error(format!("the argument `{}` of `{name}` is missing", parameters[missing]), at)
    })
}

/// The parameter that an unknown name means.
fn meant(name: &str, parameters: &[&'static str]) -> Option<&'static str> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(&[][..], |(_, meant)| meant);
    let alias = alias.iter().copied().find(|meant| parameters.contains(meant));
    alias.or_else(|| {
        nearest(name, parameters.iter().copied())
            .and_then(|near| parameters.iter().copied().find(|it| *it == near))
    })
}

/// The name of an argument behind the name of its function.
fn argument_range(argument: &str, function: &Range<usize>, text: &str) -> Option<Range<usize>> {
    let tokens = Tokens::new(text);
    let open = tokens.index_at(function.start)? + 1;
    let close = tokens.closing(open)?;
    let at = (open..close).find(|at| tokens.get(*at) == argument && tokens.get(at + 1) == "=")?;
    tokens.range(at, at)
}

/// True if a bracket follows the name of a function that is no filter.
fn is_call(at: &Range<usize>, text: &str) -> bool {
    !text[..at.start].trim_end().ends_with('|')
}

/// Removes the arguments of a filter that takes none.
fn without_brackets(at: &Range<usize>, text: &str) -> Option<(Range<usize>, String)> {
    let tokens = Tokens::new(text);
    let close = tokens.closing(tokens.index_at(at.start)? + 1)?;
    let end = tokens.range(close, close)?.end;
    (!is_call(at, text)).then(|| (at.end..end, String::new()))
}

/// Checks a literal duration, and suggests one for `1 day`.
fn check_duration(parameters: &[&'static str], args: &[CallArg<'_>], text: &str) -> Option<SyntaxError> {
    let slot = parameters.iter().position(|parameter| *parameter == "duration")?;
    let named = args.iter().find_map(|argument| match argument {
        CallArg::Kwarg("duration", value) => Some(value),
        _ => None,
    });
    let positional = match args.get(slot) {
        Some(CallArg::Pos(value)) => Some(value),
        _ => None,
    };
    let Expr::Const(constant) = named.or(positional)? else { return None };
    let written = constant.value.as_str()?;
    let (sign, length) = match written.strip_prefix(['-', '+']) {
        Some(length) => (&written[..1], length),
        None => ("", written),
    };
    let error = units::parse_duration(length).err()?;
    let quoted = [format!("'{written}'"), format!("\"{written}\"")];
    let at = quoted.iter().find_map(|quoted| text.find(quoted.as_str()));
    let at = at.map_or(0..text.len(), |at| at..at + written.len() + 2);
    let meant = units::suggest_duration(length).map(|meant| format!("'{sign}{meant}'"));
    let message = format!("`{written}` is no duration: {error}");
    let help = meant.as_ref().map(|meant| format!("write `{meant}`").into());
    let fix =
        meant.filter(|_| at.end - at.start == written.len() + 2).map(|meant| Box::new((at.clone(), meant)));
    Some(SyntaxError { help, fix, code: Some(CODE), ..SyntaxError::new(message, at) })
}

/// Calls a filter with its literal arguments on a value that it accepts: a failure is one of the arguments.
fn check_literals(filter: Filter, args: &[CallArg<'_>], at: Range<usize>) -> Option<SyntaxError> {
    let name = match filter {
        Filter::Builtin(row) => row.name,
        Filter::Function(function) => function.name,
    };
    if args.is_empty() {
        return None;
    }
    let subject = accepted_subject(name)?;
    let mut values = Values::default();
    for argument in args {
        match argument {
            CallArg::Pos(Expr::Const(constant)) => values.positional.push(literal(&constant.value)?),
            CallArg::Kwarg("format", _) if matches!(name, "parseDate" | "addDuration") => return None,
            CallArg::Kwarg(name, Expr::Const(constant)) => {
                values.named.push(((*name).into(), literal(&constant.value)?));
            }
            _ => return None,
        }
    }
    if name == "parseDate" && !values.positional.is_empty() {
        return None;
    }
    let (budget, scope) = (Budget::inline(), Value::from(Map::new()));
    let evaluation = Evaluation { scope: &scope, clock: None, budget: &budget };
    match evaluation.filter(filter, Some(subject), values) {
        Err(Failure::Message(message)) => {
            Some(SyntaxError { code: Some(CODE), ..SyntaxError::new(message, at) })
        }
        Ok(_) | Err(Failure::Exceeded(_)) => None,
    }
}

/// A value that a filter accepts with any valid arguments; `None` if that depends on the arguments.
fn accepted_subject(name: &str) -> Option<Value> {
    Some(match name {
        "addDuration" | "formatDate" | "parseDate" => Value::from("2026-03-01T10:00:00Z"),
        "base64" | "file" => Value::from("YWJj"),
        "hash" | "hmac" | "indent" | "split" | "trim" => Value::from("a"),
        "parseCsv" => Value::from("a\n"),
        "round" | "tojson" => Value::from(1),
        "dictsort" => Value::from(Map::new()),
        "batch" | "slice" => Value::from(vec![Value::from(1)]),
        _ => return None,
    })
}
