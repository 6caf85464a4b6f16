//! The content of published messages.

use bytes::Bytes;
use connector::Call;
use model::{ActionError, ErrorKind};
use value::Value;

/// The largest content, in bytes.
pub(crate) const MAX_BODY: usize = 64 << 20;
/// The header with the reason why a copy of a message was published.
pub(crate) const REASON: &str = "Cogwork-Reason";

/// The bytes of an input: a text or a file as it is, anything else as JSON.
pub(crate) async fn bytes_of(call: &Call<'_>, name: &str) -> Result<Bytes, ActionError> {
    value_bytes(call, name, call.inputs.get(name).unwrap_or(&Value::Null)).await
}

/// The bytes of a value of an input.
pub(crate) async fn value_bytes(call: &Call<'_>, name: &str, value: &Value) -> Result<Bytes, ActionError> {
    match value {
        Value::Null => Ok(Bytes::new()),
        Value::String(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        Value::File(file) => {
            let (data, memory) = (file.data.clone(), call.memory.clone());
            let load = move || data.load(MAX_BODY, &memory).map_err(|error| error.to_string());
            let loaded = match file.data.is_external() {
                false => load(),
                true => {
                    tokio::task::spawn_blocking(load).await.unwrap_or_else(|error| Err(error.to_string()))
                }
            };
            loaded.map_err(|error| ActionError::new(ErrorKind::Input, format!("`{name}`: {error}")))
        }
        other => Ok(other.to_json().into()),
    }
}

/// A reason as a header may have it.
pub(crate) fn one_line(reason: &str) -> String {
    reason.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
