//! Locates a part of a value by its path.

use text::diagnostic::{Diagnostics, Source, Span};
use text::yaml::{Node, parse};

/// A segment of a path into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// The entry of a map.
    Entry(String),
    /// The key of an entry itself, as the last segment.
    Key(String),
    /// The item of a list, from 0.
    Item(usize),
}

/// The span of a part of the value whose key is at `key`. If the path leaves the literal values, the span of the last value
/// on the path. Parses the file again, so use it only for diagnostics.
#[must_use]
pub fn span_at_path(source: &Source, key: Span, way: &[PathSegment]) -> Option<Span> {
    let (head, extent) = spans_at_path(source, key, way)?;
    // A list or map on one line is underlined completely.
    let is_one_line = !source.slice(extent).contains('\n');
    Some(if is_one_line { extent } else { head })
}

/// Like [`span_at_path`], for the whole part, which a fix replaces.
#[must_use]
pub fn extent_at_path(source: &Source, key: Span, way: &[PathSegment]) -> Option<Span> {
    spans_at_path(source, key, way).map(|(_, extent)| extent)
}

/// The start and the full span of a part.
fn spans_at_path(source: &Source, key: Span, way: &[PathSegment]) -> Option<(Span, Span)> {
    let diagnostics = Diagnostics::new(Source::new(source.path(), source.text()));
    let tree = parse(&diagnostics)?;
    let mut node = value_of(&tree, key)?;
    for part in way {
        let next = match part {
            PathSegment::Key(name) => {
                let span = node.as_map()?.entry(name)?.key_span;
                return Some((span, span));
            }
            PathSegment::Entry(name) => node.get(name),
            PathSegment::Item(index) => node.as_list().and_then(|items| items.get(*index)),
        };
        let Some(next) = next else { break };
        node = next;
    }
    Some((node.head(), node.span))
}

/// The span of the last of these keys, each within the value of the previous one; the first is a key of the file. Parses the
/// file again, so use it only for diagnostics.
#[must_use]
pub fn key_span(source: &Source, path: &[&str]) -> Option<Span> {
    let diagnostics = Diagnostics::new(Source::new(source.path(), source.text()));
    let tree = parse(&diagnostics)?;
    let (last, outer) = path.split_last()?;
    let node = outer.iter().try_fold(&tree, |node, key| node.get(key))?;
    Some(node.as_map()?.entry(last)?.key_span)
}

/// The span of a key of the step that begins at `step`. Parses the file again, so use it only for diagnostics.
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

/// The value of the entry whose key is at this span.
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
