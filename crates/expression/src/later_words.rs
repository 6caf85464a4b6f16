//! Words that came after release 0.1.0. A daemon of that release cannot evaluate an expression with one of them.

use super::Expression;
use super::tokens::{Kind, Tokens};

/// Filters and functions.
const CALLS: [&str; 13] = [
    "coalesce",
    "dateDiff",
    "decimal",
    "duration",
    "flatten",
    "match",
    "matchAll",
    "matches",
    "parseUrl",
    "replaceMatches",
    "startOf",
    "takeWhile",
    "toMap",
];
/// Tells whether a call has an argument since then.
type IsLater = fn(&str) -> bool;
/// Arguments, each with the calls that have it since then.
const ARGUMENTS: [(&str, IsLater); 2] =
    [("by", |call| call != "dictsort"), ("timezone", |call| call == "addDuration")];
const TESTS: [&str; 1] = ["file"];

impl Expression {
    /// Returns the first of these words that the expression uses; `None` if release 0.1.0 knows all of them.
    #[must_use]
    pub fn later_word(&self) -> Option<&'static str> {
        later_word(self.text())
    }
}

fn later_word(text: &str) -> Option<&'static str> {
    let words = CALLS.iter().chain(ARGUMENTS.iter().map(|(name, _)| name)).chain(&TESTS);
    // Most expressions contain none of these texts.
    if text.starts_with('$') || !words.into_iter().any(|word| text.contains(word)) {
        return None;
    }
    let tokens = Tokens::new(text);
    // The names before the open parentheses.
    let mut open = Vec::new();
    for at in 0..tokens.all.len() {
        let (token, next) = (tokens.get(at), tokens.get(at + 1));
        let before = |distance: usize| at.checked_sub(distance).map_or("", |index| tokens.get(index));
        match tokens.kind(at) {
            Some(Kind::Open) => open.push(before(1)),
            Some(Kind::Close) => drop(open.pop()),
            Some(Kind::Word) => {
                let is_called = before(1) == "|" || next == "(";
                let is_test = before(1) == "is" || (before(1) == "not" && before(2) == "is");
                let is_argument = next == "=" && matches!(before(1), "(" | ",");
                let call = CALLS.iter().find(|name| is_called && **name == token);
                let test = TESTS.iter().find(|name| is_test && **name == token);
                let argument = ARGUMENTS.iter().find(|(name, is_later)| {
                    is_argument && *name == token && open.last().is_some_and(|call| is_later(call))
                });
                if let Some(word) = call.or(test).or(argument.map(|(name, _)| name)) {
                    return Some(word);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::later_word;

    #[test]
    fn words_of_later_releases_are_found_where_they_are_used_as_such() {
        let found = [
            ("vars.a | coalesce(1)", "coalesce"),
            ("coalesce(vars.a, 1)", "coalesce"),
            ("vars.rows | sort(by=item.due)", "by"),
            ("vars.rows | map(attribute='a') | select(by=item is file)", "by"),
            ("vars.a is not file", "file"),
            ("addDuration(vars.a, '1d', timezone='Europe/Berlin')", "timezone"),
        ];
        for (text, word) in found {
            assert_eq!(later_word(text), Some(word), "{text}");
        }
    }

    #[test]
    fn other_uses_of_these_texts_are_not_later_words() {
        for text in [
            "vars.coalesce",
            "'coalesce(' ~ vars.by",
            "vars.rows | dictsort(by='value')",
            "formatDate(vars.a, '%F', timezone='UTC')",
            "parseDate(vars.a, timezone='UTC') ~ addDuration(vars.a, '1d')",
            "$.steps[?match(@.a, 'x')]",
            "vars.file == trigger.match",
        ] {
            assert_eq!(later_word(text), None, "{text}");
        }
    }
}
