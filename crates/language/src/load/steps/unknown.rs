//! Unknown keys of a step, each with a suggestion.

use std::collections::HashSet;

use text::diagnostic::{Diagnostic, nearest};
use text::yaml::{Entry, MapReader};

use super::super::common::shorten;
use super::super::keys::is_identifier;
use super::{STEP_KEYS, VERBS, VerbSpec};

/// True for a step with an action and no `with`: its unknown keys may be inputs.
fn is_input_beside(reader: &MapReader<'_, '_>, verb: Option<&VerbSpec>) -> bool {
    verb.is_some_and(|verb| verb.word == "action") && !reader.has("with")
}

/// Reports the keys of a step that no verb declares.
pub(super) fn report_unknown(
    reader: &MapReader<'_, '_>,
    verb: Option<&VerbSpec>,
    others: &HashSet<&str>,
    beside: &[&Entry],
) {
    let known: Vec<&str> = STEP_KEYS
        .iter()
        .map(|key| key.name)
        .chain(verb.into_iter().flat_map(|verb| verb.keys.iter().map(|key| key.name)))
        .chain(VERBS.iter().map(|row| row.word).filter(|_| verb.is_none()))
        .collect();
    let mut allowed: Vec<&str> = Vec::with_capacity(known.len());
    known.into_iter().for_each(|name| {
        if !allowed.contains(&name) {
            allowed.push(name);
        }
    });
    let free: Vec<&str> = allowed.iter().copied().filter(|name| !reader.has(name)).collect();
    let is_told = |entry: &&Entry| {
        others.contains(entry.key.as_str()) || beside.iter().any(|told| std::ptr::eq(*told, *entry))
    };
    for entry in reader.undeclared_entries().filter(|entry| !is_told(entry)) {
        let message = format!("unknown key `{}` in {}", shorten(&entry.key), reader.what());
        let foreign = reader.foreign(&entry.key);
        let near = reader.corrected_key(entry).or_else(|| {
            if foreign.is_some() {
                return None;
            }
            nearest(&entry.key, free.iter().copied())
        });
        let diagnostic = Diagnostic::error("unknown-key", message, entry.key_span)
            .label(format!("not a key of {}", reader.what()))
            .nearest(near)
            .allowed(allowed.iter().copied());
        let diagnostic = match foreign {
            Some(foreign) => diagnostic.help(foreign.help).replacement(reader.rewritten(entry)),
            None => explain_unknown(reader, verb, entry, near.is_some(), diagnostic),
        };
        reader.diagnostics().push(diagnostic);
    }
}

/// Adds the suggestion for an unknown key that is not of another tool: an action as a key, an input beside its action, a key
/// of another verb.
fn explain_unknown(
    reader: &MapReader<'_, '_>,
    verb: Option<&VerbSpec>,
    entry: &Entry,
    has_near: bool,
    diagnostic: Diagnostic,
) -> Diagnostic {
    let key = shorten(&entry.key);
    let value = reader.diagnostics().source().slice(entry.value.span);
    let is_one_line = !value.contains(['\n', '\r']);
    let whole = entry.key_span.cover(entry.value.span);
    let is_action = entry
        .key
        .split_once('.')
        .is_some_and(|(connector, action)| is_identifier(connector) && is_identifier(action));
    if is_action {
        let help = format!("write `action: {key}`, with its inputs below `with`");
        let diagnostic = diagnostic.nearest(None::<String>).help(help);
        let is_map = entry.value.as_map().is_some() && value.starts_with('{');
        if is_map && is_one_line && !reader.has("with") {
            let text = format!("action: {}{}with: {value}", entry.key, reader.separator(entry));
            return diagnostic.replace(whole, text);
        }
        return diagnostic;
    }
    if !has_near && is_input_beside(reader, verb) {
        let help = format!("the inputs of an action stand below `with`: `with: {{{key}: …}}`");
        let diagnostic = diagnostic.help(help);
        let is_plain = !value.contains([',', '[', ']', '{', '}']) || value.starts_with(['"', '\'']);
        let is_alone = reader.undeclared_entries().count() == 1 && !value.is_empty();
        if is_alone && is_one_line && is_plain {
            return diagnostic.replace(whole, format!("with: {{{}: {value}}}", entry.key));
        }
        return diagnostic;
    }
    let owners: Vec<String> = VERBS
        .iter()
        .filter(|row| row.keys.iter().any(|key| key.name == entry.key))
        .map(|row| format!("`{}`", row.word))
        .collect();
    if owners.is_empty() {
        return diagnostic;
    }
    diagnostic.nearest(None::<String>).help(format!("it belongs to {}", owners.join(" and ")))
}
