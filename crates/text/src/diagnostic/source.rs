//! Source texts, and the conversion of byte offsets to lines and columns.

use super::Span;

/// The byte order mark that some editors write at the start of a file. It does not count as a column.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of a file and its display path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: String,
    text: Box<str>,
    /// The offset of the first byte of each line. Never empty. `u32` as in spans.
    line_starts: Box<[u32]>,
}

/// A position as line and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters (Unicode scalar values).
    pub column: usize,
}

impl Source {
    /// Creates a source from its display path and text.
    #[must_use]
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text: Box<str> = text.into().into();
        let first = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        let starts = std::iter::once(first).chain(text.match_indices('\n').map(|(offset, _)| offset + 1));
        let line_starts = starts.map(|start| Span::at(start).start).collect();
        Source { path: path.into(), text, line_starts }
    }

    /// Returns the display path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of lines; an empty file has one.
    #[must_use]
    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// Returns the text of a span, after [`clamp`](Self::clamp).
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        &self.text[self.clamp(span).range()]
    }

    /// Clamps a span to the file and extends it to whole characters. Accepts any span.
    #[must_use]
    pub fn clamp(&self, span: Span) -> Span {
        let start = self.text.floor_char_boundary(span.start as usize);
        let end = self.text.ceil_char_boundary(span.end as usize).max(start);
        Span::new(start, end)
    }

    /// Returns the position of a byte; an offset past the end gives the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.line_starts.partition_point(|start| *start as usize <= offset).max(1);
        let start = self.line_starts[line - 1] as usize;
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1;
        Position { line, column }
    }

    /// Returns the byte offset of a position; one past the end of the line or the file gives that end.
    #[must_use]
    pub fn offset(&self, position: Position) -> usize {
        let Some(line) = self.line_span(position.line) else { return self.text.len() };
        let text = self.slice(line);
        let within =
            text.char_indices().nth(position.column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
        line.start as usize + within
    }

    /// Returns the span of a line without its line break, by number from 1; `None` if there is no such line.
    #[must_use]
    pub fn line_span(&self, line: usize) -> Option<Span> {
        let start = *self.line_starts.get(line.checked_sub(1)?)? as usize;
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| *next as usize - 1);
        let end = if self.text[start..end.max(start)].ends_with('\r') { end - 1 } else { end };
        Some(Span::new(start, end))
    }

    /// Returns the text of a line without its line break, by number from 1; `None` if there is no such line.
    #[must_use]
    pub fn line(&self, line: usize) -> Option<&str> {
        self.line_span(line).map(|span| &self.text[span.range()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_count_characters_not_bytes() {
        let source = Source::new("a.yaml", "a: é\r\nb: 日本x\n");
        let at = |needle: &str| source.position(source.text().find(needle).unwrap_or_default());
        assert_eq!(at("é"), Position { line: 1, column: 4 });
        assert_eq!(at("x"), Position { line: 2, column: 6 });
        assert_eq!(source.line(1), Some("a: é"));
        assert_eq!(source.line(3), Some(""));
        assert_eq!(source.line(4), None);
    }

    #[test]
    fn a_byte_order_mark_does_not_count_as_a_column() {
        let source = Source::new("a.yaml", "\u{feff}a: 1");
        assert_eq!(source.position(3), Position { line: 1, column: 1 });
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        assert_eq!(source.line(1), Some("a: 1"));
    }

    proptest! {
        #[test]
        fn position_and_offset_are_inverse(text in "[a-é\n\r日\u{feff}]{0,40}", at in 0usize..60) {
            let source = Source::new("a.yaml", text.as_str());
            let boundary = text.floor_char_boundary(at);
            let position = source.position(boundary);
            // A line break has no position of its own in a line.
            if source.line_span(position.line).is_some_and(|line| line.range().contains(&boundary)) {
                prop_assert_eq!(source.offset(position), boundary);
            }
        }

        #[test]
        fn any_span_can_be_sliced(text in "\\PC{0,20}", start in 0usize..90, end in 0usize..90) {
            let source = Source::new("a.yaml", text);
            let _ = source.slice(Span::new(start, end));
            let _ = source.slice(Span { start: u32::try_from(end).unwrap_or(0), end: u32::try_from(start).unwrap_or(0) });
        }
    }
}
