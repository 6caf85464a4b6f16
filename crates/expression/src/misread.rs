//! Finds literal texts that the expression reads differently than their author: a regular expression passed to a filter that takes
//! plain text, and a list written as one text behind `in`.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr};
use minijinja::machinery::parse_expr;

use super::comparison::{range, visit_children};
use super::dependencies::Item;

/// A literal text that is read otherwise than it was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisreadText {
    /// The location of the text with its quotes, in bytes of the expression's text.
    pub at: Range<usize>,
    /// The meaning that the text does not have.
    pub meaning: Meaning,
    /// The literal to write in its place, if that is known.
    pub meant: Option<String>,
}

/// A meaning that a literal text does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A regular expression, as the argument of this filter.
    Pattern(&'static str),
    /// A list of values, behind `in`.
    List,
}

/// Filters that take plain text.
const PLAIN: [&str; 2] = ["replace", "split"];

/// Finds all such texts of an expression.
pub(super) fn find_misread_texts(text: &str) -> Vec<MisreadText> {
    // Most expressions have neither.
    if !text.contains(" in") && !PLAIN.iter().any(|name| text.contains(name)) {
        return Vec::new();
    }
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let mut found = Vec::new();
    visit(&parsed, text, &mut found);
    found
}

fn visit(expr: &Expr<'_>, text: &str, found: &mut Vec<MisreadText>) {
    match expr {
        Expr::Filter(filter) => {
            let name = PLAIN.iter().find(|name| **name == filter.name);
            if let (Some(name), Some(CallArg::Pos(pattern))) = (name, filter.args.first())
                && let Some(written) = literal_text(pattern)
                && let Some(plain) = pattern_of(written)
            {
                let meant = plain.map(|plain| format!("'{plain}'"));
                found.push(MisreadText { at: range(pattern, text), meaning: Meaning::Pattern(name), meant });
            }
        }
        Expr::BinOp(op) if matches!(op.op, BinOpKind::In) => list(&op.left, &op.right, text, found),
        Expr::Compare(chain) => {
            let mut left = &chain.expr;
            for compared in &chain.ops {
                if matches!(compared.op, CompareOpKind::In | CompareOpKind::NotIn) {
                    list(left, &compared.expr, text, found);
                }
                left = &compared.expr;
            }
        }
        _ => {}
    }
    visit_children(expr, &Item::default(), &mut |part, _| visit(part, text, found));
}

fn literal_text<'e>(expr: &'e Expr<'_>) -> Option<&'e str> {
    let Expr::Const(constant) = expr else { return None };
    constant.value.as_str()
}

/// Adds `x in 'a, b'`.
fn list(left: &Expr<'_>, right: &Expr<'_>, text: &str, found: &mut Vec<MisreadText>) {
    if matches!(left, Expr::Const(_)) {
        return;
    }
    let Some(items) = literal_text(right).and_then(items_of) else { return };
    let items: Vec<String> = items.iter().map(|item| format!("'{item}'")).collect();
    let meant = Some(format!("[{}]", items.join(", ")));
    found.push(MisreadText { at: range(right, text), meaning: Meaning::List, meant });
}

/// The items of a text such as `small, large`: words with commas between them, one of at least two letters.
fn items_of(text: &str) -> Option<Vec<&str>> {
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_word = |item: &&str| {
        !item.is_empty() && item.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let is_list =
        items.len() > 1 && items.iter().all(is_word) && items.iter().any(|item| item.chars().count() > 1);
    is_list.then_some(items)
}

/// True for a text that is certainly a regular expression.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    pattern_of(text).is_some()
}

/// `Some` for a text that is certainly a regular expression; with the plain text that it finds, if it is one.
fn pattern_of(text: &str) -> Option<Option<&str>> {
    // `/,/g` of JavaScript.
    if let Some((inside, flags)) = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'))
        && !flags.is_empty()
        && flags.chars().all(|c| "dgimsuy".contains(c))
        && !inside.is_empty()
    {
        let is_plain = |c: char| matches!(c, ' ' | ',' | ';' | ':' | '-' | '_' | '"' | '#');
        if inside.chars().all(is_plain) {
            return Some(Some(inside).filter(|_| flags.contains('g')));
        }
        return (inside.contains(['[', '(', '\\', '^', '$', '+', '*'])).then_some(None);
    }
    (is_class(text) || has_class_of_range(text) || has_any(text)).then_some(None)
}

/// True for `\s`, `\d+`, `\W*` and the like. `C:\data` has a backslash and a letter too, but nothing that repeats it.
fn is_class(text: &str) -> bool {
    text.match_indices('\\').any(|(at, _)| {
        let mut rest = text[at + 1..].chars();
        let is_letter = rest.next().is_some_and(|c| "dDwWsS".contains(c));
        let next = rest.next();
        is_letter && (text.len() == 2 || next.is_some_and(|c| matches!(c, '+' | '*' | '?' | '{')))
    })
}

/// True for `[0-9]`, `[^a-z]` and the like, also with several ranges.
fn has_class_of_range(text: &str) -> bool {
    text.match_indices('[').any(|(at, _)| {
        let Some((class, _)) = text[at + 1..].split_once(']') else { return false };
        ["0-9", "a-z", "A-Z"].iter().any(|range| class.contains(range))
    })
}

/// True for `.*` and `.+` that do not follow a dot or a star, as in `*.*`.
fn has_any(text: &str) -> bool {
    [".*", ".+"].iter().any(|any| {
        text.match_indices(any).any(|(at, _)| !text[..at].ends_with(['.', '*', ' ']) && text.len() > 2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_expression_given_to_a_filter_is_reported() {
        for (text, meant) in [
            (r"a | replace('[0-9]+', '')", None),
            (r"a | replace('/\s+/g', ' ')", None),
            (r"a | replace('/,/g', ';')", Some("','")),
            (r"a | replace('\s', '')", None),
            (r"a | upper | split('\s*,\s*') | first", None),
            (r"a | replace('<.*>', '') ~ b", None),
            (r"a | replace('[^A-Za-z_]', '')", None),
        ] {
            let found = find_misread_texts(text);
            let [found] = found.as_slice() else { panic!("{text}: {found:?}") };
            assert!(
                text[found.at.clone()].starts_with('\'') && text[found.at.clone()].ends_with('\''),
                "{text}"
            );
            assert!(matches!(found.meaning, Meaning::Pattern(_)), "{text}");
            assert_eq!(found.meant.as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn a_plain_text_given_to_a_filter_is_not_reported() {
        for text in [
            r"a | replace('C:\\data', '')",
            r"a | replace('C:\data', '')",
            "a | replace('/api/v1', '')",
            "a | replace('/items/g', '')",
            "a | replace('[name]', b)",
            "a | replace('*.*', b)",
            "a | replace('...', b)",
            "a | replace('(c)', b)",
            "a | replace('$', b)",
            "a | replace('a.b', '+')",
            "a | replace('^', '')",
            "a | replace('-', '[0-9]')",
            "a | replace('1-9', '')",
            "a | split('||')",
            r"a | split('\n')",
            "a | split('. ')",
            "a | replace(b, '[0-9]')",
        ] {
            assert_eq!(find_misread_texts(text), [], "{text}");
        }
    }

    #[test]
    fn a_list_written_as_one_text_is_reported() {
        for (text, meant) in [
            ("a.b in 'small, large'", "['small', 'large']"),
            ("a.b not in 'x1,x2,x3'", "['x1', 'x2', 'x3']"),
            ("not a in \"de-AT, de\"", "['de-AT', 'de']"),
        ] {
            let found = find_misread_texts(text);
            let [found] = found.as_slice() else { panic!("{text}: {found:?}") };
            assert_eq!(found.meant.as_deref(), Some(meant), "{text}");
        }
        for text in [
            "'a' in 'b, cd'",
            "a in ',;.'",
            "a in 'a,b'",
            "a in 'Hello, big world'",
            "a in b",
            "a in ['x, y']",
        ] {
            assert_eq!(find_misread_texts(text), [], "{text}");
        }
    }
}
