//! How deep an expression nests, told from its text alone.
//!
//! Whatever takes an expression apart (the parser, the compiler, the checks, and what lets go of it again) calls itself
//! once for each level. A chain such as `1 + 1 + 1` is a level for each of its operations, and the parser's own cap counts
//! brackets only: without this one, four kilobytes of minus signs end the process.

use std::ops::Range;

/// The most levels: operations, brackets, members and filters that apply to one another.
pub(super) const MAX_DEPTH: usize = 200;
/// The most brackets inside one another, each of which is many levels to a parser.
pub(super) const MAX_BRACKETS: usize = 50;
/// Words that are operations.
const WORDS: [&str; 7] = ["not", "and", "or", "in", "is", "if", "else"];

/// Where an expression nests deeper than [`MAX_DEPTH`] or [`MAX_BRACKETS`], if it does. What is no expression has some
/// depth, too.
pub(super) fn too_deep(text: &str) -> Option<Range<usize>> {
    // The levels that each open bracket, and everything around them, has come to since its last comma.
    let mut levels = vec![0_usize];
    let mut sum = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let mut deeper = false;
        match c {
            '\'' | '"' => {
                while let Some((_, inner)) = rest.next() {
                    match inner {
                        '\\' => {
                            rest.next();
                        }
                        _ if inner == c => break,
                        _ => {}
                    }
                }
            }
            '(' | '[' | '{' => {
                deeper = true;
                levels.push(0);
            }
            ')' | ']' | '}' if levels.len() > 1 => sum -= levels.pop().unwrap_or_default(),
            ',' | ':' => {
                if let Some(level) = levels.last_mut() {
                    sum -= std::mem::take(level);
                }
            }
            '+' | '-' | '*' | '/' | '%' | '~' | '<' | '>' | '=' | '!' | '|' | '.' => {
                deeper = true;
                // `==`, `**` and the like are one; signs are one each.
                let joined =
                    |next: char| matches!((c, next), ('<' | '>' | '=' | '!', '=') | ('*', '*') | ('/', '/'));
                if rest.peek().is_some_and(|(_, next)| joined(*next)) {
                    rest.next();
                }
            }
            _ if is_word(c) => {
                let mut end = at + c.len_utf8();
                while let Some((next, letter)) = rest.next_if(|(_, next)| is_word(*next)) {
                    end = next + letter.len_utf8();
                }
                deeper = text.get(at..end).is_some_and(|word| WORDS.contains(&word));
            }
            _ => {}
        }
        if deeper {
            // A bracket is a level of what it follows.
            let around =
                if matches!(c, '(' | '[' | '{') { levels.len().saturating_sub(2) } else { levels.len() - 1 };
            levels[around] += 1;
            sum += 1;
            if sum > MAX_DEPTH || levels.len() > MAX_BRACKETS + 1 {
                return Some(at..at + c.len_utf8());
            }
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether as many levels are taken as may be and one more is not.
    #[track_caller]
    fn check(most: usize, of: impl Fn(usize) -> String) {
        assert_eq!(too_deep(&of(most)), None, "{}", of(2));
        assert!(too_deep(&of(most + 1)).is_some(), "{}", of(2));
    }

    #[test]
    fn every_operation_bracket_member_and_filter_is_a_level() {
        for (before, after) in [
            ("-", ""),
            ("not ", ""),
            ("", " + 1"),
            ("", "*1"),
            ("", " ** 1"),
            ("", "//1"),
            ("", " ~ 'a, b'"),
            ("", " and a"),
            ("", " == 1"),
            ("", "<=1"),
            ("", ".a"),
            ("", "[0]"),
            ("", "()"),
            ("", "|first"),
            ("", " in x"),
            ("", " is x"),
        ] {
            check(MAX_DEPTH, |levels| format!("{}a{}", before.repeat(levels), after.repeat(levels)));
        }
        for (before, after) in [("(", ")"), ("[", "]"), ("{'a': ", "}"), ("f(", ")"), ("a[", "]")] {
            check(MAX_BRACKETS, |levels| format!("{}a{}", before.repeat(levels), after.repeat(levels)));
        }
        check(MAX_DEPTH / 4, |levels| format!("{}a{}", "not -(".repeat(levels), ").b".repeat(levels)));
    }

    #[test]
    fn what_stands_side_by_side_is_not_deep() {
        for item in ["a.b", "a + 1", "f(a)", "'x' ~ y", "{'k': a.b}", "[1, 2]"] {
            let list = format!("[{}]", vec![item; 300].join(", "));
            assert_eq!(too_deep(&list), None, "{item}");
        }
        assert_eq!(too_deep(&format!("'{}'", "(+-.".repeat(500))), None);
        assert_eq!(too_deep(&format!("\"{}\"", "\\\"(".repeat(500))), None);
    }

    #[test]
    fn what_is_no_expression_is_looked_at_all_the_same() {
        for text in ["", "'", "\"\\", "))))", "a}}", "é + ß", ",,,:"] {
            assert_eq!(too_deep(text), None, "{text}");
        }
    }
}
