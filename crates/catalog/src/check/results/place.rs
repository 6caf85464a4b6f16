//! Where a link of a path stands in the text of an expression.

use model::diagnostic::{Source, Span};
use model::expression::{Expression, Link};

/// Where the link at `depth` of a path stands, and whether that is exactly its name; else the whole expression.
pub(super) fn of(source: &Source, expression: &Expression, links: &[Link], depth: usize) -> (Span, bool) {
    let whole = (expression.span(), false);
    let text = source.slice(expression.span());
    // A text with escapes or line breaks does not stand in the file as it is.
    if text != expression.text() {
        return whole;
    }
    let Some(Link::Name(root)) = links.first() else { return whole };
    let starts = text.match_indices(root.as_str()).filter(|(at, _)| begins(&text[..*at]));
    let mut found = starts.filter_map(|(at, _)| follow(text, at, links.get(..=depth)?));
    match found.next() {
        Some((start, end)) => {
            let from = expression.span().start as usize;
            (Span::new(from + start, from + end), true)
        }
        None => last_name(text, expression.span(), links.get(depth)).unwrap_or(whole),
    }
}

/// Whether a root may stand behind this text: no part of a longer name or path.
fn begins(before: &str) -> bool {
    !before.ends_with(is_word) && (!before.ends_with('.') || before.ends_with("$."))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Where the last of these links stands if the text from `at` on is written as they are.
fn follow(text: &str, at: usize, links: &[Link]) -> Option<(usize, usize)> {
    let mut rest = at;
    let mut place = (at, at);
    for (index, link) in links.iter().enumerate() {
        let behind = &text[rest..];
        place = match link {
            Link::Name(name) if index == 0 => (rest, rest + name.len()),
            Link::Name(name) => named(behind, name).map(|(start, end)| (rest + start, rest + end))?,
            Link::Item | Link::Every => (rest, rest + bracket(behind)?),
        };
        rest = place.1;
        if matches!(link, Link::Name(_)) {
            if text[rest..].starts_with(is_word) {
                return None;
            }
            // The quote and bracket behind `['name`.
            let close = text[rest..].strip_prefix(['\'', '"']).and_then(|rest| rest.strip_prefix(']'));
            rest = close.map_or(rest, |rest| text.len() - rest.len());
        }
    }
    Some(place)
}

/// Where a name stands at the start of a text: `.name`, `['name']` or `["name"]`.
fn named(text: &str, name: &str) -> Option<(usize, usize)> {
    let lead = [".", "['", "[\""].into_iter().find(|lead| text.starts_with(*lead))?;
    text[lead.len()..].starts_with(name).then(|| (lead.len(), lead.len() + name.len()))
}

/// The length of the bracket at the start of a text, or of a `.0` or `.*`.
fn bracket(text: &str) -> Option<usize> {
    if let Some(after) = text.strip_prefix('.') {
        let end = after.find(|c: char| !c.is_ascii_digit() && c != '*').unwrap_or(after.len());
        return (end > 0).then_some(end + 1);
    }
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 1 => return Some(at + 1),
            (None, ']') => depth = depth.checked_sub(1)?,
            (None, _) if depth == 0 => return None,
            (None, _) => {}
        }
    }
    None
}

/// The only place where a name stands by itself, for those that a filter reads: `@.name`, `attribute='name'`.
fn last_name(text: &str, span: Span, link: Option<&Link>) -> Option<(Span, bool)> {
    let Some(Link::Name(name)) = link else { return None };
    let alone = |at: &usize| !text[..*at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word);
    let mut places = text.match_indices(name.as_str()).map(|(at, _)| at).filter(alone);
    let (first, None) = (places.next()?, places.next()) else { return None };
    let start = span.start as usize + first;
    Some((Span::new(start, start + name.len()), true))
}
