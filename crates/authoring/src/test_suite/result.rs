//! Compares a double's answer with the declared result type of its action: fields may be missing, but not added.

use expression::template::Template;
use model::action::ResultType;
use text::diagnostic::nearest;
use value::Value;

/// Maximum number of messages per answer.
const MAX_MESSAGES: usize = 5;

/// Describes the parts of an answer that do not match the type. Computed parts are skipped.
pub(super) fn type_mismatches(answer: &Template, kind: &ResultType) -> Vec<String> {
    let mut found = Vec::new();
    template(answer, kind, "", &mut found);
    found.truncate(MAX_MESSAGES);
    found
}

fn template(written: &Template, kind: &ResultType, path: &str, found: &mut Vec<String>) {
    match written {
        Template::Literal(known) => value(known, kind, path, found),
        // An expression may yield any type.
        Template::Expression(_) | Template::Text(_) => {}
        Template::List(items) => {
            if let Some(inner) = lists(kind) {
                for (index, item) in items.iter().enumerate() {
                    template(item, inner, &format!("{path}[{index}]"), found);
                }
            }
        }
        Template::Map(entries) => {
            for (key, item) in entries {
                entry(key, kind, path, found, |inner, path, found| template(item, inner, path, found));
            }
        }
    }
}

fn value(known: &Value, kind: &ResultType, path: &str, found: &mut Vec<String>) {
    if !kind.alternatives().iter().any(|one| admits(one, known)) {
        let at = if path.is_empty() { "the result".to_owned() } else { format!("`{path}`") };
        found.push(format!("{at} is {}, not {}", describe(known), kind.describe()));
        return;
    }
    match known {
        Value::List(list) => {
            if let Some(inner) = lists(kind) {
                for (index, item) in list.0.iter().enumerate() {
                    value(item, inner, &format!("{path}[{index}]"), found);
                }
            }
        }
        Value::Map(map) => {
            for (key, item) in map.iter() {
                entry(key, kind, path, found, |inner, path, found| value(item, inner, path, found));
            }
        }
        _ => {}
    }
}

/// Checks an entry of a map: its key must be declared.
fn entry(
    key: &str,
    kind: &ResultType,
    path: &str,
    found: &mut Vec<String>,
    look: impl FnOnce(&ResultType, &str, &mut Vec<String>),
) {
    let inside = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let mut names = Vec::new();
    for one in kind.alternatives() {
        match one {
            ResultType::Map { values } => return look(values, &inside, found),
            ResultType::Object(object) => match object.field(key) {
                Some(field) => return look(&field.kind, &inside, found),
                None if object.open => return,
                None => names.extend(object.names()),
            },
            ResultType::Any => return,
            _ => {}
        }
    }
    if !names.is_empty() {
        let near = nearest(key, names).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        found.push(format!("there is no `{inside}` in it{near}"));
    }
}

/// Returns the item type; `None` unless the type has exactly one list alternative.
fn lists(kind: &ResultType) -> Option<&ResultType> {
    let mut lists = kind.alternatives().iter().filter_map(|one| match one {
        ResultType::List { items } => Some(items.as_ref()),
        _ => None,
    });
    let first = lists.next()?;
    lists.next().is_none().then_some(first)
}

/// Returns true if a value's outermost type is accepted.
fn admits(kind: &ResultType, value: &Value) -> bool {
    match (kind, value) {
        (ResultType::Any, _)
        | (ResultType::Null, Value::Null)
        | (ResultType::Text, Value::String(_))
        | (ResultType::Number, Value::Number(_))
        | (ResultType::Boolean, Value::Bool(_))
        | (ResultType::List { .. }, Value::List(_))
        | (ResultType::Map { .. } | ResultType::Object(_), Value::Map(_))
        // A text of a test stands for a file.
        | (ResultType::File, Value::File(_) | Value::String(_)) => true,
        (ResultType::Integer, Value::Number(number)) => !number.is_f64(),
        // The other system may add options.
        (ResultType::Choice { .. }, Value::String(_)) => true,
        _ => false,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("the {} {}", value.kind(), value.to_json()),
        other => format!("a {}", other.kind()),
    }
}
