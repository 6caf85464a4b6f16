//! Renames a step in a test file: its stubs, the answers it waits for, and its expectations.

use text::yaml::Node;
use text::yaml::edit::{EditError, Segment, TreeOperation};

use super::rename::member_names;
use crate::load;

/// The changes that rename a step in the tree of a test file; empty if nothing names it.
pub(super) fn rename(root: Option<&Node>, from: &str, to: &str) -> Result<Vec<TreeOperation>, EditError> {
    if !load::is_step_id(to) {
        return Err(EditError::Invalid(format!(
            "`{to}` cannot be the id of a step: an id has letters, digits and `_`, and begins with no digit"
        )));
    }
    let mut renamer = Renamer { from, to, operations: Vec::new() };
    let Some(root) = root else { return Ok(renamer.operations) };
    renamer.keys(root.get("doubles"), &[key("doubles")]);
    for (index, case) in items(root.get("tests")) {
        let case_at = [key("tests"), Segment::Index(index)];
        let at = |names: &[&str]| -> Vec<Segment> {
            case_at.iter().cloned().chain(names.iter().copied().map(key)).collect()
        };
        renamer.keys(case.get("doubles"), &at(&["doubles"]));
        renamer.steps(case.get("approvals"), &at(&["approvals"]));
        let Some(expect) = case.get("expect") else { continue };
        renamer.keys(expect.get("steps"), &at(&["expect", "steps"]));
        renamer.keys(expect.get("calls"), &at(&["expect", "calls"]));
        renamer.steps(expect.get("calls"), &at(&["expect", "calls"]));
        renamer.steps(expect.get("logs"), &at(&["expect", "logs"]));
        let error = expect.get("error").and_then(|error| error.get("step"));
        renamer.name(error, &at(&["expect", "error", "step"]));
        renamer.conditions(expect.get("that"), &at(&["expect", "that"]));
    }
    Ok(renamer.operations)
}

struct Renamer<'a> {
    from: &'a str,
    to: &'a str,
    operations: Vec<TreeOperation>,
}

impl Renamer<'_> {
    /// The new name for a reference to the step, with its iterations: `copy[2]`.
    fn renamed(&self, name: &str) -> Option<String> {
        let turns = name.strip_prefix(self.from)?;
        (turns.is_empty() || turns.starts_with('[')).then(|| format!("{}{turns}", self.to))
    }

    /// The keys of a mapping by step.
    fn keys(&mut self, map: Option<&Node>, at: &[Segment]) {
        for entry in map.and_then(Node::as_map).into_iter().flat_map(|map| map.iter()) {
            if let Some(to) = self.renamed(&entry.key) {
                self.operations.push(TreeOperation::RenameKey { at: below(at, key(&entry.key)), to });
            }
        }
    }

    /// The key `step` of each item of a list.
    fn steps(&mut self, list: Option<&Node>, at: &[Segment]) {
        for (index, item) in items(list) {
            self.name(item.get("step"), &below(&below(at, Segment::Index(index)), key("step")));
        }
    }

    /// A text that is the name of a step.
    fn name(&mut self, text: Option<&Node>, at: &[Segment]) {
        if text.and_then(Node::as_str).and_then(|text| self.renamed(text)).is_some() {
            let parts = vec![(0..self.from.len(), self.to.to_owned())];
            self.operations.push(TreeOperation::Splice { at: at.to_vec(), parts });
        }
    }

    /// An expression, or a list of them.
    fn conditions(&mut self, that: Option<&Node>, at: &[Segment]) {
        self.condition(that, at);
        for (index, item) in items(that) {
            self.condition(Some(item), &below(at, Segment::Index(index)));
        }
    }

    fn condition(&mut self, text: Option<&Node>, at: &[Segment]) {
        let Some(text) = text.and_then(Node::as_str) else { return };
        let ranges = member_names(text, "steps", self.from, true);
        if !ranges.is_empty() {
            let parts = ranges.into_iter().map(|range| (range, self.to.to_owned())).collect();
            self.operations.push(TreeOperation::Splice { at: at.to_vec(), parts });
        }
    }
}

fn key(name: &str) -> Segment {
    Segment::Key(name.to_owned())
}

fn below(at: &[Segment], segment: Segment) -> Vec<Segment> {
    at.iter().cloned().chain([segment]).collect()
}

fn items(list: Option<&Node>) -> impl Iterator<Item = (usize, &Node)> {
    list.and_then(Node::as_list).into_iter().flatten().enumerate()
}
