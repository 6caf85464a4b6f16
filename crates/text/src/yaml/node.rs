//! The tree of a YAML file, each node with its span.

use super::source_map::SourceMap;
use crate::diagnostic::Span;

/// A value with its span. The span of an aliased value is that of its anchor.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub kind: Kind,
    /// The bytes of the node; quotes and brackets included, tags and anchors excluded.
    pub span: Span,
}

/// The value of a node, resolved by the core schema of YAML 1.2.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`, `~` or an empty value.
    Null,
    /// `true` or `false`; `yes`, `no`, `on` and `off` are text.
    Bool(bool),
    /// An integer that fits 64 signed bits.
    Integer(i64),
    /// An integer above the largest signed one.
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

/// The style of a scalar in the file.
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
    /// True if the scalar has quotes.
    #[must_use]
    pub fn is_quoted(self) -> bool {
        matches!(self, Style::SingleQuoted | Style::DoubleQuoted)
    }

    /// True if the scalar is a block scalar.
    #[must_use]
    pub fn is_block(self) -> bool {
        matches!(self, Style::Literal | Style::Folded)
    }
}

/// A text with its style and the source position of each of its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The text, with escapes and folding resolved.
    pub value: String,
    /// The style in the file.
    pub style: Style,
    pub(super) source_map: SourceMap,
}

impl Text {
    /// The file offset of the byte at an offset of the value.
    ///
    /// Exact for plain, quoted and literal texts; in a folded text exact except for folded white space. An offset past the
    /// end maps to the end.
    #[must_use]
    pub fn locate(&self, offset: usize) -> usize {
        self.source_map.locate(offset.min(self.value.len()))
    }

    /// The span in the file of a range of the value.
    #[must_use]
    pub fn locate_span(&self, start: usize, end: usize) -> Span {
        // The end is one past its last byte, because the next byte may be on another line.
        let file_start = self.locate(start);
        let file_end = if end > start { self.locate(end - 1) + 1 } else { file_start };
        Span::new(file_start, file_end)
    }
}

/// A mapping, in document order. Keys are unique.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Map {
    /// The entries, in document order.
    pub entries: Vec<Entry>,
}

/// A key with its span, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The span of the key, quotes included.
    pub key_span: Span,
    /// Its value.
    pub value: Node,
}

impl Map {
    /// The value of `key`; `None` if the mapping does not have it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of `key`; `None` if the mapping does not have it.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries in document order.
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
    /// True if the node is `null`, `~` or empty.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// The text; `None` if the node is not a text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.as_text().map(|text| text.value.as_str())
    }

    /// The text with its style and positions; `None` if the node is not a text.
    #[must_use]
    pub fn as_text(&self) -> Option<&Text> {
        if let Kind::String(text) = &self.kind { Some(text) } else { None }
    }

    /// The boolean; `None` if the node is not one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Kind::Bool(value) = self.kind { Some(value) } else { None }
    }

    /// The integer; `None` if the node is not an integer of 64 signed bits.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        if let Kind::Integer(value) = self.kind { Some(value) } else { None }
    }

    /// The items; `None` if the node is not a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Node]> {
        if let Kind::List(items) = &self.kind { Some(items) } else { None }
    }

    /// The mapping; `None` if the node is not one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        if let Kind::Map(map) = &self.kind { Some(map) } else { None }
    }

    /// The value of a key; `None` if the node is not a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// The span to underline for a problem of the whole node: the first key of a mapping, the first item of a list, else all of
    /// it.
    #[must_use]
    pub fn head(&self) -> Span {
        match &self.kind {
            Kind::Map(map) => map.entries.first().map_or(self.span, |entry| entry.key_span),
            Kind::List(items) => items.first().map_or(self.span, Node::head),
            _ => self.span,
        }
    }

    /// The file offset of the byte at an offset of a text (see [`Text::locate`]); the start of any other node.
    #[must_use]
    pub fn locate(&self, offset: usize) -> usize {
        self.as_text().map_or(self.span.start as usize, |text| text.locate(offset))
    }

    /// The span in the file of a range of a text (see [`Text::locate_span`]); the span of any other node.
    #[must_use]
    pub fn locate_span(&self, start: usize, end: usize) -> Span {
        self.as_text().map_or(self.span, |text| text.locate_span(start, end))
    }

    /// The type of the value for a message: "text", "a number", "a list", "a mapping", "nothing", "`true`".
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

    /// Converts the tree to JSON, mappings in document order.
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
