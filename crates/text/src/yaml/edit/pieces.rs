//! A piece table: a text as parts of the original and inserted parts, so that later changes add up to changes of the
//! original.

use std::ops::Range;

use super::Change;
use crate::diagnostic::Span;

/// The edited text.
pub(super) struct Pieces<'t> {
    original: &'t str,
    pieces: Vec<Piece>,
}

#[derive(Clone)]
enum Piece {
    Original(Range<usize>),
    Inserted(String),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Original(range) => range.len(),
            Piece::Inserted(text) => text.len(),
        }
    }

    fn split(self, at: usize) -> (Piece, Piece) {
        match self {
            Piece::Original(range) => {
                let middle = range.start + at;
                (Piece::Original(range.start..middle), Piece::Original(middle..range.end))
            }
            Piece::Inserted(mut text) => {
                let rest = text.split_off(at);
                (Piece::Inserted(text), Piece::Inserted(rest))
            }
        }
    }
}

impl<'t> Pieces<'t> {
    pub(super) fn new(original: &'t str) -> Self {
        let whole = 0..original.len();
        Self { original, pieces: vec![Piece::Original(whole)] }
    }

    /// Applies changes of the current text, which are ascending and disjoint.
    pub(super) fn apply(&mut self, changes: &[Change]) {
        for change in changes.iter().rev() {
            let range = change.span.range();
            let start = self.boundary(range.start);
            let end = self.boundary(range.end);
            let insert = (!change.insert.is_empty()).then(|| Piece::Inserted(change.insert.clone()));
            self.pieces.splice(start..end, insert);
        }
    }

    /// The index of the piece that begins at an offset; splits a piece if none does.
    fn boundary(&mut self, offset: usize) -> usize {
        let mut start = 0;
        for index in 0..self.pieces.len() {
            let length = self.pieces[index].len();
            if start == offset {
                return index;
            }
            if offset < start + length {
                let (before, after) = self.pieces[index].clone().split(offset - start);
                self.pieces.splice(index..=index, [before, after]);
                return index + 1;
            }
            start += length;
        }
        self.pieces.len()
    }

    pub(super) fn text(&self) -> String {
        let part = |piece: &Piece| match piece {
            Piece::Original(range) => self.original[range.clone()].to_owned(),
            Piece::Inserted(text) => text.clone(),
        };
        self.pieces.iter().map(part).collect()
    }

    /// The changes of the original text.
    pub(super) fn changes(&self) -> Vec<Change> {
        let (mut changes, mut position, mut insert) = (Vec::new(), 0, String::new());
        let mut close = |from: usize, to: usize, insert: &mut String| {
            let removed = &self.original[from..to];
            // Equal bytes at both ends are no change.
            let head = common(removed.chars(), insert.chars());
            let tail = common(removed[head..].chars().rev(), insert[head..].chars().rev());
            let span = Span::new(from + head, to - tail);
            let text = insert[head..insert.len() - tail].to_owned();
            insert.clear();
            if !span.is_empty() || !text.is_empty() {
                changes.push(Change { span, insert: text });
            }
        };
        for piece in &self.pieces {
            match piece {
                Piece::Original(range) if range.is_empty() => {}
                Piece::Original(range) => {
                    close(position, range.start, &mut insert);
                    position = range.end;
                }
                Piece::Inserted(text) => insert.push_str(text),
            }
        }
        close(position, self.original.len(), &mut insert);
        changes
    }
}

/// The number of bytes in which two texts agree.
fn common(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}
