//! Expressions that an author is still writing.

use minijinja::machinery::parse_expr;

use super::Reference;
use super::dependencies::{Item, item_path};
use super::filters;
use super::tokens::{Kind, Tokens};

/// The largest nesting of expressions for items that is followed.
const MAX_NESTING: usize = 8;

/// The path of `item` at the end of the text of an expression, if it is inside an expression that a filter evaluates for each item:
/// `rows | map(by=item.`. The inner value is `None` if the path is not known.
#[must_use]
pub fn item_at_end(text: &str) -> Option<Option<Reference>> {
    match meaning_at_end(text, MAX_NESTING) {
        Item::OfScope => None,
        Item::OfList(path) => Some(path.map(|links| Reference::new(links, false))),
    }
}

fn meaning_at_end(text: &str, depth: usize) -> Item {
    if depth == 0 {
        return Item::OfScope;
    }
    let tokens = Tokens::new(text);
    let mut open = Vec::new();
    for at in 0..tokens.all.len() {
        match tokens.kind(at) {
            Some(Kind::Open) => open.push(at),
            Some(Kind::Close) => _ = open.pop(),
            _ => {}
        }
    }
    // The innermost filter comes last.
    let found = open.into_iter().rev().find_map(|open| subject(&tokens, open));
    let Some((start, end)) = found else { return Item::OfScope };
    let (Some(before), Some(list)) = (text.get(..start), text.get(start..end)) else { return Item::OfScope };
    let outside = meaning_at_end(before, depth - 1);
    Item::OfList(parse_expr(list).ok().and_then(|list| item_path(&list, &outside)))
}

/// The location of the list before a filter, if the text ends in an expression for each of its items. `open` is the bracket behind the
/// name of the filter.
fn subject(tokens: &Tokens<'_>, open: usize) -> Option<(usize, usize)> {
    let (name, pipe) = (open.checked_sub(1)?, open.checked_sub(2)?);
    if tokens.get(open) != "(" || tokens.get(pipe) != "|" {
        return None;
    }
    let mut depth = 0_usize;
    let mut argument = open + 1;
    for at in open + 1..tokens.all.len() {
        match (tokens.kind(at), tokens.get(at)) {
            (Some(Kind::Open), _) => depth += 1,
            (Some(Kind::Close), _) => depth = depth.saturating_sub(1),
            (_, ",") if depth == 0 => argument = at + 1,
            _ => {}
        }
    }
    let is_expression =
        tokens.get(argument + 1) == "=" && filters::takes_expression(tokens.get(name), tokens.get(argument));
    let last = pipe.checked_sub(1).filter(|_| is_expression)?;
    let start = tokens.operand_start(last, true)?;
    let range = tokens.range(start, last)?;
    Some((range.start, range.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;

    #[test]
    fn the_item_of_an_unfinished_expression_is_that_of_the_innermost_filter() {
        for (text, expected) in [
            ("vars.rows | map(by=item.", Some(Some("vars.rows.*"))),
            ("'a' ~ vars.rows | sort(reverse=true, by=[item.a, -item.", Some(Some("vars.rows.*"))),
            ("vars.rows | select(by=item.x) | map(by=item.", Some(Some("vars.rows.*"))),
            ("vars.rows | map(by=item.tags | select(by=item.", Some(Some("vars.rows.*.tags.*"))),
            ("vars.rows | toMap(by=item.id, value=item.", Some(Some("vars.rows.*"))),
            ("range(3) | map(by=item.", Some(None)),
            ("vars.rows | map(by=item.a) ~ item.", None),
            ("vars.rows | map(item.", None),
            ("item.", None),
            ("f(item.", None),
        ] {
            let link = |link: Link| match link {
                Link::Name(name) => name.to_string(),
                Link::Item | Link::Every => "*".to_owned(),
            };
            let found = item_at_end(text);
            let found =
                found.map(|path| path.map(|path| path.links().map(link).collect::<Vec<_>>().join(".")));
            assert_eq!(found, expected.map(|path| path.map(str::to_owned)), "{text}");
        }
    }
}
