//! Values at paths of a body.

use value::{Map, Value};

/// Puts a value at a path, in maps that are made for it.
pub(crate) fn put(map: &mut Map, path: &[String], value: Value) {
    let Some((key, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        map.insert(key.as_str(), value);
        return;
    }
    let mut inner = match map.get(key) {
        Some(Value::Map(inner)) => Map::clone(inner),
        _ => Map::new(),
    };
    put(&mut inner, rest, value);
    map.insert(key.as_str(), Value::from(inner));
}
