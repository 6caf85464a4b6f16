//! Values of PostgreSQL, from their binary form.

use std::error::Error;

use fallible_iterator::FallibleIterator as _;
use model::{ActionError, ErrorKind};
use postgres_protocol::types as wire;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Kind, Type};
use value::{File, JsonLimits, Value};

use super::time;
use crate::sql::rows::RowSink;

/// The bytes of a value.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The values of a row.
pub(super) fn row(row: &Row, sink: &RowSink<'_>) -> Result<Vec<Value>, ActionError> {
    let columns = row.columns().iter().enumerate();
    let value = |(index, column): (usize, &tokio_postgres::Column)| {
        let wrong = |reason: String| {
            let message = format!("the column `{}` cannot be read: {reason}", column.name());
            ActionError::new(ErrorKind::Response, message)
        };
        let Raw(bytes) = row.try_get(index).map_err(|error| wrong(error.to_string()))?;
        let Some(bytes) = bytes else { return Ok(Value::Null) };
        decode(column.type_(), bytes, sink).map_err(|error| wrong(error.to_string()))
    };
    columns.map(value).collect()
}

/// True if the binary form of the type is known here. Of other types the server writes the text.
pub(super) fn is_known(of: &Type) -> bool {
    match of.kind() {
        Kind::Enum(_) => true,
        Kind::Domain(inner) | Kind::Array(inner) => is_known(inner),
        Kind::Simple => {
            let integers = [Type::INT2, Type::INT4, Type::INT8, Type::OID];
            let numbers = [Type::NUMERIC, Type::FLOAT4, Type::FLOAT8, Type::BOOL];
            let texts = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN, Type::XML];
            let times =
                [Type::DATE, Type::TIME, Type::TIMETZ, Type::TIMESTAMP, Type::TIMESTAMPTZ, Type::INTERVAL];
            let others = [Type::BYTEA, Type::UUID, Type::JSON, Type::JSONB];
            [&integers[..], &numbers, &texts, &times, &others].iter().any(|known| known.contains(of))
        }
        // Of functions that return nothing.
        _ => *of == Type::VOID,
    }
}

type Decoded = Result<Value, Box<dyn Error + Sync + Send>>;

fn decode(of: &Type, bytes: &[u8], sink: &RowSink<'_>) -> Decoded {
    match of.kind() {
        Kind::Domain(inner) => return decode(inner, bytes, sink),
        Kind::Array(inner) => return array(inner, bytes, sink),
        Kind::Enum(_) => return Ok(Value::from(std::str::from_utf8(bytes)?)),
        _ => {}
    }
    Ok(match *of {
        Type::INT2 => Value::from(i64::from(wire::int2_from_sql(bytes)?)),
        Type::INT4 => Value::from(i64::from(wire::int4_from_sql(bytes)?)),
        Type::INT8 => Value::from(wire::int8_from_sql(bytes)?),
        Type::OID => Value::from(i64::from(wire::oid_from_sql(bytes)?)),
        Type::BOOL => Value::from(wire::bool_from_sql(bytes)?),
        // By its own shortest text: 0.1 stays 0.1.
        Type::FLOAT4 => float(wire::float4_from_sql(bytes)?.to_string().parse()?),
        Type::FLOAT8 => float(wire::float8_from_sql(bytes)?),
        Type::NUMERIC => sink.decimal(&numeric(bytes)?),
        Type::DATE => Value::from(time::date(wire::date_from_sql(bytes)?)),
        Type::TIME => Value::from(time::time(wire::time_from_sql(bytes)?)),
        Type::TIMETZ => {
            let (micros, zone) = bytes.split_at_checked(8).ok_or("it is too short")?;
            Value::from(time::time_with_zone(wire::time_from_sql(micros)?, wire::int4_from_sql(zone)?))
        }
        Type::TIMESTAMP => Value::from(time::timestamp(wire::timestamp_from_sql(bytes)?, "")),
        Type::TIMESTAMPTZ => Value::from(time::timestamp(wire::timestamp_from_sql(bytes)?, "Z")),
        Type::INTERVAL => {
            let (micros, rest) = bytes.split_at_checked(8).ok_or("it is too short")?;
            let (days, months) = rest.split_at_checked(4).ok_or("it is too short")?;
            let days = wire::int4_from_sql(days)?;
            Value::from(time::interval(wire::int4_from_sql(months)?, days, wire::time_from_sql(micros)?))
        }
        Type::UUID => Value::from(uuid(wire::uuid_from_sql(bytes)?)),
        Type::JSON => Value::from_json(bytes, JsonLimits::default())?,
        Type::JSONB => Value::from_json(
            bytes.strip_prefix(&[1]).ok_or("its version is not known")?,
            JsonLimits::default(),
        )?,
        Type::BYTEA => Value::from(File {
            content_type: "application/octet-stream".into(),
            filename: None,
            data: bytes.to_vec().into(),
        }),
        Type::VOID => Value::Null,
        _ => Value::from(std::str::from_utf8(bytes)?),
    })
}

/// A float; a text where JSON has no number: `NaN`, `Infinity`.
fn float(number: f64) -> Value {
    match number {
        number if number.is_finite() => Value::from(number),
        number if number.is_nan() => Value::from("NaN"),
        number => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

fn uuid(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// An array, as lists in lists by its dimensions.
fn array(of: &Type, bytes: &[u8], sink: &RowSink<'_>) -> Decoded {
    let found = wire::array_from_sql(bytes)?;
    let lengths: Vec<usize> =
        found.dimensions().map(|dimension| Ok(usize::try_from(dimension.len)?)).collect()?;
    let item = |item: Option<&[u8]>| item.map_or(Ok(Value::Null), |bytes| decode(of, bytes, sink));
    let mut items: Vec<Value> = found.values().map(item).collect()?;
    for length in lengths.iter().skip(1).rev() {
        items = items.chunks((*length).max(1)).map(|chunk| Value::from(chunk.to_vec())).collect();
    }
    Ok(Value::from(items))
}

/// The digits of a numeric, each four of them a number below 10,000.
fn numeric(bytes: &[u8]) -> Result<String, Box<dyn Error + Sync + Send>> {
    let mut numbers = bytes.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
    let mut next = || numbers.next().ok_or("it is too short");
    let (count, weight, sign, scale) = (next()?, next()?, next()? as u16, next()?);
    match sign {
        0xC000 => return Ok("NaN".to_owned()),
        0xD000 => return Ok("Infinity".to_owned()),
        0xF000 => return Ok("-Infinity".to_owned()),
        _ => {}
    }
    let digits: Vec<i16> = numbers.by_ref().take(usize::try_from(count)?).collect();
    let digit = |position: i32| {
        usize::try_from(position).ok().and_then(|position| digits.get(position)).copied().unwrap_or(0)
    };
    let weight = i32::from(weight);
    let mut text = if sign == 0x4000 { "-".to_owned() } else { String::new() };
    if weight < 0 {
        text.push('0');
    }
    for position in 0..=weight {
        match position {
            0 => text.push_str(&digit(0).to_string()),
            position => text.push_str(&format!("{:04}", digit(position))),
        }
    }
    if scale > 0 {
        let scale = usize::try_from(scale)?;
        let mut fraction = String::new();
        let mut position = weight + 1;
        while fraction.len() < scale {
            fraction.push_str(&format!("{:04}", digit(position)));
            position += 1;
        }
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Ok(text)
}
