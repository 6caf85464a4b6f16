//! A parsed text with the places of its nodes: where a value begins and ends, on which line, in which style.

use super::comments;
use super::render::Format;
use super::{Change, EditError, Segment, TreeOperation};
use crate::diagnostic::Span;
use crate::yaml::{Entry, Kind, Map, Node, parse_text};

/// A text and its tree.
pub(super) struct Document {
    pub(super) text: String,
    pub(super) tree: Node,
    /// The comments, in order.
    pub(super) comments: Vec<Span>,
    pub(super) format: Format,
}

/// The place of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    /// The offset after the `:`, `-`, `,` or bracket that leads to the value.
    pub(super) lead: usize,
    /// The first byte of the value, after an anchor and a tag; for a block scalar its `|` or `>`.
    pub(super) start: usize,
    /// The offset after the last byte.
    pub(super) end: usize,
    pub(super) is_alias: bool,
}

/// A node that an operation names.
pub(super) struct Located<'t> {
    pub(super) node: &'t Node,
    pub(super) site: Site,
    /// True if the node is inside brackets.
    pub(super) in_flow: bool,
    /// The column from which the lines of a block value are indented: that of its key or dash; `None` for the root.
    pub(super) column: Option<usize>,
    /// True if the node is an item of a block list.
    pub(super) is_item: bool,
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, EditError> {
        let tree = parse_text("", text).map_err(|report| {
            let first = report.entries().into_iter().next();
            let place =
                first.map_or_else(String::new, |entry| format!(" (line {}: {})", entry.line, entry.message));
            EditError::in_place(format!("the text is not valid YAML{place}"))
        })?;
        let comments = comments::find(text, &tree);
        let format = Format::detect(text, &tree);
        Ok(Self { text: text.to_owned(), tree, comments, format })
    }

    /// The changes of one elementary operation, ascending and disjoint.
    pub(super) fn changes(&self, operation: &TreeOperation) -> Result<Vec<Change>, EditError> {
        match operation {
            TreeOperation::Set { at, value, position } => self.set(at, value, position),
            TreeOperation::Remove { at } => self.remove(at),
            TreeOperation::Insert { at, value } => self.insert(at, value),
            TreeOperation::Move { from, to } => self.move_item(from, to),
            TreeOperation::Splice { at, parts } => self.splice(at, parts),
            TreeOperation::RenameKey { at, to } => self.rename_key(at, to),
        }
    }

    fn rename_key(&self, at: &[Segment], to: &str) -> Result<Vec<Change>, EditError> {
        let Some((Segment::Key(key), parents)) = at.split_last() else { return Err(not_found(at)) };
        let parent = self.locate(parents)?;
        if parent.site.is_alias {
            return Err(EditError::in_place("the value is an alias of another one"));
        }
        let entry = parent.node.as_map().and_then(|map| map.entry(key)).ok_or_else(|| not_found(at))?;
        let Span { start, end } = entry.key_span;
        // The quotes stay.
        let quoted = self.text[entry.key_span.range()].starts_with(['"', '\'']);
        let inner = if quoted { Span { start: start + 1, end: end - 1 } } else { entry.key_span };
        if self.text.get(inner.range()) != Some(key.as_str()) {
            return Err(EditError::in_place("this key is written with escapes"));
        }
        Ok(vec![Change { span: inner, insert: to.to_owned() }])
    }

    fn splice(
        &self,
        at: &[Segment],
        parts: &[(std::ops::Range<usize>, String)],
    ) -> Result<Vec<Change>, EditError> {
        let located = self.locate(at)?;
        let text = located.node.as_text().ok_or_else(|| not_found(at))?;
        let change = |(range, insert): &(std::ops::Range<usize>, String)| {
            let span = text.locate_span(range.start, range.end);
            let is_same = self.text.get(span.range()) == text.value.get(range.clone());
            let change = Change { span, insert: insert.clone() };
            is_same.then_some(change).ok_or_else(|| EditError::in_place("this text is written with escapes"))
        };
        parts.iter().map(change).collect()
    }

    pub(super) fn comment_texts(&self) -> Vec<String> {
        self.comments.iter().map(|span| self.text[span.range()].trim_end().to_owned()).collect()
    }

    /// The comments that begin within a range.
    pub(super) fn comments_in(&self, from: usize, to: usize) -> impl Iterator<Item = Span> + '_ {
        self.comments.iter().copied().filter(move |span| (from..to).contains(&(span.start as usize)))
    }

    pub(super) fn has_alias(&self) -> bool {
        // A key or value that is not written out has a span before its own place.
        fn walk(document: &Document, node: &Node, start: usize) -> bool {
            match &node.kind {
                Kind::Map(map) => map.iter().any(|entry| {
                    let site = document.entry_site(entry);
                    site.is_some_and(|site| site.is_alias || walk(document, &entry.value, site.start))
                }),
                Kind::List(items) => {
                    let sites = document.item_sites(items, start);
                    items
                        .iter()
                        .zip(sites)
                        .any(|(item, site)| site.is_alias || walk(document, item, site.start))
                }
                _ => false,
            }
        }
        walk(self, &self.tree, self.root_site().start)
    }

    /// The node at a path.
    pub(super) fn locate(&self, at: &[Segment]) -> Result<Located<'_>, EditError> {
        let mut located = Located {
            node: &self.tree,
            site: self.root_site(),
            in_flow: false,
            column: None,
            is_item: false,
        };
        for (depth, segment) in at.iter().enumerate() {
            let path = &at[..=depth];
            if located.site.is_alias {
                return Err(EditError::in_place("the value is an alias of another one"));
            }
            let in_flow = located.in_flow || self.is_flow(&located.site);
            located = match (&located.node.kind, segment) {
                (Kind::Map(map), Segment::Key(key)) => {
                    let entry = map.entry(key).ok_or_else(|| not_found(path))?;
                    let site = self
                        .entry_site(entry)
                        .ok_or_else(|| EditError::in_place("its key is written in the long form"))?;
                    let column = Some(self.column(entry.key_span.start as usize));
                    Located { node: &entry.value, site, in_flow, column, is_item: false }
                }
                (Kind::List(items), Segment::Index(index)) => {
                    let node = items.get(*index).ok_or_else(|| not_found(path))?;
                    let site = self.item_sites(items, located.site.start)[*index];
                    let column = (!in_flow).then(|| self.column(site.lead - 1));
                    Located { node, site, in_flow, column, is_item: !in_flow }
                }
                _ => return Err(not_found(path)),
            };
        }
        Ok(located)
    }

    fn root_site(&self) -> Site {
        let start = if self.tree.is_null() && self.tree.span.is_empty() {
            self.text.len()
        } else {
            // The root begins at its first key, item or byte.
            self.tree.span.start as usize
        };
        Site { lead: start, start, end: self.end_of(&self.tree, start), is_alias: false }
    }

    /// The place of the value of an entry; `None` if no `:` follows the key.
    pub(super) fn entry_site(&self, entry: &Entry) -> Option<Site> {
        let colon = self.skip_blank(entry.key_span.end as usize);
        (self.byte(colon) == Some(b':')).then(|| self.value_site(colon + 1, &entry.value))
    }

    /// The end of an entry: of its value, or of a key without one.
    pub(super) fn entry_end(&self, entry: &Entry) -> usize {
        self.entry_site(entry).map_or(entry.key_span.end as usize, |site| site.end)
    }

    /// The places of the items of a list that begins at `start`.
    pub(super) fn item_sites(&self, items: &[Node], start: usize) -> Vec<Site> {
        let mut lead = (start + 1).min(self.text.len());
        let mut sites: Vec<Site> = Vec::with_capacity(items.len());
        for item in items {
            let site = self.value_site(lead, item);
            sites.push(site);
            // The next dash or comma.
            lead = (self.skip_blank(site.end) + 1).min(self.text.len());
        }
        sites
    }

    fn value_site(&self, lead: usize, node: &Node) -> Site {
        let is_empty = node.is_null() && node.span.is_empty();
        let mut at = lead;
        let mut end_of_properties = lead;
        loop {
            let next = if is_empty { self.skip_spaces(at) } else { self.skip_blank(at) };
            match self.byte(next) {
                Some(b'*') => {
                    return Site { lead, start: next, end: self.word_end(next), is_alias: true };
                }
                Some(b'&' | b'!') => {
                    at = self.word_end(next);
                    end_of_properties = at;
                }
                _ if is_empty => {
                    return Site { lead, start: end_of_properties, end: end_of_properties, is_alias: false };
                }
                _ => return Site { lead, start: next, end: self.end_of(node, next), is_alias: false },
            }
        }
    }

    fn end_of(&self, node: &Node, start: usize) -> usize {
        let is_flow = matches!(self.byte(start), Some(b'{' | b'['));
        match &node.kind {
            Kind::Map(Map { entries }) if !is_flow => {
                entries.last().map_or(start, |entry| self.entry_end(entry))
            }
            Kind::List(items) if !is_flow => {
                self.item_sites(items, start).last().map_or(start, |site| site.end)
            }
            Kind::String(text) if text.style.is_block() => {
                // The parser may end it at the next token, behind the indentation of its line.
                let end = (node.span.end as usize).max(self.line_end(start));
                let line = self.line_start(end);
                if self.begins_line(end) && line > start { line } else { end }
            }
            _ => (node.span.end as usize).max(start),
        }
    }

    /// True if a value is written in brackets.
    pub(super) fn is_flow(&self, site: &Site) -> bool {
        matches!(self.byte(site.start), Some(b'{' | b'['))
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The column of an offset in bytes, from 0.
    pub(super) fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }

    pub(super) fn line_start(&self, at: usize) -> usize {
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let mark = if start == 0 && self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        (start + mark).min(at)
    }

    /// The end of the line of an offset, without the line break.
    pub(super) fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        if end > at && self.byte(end - 1) == Some(b'\r') { end - 1 } else { end }
    }

    /// The start of the line after the last byte before `end`.
    pub(super) fn next_line(&self, end: usize) -> usize {
        if end > 0 && self.byte(end - 1) == Some(b'\n') {
            return end;
        }
        self.text[end..].find('\n').map_or(self.text.len(), |newline| end + newline + 1)
    }

    /// True if only spaces precede an offset on its line.
    pub(super) fn begins_line(&self, at: usize) -> bool {
        self.text[self.line_start(at)..at].bytes().all(|byte| byte == b' ')
    }

    fn skip_spaces(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        at + rest.len() - rest.trim_start_matches([' ', '\t']).len()
    }

    /// Skips white space and comments.
    pub(super) fn skip_blank(&self, mut at: usize) -> usize {
        loop {
            let rest = &self.text[at..];
            at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            if self.byte(at) != Some(b'#') || !comments::may_begin(&self.text, at) {
                return at;
            }
            at = self.line_end(at);
        }
    }

    /// The end of an anchor, a tag or an alias.
    fn word_end(&self, at: usize) -> usize {
        let end = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}');
        self.text[at..].find(end).map_or(self.text.len(), |length| at + length)
    }
}

pub(super) fn not_found(at: &[Segment]) -> EditError {
    EditError::Invalid(format!("there is nothing at `{}`", path_text(at)))
}

/// A path for people: `steps[3].with.title`.
pub(super) fn path_text(at: &[Segment]) -> String {
    let mut text = String::new();
    for segment in at {
        match segment {
            Segment::Key(key) if text.is_empty() => text.push_str(key),
            Segment::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}
