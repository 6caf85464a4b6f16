//! A map from keys to values in insertion order.

use std::collections::HashMap;

use smol_str::SmolStr;

use super::Value;

/// A key of a [`Map`]. A key of up to 23 bytes is stored inline, because most keys are short and frequent; a longer one is
/// shared. Cheap to clone.
pub type Key = SmolStr;

/// The entries of a [`Value::Map`], in insertion order.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(Key, Value)>,
    /// The index of each key, in a map of more than [`MAX_UNINDEXED`] entries. A hash key chosen per process prevents forged
    /// hash collisions.
    #[expect(clippy::box_collection, reason = "most maps have none, and a map is to be small")]
    index: Option<Box<HashMap<Key, usize>>>,
    pub(super) ignores_case: bool,
}

/// The largest map without an index. Most maps are no larger, and comparing keys one by one is cheaper than hashing them.
const MAX_UNINDEXED: usize = 12;

impl Map {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty map with room for `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), ..Self::default() }
    }

    /// A map whose keys are lower-case and whose look-up ignores case, as HTTP header names do.
    #[must_use]
    pub fn headers() -> Self {
        Self { ignores_case: true, ..Self::default() }
    }

    fn index_of(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| **known == *key),
        }
    }

    /// The value of `key`; `None` if the map does not have it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let position = match self.index_of(key) {
            None if self.ignores_case => self.index_of(&key.to_ascii_lowercase()),
            found => found,
        };
        position.map(|position| &self.entries[position].1)
    }

    /// A mutable reference to the value of `key`.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.index_of(key).map(|position| &mut self.entries[position].1)
    }

    /// Sets the value of `key` and returns the previous value.
    pub fn insert(&mut self, key: impl Into<Key>, value: impl Into<Value>) -> Option<Value> {
        self.put(key.into(), value.into())
    }

    fn put(&mut self, key: Key, value: Value) -> Option<Value> {
        if let Some(position) = self.index_of(&key) {
            return Some(std::mem::replace(&mut self.entries[position].1, value));
        }
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > MAX_UNINDEXED {
            self.rebuild_index();
        }
        None
    }

    fn rebuild_index(&mut self) {
        let index = self.entries.iter().enumerate().map(|(position, (key, _))| (key.clone(), position));
        self.index = (self.entries.len() > MAX_UNINDEXED).then(|| Box::new(index.collect()));
    }

    /// Removes the entry of `key`, keeping the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let (_, value) = self.entries.remove(self.index_of(key)?);
        if self.index.is_some() {
            self.rebuild_index();
        }
        Some(value)
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Value)> + ExactSizeIterator {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.entries.iter().map(|(key, _)| &**key)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if there is an entry with `key`.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl PartialEq for Map {
    /// Compares the entries, ignoring their order.
    fn eq(&self, other: &Self) -> bool {
        let same = |(key, value): &(Key, Value)| {
            other.index_of(key).is_some_and(|position| other.entries[position].1 == *value)
        };
        self.len() == other.len() && self.entries.iter().all(same)
    }
}

impl<K: Into<Key>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        let iter = iter.into_iter();
        let mut map = Self::with_capacity(iter.size_hint().0.min(MAX_UNINDEXED));
        for (key, value) in iter {
            map.insert(key, value);
        }
        map
    }
}

impl IntoIterator for Map {
    type Item = (Key, Value);
    type IntoIter = std::vec::IntoIter<(Key, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Insert(u8, u8),
        Remove(u8),
        Change(u8, u8),
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let one = prop_oneof![
            4 => (0..40_u8, any::<u8>()).prop_map(|(key, value)| Operation::Insert(key, value)),
            1 => (0..40_u8).prop_map(Operation::Remove),
            1 => (0..40_u8, any::<u8>()).prop_map(|(key, value)| Operation::Change(key, value)),
        ];
        prop::collection::vec(one, 0..120)
    }

    fn value(number: u8) -> Value {
        Value::from(u32::from(number))
    }

    proptest! {
        /// The reference is a map that hashes every key.
        #[test]
        fn a_map_of_any_size_behaves_like_an_index_map(operations in operations()) {
            let (mut map, mut other) = (Map::new(), IndexMap::<String, Value>::new());
            for one in operations {
                match one {
                    Operation::Insert(key, new) => {
                        let key = format!("k{key}");
                        prop_assert_eq!(map.insert(key.as_str(), value(new)), other.insert(key, value(new)));
                    }
                    Operation::Remove(key) => {
                        let key = format!("k{key}");
                        prop_assert_eq!(map.remove(&key), other.shift_remove(&key));
                    }
                    Operation::Change(key, new) => {
                        let key = format!("k{key}");
                        if let Some(found) = map.get_mut(&key) {
                            *found = value(new);
                        }
                        if let Some(found) = other.get_mut(&key) {
                            *found = value(new);
                        }
                    }
                }
                let same = map.iter().map(|(key, value)| (&**key, value));
                prop_assert!(same.eq(other.iter().map(|(key, value)| (key.as_str(), value))));
                prop_assert_eq!(map.len(), other.len());
            }
            for key in 0..40_u8 {
                let key = format!("k{key}");
                prop_assert_eq!(map.get(&key), other.get(&key));
            }
            let reversed: Map = map.clone().into_iter().rev().collect();
            prop_assert_eq!(&reversed, &map, "the order does not count");
            if let Some(last) = map.keys().next_back().map(str::to_owned) {
                let mut less = map.clone();
                less.remove(&last);
                prop_assert_ne!(&less, &map);
                less.insert("another", Value::Null);
                prop_assert_ne!(&less, &map);
            }
        }
    }

    #[test]
    fn header_names_are_case_insensitive_in_a_map_of_any_size() {
        let mut headers = Map::headers();
        for number in 0..(2 * MAX_UNINDEXED) {
            headers.insert(format!("x-{number}-a"), number);
            for known in 0..=number {
                assert_eq!(headers.get(&format!("X-{known}-A")), Some(&Value::from(known)));
            }
            assert_eq!(headers.get("X"), None);
        }
    }
}
