//! Sharing of equal lists and maps while a stored value is read.
//!
//! A value such as `[vars.s, vars.s]` shares its parts in memory, but its stored text has each of them in full. Reading such a
//! text takes the memory of the shared value only. Serde passes no context to the reader, so a thread-local holds the table.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::Value;

/// The maximum number of lists and maps in the table, which bounds its memory. Later ones are not shared.
const MAX_SHARED: usize = 1 << 14;

thread_local! {
    static TABLE: RefCell<Option<HashMap<u64, Value>>> = const { RefCell::new(None) };
}

/// Runs `read`, in which equal lists and maps of stored values become one.
pub fn with_sharing<T>(read: impl FnOnce() -> T) -> T {
    /// Removes the table again, also if `read` panics.
    struct Restore(Option<HashMap<u64, Value>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TABLE.set(self.0.take());
        }
    }
    let _restore = Restore(TABLE.replace(Some(HashMap::new())));
    read()
}

/// Returns an equal list or map that was read before; else the value itself.
pub(super) fn share(value: Value) -> Value {
    TABLE.with_borrow_mut(|table| {
        let Some(table) = table else { return value };
        let Some(hash) = shallow_hash(&value) else { return value };
        match table.get(&hash) {
            Some(known) if shallow_eq(known, &value) => known.clone(),
            Some(_) => value,
            None => {
                if table.len() < MAX_SHARED {
                    table.insert(hash, value.clone());
                }
                value
            }
        }
    })
}

/// The hash of a list or map, in which a list or map counts by its address; `None` for other values.
fn shallow_hash(value: &Value) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::List(list) => list.0.iter().for_each(|item| hash_item(item, &mut hasher)),
        Value::Map(map) => {
            map.ignores_case.hash(&mut hasher);
            for (key, item) in map.iter() {
                key.as_bytes().hash(&mut hasher);
                hash_item(item, &mut hasher);
            }
        }
        _ => return None,
    }
    Some(hasher.finish())
}

fn hash_item(item: &Value, hasher: &mut DefaultHasher) {
    std::mem::discriminant(item).hash(hasher);
    match item {
        Value::Null => {}
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.hash(hasher),
        Value::String(text) => text.as_bytes().hash(hasher),
        Value::List(list) => Arc::as_ptr(list).hash(hasher),
        Value::Map(map) => Arc::as_ptr(map).hash(hasher),
        Value::Decimal(number) => number.hash(hasher),
        Value::File(file) => Arc::as_ptr(file).hash(hasher),
    }
}

fn shallow_eq(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::List(one), Value::List(other)) => {
            one.0.len() == other.0.len() && one.0.iter().zip(&other.0).all(|(one, other)| is_same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            let same_entries = one
                .iter()
                .zip(other.iter())
                .all(|((key, one), (name, other))| key == name && is_same(one, other));
            one.len() == other.len() && one.ignores_case == other.ignores_case && same_entries
        }
        _ => false,
    }
}

/// True for equal scalars, and for the same list, map or file.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::List(one), Value::List(other)) => Arc::ptr_eq(one, other),
        (Value::Map(one), Value::Map(other)) => Arc::ptr_eq(one, other),
        (Value::File(one), Value::File(other)) => Arc::ptr_eq(one, other),
        (Value::List(_) | Value::Map(_) | Value::File(_), _) => false,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Map;
    use super::*;

    #[test]
    fn equal_parts_of_a_stored_value_are_shared() {
        let twice = |value: Value| Value::from(vec![value.clone(), value]);
        let value = (0..16).fold(Value::from(vec![Value::from(1_i64)]), |value, _| twice(value));
        let text = value.to_stored().expect("it is stored");
        let read = with_sharing(|| Value::from_stored(&text)).expect("it reads back");
        assert_eq!(read.to_stored().expect("it is stored"), text);
        let Value::List(pair) = &read else { panic!("a list") };
        let (Value::List(one), Value::List(other)) = (&pair.0[0], &pair.0[1]) else { panic!("lists") };
        assert!(Arc::ptr_eq(one, other));
    }

    #[test]
    fn different_values_are_not_shared() {
        let map = |key: &str, value: i64| {
            Value::from(Map::from_iter([(key, Value::from(vec![Value::from(value)]))]))
        };
        let value = Value::from(vec![
            map("a", 1),
            map("a", 2),
            map("b", 1),
            map("a", 1),
            Value::from(1.0),
            Value::from(1_i64),
        ]);
        let text = value.to_stored().expect("it is stored");
        assert_eq!(with_sharing(|| Value::from_stored(&text)).expect("it reads back"), value);
    }
}
