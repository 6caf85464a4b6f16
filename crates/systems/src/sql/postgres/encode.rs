//! Values as parameters of PostgreSQL, whose types the server states. A value goes in its text form, so that the server reads it by its
//! own rules: exact numbers, dates, times, intervals, addresses.

use std::error::Error;

use bytes::{BufMut as _, Bytes, BytesMut};
use model::ActionError;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};
use value::Value;

use super::zone;
use crate::sql::params::{Parameter, input_error};

/// A parameter as it is sent.
#[derive(Debug)]
pub(super) struct Encoded {
    bytes: Option<Bytes>,
    format: Format,
}

impl ToSql for Encoded {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(bytes) = &self.bytes else { return Ok(IsNull::Yes) };
        out.put_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        self.format
    }

    to_sql_checked!();
}

/// Converts the values to the types that the server states.
pub(super) fn values(parameters: &[Parameter], types: &[Type]) -> Result<Vec<Encoded>, ActionError> {
    if parameters.len() != types.len() {
        let message =
            format!("the database sees {} parameters, and there are {}", types.len(), parameters.len());
        return Err(input_error(message));
    }
    parameters.iter().zip(types).map(|(parameter, of)| encode(parameter, of)).collect()
}

fn encode(parameter: &Parameter, of: &Type) -> Result<Encoded, ActionError> {
    let base = base(of);
    if let (Value::File(file), &Type::BYTEA) = (&parameter.value, base) {
        let bytes = file.data.in_memory().cloned();
        let missing = || input_error(format!("`{}` is a file that is not in memory", parameter.name));
        return Ok(Encoded { bytes: Some(bytes.ok_or_else(missing)?), format: Format::Binary });
    }
    if let (Value::String(text), &Type::BYTEA) = (&parameter.value, base) {
        return Ok(Encoded { bytes: Some(Bytes::copy_from_slice(text.as_bytes())), format: Format::Binary });
    }
    if parameter.value.is_null() {
        return Ok(Encoded { bytes: None, format: Format::Text });
    }
    if let Some((zone, zoned)) = zone::lost(&parameter.value, base) {
        let (name, kind) = (&parameter.name, of.name());
        return Err(input_error(format!(
            "`{name}` has the zone `{zone}`, which the type `{kind}` of the database does not keep; take `{zoned}`, or give the text \
             in UTC or without its zone"
        )));
    }
    let text = text_of(&parameter.value, base).ok_or_else(|| {
        let (name, kind) = (&parameter.name, parameter.value.kind());
        input_error(format!(
            "`{name}` is a {kind}, which does not fit the type `{}` of the database",
            of.name()
        ))
    })?;
    if text.contains('\0') {
        let message =
            format!("`{}` has a character U+0000, which a text of PostgreSQL cannot hold", parameter.name);
        return Err(input_error(message));
    }
    Ok(Encoded { bytes: Some(text.into()), format: Format::Text })
}

/// The type below domains.
fn base(of: &Type) -> &Type {
    let mut of = of;
    while let Kind::Domain(inner) = of.kind() {
        of = inner;
    }
    of
}

/// The text form of a value of a type; `None` if the value does not fit.
fn text_of(value: &Value, of: &Type) -> Option<String> {
    let is_json = matches!(*of, Type::JSON | Type::JSONB);
    match value {
        Value::String(text) if !matches!(of.kind(), Kind::Array(_)) || text.starts_with('{') => {
            Some(text.to_string())
        }
        Value::Bool(flag) if *of == Type::BOOL => Some(if *flag { "t" } else { "f" }.to_owned()),
        Value::Number(number) if takes_number(of, !number.is_f64()) => Some(number.to_string()),
        Value::Bool(_) | Value::Number(_) | Value::Map(_) if is_json => Some(value.to_json()),
        Value::List(_) if is_json => Some(value.to_json()),
        Value::List(list) => match of.kind() {
            Kind::Array(item) => array(&list.0, base(item)),
            _ => None,
        },
        _ => None,
    }
}

fn takes_number(of: &Type, is_integer: bool) -> bool {
    let numbers = [Type::NUMERIC, Type::FLOAT4, Type::FLOAT8, Type::MONEY];
    let integers = [Type::INT2, Type::INT4, Type::INT8, Type::OID];
    // An id is often a text there and a number here.
    let texts = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN];
    numbers.contains(of) || (is_integer && (integers.contains(of) || texts.contains(of)))
}

/// An array literal: `{1,NULL,"a \"b\""}`.
fn array(items: &[Value], of: &Type) -> Option<String> {
    let mut literal = "{".to_owned();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            literal.push(',');
        }
        match item {
            Value::Null => literal.push_str("NULL"),
            Value::List(inner) if !matches!(*of, Type::JSON | Type::JSONB) => {
                literal.push_str(&array(&inner.0, of)?)
            }
            other => {
                let text = text_of(other, of)?;
                literal.push('"');
                for character in text.chars() {
                    if matches!(character, '"' | '\\') {
                        literal.push('\\');
                    }
                    literal.push(character);
                }
                literal.push('"');
            }
        }
    }
    literal.push('}');
    Some(literal)
}
