//! The work of an action, as the worker gets it, and its bounds.

use serde::{Deserialize, Serialize};

use crate::convert::Types;

/// The bounds of a document. More is an error of the kind `limit`.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// The largest sum of the unpacked sizes, in bytes.
pub(super) const MAX_UNPACKED: u64 = 512 << 20;
/// The largest ratio of the unpacked to the packed size of a file.
pub(super) const MAX_RATIO: u64 = 200;
/// The unpacked size up to which the ratio does not count, in bytes.
pub(super) const RATIO_FROM: u64 = 1 << 20;
/// The largest number of cells of a sheet or a table.
pub(super) const MAX_CELLS: usize = 2_000_000;
/// The largest number of nodes of an HTML page.
pub(super) const MAX_NODES: usize = 500_000;
/// The largest row, and the largest result that is no table and no file, as JSON in bytes: a message has at most 8 MiB.
pub(super) const MAX_JSON: usize = 7 << 20;
/// The address space of the worker beside the program, in bytes.
pub(super) const MEMORY: u64 = 192 << 20;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Job {
    SheetRead(SheetRead),
    SheetWrite(Vec<SheetWrite>),
    HtmlSelect(Vec<(String, Pick)>),
    HtmlTable {
        css: String,
        table: TableOptions,
    },
    HtmlText {
        css: String,
    },
    /// The names of the inputs in the archive.
    ZipPack(Vec<String>),
    /// The pattern of names.
    ZipUnpack(Option<String>),
    GzipPack,
    GzipUnpack,
}

/// The header and the types of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TableOptions {
    pub has_header: bool,
    pub columns: Option<Vec<String>>,
    pub types: Types,
}

/// Read a sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SheetRead {
    pub sheet: SheetName,
    pub range: Range,
    pub errors: CellErrors,
    pub table: TableOptions,
}

/// A sheet of a workbook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum SheetName {
    FirstVisible,
    Name(String),
    /// From 1.
    Number(usize),
}

/// The treatment of a cell that has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CellErrors {
    Fail,
    Null,
    Text,
}

/// Cells of a sheet, all numbers from 0 and inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Range {
    pub first: (u32, u32),
    pub last: (u32, u32),
    /// True if the last column is not given.
    pub is_open: bool,
}

/// The last row and column of a sheet, from 0.
pub(super) const LAST: (u32, u32) = (1_048_575, 16_383);

impl Range {
    pub(super) const ALL: Self = Self { first: (0, 0), last: LAST, is_open: true };

    /// Reads `B3:F200`, `B:F` or `B3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (first, last) = match text.trim().split_once(':') {
            Some((first, last)) => (first, Some(last)),
            None => (text.trim(), None),
        };
        let (row, column) = corner(first)?;
        let first = (row.unwrap_or(0), column);
        let (last, is_open) = match last {
            None => (LAST, true),
            Some(last) => {
                let (row, column) = corner(last)?;
                ((row.unwrap_or(LAST.0), column), false)
            }
        };
        (first.0 <= last.0 && first.1 <= last.1).then_some(Self { first, last, is_open })
    }
}

/// Reads `B3` or `B`, also with `$`.
fn corner(text: &str) -> Option<(Option<u32>, u32)> {
    let text = text.replace('$', "");
    let digits = text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let letters = text.strip_suffix(digits)?;
    let column = letters.bytes().try_fold(0_u32, |column, letter| {
        column.checked_mul(26)?.checked_add(u32::from(letter.to_ascii_uppercase() - b'A') + 1)
    })?;
    let column = column.checked_sub(1).filter(|column| *column <= LAST.1)?;
    let row = match digits {
        "" => None,
        _ => Some(digits.parse::<u32>().ok()?.checked_sub(1).filter(|row| *row <= LAST.0)?),
    };
    Some((row, column))
}

/// The letters of a column, from 0: A, B, …, Z, AA.
pub(super) fn letters(column: u32) -> String {
    let (mut letters, mut rest) = (String::new(), column + 1);
    while rest > 0 {
        rest -= 1;
        letters.insert(0, char::from(b'A' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    letters
}

/// The name of a cell, from 0: `B3`.
pub(super) fn cell_name(row: u32, column: u32) -> String {
    format!("{}{}", letters(column), row.saturating_add(1))
}

/// Write a sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SheetWrite {
    pub name: String,
    /// True for CSV with a header, else a JSON map a line.
    pub is_csv: bool,
    pub columns: Option<Vec<WriteColumn>>,
}

/// A column of a sheet to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WriteColumn {
    pub field: String,
    pub title: String,
    pub format: Option<String>,
    pub width: Option<u32>,
}

impl WriteColumn {
    /// A column without a format, whose title is its name.
    pub(super) fn named(name: String) -> Self {
        Self { title: name.clone(), field: name, format: None, width: None }
    }
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pick {
    pub css: String,
    pub attr: Option<String>,
    pub html: bool,
    pub all: bool,
}

/// Messages of the worker. A message with bytes has them as its second part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    /// Asks for bytes of an input; the daemon answers with fewer at its end only.
    Read { input: usize, offset: u64, count: usize },
    /// The columns of the table, as names and types, and the name of its sheet.
    Columns { columns: Vec<(String, String)>, sheet: Option<String> },
    /// Rows, in the second part as JSON.
    Rows,
    /// Begins a file of the result.
    File { name: Option<String>, content_type: String },
    /// Bytes of that file, in the second part.
    Bytes,
    /// The job is done; the second part has a value as JSON.
    Done,
    /// The job failed.
    Failed { is_limit: bool, message: String },
}

/// An input, as the worker gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct InputInfo {
    pub size: u64,
    /// The encoding that the media type names, or for a text UTF-8.
    pub charset: Option<String>,
    /// The name by which messages call it.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_a_spreadsheet_names_it() {
        let range = |first, last| Some(Range { first, last, is_open: false });
        assert_eq!(Range::parse("B3:F200"), range((2, 1), (199, 5)));
        assert_eq!(Range::parse("$B$3:$f$200"), range((2, 1), (199, 5)));
        assert_eq!(Range::parse("A:XFD"), range((0, 0), LAST));
        assert_eq!(Range::parse("B3"), Some(Range { first: (2, 1), last: LAST, is_open: true }));
        for wrong in ["", "3", "B0", "F3:B3", "XFE1", "A1048577", "B3:", "Ä1", "A1:B2:C3", "AAAAAAAAAAA1"] {
            assert_eq!(Range::parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            (letters(0), letters(25), letters(26), letters(16_383)),
            ("A".into(), "Z".into(), "AA".into(), "XFD".into())
        );
    }
}
