//! The serialised form of a call of an action that sends no request, such as a statement to a database.

use model::{ActionError, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use value::{Data, File, Map, Value};

/// The bytes of a file that a recording keeps.
const MAX_FILE: usize = 64 << 10;

/// A call as it is made.
pub(crate) struct MadeCall<'a> {
    pub action: &'a str,
    pub inputs: &'a Map,
}

/// A recorded call. Replay compares the action and the inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedCall {
    /// The full name of the action.
    pub action: String,
    /// The inputs; a file is its type, size and SHA-256.
    #[serde(rename = "with")]
    pub inputs: Json,
    /// The result, with the first 64 KiB of each file; absent if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// The error; absent if the call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Json>,
}

impl RecordedCall {
    /// Records a call; `mask` removes its secrets.
    pub(super) fn new(
        made: &MadeCall<'_>,
        answer: &Result<Value, ActionError>,
        mask: &dyn Fn(Json) -> Json,
    ) -> Self {
        let stored = |value: Value| value.to_stored().ok().and_then(|text| serde_json::from_str(&text).ok());
        let result = answer.as_ref().ok().map(|value| stored(shortened(value)).unwrap_or(Json::Null));
        let error = answer.as_ref().err().and_then(|error| serde_json::to_value(error).ok());
        Self {
            action: made.action.to_owned(),
            inputs: mask(inputs_of(made.inputs)),
            result: result.map(mask),
            error: error.map(mask),
        }
    }

    pub(super) fn answer(&self) -> Result<Value, ActionError> {
        let wrong = |message: String| {
            ActionError::new(ErrorKind::Internal, format!("the recording cannot be played: {message}"))
        };
        match (&self.result, &self.error) {
            (Some(result), None) => {
                Value::from_stored(&result.to_string()).map_err(|error| wrong(error.to_string()))
            }
            (None, Some(error)) => {
                let error: Result<ActionError, _> = serde_json::from_value(error.clone());
                Err(error.unwrap_or_else(|error| wrong(error.to_string())))
            }
            _ => Err(wrong(format!("the call of `{}` needs `result` or `error`", self.action))),
        }
    }
}

/// The inputs as they are compared, with each file by its type, size and SHA-256.
pub(super) fn inputs_of(inputs: &Map) -> Json {
    let described = replaced(&Value::from(inputs.clone()), &|file| {
        let members = ["contentType", "size", "sha256"];
        let value = Value::File(file.clone().into());
        members.into_iter().map(|name| (name, value.get(name).unwrap_or_default())).collect::<Map>().into()
    });
    serde_json::from_str(&described.to_json()).unwrap_or_default()
}

/// The value with the start of each file, in memory.
fn shortened(value: &Value) -> Value {
    replaced(value, &|file| {
        let mut begin = vec![0; file.data.len().min(MAX_FILE)];
        // A file that cannot be read is recorded without content.
        if file.data.read_exact_at(0, &mut begin).is_err() {
            begin.clear();
        }
        Value::from(File { data: Data::from(begin), ..file.clone() })
    })
}

fn replaced(value: &Value, file: &dyn Fn(&File) -> Value) -> Value {
    match value {
        Value::File(found) => file(found),
        Value::List(list) => list.0.iter().map(|item| replaced(item, file)).collect(),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, item)| (key.clone(), replaced(item, file)));
            Value::from(entries.collect::<Map>())
        }
        plain => plain.clone(),
    }
}
