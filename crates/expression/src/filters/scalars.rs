//! Conversion of scalars to MiniJinja values, for the two of its filters that are used unchanged (`format`, `round`).

use value::Value;

/// Converts a scalar; any other value becomes `none`.
pub(super) fn to_minijinja(value: &Value) -> minijinja::Value {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => integer.into(),
            (_, Some(integer)) => integer.into(),
            _ => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Decimal(number) => number.to_string().into(),
        Value::Null | Value::List(_) | Value::Map(_) | Value::File(_) => ().into(),
    }
}
