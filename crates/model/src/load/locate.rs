//! Where a part of a value stands that is known by its path.

use crate::diagnostic::{Diagnostics, Source, Span};
use crate::yaml::{Node, parse};

/// A step on the way down a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// The entry of a map.
    Entry(String),
    /// The key of an entry itself, as the last part of a way.
    Key(String),
    /// The item of a list, from 0.
    Item(usize),
}

/// Where a part stands of the value whose key is at `key`. As far as the way leads: where the rest of it stands in no value
/// that is written out, it is the last one that is. The file is read again: this is for places of problems.
#[must_use]
pub fn span_at_path(source: &Source, key: Span, way: &[PathSegment]) -> Option<Span> {
    let diagnostics = Diagnostics::new(Source::new(source.path(), source.text()));
    let tree = parse(&diagnostics)?;
    let mut node = value_of(&tree, key)?;
    for part in way {
        let next = match part {
            PathSegment::Key(name) => return Some(node.as_map()?.entry(name)?.key_span),
            PathSegment::Entry(name) => node.get(name),
            PathSegment::Item(index) => node.as_list().and_then(|items| items.get(*index)),
        };
        let Some(next) = next else { break };
        node = next;
    }
    // A list or map on one line is underlined as a whole.
    let is_one_line = !source.slice(node.span).contains('\n');
    Some(if is_one_line { node.span } else { node.head() })
}

/// The span of a key of the step that begins at `step`. The file is read again: this is for places of problems.
#[must_use]
pub fn step_key_span(source: &Source, step: Span, key: &str) -> Option<Span> {
    let diagnostics = Diagnostics::new(Source::new(source.path(), source.text()));
    let tree = parse(&diagnostics)?;
    let mut rest = vec![&tree];
    while let Some(node) = rest.pop() {
        if let Some(entry) = node.as_map().filter(|_| node.head() == step).and_then(|map| map.entry(key)) {
            return Some(entry.key_span);
        }
        rest.extend(node.as_map().into_iter().flat_map(|map| map.iter().map(|entry| &entry.value)));
        rest.extend(node.as_list().unwrap_or_default());
    }
    None
}

/// The value of the entry whose key stands there.
fn value_of(tree: &Node, key: Span) -> Option<&Node> {
    let mut rest = vec![tree];
    while let Some(node) = rest.pop() {
        if let Some(map) = node.as_map() {
            if let Some(entry) = map.iter().find(|entry| entry.key_span == key) {
                return Some(&entry.value);
            }
            rest.extend(map.iter().map(|entry| &entry.value));
        }
        rest.extend(node.as_list().unwrap_or_default());
    }
    None
}
