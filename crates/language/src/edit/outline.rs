//! The positions of the steps of a file, and of the expressions that read them.

use model::automation::{Automation, Step};
use std::collections::HashMap;
use text::diagnostic::Span;
use text::yaml::edit::Segment;
use text::yaml::{Kind, Node};

use super::rename::{member_names, reads_step};

/// A step and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct OutlineStep {
    /// The id.
    pub id: String,
    /// The display name.
    pub name: Option<String>,
    /// The verb.
    pub verb: &'static str,
    /// The path in the file's tree.
    pub at: Vec<Segment>,
    /// The span from its first key to its last value.
    pub span: Span,
}

/// A position that reads a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReference {
    /// The id of the step.
    pub step: String,
    /// The span of the step's name; of the whole expression if it contains escapes.
    pub span: Span,
}

/// The steps of a file in document order. `tree` is the tree that the automation was loaded from.
#[must_use]
pub fn outline(automation: &Automation, tree: &Node) -> Vec<OutlineStep> {
    let mut heads: HashMap<u32, &Step> = HashMap::new();
    automation.walk(&mut |step| {
        heads.insert(step.span.start, step);
    });
    let mut found = Vec::with_capacity(heads.len());
    walk(tree, &heads, &mut Vec::new(), &mut found);
    found
}

fn walk(node: &Node, heads: &HashMap<u32, &Step>, at: &mut Vec<Segment>, found: &mut Vec<OutlineStep>) {
    let is_item = matches!(at.last(), Some(Segment::Index(_)));
    if is_item
        && node.as_map().is_some()
        && let Some(step) = heads.get(&node.head().start)
    {
        found.push(OutlineStep {
            id: step.id.to_string(),
            name: step.name.clone(),
            verb: step.verb.keyword(),
            at: at.clone(),
            span: node.span,
        });
    }
    let mut below = |segment: Segment, child: &Node| {
        at.push(segment);
        walk(child, heads, at, found);
        at.pop();
    };
    match &node.kind {
        Kind::Map(map) => map.iter().for_each(|entry| below(Segment::Key(entry.key.clone()), &entry.value)),
        Kind::List(items) => {
            items.iter().enumerate().for_each(|(index, item)| below(Segment::Index(index), item));
        }
        _ => {}
    }
}

/// The positions that read steps: expressions and `needs`, in document order.
#[must_use]
pub fn step_references(automation: &Automation) -> Vec<StepReference> {
    let mut found = Vec::new();
    let source = &automation.source;
    let mut look = |expression: &expression::Expression| {
        let text = expression.text();
        let start = expression.span().start as usize;
        let is_plain = source.slice(expression.span()) == text;
        for reference in expression.references() {
            let Some(step) = reads_step(reference) else { continue };
            let names = if is_plain { member_names(text, "steps", &step, true) } else { Vec::new() };
            if names.is_empty() {
                found.push(StepReference { step: step.clone(), span: expression.span() });
            }
            found.extend(names.into_iter().map(|range| StepReference {
                step: step.clone(),
                span: Span::new(start + range.start, start + range.end),
            }));
        }
    };
    automation.walk(&mut |step| step.expressions(&mut look));
    automation.outputs.iter().for_each(|outputs| outputs.expressions(&mut look));
    automation.walk(&mut |step| {
        let needs = step.needs.iter().flatten();
        found.extend(needs.map(|name| StepReference { step: name.name.clone(), span: name.span }));
    });
    found.sort_by_key(|reference| (reference.span.start, reference.span.end));
    found.dedup();
    found
}
