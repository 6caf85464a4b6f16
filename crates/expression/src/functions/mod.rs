//! The functions of expressions in addition to MiniJinja's. Most are also filters: `parseJson(x)`, `x | parseJson`.
//!
//! They are pure except `now` and `uuid`, which read the [`EvalClock`] of the evaluation. Each takes values and returns a value
//! or an error message. Arguments and results are charged to the [`Budget`] of the evaluation.

mod arguments;
mod calendar;
mod csv;
mod date;
mod digest;
mod encoding;
mod file;
mod json;
mod patterns;
mod url;
mod xml;

use std::sync::Arc;

use value::budget::{Budget, ENTRY_MEMORY, Exceeded, ITEM_MEMORY};
use value::{Map, Value};

use self::arguments::Arguments;
pub(super) use self::calendar::{check_unit, split_sign};
pub(super) use self::date::foreign_format;
use super::eval_clock::EvalClock;
use super::evaluation::{Evaluation, Values};
use super::failure::Failure;
use super::pattern::Pattern;
use super::program::Argument;

/// Maximum number of keys, items, cells, elements or attributes of a parsed text; the same as for JSON in a webhook.
const MAX_NODES: usize = 250_000;
/// Maximum number of integers that `range` returns.
const MAX_RANGE: usize = 100_000;
/// Maximum nesting of a parsed text; the same as for JSON in a webhook.
const MAX_DEPTH: usize = 64;

/// A function of expressions.
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// The parameters, in order; a call may also pass each by name.
    pub parameters: &'static [&'static str],
    /// The number of leading `parameters` that are required.
    pub required: usize,
    /// A description of one line.
    pub about: &'static str,
    run: Run,
}

/// The implementation of a function, by its inputs.
enum Run {
    /// Depends on its arguments only. The function is also a filter.
    Pure(fn(&Arguments<'_>) -> Result<Value, String>),
    /// Depends on its arguments, and charges the budget while it runs. The function is not a filter.
    Charged(fn(&Arguments<'_>, &Budget) -> Result<Value, Failure>),
    /// Depends on its arguments and on the pattern in its parameter [`PATTERN`], and charges the budget while it runs. The function
    /// is also a filter.
    Pattern(fn(&Arguments<'_>, &Pattern, &Budget) -> Result<Value, Failure>),
    /// Returns the first argument that is neither undefined nor null. The function is also a filter. A call in an expression is a
    /// node of its own, [`Node::Coalesce`](super::program::Node::Coalesce).
    Coalesce,
    /// Returns a map of its named arguments, merged into another map.
    Dictionary,
    /// Depends on the time or randomness of the evaluation.
    Clock(fn(&dyn EvalClock) -> Result<Value, String>),
}

impl Function {
    /// True if the result may differ between evaluations.
    #[must_use]
    pub fn is_nondeterministic(&self) -> bool {
        matches!(self.run, Run::Clock(_))
    }

    /// True if the function takes arguments of any name.
    pub(super) fn takes_any(&self) -> bool {
        matches!(self.run, Run::Dictionary)
    }

    /// True if the function takes any number of arguments, by position only.
    #[must_use]
    pub fn is_variadic(&self) -> bool {
        matches!(self.run, Run::Coalesce)
    }

    /// True if the function is also a filter.
    pub(super) fn is_filter(&self) -> bool {
        matches!(self.run, Run::Pure(_) | Run::Pattern(_) | Run::Coalesce)
    }

    /// The call with its parameters, for people: `hash(data, algorithm=, encoding=)`.
    #[must_use]
    pub fn usage(&self) -> String {
        usage(self.name, self.parameters, self.required, self.is_variadic())
    }
}

/// A call with its parameters: optional ones end with `=`.
pub(super) fn usage(name: &str, parameters: &[&str], required: usize, is_variadic: bool) -> String {
    let parameters = parameters.iter().enumerate();
    let mut parameters: Vec<String> = parameters
        .map(|(at, name)| if at < required { (*name).to_owned() } else { format!("{name}=") })
        .collect();
    parameters.extend(is_variadic.then(|| "…".to_owned()));
    format!("{name}({})", parameters.join(", "))
}

/// The name of the function that takes the first value that exists.
pub(super) const COALESCE: &str = "coalesce";
/// The parameter of a regular expression.
const PATTERN: &str = "pattern";

/// The position of the parameter that is a regular expression.
pub(super) fn pattern_parameter(function: &Function) -> Option<usize> {
    let is_pattern = matches!(function.run, Run::Pattern(_));
    is_pattern.then(|| function.parameters.iter().position(|name| *name == PATTERN)).flatten()
}

/// All functions, by name. A test compares the manual's table with this one.
pub const TABLE: [Function; 23] = [
    Function {
        name: "addDuration",
        parameters: &["date", "duration", "timezone"],
        required: 2,
        about: "a date moved by a duration such as `2h`, `-1d`, `1mo` or `PT15M`",
        run: Run::Pure(calendar::add_duration),
    },
    Function {
        name: "base64",
        parameters: &["data", "decode", "urlSafe"],
        required: 1,
        about: "text or a file as base64; with `decode=true` the text decoded from base64",
        run: Run::Pure(encoding::base64),
    },
    Function {
        name: COALESCE,
        parameters: &["a", "b"],
        required: 2,
        about: "the first value that is neither missing nor null, else null",
        run: Run::Coalesce,
    },
    Function {
        name: "dateDiff",
        parameters: &["start", "end", "unit", "timezone"],
        required: 2,
        about: "the whole seconds, or another `unit`, from one date to another",
        run: Run::Pure(calendar::date_diff),
    },
    Function {
        name: "duration",
        parameters: &["duration"],
        required: 1,
        about: "the seconds of a duration such as `1h30m` or `PT15M`",
        run: Run::Pure(calendar::seconds),
    },
    Function {
        name: "file",
        parameters: &["data", "filename", "contentType", "encoding"],
        required: 1,
        about: "a file from text, or from base64 with `encoding='base64'`",
        run: Run::Pure(file::file),
    },
    Function {
        name: "formatDate",
        parameters: &["date", "format", "timezone"],
        required: 1,
        about: "a date as text in a format and a time zone",
        run: Run::Pure(date::format_date),
    },
    Function {
        name: "hash",
        parameters: &["data", "algorithm", "encoding"],
        required: 1,
        about: "the digest of text or a file: `sha256`, `sha512`, `sha1` or `md5`, as `hex` or `base64`",
        run: Run::Pure(digest::hash),
    },
    Function {
        name: "hmac",
        parameters: &["data", "key", "algorithm", "encoding"],
        required: 2,
        about: "the keyed digest of text or a file, with the algorithms and encodings of `hash`",
        run: Run::Pure(digest::hmac),
    },
    Function {
        name: "match",
        parameters: &["text", PATTERN],
        required: 2,
        about: "the first match of a pattern as `{text, groups, names}`, or null",
        run: Run::Pattern(patterns::first_match),
    },
    Function {
        name: "matchAll",
        parameters: &["text", PATTERN],
        required: 2,
        about: "the list of all matches of a pattern",
        run: Run::Pattern(patterns::all_matches),
    },
    Function {
        name: "matches",
        parameters: &["text", PATTERN],
        required: 2,
        about: "true if a pattern matches anywhere in a text",
        run: Run::Pattern(patterns::matches),
    },
    Function {
        name: "now",
        parameters: &[],
        required: 0,
        about: "the instant at which the step began, the same in every try and after a restart",
        run: Run::Clock(|clock| date::to_value(clock.now())),
    },
    Function {
        name: "parseCsv",
        parameters: &["data", "header", "delimiter"],
        required: 1,
        about: "a list of maps from CSV with a header row; with `header=false` a list of lists",
        run: Run::Pure(csv::parse_csv),
    },
    Function {
        name: "parseDate",
        parameters: &["date", "format", "timezone", "unit"],
        required: 1,
        about: "a date in one form, RFC 3339 in UTC, from text in most forms or from seconds since 1970",
        run: Run::Pure(date::parse_date),
    },
    Function {
        name: "parseJson",
        parameters: &["data"],
        required: 1,
        about: "the value of a JSON text",
        run: Run::Pure(json::parse_json),
    },
    Function {
        name: "parseUrl",
        parameters: &["url"],
        required: 1,
        about: "the parts of a URL: `scheme`, `host`, `port`, `path`, `segments`, `query`, `fragment`",
        run: Run::Pure(url::parse_url),
    },
    Function {
        name: "parseXml",
        parameters: &["data", "lists", "trim"],
        required: 1,
        about: "maps, lists and texts from XML; the elements named in `lists` are lists even when there is one; with `trim=false` texts keep white space at their ends",
        run: Run::Pure(xml::parse_xml),
    },
    Function {
        name: "replaceMatches",
        parameters: &["text", PATTERN, "with"],
        required: 3,
        about: "text with each match of a pattern replaced; `${1}` and `${name}` are its groups",
        run: Run::Pattern(patterns::replace_matches),
    },
    Function {
        name: "startOf",
        parameters: &["date", "unit", "timezone"],
        required: 2,
        about: "the instant at which the minute, hour, day, week, month, quarter or year of a date begins",
        run: Run::Pure(calendar::start_of),
    },
    Function {
        name: "toCsv",
        parameters: &["rows", "columns", "header", "delimiter"],
        required: 1,
        about: "CSV from a list of maps, or of lists",
        run: Run::Pure(csv::to_csv),
    },
    Function {
        name: "urlencode",
        parameters: &["data"],
        required: 1,
        about: "text encoded for a part of a URL; a map becomes a query string",
        run: Run::Pure(encoding::urlencode),
    },
    Function {
        name: "uuid",
        parameters: &[],
        required: 0,
        about: "a new UUID for each call of it in a step, the same in every try and after a restart",
        run: Run::Clock(|clock| Ok(Value::from(clock.uuid().to_string()))),
    },
];

/// The functions by name, each with its description.
pub const FUNCTIONS: &[(&str, &str)] = &descriptions();

/// Jinja's own functions, which are not filters.
const BUILTIN: [Function; 2] = [
    Function {
        name: "dict",
        parameters: &["value"],
        required: 0,
        about: "a map of named arguments, on top of another map",
        run: Run::Dictionary,
    },
    Function {
        name: "range",
        parameters: &["start", "stop", "step"],
        required: 1,
        about: "the whole numbers up to one, or from one up to another",
        run: Run::Charged(range),
    },
];

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().chain(&BUILTIN).map(|function| function.name)
}

const fn descriptions() -> [(&'static str, &'static str); TABLE.len()] {
    let mut lines = [("", ""); TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        lines[at] = (TABLE[at].name, TABLE[at].about);
        at += 1;
    }
    lines
}

/// True if the function of this name may return different results between evaluations.
pub(super) fn is_nondeterministic(name: &str) -> bool {
    TABLE.iter().any(|function| function.name == name && function.is_nondeterministic())
}

/// The function of this name; `None` if it does not exist.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    TABLE.iter().chain(&BUILTIN).find(|function| function.name == name)
}

/// Calls a pure function outside expressions, with named arguments; `null` counts as omitted.
///
/// # Errors
/// Returns an error if there is no such pure function, or an argument is invalid.
pub fn apply(name: &str, arguments: &[(&str, &Value)]) -> Result<Value, String> {
    let function = TABLE.iter().find(|function| function.name == name);
    let Some((function, Run::Pure(run))) = function.map(|function| (function, &function.run)) else {
        return Err(format!("there is no pure function `{name}`"));
    };
    let budget = Budget::default();
    for (_, value) in arguments {
        charge(value, &budget).map_err(|exceeded| exceeded.to_string())?;
    }
    let result = run(&Arguments::from_named(function, arguments, &budget))?;
    charge(&result, &budget).map_err(|exceeded| exceeded.to_string())?;
    Ok(result)
}

/// Calls a function within an expression.
pub(super) fn call(
    function: &'static Function,
    evaluation: &Evaluation<'_>,
    values: Values,
    written: &[Argument],
) -> Result<Value, Failure> {
    let prefix_name = |failure: Failure| match failure {
        Failure::Message(message) => Failure::Message(format!("`{}`: {message}", function.name)),
        exceeded @ Failure::Exceeded(_) => exceeded,
    };
    let budget = evaluation.budget;
    budget.charge(1)?;
    if matches!(function.run, Run::Dictionary) {
        return dictionary(values, budget).map_err(prefix_name);
    }
    if matches!(function.run, Run::Coalesce) {
        let mut values = values.positional.into_iter();
        return Ok(values.find(|value| !value.is_null()).unwrap_or_default());
    }
    let arguments =
        Arguments::bind(function, values, budget).map_err(|message| prefix_name(message.into()))?;
    for value in arguments.present() {
        charge(value, budget)?;
    }
    let result = match function.run {
        Run::Pure(run) => run(&arguments).map_err(|message| prefix_name(message.into()))?,
        Run::Charged(run) => return run(&arguments, budget).map_err(prefix_name),
        // These results are small and not charged.
        Run::Clock(run) => {
            let clock = evaluation
                .clock
                .ok_or("it has no value here: expressions outside steps have no recorded time");
            let clock = clock.map_err(|message| prefix_name(message.into()))?;
            return run(&**clock).map_err(|message| prefix_name(message.into()));
        }
        Run::Pattern(run) => {
            let pattern = pattern(&arguments, evaluation, written).map_err(prefix_name)?;
            return run(&arguments, &pattern, budget).map_err(prefix_name);
        }
        Run::Dictionary | Run::Coalesce => Value::Null,
    };
    charge(&result, budget)?;
    Ok(result)
}

/// The pattern of a call: the literal one, compiled once, or one that the arguments give.
fn pattern(
    arguments: &Arguments<'_>,
    evaluation: &Evaluation<'_>,
    written: &[Argument],
) -> Result<Arc<Pattern>, Failure> {
    let source = arguments.text(PATTERN)?.unwrap_or_default();
    let literal = written.iter().find_map(|argument| match argument {
        Argument::Pattern(_, text, compiled) => Some(compiled).filter(|_| text == source),
        _ => None,
    });
    if let Some(compiled) = literal.and_then(|compiled| compiled.get()) {
        return Ok(compiled.clone());
    }
    let last = evaluation.notes.pattern.borrow().clone();
    if let Some((_, pattern)) = last.filter(|(known, _)| known == source) {
        return Ok(pattern);
    }
    let pattern = Pattern::compile_charged(source, evaluation.budget)?
        .map_err(|reason| format!("`{PATTERN}` is not a regular expression that can be used: {reason}"))?;
    match literal {
        Some(compiled) => _ = compiled.set(pattern.clone()),
        None => *evaluation.notes.pattern.borrow_mut() = Some((source.into(), pattern.clone())),
    }
    Ok(pattern)
}

/// `dict`: merges the named arguments into a map.
fn dictionary(values: Values, budget: &Budget) -> Result<Value, Failure> {
    let mut map = match values.positional.as_slice() {
        [] => Map::new(),
        [Value::Map(map)] => {
            budget.allocate(map.len() * ENTRY_MEMORY)?;
            Map::clone(map)
        }
        _ => return Err("takes a map, and named values".into()),
    };
    budget.allocate(values.named.len() * ENTRY_MEMORY)?;
    for (name, value) in values.named {
        map.insert(name, value);
    }
    Ok(Value::from(map))
}

/// `range`: the integers from `start` up to `stop`, in steps of `step`.
fn range(arguments: &Arguments<'_>, budget: &Budget) -> Result<Value, Failure> {
    let number = |name: &str| match arguments.value(name) {
        Value::Null => Ok(None),
        value => value.as_i64().map(Some).ok_or_else(|| format!("`{name}` is a whole number")),
    };
    let (start, stop, step) = (number("start")?.unwrap_or(0), number("stop")?, number("step")?.unwrap_or(1));
    let (start, stop) = stop.map_or((0, start), |stop| (start, stop));
    if step == 0 {
        return Err("`step` cannot be 0".into());
    }
    let distance =
        if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let step_size = i128::from(step.unsigned_abs());
    let count = usize::try_from((distance + step_size - 1) / step_size).unwrap_or(0);
    if count > MAX_RANGE {
        return Err(format!("gives at most {MAX_RANGE} numbers").into());
    }
    budget.allocate_list(count)?;
    let numbers = (0..count).scan(start, |next, _| {
        let number = *next;
        *next = next.saturating_add(step);
        Some(Value::from(number))
    });
    Ok(numbers.collect())
}

/// Charges the memory of an argument or a result.
fn charge(value: &Value, budget: &Budget) -> Result<(), Exceeded> {
    budget.allocate(memory(value, budget.memory_left()))
}

/// The approximate memory of a value in bytes. Counting stops above `limit`.
fn memory(value: &Value, limit: usize) -> usize {
    let mut sum = match value {
        Value::String(text) => text.len(),
        // External bytes are loaded only by functions that need them, within a limit of their own.
        Value::File(file) => file.data.in_memory().map_or(0, bytes::Bytes::len),
        _ => 0,
    };
    let mut add = |own: usize, inner: &Value| {
        sum = sum.saturating_add(own).saturating_add(memory(inner, limit.saturating_sub(sum)));
        sum <= limit
    };
    match value {
        Value::List(list) => _ = list.0.iter().all(|item| add(ITEM_MEMORY, item)),
        Value::Map(map) => _ = map.iter().all(|(key, item)| add(ENTRY_MEMORY + key.len(), item)),
        _ => {}
    }
    sum
}

#[cfg(test)]
mod tests;
