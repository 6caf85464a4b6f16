//! Writes a workbook of the format xlsx as a stream: memory is one row. The crates for this keep all cells in memory, or in files of
//! their own, which this process may not have.

use std::io::{BufRead as _, BufReader, Read as _, Write};

use encoding_rs::UTF_8;
use value::{JsonLimits, Map, Value};
use zip::ZipWriter;

use super::super::super::job::{LAST, MAX_CELLS, MAX_UNPACKED, SheetWrite, WriteColumn, cell_name};
use super::super::archive::{failed, options};
use super::super::channel::Daemon;
use super::super::failure::Failure;
use super::format::{Content, Kind};
use super::package::{FIRST_STYLE, escaped, parts, sheet_head, sheet_path};
use crate::csv::decode::Decoded;
use crate::sql::rows::MAX_ROW;

/// The longest text of a cell, in characters of UTF-16.
const MAX_TEXT: usize = 32_767;
/// The bytes that are compressed together.
const PIECE: usize = 32 << 10;

/// `sheet.write`.
pub(in super::super) fn write(sheets: &[SheetWrite], daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let mut output = daemon.file(None, "application/octet-stream")?;
    let mut archive = ZipWriter::new_stream(&mut output);
    let formats = formats(sheets);
    let names: Vec<&str> = sheets.iter().map(|sheet| sheet.name.as_str()).collect();
    for (path, text) in parts(&names, &formats) {
        archive.start_file(path, options(0)).map_err(failed)?;
        archive.write_all(text.as_bytes())?;
    }
    let mut cells = 0;
    for (index, sheet) in sheets.iter().enumerate() {
        archive.start_file(sheet_path(index), options(0)).map_err(failed)?;
        let mut writer = SheetWriter {
            sheet,
            formats: &formats,
            archive: &mut archive,
            xml: String::new(),
            row: 0,
            cells,
            size: 0,
            columns: Vec::new(),
        };
        writer.write(index, daemon)?;
        cells = writer.cells;
    }
    archive.finish().map_err(failed)?;
    output.finish()?;
    Ok(Value::Null)
}

/// The formats of all columns, each once.
fn formats(sheets: &[SheetWrite]) -> Vec<String> {
    let mut formats: Vec<String> = Vec::new();
    let columns = sheets.iter().flat_map(|sheet| sheet.columns.iter().flatten());
    for format in columns.filter_map(|column| column.format.as_ref()) {
        if !formats.contains(format) {
            formats.push(format.clone());
        }
    }
    formats
}

/// A column as its cells are written.
struct Column {
    field: String,
    kind: Kind,
    style: usize,
}

struct SheetWriter<'a, W: Write> {
    sheet: &'a SheetWrite,
    formats: &'a [String],
    archive: &'a mut W,
    xml: String,
    /// The number of the next row, from 0.
    row: u32,
    cells: usize,
    size: u64,
    columns: Vec<Column>,
}

impl<W: Write> SheetWriter<'_, W> {
    fn write(&mut self, input: usize, daemon: &Daemon<'_>) -> Result<(), Failure> {
        self.xml = sheet_head();
        let reader = daemon.input(input)?;
        if let Some(columns) = &self.sheet.columns {
            self.begin(columns)?;
        }
        if self.sheet.is_csv { self.csv(reader) } else { self.json_lines(reader) }?;
        if self.row == 0 {
            self.begin(&[])?;
        }
        self.xml.push_str("</sheetData></worksheet>");
        self.flush()
    }

    fn csv(&mut self, reader: impl std::io::Read) -> Result<(), Failure> {
        let wrong = |error: csv::Error| Failure::input(format!("its rows are no CSV: {error}"));
        let mut reader = csv::ReaderBuilder::new().from_reader(Decoded::new(reader, UTF_8));
        let names = reader.headers().map_err(wrong)?.clone();
        for record in reader.records() {
            let record = record.map_err(wrong)?;
            let cell = |cell: &str| if cell.is_empty() { Value::Null } else { Value::from(cell) };
            self.take(&names.iter().zip(record.iter().map(cell)).collect())?;
        }
        Ok(())
    }

    fn json_lines(&mut self, reader: impl std::io::Read) -> Result<(), Failure> {
        let (mut reader, mut line, mut number) = (BufReader::new(reader), Vec::new(), 0_usize);
        loop {
            line.clear();
            number += 1;
            let wrong = |words: String| Failure::input(format!("line {number} of its rows {words}"));
            if reader.by_ref().take(MAX_ROW as u64).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let row = Value::from_json(&line, JsonLimits::default());
            let row = row.map_err(|error| wrong(format!("is not JSON: {error}")))?;
            self.take(row.as_map().ok_or_else(|| wrong(format!("is a {}, not a map", row.kind())))?)?;
        }
    }

    fn take(&mut self, row: &Map) -> Result<(), Failure> {
        if self.row == 0 {
            self.begin(&row.keys().map(|name| WriteColumn::named(name.to_owned())).collect::<Vec<_>>())?;
        }
        if self.sheet.columns.is_none()
            && let Some(other) =
                row.keys().find(|name| !self.columns.iter().any(|column| column.field == **name))
        {
            let message =
                format!("row {} has `{other}`, which the first row has not; name all `columns`", self.row);
            return Err(Failure::input(message));
        }
        let columns = std::mem::take(&mut self.columns);
        let cells = columns
            .iter()
            .map(|column| (row.get(&column.field).unwrap_or(&Value::Null), column.kind, column.style));
        let written = self.cells_of(cells);
        self.columns = columns;
        written
    }

    /// Writes the start of the sheet and the header row.
    fn begin(&mut self, columns: &[WriteColumn]) -> Result<(), Failure> {
        if columns.iter().any(|column| column.width.is_some()) {
            self.xml.push_str("<cols>");
            for (number, width) in
                (1..).zip(columns).filter_map(|(number, column): (u32, _)| Some((number, column.width?)))
            {
                self.xml.push_str(&format!(
                    "<col min=\"{number}\" max=\"{number}\" width=\"{width}\" customWidth=\"1\"/>"
                ));
            }
            self.xml.push_str("</cols>");
        }
        self.xml.push_str("<sheetData>");
        let style = |format: &String| {
            self.formats.iter().position(|other| other == format).map_or(0, |at| at + FIRST_STYLE)
        };
        let column = |column: &WriteColumn| Column {
            field: column.field.clone(),
            kind: column.format.as_deref().map_or(Kind::Plain, Kind::of),
            style: column.format.as_ref().map_or(0, style),
        };
        self.columns = columns.iter().map(column).collect();
        let titles: Vec<Value> = columns.iter().map(|column| Value::from(column.title.as_str())).collect();
        self.cells_of(titles.iter().map(|title| (title, Kind::Text, 1)))
    }

    fn cells_of<'v>(&mut self, cells: impl Iterator<Item = (&'v Value, Kind, usize)>) -> Result<(), Failure> {
        let row = self.row;
        if row > LAST.0 {
            return Err(Failure::limit(format!(
                "the sheet has more than {} rows; write several sheets",
                LAST.0 + 1
            )));
        }
        self.row += 1;
        self.xml.push_str(&format!("<row r=\"{}\">", row + 1));
        for (column, (value, kind, style)) in (0..).zip(cells) {
            if column > LAST.1 {
                return Err(Failure::limit(format!("the sheet has more than {} columns", LAST.1 + 1)));
            }
            self.cells += 1;
            if self.cells > MAX_CELLS {
                return Err(Failure::limit(format!("it has more than {MAX_CELLS} cells")));
            }
            let name = cell_name(row, column);
            let content = kind.content(value).map_err(|why| Failure::input(format!("{name} {why}")))?;
            self.cell(&name, &content, style)?;
        }
        self.xml.push_str("</row>");
        if self.xml.len() > PIECE { self.flush() } else { Ok(()) }
    }

    fn cell(&mut self, name: &str, content: &Content, style: usize) -> Result<(), Failure> {
        let style = if style == 0 { String::new() } else { format!(" s=\"{style}\"") };
        match content {
            Content::Empty => {}
            Content::Number(number) => {
                self.xml.push_str(&format!("<c r=\"{name}\"{style}><v>{number}</v></c>"))
            }
            Content::Bool(value) => {
                self.xml.push_str(&format!("<c r=\"{name}\"{style} t=\"b\"><v>{}</v></c>", u8::from(*value)));
            }
            Content::Text(text) => {
                if text.encode_utf16().count() > MAX_TEXT {
                    return Err(Failure::limit(format!(
                        "{name} has more than {MAX_TEXT} characters, the most of a cell"
                    )));
                }
                let text = escaped(text);
                self.xml.push_str(&format!(
                    "<c r=\"{name}\"{style} t=\"inlineStr\"><is><t xml:space=\"preserve\">{text}</t></is></c>"
                ));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.size += self.xml.len() as u64;
        if self.size > MAX_UNPACKED {
            let most = text::units::format_size(MAX_UNPACKED);
            return Err(Failure::limit(format!("the sheet has more than {most} unpacked")));
        }
        self.archive.write_all(self.xml.as_bytes())?;
        self.xml.clear();
        Ok(())
    }
}
