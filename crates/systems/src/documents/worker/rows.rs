//! The rows of a table, on their way to the daemon.

use value::Value;

use super::super::job::{MAX_CELLS, MAX_JSON, Message, TableOptions, letters};
use super::channel::Daemon;
use super::failure::Failure;
use crate::table::{Header, Names};

/// The bytes of rows that are sent together.
const BATCH: usize = 64 << 10;
/// The longest text of a cell, in bytes.
const MAX_CELL: usize = 1 << 20;

/// The place of a cell for messages, by its row and its column from 0.
pub(super) type Place<'p> = &'p dyn Fn(u32, u32) -> String;

/// Takes the rows of a table: finds its header, gives each cell its type, sends the rest to the daemon.
pub(super) struct Rows<'a, 'c> {
    daemon: &'a Daemon<'c>,
    options: &'a TableOptions,
    place: Place<'a>,
    sheet: Option<String>,
    /// The columns of a table without names: the first one and the number.
    unnamed: (u32, u32),
    header: Option<(Header, u32)>,
    cells: usize,
    batch: String,
}

impl<'a, 'c> Rows<'a, 'c> {
    pub(super) fn new(
        daemon: &'a Daemon<'c>,
        options: &'a TableOptions,
        place: Place<'a>,
        sheet: Option<String>,
        unnamed: (u32, u32),
    ) -> Self {
        Self { daemon, options, place, sheet, unnamed, header: None, cells: 0, batch: String::new() }
    }

    /// Takes the cells of a row, by column. An empty row is left out.
    pub(super) fn row(&mut self, row: u32, cells: Vec<(u32, Value)>) -> Result<(), Failure> {
        self.cells = self.cells.saturating_add(cells.len());
        if self.cells > MAX_CELLS {
            return Err(Failure::limit(format!("it has more than {MAX_CELLS} cells")));
        }
        let is_empty = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
        if cells.iter().all(|(_, value)| is_empty(value)) {
            return Ok(());
        }
        if let Some((column, _)) =
            cells.iter().find(|(_, value)| value.as_str().is_some_and(|text| text.len() > MAX_CELL))
        {
            return Err(Failure::limit(format!("{} has more than 1MiB of text", (self.place)(row, *column))));
        }
        let Some((header, first)) = &self.header else { return self.begin(row, cells) };
        let (first, place) = (*first, self.place);
        let name = |index: usize| place(row, column_of(first, index));
        let indexed = cells.into_iter().map(|(column, value)| (index_of(first, column), value));
        let values = header.row(indexed, &name)?;
        self.batch.push_str(if self.batch.is_empty() { "[" } else { "," });
        self.batch.push_str(&Value::from(values).to_json());
        if self.batch.len() > MAX_JSON {
            return Err(Failure::limit(format!("{} begins a row of more than 7MiB", place(row, first))));
        }
        if self.batch.len() > BATCH { self.flush() } else { Ok(()) }
    }

    fn begin(&mut self, row: u32, cells: Vec<(u32, Value)>) -> Result<(), Failure> {
        let (first, count) = match (&self.options.columns, self.options.has_header) {
            (Some(_), false) => (cells.first().map_or(0, |(column, _)| *column).min(self.unnamed.0), 0),
            (None, false) => self.unnamed,
            (_, true) => (0, 0),
        };
        let names = match (&self.options.columns, self.options.has_header) {
            (Some(columns), false) => Names::Given(columns.clone()),
            (None, false) => {
                let last = cells.last().map_or(first, |(column, _)| *column);
                let end = first.saturating_add(count).max(last.saturating_add(1));
                Names::Given((first..end).map(letters).collect())
            }
            (wanted, true) => {
                let name = |(column, value): &(u32, Value)| (index_of(0, *column), value.to_text());
                Names::Found { names: cells.iter().map(name).collect(), wanted: wanted.clone() }
            }
        };
        let place = self.place;
        let header = Header::new(names, &self.options.types, &|index| place(row, column_of(first, index)))?;
        let columns =
            header.columns().into_iter().map(|column| (column.name.to_string(), column.kind)).collect();
        self.daemon.send(&Message::Columns { columns, sheet: self.sheet.clone() }, &[])?;
        self.header = Some((header, first));
        if self.options.has_header {
            return Ok(());
        }
        // The first row is one of the rows.
        self.cells = self.cells.saturating_sub(cells.len());
        self.row(row, cells)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if !self.batch.is_empty() {
            self.batch.push(']');
            self.daemon.send(&Message::Rows, self.batch.as_bytes())?;
            self.batch.clear();
        }
        Ok(())
    }

    /// Sends the remaining rows.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if self.header.is_none() {
            if self.options.has_header && !self.options.types.is_empty() {
                return Err(Failure::input("it has no row, so none with the names of its columns"));
            }
            self.daemon.send(&Message::Columns { columns: Vec::new(), sheet: self.sheet.clone() }, &[])?;
        }
        self.flush()
    }
}

fn index_of(first: u32, column: u32) -> usize {
    column.checked_sub(first).and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX)
}

fn column_of(first: u32, index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_add(first)
}
