//! Functions of items in JavaScript, `list.map(x => x.name)`, as filters with `by`.

use super::rewrite;
use super::tokens::{Kind, Tokens};

/// The methods of JavaScript that take a function of an item, each with the filter that takes `by`, and a filter behind it.
const ARROWS: [(&str, &str, &str); 8] = [
    ("filter", "select", ""),
    ("find", "select", " | first"),
    ("flatMap", "map", " | flatten"),
    ("groupBy", "groupby", ""),
    ("map", "map", ""),
    ("select", "map", ""),
    ("sortBy", "sort", ""),
    ("where", "select", ""),
];
/// The largest number of such methods that a fix rewrites.
const MAX_ARROWS: usize = 8;

/// `list.map(x => x.name)` of JavaScript, also several in a chain.
pub(super) fn rewrite_all(tokens: &Tokens<'_>) -> Option<String> {
    let mut rewritten = first_arrow(tokens)?;
    for _ in 1..MAX_ARROWS {
        match first_arrow(&Tokens::new(&rewritten)) {
            Some(next) => rewritten = next,
            None => break,
        }
    }
    Some(rewritten)
}

fn first_arrow(tokens: &Tokens<'_>) -> Option<String> {
    let arrow = (0..tokens.all.len()).find(|at| tokens.get(*at) == "=>")?;
    let is_bracketed = tokens.get(arrow.checked_sub(1)?) == ")";
    let name_at = arrow.checked_sub(if is_bracketed { 2 } else { 1 })?;
    let open = name_at.checked_sub(if is_bracketed { 2 } else { 1 })?;
    let (method, dot) = (open.checked_sub(1)?, open.checked_sub(2)?);
    let is_call =
        tokens.get(open) == "(" && tokens.get(dot) == "." && tokens.kind(name_at) == Some(Kind::Word);
    let (_, filter, behind) = ARROWS.iter().find(|(known, ..)| is_call && *known == tokens.get(method))?;
    let close = tokens.closing(open)?;
    let body = arrow + 1..close;
    if body.is_empty() {
        return None;
    }
    let variable = tokens.get(name_at);
    let (mut by, mut end) = (String::new(), tokens.all.get(body.start)?.at.start);
    for at in body.clone() {
        let token = tokens.all.get(at)?;
        let is_variable = token.kind == Kind::Word && tokens.get(at) == variable && tokens.get(at - 1) != ".";
        by.push_str(tokens.text.get(end..token.at.start)?);
        by.push_str(if is_variable { "item" } else { tokens.get(at) });
        end = token.at.end;
    }
    // An inner function would need an item of its own.
    if by.contains("=>") {
        return None;
    }
    let by = rewrite::operators(&Tokens::new(&by)).unwrap_or(by);
    let start = tokens.operand_start(dot.checked_sub(1)?, false)?;
    let before = tokens.text.get(..tokens.all.get(start)?.at.start)?;
    let after = tokens.text.get(tokens.all.get(close)?.at.end..)?;
    let filtered = format!("{} | {filter}(by={by}){behind}", tokens.slice(start, dot - 1));
    Some(match after.trim_start().starts_with(['.', '[']) {
        true => format!("{before}({filtered}){after}"),
        false => format!("{before}{filtered}{after}"),
    })
}
