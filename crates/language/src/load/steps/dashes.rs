//! Steps written as a mapping without dashes: the diagnostic, and the intended list.

use text::diagnostic::{Diagnostic, Source, Span};
use text::yaml::{Entry, Map, Node};

use super::present_verbs;
use crate::load::common::shorten;
use crate::load::keys::is_identifier;

/// The diagnostic for a mapping in place of a list of steps.
pub(super) fn without_dashes(node: &Node, map: &Map, name: &str, source: &Source) -> Diagnostic {
    let message = format!("expected a list for `{}`, found a mapping", shorten(name));
    let diagnostic = Diagnostic::error("wrong-type", message, node.head());
    let of_steps = |entry: &Entry| entry.value.as_map().is_some_and(|map| !present_verbs(map).is_empty());
    match map.iter().next() {
        Some(entry) if !present_verbs(map).is_empty() => diagnostic
            .help(format!(
                "begin each step with a dash, and indent its other keys as far: `- {}: …`",
                shorten(&entry.key)
            ))
            .replacement(one_step(node, source)),
        Some(entry) if of_steps(entry) => diagnostic
            .help(format!(
                "begin each step with a dash, and write its name as `id`: `- id: {}`",
                shorten(&entry.key)
            ))
            .replacement(named_steps(node, map, source)),
        _ => diagnostic.help("begin each step with a dash: `- action: …`"),
    }
}

/// The mapping as the single item of a list.
fn one_step(node: &Node, source: &Source) -> Option<(Span, String)> {
    let text = source.slice(node.span);
    if text.starts_with('{') {
        return Some((node.span, format!("[{text}]")));
    }
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(index, line)| match (index, line.trim().is_empty()) {
            (0, _) => format!("- {line}"),
            (_, true) => line.to_owned(),
            (_, false) => format!("  {line}"),
        })
        .collect();
    Some((node.span, lines.join("\n")))
}

/// The entries of a block mapping as steps, each with its key as `id`. The keys of a step must be indented as far as the
/// keys after a dash.
fn named_steps(node: &Node, map: &Map, source: &Source) -> Option<(Span, String)> {
    let (text, mut end) = (source.text(), node.span.start as usize);
    let column = |at: u32| source.position(at as usize).column;
    let mut meant = String::new();
    for entry in map {
        let key = entry.key_span;
        let is_indented =
            column(entry.value.as_map()?.iter().next()?.key_span.start) == column(key.start) + 2;
        let colon = text.get(key.end as usize..)?.starts_with(':').then_some(key.end as usize + 1)?;
        let is_block = text.get(colon..)?.trim_start_matches(' ').starts_with(['\n', '\r', '#']);
        if !is_indented || !is_block || !is_identifier(&entry.key) || entry.value.get("id").is_some() {
            return None;
        }
        meant.push_str(text.get(end..key.start as usize)?);
        meant.push_str(&format!("- id: {}", entry.key));
        end = colon;
    }
    meant.push_str(text.get(end..node.span.end as usize)?);
    Some((node.span, meant))
}
