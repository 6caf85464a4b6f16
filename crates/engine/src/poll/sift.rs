//! What of an answer is new. Pure: what is known comes in, what is known then goes out.

use std::collections::HashSet;

use model::Value;

/// The most that one poll gives to executions; what is beyond comes with the next one, which is made at once.
pub(super) const MOST_NEW: usize = 1000;

/// One thing of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// What tells it from all others.
    pub(super) key: String,
    /// What an execution gets of it.
    pub(super) value: Value,
    /// Where a next poll goes on that has come as far as this one, where that is known of each.
    pub(super) cursor: Option<Value>,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// In the order in which executions get them.
    pub(super) items: Vec<Item>,
    /// Where the next poll goes on once all of them are known.
    pub(super) cursor: Value,
}

/// What an answer comes to.
#[derive(Debug, PartialEq)]
pub(super) struct Sifted {
    /// What executions get.
    pub(super) fresh: Vec<Value>,
    /// What is to be remembered as seen.
    pub(super) keys: Vec<String>,
    /// Where the next poll goes on.
    pub(super) cursor: Value,
    /// Whether something new is left for the next poll.
    pub(super) more: bool,
}

/// Sifts an answer by what was seen before. `silent` says that nothing of it starts anything: it is known from then on.
pub(super) fn sift(answer: Answer, seen: &[bool], silent: bool, before: &Value) -> Sifted {
    let Answer { items, cursor } = answer;
    let mut known: HashSet<String> = HashSet::with_capacity(items.len());
    let (mut fresh, mut more, mut reached) = (Vec::new(), false, None);
    for (item, seen) in items.into_iter().zip(seen.iter().copied().chain(std::iter::repeat(false))) {
        let Item { key, value, cursor } = item;
        if seen || known.contains(&key) || silent {
            known.insert(key);
            continue;
        }
        if fresh.len() == MOST_NEW {
            more = true;
            continue;
        }
        known.insert(key);
        fresh.push(value);
        reached = cursor.or(reached);
    }
    // Where nothing is new nothing has to be written. Otherwise all that is there is seen again: what is not is forgotten first.
    let keys = if fresh.is_empty() && !silent { Vec::new() } else { known.into_iter().collect() };
    let cursor = if more { reached.unwrap_or_else(|| before.clone()) } else { cursor };
    Sifted { fresh, keys, cursor, more }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn answer(keys: &[&str]) -> Answer {
        let item = |key: &&str| Item { key: (*key).to_owned(), value: Value::from(*key), cursor: None };
        Answer { items: keys.iter().map(item).collect(), cursor: Value::from("end") }
    }

    fn texts(values: &[Value]) -> Vec<String> {
        values.iter().map(Value::to_text).collect()
    }

    fn sorted(mut keys: Vec<String>) -> Vec<String> {
        keys.sort();
        keys
    }

    #[test]
    fn what_was_not_seen_is_new_once_and_in_order() {
        let sifted = sift(answer(&["c", "a", "b", "c"]), &[false, true, false, false], false, &Value::Null);
        assert_eq!(texts(&sifted.fresh), ["c", "b"]);
        assert_eq!(sorted(sifted.keys), ["a", "b", "c"]);
        assert_eq!((sifted.cursor, sifted.more), (Value::from("end"), false));
    }

    #[test]
    fn where_nothing_is_new_nothing_is_to_be_remembered() {
        let sifted = sift(answer(&["a"]), &[true], false, &Value::Null);
        assert_eq!((sifted.fresh.len(), sifted.keys.len(), sifted.cursor), (0, 0, Value::from("end")));
    }

    #[test]
    fn a_silent_poll_knows_everything_and_gives_nothing() {
        let sifted = sift(answer(&["a", "b"]), &[false, false], true, &Value::Null);
        assert_eq!(sifted.fresh, []);
        assert_eq!(sorted(sifted.keys), ["a", "b"]);
    }

    #[test]
    fn what_is_too_much_stays_new_for_the_next_poll() {
        let names: Vec<String> = (0..MOST_NEW + 1).map(|number| number.to_string()).collect();
        let mut answer = answer(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let all = vec![false; names.len()];
        let sifted = sift(answer.clone(), &all, false, &Value::from("before"));
        assert_eq!((sifted.fresh.len(), sifted.more), (MOST_NEW, true));
        assert!(!sifted.keys.contains(&MOST_NEW.to_string()));
        assert_eq!(sifted.cursor, Value::from("before"));
        answer.items[MOST_NEW - 1].cursor = Some(Value::from("there"));
        answer.items[MOST_NEW].cursor = Some(Value::from("beyond"));
        assert_eq!(sift(answer, &all, false, &Value::Null).cursor, Value::from("there"));
    }
}
