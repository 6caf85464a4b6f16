//! The tree of a YAML file, each node with its place.

use super::locate::Placement;
use crate::diagnostic::Span;

/// A value and where it stands. A value reached through an alias stands where its anchor does.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// From its first byte to after its last; quotes and brackets included, tags and anchors not.
    pub span: Span,
}

/// What a node is, by the core schema of YAML 1.2.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`; `yes`, `no`, `on` and `off` are text.
    Bool(bool),
    /// A whole number that fits 64 bits with a sign.
    Integer(i64),
    /// A whole number above the largest signed one.
    Unsigned(u64),
    /// Any other number; always finite.
    Float(f64),
    /// Text.
    String(Text),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping.
    Map(Map),
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// `'…'`
    SingleQuoted,
    /// `"…"`
    DoubleQuoted,
    /// `|`
    Literal,
    /// `>`
    Folded,
}

impl Style {
    /// Whether the author put quotes around it.
    #[must_use]
    pub fn is_quoted(self) -> bool {
        matches!(self, Style::SingleQuoted | Style::DoubleQuoted)
    }

    /// Whether it is a block scalar.
    #[must_use]
    pub fn is_block(self) -> bool {
        matches!(self, Style::Literal | Style::Folded)
    }
}

/// A text, how it is written, and where each part of it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The text, escapes and folding resolved.
    pub value: String,
    /// How it is written.
    pub style: Style,
    pub(super) placement: Placement,
}

impl Text {
    /// Where in the file the byte at an offset of the value stands.
    ///
    /// Exact for plain, quoted and literal texts; in a folded text exact but for the white space that was folded.
    /// Past the end it is the end.
    #[must_use]
    pub fn locate(&self, offset: usize) -> usize {
        self.placement.locate(offset.min(self.value.len()))
    }

    /// Where in the file a stretch of the value stands.
    #[must_use]
    pub fn locate_span(&self, start: usize, end: usize) -> Span {
        // The end is where its last byte stands, plus one: what follows may stand on another line.
        let start_place = self.locate(start);
        let end_place = if end > start { self.locate(end - 1) + 1 } else { start_place };
        Span::new(start_place, end_place)
    }
}

/// A mapping, in the order of the file. Keys are unique.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Map {
    /// The entries, in the order of the file.
    pub entries: Vec<Entry>,
}

/// A key, where it stands, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands, quotes included.
    pub key_span: Span,
    /// Its value.
    pub value: Node,
}

impl Map {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a Entry;
    type IntoIter = std::slice::Iter<'a, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Node {
    /// Whether it is `null`, `~` or nothing at all.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.as_text().map(|text| text.value.as_str())
    }

    /// The text with its style and places, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&Text> {
        if let Kind::String(text) = &self.kind { Some(text) } else { None }
    }

    /// The truth value, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Kind::Bool(value) = self.kind { Some(value) } else { None }
    }

    /// The whole number, if it is one with a sign that fits 64 bits.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        if let Kind::Integer(value) = self.kind { Some(value) } else { None }
    }

    /// The items, if it is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Node]> {
        if let Kind::List(items) = &self.kind { Some(items) } else { None }
    }

    /// The mapping, if it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        if let Kind::Map(map) = &self.kind { Some(map) } else { None }
    }

    /// The value of a key, if it is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// The part of the span to underline when the whole node is meant: the first key of a mapping, the first item
    /// of a list, else everything.
    #[must_use]
    pub fn head(&self) -> Span {
        match &self.kind {
            Kind::Map(map) => map.entries.first().map_or(self.span, |entry| entry.key_span),
            Kind::List(items) => items.first().map_or(self.span, Node::head),
            _ => self.span,
        }
    }

    /// Where in the file the byte at an offset of a text stands (see [`Text::locate`]); for anything else its start.
    #[must_use]
    pub fn locate(&self, offset: usize) -> usize {
        self.as_text().map_or(self.span.start as usize, |text| text.locate(offset))
    }

    /// Where in the file a stretch of a text stands (see [`Text::locate_span`]); for anything else its span.
    #[must_use]
    pub fn locate_span(&self, start: usize, end: usize) -> Span {
        self.as_text().map_or(self.span, |text| text.locate_span(start, end))
    }

    /// What it is, in words for a message: "text", "a number", "a list", "a mapping", "nothing", "`true`".
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(true) => "`true`",
            Kind::Bool(false) => "`false`",
            Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => "a number",
            Kind::String(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// The same value as JSON, mappings in the order of the file.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Integer(value) => Value::from(*value),
            Kind::Unsigned(value) => Value::from(*value),
            Kind::Float(value) => Value::from(*value),
            Kind::String(text) => Value::String(text.value.clone()),
            Kind::List(items) => items.iter().map(Node::to_json).collect(),
            Kind::Map(map) => map
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}
