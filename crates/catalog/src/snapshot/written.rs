//! What is written in a file, apart from how: what two versions of it are compared by.

use std::collections::{BTreeMap, HashMap};

use model::automation::{Automation, Code, Verb};
use model::yaml::{Entry, Kind, Node, parse_text};
use serde_json::Value;

/// Keys of the file that are told of in words of their own.
const TOLD: [&str; 6] = ["id", "enabled", "trigger", "steps", "onError", "finally"];
/// Keys whose values are short and never secret.
const SHOWN: [&str; 3] = ["name", "timeout", "retry"];

/// The values of a file, without places, styles and comments.
pub(super) struct Written {
    /// The keys of the file itself.
    keys: BTreeMap<String, Value>,
    /// The steps in reading order, those inside another left out of it.
    steps: Vec<Step>,
}

struct Step {
    id: String,
    /// The step and the key that it stands below.
    place: String,
    value: Value,
}

impl Written {
    /// What is written of an Automation; `None` where its text no longer reads as YAML.
    pub(super) fn of(automation: &Automation) -> Option<Self> {
        let root = parse_text(automation.source.path(), automation.source.text()).ok()?;
        let mut ids = HashMap::new();
        // Of several uses of one alias the first has the place.
        automation.walk(&mut |step| {
            ids.entry(step.span.start).or_insert_with(|| step.id.to_string());
        });
        // A file of code counts as what is written where it is named.
        let mut files = HashMap::new();
        automation.walk(&mut |step| {
            if let Verb::Code(code @ Code::File(_)) = &step.verb {
                files.insert(step.id.to_string(), code.text(automation).unwrap_or_default().to_owned());
            }
        });
        let mut reader = Reader { ids, files, steps: Vec::new() };
        let top = root.as_map()?.iter();
        let value = |entry: &Entry| Some((entry.key.clone(), reader.value(&entry.value, &entry.key)?));
        let keys = top.filter_map(value).collect();
        Some(Self { keys, steps: reader.steps })
    }

    /// The steps that are in both and not the same.
    pub(super) fn changed_steps(&self, before: &Self) -> Vec<String> {
        let old: HashMap<&str, &Value> =
            before.steps.iter().map(|step| (step.id.as_str(), &step.value)).collect();
        let changed =
            self.steps.iter().filter(|step| old.get(step.id.as_str()).is_some_and(|old| **old != step.value));
        changed.map(|step| step.id.clone()).collect()
    }

    /// The steps that are in both and stand below another step or key. Without names where only the order is another.
    pub(super) fn moved_steps(&self, before: &Self) -> Option<Vec<String>> {
        let places = |written: &Self| -> BTreeMap<String, String> {
            written.steps.iter().map(|step| (step.id.clone(), step.place.clone())).collect()
        };
        let (old, new) = (places(before), places(self));
        let moved: Vec<String> = new
            .iter()
            .filter(|(id, place)| old.get(*id).is_some_and(|old| old != *place))
            .map(|(id, _)| id.clone())
            .collect();
        let in_both = |written: &Self| -> Vec<String> {
            let ids = written.steps.iter().map(|step| &step.id);
            ids.filter(|id| old.contains_key(*id) && new.contains_key(*id)).cloned().collect()
        };
        (!moved.is_empty() || in_both(before) != in_both(self)).then_some(moved)
    }

    /// The keys of the file, those that have words of their own left out, with what they were and are where that is short.
    pub(super) fn changed_keys(&self, before: &Self) -> Vec<(String, Option<String>, Option<String>)> {
        let changed = different(&before.keys, &self.keys).into_iter();
        let other = changed.filter(|key| !TOLD.contains(&key.as_str()));
        let with_values = other.map(|key| {
            let shown = |keys: &BTreeMap<String, Value>| {
                let value = keys.get(&key).filter(|_| SHOWN.contains(&key.as_str()));
                match value {
                    Some(Value::String(text)) => Some(text.clone()),
                    Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
                    _ => None,
                }
            };
            let (old, new) = (shown(&before.keys), shown(&self.keys));
            (key, old, new)
        });
        with_values.collect()
    }

    /// The keys of the trigger and of its kind that are not the same.
    pub(super) fn changed_trigger_keys(&self, before: &Self) -> Vec<String> {
        let inner = |written: &Self| -> BTreeMap<String, Value> {
            let mut keys = BTreeMap::new();
            for (key, value) in written.keys.get("trigger").and_then(Value::as_object).into_iter().flatten() {
                match value {
                    Value::Object(inner) => keys.extend(inner.clone()),
                    value => {
                        keys.insert(key.clone(), value.clone());
                    }
                }
            }
            keys
        };
        different(&inner(before), &inner(self))
    }
}

fn different(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let mut keys: Vec<String> = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    keys.extend(before.keys().filter(|key| !after.contains_key(*key)).cloned());
    keys.sort();
    keys
}

struct Reader {
    /// The steps by where their first key stands.
    ids: HashMap<u32, String>,
    /// The texts of the files of code, by the step.
    files: HashMap<String, String>,
    steps: Vec<Step>,
}

impl Reader {
    /// A value, without the steps in it: these are taken out, and of a step nothing is left. `place` is what it stands
    /// below.
    fn value(&mut self, node: &Node, place: &str) -> Option<Value> {
        let map = match &node.kind {
            Kind::List(items) => {
                return Some(items.iter().filter_map(|item| self.value(item, place)).collect());
            }
            Kind::Map(map) => map,
            _ => return Some(node.to_json()),
        };
        let step = map.entries.first().and_then(|first| self.ids.remove(&first.key_span.start));
        let before_inner = self.steps.len();
        let mut values = serde_json::Map::new();
        for Entry { key, value, .. } in map {
            let owner = step.as_deref().unwrap_or(place);
            if let Some(value) = self.value(value, &format!("{owner}.{key}")) {
                values.insert(key.clone(), value);
            }
        }
        let Some(id) = step else { return Some(Value::Object(values)) };
        // Whether the id is written or follows from the name is the same.
        values.remove("id");
        if let Some(text) = self.files.remove(&id) {
            values.insert("code".to_owned(), Value::String(text));
        }
        let step = Step { id, place: place.to_owned(), value: Value::Object(values) };
        self.steps.insert(before_inner, step);
        None
    }
}
