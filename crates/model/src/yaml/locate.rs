//! From an offset in a text's value back to its place in the file.
//!
//! Escapes, folding and indentation make a value differ from what is written. The two are walked side by side once,
//! when the file is parsed; what is kept is a list of points from which on both run in step.

use super::Style;
use crate::diagnostic::Span;

/// Where the parts of a value stand in the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Placement {
    /// (offset in the value, offset in the file), growing in both. Between two points both run in step, the
    /// file never further than the next point.
    points: Vec<(u32, u32)>,
    /// After the last byte of the content (before a closing quote).
    end: u32,
}

impl Placement {
    pub(super) fn locate(&self, offset: usize) -> usize {
        let next = self.points.partition_point(|(value, _)| *value as usize <= offset);
        let limit = self.points.get(next).map_or(self.end, |(_, file)| *file) as usize;
        let Some((value, file)) = next.checked_sub(1).and_then(|last| self.points.get(last)) else {
            return limit;
        };
        (*file as usize + (offset - *value as usize)).min(limit)
    }

    /// Aligns a value with how it is written: `text[span]` in the given style.
    pub(super) fn of(value: &str, text: &str, span: Span, style: Style) -> Placement {
        let quotes = usize::from(style.is_quoted());
        let range = span.range();
        let content = range.start + quotes..(range.end.saturating_sub(quotes)).max(range.start + quotes);
        let Some(raw) = text.get(content.clone()) else {
            return Placement { points: vec![(0, span.start)], end: span.end };
        };
        let mut walk = Walk { value, raw, at_value: 0, at_raw: 0, base: content.start, points: Vec::new() };
        if raw == value {
            walk.mark();
        } else if style.is_block() {
            walk.block();
        } else {
            walk.flow(style);
        }
        let end = Span::at(content.end).start;
        Placement { points: walk.points, end }
    }
}

struct Walk<'a> {
    value: &'a str,
    raw: &'a str,
    at_value: usize,
    at_raw: usize,
    base: usize,
    points: Vec<(u32, u32)>,
}

impl Walk<'_> {
    /// Notes that value and file run in step from here, unless they already do.
    fn mark(&mut self) {
        self.mark_at(self.at_value, self.at_raw);
    }

    fn mark_at(&mut self, value: usize, raw: usize) {
        let point = (Span::at(value).start, Span::at(self.base + raw).start);
        let in_step = |last: &(u32, u32)| point.0.wrapping_sub(last.0) == point.1.wrapping_sub(last.1);
        if !self.points.last().is_some_and(in_step) {
            self.points.push(point);
        }
    }

    fn value_rest(&self) -> &str {
        &self.value[self.at_value..]
    }

    fn raw_rest(&self) -> &str {
        &self.raw[self.at_raw..]
    }

    /// Block scalars differ from their value in white space only, so their words are found one after the other.
    /// White space that begins a line of the value belongs to the word after it.
    fn block(&mut self) {
        loop {
            let spaces = blank_prefix(self.value_rest());
            let skipped = blank_prefix(self.raw_rest());
            let gap = &self.value_rest()[..spaces];
            let indent = spaces - gap.rfind('\n').map_or(0, |at| at + 1);
            let word_at = (self.at_value + spaces, self.at_raw + skipped);
            if indent <= skipped && (indent < spaces || self.at_value == 0) {
                self.mark_at(word_at.0 - indent, word_at.1 - indent);
            }
            (self.at_value, self.at_raw) = word_at;
            let word = word_prefix(self.value_rest());
            if word == 0 || !self.raw_rest().starts_with(&self.value_rest()[..word]) {
                return;
            }
            self.mark();
            self.at_value += word;
            self.at_raw += word;
        }
    }

    /// Plain and quoted scalars: escapes, and line breaks that fold.
    fn flow(&mut self, style: Style) {
        while let Some(c) = self.raw_rest().chars().next() {
            self.mark();
            let advanced = match c {
                '\\' if style == Style::DoubleQuoted => self.escape(),
                '\'' if style == Style::SingleQuoted && self.raw_rest().starts_with("''") => self.step(2, 1),
                ' ' | '\t' | '\r' | '\n' => self.white_space(),
                _ if self.value_rest().starts_with(c) => self.step(c.len_utf8(), c.len_utf8()),
                _ => false,
            };
            if !advanced {
                return;
            }
        }
    }

    fn step(&mut self, raw: usize, value: usize) -> bool {
        self.at_raw += raw;
        self.at_value += value;
        self.at_raw <= self.raw.len() && self.value.is_char_boundary(self.at_value)
    }

    /// One line break is a space; more are one less; without any, white space is itself.
    fn white_space(&mut self) -> bool {
        let raw = blank_prefix(self.raw_rest());
        let breaks = line_breaks(&self.raw_rest()[..raw]);
        self.step(
            raw,
            match breaks {
                0 => raw,
                1 => 1,
                more => more - 1,
            },
        )
    }

    fn escape(&mut self) -> bool {
        let Some(kind) = self.raw_rest()[1..].chars().next() else { return false };
        if matches!(kind, '\r' | '\n') {
            let raw = blank_prefix(&self.raw_rest()[1..]);
            let breaks = line_breaks(&self.raw_rest()[1..=raw]);
            return self.step(1 + raw, breaks.saturating_sub(1));
        }
        let written = match kind {
            'x' => 4,
            'u' => 6,
            'U' => 10,
            other => 1 + other.len_utf8(),
        };
        let Some(decoded) = self.value_rest().chars().next() else { return false };
        // Beyond the basic plane JSON writes two escapes for one character.
        let written = if kind == 'u' && decoded.len_utf8() == 4 { 12 } else { written };
        self.raw.is_char_boundary(self.at_raw + written) && self.step(written, decoded.len_utf8())
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

/// `\n`, `\r\n` and a lone `\r` are each one line break.
fn line_breaks(text: &str) -> usize {
    text.matches('\n').count() + text.matches('\r').count() - text.matches("\r\n").count()
}
