//! What a call of a function gives it: by position or by name, with messages that name function and parameter.

use std::borrow::Cow;

use super::Function;
use crate::diagnostic::nearest;
use crate::expression::evaluation::Values;
use crate::value::{File, MOST_WHOLE, Value};
use bytes::Bytes;

/// The arguments of one call, in the order of the function's parameters.
pub(super) struct Arguments<'a> {
    function: &'a Function,
    values: Vec<Option<Value>>,
}

impl<'a> Arguments<'a> {
    /// Sorts the arguments by the function's parameters. A `null` for one that may be left out is as if left out.
    pub(super) fn read(function: &'a Function, given: Values) -> Result<Self, String> {
        let parameters = function.parameters;
        if given.positional.len() > parameters.len() {
            return Err(format!("takes at most {} arguments: {}", parameters.len(), written(parameters)));
        }
        let mut values: Vec<Option<Value>> = given.positional.into_iter().map(Some).collect();
        values.resize(parameters.len(), None);
        for (name, value) in given.named {
            let Some(at) = parameters.iter().position(|parameter| *parameter == name) else {
                let near = nearest(&name, parameters.iter().copied()).map_or_else(
                    || format!("it takes {}", written(parameters)),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(format!("there is no argument `{name}`; {near}"));
            };
            if values[at].is_some() {
                return Err(format!("`{name}` is given twice"));
            }
            values[at] = Some(value);
        }
        for (at, value) in values.iter_mut().enumerate() {
            if at < function.required && value.is_none() {
                return Err(format!("`{}` is missing", parameters[at]));
            }
            if at >= function.required && value.as_ref().is_some_and(Value::is_null) {
                *value = None;
            }
        }
        Ok(Self { function, values })
    }

    /// What was given by name.
    pub(super) fn named(function: &'a Function, given: &[(&str, &Value)]) -> Self {
        let value = |parameter: &&str| {
            let found = given.iter().find(|(name, value)| name == parameter && !value.is_null());
            found.map(|(_, value)| (*value).clone())
        };
        Self { function, values: function.parameters.iter().map(value).collect() }
    }

    /// All that was given.
    pub(super) fn given(&self) -> impl Iterator<Item = &Value> {
        self.values.iter().flatten()
    }

    /// What was given for `name`; `null` for what was left out.
    pub(super) fn value(&self, name: &str) -> &Value {
        const LEFT_OUT: &Value = &Value::Null;
        let at = self.function.parameters.iter().position(|parameter| *parameter == name);
        at.and_then(|at| self.values.get(at)?.as_ref()).unwrap_or(LEFT_OUT)
    }

    /// Text or a file as bytes; numbers and booleans are their text.
    pub(super) fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, String> {
        match self.value(name) {
            Value::String(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Value::File(file) => match file.data.here() {
                Some(bytes) => Ok(Cow::Borrowed(bytes)),
                None => Ok(Cow::Owned(whole(name, file)?.into())),
            },
            scalar @ (Value::Number(_) | Value::Bool(_)) => Ok(Cow::Owned(scalar.to_text().into_bytes())),
            other => Err(unfit(name, other)),
        }
    }

    /// Text, or a file that is UTF-8, without a byte-order mark; a number is no text here.
    pub(super) fn document(&self, name: &str) -> Result<Cow<'_, str>, String> {
        let no_text = || format!("`{name}` is a file that is not UTF-8 text");
        let text: &str = match self.value(name) {
            Value::String(text) => text,
            Value::File(file) if file.data.is_kept() => {
                let text = String::from_utf8(whole(name, file)?.into()).map_err(|_| no_text())?;
                return Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text).into());
            }
            Value::File(file) => file.text().ok_or_else(no_text)?,
            parsed @ (Value::List(_) | Value::Map(_)) => {
                return Err(format!("`{name}` is a {}, not text: it is parsed already", parsed.kind()));
            }
            other => return Err(format!("`{name}` is {}, not text or a file", article(other))),
        };
        Ok(Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)))
    }

    /// Text, if it was given.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.value(name) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(format!("`{name}` is {}, not text", article(other))),
        }
    }

    /// One of these words, the first if none was given.
    pub(super) fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str, String> {
        let text = self.text(name)?.or(words.first().copied()).unwrap_or_default();
        let found = words.iter().find(|word| **word == text).copied();
        found.ok_or_else(|| format!("`{name}` is `{}`; it may be {}", shown(text), written(words)))
    }

    /// True or false.
    pub(super) fn flag(&self, name: &str, otherwise: bool) -> Result<bool, String> {
        match self.value(name) {
            Value::Null => Ok(otherwise),
            Value::Bool(flag) => Ok(*flag),
            other => Err(format!("`{name}` is {}, not true or false", article(other))),
        }
    }

    /// A list of texts, if it was given.
    pub(super) fn names(&self, name: &str) -> Result<Option<Vec<&str>>, String> {
        let texts = match self.value(name) {
            Value::Null => return Ok(None),
            Value::List(list) => list.0.iter().map(Value::as_str).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        texts.map(Some).ok_or_else(|| format!("`{name}` is not a list of names such as `['a', 'b']`"))
    }
}

/// A file that is kept outside, in memory.
fn whole(name: &str, file: &File) -> Result<Bytes, String> {
    file.data.whole(MOST_WHOLE).map_err(|error| format!("`{name}` cannot be used whole: {error}"))
}

/// Why a value is not text or bytes, with the way out.
pub(super) fn unfit(name: &str, value: &Value) -> String {
    let hint = match value {
        Value::List(_) | Value::Map(_) => "; `| tojson` makes text of it",
        Value::Null => "; `| default('', true)` gives a value in its place",
        _ => "",
    };
    format!("`{name}` is {}, not text or a file{hint}", article(value))
}

pub(super) fn article(value: &Value) -> String {
    match value.kind() {
        "null" => "null".to_owned(),
        "text" => "text".to_owned(),
        kind => format!("a {kind}"),
    }
}

/// A text for a message, shortened: it may be anything.
pub(super) fn shown(text: &str) -> String {
    let kept: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if kept.len() < text.len() { format!("{kept}…") } else { kept }
}

fn written(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
