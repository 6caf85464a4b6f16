//! Names with values, in the order they were written.

use std::collections::HashMap;

use smol_str::SmolStr;

use super::Value;

/// A key of a [`Map`]. Up to 23 bytes stand in it as they are, since most keys are short and there are very many; a longer
/// one is shared. Cheap to clone.
pub type Key = SmolStr;

/// The entries of a [`Value::Map`], in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(Key, Value)>,
    /// Where each key stands, in a map of more than [`FEW`]. It is hashed with a key of the process, so that nobody can
    /// send names that meet.
    #[expect(clippy::box_collection, reason = "most maps have none, and a map is to be small")]
    places: Option<Box<HashMap<Key, usize>>>,
    pub(super) folds_case: bool,
}

/// Up to so many keys are compared one by one: most maps have no more, and hashing costs more than that.
const FEW: usize = 12;

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
        Self { folds_case: true, ..Self::default() }
    }

    fn place(&self, key: &str) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| **known == *key),
        }
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let place = match self.place(key) {
            None if self.folds_case => self.place(&key.to_ascii_lowercase()),
            found => found,
        };
        place.map(|place| &self.entries[place].1)
    }

    /// The value under `key`, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.place(key).map(|place| &mut self.entries[place].1)
    }

    /// Puts `value` under `key`, in the place of what was there.
    pub fn insert(&mut self, key: impl Into<Key>, value: impl Into<Value>) -> Option<Value> {
        self.put(key.into(), value.into())
    }

    fn put(&mut self, key: Key, value: Value) -> Option<Value> {
        if let Some(place) = self.place(&key) {
            return Some(std::mem::replace(&mut self.entries[place].1, value));
        }
        if let Some(places) = &mut self.places {
            places.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.places.is_none() && self.entries.len() > FEW {
            self.note_places();
        }
        None
    }

    fn note_places(&mut self) {
        let places = self.entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
        self.places = (self.entries.len() > FEW).then(|| Box::new(places.collect()));
    }

    /// Takes the entry under `key` out, keeping the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let (_, value) = self.entries.remove(self.place(key)?);
        if self.places.is_some() {
            self.note_places();
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

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is an entry under `key`.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl PartialEq for Map {
    /// Whether both have the same entries, in whatever order.
    fn eq(&self, other: &Self) -> bool {
        let same = |(key, value): &(Key, Value)| {
            other.place(key).is_some_and(|place| other.entries[place].1 == *value)
        };
        self.len() == other.len() && self.entries.iter().all(same)
    }
}

impl<K: Into<Key>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        let iter = iter.into_iter();
        let mut map = Self::with_capacity(iter.size_hint().0.min(FEW));
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
    enum Do {
        Insert(u8, u8),
        Remove(u8),
        Change(u8, u8),
    }

    fn work() -> impl Strategy<Value = Vec<Do>> {
        let one = prop_oneof![
            4 => (0..40_u8, any::<u8>()).prop_map(|(key, value)| Do::Insert(key, value)),
            1 => (0..40_u8).prop_map(Do::Remove),
            1 => (0..40_u8, any::<u8>()).prop_map(|(key, value)| Do::Change(key, value)),
        ];
        prop::collection::vec(one, 0..120)
    }

    fn value(number: u8) -> Value {
        Value::from(u32::from(number))
    }

    proptest! {
        /// The other map is one that hashes every key.
        #[test]
        fn a_map_of_any_size_does_what_another_does(work in work()) {
            let (mut map, mut other) = (Map::new(), IndexMap::<String, Value>::new());
            for one in work {
                match one {
                    Do::Insert(key, new) => {
                        let key = format!("k{key}");
                        prop_assert_eq!(map.insert(key.as_str(), value(new)), other.insert(key, value(new)));
                    }
                    Do::Remove(key) => {
                        let key = format!("k{key}");
                        prop_assert_eq!(map.remove(&key), other.shift_remove(&key));
                    }
                    Do::Change(key, new) => {
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
            let turned: Map = map.clone().into_iter().rev().collect();
            prop_assert_eq!(&turned, &map, "the order does not count");
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
    fn the_names_of_headers_are_found_in_any_case_in_a_map_of_any_size() {
        let mut headers = Map::headers();
        for number in 0..(2 * FEW) {
            headers.insert(format!("x-{number}-a"), number);
            for known in 0..=number {
                assert_eq!(headers.get(&format!("X-{known}-A")), Some(&Value::from(known)));
            }
            assert_eq!(headers.get("X"), None);
        }
    }
}
