//! The encoding of values: JSON, with the bytes of files beside it.
//!
//! Into the sandbox a file is an object without `data`, and a list of paths tells where to insert the bytes. Out of it,
//! bytes and integers that JavaScript holds as `BigInt` are texts that begin with a nonce generated for this call, so that
//! no external text can be mistaken for one.

use std::error::Error as _;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use value::{Data, File, FileLoadError, JsonError, JsonLimits, List, Map, Number, Reserved, Value};

use crate::call::Context;

/// The maximum number of values and levels of a result; the message's length limits its size.
const LIMITS: JsonLimits = JsonLimits { depth: 64, nodes: 1_000_000 };
/// The content type of bytes without one.
const BYTES: &str = "application/octet-stream";

/// The prefix that marks, within one call, texts that stand for a file or an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nonce(pub(crate) [u8; 16]);

impl Nonce {
    /// The prefix of such a text.
    pub(crate) fn mark(self) -> String {
        hex::encode(self.0)
    }
}

/// The maximum size of external files that a run is given, in bytes, of the 8 MiB of all its inputs. The code gets an error
/// in place of the bytes of further files.
const MOST_KEPT: usize = 6 << 20;

/// Extracts the files from the inputs of a run.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The bytes, in the order of `paths`.
    pub(crate) files: Vec<Bytes>,
    /// The path of each file: the name of the root, then keys and indices.
    pub(crate) paths: Vec<serde_json::Value>,
    /// The locations of unreadable files, each with its error.
    unread: Vec<serde_json::Value>,
    /// The number of bytes loaded from external files.
    kept: usize,
    /// The first integer that a double cannot represent, which the code sees rounded.
    pub(crate) rounded: Option<String>,
}

impl Sender {
    /// Encodes `value` as JSON and extracts its files; `root` is the prefix of their paths.
    pub(crate) fn take(&mut self, root: &[&str], value: &Value) -> String {
        if !self.survey(value) {
            return value.to_json();
        }
        let mut path = root.iter().map(|key| json!(key)).collect();
        self.strip(value, &mut path).map_or_else(|| value.to_json(), |stripped| stripped.to_json())
    }

    /// Encodes `context` without its names as JSON, with the keys of the second parameter for results of `earlier`
    /// runs; empty if there is nothing to encode. Call last: it lists the paths of all files.
    pub(crate) fn context(&mut self, context: &Context<'_>, earlier: &[(Arc<str>, usize)]) -> String {
        let mut members: Vec<String> = Vec::new();
        if context.config_vars.as_map().is_none_or(|map| !map.is_empty()) {
            members.push(format!(r#""configVars":{}"#, self.take(&["configVars"], context.config_vars)));
        }
        let (mut state, mut absent): (Vec<String>, Vec<&str>) = Default::default();
        for (key, value) in context.state {
            match value {
                None => absent.push(key),
                Some(value) => {
                    state.push(format!("{}:{}", quoted(&**key), self.take(&["state", key], value)));
                }
            }
        }
        if !state.is_empty() {
            members.push(format!(r#""state":{{{}}}"#, state.join(",")));
        }
        if !absent.is_empty() {
            members.push(format!(r#""absent":{}"#, quoted(absent)));
        }
        if !self.paths.is_empty() {
            members.push(format!(r#""files":{}"#, quoted(&self.paths)));
        }
        if !self.unread.is_empty() {
            members.push(format!(r#""unread":{}"#, quoted(&self.unread)));
        }
        if !earlier.is_empty() {
            let keys: Vec<&str> = earlier.iter().map(|(key, _)| &**key).collect();
            members.push(format!(r#""earlier":{}"#, quoted(keys)));
        }
        if members.is_empty() { String::new() } else { format!("{{{}}}", members.join(",")) }
    }

    /// True if a value contains a file. Records the first integer that is rounded.
    fn survey(&mut self, value: &Value) -> bool {
        match value {
            Value::File(_) => true,
            Value::Number(number) if self.rounded.is_none() && is_rounded(number) => {
                self.rounded = Some(number.to_string());
                false
            }
            // Visits each item, also after a file.
            Value::List(list) => list.0.iter().filter(|item| self.survey(item)).count() > 0,
            Value::Map(map) => map.iter().filter(|(_, item)| self.survey(item)).count() > 0,
            _ => false,
        }
    }

    /// The bytes of a file. Blocks if they are external.
    fn bytes(&mut self, data: &Data) -> Result<Bytes, FileLoadError> {
        let room = MOST_KEPT - self.kept;
        // The caller of the run reserves the memory of these files.
        let bytes = data.load(room, &Reserved::uncounted(room))?;
        self.kept += if data.is_external() { bytes.len() } else { 0 };
        Ok(bytes)
    }

    /// `value` without its files; `None` if it has none.
    fn strip(&mut self, value: &Value, path: &mut Vec<serde_json::Value>) -> Option<Value> {
        match value {
            Value::File(file) => {
                match self.bytes(&file.data) {
                    Ok(bytes) => {
                        self.files.push(bytes);
                        self.paths.push(serde_json::Value::Array(path.clone()));
                    }
                    Err(error) => self.unread.push(json!([path, error.to_string()])),
                }
                Some(shell(file))
            }
            Value::List(list) => {
                let mut changed: Option<Vec<Value>> = None;
                for (index, item) in list.0.iter().enumerate() {
                    path.push(json!(index));
                    if let Some(stripped) = self.strip(item, path) {
                        changed.get_or_insert_with(|| list.0.clone())[index] = stripped;
                    }
                    path.pop();
                }
                changed.map(Value::from)
            }
            Value::Map(map) => {
                let mut changed: Option<Map> = None;
                for (key, item) in map.iter() {
                    path.push(json!(&**key));
                    if let Some(stripped) = self.strip(item, path) {
                        changed.get_or_insert_with(|| Map::clone(map)).insert(key.clone(), stripped);
                    }
                    path.pop();
                }
                changed.map(Value::from)
            }
            _ => None,
        }
    }
}

/// True if no double equals this integer.
fn is_rounded(number: &Number) -> bool {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.is_some_and(|exact| exact as f64 as i128 != exact)
}

/// Serializes to JSON. The inputs are texts, numbers and lists of them, which are always valid.
fn quoted(given: impl serde::Serialize) -> String {
    serde_json::to_string(&given).unwrap_or_default()
}

/// A file without its bytes.
fn shell(file: &File) -> Value {
    let mut map = Map::with_capacity(4);
    map.insert("contentType", Value::from(Arc::clone(&file.content_type)));
    map.insert("filename", file.filename.clone().map(Value::from));
    map.insert("size", file.data.len());
    map.insert("data", Value::Null);
    map.into()
}

/// The reason why a result cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is nested too deeply, or has too many items.
    Large,
    /// It is not JSON: no worker of ours sends it.
    Malformed,
    /// It refers to a missing file. The code may learn the mark while its result is collected.
    Forged,
}

/// Decodes a worker's result, and inserts files and large integers for marked texts.
pub(crate) fn restore(text: &[u8], marked: Option<(Nonce, &[Bytes])>) -> Result<Value, Unreadable> {
    let value = match Value::from_json(text, LIMITS) {
        Ok(value) => value,
        Err(error) if is_limit(&error) => return Err(Unreadable::Large),
        Err(_) => return Err(Unreadable::Malformed),
    };
    match marked {
        Some((nonce, files)) => put(value, &nonce.mark(), files).ok_or(Unreadable::Forged),
        None => Ok(value),
    }
}

/// True if the text is valid JSON that exceeds a limit.
fn is_limit(error: &JsonError) -> bool {
    error
        .source()
        .and_then(|source| source.downcast_ref::<serde_json::Error>())
        .is_some_and(serde_json::Error::is_data)
}

fn put(value: Value, mark: &str, files: &[Bytes]) -> Option<Value> {
    match value {
        Value::String(text) => match text.strip_prefix(mark) {
            None => Some(Value::String(text)),
            Some(rest) => marked(rest, files),
        },
        Value::List(list) => {
            let items: Option<Vec<_>> = list.0.iter().map(|item| put(item.clone(), mark, files)).collect();
            Some(Value::List(Arc::new(List(items?))))
        }
        Value::Map(map) => {
            let entries: Option<Vec<_>> =
                map.iter().map(|(key, item)| Some((key.clone(), put(item.clone(), mark, files)?))).collect();
            let map: Map = entries?.into_iter().collect();
            Some(file(&map).map_or_else(|| map.into(), Value::from))
        }
        other => Some(other),
    }
}

/// Decodes a marked text: `f` and the index of a file, or `n` and an integer.
fn marked(rest: &str, files: &[Bytes]) -> Option<Value> {
    if let Some(number) = rest.strip_prefix('n') {
        let signed = number.parse::<i64>().map(Value::from);
        return signed.or_else(|_| number.parse::<u64>().map(Value::from)).ok();
    }
    let data = files.get(rest.strip_prefix('f')?.parse::<usize>().ok()?)?;
    Some(File { content_type: BYTES.into(), filename: None, data: data.clone().into() }.into())
}

/// The file that a map describes: exactly `{contentType, filename, size, data}` with bytes under `data`.
fn file(map: &Map) -> Option<File> {
    let content_type = map.get("contentType")?.as_str()?;
    let data = map.get("data")?.as_file()?;
    let filename = match map.get("filename") {
        None | Some(Value::Null) => None,
        Some(name) => Some(name.as_str()?.into()),
    };
    let known = ["contentType", "filename", "size", "data"];
    let is_file = map.keys().all(|key| known.contains(&key));
    is_file.then(|| File { content_type: content_type.into(), filename, data: data.data.clone() })
}
