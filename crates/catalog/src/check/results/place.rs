//! Locates a link of a path in the text of an expression.

use expression::{Expression, Link};
use text::diagnostic::{Source, Span};

/// Returns the position of the link at `depth` and true if it covers exactly the name; otherwise the position of the
/// whole expression and false.
pub(super) fn locate(source: &Source, expression: &Expression, links: &[Link], depth: usize) -> (Span, bool) {
    let whole = (expression.span(), false);
    let text = expression.text();
    let Some(all) = expression.place_in(source, 0..text.len()) else { return whole };
    let Some(path) = links.get(..=depth) else { return whole };
    match first(text, path).or_else(|| in_item(text, path)) {
        Some((start, end)) => {
            let from = all.start as usize;
            (Span::new(from + start, from + end), true)
        }
        None => last_name(text, all, links.get(depth)).unwrap_or(whole),
    }
}

/// Returns the position of the last link at the first place where the text has the path.
fn first(text: &str, links: &[Link]) -> Option<(usize, usize)> {
    let Some(Link::Name(root)) = links.first() else { return None };
    let mut starts = text.match_indices(root.as_str()).filter(|(at, _)| begins(&text[..*at]));
    starts.find_map(|(at, _)| follow(text, at, links))
}

/// Returns the position of the last link of a path whose items an expression for each item reads: `map(by=item.name)`.
fn in_item(text: &str, links: &[Link]) -> Option<(usize, usize)> {
    let every = links.iter().rposition(|link| matches!(link, Link::Every))?;
    let member = std::iter::once(Link::Name("item".into())).chain(links.get(every + 1..)?.iter().cloned());
    first(text, &member.collect::<Vec<_>>())
}

/// Returns true if a root name may follow this text, as it does not continue a longer name or path.
fn begins(before: &str) -> bool {
    !before.ends_with(is_word) && (!before.ends_with('.') || before.ends_with("$."))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the position of the last link if the text at `at` matches the links.
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
            // Skip the closing quote and bracket of `['name']`.
            let close = text[rest..].strip_prefix(['\'', '"']).and_then(|rest| rest.strip_prefix(']'));
            rest = close.map_or(rest, |rest| text.len() - rest.len());
        }
    }
    Some(place)
}

/// Returns the range of a name at the start of a text: `.name`, `['name']` or `["name"]`.
fn named(text: &str, name: &str) -> Option<(usize, usize)> {
    let lead = [".", "['", "[\""].into_iter().find(|lead| text.starts_with(*lead))?;
    text[lead.len()..].starts_with(name).then(|| (lead.len(), lead.len() + name.len()))
}

/// Returns the length of an index at the start of a text: a bracket, `.0` or `.*`.
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

/// Returns the only occurrence of a name as a whole word, for names used in filters: `@.name`, `attribute='name'`.
fn last_name(text: &str, span: Span, link: Option<&Link>) -> Option<(Span, bool)> {
    let Some(Link::Name(name)) = link else { return None };
    let alone = |at: &usize| !text[..*at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word);
    let mut places = text.match_indices(name.as_str()).map(|(at, _)| at).filter(alone);
    let (first, None) = (places.next()?, places.next()) else { return None };
    let start = span.start as usize + first;
    Some((Span::new(start, start + name.len()), true))
}
