//! Content of an automation file without its formatting, for semantic diffs.

use std::collections::{BTreeMap, HashMap};

use model::automation::{Automation, Code, TriggerId, Verb};
use serde_json::Value;
use text::units::format_duration;
use text::yaml::{Entry, Kind, Node, parse_text};

/// Top-level keys that have their own change details.
const DETAILED_KEYS: [&str; 7] = ["id", "enabled", "trigger", "triggers", "steps", "onError", "finally"];
/// Keys whose values are short and never secret, so that a diff shows them.
const SHOWN_KEYS: [&str; 3] = ["name", "timeout", "retry"];

/// Values of a file, without positions, quoting styles and comments.
pub(super) struct NormalizedFile {
    /// Top-level keys.
    keys: BTreeMap<String, Value>,
    /// Steps in reading order, each without its nested steps.
    steps: Vec<Step>,
}

struct Step {
    id: String,
    /// Parent step and key, as `step.key`.
    place: String,
    value: Value,
}

impl NormalizedFile {
    /// Parses the automation's source; `None` if it is no longer valid YAML.
    pub(super) fn parse(automation: &Automation) -> Option<Self> {
        let root = parse_text(automation.source.path(), automation.source.text()).ok()?;
        let mut ids = HashMap::new();
        // If a YAML alias repeats a step, the first use counts.
        automation.walk(&mut |step| {
            ids.entry(step.span.start).or_insert_with(|| step.id.to_string());
        });
        // The text of a code file is compared as if it were inline.
        let mut files = HashMap::new();
        automation.walk(&mut |step| {
            if let Verb::Code(code @ Code::File(_)) = &step.verb {
                files.insert(step.id.to_string(), code.text(automation).unwrap_or_default().to_owned());
            }
        });
        let mut taken = HashMap::new();
        automation.walk(&mut |step| {
            taken.insert(step.id.to_string(), taken_values(step));
        });
        let mut reader = Reader { ids, files, taken, steps: Vec::new() };
        let top = root.as_map()?.iter();
        let value = |entry: &Entry| Some((entry.key.clone(), reader.value(&entry.value, &entry.key)?));
        let keys = top.filter_map(value).collect();
        Some(Self { keys, steps: reader.steps })
    }

    /// Returns the steps present in both versions with different content.
    pub(super) fn changed_steps(&self, before: &Self) -> Vec<String> {
        let old: HashMap<&str, &Value> =
            before.steps.iter().map(|step| (step.id.as_str(), &step.value)).collect();
        let changed =
            self.steps.iter().filter(|step| old.get(step.id.as_str()).is_some_and(|old| **old != step.value));
        changed.map(|step| step.id.clone()).collect()
    }

    /// Returns the steps that moved to another parent. `Some` with an empty list if only the order changed.
    pub(super) fn moved_steps(&self, before: &Self) -> Option<Vec<String>> {
        let places = |file: &Self| -> BTreeMap<String, String> {
            file.steps.iter().map(|step| (step.id.clone(), step.place.clone())).collect()
        };
        let (old, new) = (places(before), places(self));
        let moved: Vec<String> = new
            .iter()
            .filter(|(id, place)| old.get(*id).is_some_and(|old| old != *place))
            .map(|(id, _)| id.clone())
            .collect();
        let in_both = |file: &Self| -> Vec<String> {
            let ids = file.steps.iter().map(|step| &step.id);
            ids.filter(|id| old.contains_key(*id) && new.contains_key(*id)).cloned().collect()
        };
        (!moved.is_empty() || in_both(before) != in_both(self)).then_some(moved)
    }

    /// Returns the changed top-level keys without own details, each with its old and new value if these are short.
    pub(super) fn changed_keys(&self, before: &Self) -> Vec<(String, Option<String>, Option<String>)> {
        let changed = different(&before.keys, &self.keys).into_iter();
        let other = changed.filter(|key| !DETAILED_KEYS.contains(&key.as_str()));
        let with_values = other.map(|key| {
            let shown = |keys: &BTreeMap<String, Value>| {
                let value = keys.get(&key).filter(|_| SHOWN_KEYS.contains(&key.as_str()));
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

    /// Returns the changed keys of the trigger and of its kind.
    pub(super) fn changed_trigger_keys(&self, before: &Self, id: &TriggerId) -> Vec<String> {
        let inner = |file: &Self| -> BTreeMap<String, Value> {
            let mut keys = BTreeMap::new();
            let own = |trigger: &&Value| trigger.get("id").and_then(Value::as_str) == Some(id.as_str());
            let list = file.keys.get("triggers").and_then(Value::as_array).into_iter().flatten();
            let one = file.keys.get("trigger").filter(|_| id.is_main());
            let trigger = one.or_else(|| list.into_iter().find(own));
            for (key, value) in trigger.and_then(Value::as_object).into_iter().flatten() {
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

/// Returns the defaults that a step takes, by key.
fn taken_values(step: &model::Step) -> Vec<(&'static str, Value)> {
    let connection = match &step.verb {
        Verb::Action(call) => call.connection.as_ref().map(|name| Value::from(name.to_string())),
        _ => None,
    };
    let retry = step.retry.as_ref().and_then(|retry| serde_json::to_value(retry.only_policy()?).ok());
    let timeout = step.timeout.as_ref().map(|timeout| Value::from(timeout.describe(format_duration)));
    let taken = step.taken;
    let values = [
        ("connection", connection.filter(|_| taken.connection)),
        ("retry", retry.filter(|_| taken.retry)),
        ("timeout", timeout.filter(|_| taken.timeout)),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

struct Reader {
    /// Step ids by the offset of the step's first key.
    ids: HashMap<u32, String>,
    /// Text of the code file of each step.
    files: HashMap<String, String>,
    /// The defaults that each step takes, by key.
    taken: HashMap<String, Vec<(&'static str, Value)>>,
    steps: Vec<Step>,
}

impl Reader {
    /// Converts a node to JSON. Steps are collected separately and yield `None`. `place` names the parent.
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
        // An explicit id and one derived from the name are equivalent.
        values.remove("id");
        if let Some(text) = self.files.remove(&id) {
            values.insert("code".to_owned(), Value::String(text));
        }
        // A default is compared as if it stood at the step.
        let taken = self.taken.remove(&id).unwrap_or_default();
        values.extend(taken.into_iter().map(|(key, value)| (key.to_owned(), value)));
        let step = Step { id, place: place.to_owned(), value: Value::Object(values) };
        self.steps.insert(before_inner, step);
        None
    }
}
