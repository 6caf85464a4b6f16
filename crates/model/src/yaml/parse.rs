//! From a file's text to its tree, within budgets.

use super::explain::{self, Context};
use super::locate::Placement;
use super::scalar::{self, Refused};
use super::{Entry, Kind, Map, Node, Style, Text};
use crate::diagnostic::{Diagnostic, Diagnostics, Report, Source, Span};
use crate::units::format_size;
use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// How much one file may ask for. What exceeds it is refused with a place, in time linear in the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Length of the file, of all text that aliases copy, and of that below anchors, in bytes each.
    pub bytes: usize,
    /// Lists and mappings inside one another.
    pub depth: usize,
    /// Keys and values, those that aliases copy included; as many again may stand below anchors, counted once for each
    /// anchor that they stand below.
    pub nodes: usize,
    /// Uses of aliases.
    pub aliases: usize,
}

impl Default for Budget {
    /// 256 KiB, 32 levels, 20,000 nodes, 100 aliases.
    fn default() -> Self {
        Budget { bytes: 256 * 1024, depth: 32, nodes: 20_000, aliases: 100 }
    }
}

/// Reads the collector's file within the default [`Budget`].
///
/// Problems go to the collector. Nothing is returned when there is no tree to speak of; a tree that is returned may
/// still have problems (the first of two equal keys is kept), so ask the report before using what was read from it.
/// An empty file is a null.
#[must_use]
pub fn parse(diagnostics: &Diagnostics) -> Option<Node> {
    parse_within(diagnostics, Budget::default())
}

/// [`parse`] for a text in memory: the tree, or what is wrong.
///
/// # Errors
/// The report, when it has errors.
pub fn parse_text(path: &str, text: &str) -> Result<Node, Report> {
    let diagnostics = Diagnostics::new(Source::new(path, text));
    let node = parse(&diagnostics);
    let report = diagnostics.into_report();
    match node {
        Some(node) if !report.has_errors() => Ok(node),
        _ => Err(report),
    }
}

/// [`parse`] within another budget.
#[must_use]
pub fn parse_within(diagnostics: &Diagnostics, budget: Budget) -> Option<Node> {
    let source = diagnostics.source().clone();
    let text = source.text();
    if text.len() > budget.bytes {
        let limit = format_size(budget.bytes as u64);
        let message = format!("this file has more than {limit} ({} bytes), which is the most", budget.bytes);
        let help = "split it, or move long code and data into files of their own";
        diagnostics.push(Diagnostic::error("yaml-too-large", message, Span::at(budget.bytes)).help(help));
        return None;
    }
    // The parser's own limits are one wider than ours, so that ours speak first.
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        flow_nesting_limit: budget.depth + 1,
        block_nesting_limit: budget.depth + 1,
    };
    let mut builder = Builder {
        text,
        diagnostics,
        budget,
        nodes: 0,
        aliases: 0,
        copied: 0,
        kept: (0, 0),
        documents: 0,
        stack: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        context: Context::default(),
    };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, place)) => match builder.event(event, place) {
                Step::On => {}
                Step::Enough => break,
                Step::Lost => return None,
            },
            Err(error) => {
                builder.context.open_flow = builder.open_flow();
                explain::scan_error(diagnostics, text, &error, &builder.context, budget.depth);
                return None;
            }
        }
    }
    Some(builder.root.unwrap_or(Node { kind: Kind::Null, span: Span::at(0) }))
}

enum Step {
    On,
    /// The tree is whole; what follows is not looked at.
    Enough,
    /// There is no tree.
    Lost,
}

struct Builder<'a> {
    text: &'a str,
    diagnostics: &'a Diagnostics,
    budget: Budget,
    nodes: usize,
    aliases: usize,
    copied: usize,
    /// Nodes and bytes below anchors: each anchor keeps a copy, and they stand inside one another.
    kept: (usize, usize),
    documents: usize,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    root: Option<Node>,
    context: Context,
}

/// A collection that is not closed yet.
struct Frame {
    open: Span,
    is_flow: bool,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { map: Map, seen: HashMap<String, Span>, key: Option<Key> },
}

/// A key whose value comes next.
struct Key {
    text: String,
    span: Span,
    /// Whether the entry goes into the map; otherwise the key was refused.
    keep: bool,
}

/// A node that aliases can copy, and what a copy costs.
struct Anchored {
    node: Node,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, place: granit_parser::Span) -> Step {
        let span = place.byte_range().map_or_else(Span::default, Span::from);
        let tag_span = place.tag_span().and_then(|tag| tag.byte_range()).map_or(span, Span::from);
        let step = match event {
            Event::DocumentStart(..) => return self.document(span),
            Event::Scalar(value, style, anchor, tag) => {
                let kind = self.scalar(&value, style, span, tag.map(|tag| (tag, tag_span)));
                self.context.last_scalar = Some(span);
                self.finished(Node { kind, span }, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.collection_tag(tag, "seq", tag_span);
                self.open(span, style, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.collection_tag(tag, "map", tag_span);
                self.open(
                    span,
                    style,
                    anchor,
                    Content::Map { map: Map::default(), seen: HashMap::new(), key: None },
                )
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => self.alias(id, span),
            Event::UnresolvedAlias(_) => {
                self.context.starred =
                    explain::unresolved_alias(self.diagnostics, self.text, span, self.in_flow());
                self.finished(Node { kind: Kind::Null, span }, 0)
            }
            _ => Step::On,
        };
        self.context.last_end = self.context.last_end.max(span.end as usize);
        step
    }

    fn document(&mut self, span: Span) -> Step {
        self.documents += 1;
        if self.documents == 1 {
            return Step::On;
        }
        let help = "write each document into a file of its own";
        let message = "a second document begins here; a file holds one";
        self.diagnostics.push(Diagnostic::error("yaml-documents", message, span).help(help));
        Step::Enough
    }

    /// Counts one more key or value; false when that is too many.
    fn count(&mut self, more: usize, span: Span) -> bool {
        self.nodes += more;
        self.nodes <= self.budget.nodes || {
            let message = format!("there are more than {} keys and values in this file", self.budget.nodes);
            self.too_large(message, span, "split it into several files")
        }
    }

    fn too_large(&self, message: String, span: Span, help: &str) -> bool {
        self.diagnostics.push(Diagnostic::error("yaml-too-large", message, span).help(help));
        false
    }

    fn open(&mut self, open: Span, style: StructureStyle, anchor: usize, content: Content) -> Step {
        if !self.count(1, open) {
            return Step::Lost;
        }
        if self.stack.len() >= self.budget.depth {
            self.diagnostics.push(explain::too_deep(self.budget.depth, open));
            return Step::Lost;
        }
        self.stack.push(Frame { open, is_flow: style == StructureStyle::Flow, anchor, content });
        Step::On
    }

    fn close(&mut self, end: Span) -> Step {
        let Some(frame) = self.stack.pop() else { return Step::Lost };
        let (kind, last) = match frame.content {
            Content::List(items) => {
                let last = items.last().map(|item| item.span);
                (Kind::List(items), last)
            }
            Content::Map { map, .. } => {
                let last = map.entries.last().map(|entry| entry.key_span.cover(entry.value.span));
                (Kind::Map(map), last)
            }
        };
        // The end of a block collection is only seen at the next thing, lines below; it ends with its last value.
        // An alias there stands elsewhere, maybe before.
        let end = if frame.is_flow && !end.is_empty() { end } else { last.unwrap_or(end) };
        let span = Span { start: frame.open.start, end: end.end.max(frame.open.end) };
        self.place(Node { kind, span }, span, frame.anchor)
    }

    /// A scalar or alias: counted, then placed.
    fn finished(&mut self, node: Node, anchor: usize) -> Step {
        if !self.count(1, node.span) {
            return Step::Lost;
        }
        let span = node.span;
        self.place(node, span, anchor)
    }

    /// Puts a whole node where it belongs. `at` is where it is written, which for an alias is not where it stands.
    fn place(&mut self, node: Node, at: Span, anchor: usize) -> Step {
        if anchor != 0 {
            let (nodes, bytes, height) = measure(&node);
            self.kept = (self.kept.0 + nodes, self.kept.1 + bytes);
            if self.kept.0 > self.budget.nodes || self.kept.1 > self.budget.bytes {
                let message = format!(
                    "more than {} keys and values, or {} of text, stand below anchors",
                    self.budget.nodes,
                    format_size(self.budget.bytes as u64)
                );
                self.too_large(message, at, "take anchors away that no alias uses");
                return Step::Lost;
            }
            self.anchors.insert(anchor, Anchored { node: node.clone(), nodes, bytes, height });
        }
        let (diagnostics, text) = (self.diagnostics, self.text);
        match self.stack.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { map, seen, key }) => match key.take() {
                None => *key = Some(read_key(diagnostics, text, &node, at, seen)),
                Some(Key { text, span, keep: true }) => {
                    map.entries.push(Entry { key: text, key_span: span, value: node });
                }
                Some(_) => {}
            },
        }
        Step::On
    }

    fn alias(&mut self, id: usize, span: Span) -> Step {
        self.aliases += 1;
        if self.aliases > self.budget.aliases {
            let message = format!("aliases are used more than {} times in this file", self.budget.aliases);
            self.too_large(message, span, "write the values out");
            return Step::Lost;
        }
        let Some(anchored) = self.anchors.get(&id) else {
            let message = format!("`{}` stands inside the value that it names", self.slice(span));
            let help = "a value cannot contain itself";
            self.diagnostics.push(Diagnostic::error("yaml-alias-loop", message, span).help(help));
            return self.finished(Node { kind: Kind::Null, span }, 0);
        };
        let (nodes, bytes, height) = (anchored.nodes, anchored.bytes, anchored.height);
        if self.stack.len() + height > self.budget.depth {
            self.diagnostics.push(explain::too_deep(self.budget.depth, span));
            return Step::Lost;
        }
        self.copied += bytes;
        if self.copied > self.budget.bytes {
            let message = format!("aliases copy more than {} of text", format_size(self.budget.bytes as u64));
            self.too_large(message, span, "write the values out");
            return Step::Lost;
        }
        if !self.count(nodes, span) {
            return Step::Lost;
        }
        match self.anchors.get(&id).map(|anchored| anchored.node.clone()) {
            Some(node) => self.place(node, span, 0),
            None => Step::Lost,
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
        // The parser writes `~` for a value that is not there.
        let value = if span.is_empty() && style == Style::Plain { "" } else { value };
        // It also ends a block scalar with a line break where the file ends without one; there is none to keep (8.1.1.2).
        let in_last_line = || self.text.rsplit('\n').next().is_some_and(|line| !line.trim().is_empty());
        let cut = style.is_block() && span.range().end >= self.text.len() && in_last_line();
        let value = if cut { value.strip_suffix('\n').unwrap_or(value) } else { value };
        let text = || {
            let placement = Placement::of(value, self.text, span, style);
            Kind::String(Text { value: value.to_owned(), style, placement })
        };
        let Some((tag, tag_span)) = tag else {
            return if style == Style::Plain { self.plain(value, span).unwrap_or_else(text) } else { text() };
        };
        let wanted = tag.core_suffix();
        let kind = match wanted {
            Some("str") => return text(),
            Some("int" | "float" | "bool" | "null") => self.plain(value, span).unwrap_or_else(text),
            _ => text(),
        };
        match (wanted, kind) {
            (Some("int"), kind @ (Kind::Integer(_) | Kind::Unsigned(_)))
            | (Some("float"), kind @ Kind::Float(_))
            | (Some("bool"), kind @ Kind::Bool(_))
            | (Some("null"), kind @ Kind::Null) => kind,
            #[expect(clippy::cast_precision_loss, reason = "the author asked for a float")]
            (Some("float"), Kind::Integer(value)) => Kind::Float(value as f64),
            (_, kind) => {
                self.diagnostics.push(explain::tag(self.slice(tag_span), wanted, self.slice(span), tag_span));
                kind
            }
        }
    }

    /// The value of an unquoted scalar, unless it is text.
    fn plain(&self, value: &str, span: Span) -> Option<Kind> {
        match scalar::resolve(value) {
            Ok(kind) => kind,
            Err(refused) => {
                let why = match refused {
                    Refused::TooLarge => "is too large for a number of 64 bits",
                    Refused::NotFinite => "is a number that JSON cannot hold",
                };
                self.diagnostics.push(
                    Diagnostic::error("yaml-number", format!("`{}` {why}", explain::shorten(value)), span)
                        .help("quote it to make it text")
                        .replace(span, explain::quoted(value)),
                );
                None
            }
        }
    }

    fn collection_tag(&self, tag: Option<Cow<'_, Tag>>, own: &str, span: Span) {
        if let Some(tag) = tag.filter(|tag| tag.core_suffix() != Some(own)) {
            self.diagnostics.push(explain::tag(self.slice(span), tag.core_suffix(), "this", span));
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

/// Nodes, bytes of text and levels of a tree.
fn measure(node: &Node) -> (usize, usize, usize) {
    let inside: Vec<(usize, usize, usize)> = match &node.kind {
        Kind::String(text) => return (1, text.value.len(), 0),
        Kind::List(items) => items.iter().map(measure).collect(),
        Kind::Map(map) => {
            let entry = |entry: &Entry| {
                let (nodes, bytes, height) = measure(&entry.value);
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

/// Keys are text, and each is written once.
fn read_key(
    diagnostics: &Diagnostics,
    text: &str,
    node: &Node,
    at: Span,
    seen: &mut HashMap<String, Span>,
) -> Key {
    let written = text.get(at.range()).unwrap_or_default();
    let refuse = |diagnostic| {
        diagnostics.push(diagnostic);
        Key { text: String::new(), span: at, keep: false }
    };
    let key = match &node.kind {
        Kind::String(key) if key.value == "<<" && key.style == Style::Plain => {
            return refuse(explain::merge_key(at));
        }
        Kind::String(key) => key.value.clone(),
        Kind::Null if written.is_empty() => {
            return refuse(
                Diagnostic::error("yaml-key", "there is no key before this `:`", at)
                    .help("write a name before it"),
            );
        }
        Kind::List(_) | Kind::Map(_) => return refuse(explain::collection_key(text, node, at)),
        _ => {
            diagnostics.push(
                Diagnostic::error("yaml-key", format!("a key must be text, found {}", node.kind_name()), at)
                    .help("quote it")
                    .replace(at, explain::quoted(written)),
            );
            written.to_owned()
        }
    };
    if let Some(first) = seen.get(&key) {
        let line = diagnostics.source().place(first.start as usize).line;
        return refuse(
            Diagnostic::error(
                "yaml-duplicate-key",
                format!("the key `{}` is written twice", explain::shorten(&key)),
                at,
            )
            .label("again here")
            .related(*first, "first here")
            .help(format!("the first is on line {line}; keep one of them")),
        );
    }
    seen.insert(key.clone(), at);
    Key { text: key, span: at, keep: true }
}
