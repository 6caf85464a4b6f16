//! Inserts and removes items and entries in brackets.

use serde_json::Value;

use super::document::{Document, Located};
use super::render;
use super::{Change, EditError, Position};
use crate::diagnostic::Span;
use crate::yaml::{Kind, Map, Node, Style};

impl Document {
    /// Adds an entry to a mapping in braces; an empty one outside of other brackets is written below its key.
    pub(super) fn add_to_flow(
        &self,
        parent: &Located<'_>,
        map: &Map,
        key: &str,
        value: &Value,
        position: &Position,
    ) -> Result<Vec<Change>, EditError> {
        if self.byte(parent.site.start) != Some(b'{') {
            return Err(EditError::in_place("the mapping has no braces of its own"));
        }
        if map.is_empty() && !parent.in_flow && parent.column.is_some() {
            let whole = [(key.to_owned(), value.clone())].into_iter().collect();
            return Ok(self.replace_empty(parent, &Value::Object(whole)));
        }
        let quotes = self.flow_quotes(parent);
        let entry = format!("{}: {}", render::scalar_text(key, true, quotes), render::flow(value, quotes));
        let spans = self.entry_spans(map);
        let index = match position {
            Position::First => 0,
            Position::After(name) => {
                map.entries.iter().position(|entry| entry.key == *name).map_or(map.len(), |index| index + 1)
            }
            Position::Last => map.len(),
        };
        Ok(vec![insert_between(&spans, index, parent.site.start, &entry)])
    }

    pub(super) fn insert_into_flow(
        &self,
        parent: &Located<'_>,
        items: &[Node],
        index: usize,
        value: &Value,
    ) -> Result<Vec<Change>, EditError> {
        if self.byte(parent.site.start) != Some(b'[') {
            return Err(EditError::in_place("the list has no brackets of its own"));
        }
        let sites = self.item_sites(items, parent.site.start);
        let spans: Vec<Span> = sites.iter().map(|site| Span::new(site.start, site.end)).collect();
        let item = render::flow(value, self.flow_quotes(parent));
        Ok(vec![insert_between(&spans, index, parent.site.start, &item)])
    }

    /// Fills an empty list outside of brackets.
    pub(super) fn replace_empty_list(
        &self,
        parent: &Located<'_>,
        value: &Value,
    ) -> Result<Vec<Change>, EditError> {
        Ok(self.replace_empty(parent, &Value::Array(vec![value.clone()])))
    }

    fn replace_empty(&self, parent: &Located<'_>, value: &Value) -> Vec<Change> {
        let column = parent.column.unwrap_or_default();
        let mut rendered = self.format.block(value, parent.is_item);
        if parent.is_item && value.is_object() && !rendered.lines.is_empty() {
            rendered.inline = rendered.lines.remove(0).1;
        }
        let site = parent.site;
        let gap = if rendered.inline.is_empty() { site.lead } else { site.start };
        let inline = rendered.inline.clone();
        let lines = rendered.lines_at(column, self.format.newline);
        let first = Change { span: Span::new(gap, site.end), insert: inline };
        let line_end = self.line_end(site.end);
        if lines.is_empty() {
            return vec![first];
        }
        vec![first, Change { span: Span::at(line_end), insert: lines }]
    }

    pub(super) fn remove_from_flow(&self, spans: &[Span], index: usize) -> Vec<Change> {
        let own = spans[index];
        let span = match (spans.get(index + 1), index.checked_sub(1).and_then(|before| spans.get(before))) {
            (Some(next), _) => Span { start: own.start, end: next.start },
            (None, Some(before)) => Span { start: before.end, end: own.end },
            (None, None) => {
                // A comma may follow the last item.
                let after = self.skip_blank(own.end as usize);
                let end = if self.byte(after) == Some(b',') { after + 1 } else { own.end as usize };
                Span::new(own.start as usize, end)
            }
        };
        vec![Change { span, insert: String::new() }]
    }

    /// The quotes of a collection in which every key or text has the same ones, as in JSON.
    pub(super) fn flow_quotes(&self, located: &Located<'_>) -> Option<Style> {
        let quoted = |node: &Node| node.as_text().map(|text| text.style).filter(|style| style.is_quoted());
        match &located.node.kind {
            Kind::Map(map) => {
                let is_quoted = |at: u32| self.byte(at as usize) == Some(b'"');
                let all = !map.is_empty() && map.iter().all(|entry| is_quoted(entry.key_span.start));
                all.then_some(Style::DoubleQuoted)
            }
            Kind::List(items) => {
                let first = items.first().and_then(quoted)?;
                items.iter().all(|item| quoted(item) == Some(first)).then_some(first)
            }
            _ => None,
        }
    }
}

/// Inserts an element at an index among others; `open` is the bracket before the first.
fn insert_between(spans: &[Span], index: usize, open: usize, element: &str) -> Change {
    match (spans.get(index), spans.last()) {
        (Some(next), _) => Change { span: Span::at(next.start as usize), insert: format!("{element}, ") },
        (None, Some(last)) => Change { span: Span::at(last.end as usize), insert: format!(", {element}") },
        (None, None) => Change { span: Span::at(open + 1), insert: element.to_owned() },
    }
}
