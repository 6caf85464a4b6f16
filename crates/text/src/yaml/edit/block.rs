//! Inserts and removes items and entries in block style.

use serde_json::Value;

use super::document::{Document, Site, not_found};
use super::render::Rendered;
use super::{Change, EditError, Segment};
use crate::diagnostic::Span;
use crate::yaml::{Kind, Map, Node};

impl Document {
    pub(super) fn insert(&self, at: &[Segment], value: &Value) -> Result<Vec<Change>, EditError> {
        let Some((Segment::Index(index), parents)) = at.split_last() else { return Err(not_found(at)) };
        let parent = self.locate(parents)?;
        let Some(items) = parent.node.as_list() else { return Err(not_found(at)) };
        if parent.site.is_alias {
            return Err(EditError::in_place("the value is an alias of another one"));
        }
        if items.is_empty() && !parent.in_flow {
            return self.replace_empty_list(&parent, value);
        }
        if parent.in_flow || self.is_flow(&parent.site) {
            return self.insert_into_flow(&parent, items, *index, value);
        }
        let lines = self.format.item_lines(value, 0);
        let sites = self.item_sites(items, parent.site.start);
        Ok(vec![self.insert_item(items, &sites, *index, &lines)])
    }

    /// Inserts the lines of an item, which begin with its dash.
    pub(super) fn insert_item(
        &self,
        items: &[Node],
        sites: &[Site],
        index: usize,
        lines: &[(usize, String)],
    ) -> Change {
        let newline = self.format.newline;
        let dash = |index: usize| sites[index].lead - 1;
        let rendered = Rendered { inline: String::new(), lines: lines.to_vec() };
        let text = rendered.lines_at(self.column(dash(0)), newline);
        let separator = if self.is_spaced(items, sites) { newline } else { "" };
        match sites.get(index) {
            Some(_) => self.insert_above(dash(index), &format!("{text}{separator}")),
            None => self.insert_below(sites[sites.len() - 1].end, &format!("{separator}{text}")),
        }
    }

    /// True if empty lines separate the items of a list.
    pub(super) fn is_spaced(&self, items: &[Node], sites: &[Site]) -> bool {
        items.len() > 1
            && sites.windows(2).all(|pair| {
                let between = self.text.get(pair[0].end.saturating_sub(1)..pair[1].lead).unwrap_or_default();
                between.lines().skip(1).any(|line| line.trim().is_empty() && line.len() < 200)
                    && between.matches('\n').count() > 1
            })
    }

    pub(super) fn remove(&self, at: &[Segment]) -> Result<Vec<Change>, EditError> {
        let Some((last, parents)) = at.split_last() else { return Err(not_found(at)) };
        let parent = self.locate(parents)?;
        if parent.site.is_alias {
            return Err(EditError::in_place("the value is an alias of another one"));
        }
        let in_flow = parent.in_flow || self.is_flow(&parent.site);
        match (&parent.node.kind, last) {
            (Kind::Map(map), Segment::Key(key)) => {
                let index = map.entries.iter().position(|entry| entry.key == *key);
                let index = index.ok_or_else(|| not_found(at))?;
                let spans: Vec<Span> = self.entry_spans(map);
                if in_flow {
                    return Ok(self.remove_from_flow(&spans, index));
                }
                if map.len() == 1 {
                    return self.replace(&parent, &Value::Object(serde_json::Map::new()));
                }
                if self.text[..spans[index].start as usize].trim_end_matches(' ').ends_with('?') {
                    return Err(EditError::in_place("its key is written in the long form"));
                }
                Ok(vec![self.remove_lines(&spans, index)])
            }
            (Kind::List(items), Segment::Index(index)) if *index < items.len() => {
                let sites = self.item_sites(items, parent.site.start);
                if in_flow {
                    let spans: Vec<Span> = sites.iter().map(|site| Span::new(site.start, site.end)).collect();
                    return Ok(self.remove_from_flow(&spans, *index));
                }
                if items.len() == 1 {
                    return self.replace(&parent, &Value::Array(Vec::new()));
                }
                let spans: Vec<Span> = sites.iter().map(|site| Span::new(site.lead - 1, site.end)).collect();
                Ok(vec![self.remove_lines(&spans, *index)])
            }
            _ => Err(not_found(at)),
        }
    }

    pub(super) fn entry_spans(&self, map: &Map) -> Vec<Span> {
        let span =
            |entry: &crate::yaml::Entry| Span::new(entry.key_span.start as usize, self.entry_end(entry));
        map.iter().map(span).collect()
    }

    /// Removes the lines of an entry or item; its comments stay.
    fn remove_lines(&self, spans: &[Span], index: usize) -> Change {
        let (start, end) = (spans[index].start as usize, spans[index].end as usize);
        let (newline, column) = (self.format.newline, self.column(start));
        let next_line = self.next_line(end);
        if self.begins_line(start) {
            let kept: String = self
                .comments_in(start, next_line)
                .map(|comment| {
                    format!("{}{}{newline}", " ".repeat(column), self.text[comment.range()].trim_end())
                })
                .collect();
            return Change { span: Span::new(self.line_start(start), next_line), insert: kept };
        }
        // The first entry beside a dash, or the first dash beside another: the next one takes its place.
        let next = spans.get(index + 1).map_or(next_line, |next| next.start as usize);
        let kept: String = self
            .comments_in(start, next)
            .map(|comment| {
                format!("{}{newline}{}", self.text[comment.range()].trim_end(), " ".repeat(column))
            })
            .collect();
        Change { span: Span::new(start, next), insert: kept }
    }
}
