//! Reads the cells of a sheet. A sheet of the format xlsx is read as a stream, the others as a whole.

use std::fmt::Display;
use std::io::{Read, Seek, SeekFrom};

use calamine::{Data, Ods, Reader, Sheet, SheetType, SheetVisible, Xls, Xlsx, XlsxError};
use value::Value;

use super::super::super::job::{CellErrors, MAX_CELLS, Range, SheetName, SheetRead, cell_name};
use super::super::archive;
use super::super::channel::{Daemon, Input};
use super::super::failure::Failure;
use super::super::rows::Rows;
use super::cell::{self, Problem};

/// The start of a file of the older formats.
const OLE: [u8; 4] = [0xD0, 0xCF, 0x11, 0xE0];

/// `sheet.read`.
pub(in super::super) fn read(job: &SheetRead, daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let mut input = daemon.input(0)?;
    let mut magic = Vec::new();
    input.by_ref().take(4).read_to_end(&mut magic)?;
    input.seek(SeekFrom::Start(0))?;
    if magic.starts_with(b"PK") {
        return match kind_of_archive(daemon.input(0)?)? {
            Kind::Xlsx => xlsx(input, job, daemon),
            Kind::Ods => whole::<Ods<Input<'_, '_>>>(input, job, daemon, |_| false),
        };
    }
    if magic == OLE {
        if matches!(Xlsx::new(daemon.input(0)?), Err(XlsxError::Password)) {
            return Err(protected());
        }
        return whole::<Xls<Input<'_, '_>>>(input, job, daemon, Xls::has_1904_epoch);
    }
    let hint = match magic.first() {
        Some(b'<') => {
            "it is HTML or XML under the name of a workbook; read it with `html.table` or `data.parseXml`"
        }
        Some(_) => "it is neither xlsx, ods nor xls; a text with separators is read with `data.parseCsv`",
        None => "it is empty",
    };
    Err(Failure::input(hint))
}

enum Kind {
    Xlsx,
    Ods,
}

/// Checks the bounds of an archive, and looks which workbook it is.
fn kind_of_archive(input: Input<'_, '_>) -> Result<Kind, Failure> {
    let archive = archive::open(input)?;
    let has = |name: &str| archive.index_for_name(name).is_some();
    if has("mimetype") {
        Ok(Kind::Ods)
    } else if has("xl/workbook.bin") {
        Err(Failure::input("it is a binary workbook, xlsb; save it as xlsx"))
    } else if has("[Content_Types].xml") {
        Ok(Kind::Xlsx)
    } else {
        Err(Failure::input("it is a ZIP archive, and no workbook; `zip.unpack` takes the files out of it"))
    }
}

fn protected() -> Failure {
    Failure::input("it is protected with a password; save it without one")
}

/// The sheet to read.
fn choose<'s>(sheets: &'s [Sheet], wanted: &SheetName) -> Result<&'s str, Failure> {
    let mut tables = sheets.iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let found = match wanted {
        SheetName::FirstVisible => tables.find(|sheet| sheet.visible == SheetVisible::Visible),
        SheetName::Name(name) => tables.find(|sheet| sheet.name == *name),
        SheetName::Number(number) => tables.nth(number.saturating_sub(1)),
    };
    found.map(|sheet| sheet.name.as_str()).ok_or_else(|| {
        let names: Vec<String> = sheets.iter().take(20).map(|sheet| format!("`{}`", sheet.name)).collect();
        let wanted = match wanted {
            SheetName::FirstVisible => "visible sheet".to_owned(),
            SheetName::Name(name) => format!("sheet `{name}`"),
            SheetName::Number(number) => format!("sheet {number}"),
        };
        Failure::input(format!("it has no {wanted}; it has {}", names.join(", ")))
    })
}

fn unreadable(error: &dyn Display) -> Failure {
    Failure::input(format!("it is damaged, or no workbook: {error}"))
}

fn xlsx(input: Input<'_, '_>, job: &SheetRead, daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let mut book = Xlsx::new(input).map_err(|error| match error {
        XlsxError::Password => protected(),
        error => unreadable(&error),
    })?;
    let name = choose(book.sheets_metadata(), &job.sheet)?.to_owned();
    let is_1904 = book.has_1904_epoch();
    let mut cells = book.worksheet_cells_reader(&name).map_err(|error| unreadable(&error))?;
    let last = cells.dimensions().end.1;
    let place = |row: u32, column: u32| format!("`{name}`!{}", cell_name(row, column));
    let mut rows = SheetRows::new(job, daemon, &place, &name, last);
    loop {
        let cell = cells.next_cell_with_formula_metadata();
        let Some(cell) = cell.map_err(|error| unreadable(&error))? else { break };
        let is_uncomputed = cell.formula.is_some() && cell.value == calamine::DataRef::Empty;
        let value =
            if is_uncomputed { Err(Problem::Uncomputed) } else { cell::value(cell.value.into(), is_1904) };
        if !rows.cell(cell.pos, value)? {
            break;
        }
    }
    rows.finish()?;
    Ok(Value::Null)
}

/// Reads a workbook whose reader has it in memory as a whole.
fn whole<'d, 'c, B>(
    input: Input<'d, 'c>,
    job: &SheetRead,
    daemon: &Daemon<'_>,
    is_1904: fn(&B) -> bool,
) -> Result<Value, Failure>
where
    B: Reader<Input<'d, 'c>>,
    B::Error: Display,
{
    let mut book = B::new(input).map_err(|error| {
        let words = error.to_string();
        if words.to_lowercase().contains("password") { protected() } else { unreadable(&words) }
    })?;
    let name = choose(book.sheets_metadata(), &job.sheet)?.to_owned();
    let is_1904 = is_1904(&book);
    let formulas = book.worksheet_formula(&name).map_err(|error| unreadable(&error))?;
    let range = book.worksheet_range(&name).map_err(|error| unreadable(&error))?;
    drop(book);
    let (first_row, first_column) = range.start().unwrap_or_default();
    let place = |row: u32, column: u32| format!("`{name}`!{}", cell_name(row, column));
    let mut rows = SheetRows::new(job, daemon, &place, &name, range.end().unwrap_or_default().1);
    for (row, cells) in (first_row..).zip(range.rows()) {
        for (column, data) in (first_column..).zip(cells) {
            let has_formula = || formulas.get_value((row, column)).is_some_and(|formula| !formula.is_empty());
            let value = match data {
                Data::Empty if has_formula() => Err(Problem::Uncomputed),
                Data::Empty => continue,
                // The format ods has no type of errors: they are texts of formulas.
                Data::String(text) if is_error(text) && has_formula() => Err(Problem::Error(text.clone())),
                data => cell::value(data.clone(), is_1904),
            };
            if !rows.cell((row, column), value)? {
                return rows.finish().map(|()| Value::Null);
            }
        }
    }
    rows.finish()?;
    Ok(Value::Null)
}

fn is_error(text: &str) -> bool {
    let known = ["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"];
    known.contains(&text) || text.starts_with("Err:")
}

/// Makes rows of cells, and leaves out cells outside the range.
struct SheetRows<'a, 'c> {
    rows: Rows<'a, 'c>,
    place: &'a dyn Fn(u32, u32) -> String,
    range: Range,
    errors: CellErrors,
    row: u32,
    cells: Vec<(u32, Value)>,
    count: usize,
}

impl<'a, 'c> SheetRows<'a, 'c> {
    fn new(
        job: &'a SheetRead,
        daemon: &'a Daemon<'c>,
        place: &'a dyn Fn(u32, u32) -> String,
        name: &str,
        last: u32,
    ) -> Self {
        let range = job.range;
        let end = if range.is_open { last.max(range.first.1) } else { range.last.1 };
        let unnamed = (range.first.1, end.saturating_sub(range.first.1).saturating_add(1));
        let rows = Rows::new(daemon, &job.table, place, Some(name.to_owned()), unnamed);
        Self { rows, place, range, errors: job.errors, row: range.first.0, cells: Vec::new(), count: 0 }
    }

    /// Takes a cell. Returns false after the last row of the range.
    fn cell(&mut self, position: (u32, u32), value: Result<Value, Problem>) -> Result<bool, Failure> {
        self.count += 1;
        if self.count > MAX_CELLS {
            return Err(Failure::limit(format!("the sheet has more than {MAX_CELLS} cells")));
        }
        let (row, column) = position;
        if row > self.range.last.0 {
            return Ok(false);
        }
        let is_inside =
            row >= self.range.first.0 && (self.range.first.1..=self.range.last.1).contains(&column);
        if !is_inside {
            return Ok(true);
        }
        if row != self.row {
            self.end_row()?;
        }
        let is_after = self.cells.last().is_none_or(|(before, _)| *before < column);
        if row < self.row || !is_after {
            return Err(Failure::input(format!("{} is not in order", (self.place)(row, column))));
        }
        self.row = row;
        let value = value.or_else(|problem| self.without_value(position, &problem))?;
        if !value.is_null() {
            self.cells.push((column, value));
        }
        Ok(true)
    }

    fn without_value(&self, (row, column): (u32, u32), problem: &Problem) -> Result<Value, Failure> {
        match (self.errors, problem) {
            (CellErrors::Text, Problem::Error(text)) => return Ok(Value::from(text.as_str())),
            (CellErrors::Null | CellErrors::Text, _) => return Ok(Value::Null),
            (CellErrors::Fail, _) => {}
        }
        let words = match problem {
            Problem::Error(text) => format!("is the error {text}"),
            Problem::Uncomputed => {
                "has a formula without a stored value; open the workbook in a spreadsheet and save it"
                    .to_owned()
            }
            Problem::Wrong(words) => words.clone(),
        };
        let place = (self.place)(row, column);
        Err(Failure::input(format!("{place} {words}; `errors: null` takes such a cell as empty")))
    }

    fn end_row(&mut self) -> Result<(), Failure> {
        self.rows.row(self.row, std::mem::take(&mut self.cells))
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.end_row()?;
        self.rows.finish()
    }
}
