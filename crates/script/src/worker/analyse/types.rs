//! Detects TypeScript: if QuickJS fails at a type, the message says that types are not supported.

use crate::module_info::SyntaxError;

/// Keywords that start TypeScript-only declarations.
const DECLARATIONS: [&str; 7] =
    ["interface", "type", "enum", "declare", "namespace", "abstract", "import type"];
/// Modifiers of class members.
const MODIFIERS: [&str; 4] = ["private", "public", "protected", "readonly"];

/// Returns the error, with an explanation if a type caused it.
pub(super) fn explain(source: &str, error: SyntaxError) -> SyntaxError {
    let line = source.lines().nth(error.at.line.saturating_sub(1) as usize).unwrap_or_default();
    let column = error.at.column.saturating_sub(1) as usize;
    let at = line.char_indices().nth(column).map_or(line.len(), |(index, _)| index);
    let (before, rest) = line.split_at(at);
    match found(before, rest).or_else(|| generic(line)) {
        Some(what) => {
            let message = format!(
                "code is JavaScript and takes no types: {what}, or translate it from TypeScript before"
            );
            SyntaxError { message, ..error }
        }
        None => error,
    }
}

/// The edit that removes a type at this node, if it is one.
fn found(before: &str, rest: &str) -> Option<&'static str> {
    let before = before.trim_end();
    let begins = |words: &[&str], text: &str| words.iter().any(|word| is_word_at_start(text, word));
    let whole = format!("{before} {rest}");
    if begins(&DECLARATIONS, whole.trim_start().trim_start_matches("export ").trim_start()) {
        return Some("leave the declaration out");
    }
    if MODIFIERS.iter().any(|word| before.ends_with(word)) {
        return Some("leave the modifier out");
    }
    if rest.starts_with("as ") || rest.starts_with("satisfies ") {
        return Some("leave out what begins with `as` or `satisfies`");
    }
    let follows_name =
        before.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '$' | ')' | ']' | '}'));
    let after = rest.get(1..).unwrap_or_default();
    let names_a_type = after
        .trim_start()
        .starts_with(|first: char| first.is_alphabetic() || matches!(first, '{' | '[' | '('));
    match rest.chars().next() {
        Some(':') if follows_name && names_a_type => Some("write `name` in place of `name: type`"),
        Some('?') if after.starts_with(':') => Some("write `name` in place of `name?: type`"),
        Some('!') if follows_name && after.starts_with(['.', ')', ';', ',', '[']) => {
            Some("leave the `!` out")
        }
        Some('<') if after.starts_with(char::is_alphabetic) => Some("leave out what is in `<…>`"),
        _ => None,
    }
}

/// `new Map<string, number>()`: QuickJS parses comparisons and fails later.
fn generic(line: &str) -> Option<&'static str> {
    let (_, created) = line.split_once("new ")?;
    let (name, rest) = created.split_once('<')?;
    let (inside, behind) = rest.split_once('>')?;
    let is_name = !name.is_empty() && name.chars().all(char::is_alphanumeric);
    let is_types = inside.chars().all(|character| character.is_alphanumeric() || ", []|".contains(character));
    (is_name && is_types && behind.starts_with('(')).then_some("leave out what is in `<…>`")
}

fn is_word_at_start(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| {
        rest.trim_start().starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '$' | '{'))
            && rest.starts_with(' ')
    })
}
