//! Checks the literal arguments of filters and functions at compile time: durations, zones, units, patterns, flags, and all others by
//! calling the filter. Without this check each of them fails in the execution.

use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr};
use text::units;
use value::budget::Budget;
use value::{Map, Value};

use super::SyntaxError;
use super::comparison::range;
use super::evaluation::{Evaluation, Notes, Values};
use super::failure::Failure;
use super::filters::Filter;
use super::functions;
use super::pattern::Pattern;
use super::program::literal;
use super::signature::CODE;

/// Checks the literal arguments whose parameters have a form.
pub(super) fn check(
    name: &str,
    parameters: &[&'static str],
    args: &[CallArg<'_>],
    at: &Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    check_duration(name, parameters, args, text)
        .or_else(|| check_flags(name, parameters, args, at, text))
        .or_else(|| check_zone(name, parameters, args, at, text))
        .or_else(|| check_unit(name, parameters, args, at, text))
        .or_else(|| check_pattern(name, parameters, args, text))
}

/// The argument of a parameter.
fn argument_of<'a>(
    parameter: &str,
    parameters: &[&'static str],
    args: &'a [CallArg<'a>],
) -> Option<&'a Expr<'a>> {
    let slot = parameters.iter().position(|known| *known == parameter)?;
    let named = args.iter().find_map(|argument| match argument {
        CallArg::Kwarg(name, value) if *name == parameter => Some(value),
        _ => None,
    });
    let positional = match args.get(slot) {
        Some(CallArg::Pos(value)) => Some(value),
        _ => None,
    };
    named.or(positional)
}

/// The literal text of a parameter.
fn literal_of<'a>(parameter: &str, parameters: &[&'static str], args: &'a [CallArg<'a>]) -> Option<&'a str> {
    let Expr::Const(constant) = argument_of(parameter, parameters, args)? else { return None };
    constant.value.as_str()
}

/// Checks a literal time zone for which there is a suggestion.
fn check_zone(
    name: &str,
    parameters: &[&'static str],
    args: &[CallArg<'_>],
    at: &Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let written = literal_of("timezone", parameters, args)?;
    if jiff::tz::db().get(written).is_ok() {
        return None;
    }
    let meant = value::instant::suggest_zone(written)?;
    let message = format!("`{name}`: `{written}` is not a time zone; did you mean `{meant}`?");
    let meant = format!("'{meant}'");
    let help = Some(format!("write `{meant}`"));
    Some(literal_error(message, help, Some(meant), (written, at, text)))
}

/// Checks a literal duration, and suggests one for `1 day`.
fn check_duration(
    name: &str,
    parameters: &[&'static str],
    args: &[CallArg<'_>],
    text: &str,
) -> Option<SyntaxError> {
    let written = literal_of("duration", parameters, args)?;
    let (_, length) = functions::split_sign(written);
    let sign = &written[..written.len() - length.len()];
    let parsed = match name {
        "duration" => units::parse_fixed_period(length).err(),
        _ => units::parse_period(length).err(),
    };
    let error = parsed?;
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

/// Checks a literal unit of a calculation with dates.
fn check_unit(
    name: &str,
    parameters: &[&'static str],
    args: &[CallArg<'_>],
    at: &Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let written = literal_of("unit", parameters, args).filter(|_| name != "parseDate")?;
    let (message, meant) = functions::check_unit(written)?;
    let meant = meant.map(|meant| format!("'{meant}'"));
    let help = meant.as_ref().map(|meant| format!("write `{meant}`"));
    Some(literal_error(format!("`{name}`: {message}"), help, meant, (written, at, text)))
}

/// Checks a literal pattern.
fn check_pattern(
    name: &str,
    parameters: &[&'static str],
    args: &[CallArg<'_>],
    text: &str,
) -> Option<SyntaxError> {
    let expr = argument_of("pattern", parameters, args)?;
    let written = literal_of("pattern", parameters, args)?;
    let reason = Pattern::compile(written).err()?;
    let message = format!("`{name}`: this is not a regular expression that can be used: {reason}");
    let help = match written.starts_with('/') {
        true => "write the expression without `/` around it; `(?i)` before it ignores case".to_owned(),
        false => "a pattern has no back-references and no look-around; `\\\\.` in quotes is one backslash and a dot".to_owned(),
    };
    let help = Some(help.into());
    Some(SyntaxError { help, code: Some("bad-pattern"), ..SyntaxError::new(message, range(expr, text)) })
}

/// Parameters that are true or false.
const FLAGS: [&str; 8] =
    ["blank", "boolean", "case_sensitive", "decode", "first", "header", "reverse", "urlSafe"];

/// Checks literal arguments that are true or false: `sort('price')` would sort in reverse order.
fn check_flags(
    name: &str,
    parameters: &[&'static str],
    args: &[CallArg<'_>],
    at: &Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let positional = args.iter().zip(parameters).filter_map(|(argument, parameter)| match argument {
        CallArg::Pos(Expr::Const(constant)) => Some((*parameter, constant.value.as_str()?)),
        _ => None,
    });
    let mut texts = positional.filter(|(parameter, written)| {
        FLAGS.contains(parameter) && !["true", "false"].contains(&written.to_ascii_lowercase().as_str())
    });
    let (flag, written) = texts.next()?;
    let meant = ["attribute", "delimiter"].into_iter().find(|meant| parameters.contains(meant));
    let meant = meant.map(|meant| format!("{meant}='{written}'"));
    let help = meant.as_ref().map(|meant| format!("write `{name}({meant})`"));
    let fix = meant.filter(|_| args.len() == 1 && !written.contains('\''));
    let message = format!("`{flag}`, the first argument of `{name}`, is true or false, not a text");
    let message =
        if args.len() == 1 { message } else { format!("`{flag}` of `{name}` is true or false, not a text") };
    Some(literal_error(message, help, fix, (written, at, text)))
}

/// Checks a literal text whose `format` has no place for its arguments: `'Hello {}' | format(name)`.
pub(super) fn check_format(pattern: &Expr<'_>, args: &[CallArg<'_>], text: &str) -> Option<SyntaxError> {
    let Expr::Const(constant) = pattern else { return None };
    let written = constant.value.as_str().filter(|written| !args.is_empty() && !written.contains('%'))?;
    let place = literal_range(written, &(0..0), text).unwrap_or(0..text.len());
    let meant = written.contains("{}").then(|| format!("'{}'", written.replace("{}", "%s")));
    let fix = meant.clone().filter(|_| place.len() == written.len() + 2 && !written.contains('\''));
    let fix = fix.map(|meant| Box::new((place.clone(), meant)));
    let help = meant
        .map_or_else(|| "write `'Hello %s' | format(name)`".to_owned(), |meant| format!("write `{meant}`"));
    let message = "`format` puts its arguments in place of `%s`, and this text has none";
    Some(SyntaxError { help: Some(help.into()), fix, code: Some(CODE), ..SyntaxError::new(message, place) })
}

/// Returns the error of a literal text behind the name at `at`, with the text that replaces it; at the name, if it is not found.
pub(super) fn literal_error(
    message: String,
    help: Option<String>,
    replacement: Option<String>,
    (literal, at, text): (&str, &Range<usize>, &str),
) -> SyntaxError {
    let place = literal_range(literal, at, text);
    let fix = replacement.zip(place.clone()).map(|(meant, place)| Box::new((place, meant)));
    let place = place.unwrap_or_else(|| at.clone());
    SyntaxError { help: help.map(Into::into), fix, code: Some(CODE), ..SyntaxError::new(message, place) }
}

/// The first literal of this text behind a name, with its quotes.
fn literal_range(written: &str, at: &Range<usize>, text: &str) -> Option<Range<usize>> {
    let rest = text.get(at.end..)?;
    let quoted = [format!("'{written}'"), format!("\"{written}\"")];
    let found = quoted.iter().filter_map(|quoted| rest.find(quoted.as_str())).min()?;
    Some(at.end + found..at.end + found + written.len() + 2)
}

/// Calls a filter with its literal arguments on a value that it accepts: a failure is one of the arguments.
pub(super) fn check_call(filter: Filter, args: &[CallArg<'_>], at: Range<usize>) -> Option<SyntaxError> {
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
    let (budget, scope, notes) = (Budget::inline(), Value::from(Map::new()), Notes::default());
    let evaluation = Evaluation { scope: &scope, item: None, clock: None, budget: &budget, notes: &notes };
    match evaluation.filter(filter, Some(subject), values, &[]) {
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
