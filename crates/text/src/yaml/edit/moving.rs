//! Moves an item of a list with its text, its comments included.

use super::document::{Document, not_found};
use super::{Change, EditError, Segment, TreeOperation, find};
use crate::diagnostic::Span;

impl Document {
    pub(super) fn move_item(&self, from: &[Segment], to: &[Segment]) -> Result<Vec<Change>, EditError> {
        let (Some((Segment::Index(index), source)), Some((Segment::Index(_), _))) =
            (from.split_last(), to.split_last())
        else {
            return Err(EditError::Invalid("only items of lists can be moved".to_owned()));
        };
        // The path as it is before the item is taken out.
        let mut target = to.to_vec();
        if let Some(Segment::Index(passed)) = target.get_mut(source.len())
            && to.starts_with(source)
            && *passed >= *index
        {
            *passed += 1;
        }
        let Some((Segment::Index(position), target)) = target.split_last() else { return Err(not_found(to)) };
        let (list, goal) = (self.locate(source)?, self.locate(target)?);
        let (Some(items), Some(goal_items)) = (list.node.as_list(), goal.node.as_list()) else {
            return Err(not_found(to));
        };
        let is_block = |located: &super::document::Located<'_>| {
            !located.in_flow && !located.site.is_alias && !self.is_flow(&located.site)
        };
        if items.len() < 2 || goal_items.is_empty() || !is_block(&list) || !is_block(&goal) {
            return self.move_data(from, to);
        }
        let sites = self.item_sites(items, list.site.start);
        let dash = sites[*index].lead - 1;
        if !self.begins_line(dash) {
            return self.move_data(from, to);
        }
        let spaced = self.is_spaced(items, &sites);
        let (start, end) = (self.lead_comments(dash), self.next_line(sites[*index].end));
        let moved = &self.text[start..end];
        let goal_sites = self.item_sites(goal_items, goal.site.start);
        let lines = shift(moved, self.column(dash))
            .ok_or_else(|| EditError::in_place("its lines are indented in another way"))?;
        let insertion = self.insert_item(goal_items, &goal_sites, *position, &lines);
        let mut removal = Span::new(start, end);
        if spaced {
            // One separator goes with the item.
            removal = if *index + 1 < items.len() {
                let rest = &self.text[end..];
                let blank = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
                Span::new(start, end + blank)
            } else {
                let before = self.text[..start].trim_end_matches(['\r', '\n', ' ']);
                Span::new(self.next_line(before.len()), end)
            };
        }
        let removal = Change { span: removal, insert: String::new() };
        let mut changes = vec![insertion, removal];
        changes.sort_by_key(|change| (change.span.start, change.span.end));
        if changes[0].span.end > changes[1].span.start {
            return Err(EditError::in_place("the item cannot move into itself"));
        }
        Ok(changes)
    }

    /// Moves the data of an item where its text cannot go along: into brackets, out of them, or out of a list of one.
    fn move_data(&self, from: &[Segment], to: &[Segment]) -> Result<Vec<Change>, EditError> {
        let item = find(&self.tree, from).ok_or_else(|| not_found(from))?.to_json();
        let mut pieces = super::pieces::Pieces::new(&self.text);
        pieces.apply(&self.changes(&TreeOperation::Remove { at: from.to_vec() })?);
        let between = Document::parse(&pieces.text())?;
        pieces.apply(&between.changes(&TreeOperation::Insert { at: to.to_vec(), value: item })?);
        Ok(pieces.changes())
    }
}

/// Lines with their columns from the dash, moved from one column to another; `None` if a line is indented less than the dash.
fn shift(text: &str, from: usize) -> Option<Vec<(usize, String)>> {
    let line = |line: &str| {
        if line.trim().is_empty() {
            return Some((0, String::new()));
        }
        let rest = line.strip_prefix(&" ".repeat(from))?;
        Some((0, rest.to_owned()))
    };
    text.lines().map(line).collect()
}
