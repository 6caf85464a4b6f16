//! Filters of steps that wait for an event. The store keeps them, so that an event wakes only the executions that it concerns.
//!
//! A filter has two parts. The key is an equality that the condition requires, such as `event.data.id == vars.id`: the store
//! finds the waiting steps by it. The condition is stored with the values that it reads, and is evaluated at delivery without
//! the execution. A filter is a hint: the step evaluates its condition again when it receives the event.

use std::collections::HashMap;
use std::sync::Arc;

use expression::{Expression, equality_key};
use model::execution::Signal;
use store::EventKey;
use text::diagnostic::Span;
use value::{Budget, JsonLimits, Key, Map, Value};

use crate::evaluator::Evaluator;

/// The largest values that are stored with a condition, in bytes. A step that compares larger ones is woken by every event.
const MAX_STORED_VALUES: usize = 4096;
/// The names in a stored condition: its text, and the values that it reads.
const TEXT: &str = "if";
const NAMES: &str = "names";
/// The variable of a condition that holds the event.
const EVENT: &str = "event";

/// The filter of one waiting step. The default lets every event pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFilter {
    pub(crate) key: EventKey,
    /// The condition in its stored form; `None` if it cannot be evaluated without the execution.
    pub(crate) condition: Option<String>,
}

impl EventFilter {
    /// Creates the filter of a condition over the variables in `scope`. `redact` masks secrets: a value that contains one is
    /// not stored.
    pub(crate) fn of(condition: &Expression, scope: &Value, redact: impl Fn(Value) -> Value) -> Self {
        if condition.is_nondeterministic() {
            return Self::default();
        }
        let is_public = |value: &Value| redact(value.clone()) == *value;
        Self {
            key: key(condition, scope, &is_public).unwrap_or_default(),
            condition: stored(condition, scope, &is_public),
        }
    }
}

/// The key of an equality that the condition requires.
fn key(condition: &Expression, scope: &Value, is_public: &dyn Fn(&Value) -> bool) -> Option<EventKey> {
    let equality = condition.required_equality(EVENT)?;
    let value = equality.value.evaluate(scope, &Budget::inline()).ok()?;
    let path = Value::from_iter(equality.path.iter().map(|name| Value::from(name.as_str()))).to_json();
    is_public(&value).then_some(EventKey { path, value: equality_key(&value)? })
}

/// The condition as text with the values that it reads.
fn stored(condition: &Expression, scope: &Value, is_public: &dyn Fn(&Value) -> bool) -> Option<String> {
    let mut names = Map::new();
    for reference in condition.references() {
        if reference.path.first()? != EVENT {
            copy(scope, &reference.path, &mut names);
        }
    }
    let names = Value::from(names);
    let fits = names.estimated_size(MAX_STORED_VALUES) < MAX_STORED_VALUES;
    if !fits || has_file(&names) || !is_public(&names) {
        return None;
    }
    let text = Value::from(condition.text());
    Some(Value::from(Map::from_iter([(TEXT, text), (NAMES, names)])).to_json())
}

/// Copies the value at a path, with the maps around it. A missing value stays missing.
fn copy(from: &Value, path: &[Key], to: &mut Map) {
    let Some((name, rest)) = path.split_first() else { return };
    let Some(value) = (if let Value::Map(map) = from { map.get(name) } else { None }) else { return };
    // The last name, or a path that leads through something other than a map: all of the value is needed.
    if rest.is_empty() || !matches!(value, Value::Map(_)) {
        to.insert(name.clone(), value.clone());
        return;
    }
    if !to.contains_key(name) {
        to.insert(name.clone(), Map::new());
    }
    if let Some(Value::Map(inner)) = to.get_mut(name) {
        copy(value, rest, Arc::make_mut(inner));
    }
}

fn has_file(value: &Value) -> bool {
    match value {
        Value::File(_) => true,
        Value::List(list) => list.0.iter().any(has_file),
        Value::Map(map) => map.iter().any(|(_, value)| has_file(value)),
        _ => false,
    }
}

/// An event as the variable `event` of conditions.
pub(crate) fn event_value(signal: &Signal) -> Value {
    let name = Value::from(signal.name.as_str());
    Value::from(Map::from_iter([("name", name), ("data", signal.data.clone())]))
}

/// The waiting steps with keys of one path that an event may concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidates {
    /// Steps that wait for this value.
    Value(String),
    /// All of them: the event lacks the member, and each condition decides by itself.
    All,
    /// None of them: the member is a list or a map, and no key is.
    None,
}

/// An event that is delivered, with the conditions that were compiled for it.
pub(crate) struct FilteredEvent {
    event: Value,
    compiled: HashMap<String, Option<Expression>>,
}

impl FilteredEvent {
    pub(crate) fn new(signal: &Signal) -> Self {
        Self { event: event_value(signal), compiled: HashMap::new() }
    }

    /// The steps that the event may concern among those with a key of `path`.
    pub(crate) fn candidates(&self, path: &str) -> Candidates {
        if path.is_empty() {
            return Candidates::Value(String::new());
        }
        let Ok(Value::List(names)) = Value::from_json(path.as_bytes(), JsonLimits::default()) else {
            return Candidates::All;
        };
        let mut value = &self.event;
        for name in &names.0 {
            let (Value::Map(map), Value::String(name)) = (value, name) else { return Candidates::All };
            let Some(member) = map.get(name) else { return Candidates::All };
            value = member;
        }
        equality_key(value).map_or(Candidates::None, Candidates::Value)
    }

    /// Returns false if the stored condition is false for this event. A condition with an error lets the event pass, so that
    /// the step fails with it.
    pub(crate) async fn passes(&mut self, condition: Option<&str>, evaluator: &Evaluator) -> bool {
        let Some(condition) = condition else { return true };
        let Ok(Value::Map(stored)) = Value::from_json(condition.as_bytes(), JsonLimits::default()) else {
            return true;
        };
        let (Some(Value::String(text)), Some(Value::Map(names))) = (stored.get(TEXT), stored.get(NAMES))
        else {
            return true;
        };
        let mut names = Map::clone(names);
        names.insert(EVENT, self.event.clone());
        // All iterations of one step have the same text, so the number of texts is that of steps in files.
        let compile = || Expression::compile(text, Span::default()).ok();
        let compiled = self.compiled.entry(text.as_str().to_owned()).or_insert_with(compile);
        match compiled {
            Some(condition) => evaluator.holds(condition, &Value::from(names)).await.unwrap_or(true),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Value {
        let text = r#"{"vars": {"id": 7, "secret": "s3cret", "big": "BIG", "other": [1]},
            "inputs": {"limit": 100}, "steps": {"a": {"results": {"ids": [1, 2]}}}}"#;
        let text = text.replace("BIG", &"x".repeat(5000));
        Value::from_json(text.as_bytes(), JsonLimits::default()).expect("it is JSON")
    }

    fn mask(value: Value) -> Value {
        let text = value.to_json().replace("s3cret", "***");
        Value::from_json(text.as_bytes(), JsonLimits::default()).expect("it is JSON")
    }

    fn filter(condition: &str) -> EventFilter {
        EventFilter::of(
            &Expression::compile(condition, Span::default()).expect("it compiles"),
            &scope(),
            mask,
        )
    }

    async fn passes(condition: &str, data: &str) -> bool {
        let data = Value::from_json(data.as_bytes(), JsonLimits::default()).expect("it is JSON");
        let signal = Signal { id: "1".to_owned(), name: "paid".to_owned(), data, by: None };
        let mut event = FilteredEvent::new(&signal);
        let filter = filter(condition);
        let candidates = event.candidates(&filter.key.path);
        let found = match candidates {
            Candidates::Value(value) => value == filter.key.value,
            Candidates::All => true,
            Candidates::None => false,
        };
        found && event.passes(filter.condition.as_deref(), &Evaluator::new()).await
    }

    #[tokio::test]
    async fn an_event_passes_the_filter_if_the_condition_is_true_or_unknown() {
        for (condition, data, expected) in [
            ("event.data.id == vars.id", r#"{"id": 7}"#, true),
            ("event.data.id == vars.id", r#"{"id": 7.0}"#, true),
            ("event.data.id == vars.id", r#"{"id": 8}"#, false),
            ("event.data.id == vars.id", r#"{"id": "7"}"#, false),
            ("event.data.id == vars.id", r#"{"id": [7]}"#, false),
            ("event.data.id == vars.id and event.data.n > inputs.limit", r#"{"id": 7, "n": 101}"#, true),
            ("event.data.id == vars.id and event.data.n > inputs.limit", r#"{"id": 7, "n": 100}"#, false),
            ("event.data.n in steps.a.results.ids", r#"{"n": 2}"#, true),
            ("event.data.n in steps.a.results.ids", r#"{"n": 3}"#, false),
            ("event.data.id == vars.other[0]", r#"{"id": 1}"#, true),
            ("event.data.id == vars.other[0]", r#"{"id": 2}"#, false),
            // An error of the condition is one of the step.
            ("event.data.id == vars.id", r#"{}"#, true),
            ("event.data.n > 3", r#"{"n": {}}"#, true),
            ("event.data.id == vars.missing", r#"{"id": 1}"#, true),
            // Nothing of these is stored.
            ("event.data.key == vars.secret", r#"{"key": "no"}"#, true),
            ("event.data.key == vars.big", r#"{"key": "yyy"}"#, false),
            ("event.data.key != vars.big", r#"{"key": "yyy"}"#, true),
            ("event.data.at < now()", r#"{"at": "x"}"#, true),
        ] {
            assert_eq!(passes(condition, data).await, expected, "{condition} for {data}");
        }
    }

    #[test]
    fn a_value_with_a_secret_is_not_stored() {
        assert_eq!(filter("event.data.key == vars.secret"), EventFilter::default());
        let filter = filter("event.data.id == vars.id and event.data.key != vars.secret");
        assert_eq!((filter.key.value.as_str(), filter.condition), ("n:7e0", None));
    }
}
