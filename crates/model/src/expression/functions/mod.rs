//! The functions of expressions on top of MiniJinja's. Each is a function and a filter: `parseJson(x)`, `x | parseJson`.
//!
//! They are pure but for `now` and `uuid`, which ask the [`Moment`] of the evaluation. Each takes values and gives a value
//! or says what was wrong; what they may take and make together in one evaluation is bounded by [`MAX_WORK`].

mod arguments;
mod csv;
mod date;
mod digest;
mod encoding;
mod file;
mod json;
mod xml;

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use self::arguments::Arguments;
use super::moment::{self, Moment};
use crate::value::{NotAValue, Value, from_expression};

/// How much the functions of one evaluation may take and make together: bytes of text and files, and for lists and maps
/// about what they need in memory. Enough for the largest body of a webhook (25 MiB) to be hashed or encoded.
pub const MAX_WORK: usize = 64 << 20;
/// How many keys, items, cells, elements or attributes a parsed text may have; that of JSON in a webhook.
const MAX_NODES: usize = 250_000;
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
    /// Where it is evaluated.
    Here(fn(&dyn Moment) -> Result<Value, String>),
}

impl Function {
    /// Whether it may give something else when it is evaluated again.
    #[must_use]
    pub fn is_dated(&self) -> bool {
        matches!(self.run, Run::Here(_))
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
        about: "text or a file as base64; with `decode=true` the text that base64 stands for",
        run: Run::Pure(encoding::base64),
    },
    Function {
        name: "file",
        parameters: &["data", "filename", "contentType", "encoding"],
        required: 1,
        about: "a file made of text, or of base64 with `encoding='base64'`",
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
        about: "the value that a JSON text stands for",
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
        about: "text made fit for a part of a URL; a map becomes a query string",
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

/// Makes all functions known to `environment`, as functions and as filters.
pub(super) fn register(environment: &mut Environment<'static>) {
    for function in &TABLE {
        let call =
            move |state: &mut State<'_, '_>, given: Rest<ValueOrKwargs>| -> Result<minijinja::Value, Error> {
                let result = call(function, state, given);
                result.map_err(|message| {
                    Error::new(ErrorKind::InvalidOperation, format!("`{}`: {message}", function.name))
                })
            };
        environment.add_function(function.name, call);
        if !function.is_dated() {
            environment.add_filter(function.name, call);
        }
    }
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
    let mut work = Work { left: MAX_WORK };
    for (_, value) in arguments {
        work.charge(value)?;
    }
    let result = run(&Arguments::named(function, arguments))?;
    work.charge(&result)?;
    Ok(result)
}

fn call(
    function: &'static Function,
    state: &mut State<'_, '_>,
    given: Rest<ValueOrKwargs>,
) -> Result<minijinja::Value, String> {
    let arguments = Arguments::read(function, &given.into_values())?;
    let work = state.get_or_insert_extension(Work { left: MAX_WORK });
    for value in arguments.given() {
        work.charge(value)?;
    }
    let result = match function.run {
        Run::Pure(run) => run(&arguments)?,
        // What these give is small, and costs nothing.
        Run::Here(run) => return moment::of(state, run).map(|value| minijinja::Value::from(&value)),
    };
    work.charge(&result)?;
    Ok(minijinja::Value::from(&result))
}

/// What the functions of one evaluation may still take and make.
struct Work {
    left: usize,
}

impl Work {
    fn charge(&mut self, value: &Value) -> Result<(), String> {
        let over = || {
            format!("the functions of one expression may work on at most {} MiB in all", MAX_WORK / (1 << 20))
        };
        self.left = self.left.checked_sub(memory(value, self.left)).ok_or_else(over)?;
        Ok(())
    }
}

/// About how many bytes a value keeps in memory; counting stops once it is over `limit`.
fn memory(value: &Value, limit: usize) -> usize {
    const ITEM: usize = 32;
    const ENTRY: usize = 96;
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
        Value::List(list) => _ = list.0.iter().all(|item| add(ITEM, item)),
        Value::Map(map) => _ = map.iter().all(|(key, item)| add(ENTRY + key.len(), item)),
        _ => {}
    }
    sum
}

/// What an argument or a result of the expression language is, in the words of messages.
fn defined(value: &minijinja::Value) -> Result<Value, String> {
    from_expression(value).map_err(|reason| match reason {
        NotAValue::Undefined => "is not defined here".to_owned(),
        NotAValue::Kind(kind) => format!("is a {kind}, which is no value"),
        NotAValue::TooLarge => "has more than 1,000,000 items".to_owned(),
    })
}

#[cfg(test)]
mod tests;
