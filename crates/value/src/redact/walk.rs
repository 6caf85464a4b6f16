//! Masking of every text in a value.

use std::sync::Arc;

use super::MIN_SECRET_BYTES;
use crate::{File, List, Map, Value};

/// Finds what must not be shown in texts and bytes, and masks it.
pub trait Mask {
    /// Masks a text; `None` if it contains nothing to mask.
    fn masked_text(&self, text: &str) -> Option<String>;
    /// Masks bytes; `None` if they contain nothing to mask.
    fn masked_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>>;
}

/// Masks the texts, numbers, map keys and files in memory of a value; `None` if it contains nothing to mask, so that nothing is
/// copied.
#[must_use]
pub fn masked_value(value: &Value, mask: &impl Mask) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => {
            let text = number.to_string();
            if text.len() < MIN_SECRET_BYTES { None } else { mask.masked_text(&text).map(Value::from) }
        }
        Value::String(text) => mask.masked_text(text).map(Value::from),
        Value::Decimal(number) => mask.masked_text(&number.to_string()).map(Value::from),
        Value::List(list) => {
            let changed: Vec<Option<Value>> = list.0.iter().map(|item| masked_value(item, mask)).collect();
            changed.iter().any(Option::is_some).then(|| {
                let items = list.0.iter().zip(changed);
                let items = items.map(|(item, changed)| changed.unwrap_or_else(|| item.clone()));
                Value::List(Arc::new(List(items.collect())))
            })
        }
        Value::Map(map) => masked_map(map, mask).map(|map| Value::Map(Arc::new(map))),
        Value::File(file) => {
            let filename = file.filename.as_deref().and_then(|name| mask.masked_text(name));
            // Bytes outside of memory stay unchanged, as the body of a request does.
            let data = file.data.in_memory().and_then(|bytes| mask.masked_bytes(bytes));
            (filename.is_some() || data.is_some()).then(|| {
                Value::File(Arc::new(File {
                    content_type: file.content_type.clone(),
                    filename: filename.map_or_else(|| file.filename.clone(), |name| Some(name.into())),
                    data: data.map_or_else(|| file.data.clone(), Into::into),
                }))
            })
        }
    }
}

fn masked_map(map: &Map, mask: &impl Mask) -> Option<Map> {
    let changed: Vec<(Option<String>, Option<Value>)> =
        map.iter().map(|(key, value)| (mask.masked_text(key), masked_value(value, mask))).collect();
    if !changed.iter().any(|(key, value)| key.is_some() || value.is_some()) {
        return None;
    }
    let mut masked = map.clone();
    for ((key, old), (new_key, value)) in map.iter().zip(changed) {
        let value = value.unwrap_or_else(|| old.clone());
        if let Some(new_key) = new_key {
            masked.remove(key);
            masked.insert(new_key, value);
        } else if let Some(slot) = masked.get_mut(key) {
            *slot = value;
        }
    }
    Some(masked)
}
