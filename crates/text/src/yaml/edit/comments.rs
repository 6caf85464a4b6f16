//! Finds the comments of a text: every `#` outside of keys and scalars that begins a line or follows white space.

use crate::diagnostic::Span;
use crate::yaml::{Kind, Node};

/// The comments, in order.
pub(super) fn find(text: &str, tree: &Node) -> Vec<Span> {
    let mut scalars = Vec::new();
    collect(tree, &mut scalars);
    scalars.sort_unstable();
    let mut scalars = scalars.into_iter().peekable();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = text[at..].find('#').map(|offset| at + offset) {
        while scalars.peek().is_some_and(|scalar| scalar.end as usize <= next) {
            scalars.next();
        }
        let inside = scalars.peek().filter(|scalar| scalar.start as usize <= next);
        at = match inside {
            Some(scalar) => scalar.end as usize,
            None if may_begin(text, next) => {
                let end = text[next..].find('\n').map_or(text.len(), |newline| next + newline);
                found.push(Span::new(next, end));
                end
            }
            None => next + 1,
        };
    }
    found
}

/// True if a comment may begin here.
pub(super) fn may_begin(text: &str, at: usize) -> bool {
    matches!(text[..at].chars().next_back(), None | Some(' ' | '\t' | '\r' | '\n' | '\u{feff}'))
}

fn collect(node: &Node, scalars: &mut Vec<Span>) {
    match &node.kind {
        Kind::Map(map) => map.iter().for_each(|entry| {
            scalars.push(entry.key_span);
            collect(&entry.value, scalars);
        }),
        Kind::List(items) => items.iter().for_each(|item| collect(item, scalars)),
        _ if !node.span.is_empty() => scalars.push(node.span),
        _ => {}
    }
}
