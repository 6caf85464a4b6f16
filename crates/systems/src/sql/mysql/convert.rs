//! Values of MySQL and MariaDB.

use model::{ActionError, ErrorKind};
use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::{Column, Value as Mysql};
use value::{File, JsonLimits, Value};

use crate::sql::params::{Parameter, input_error};
use crate::sql::rows::RowSink;

/// The number of the character set of bytes.
const BINARY: u16 = 63;

/// The values of parameters. The server states no types, so a value goes as what it is; a list or a map as JSON.
pub(super) fn values(parameters: &[Parameter]) -> Result<Vec<Mysql>, ActionError> {
    parameters.iter().map(parameter).collect()
}

fn parameter(parameter: &Parameter) -> Result<Mysql, ActionError> {
    Ok(match &parameter.value {
        Value::Null => Mysql::NULL,
        Value::Bool(flag) => Mysql::Int(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Mysql::Int(number),
            (None, Some(number)) => Mysql::UInt(number),
            _ => Mysql::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Mysql::Bytes(text.as_bytes().to_vec()),
        Value::List(_) | Value::Map(_) | Value::Decimal(_) => {
            Mysql::Bytes(parameter.value.to_json().into_bytes())
        }
        Value::File(file) => {
            let missing = || input_error(format!("`{}` is a file that is not in memory", parameter.name));
            Mysql::Bytes(file.data.in_memory().ok_or_else(missing)?.to_vec())
        }
    })
}

/// The type of a column in the words of the database.
pub(super) fn type_name(column: &Column) -> String {
    let name = format!("{:?}", column.column_type());
    let name = name.strip_prefix("MYSQL_TYPE_").unwrap_or(&name).to_ascii_lowercase();
    if column.flags().contains(ColumnFlags::UNSIGNED_FLAG) { format!("{name} unsigned") } else { name }
}

/// The value of a cell.
pub(super) fn value(cell: Option<Mysql>, column: &Column, sink: &RowSink<'_>) -> Result<Value, ActionError> {
    Ok(match cell.unwrap_or(Mysql::NULL) {
        Mysql::NULL => Value::Null,
        Mysql::Int(number) => Value::from(number),
        Mysql::UInt(number) => {
            i64::try_from(number).map_or_else(|_| Value::from(number.to_string()), Value::from)
        }
        // By its own shortest text: 0.1 stays 0.1.
        Mysql::Float(number) => Value::from(number.to_string().parse::<f64>().unwrap_or_default()),
        Mysql::Double(number) => Value::from(number),
        Mysql::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            if matches!(column.column_type(), ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE) {
                return Ok(Value::from(date));
            }
            let is_instant = column.column_type() == ColumnType::MYSQL_TYPE_TIMESTAMP;
            let zone = if is_instant { "Z" } else { "" };
            Value::from(format!("{date}T{hour:02}:{minute:02}:{second:02}{}{zone}", fraction(micros)))
        }
        Mysql::Time(is_negative, days, hours, minutes, seconds, micros) => {
            let sign = if is_negative { "-" } else { "" };
            let hours = u64::from(days) * 24 + u64::from(hours);
            Value::from(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros)))
        }
        Mysql::Bytes(bytes) => return bytes_to_value(bytes, column, sink),
    })
}

fn bytes_to_value(bytes: Vec<u8>, column: &Column, sink: &RowSink<'_>) -> Result<Value, ActionError> {
    let wrong = |reason: &dyn std::fmt::Display| {
        let message = format!("the column `{}` cannot be read: {reason}", column.name_str());
        ActionError::new(ErrorKind::Response, message)
    };
    match column.column_type() {
        ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => {
            Ok(sink.decimal(&String::from_utf8_lossy(&bytes)))
        }
        ColumnType::MYSQL_TYPE_JSON => {
            Value::from_json(&bytes, JsonLimits::default()).map_err(|error| wrong(&error))
        }
        ColumnType::MYSQL_TYPE_BIT => {
            let number = bytes.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
            Ok(i64::try_from(number).map_or_else(|_| Value::from(number.to_string()), Value::from))
        }
        // A function may give a number or a time as bytes without a character set.
        _ if column.character_set() == BINARY && is_binary(column.column_type()) => Ok(Value::from(File {
            content_type: "application/octet-stream".into(),
            filename: None,
            data: bytes.into(),
        })),
        _ => String::from_utf8(bytes).map(|text| Value::from(&*text)).map_err(|error| wrong(&error)),
    }
}

fn is_binary(of: ColumnType) -> bool {
    use ColumnType as Of;
    matches!(
        of,
        Of::MYSQL_TYPE_STRING
            | Of::MYSQL_TYPE_VAR_STRING
            | Of::MYSQL_TYPE_VARCHAR
            | Of::MYSQL_TYPE_BLOB
            | Of::MYSQL_TYPE_TINY_BLOB
            | Of::MYSQL_TYPE_MEDIUM_BLOB
            | Of::MYSQL_TYPE_LONG_BLOB
            | Of::MYSQL_TYPE_GEOMETRY
    )
}

fn fraction(micros: u32) -> String {
    match micros {
        0 => String::new(),
        micros => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    }
}
