//! Conversion of scalars to MiniJinja values, for the two of its filters that are used unchanged (`format`, `round`).

use super::Value;

impl From<&Value> for minijinja::Value {
    /// Converts a scalar; any other value becomes `none`.
    fn from(value: &Value) -> Self {
        match value {
            Value::Bool(value) => Self::from(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Self::from(integer),
                (_, Some(integer)) => Self::from(integer),
                _ => Self::from(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Self::from(text.as_str()),
            Value::Null | Value::List(_) | Value::Map(_) | Value::File(_) => Self::from(()),
        }
    }
}
