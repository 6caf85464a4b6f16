//! Replaces a value, or adds a key.

use serde_json::Value;

use super::document::{Document, Located, not_found};
use super::render::{self, Rendered};
use super::{Change, EditError, Position, Segment};
use crate::diagnostic::Span;
use crate::yaml::{Kind, Map, Style};

impl Document {
    /// Replaces the value at a path, or adds the key that ends it.
    pub(super) fn set(
        &self,
        at: &[Segment],
        value: &Value,
        position: &Position,
    ) -> Result<Vec<Change>, EditError> {
        let Some((Segment::Key(key), parents)) = at.split_last() else {
            let located = self.locate(at)?;
            return if at.is_empty() { self.set_root(value) } else { self.replace(&located, value) };
        };
        let parent = self.locate(parents)?;
        if parent.site.is_alias {
            return Err(EditError::in_place("the value is an alias of another one"));
        }
        match &parent.node.kind {
            Kind::Map(map) if map.get(key).is_some() => self.replace(&self.locate(at)?, value),
            Kind::Map(map) if map.is_empty() || parent.in_flow || self.is_flow(&parent.site) => {
                self.add_to_flow(&parent, map, key, value, position)
            }
            Kind::Map(map) => self.add_entry(map, key, value, position),
            Kind::Null if parents.is_empty() => {
                let whole = [(key.clone(), value.clone())].into_iter().collect();
                self.set_root(&Value::Object(whole))
            }
            Kind::Null => {
                let whole = [(key.clone(), value.clone())].into_iter().collect();
                self.replace(&parent, &Value::Object(whole))
            }
            _ => Err(not_found(at)),
        }
    }

    /// Writes the data of an empty file below its comments.
    fn set_root(&self, value: &Value) -> Result<Vec<Change>, EditError> {
        if !self.tree.is_null() {
            return Err(EditError::in_place("it would replace the whole file"));
        }
        if !self.tree.span.is_empty() {
            return Err(EditError::in_place("the file holds nothing but `null`"));
        }
        let Value::Object(map) = value else {
            return Err(EditError::in_place("a file is a mapping"));
        };
        let lines: Vec<(usize, String)> =
            map.iter().flat_map(|(key, value)| self.format.entry_lines(key, value, 0)).collect();
        let end = self.text.len();
        let starts_line = end == 0 || self.text.ends_with('\n');
        let text = Rendered { inline: String::new(), lines }.lines_at(0, self.format.newline);
        let text = if starts_line { text.strip_prefix(self.format.newline).unwrap_or(&text) } else { &text };
        Ok(vec![Change { span: Span::at(end), insert: format!("{text}{}", self.format.newline) }])
    }

    fn add_entry(
        &self,
        map: &Map,
        key: &str,
        value: &Value,
        position: &Position,
    ) -> Result<Vec<Change>, EditError> {
        let Some(first) = map.entries.first() else {
            return Err(EditError::in_place("the mapping is empty"));
        };
        let column = self.column(first.key_span.start as usize);
        let lines = self.format.entry_lines(key, value, 0);
        let text = Rendered { inline: String::new(), lines }.lines_at(column, self.format.newline);
        let after = match position {
            Position::First => None,
            Position::After(name) => map.entry(name).or(map.entries.last()),
            Position::Last => map.entries.last(),
        };
        Ok(vec![match after {
            Some(entry) => self.insert_below(self.entry_end(entry), &text),
            None => self.insert_above(first.key_span.start as usize, &text),
        }])
    }

    /// Inserts lines below the line that holds the end of a value. `text` begins with a line break.
    pub(super) fn insert_below(&self, end: usize, text: &str) -> Change {
        let newline = self.format.newline;
        let next = self.next_line(end);
        if next > 0 && self.text[..next].ends_with('\n') {
            let text = text.strip_prefix(newline).unwrap_or(text);
            return Change { span: Span::at(next), insert: format!("{text}{newline}") };
        }
        Change { span: Span::at(next), insert: text.to_owned() }
    }

    /// Inserts lines above a key or dash, below comments that belong to the previous entry. `text` begins with a line break.
    pub(super) fn insert_above(&self, start: usize, text: &str) -> Change {
        let newline = self.format.newline;
        let text = text.strip_prefix(newline).unwrap_or(text);
        if self.begins_line(start) {
            let at = self.lead_comments(start);
            return Change { span: Span::at(at), insert: format!("{text}{newline}") };
        }
        // After the dash of an item: the remainder moves to the next line.
        let insert = format!("{}{newline}{}", text.trim_start(), " ".repeat(self.column(start)));
        Change { span: Span::at(start), insert }
    }

    /// The start of the lines of comments directly above a key or dash, at its column; the start of its line if there are none.
    pub(super) fn lead_comments(&self, start: usize) -> usize {
        let column = self.column(start);
        let mut at = self.line_start(start);
        while at > 0 {
            let above = self.line_start(at - 1);
            let line = &self.text[above..at];
            let indent = line.len() - line.trim_start_matches(' ').len();
            let is_comment = self.comments_in(above + indent, above + indent + 1).next().is_some();
            if indent != column || !is_comment {
                break;
            }
            at = above;
        }
        at
    }

    /// Replaces a value that is there.
    pub(super) fn replace(&self, located: &Located<'_>, value: &Value) -> Result<Vec<Change>, EditError> {
        let site = located.site;
        if site.is_alias {
            return Err(EditError::in_place("the value is an alias of another one"));
        }
        let style = located.node.as_text().map(|text| text.style);
        if located.in_flow {
            let gap = if site.start == site.lead { " " } else { "" };
            let insert = format!("{gap}{}", render::flow(value, style.or_else(|| self.flow_quotes(located))));
            return Ok(vec![Change { span: Span::new(site.start, site.end), insert }]);
        }
        let Some(column) = located.column else {
            return Err(EditError::in_place("it would replace the whole file"));
        };
        let rendered = match value {
            Value::String(text) if style.is_some_and(Style::is_quoted) && !text.contains('\n') => {
                Rendered { inline: render::scalar_text(text, false, style), lines: Vec::new() }
            }
            // A list in brackets stays one.
            Value::Array(_) | Value::Object(_) if self.is_flow(&site) => {
                Rendered { inline: render::flow(value, None), lines: Vec::new() }
            }
            Value::Object(map) if located.is_item && !map.is_empty() => self.beside_dash(value, site.lead),
            _ => self.format.block(value, located.is_item),
        };
        Ok(self.put(located, &rendered, column))
    }

    /// A mapping below a dash: its first key on the line of the dash, unless a comment is there.
    fn beside_dash(&self, value: &Value, lead: usize) -> Rendered {
        let mut rendered = self.format.block(value, true);
        if self.comments_in(lead, self.line_end(lead)).next().is_none() && !rendered.lines.is_empty() {
            rendered.inline = rendered.lines.remove(0).1;
        }
        rendered
    }

    /// Writes a rendered value in place of another one in block style; comments inside the old one stay.
    fn put(&self, located: &Located<'_>, rendered: &Rendered, column: usize) -> Vec<Change> {
        let (site, newline) = (located.site, self.format.newline);
        let line_end = self.line_end(site.lead);
        let lines = rendered.lines_at(column, newline);
        let inline = if rendered.inline.is_empty() { String::new() } else { format!(" {}", rendered.inline) };
        let in_one_line =
            site.end <= line_end && !located.node.as_text().is_some_and(|text| text.style.is_block());
        if in_one_line {
            // An anchor or a tag is between the lead and the value.
            let lead =
                if self.text[site.lead..site.start].trim().is_empty() { site.lead } else { site.start };
            let inline =
                if lead == site.start && lead > site.lead { rendered.inline.clone() } else { inline };
            let first = Change { span: Span::new(lead, site.end), insert: inline };
            return if lines.is_empty() {
                vec![first]
            } else {
                vec![first, Change { span: Span::at(line_end), insert: lines }]
            };
        }
        let starts_in_line = site.start <= line_end;
        let comment = self.comments_in(site.lead, line_end).next();
        let head_end = comment.map_or(line_end, |comment| comment.start as usize);
        let head = if starts_in_line { Span::new(site.lead, head_end) } else { Span::at(site.lead) };
        let gap = if comment.is_some() && starts_in_line { " " } else { "" };
        let mut end = site.end.max(line_end);
        if end > line_end && self.byte(end - 1) == Some(b'\n') {
            end -= 1;
            if end > line_end && self.byte(end - 1) == Some(b'\r') {
                end -= 1;
            }
        }
        let below = if located.is_item { column + 2 } else { column };
        let kept: String = self
            .comments_in(line_end, end)
            .map(|comment| format!("{newline}{}{}", " ".repeat(below), self.text[comment.range()].trim_end()))
            .collect();
        vec![
            Change { span: head, insert: format!("{inline}{gap}") },
            Change { span: Span::new(line_end, end), insert: format!("{kept}{lines}") },
        ]
    }
}
