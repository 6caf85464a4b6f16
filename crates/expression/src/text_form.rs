//! Text forms of values within an expression, for `~`, `join` and `string`.

use std::borrow::Cow;
use std::io;

use value::budget::{Budget, Exceeded};
use value::{FileLoadError, MAX_LOADED_BYTES, Value};

use super::failure::Failure;

/// The largest text that an expression or a template may produce, in bytes: the limit of a step's result.
pub(crate) const MAX_TEXT: usize = 16 << 20;

/// Converts a value to text, with the forms that texts with expressions have: null as nothing, `true`, `false`, a list or map
/// as JSON, a file as its text.
pub(super) fn stringify<'v>(value: &'v Value, budget: &Budget) -> Result<Cow<'v, str>, Failure> {
    Ok(match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed(""),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(number) => Cow::Owned(self::number(number)),
        Value::Decimal(number) => Cow::Owned(number.to_string()),
        Value::List(_) | Value::Map(_) => Cow::Owned(json(value, false, budget)?),
        Value::File(file) => {
            let loaded = load(value, budget)?;
            // Base64 encodes three bytes as four; the bytes of an external file are charged already.
            let charged = if file.data.is_external() { file.data.len() } else { 0 };
            budget.allocate((file.data.len() / 3 * 4 + 4).saturating_sub(charged))?;
            Cow::Owned(loaded.to_text())
        }
    })
}

/// Converts a value to text as [`Value::to_text`] does, for a text with expressions; at most `limit` bytes.
pub(crate) fn interpolate<'v>(
    value: &'v Value,
    limit: usize,
    budget: &Budget,
) -> Result<Cow<'v, str>, Failure> {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Null => Cow::Borrowed(""),
        Value::Bool(_) | Value::Number(_) | Value::Decimal(_) => Cow::Owned(value.to_text()),
        Value::List(_) | Value::Map(_) => Cow::Owned(json(value, false, budget)?),
        Value::File(_) => stringify(value, budget)?,
    };
    if text.len() > limit {
        return Err(format!("the text grows beyond {MAX_TEXT} bytes").into());
    }
    budget.allocate(text.len())?;
    Ok(text)
}

/// The character of a text at an index; a negative index counts from the end.
pub(super) fn character(text: &str, index: i64) -> Option<Value> {
    let at = |offset: i64| usize::try_from(offset).ok();
    let found =
        if index < 0 { text.chars().rev().nth(at(-(index + 1))?) } else { text.chars().nth(at(index)?) };
    found.map(|c| Value::from(c.encode_utf8(&mut [0; 4]) as &str))
}

/// Formats a number. A float always has a decimal point, as in Jinja.
fn number(number: &value::Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => {
            let mut text = float.to_string();
            if !text.contains('.') {
                text.push_str(".0");
            }
            text
        }
        None => number.to_string(),
    }
}

/// Converts a value to JSON, including the bytes of its files.
pub(super) fn json(value: &Value, pretty: bool, budget: &Budget) -> Result<String, Failure> {
    let value = load(value, budget)?;
    let mut output = Output { text: Vec::new(), budget, exceeded: None };
    let written = value.write_json(&mut output, pretty);
    match (written, output.exceeded) {
        (_, Some(exceeded)) => Err(exceeded.into()),
        (Err(error), None) => Err(error.to_string().into()),
        (Ok(()), None) => String::from_utf8(output.text).map_err(|error| error.to_string().into()),
    }
}

/// Loads the files of a value, charged to the budget.
fn load(value: &Value, budget: &Budget) -> Result<Value, Failure> {
    value.load_files(MAX_LOADED_BYTES, budget).map_err(|error| match error {
        FileLoadError::Exceeded(exceeded) => exceeded.into(),
        other => other.to_string().into(),
    })
}

/// An output buffer that charges its growth to the budget.
struct Output<'b> {
    text: Vec<u8>,
    budget: &'b Budget,
    exceeded: Option<Exceeded>,
}

impl io::Write for Output<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let needed = self.text.len() + part.len();
        let charged = if needed > self.text.capacity() {
            // Growing copies the text to a buffer of twice the size; both exist during the copy.
            let capacity = needed.max(self.text.capacity() * 2).max(256);
            self.budget.allocate(capacity).map(|()| self.text.reserve_exact(capacity - self.text.len()))
        } else {
            self.budget.charge(1)
        };
        if let Err(exceeded) = charged {
            self.exceeded.get_or_insert(exceeded);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.text.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
