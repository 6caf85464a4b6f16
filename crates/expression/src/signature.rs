//! Checks the arguments of filters, tests and functions against their parameters at compile time: an unknown, surplus or missing
//! argument. Without this check each of them fails in the execution.

use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr};
use text::diagnostic::nearest;

use super::SyntaxError;
use super::comparison::{range, visit_children};
use super::dependencies::{ITEM, Item};
use super::filters::{self, BY, Filter, Further, Row};
use super::functions::{self, Function};
use super::literal_arguments::{self, literal_error};
use super::predicates;
use super::tokens::Tokens;

/// The diagnostic code.
pub(super) const CODE: &str = "wrong-argument";

/// Names of arguments in other languages, each with the parameters that it may mean here.
const ALIASES: [(&str, &[&str]); 30] = [
    ("by", &["attribute"]),
    ("decimals", &["precision"]),
    ("delimiter", &["separator", "d"]),
    ("desc", &["reverse"]),
    ("descending", &["reverse"]),
    ("digits", &["precision"]),
    ("fallback", &["default_value", "default"]),
    ("field", &["attribute", "by"]),
    ("fill", &["fill_with"]),
    ("fmt", &["format"]),
    ("from", &["old"]),
    ("condition", &["by"]),
    ("key", &["attribute", "by"]),
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
    ("where", &["by"]),
    ("with", &["new"]),
    ("zone", &["timezone"]),
    ("limit", &["maxsplit"]),
];

/// The parameters of a filter, test or function.
#[derive(Clone, Copy)]
struct Signature<'a> {
    name: &'a str,
    parameters: &'a [&'static str],
    required: usize,
    /// The parameters that are expressions over `item`.
    expressions: &'a [&'static str],
    /// Parameters of which one is required.
    one_of: &'a [&'static str],
    further: Further,
}

impl<'a> Signature<'a> {
    fn of_row(row: &'a Row) -> Self {
        let Row { name, parameters, required, expressions, one_of, further, .. } = row;
        Self { name, parameters, required: *required, expressions, one_of, further: *further }
    }

    /// `skipped` is 1 for a filter, whose subject is the first argument.
    fn of_function(function: &'a Function, skipped: usize) -> Self {
        let further = if function.is_variadic() { Further::Positional } else { Further::None };
        Self {
            name: function.name,
            parameters: function.parameters.get(skipped..).unwrap_or_default(),
            required: function.required.saturating_sub(skipped),
            expressions: &[],
            one_of: &[],
            further,
        }
    }

    fn names(&self) -> Vec<&'static str> {
        // The operands of `coalesce` have no names.
        let by_name = self.parameters.iter().filter(|_| self.further != Further::Positional);
        by_name.chain(self.expressions).copied().collect()
    }
}

/// Checks the arguments of a filter. `at` is its name in `text`.
pub(super) fn check_filter(
    name: &str,
    args: &[CallArg<'_>],
    at: Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let found = filters::find(name)?;
    let signature = match found {
        Filter::Builtin(row) if name == "map" => return check_map(row, args, &at, text),
        Filter::Builtin(row) => Signature::of_row(row),
        Filter::Function(function) => Signature::of_function(function, 1),
    };
    check(&signature, args, at.clone(), text)
        .or_else(|| check_attribute(name, args, &at, text))
        .or_else(|| check_test_argument(name, args, &at))
        .or_else(|| check_values(&signature, args, &at, text))
        .or_else(|| literal_arguments::check_call(found, args, at))
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
    let signature = Signature::of_function(function, 0);
    check(&signature, args, at.clone(), text).or_else(|| check_values(&signature, args, &at, text)).or_else(
        || {
            literal_arguments::check_call(Filter::Function(function), args.get(1..)?, at)
                .filter(|_| function.is_filter())
        },
    )
}

/// Checks the literal arguments whose values have a form.
fn check_values(
    signature: &Signature<'_>,
    args: &[CallArg<'_>],
    at: &Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let Signature { name, parameters, .. } = *signature;
    literal_arguments::check(name, parameters, args, at, text).or_else(|| check_by(signature, args, text))
}

/// Checks the arguments of `map`: those of the filter that it names, else its own.
fn check_map(row: &Row, args: &[CallArg<'_>], at: &Range<usize>, text: &str) -> Option<SyntaxError> {
    let own = Signature {
        parameters: &["attribute", "default"],
        one_of: &[BY, "attribute"],
        further: Further::None,
        ..Signature::of_row(row)
    };
    match args {
        [CallArg::Pos(first), rest @ ..] => {
            if rest.iter().any(|argument| matches!(argument, CallArg::Kwarg(BY, _))) {
                return Some(beside_by(row.name, at, text));
            }
            let Expr::Const(constant) = first else { return None };
            let inner = constant.value.as_str()?;
            check_filter(inner, rest, at.clone(), text)
        }
        // The name of the filter may be among unpacked arguments.
        args if args.iter().any(|argument| !matches!(argument, CallArg::Kwarg(..))) => None,
        args => check(&own, args, at.clone(), text).or_else(|| check_by(&own, args, text)),
    }
}

/// Checks the number of arguments of a test that is the argument of a filter.
fn check_test_argument(filter: &str, args: &[CallArg<'_>], at: &Range<usize>) -> Option<SyntaxError> {
    let position = match filter {
        "select" | "reject" => 0,
        "selectattr" | "rejectattr" => 1,
        _ => return None,
    };
    let CallArg::Pos(Expr::Const(constant)) = args.get(position)? else { return None };
    let rest = args.get(position + 1..)?;
    let is_known = rest.iter().all(|argument| matches!(argument, CallArg::Pos(_)));
    is_known.then(|| check_test(constant.value.as_str()?, rest, at.clone()))?
}

/// Checks the arguments of a test.
pub(super) fn check_test(name: &str, args: &[CallArg<'_>], at: Range<usize>) -> Option<SyntaxError> {
    let takes_one = predicates::find(name)?.takes_argument();
    let is_unpacked =
        |argument: &CallArg<'_>| matches!(argument, CallArg::PosSplat(_) | CallArg::KwargSplat(_));
    let (message, help) = match (takes_one, args) {
        (_, args) if args.iter().any(is_unpacked) => return None,
        (true, []) => (format!("the test `{name}` takes an argument"), format!("write `x is {name}(…)`")),
        (true, [CallArg::Pos(_)]) | (false, []) => return None,
        (true, [CallArg::Pos(_), ..]) => {
            (format!("the test `{name}` takes one argument"), format!("write `x is {name}(…)`"))
        }
        (true, _) => {
            (format!("the test `{name}` takes no argument by name"), format!("write `x is {name}(…)`"))
        }
        (false, _) => (format!("the test `{name}` takes no arguments"), format!("write `x is {name}`")),
    };
    Some(SyntaxError { help: Some(help.into()), code: Some(CODE), ..SyntaxError::new(message, at) })
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

/// The error for `by` beside another way to choose or compare items.
fn beside_by(name: &str, at: &Range<usize>, text: &str) -> SyntaxError {
    let place = argument_range(BY, at, text).unwrap_or_else(|| at.clone());
    let message = format!("`by` of `{name}` takes the place of its other ways to choose or compare items");
    let help = Some("remove `by`, or everything beside it".into());
    SyntaxError { help, code: Some(CODE), ..SyntaxError::new(message, place) }
}

fn error(message: String, at: Range<usize>) -> SyntaxError {
    SyntaxError { code: Some(CODE), ..SyntaxError::new(message, at) }
}

/// Checks names and numbers of arguments. Unpacked arguments are unknown, so their calls are not checked.
fn check(
    signature: &Signature<'_>,
    args: &[CallArg<'_>],
    at: Range<usize>,
    text: &str,
) -> Option<SyntaxError> {
    let Signature { name, parameters, further, .. } = signature;
    let positional = args.iter().filter(|argument| matches!(argument, CallArg::Pos(_))).count();
    if args.iter().any(|argument| matches!(argument, CallArg::PosSplat(_) | CallArg::KwargSplat(_))) {
        return None;
    }
    if positional > parameters.len() && *further == Further::None {
        return Some(surplus(signature, at, text));
    }
    // The parameters by position, then those by name.
    let mut given: Vec<&str> = parameters.iter().take(positional).copied().collect();
    for argument in args {
        let CallArg::Kwarg(found, _) = argument else { continue };
        if *further == Further::Any {
            continue;
        }
        let place = argument_range(found, &at, text).unwrap_or_else(|| at.clone());
        if !signature.names().contains(found) {
            return Some(unknown(signature, found, place, &at));
        }
        if given.contains(found) {
            return Some(error(format!("`{found}` of `{name}` is given twice"), place));
        }
        given.push(found);
    }
    let is_chosen_otherwise = given.contains(&"attribute") || positional > parameters.len();
    if is_chosen_otherwise && given.contains(&BY) && signature.expressions.contains(&BY) {
        return Some(beside_by(name, &at, text));
    }
    missing(signature, &given, at)
}

/// The error of too many arguments by position.
fn surplus(signature: &Signature<'_>, at: Range<usize>, text: &str) -> SyntaxError {
    let Signature { name, parameters, .. } = signature;
    match (parameters.len(), signature.expressions.first()) {
        (0, Some(by)) => {
            let help = Some(format!("write `{name}({by}=…)`, an expression over `item`").into());
            let names = signature.names().join(", ");
            SyntaxError { help, ..error(format!("`{name}` takes its arguments by name: {names}"), at) }
        }
        (0, None) => {
            let fix = without_brackets(&at, text).map(Box::new);
            let help = Some(format!("write `{name}` without brackets").into());
            let help = help.filter(|_| !is_call(&at, text));
            SyntaxError { fix, help, ..error(format!("`{name}` takes no arguments"), at) }
        }
        (max, _) => {
            let names = parameters.join(", ");
            error(format!("`{name}` takes at most {max} arguments: {names}"), at)
        }
    }
}

/// The error of an argument whose name is not a parameter. `at` is the name of the filter or function.
fn unknown(signature: &Signature<'_>, found: &str, place: Range<usize>, at: &Range<usize>) -> SyntaxError {
    let names = signature.names();
    let takes = match (names.is_empty(), signature.further) {
        (true, Further::None) => "it takes none".to_owned(),
        (true, _) => "it takes none by name".to_owned(),
        (false, _) => format!("it takes {}", names.join(", ")),
    };
    let meant = meant(found, &names);
    let help = meant.map(|meant| format!("write `{meant}=…`").into());
    let fix = meant.filter(|_| place != *at).map(|meant| Box::new((place.clone(), meant.to_owned())));
    SyntaxError {
        help,
        fix,
        ..error(format!("`{}` has no argument `{found}`; {takes}", signature.name), place)
    }
}

/// The error of a required argument that is missing.
fn missing(signature: &Signature<'_>, given: &[&str], at: Range<usize>) -> Option<SyntaxError> {
    let Signature { name, parameters, required, one_of, .. } = signature;
    let missing = match parameters.iter().take(*required).find(|parameter| !given.contains(*parameter)) {
        Some(missing) => missing,
        None => one_of.first().filter(|_| !one_of.iter().any(|name| given.contains(name)))?,
    };
    let help = match signature.expressions.contains(missing) {
        true => format!("write `{name}({missing}=…)`, an expression over `item`"),
        false => format!("it takes {}", signature.names().join(", ")),
    };
    let message = format!("the argument `{missing}` of `{name}` is missing");
    Some(SyntaxError { help: Some(help.into()), ..error(message, at) })
}

/// Checks that `by` reads `item`: a name without it is meant as a field, and anything else is the same for each item.
fn check_by(signature: &Signature<'_>, args: &[CallArg<'_>], text: &str) -> Option<SyntaxError> {
    let by = args.iter().find_map(|argument| match argument {
        CallArg::Kwarg(BY, expr) if signature.expressions.contains(&BY) => Some(expr),
        _ => None,
    });
    let by = by.filter(|expr| !reads_item(expr))?;
    let name = match by {
        Expr::Var(name) => Some(name.id),
        Expr::Const(constant) => constant.value.as_str(),
        _ => None,
    };
    let is_word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let meant = name.filter(|name| name.split('.').all(is_word)).map(|name| format!("item.{name}"));
    let place = range(by, text);
    let message = format!(
        "`by` of `{}` is an expression over `item`; without it, the value is the same for each item",
        signature.name
    );
    let help = format!("write `by={}`", meant.as_deref().unwrap_or("item.name"));
    let fix = meant.map(|meant| Box::new((place.clone(), meant)));
    Some(SyntaxError { help: Some(help.into()), fix, code: Some(CODE), ..SyntaxError::new(message, place) })
}

/// True if an expression reads `item`.
fn reads_item(expr: &Expr<'_>) -> bool {
    let mut found = matches!(expr, Expr::Var(name) if name.id == ITEM);
    visit_children(expr, &Item::default(), &mut |part, _| found |= reads_item(part));
    found
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
