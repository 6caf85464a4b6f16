//! Builds the tree of a file from parser events, within limits.

use super::error_messages::{self, ScanContext};
use super::scalar::{self, NumberError};
use super::source_map::SourceMap;
use super::{Entry, Kind, Map, Node, Style, Text};
use crate::diagnostic::{Diagnostic, Diagnostics, Report, Source, Span};
use crate::units::format_size;
use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// Limits for one file. A file over a limit is rejected with a span, in time linear in the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Length in bytes, applied separately to the file, to all text that aliases copy, and to all text below anchors.
    pub bytes: usize,
    /// Nesting of lists and mappings.
    pub depth: usize,
    /// Keys and values, copies by aliases included. The same limit applies separately to nodes below anchors, which count
    /// once for each enclosing anchor.
    pub nodes: usize,
    /// Number of aliases.
    pub aliases: usize,
}

impl Default for ParseLimits {
    /// 256 KiB, 32 levels, 20,000 nodes, 100 aliases.
    fn default() -> Self {
        ParseLimits { bytes: 256 * 1024, depth: 32, nodes: 20_000, aliases: 100 }
    }
}

/// Parses the file of `diagnostics` within the default [`ParseLimits`].
///
/// Reports problems to `diagnostics`. Returns `None` if there is no tree. A returned tree may still have problems (the first of
/// two equal keys is anchored), so check the report before using it. An empty file is a null.
#[must_use]
pub fn parse(diagnostics: &Diagnostics) -> Option<Node> {
    parse_with_limits(diagnostics, ParseLimits::default())
}

/// Parses a text in memory with [`parse`].
///
/// # Errors
/// Returns the report if it has errors.
pub fn parse_text(path: &str, text: &str) -> Result<Node, Report> {
    let diagnostics = Diagnostics::new(Source::new(path, text));
    let node = parse(&diagnostics);
    let report = diagnostics.into_report();
    match node {
        Some(node) if !report.has_errors() => Ok(node),
        _ => Err(report),
    }
}

/// [`parse`] with other limits.
#[must_use]
pub fn parse_with_limits(diagnostics: &Diagnostics, limits: ParseLimits) -> Option<Node> {
    let source = diagnostics.source().clone();
    let text = source.text();
    if text.len() > limits.bytes {
        let limit = format_size(limits.bytes as u64);
        let message =
            format!("this file has {} bytes, the limit is {limit} ({} bytes)", text.len(), limits.bytes);
        let help = "split it, or move long code and data into files of their own";
        diagnostics.push(Diagnostic::error("yaml-too-large", message, Span::at(limits.bytes)).help(help));
        return None;
    }
    // The parser's own limits are one wider, so that the messages of this module apply.
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        flow_nesting_limit: limits.depth + 1,
        block_nesting_limit: limits.depth + 1,
    };
    let mut builder = TreeBuilder {
        text,
        diagnostics,
        limits,
        nodes: 0,
        aliases: 0,
        alias_bytes: 0,
        anchored: (0, 0),
        documents: 0,
        stack: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        context: ScanContext::default(),
    };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => match builder.on_event(event, span) {
                Progress::Continue => {}
                Progress::Done => break,
                Progress::Abort => return None,
            },
            Err(error) => {
                builder.context.open_flow = builder.open_flow();
                error_messages::scan_error(diagnostics, text, &error, &builder.context, limits.depth);
                return None;
            }
        }
    }
    Some(builder.root.unwrap_or(Node { kind: Kind::Null, span: Span::at(0) }))
}

enum Progress {
    Continue,
    /// The tree is complete; ignore all further events.
    Done,
    /// There is no tree.
    Abort,
}

struct TreeBuilder<'a> {
    text: &'a str,
    diagnostics: &'a Diagnostics,
    limits: ParseLimits,
    nodes: usize,
    aliases: usize,
    alias_bytes: usize,
    /// Nodes and bytes below anchors. Each anchor stores a copy, and anchors nest.
    anchored: (usize, usize),
    documents: usize,
    stack: Vec<Frame>,
    anchors: HashMap<usize, AnchoredNode>,
    root: Option<Node>,
    context: ScanContext,
}

/// An open collection.
struct Frame {
    open: Span,
    is_flow: bool,
    anchor: usize,
    children: Children,
}

enum Children {
    List(Vec<Node>),
    Map { map: Map, key_spans: HashMap<String, Span>, key: Option<Key> },
}

/// A key that waits for its value.
struct Key {
    text: String,
    span: Span,
    /// True if the entry goes into the map; false if the key was rejected.
    is_valid: bool,
}

/// An anchored node that aliases copy, with the cost of a copy.
struct AnchoredNode {
    node: Node,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl TreeBuilder<'_> {
    fn on_event(&mut self, event: Event<'_>, location: granit_parser::Span) -> Progress {
        let span = location.byte_range().map_or_else(Span::default, Span::from);
        let tag_span = location.tag_span().and_then(|tag| tag.byte_range()).map_or(span, Span::from);
        let progress = match event {
            Event::DocumentStart(..) => return self.start_document(span),
            Event::Scalar(value, style, anchor, tag) => {
                let kind = self.scalar(&value, style, span, tag.map(|tag| (tag, tag_span)));
                self.context.last_scalar = Some(span);
                self.add_leaf(Node { kind, span }, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.collection_tag(tag, "seq", tag_span);
                self.open(span, style, anchor, Children::List(Vec::new()))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.collection_tag(tag, "map", tag_span);
                self.open(
                    span,
                    style,
                    anchor,
                    Children::Map { map: Map::default(), key_spans: HashMap::new(), key: None },
                )
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => self.alias(id, span),
            Event::UnresolvedAlias(_) => {
                self.context.unquoted_star =
                    error_messages::unresolved_alias(self.diagnostics, self.text, span, self.in_flow());
                self.add_leaf(Node { kind: Kind::Null, span }, 0)
            }
            _ => Progress::Continue,
        };
        self.context.last_end = self.context.last_end.max(span.end as usize);
        progress
    }

    fn start_document(&mut self, span: Span) -> Progress {
        self.documents += 1;
        if self.documents == 1 {
            return Progress::Continue;
        }
        let help = "write each document into a file of its own";
        let message = "a second document begins here; a file holds one";
        self.diagnostics.push(Diagnostic::error("yaml-documents", message, span).help(help));
        Progress::Done
    }

    /// Counts `more` keys or values. Returns false if there are too many.
    fn count(&mut self, more: usize, span: Span) -> bool {
        self.nodes += more;
        self.nodes <= self.limits.nodes || {
            let message = format!("there are more than {} keys and values in this file", self.limits.nodes);
            self.too_large(message, span, "split it into several files")
        }
    }

    fn too_large(&self, message: String, span: Span, help: &str) -> bool {
        self.diagnostics.push(Diagnostic::error("yaml-too-large", message, span).help(help));
        false
    }

    fn open(&mut self, open: Span, style: StructureStyle, anchor: usize, children: Children) -> Progress {
        if !self.count(1, open) {
            return Progress::Abort;
        }
        if self.stack.len() >= self.limits.depth {
            self.diagnostics.push(error_messages::too_deep(self.limits.depth, open));
            return Progress::Abort;
        }
        self.stack.push(Frame { open, is_flow: style == StructureStyle::Flow, anchor, children });
        Progress::Continue
    }

    fn close(&mut self, end: Span) -> Progress {
        let Some(frame) = self.stack.pop() else { return Progress::Abort };
        let (kind, last) = match frame.children {
            Children::List(items) => {
                let last = items.last().map(|item| item.span);
                (Kind::List(items), last)
            }
            Children::Map { map, .. } => {
                let last = map.entries.last().map(|entry| entry.key_span.cover(entry.value.span));
                (Kind::Map(map), last)
            }
        };
        // The parser reports the end of a block collection only at the next token, lines below; end it with its last value. An
        // alias there may have a span before the collection.
        let end = if frame.is_flow && !end.is_empty() { end } else { last.unwrap_or(end) };
        let span = Span { start: frame.open.start, end: end.end.max(frame.open.end) };
        self.attach(Node { kind, span }, span, frame.anchor)
    }

    /// Adds a scalar or an alias.
    fn add_leaf(&mut self, node: Node, anchor: usize) -> Progress {
        if !self.count(1, node.span) {
            return Progress::Abort;
        }
        let span = node.span;
        self.attach(node, span, anchor)
    }

    /// Adds a complete node to its parent. `at` is its span in the file, which for an alias differs from the node's span.
    fn attach(&mut self, node: Node, at: Span, anchor: usize) -> Progress {
        if anchor != 0 {
            let (nodes, bytes, height) = tree_size(&node);
            self.anchored = (self.anchored.0 + nodes, self.anchored.1 + bytes);
            if self.anchored.0 > self.limits.nodes || self.anchored.1 > self.limits.bytes {
                let message = format!(
                    "more than {} keys and values, or {} of text, stand below anchors",
                    self.limits.nodes,
                    format_size(self.limits.bytes as u64)
                );
                self.too_large(message, at, "take anchors away that no alias uses");
                return Progress::Abort;
            }
            self.anchors.insert(anchor, AnchoredNode { node: node.clone(), nodes, bytes, height });
        }
        let (diagnostics, text) = (self.diagnostics, self.text);
        match self.stack.last_mut().map(|frame| &mut frame.children) {
            None => self.root = Some(node),
            Some(Children::List(items)) => items.push(node),
            Some(Children::Map { map, key_spans, key }) => match key.take() {
                None => *key = Some(read_key(diagnostics, text, &node, at, key_spans)),
                Some(Key { text, span, is_valid: true }) => {
                    map.entries.push(Entry { key: text, key_span: span, value: node });
                }
                Some(_) => {}
            },
        }
        Progress::Continue
    }

    fn alias(&mut self, id: usize, span: Span) -> Progress {
        self.aliases += 1;
        if self.aliases > self.limits.aliases {
            let message = format!("aliases are used more than {} times in this file", self.limits.aliases);
            self.too_large(message, span, "write the values out");
            return Progress::Abort;
        }
        let Some(anchored) = self.anchors.get(&id) else {
            let message = format!("`{}` is inside the value that it names", self.slice(span));
            let help = "a value cannot contain itself";
            self.diagnostics.push(Diagnostic::error("yaml-alias-loop", message, span).help(help));
            return self.add_leaf(Node { kind: Kind::Null, span }, 0);
        };
        let (nodes, bytes, height) = (anchored.nodes, anchored.bytes, anchored.height);
        if self.stack.len() + height > self.limits.depth {
            self.diagnostics.push(error_messages::too_deep(self.limits.depth, span));
            return Progress::Abort;
        }
        self.alias_bytes += bytes;
        if self.alias_bytes > self.limits.bytes {
            let message = format!("aliases copy more than {} of text", format_size(self.limits.bytes as u64));
            self.too_large(message, span, "write the values out");
            return Progress::Abort;
        }
        if !self.count(nodes, span) {
            return Progress::Abort;
        }
        match self.anchors.get(&id).map(|anchored| anchored.node.clone()) {
            Some(node) => self.attach(node, span, 0),
            None => Progress::Abort,
        }
    }

    fn scalar(&self, value: &str, style: ScalarStyle, span: Span, tag: Option<(Cow<'_, Tag>, Span)>) -> Kind {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::SingleQuoted,
            ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        // The parser returns `~` for a missing value.
        let value = if span.is_empty() && style == Style::Plain { "" } else { value };
        // It also appends a line break to a block scalar that the end of the file ends; YAML 1.2 has none there (8.1.1.2).
        let in_last_line = || self.text.rsplit('\n').next().is_some_and(|line| !line.trim().is_empty());
        let cut = style.is_block() && span.range().end >= self.text.len() && in_last_line();
        let value = if cut { value.strip_suffix('\n').unwrap_or(value) } else { value };
        let text = || {
            let source_map = SourceMap::align(value, self.text, span, style);
            Kind::String(Text { value: value.to_owned(), style, source_map })
        };
        let Some((tag, tag_span)) = tag else {
            return if style == Style::Plain { self.plain(value, span).unwrap_or_else(text) } else { text() };
        };
        let core_tag = tag.core_suffix();
        let kind = match core_tag {
            Some("str") => return text(),
            Some("int" | "float" | "bool" | "null") => self.plain(value, span).unwrap_or_else(text),
            _ => text(),
        };
        match (core_tag, kind) {
            (Some("int"), kind @ (Kind::Integer(_) | Kind::Unsigned(_)))
            | (Some("float"), kind @ Kind::Float(_))
            | (Some("bool"), kind @ Kind::Bool(_))
            | (Some("null"), kind @ Kind::Null) => kind,
            #[expect(clippy::cast_precision_loss, reason = "the author asked for a float")]
            (Some("float"), Kind::Integer(value)) => Kind::Float(value as f64),
            (_, kind) => {
                self.diagnostics.push(error_messages::invalid_tag(
                    self.slice(tag_span),
                    core_tag,
                    self.slice(span),
                    tag_span,
                ));
                kind
            }
        }
    }

    /// Resolves a plain scalar; `None` if it is text.
    fn plain(&self, value: &str, span: Span) -> Option<Kind> {
        match scalar::resolve(value) {
            Ok(kind) => kind,
            Err(error) => {
                let reason = match error {
                    NumberError::TooLarge => "is too large for a number of 64 bits",
                    NumberError::NotFinite => "is a number that JSON cannot hold",
                };
                self.diagnostics.push(
                    Diagnostic::error(
                        "yaml-number",
                        format!("`{}` {reason}", error_messages::shorten(value)),
                        span,
                    )
                    .help("quote it to make it text")
                    .replace(span, error_messages::quote(value)),
                );
                None
            }
        }
    }

    fn collection_tag(&self, tag: Option<Cow<'_, Tag>>, own: &str, span: Span) {
        if let Some(tag) = tag.filter(|tag| tag.core_suffix() != Some(own)) {
            self.diagnostics.push(error_messages::invalid_tag(
                self.slice(span),
                tag.core_suffix(),
                "this",
                span,
            ));
        }
    }

    fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or_default()
    }

    fn in_flow(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.is_flow)
    }

    fn open_flow(&self) -> Option<Span> {
        self.stack.iter().rev().find(|frame| frame.is_flow && !frame.open.is_empty()).map(|frame| frame.open)
    }
}

/// The number of nodes, bytes of text and levels of a tree.
fn tree_size(node: &Node) -> (usize, usize, usize) {
    let inside: Vec<(usize, usize, usize)> = match &node.kind {
        Kind::String(text) => return (1, text.value.len(), 0),
        Kind::List(items) => items.iter().map(tree_size).collect(),
        Kind::Map(map) => {
            let entry = |entry: &Entry| {
                let (nodes, bytes, height) = tree_size(&entry.value);
                (nodes + 1, bytes + entry.key.len(), height)
            };
            map.iter().map(entry).collect()
        }
        _ => return (1, 0, 0),
    };
    let sum = |total: (usize, usize, usize), one: (usize, usize, usize)| {
        (total.0 + one.0, total.1 + one.1, total.2.max(one.2 + 1))
    };
    inside.into_iter().fold((1, 0, 1), sum)
}

/// Checks that a key is text and unique, and reports a problem.
fn read_key(
    diagnostics: &Diagnostics,
    text: &str,
    node: &Node,
    at: Span,
    key_spans: &mut HashMap<String, Span>,
) -> Key {
    let source = text.get(at.range()).unwrap_or_default();
    let refuse = |diagnostic| {
        diagnostics.push(diagnostic);
        Key { text: String::new(), span: at, is_valid: false }
    };
    let key = match &node.kind {
        Kind::String(key) if key.value == "<<" && key.style == Style::Plain => {
            return refuse(error_messages::merge_key(at));
        }
        Kind::String(key) => key.value.clone(),
        Kind::Null if source.is_empty() => {
            return refuse(
                Diagnostic::error("yaml-key", "there is no key before this `:`", at)
                    .help("write a name before it"),
            );
        }
        Kind::List(_) | Kind::Map(_) => return refuse(error_messages::collection_key(text, node, at)),
        _ => {
            diagnostics.push(
                Diagnostic::error("yaml-key", format!("a key must be text, found {}", node.kind_name()), at)
                    .help("quote it")
                    .replace(at, error_messages::quote(source)),
            );
            source.to_owned()
        }
    };
    if let Some(first) = key_spans.get(&key) {
        let line = diagnostics.source().position(first.start as usize).line;
        return refuse(
            Diagnostic::error(
                "yaml-duplicate-key",
                format!("the key `{}` is written twice", error_messages::shorten(&key)),
                at,
            )
            .label("again here")
            .related(*first, "first here")
            .help(format!("the first is on line {line}; keep one of them")),
        );
    }
    key_spans.insert(key.clone(), at);
    Key { text: key, span: at, is_valid: true }
}
