//! Plain paths, by far the most frequent expressions: `trigger.results.body.data.orderId`, `item.tags[0]`.

use value::{Key, Value};

use super::dependencies::Link;

/// A path as ranges of its source text, which the caller keeps: a large project has very many paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Box<[Segment<ByteRange>]>);

/// Start and end of a byte range.
type ByteRange = (u32, u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment<Name> {
    Name(Name),
    Index(i64),
}

/// The longest name that a message shows, in bytes. A longer name comes from data and is omitted.
const MAX_NAME: usize = 100;

/// Literals and operators of the language that are words.
const WORDS: [&str; 13] =
    ["true", "false", "none", "null", "not", "and", "or", "in", "is", "if", "else", "True", "False"];

impl Path {
    /// Parses `text`; `None` if it is not a plain path.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut segments: Vec<Segment<&str>> = Vec::new();
        let mut rest = text;
        loop {
            let name = identifier(rest)?;
            rest = &rest[name.len()..];
            segments.push(Segment::Name(name));
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
        let literal = matches!(first, Segment::Name(name) if WORDS.contains(name) || *name == "None");
        let range = |name: &str| {
            let start = name.as_ptr().addr() - text.as_ptr().addr();
            Some((u32::try_from(start).ok()?, u32::try_from(start + name.len()).ok()?))
        };
        let ranges = segments.iter().map(|segment| match segment {
            Segment::Name(name) => range(name).map(Segment::Name),
            Segment::Index(index) => Some(Segment::Index(*index)),
        });
        ranges.collect::<Option<_>>().filter(|_| !literal).map(Self)
    }

    /// The links of the path for static checks. `text` is the source, here and below.
    pub(super) fn links(&self, text: &str) -> Vec<Link> {
        let link = |segment: Segment<&str>| match segment {
            Segment::Name(name) => Link::Name(name.into()),
            Segment::Index(_) => Link::Item,
        };
        self.segments(text).map(link).collect()
    }

    pub(super) fn walk(&self, text: &str, scope: &Value) -> Result<Value, String> {
        walk(scope, self.segments(text), item_or_character)
    }

    fn segments<'p>(&'p self, text: &'p str) -> impl Iterator<Item = Segment<&'p str>> + Clone {
        self.0.iter().map(|segment| match segment {
            Segment::Name((start, end)) => {
                Segment::Name(text.get(*start as usize..*end as usize).unwrap_or_default())
            }
            Segment::Index(index) => Segment::Index(*index),
        })
    }
}

impl<'t> Segment<&'t str> {
    fn subscript(text: &'t str) -> Option<Self> {
        let text = text.trim();
        for quote in ['\'', '"'] {
            if let Some(inner) = text.strip_prefix(quote).and_then(|inner| inner.strip_suffix(quote)) {
                let plain = !inner.contains([quote, '\\']);
                return plain.then_some(Self::Name(inner));
            }
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if number { text.parse().ok().map(Self::Index) } else { None }
    }
}

impl<Name: AsRef<str>> Segment<Name> {
    pub(super) fn as_ref(&self) -> Segment<&str> {
        match self {
            Self::Name(name) => Segment::Name(name.as_ref()),
            Self::Index(index) => Segment::Index(*index),
        }
    }
}

/// The item of a list; `None` if the value is not a list or the index is out of range.
pub(super) fn item(value: &Value, index: i64) -> Option<Value> {
    value.at(index).cloned()
}

/// The item of a list, or the character of a text.
fn item_or_character(value: &Value, index: i64) -> Option<Value> {
    match value {
        Value::String(text) => super::text_form::character(text, index),
        other => item(other, index),
    }
}

/// Follows a path of names.
pub(super) fn walk_names<'p>(
    names: impl Iterator<Item = &'p Key> + Clone,
    scope: &Value,
) -> Result<Value, String> {
    walk(scope, names.map(|name| Segment::Name(name.as_str())), item)
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let name = &text[..end];
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_').then_some(name)
}

/// Follows `path` from `root`. The error for a missing member names it and lists the existing ones. `item` returns the item at
/// an index.
pub(super) fn walk<'p>(
    root: &Value,
    path: impl Iterator<Item = Segment<&'p str>> + Clone,
    item: fn(&Value, i64) -> Option<Value>,
) -> Result<Value, String> {
    let mut value = root.clone();
    for (depth, segment) in path.clone().enumerate() {
        let next = match segment {
            Segment::Name(name) => value.get(name),
            Segment::Index(index) => item(&value, index),
        };
        let Some(next) = next else { return Err(missing_message(&value, &path.collect::<Vec<_>>(), depth)) };
        value = next;
    }
    Ok(value)
}

/// The message for a missing member of a path.
pub(super) fn missing_message(value: &Value, path: &[Segment<&str>], depth: usize) -> String {
    let whole = format_path(&path[..=depth]);
    if depth == 0 {
        return format!("`{whole}` is not defined here");
    }
    let parent = format_path(&path[..depth]);
    match (value, &path[depth]) {
        (Value::Map(map), Segment::Name(name)) if map.is_empty() => {
            format!("`{whole}` is missing: `{parent}` is an empty map, without `{name}`")
        }
        (Value::Map(map), Segment::Name(name)) => {
            let names: Vec<&str> = map.keys().filter(|key| key.len() <= MAX_NAME).take(12).collect();
            let more = if map.len() > names.len() { ", …" } else { "" };
            let near = Some(name).filter(|name| name.len() <= MAX_NAME);
            let near = near.and_then(|name| text::diagnostic::nearest(name, names.iter().copied()));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            format!("`{whole}` is missing: `{parent}` has {}{more}{near}", names.join(", "))
        }
        (Value::List(list), Segment::Index(_)) => {
            format!("`{whole}` is missing: `{parent}` has {} items", list.0.len())
        }
        (Value::List(_), Segment::Name(_)) => {
            format!(
                "`{whole}` is missing: `{parent}` is a list; take an item with `[0]` or all with `| map(by=item.…)`"
            )
        }
        (other, _) => format!("`{whole}` is missing: `{parent}` is {}", article(other.kind())),
    }
}

fn article(kind: &str) -> String {
    if kind == "null" { kind.to_owned() } else { format!("a {kind}") }
}

fn format_path(path: &[Segment<&str>]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
            Segment::Name(name) if name.len() <= MAX_NAME && identifier(name) == Some(*name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Segment::Name(name) if name.len() > MAX_NAME => text.push_str("['…']"),
            Segment::Name(name) => text.push_str(&format!("['{name}']")),
        }
    }
    text
}
