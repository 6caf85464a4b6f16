//! JSON parsing.

use value::{JsonLimits, Value};

use super::arguments::Arguments;
use super::{MAX_DEPTH, MAX_NODES};

/// `parseJson(data)`.
pub(super) fn parse_json(arguments: &Arguments<'_>) -> Result<Value, String> {
    let text = &*arguments.document("data")?;
    let limits = JsonLimits { depth: MAX_DEPTH, nodes: MAX_NODES };
    Value::from_json(text.as_bytes(), limits).map_err(|error| format!("`data` is not JSON: {error}"))
}
