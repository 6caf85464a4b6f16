//! Regular expressions: `matches`, `match`, `matchAll`, `replaceMatches`.

use regex_automata::util::captures::Captures;
use regex_automata::util::interpolate;
use value::budget::{Budget, ENTRY_MEMORY, ITEM_MEMORY};
use value::{Map, Value};

use super::arguments::Arguments;
use crate::failure::Failure;
use crate::pattern::Pattern;
use crate::text_form::MAX_TEXT;

/// The memory of a match without its texts, in bytes: a map of three entries.
const MATCH_MEMORY: usize = ITEM_MEMORY + 3 * ENTRY_MEMORY;

/// `matches(text, pattern)`: true if the pattern matches anywhere.
pub(super) fn matches(
    arguments: &Arguments<'_>,
    pattern: &Pattern,
    budget: &Budget,
) -> Result<Value, Failure> {
    Ok(Value::from(pattern.is_match(&arguments.document("text")?, budget)?))
}

/// `match(text, pattern)`: the first match, or null.
pub(super) fn first_match(
    arguments: &Arguments<'_>,
    pattern: &Pattern,
    budget: &Budget,
) -> Result<Value, Failure> {
    let text = arguments.document("text")?;
    match pattern.matches(&text, budget).next()? {
        Some(captures) => describe(&text, captures, budget),
        None => Ok(Value::Null),
    }
}

/// `matchAll(text, pattern)`: the list of all matches, as many as the memory of the evaluation allows.
pub(super) fn all_matches(
    arguments: &Arguments<'_>,
    pattern: &Pattern,
    budget: &Budget,
) -> Result<Value, Failure> {
    let text = arguments.document("text")?;
    let mut matches = pattern.matches(&text, budget);
    let mut found = Vec::new();
    while let Some(captures) = matches.next()? {
        found.push(describe(&text, captures, budget)?);
    }
    Ok(Value::from(found))
}

/// `replaceMatches(text, pattern, with)`: `${1}` and `${name}` in `with` are groups.
pub(super) fn replace_matches(
    arguments: &Arguments<'_>,
    pattern: &Pattern,
    budget: &Budget,
) -> Result<Value, Failure> {
    let text = arguments.document("text")?;
    let with = arguments.text("with")?.unwrap_or_default();
    budget.allocate(text.len())?;
    let mut replaced = String::with_capacity(text.len());
    let mut behind = 0;
    let mut matches = pattern.matches(&text, budget);
    while let Some(captures) = matches.next()? {
        let Some(whole) = captures.get_match() else { break };
        replaced.push_str(&text[behind..whole.start()]);
        behind = whole.end();
        // The replacement is read for each match.
        budget.charge(with.len())?;
        let before = replaced.len();
        expand(with, &text, captures, &mut replaced);
        budget.allocate(replaced.len() - before)?;
        if replaced.len() > MAX_TEXT {
            return Err(format!("the text is larger than {} MiB", MAX_TEXT >> 20).into());
        }
    }
    replaced.push_str(&text[behind..]);
    Ok(Value::from(replaced))
}

fn expand(with: &str, text: &str, captures: &Captures, replaced: &mut String) {
    interpolate::string(
        with,
        |group, output| output.push_str(captures.get_group(group).map_or("", |span| &text[span])),
        |name| captures.group_info().to_index(captures.pattern()?, name),
        replaced,
    );
}

/// `{text, groups, names}` of a match; a group without a part of the text is null.
fn describe(text: &str, captures: &Captures, budget: &Budget) -> Result<Value, Failure> {
    let shown = |group: usize| captures.get_group(group).map_or(Value::Null, |span| Value::from(&text[span]));
    let length: usize = captures.iter().flatten().map(|span| span.end - span.start).sum();
    let count = captures.group_len();
    budget.allocate(MATCH_MEMORY + 2 * length + count * (ITEM_MEMORY + ENTRY_MEMORY))?;
    let groups: Vec<Value> = (1..count).map(shown).collect();
    let names = captures.pattern().into_iter().flat_map(|id| captures.group_info().pattern_names(id));
    let names = names.enumerate().filter_map(|(at, name)| Some((name?, shown(at))));
    let entries: [(&str, Value); 3] =
        [("text", shown(0)), ("groups", Value::from(groups)), ("names", Value::from(names.collect::<Map>()))];
    Ok(Value::from(Map::from_iter(entries)))
}
