//! Maps an offset in a text's value to its offset in the file.
//!
//! Escapes, folding and indentation make a value differ from its source. Parsing aligns the two once and stores a list of
//! points; from each point on, value and source advance in step.

use super::Style;
use crate::diagnostic::Span;

/// The mapping from offsets in a value to offsets in the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SourceMap {
    /// Pairs of (offset in the value, offset in the file), both ascending. Between two points value and file advance in step,
    /// up to the file offset of the next point.
    points: Vec<(u32, u32)>,
    /// End of the content in the file (before a closing quote).
    end: u32,
}

impl SourceMap {
    pub(super) fn locate(&self, offset: usize) -> usize {
        let next = self.points.partition_point(|(value, _)| *value as usize <= offset);
        let limit = self.points.get(next).map_or(self.end, |(_, file)| *file) as usize;
        let Some((value, file)) = next.checked_sub(1).and_then(|last| self.points.get(last)) else {
            return limit;
        };
        (*file as usize + (offset - *value as usize)).min(limit)
    }

    /// Aligns a value with its source `text[span]`, written in the given style.
    pub(super) fn align(value: &str, text: &str, span: Span, style: Style) -> SourceMap {
        let quotes = usize::from(style.is_quoted());
        let range = span.range();
        let content = range.start + quotes..(range.end.saturating_sub(quotes)).max(range.start + quotes);
        let Some(raw) = text.get(content.clone()) else {
            return SourceMap { points: vec![(0, span.start)], end: span.end };
        };
        let mut aligner =
            Aligner { value, raw, value_offset: 0, raw_offset: 0, base: content.start, points: Vec::new() };
        if raw == value {
            aligner.add_point();
        } else if style.is_block() {
            aligner.align_block();
        } else {
            aligner.align_flow(style);
        }
        let end = Span::at(content.end).start;
        SourceMap { points: aligner.points, end }
    }
}

struct Aligner<'a> {
    value: &'a str,
    raw: &'a str,
    value_offset: usize,
    raw_offset: usize,
    base: usize,
    points: Vec<(u32, u32)>,
}

impl Aligner<'_> {
    /// Adds a point at the current offsets, unless they follow from the last point.
    fn add_point(&mut self) {
        self.add_point_at(self.value_offset, self.raw_offset);
    }

    fn add_point_at(&mut self, value: usize, raw: usize) {
        let point = (Span::at(value).start, Span::at(self.base + raw).start);
        let in_step = |last: &(u32, u32)| point.0.wrapping_sub(last.0) == point.1.wrapping_sub(last.1);
        if !self.points.last().is_some_and(in_step) {
            self.points.push(point);
        }
    }

    fn remaining_value(&self) -> &str {
        &self.value[self.value_offset..]
    }

    fn remaining_raw(&self) -> &str {
        &self.raw[self.raw_offset..]
    }

    /// Aligns a block scalar, which differs from its value in white space only, word by word. Leading white space of a line
    /// of the value belongs to the word after it.
    fn align_block(&mut self) {
        loop {
            let spaces = blank_prefix(self.remaining_value());
            let skipped = blank_prefix(self.remaining_raw());
            let gap = &self.remaining_value()[..spaces];
            let indent = spaces - gap.rfind('\n').map_or(0, |at| at + 1);
            let word_start = (self.value_offset + spaces, self.raw_offset + skipped);
            if indent <= skipped && (indent < spaces || self.value_offset == 0) {
                self.add_point_at(word_start.0 - indent, word_start.1 - indent);
            }
            (self.value_offset, self.raw_offset) = word_start;
            let word = word_prefix(self.remaining_value());
            if word == 0 || !self.remaining_raw().starts_with(&self.remaining_value()[..word]) {
                return;
            }
            self.add_point();
            self.value_offset += word;
            self.raw_offset += word;
        }
    }

    /// Aligns a plain or quoted scalar: resolves escapes and folded line breaks.
    fn align_flow(&mut self, style: Style) {
        while let Some(c) = self.remaining_raw().chars().next() {
            self.add_point();
            let advanced = match c {
                '\\' if style == Style::DoubleQuoted => self.escape(),
                '\'' if style == Style::SingleQuoted && self.remaining_raw().starts_with("''") => {
                    self.advance(2, 1)
                }
                ' ' | '\t' | '\r' | '\n' => self.white_space(),
                _ if self.remaining_value().starts_with(c) => self.advance(c.len_utf8(), c.len_utf8()),
                _ => false,
            };
            if !advanced {
                return;
            }
        }
    }

    fn advance(&mut self, raw: usize, value: usize) -> bool {
        self.raw_offset += raw;
        self.value_offset += value;
        self.raw_offset <= self.raw.len() && self.value.is_char_boundary(self.value_offset)
    }

    /// Advances over white space. One line break folds to a space, `n` of them to `n - 1` line breaks.
    fn white_space(&mut self) -> bool {
        let raw = blank_prefix(self.remaining_raw());
        let breaks = line_breaks(&self.remaining_raw()[..raw]);
        self.advance(
            raw,
            match breaks {
                0 => raw,
                1 => 1,
                more => more - 1,
            },
        )
    }

    fn escape(&mut self) -> bool {
        let Some(kind) = self.remaining_raw()[1..].chars().next() else { return false };
        if matches!(kind, '\r' | '\n') {
            let raw = blank_prefix(&self.remaining_raw()[1..]);
            let breaks = line_breaks(&self.remaining_raw()[1..=raw]);
            return self.advance(1 + raw, breaks.saturating_sub(1));
        }
        let length = match kind {
            'x' => 4,
            'u' => 6,
            'U' => 10,
            other => 1 + other.len_utf8(),
        };
        let Some(decoded) = self.remaining_value().chars().next() else { return false };
        // JSON escapes a character outside the Basic Multilingual Plane as a surrogate pair.
        let length = if kind == 'u' && decoded.len_utf8() == 4 { 12 } else { length };
        self.raw.is_char_boundary(self.raw_offset + length) && self.advance(length, decoded.len_utf8())
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn blank_prefix(text: &str) -> usize {
    text.find(|c| !is_blank(c)).unwrap_or(text.len())
}

fn word_prefix(text: &str) -> usize {
    text.find(is_blank).unwrap_or(text.len())
}

/// Counts line breaks: `\n`, `\r\n` or a lone `\r`.
fn line_breaks(text: &str) -> usize {
    text.matches('\n').count() + text.matches('\r').count() - text.matches("\r\n").count()
}
