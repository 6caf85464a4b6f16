//! Values of SQLite.

use model::{ActionError, ErrorKind};
use rusqlite::types::{Value as Sqlite, ValueRef};
use value::{File, Value};

use crate::sql::params::{Parameter, input_error};
use crate::sql::session::Failure;

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
pub(super) fn value(cell: ValueRef<'_>, column: &str) -> Result<Value, Failure> {
    Ok(match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) if number.is_finite() => Value::from(number),
        ValueRef::Real(number) => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
        ValueRef::Text(text) => Value::from(std::str::from_utf8(text).map_err(|_| not_utf8(column))?),
        ValueRef::Blob(bytes) => Value::from(File {
            content_type: "application/octet-stream".into(),
            filename: None,
            data: bytes.to_vec().into(),
        }),
    })
}

fn not_utf8(column: &str) -> Failure {
    let message = format!(
        "the column `{column}` has a text that is not UTF-8; read its bytes: `cast({column} as blob) as {column}`"
    );
    ActionError::new(ErrorKind::Response, message).into()
}
