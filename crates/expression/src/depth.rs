//! Limits the nesting of an expression, measured on its text.
//!
//! The parser, the compiler, the checks and the destructors recurse once per level. A chain such as `1 + 1 + 1` has a level
//! per operation, and the parser's own limit covers brackets only: without this limit, four kilobytes of minus signs overflow
//! the stack.

use std::ops::Range;

/// The maximum number of levels: nested operations, brackets, members and filters.
pub(super) const MAX_DEPTH: usize = 200;
/// The maximum nesting of brackets, each of which costs a parser several levels.
pub(super) const MAX_BRACKETS: usize = 50;
/// Operators that are words.
const WORDS: [&str; 7] = ["not", "and", "or", "in", "is", "if", "else"];

/// The range at which an expression exceeds [`MAX_DEPTH`] or [`MAX_BRACKETS`]; `None` if it does not. Invalid expressions are
/// measured too.
pub(super) fn find_excess_depth(text: &str) -> Option<Range<usize>> {
    // The levels of each open bracket, outermost first, since its last comma.
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
                // `==`, `**` and the like count once; signs count one each.
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
            // A bracket is a level of the enclosing expression.
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

    /// Asserts that `max` levels are accepted and one more is not.
    #[track_caller]
    fn check(max: usize, build: impl Fn(usize) -> String) {
        assert_eq!(find_excess_depth(&build(max)), None, "{}", build(2));
        assert!(find_excess_depth(&build(max + 1)).is_some(), "{}", build(2));
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
    fn siblings_add_no_depth() {
        for item in ["a.b", "a + 1", "f(a)", "'x' ~ y", "{'k': a.b}", "[1, 2]"] {
            let list = format!("[{}]", vec![item; 300].join(", "));
            assert_eq!(find_excess_depth(&list), None, "{item}");
        }
        assert_eq!(find_excess_depth(&format!("'{}'", "(+-.".repeat(500))), None);
        assert_eq!(find_excess_depth(&format!("\"{}\"", "\\\"(".repeat(500))), None);
    }

    #[test]
    fn invalid_expressions_are_measured_too() {
        for text in ["", "'", "\"\\", "))))", "a}}", "é + ß", ",,,:"] {
            assert_eq!(find_excess_depth(text), None, "{text}");
        }
    }
}
