//! Checks the arguments of filters, tests and functions against their parameters at compile time: an unknown, surplus or missing
//! argument, and a literal that the filter or function refuses. Without this check each of them fails in the execution.

use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr};
use text::diagnostic::nearest;
use text::units;
use value::budget::Budget;
use value::{Map, Value};

use super::SyntaxError;
use super::evaluation::{Evaluation, Failure, Values};
use super::filters::{self, Filter};
use super::functions;
use super::predicates;
use super::program::literal;
use super::tokens::Tokens;

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
        Filter::Builtin(row) => match row.signature() {
            Some(signature) => signature,
            None => return check_attribute(name, args, &at, text),
        },
        Filter::Function(function) => (function.parameters.get(1..)?, function.required.saturating_sub(1)),
    };
    check(&Signature { name, parameters, required }, args, at.clone(), text)
        .or_else(|| check_duration(parameters, args, text))
        .or_else(|| check_flags(name, parameters, args, &at, text))
        .or_else(|| check_zone(name, parameters, args, &at, text))
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
        .or_else(|| check_flags(name, parameters, args, &at, text))
        .or_else(|| check_zone(name, parameters, args, &at, text))
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

/// The literal text of a parameter.
fn literal_of<'a>(parameter: &str, parameters: &[&'static str], args: &'a [CallArg<'_>]) -> Option<&'a str> {
    let slot = parameters.iter().position(|known| *known == parameter)?;
    let named = args.iter().find_map(|argument| match argument {
        CallArg::Kwarg(name, value) if *name == parameter => Some(value),
        _ => None,
    });
    let positional = match args.get(slot) {
        Some(CallArg::Pos(value)) => Some(value),
        _ => None,
    };
    let Expr::Const(constant) = named.or(positional)? else { return None };
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
fn check_duration(parameters: &[&'static str], args: &[CallArg<'_>], text: &str) -> Option<SyntaxError> {
    let written = literal_of("duration", parameters, args)?;
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

/// Checks a literal attribute that holds a comparison: `selectattr('price > 5')`.
fn check_attribute(name: &str, args: &[CallArg<'_>], at: &Range<usize>, text: &str) -> Option<SyntaxError> {
    let ("selectattr" | "rejectattr", [CallArg::Pos(Expr::Const(constant))]) = (name, args) else {
        return None;
    };
    let written = constant.value.as_str()?;
    let [attribute, sign, value] = *written.splitn(3, ' ').collect::<Vec<_>>().as_slice() else {
        return None;
    };
    if !["==", "!=", "<", "<=", ">", ">="].contains(&sign) {
        return None;
    }
    let is_value = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    let value = if is_value { value.to_owned() } else { format!("'{}'", value.trim_matches(['\'', '"'])) };
    let meant = format!("'{attribute}', '{sign}', {value}");
    let message = format!("`{written}` is the name of an attribute here, not a condition");
    let help = Some(format!("write `{name}({meant})`"));
    Some(literal_error(message, help, Some(meant), (written, at, text)))
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
fn literal_error(
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
