//! Replaces a part of a scalar, so that the file reads as meant: the new text is escaped, or the whole scalar is quoted.

use super::{Kind, Node, Style, Text, error_messages::quote, parse};
use crate::diagnostic::{Diagnostics, Source, Span};
use std::ops::Range;

/// The replacement of `span`, which is within a scalar of the file, by `text`. `None` if the scalar has escapes at that place.
#[must_use]
pub fn replace_at(source: &Source, span: Span, text: &str) -> Option<(Span, String)> {
    if is_harmless(text) {
        return Some((span, text.to_owned()));
    }
    let tree = parse(&Diagnostics::new(source.clone()))?;
    let scalar = scalar_at(&tree, span)?;
    let offset = |at: u32| (0..=scalar.value.len()).find(|offset| scalar.locate(*offset) == at as usize);
    let start = offset(span.start)?;
    replace_within(source, scalar, start..start + span.len(), text)
}

/// As [`replace_at`], for a range of the value of a scalar.
pub fn replace_within(
    source: &Source,
    scalar: &Text,
    range: Range<usize>,
    text: &str,
) -> Option<(Span, String)> {
    let span = scalar.locate_span(range.start, range.end);
    if source.slice(span) != scalar.value.get(range.clone())? || text.contains(['\n', '\r']) {
        return None;
    }
    match scalar.style {
        Style::SingleQuoted => Some((span, text.replace('\'', "''"))),
        Style::DoubleQuoted => Some((span, text.replace('\\', "\\\\").replace('"', "\\\""))),
        Style::Literal | Style::Folded => Some((span, text.to_owned())),
        Style::Plain => {
            let all = scalar.locate_span(0, scalar.value.len());
            let mut value = scalar.value.clone();
            value.replace_range(range, text);
            if is_plain(&value)
                && (!value.contains([',', '[', ']', '{', '}']) || is_block(source.text(), all))
            {
                return Some((span, text.to_owned()));
            }
            // The scalar needs quotes now.
            (source.slice(all) == scalar.value).then(|| (all, quote(&value)))
        }
    }
}

/// True if a text means the same in every style, wherever it stands in a scalar that is not empty.
fn is_harmless(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '|' | '(' | ')' | ' '))
        && !text.starts_with('|')
}

/// True if a text can be a scalar without quotes outside of brackets.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let begins_other = first.is_none_or(|c| "'\"[]{}*&!|>%@`#,?:-".contains(c)) && !text.starts_with("${{");
    !begins_other && !text.contains(": ") && !text.contains(" #") && !text.ends_with(':')
}

/// True if a scalar without quotes is the last thing of its line, and not in brackets of several lines.
fn is_block(source: &str, scalar: Span) -> bool {
    let range = scalar.range();
    let (Some(before), Some(after)) = (source.get(..range.start), source.get(range.end..)) else {
        return false;
    };
    let lead = before.rsplit('\n').next().unwrap_or_default();
    let mut lines = after.lines();
    let rest = lines.next().unwrap_or_default().trim_start();
    let next = lines.map(str::trim_start).find(|line| !line.is_empty()).unwrap_or_default();
    !lead.contains(['{', '[', ','])
        && (rest.is_empty() || rest.starts_with('#'))
        && !next.starts_with(['}', ']'])
}

/// The scalar that covers a span.
fn scalar_at(node: &Node, span: Span) -> Option<&Text> {
    let covers = node.span.start <= span.start && span.end <= node.span.end;
    match &node.kind {
        Kind::String(text) if covers => Some(text),
        Kind::List(items) => items.iter().find_map(|item| scalar_at(item, span)),
        Kind::Map(map) => map.iter().find_map(|entry| scalar_at(&entry.value, span)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file with `x` replaced by a text.
    #[track_caller]
    fn check(file: &str, text: &str, expected: &str) {
        let source = Source::new("a.yaml", file);
        let at = file.find('x').unwrap_or_default();
        let replaced = replace_at(&source, Span::new(at, at + 1), text).map(|(span, text)| {
            let mut file = file.to_owned();
            file.replace_range(span.range(), &text);
            file
        });
        assert_eq!(replaced.as_deref(), Some(expected), "{file}");
    }

    #[test]
    fn a_replacement_is_escaped_for_the_style_of_its_scalar() {
        check("a: ${{ x }}\n", "f('a', b)", "a: ${{ f('a', b) }}\n");
        check("a: '${{ x }}'\n", "f('a')", "a: '${{ f(''a'') }}'\n");
        check("a: \"${{ x }}\"\n", "f(\"a\\\")", "a: \"${{ f(\\\"a\\\\\\\") }}\"\n");
        check("a: |\n  ${{ x }}\n", "{'a': 1}", "a: |\n  ${{ {'a': 1} }}\n");
        check("a: b x # comment\n", "f(a, c)", "a: b f(a, c) # comment\n");
        check("{a: x}\n", "b | c", "{a: b | c}\n");
    }

    #[test]
    fn a_plain_scalar_is_quoted_if_the_text_would_end_it() {
        check("a: b x\n", "c: d", "a: \"b c: d\"\n");
        check("a: b x\n", "c #d", "a: \"b c #d\"\n");
        check("{a: b x}\n", "f(a, c)", "{a: \"b f(a, c)\"}\n");
        check("{\n  a: b x\n}\n", "f(a, c)", "{\n  a: \"b f(a, c)\"\n}\n");
        check("a: x\n", "'a' in b", "a: \"'a' in b\"\n");
    }
}
