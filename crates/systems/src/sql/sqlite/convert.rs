//! Values of SQLite.

use model::ActionError;
use rusqlite::types::{Value as Sqlite, ValueRef};
use value::{File, Value};

use crate::sql::params::{Parameter, input_error};

/// The values of parameters. SQLite states no types, so a value goes as what it is; a list or a map as JSON.
pub(super) fn values(parameters: &[Parameter]) -> Result<Vec<Sqlite>, ActionError> {
    parameters.iter().map(parameter).collect()
}

fn parameter(parameter: &Parameter) -> Result<Sqlite, ActionError> {
    let wrong = |words: &str| input_error(format!("`{}` {words}", parameter.name));
    Ok(match &parameter.value {
        Value::Null => Sqlite::Null,
        Value::Bool(flag) => Sqlite::Integer(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Sqlite::Integer(number),
            (None, Some(number)) if parameter.value.to_text().contains(['.', 'e', 'E']) => {
                Sqlite::Real(number)
            }
            _ => {
                return Err(wrong(
                    "is larger than an integer of SQLite, which has 64 bits; give it as a text",
                ));
            }
        },
        Value::String(text) => Sqlite::Text(text.to_string()),
        Value::List(_) | Value::Map(_) | Value::Decimal(_) => Sqlite::Text(parameter.value.to_json()),
        Value::File(file) => match file.data.in_memory() {
            Some(bytes) => Sqlite::Blob(bytes.to_vec()),
            None => return Err(wrong("is a file that is not in memory")),
        },
    })
}

/// The value of a cell.
pub(super) fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) if number.is_finite() => Value::from(number),
        ValueRef::Real(number) => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
        ValueRef::Text(text) => Value::from(&*String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::from(File {
            content_type: "application/octet-stream".into(),
            filename: None,
            data: bytes.to_vec().into(),
        }),
    }
}
