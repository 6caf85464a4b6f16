//! Patterns: maps are compared in part, lists completely, other values for equality, and a few rules.

use std::fmt::Write as _;

use text::diagnostic::{Span, nearest};
use value::{Number, Value};

use crate::automation::SpannedName;

/// Maximum number of characters of a value in a message.
const SHOWN: usize = 160;

/// A pattern that a value must match.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Where it is written.
    pub span: Span,
    /// The rule.
    pub matcher: Matcher,
}

/// The rule of a pattern.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// It is this text, number, truth value or null.
    Equal(Value),
    /// It is a list of as many items, each like its own.
    List(Vec<Pattern>),
    /// It is a map with these entries, each like its own; others may be there.
    Map(Vec<(SpannedName, Pattern)>),
    /// Each of these rules holds.
    Rules(Vec<Rule>),
}

/// A rule: what is written with a `$` in the place of a value.
#[derive(Clone, Debug)]
pub enum Rule {
    /// `$type`: a value of this kind; `any` is any but a missing one.
    Type(&'static str),
    /// `$contains`: a text with this part, or a list with an item like this.
    Contains(Box<Pattern>),
    /// `$startsWith`: a text that begins so.
    StartsWith(String),
    /// `$length`: a text, list or map of this length.
    Length(usize),
    /// `$exactly`: this value and nothing beside it.
    Exactly(Value),
    /// `$not`: anything else than this.
    Not(Box<Pattern>),
    /// `$absent`: nothing there at all.
    Absent,
}

impl Rule {
    /// The words of `$type`.
    pub const TYPES: [&'static str; 8] = ["any", "text", "number", "boolean", "list", "map", "file", "null"];
}

/// A value that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The value, as an expression would name it: `result.pages[2].title`.
    pub path: String,
    /// Where it is written what it must be like.
    pub span: Span,
    /// A description of the expected value.
    pub expected: String,
    /// A description of the value found.
    pub found: String,
}

impl Pattern {
    /// Everything of `found` that is not as it must be; `path` names it. `None` is a value that is not there.
    #[must_use]
    pub fn compare(&self, path: &str, found: Option<&Value>) -> Vec<Mismatch> {
        let mut mismatches = Vec::new();
        self.collect_mismatches(path, found, &mut mismatches);
        mismatches
    }

    /// True if the value matches.
    #[must_use]
    pub fn fits(&self, found: &Value) -> bool {
        self.compare("", Some(found)).is_empty()
    }

    fn collect_mismatches(&self, path: &str, found: Option<&Value>, mismatches: &mut Vec<Mismatch>) {
        let mut differs = |expected: String, found: String| {
            mismatches.push(Mismatch { path: path.to_owned(), span: self.span, expected, found });
        };
        let Some(value) = found else {
            if !self.accepts_absence() {
                differs(self.describe(), "nothing".to_owned());
            }
            return;
        };
        match &self.matcher {
            Matcher::Equal(expected) if same(expected, value) => {}
            Matcher::Equal(expected) => differs(show(expected), show_beside(expected, value)),
            Matcher::List(items) => match value.as_list() {
                None => differs(format!("a list of {}", items.len()), show(value)),
                Some(values) if values.len() != items.len() => {
                    differs(
                        format!("a list of {}", items.len()),
                        format!("one of {}: {}", values.len(), show(value)),
                    );
                }
                Some(values) => {
                    for (index, (item, value)) in items.iter().zip(values).enumerate() {
                        item.collect_mismatches(&format!("{path}[{index}]"), Some(value), mismatches);
                    }
                }
            },
            Matcher::Map(entries) => match value {
                Value::Map(_) | Value::File(_) => {
                    for (key, pattern) in entries {
                        pattern.collect_entry_mismatches(path, &key.name, value, mismatches);
                    }
                }
                other => differs("a map".to_owned(), show(other)),
            },
            Matcher::Rules(rules) => rules.iter().for_each(|rule| {
                if let Some((expected, found)) = rule.broken(value) {
                    differs(expected, found);
                }
            }),
        }
    }

    /// Looks at one entry of a map. One that is not there may be there under another name.
    fn collect_entry_mismatches(&self, path: &str, key: &str, map: &Value, mismatches: &mut Vec<Mismatch>) {
        let before = mismatches.len();
        let value = map.get(key);
        self.collect_mismatches(&join(path, key), value.as_ref(), mismatches);
        if value.is_none()
            && let Some(mismatch) = mismatches.get_mut(before)
            && let Some(map) = map.as_map()
        {
            mismatch.found = match nearest(key, map.keys()) {
                Some(near) => format!("nothing, but there is `{near}`"),
                None if map.is_empty() => "an empty map".to_owned(),
                None => {
                    let names: Vec<&str> = map.keys().take(8).collect();
                    let more = if map.len() > names.len() { ", …" } else { "" };
                    format!("nothing; there is `{}`{more}", names.join("`, `"))
                }
            };
        }
    }

    fn accepts_absence(&self) -> bool {
        match &self.matcher {
            Matcher::Rules(rules) => rules.iter().all(|rule| matches!(rule, Rule::Absent | Rule::Not(_))),
            _ => false,
        }
    }

    /// Describes the rule.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.matcher {
            Matcher::Equal(value) => show(value),
            Matcher::List(items) => format!("a list of {}", items.len()),
            Matcher::Map(entries) => {
                let names: Vec<&str> = entries.iter().map(|(key, _)| key.name.as_str()).take(8).collect();
                if names.is_empty() {
                    "a map".to_owned()
                } else {
                    format!("a map with `{}`", names.join("`, `"))
                }
            }
            Matcher::Rules(rules) => {
                let words: Vec<String> = rules.iter().map(Rule::describe).collect();
                words.join(" and ")
            }
        }
    }
}

impl Rule {
    fn describe(&self) -> String {
        match self {
            Self::Type("any") => "any value".to_owned(),
            Self::Type("null") => "null".to_owned(),
            Self::Type(kind) => format!("a value of the type {kind}"),
            Self::Contains(part) => format!("something with {}", part.describe()),
            Self::StartsWith(start) => {
                format!("a text that begins with {}", show(&Value::from(start.as_str())))
            }
            Self::Length(length) => format!("the length {length}"),
            Self::Exactly(value) => format!("exactly {}", show(value)),
            Self::Not(pattern) => format!("anything but {}", pattern.describe()),
            Self::Absent => "nothing".to_owned(),
        }
    }

    /// The expected and the found value, if the rule does not hold.
    fn broken(&self, value: &Value) -> Option<(String, String)> {
        let holds = match self {
            Self::Type(kind) => *kind == "any" || value.kind() == *kind,
            Self::Contains(part) => match (value, &part.matcher) {
                (Value::List(list), _) => list.0.iter().any(|item| part.fits(item)),
                (Value::String(text), Matcher::Equal(Value::String(part))) => text.contains(part.as_str()),
                (Value::File(file), Matcher::Equal(Value::String(part))) => {
                    file.text().is_some_and(|text| text.contains(part.as_str()))
                }
                _ => false,
            },
            Self::StartsWith(start) => value.as_str().is_some_and(|text| text.starts_with(start.as_str())),
            Self::Length(length) => length_of(value) == Some(*length),
            Self::Exactly(expected) => same(expected, value),
            Self::Not(pattern) => !pattern.fits(value),
            Self::Absent => false,
        };
        if holds {
            return None;
        }
        let found = match (self, length_of(value)) {
            (Self::Length(_), Some(length)) => format!("{length}: {}", show(value)),
            (Self::Exactly(expected), _) => first_difference(expected, value),
            _ => show(value),
        };
        Some((self.describe(), found))
    }
}

/// Where exactly two values that should be the same differ first.
fn first_difference(expected: &Value, found: &Value) -> String {
    if let (Value::Map(expected), Value::Map(map)) = (expected, found) {
        if let Some(surplus) = map.keys().find(|key| !expected.contains_key(key)) {
            return format!("`{surplus}` beside it: {}", show(found));
        }
        if let Some(missing) = expected.keys().find(|key| !map.contains_key(key)) {
            return format!("no `{missing}`: {}", show(found));
        }
    }
    show(found)
}

/// True if two values are equal: numbers by value, files by their public form.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        (Value::List(one), Value::List(other)) => {
            one.0.len() == other.0.len() && one.0.iter().zip(&other.0).all(|(one, other)| same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|found| same(value, found)))
        }
        (Value::String(text), Value::File(file)) => file.text().is_some_and(|found| found == text.as_str()),
        _ => expected == found,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    let whole = |number: &Number| number.is_i64() || number.is_u64();
    if whole(one) && whole(other) { one == other } else { one.as_f64() == other.as_f64() }
}

fn length_of(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::List(list) => Some(list.0.len()),
        Value::Map(map) => Some(map.len()),
        Value::File(file) => Some(file.data.len()),
        _ => None,
    }
}

/// A found value beside an expected one: where only their types differ, that is said.
fn show_beside(expected: &Value, found: &Value) -> String {
    let alike = expected.kind() != found.kind() && expected.to_text() == found.to_text();
    if alike { format!("the {} {}", found.kind(), show(found)) } else { show(found) }
}

/// A value on one line, not too long: texts with quotes, files by their size.
fn show(value: &Value) -> String {
    let text = match value {
        Value::File(file) => format!("a file of {} bytes, {}", file.data.len(), file.content_type),
        other => other.to_json(),
    };
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The path of an entry, as an expression would write it.
fn join(path: &str, key: &str) -> String {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let mut joined = path.to_owned();
    let written = match (plain, path.is_empty()) {
        (true, true) => write!(joined, "{key}"),
        (true, false) => write!(joined, ".{key}"),
        (false, _) => write!(joined, "[{}]", Value::from(key).to_json()),
    };
    // A text grows without fail.
    let _ = written;
    joined
}
