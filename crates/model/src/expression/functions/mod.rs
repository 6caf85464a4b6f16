//! The functions of expressions on top of MiniJinja's. Each is a function and a filter: `parseJson(x)`, `x | parseJson`.
//!
//! They are pure but for `now` and `uuid`, which ask the [`Moment`] of the evaluation. Each takes values and gives a value
//! or says what was wrong. Arguments and results are charged to the [`Budget`] of the evaluation.

mod arguments;
mod csv;
mod date;
mod digest;
mod encoding;
mod file;
mod json;
mod xml;

use self::arguments::Arguments;
pub(super) use self::date::foreign_format;
use super::evaluation::{Evaluation, Failure, Values};
use super::moment::Moment;
use crate::budget::{Budget, ENTRY_MEMORY, Exceeded, ITEM_MEMORY};
use crate::value::{Map, Value};

/// How many keys, items, cells, elements or attributes a parsed text may have; that of JSON in a webhook.
const MAX_NODES: usize = 250_000;
/// The most numbers that `range` gives.
const MAX_RANGE: usize = 100_000;
/// How deep a parsed text may nest; that of JSON in a webhook.
const MAX_DEPTH: usize = 64;

/// A function of expressions, as it is declared.
pub struct Function {
    /// The name by which it is called.
    pub name: &'static str,
    /// What it takes, in order; each may also be given by its name.
    pub parameters: &'static [&'static str],
    /// How many of `parameters`, from the first on, have to be given.
    pub required: usize,
    /// What it does, in a line.
    pub about: &'static str,
    run: Run,
}

/// What a function goes by.
enum Run {
    /// Its arguments alone. Such a one is also a filter.
    Pure(fn(&Arguments<'_>) -> Result<Value, String>),
    /// Its arguments, and the budget that it charges as it goes. Such a one is no filter.
    Charged(fn(&Arguments<'_>, &Budget) -> Result<Value, Failure>),
    /// A map of its named arguments, on top of another one.
    Dictionary,
    /// Where it is evaluated.
    Here(fn(&dyn Moment) -> Result<Value, String>),
}

impl Function {
    /// Whether it may give something else when it is evaluated again.
    #[must_use]
    pub fn is_dated(&self) -> bool {
        matches!(self.run, Run::Here(_))
    }

    /// True if it is also a filter.
    pub(super) fn is_filter(&self) -> bool {
        matches!(self.run, Run::Pure(_))
    }
}

/// All functions, by name. The manual's table is compared with this one.
pub const TABLE: [Function; 14] = [
    Function {
        name: "addDuration",
        parameters: &["date", "duration"],
        required: 2,
        about: "a date moved by a duration such as `2h` or `-1d`",
        run: Run::Pure(date::add_duration),
    },
    Function {
        name: "base64",
        parameters: &["data", "decode", "urlSafe"],
        required: 1,
        about: "text or a file as base64; with `decode=true` the text decoded from base64",
        run: Run::Pure(encoding::base64),
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
        name: "now",
        parameters: &[],
        required: 0,
        about: "the instant at which the step began, the same in every try and after a restart",
        run: Run::Here(|moment| date::written(moment.now())),
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
        name: "parseXml",
        parameters: &["data", "lists"],
        required: 1,
        about: "maps, lists and texts from XML; the elements named in `lists` are lists even when there is one",
        run: Run::Pure(xml::parse_xml),
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
        run: Run::Here(|moment| Ok(Value::from(moment.uuid().to_string()))),
    },
];

/// The functions by name, each with a line that says what it does.
pub const FUNCTIONS: &[(&str, &str)] = &lines();

/// The functions of Jinja itself, which are no filters.
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

const fn lines() -> [(&'static str, &'static str); TABLE.len()] {
    let mut lines = [("", ""); TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        lines[at] = (TABLE[at].name, TABLE[at].about);
        at += 1;
    }
    lines
}

/// Whether this function may give something else when it is evaluated again.
pub(super) fn is_dated(name: &str) -> bool {
    TABLE.iter().any(|function| function.name == name && function.is_dated())
}

/// The function of this name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    TABLE.iter().chain(&BUILTIN).find(|function| function.name == name)
}

/// Calls a function outside of expressions, with its arguments by their names; one that is `null` is left out.
///
/// # Errors
/// There is no such function, it depends on where it is evaluated, or what it was given is not what it takes.
pub fn apply(name: &str, arguments: &[(&str, &Value)]) -> Result<Value, String> {
    let function = TABLE.iter().find(|function| function.name == name);
    let Some((function, Run::Pure(run))) = function.map(|function| (function, &function.run)) else {
        return Err(format!("there is no function `{name}` of values alone"));
    };
    let budget = Budget::default();
    for (_, value) in arguments {
        charge(value, &budget).map_err(|exceeded| exceeded.to_string())?;
    }
    let result = run(&Arguments::named(function, arguments))?;
    charge(&result, &budget).map_err(|exceeded| exceeded.to_string())?;
    Ok(result)
}

/// The value of a call within an expression.
pub(super) fn call(
    function: &'static Function,
    evaluation: &Evaluation<'_>,
    values: Values,
) -> Result<Value, Failure> {
    let named = |failure: Failure| match failure {
        Failure::Message(message) => Failure::Message(format!("`{}`: {message}", function.name)),
        exceeded @ Failure::Exceeded(_) => exceeded,
    };
    let budget = evaluation.budget;
    budget.work(1)?;
    if matches!(function.run, Run::Dictionary) {
        return dictionary(values, budget).map_err(named);
    }
    let arguments = Arguments::read(function, values).map_err(|message| named(message.into()))?;
    for value in arguments.given() {
        charge(value, budget)?;
    }
    let result = match function.run {
        Run::Pure(run) => run(&arguments).map_err(|message| named(message.into()))?,
        Run::Charged(run) => return run(&arguments, budget).map_err(named),
        // What these give is small, and costs nothing.
        Run::Here(run) => {
            let moment = evaluation
                .moment
                .ok_or("it has no value here: nothing is kept of what is read outside of steps");
            let moment = moment.map_err(|message| named(message.into()))?;
            return run(&**moment).map_err(|message| named(message.into()));
        }
        Run::Dictionary => Value::Null,
    };
    charge(&result, budget)?;
    Ok(result)
}

/// `dict`: a map of the named arguments, on top of the entries of a map.
fn dictionary(values: Values, budget: &Budget) -> Result<Value, Failure> {
    let mut map = match values.positional.as_slice() {
        [] => Map::new(),
        [Value::Map(map)] => {
            budget.allocate(map.len() * ENTRY_MEMORY)?;
            Map::clone(map)
        }
        _ => return Err("takes a map, and values by their names".into()),
    };
    budget.allocate(values.named.len() * ENTRY_MEMORY)?;
    for (name, value) in values.named {
        map.insert(name, value);
    }
    Ok(Value::from(map))
}

/// `range`: the whole numbers from `start` up to `stop`, in steps of `step`.
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
    budget.list(count)?;
    let numbers = (0..count).scan(start, |next, _| {
        let number = *next;
        *next = next.saturating_add(step);
        Some(Value::from(number))
    });
    Ok(numbers.collect())
}

/// Charges a value that a function takes or makes, by what it keeps in memory.
fn charge(value: &Value, budget: &Budget) -> Result<(), Exceeded> {
    budget.allocate(memory(value, budget.memory_left()))
}

/// About how many bytes a value keeps in memory; counting stops once it is over `limit`.
fn memory(value: &Value, limit: usize) -> usize {
    let mut sum = match value {
        Value::String(text) => text.len(),
        // What is kept outside comes into memory only where a function needs it whole, which is limited by itself.
        Value::File(file) => file.data.here().map_or(0, bytes::Bytes::len),
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
