//! Separates new items from those already seen. Pure: takes the seen flags and returns the keys to store.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};
use value::Value;
use value::redact::Redactor;

/// Maximum number of items that one poll passes to executions. The rest follows in the next poll, which runs after one
/// second.
pub(super) const MAX_NEW: usize = 1000;

/// An item of a poll result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// Deduplication key, unique within the poll.
    pub(super) key: String,
    /// Data for the execution.
    pub(super) value: Value,
    /// Cursor that is valid once this item has been processed; `None` if the source has no cursor per item.
    pub(super) cursor: Option<Value>,
}

/// Items of one poll result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PollResult {
    /// Items in the order in which executions receive them.
    pub(super) items: Vec<Item>,
    /// Cursor that is valid once all items have been processed.
    pub(super) cursor: Value,
    /// True if the source has more, which the next poll reads.
    pub(super) goes_on: bool,
    /// The reason for which the source could not go on from its last position: the poll fails, and the next one begins at the cursor.
    pub(super) problem: Option<String>,
}

impl PollResult {
    /// Masks secrets, since all of it is stored: some services repeat the request in their response.
    ///
    /// # Errors
    /// Returns an error if a cursor contains a secret: the next poll could not use a masked cursor.
    pub(super) fn mask_secrets(mut self, redactor: &Redactor) -> Result<Self, String> {
        if redactor.is_empty() {
            return Ok(self);
        }
        let is_open = |cursor: &Value| redactor.redact_value(cursor.clone()) == *cursor;
        if !is_open(&self.cursor) || !self.items.iter().filter_map(|item| item.cursor.as_ref()).all(is_open) {
            return Err("`cursor` contains a secret and would be stored; use a part without it".to_owned());
        }
        for item in &mut self.items {
            item.value = redactor.redact_value(std::mem::take(&mut item.value));
            if redactor.redact_bytes(item.key.as_bytes()).is_some() {
                // Two masked keys could become equal, so the key is hashed.
                item.key = digest(&item.key);
            }
        }
        Ok(self)
    }
}

/// Replaces a key that is too long or contains a secret by its hash.
pub(super) fn digest(key: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(key.as_bytes())))
}

/// Result of the deduplication.
#[derive(Debug, PartialEq)]
pub(super) struct NewItems {
    /// Data for executions, one entry for each new item.
    pub(super) fresh: Vec<Value>,
    /// Keys to store as seen.
    pub(super) keys: Vec<String>,
    /// Cursor of the next poll.
    pub(super) cursor: Value,
    /// True if new items are left for the next poll.
    pub(super) more: bool,
}

/// Removes the items seen before. If `is_silent`, no item starts an execution, but all are marked as seen.
pub(super) fn dedup_items(answer: PollResult, seen: &[bool], is_silent: bool, before: &Value) -> NewItems {
    let PollResult { items, cursor, goes_on, .. } = answer;
    let mut known: HashSet<String> = HashSet::with_capacity(items.len());
    let (mut fresh, mut more, mut reached) = (Vec::new(), false, None);
    for (item, seen) in items.into_iter().zip(seen.iter().copied().chain(std::iter::repeat(false))) {
        let Item { key, value, cursor } = item;
        if seen || known.contains(&key) || is_silent {
            known.insert(key);
            continue;
        }
        if fresh.len() == MAX_NEW {
            more = true;
            continue;
        }
        known.insert(key);
        fresh.push(value);
        reached = cursor.or(reached);
    }
    // Without new items nothing is written. Otherwise all present keys are stored again, since the store removes the
    // oldest seen keys first.
    let keys = if fresh.is_empty() && !is_silent { Vec::new() } else { known.into_iter().collect() };
    let cursor = if more { reached.unwrap_or_else(|| before.clone()) } else { cursor };
    NewItems { fresh, keys, cursor, more: more || goes_on }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn answer(keys: &[&str]) -> PollResult {
        let item = |key: &&str| Item { key: (*key).to_owned(), value: Value::from(*key), cursor: None };
        PollResult {
            items: keys.iter().map(item).collect(),
            cursor: Value::from("end"),
            ..PollResult::default()
        }
    }

    fn texts(values: &[Value]) -> Vec<String> {
        values.iter().map(Value::to_text).collect()
    }

    fn sorted(mut keys: Vec<String>) -> Vec<String> {
        keys.sort();
        keys
    }

    #[test]
    fn unseen_items_are_new_once_and_in_order() {
        let new_items =
            dedup_items(answer(&["c", "a", "b", "c"]), &[false, true, false, false], false, &Value::Null);
        assert_eq!(texts(&new_items.fresh), ["c", "b"]);
        assert_eq!(sorted(new_items.keys), ["a", "b", "c"]);
        assert_eq!((new_items.cursor, new_items.more), (Value::from("end"), false));
    }

    #[test]
    fn a_stored_poll_result_has_no_secret_and_its_items_stay_distinct() {
        let redactor = Redactor::default();
        redactor.add_secret("s3cret-1234");
        let mut found = answer(&["a", "s3cret-1234/1", "s3cret-1234/2"]);
        let kept = found.clone().mask_secrets(&redactor).expect("its cursor is open");
        let values: Vec<Value> = kept.items.iter().map(|item| item.value.clone()).collect();
        assert_eq!(texts(&values), ["a", "***/1", "***/2"]);
        assert_eq!(kept.items[0].key, "a");
        assert!(kept.items[1].key.starts_with("sha256:") && kept.items[1].key != kept.items[2].key);
        found.cursor = Value::from("https://api.example/?page=2&key=s3cret-1234");
        assert!(found.mask_secrets(&redactor).is_err(), "a masked cursor leads nowhere");
    }

    #[test]
    fn a_poll_without_new_items_stores_no_keys() {
        let new_items = dedup_items(answer(&["a"]), &[true], false, &Value::Null);
        assert_eq!(
            (new_items.fresh.len(), new_items.keys.len(), new_items.cursor),
            (0, 0, Value::from("end"))
        );
    }

    #[test]
    fn a_silent_poll_marks_all_items_as_known_and_delivers_none() {
        let new_items = dedup_items(answer(&["a", "b"]), &[false, false], true, &Value::Null);
        assert_eq!(new_items.fresh, []);
        assert_eq!(sorted(new_items.keys), ["a", "b"]);
    }

    #[test]
    fn items_over_the_limit_stay_new_for_the_next_poll() {
        let names: Vec<String> = (0..MAX_NEW + 1).map(|number| number.to_string()).collect();
        let mut answer = answer(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let all = vec![false; names.len()];
        let new_items = dedup_items(answer.clone(), &all, false, &Value::from("before"));
        assert_eq!((new_items.fresh.len(), new_items.more), (MAX_NEW, true));
        assert!(!new_items.keys.contains(&MAX_NEW.to_string()));
        assert_eq!(new_items.cursor, Value::from("before"));
        answer.items[MAX_NEW - 1].cursor = Some(Value::from("there"));
        answer.items[MAX_NEW].cursor = Some(Value::from("beyond"));
        assert_eq!(dedup_items(answer, &all, false, &Value::Null).cursor, Value::from("there"));
    }
}
