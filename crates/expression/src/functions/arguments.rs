//! Arguments of function calls, positional or named, with error messages that name function and parameter.

use std::borrow::Cow;

use super::Function;
use crate::evaluation::Values;
use bytes::Bytes;
use text::diagnostic::nearest;
use value::budget::Budget;
use value::{File, MAX_LOADED_BYTES, Value, mime};

/// The arguments of a call, in the order of the function's parameters.
pub(super) struct Arguments<'a> {
    function: &'a Function,
    values: Vec<Option<Value>>,
    /// Pays for the files that are loaded.
    budget: &'a Budget,
}

impl<'a> Arguments<'a> {
    /// Binds arguments to parameters. `null` for an optional parameter counts as omitted.
    pub(super) fn bind(
        function: &'a Function,
        call_values: Values,
        budget: &'a Budget,
    ) -> Result<Self, String> {
        let parameters = function.parameters;
        if call_values.positional.len() > parameters.len() {
            return Err(format!("takes at most {} arguments: {}", parameters.len(), join_names(parameters)));
        }
        let mut values: Vec<Option<Value>> = call_values.positional.into_iter().map(Some).collect();
        values.resize(parameters.len(), None);
        for (name, value) in call_values.named {
            let Some(at) = parameters.iter().position(|parameter| *parameter == name) else {
                let near = nearest(&name, parameters.iter().copied()).map_or_else(
                    || format!("it takes {}", join_names(parameters)),
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
        Ok(Self { function, values, budget })
    }

    /// Binds named arguments only.
    pub(super) fn from_named(function: &'a Function, named: &[(&str, &Value)], budget: &'a Budget) -> Self {
        let value = |parameter: &&str| {
            let found = named.iter().find(|(name, value)| name == parameter && !value.is_null());
            found.map(|(_, value)| (*value).clone())
        };
        Self { function, values: function.parameters.iter().map(value).collect(), budget }
    }

    /// All arguments present.
    pub(super) fn present(&self) -> impl Iterator<Item = &Value> {
        self.values.iter().flatten()
    }

    /// The argument of the parameter `name`; `null` if it is omitted.
    pub(super) fn value(&self, name: &str) -> &Value {
        const OMITTED: &Value = &Value::Null;
        let at = self.function.parameters.iter().position(|parameter| *parameter == name);
        at.and_then(|at| self.values.get(at)?.as_ref()).unwrap_or(OMITTED)
    }

    /// A text or a file as bytes; numbers and booleans as their text.
    pub(super) fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, String> {
        match self.value(name) {
            Value::String(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Value::File(file) => match file.data.in_memory() {
                Some(bytes) => Ok(Cow::Borrowed(bytes)),
                None => Ok(Cow::Owned(load_file(name, file, self.budget)?.into())),
            },
            scalar @ (Value::Number(_) | Value::Bool(_) | Value::Decimal(_)) => {
                Ok(Cow::Owned(scalar.to_text().into_bytes()))
            }
            other => Err(type_error(name, other)),
        }
    }

    /// A text, or a file of text in the encoding of its byte-order mark or its content type, or else in UTF-8; without a byte-order
    /// mark. A number is an error.
    pub(super) fn document(&self, name: &str) -> Result<Cow<'_, str>, String> {
        let text: &str = match self.value(name) {
            Value::String(text) => text,
            Value::File(file) => {
                let charset = mime::charset(&file.content_type);
                let no_text = || {
                    let encoding = charset.map_or("UTF-8", |charset| charset.name());
                    format!(
                        "`{name}` is a file that is not {encoding} text; `file(data, contentType='text/csv; \
                         charset=windows-1252')` sets another charset"
                    )
                };
                return if file.data.is_external() {
                    let loaded = load_file(name, file, self.budget)?;
                    mime::decode_exact(&loaded, charset).map(Cow::into_owned).map(Cow::Owned)
                } else {
                    file.data.in_memory().and_then(|bytes| mime::decode_exact(bytes, charset))
                }
                .ok_or_else(no_text);
            }
            parsed @ (Value::List(_) | Value::Map(_)) => {
                return Err(format!("`{name}` is a {}, not text: it is parsed already", parsed.kind()));
            }
            other => return Err(format!("`{name}` is {}, not text or a file", article(other))),
        };
        Ok(Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)))
    }

    /// A text; `None` if it is omitted.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.value(name) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(format!("`{name}` is {}, not text", article(other))),
        }
    }

    /// One of `words`; the first if it is omitted.
    pub(super) fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str, String> {
        let text = self.text(name)?.or(words.first().copied()).unwrap_or_default();
        let found = words.iter().find(|word| **word == text).copied();
        found.ok_or_else(|| format!("`{name}` is `{}`; it may be {}", shorten(text), join_names(words)))
    }

    /// A boolean; `otherwise` if it is omitted.
    pub(super) fn flag(&self, name: &str, otherwise: bool) -> Result<bool, String> {
        match self.value(name) {
            Value::Null => Ok(otherwise),
            Value::Bool(flag) => Ok(*flag),
            other => Err(format!("`{name}` is {}, not true or false", article(other))),
        }
    }

    /// A list of texts; `None` if it is omitted.
    pub(super) fn names(&self, name: &str) -> Result<Option<Vec<&str>>, String> {
        let texts = match self.value(name) {
            Value::Null => return Ok(None),
            Value::List(list) => list.0.iter().map(Value::as_str).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        texts.map(Some).ok_or_else(|| format!("`{name}` is not a list of names such as `['a', 'b']`"))
    }
}

/// Loads an external file into memory.
fn load_file(name: &str, file: &File, budget: &Budget) -> Result<Bytes, String> {
    file.data.load(MAX_LOADED_BYTES, budget).map_err(|error| format!("`{name}` cannot be loaded: {error}"))
}

/// The message for a value that is neither text nor a file, with a way to convert it.
pub(super) fn type_error(name: &str, value: &Value) -> String {
    let hint = match value {
        Value::List(_) | Value::Map(_) => "; `| tojson` converts it to text",
        Value::Null => "; `| default('', true)` replaces it",
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

/// Shortens a text of any length for a message.
pub(super) fn shorten(text: &str) -> String {
    let shortened: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shortened.len() < text.len() { format!("{shortened}…") } else { shortened }
}

fn join_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
