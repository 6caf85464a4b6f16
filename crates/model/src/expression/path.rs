//! Plain paths, the commonest expression by far: `trigger.results.body.data.orderId`, `item.tags[0]`.

use super::reading::Link;
use crate::value::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Name(String),
    Index(i64),
}

/// Words that are literals or operators of the language, not names.
const WORDS: [&str; 13] =
    ["true", "false", "none", "null", "not", "and", "or", "in", "is", "if", "else", "True", "False"];

impl Path {
    /// Reads `text` if it is a plain path and nothing else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut segments = Vec::new();
        let mut rest = text;
        loop {
            let name = identifier(rest)?;
            rest = &rest[name.len()..];
            segments.push(Segment::Name(name.to_owned()));
            while let Some(inner) = rest.strip_prefix('[') {
                let (subscript, after) = inner.split_once(']')?;
                segments.push(Segment::subscript(subscript)?);
                rest = after;
            }
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() => break,
                None => return None,
            }
        }
        let first = segments.first()?;
        let literal =
            matches!(first, Segment::Name(name) if WORDS.contains(&name.as_str()) || name == "None");
        (!literal).then_some(Self(segments))
    }

    /// The path as it is checked before anything runs.
    pub(super) fn links(&self) -> Vec<Link> {
        let link = |segment: &Segment| match segment {
            Segment::Name(name) => Link::Name(name.clone()),
            Segment::Index(_) => Link::Item,
        };
        self.0.iter().map(link).collect()
    }

    pub(super) fn walk(&self, scope: &Value) -> Result<Value, String> {
        walk(scope, &self.0)
    }
}

impl Segment {
    fn subscript(text: &str) -> Option<Self> {
        let text = text.trim();
        for quote in ['\'', '"'] {
            if let Some(inner) = text.strip_prefix(quote).and_then(|inner| inner.strip_suffix(quote)) {
                let plain = !inner.contains([quote, '\\']);
                return plain.then(|| Self::Name(inner.to_owned()));
            }
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if number { text.parse().ok().map(Self::Index) } else { None }
    }
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let name = &text[..end];
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_').then_some(name)
}

/// Follows `path` from `root`; a missing step is an error that names it and says what there is instead.
pub(super) fn walk(root: &Value, path: &[Segment]) -> Result<Value, String> {
    let mut value = root.clone();
    for (depth, segment) in path.iter().enumerate() {
        let next = match segment {
            Segment::Name(name) => value.get(name),
            Segment::Index(index) => value.at(*index).cloned(),
        };
        let Some(next) = next else { return Err(missing(&value, path, depth)) };
        value = next;
    }
    Ok(value)
}

/// The message for a step of a path that does not exist.
pub(super) fn missing(value: &Value, path: &[Segment], depth: usize) -> String {
    let whole = written(&path[..=depth]);
    if depth == 0 {
        return format!("`{whole}` is not defined here");
    }
    let parent = written(&path[..depth]);
    match (value, &path[depth]) {
        (Value::Map(map), Segment::Name(name)) if map.is_empty() => {
            format!("`{whole}` is missing: `{parent}` is an empty map, without `{name}`")
        }
        (Value::Map(map), Segment::Name(name)) => {
            let names: Vec<&str> = map.keys().take(12).collect();
            let more = if map.len() > names.len() { ", …" } else { "" };
            let near = crate::diagnostic::nearest(name, names.iter().copied())
                .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            format!("`{whole}` is missing: `{parent}` has {}{more}{near}", names.join(", "))
        }
        (Value::List(list), Segment::Index(_)) => {
            format!("`{whole}` is missing: `{parent}` has {} items", list.0.len())
        }
        (Value::List(_), Segment::Name(_)) => {
            format!(
                "`{whole}` is missing: `{parent}` is a list; take an item with `[0]` or all with `| map(attribute=…)`"
            )
        }
        (other, _) => format!("`{whole}` is missing: `{parent}` is {}", article(other.kind())),
    }
}

fn article(kind: &str) -> String {
    if kind == "null" { kind.to_owned() } else { format!("a {kind}") }
}

fn written(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
            Segment::Name(name) if identifier(name) == Some(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Segment::Name(name) => text.push_str(&format!("['{name}']")),
        }
    }
    text
}
