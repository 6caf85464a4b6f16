//! Reads the rows of a text, strictly: a row or a quote that cannot be meant is an error that names its line.

use std::io::{self, BufRead as _, BufReader, Read};

use connector::Call;
use csv::{ReaderBuilder, StringRecord};
use encoding_rs::Encoding;
use model::{ActionError, ErrorKind};
use tokio::sync::mpsc;
use value::{CHUNK_SIZE, File, Map, Value};

use super::decode::{DataReader, Decoded, encoding, encoding_of};
use crate::convert::{Types, input_error, text_of, texts_of};
use crate::spec::{check_content, content_of};
use crate::sql::rows::{Form, MAX_ROW, RowSink};
use crate::table::{Batch, Header, Names};

/// The size of the rows that wait together, in bytes.
const BATCH: usize = 64 << 10;
/// The size of a cell beside its text, in bytes.
const CELL: usize = 32;
/// The largest number of cells of a row, as of a sheet: memory is taken for each before the row is complete.
const MAX_CELLS: usize = 16_384;

/// The inputs of `data.parseCsv`.
pub(super) struct Options {
    has_header: bool,
    delimiter: u8,
    quote: Option<u8>,
    encoding: Option<&'static Encoding>,
    skip: usize,
    columns: Option<Vec<String>>,
    types: Types,
}

impl Options {
    pub(super) fn of(inputs: &Map) -> Result<Self, ActionError> {
        let (delimiter, quote) = separators(inputs)?;
        let skip = inputs.get("skip").and_then(Value::as_i64).unwrap_or(0);
        Ok(Self {
            has_header: inputs.get("header").and_then(Value::as_bool).unwrap_or(true),
            delimiter,
            quote,
            encoding: named_encoding(inputs)?,
            skip: usize::try_from(skip).unwrap_or_default(),
            columns: texts_of(inputs, "columns"),
            types: Types::of(inputs)?,
        })
    }
}

/// The characters between and around cells.
pub(super) fn separators(inputs: &Map) -> Result<(u8, Option<u8>), ActionError> {
    let wrong = |name: &str| input_error(format!("`{name}` is not one character such as `;` or `\\t`"));
    let one = |name: &str, usual: &'static str| match text_of(inputs, name).unwrap_or(usual).as_bytes() {
        [] if name == "quote" => Ok(None),
        [byte] if byte.is_ascii() && !matches!(byte, b'\r' | b'\n') => Ok(Some(*byte)),
        _ => Err(wrong(name)),
    };
    let (delimiter, quote) = (one("delimiter", ",")?.ok_or_else(|| wrong("delimiter"))?, one("quote", "\"")?);
    if quote == Some(delimiter) {
        return Err(input_error("`delimiter` is the same character as `quote`"));
    }
    Ok((delimiter, quote))
}

/// The encoding that `encoding` names.
pub(super) fn named_encoding(inputs: &Map) -> Result<Option<&'static Encoding>, ActionError> {
    let Some(label) = text_of(inputs, "encoding") else { return Ok(None) };
    let unknown =
        || input_error(format!("`encoding` is `{label}`, which is no encoding such as `windows-1252`"));
    encoding(label).map(Some).ok_or_else(unknown)
}

/// Checks the inputs, as far as they are known.
pub(super) fn check(inputs: &Map) -> Result<Options, ActionError> {
    let options = Options::of(inputs)?;
    check_content(inputs, "data")?;
    if options.encoding.is_some() && text_of(inputs, "data").is_some() {
        return Err(input_error("`encoding` is for a file, and `data` is a text, which has been decoded"));
    }
    Ok(options)
}

/// `data.parseCsv`.
pub(super) async fn parse(call: &Call<'_>) -> Result<Value, ActionError> {
    let options = check(call.inputs)?;
    let file = content_of(call.inputs, "data")?;
    let form = text_of(call.inputs, "as").unwrap_or("rows");
    if form != "rows" && !options.has_header && options.columns.is_none() {
        return Err(input_error("`columns` has to name the columns of a file without a header"));
    }
    let form = match form {
        "csv" => Form::Csv(call.file_sink("the rows")),
        "jsonLines" => Form::JsonLines(call.file_sink("the rows")),
        _ => Form::Rows { max: usize::MAX },
    };
    let in_memory = matches!(form, Form::Rows { .. });
    let mut sink = RowSink::new(form, call.http.options().max_response, call.answers);
    let (batches, mut received) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || read(&file, &options, &batches));
    while let Some(batch) = received.recv().await {
        batch.into_sink(&mut sink).await?;
    }
    reading.await.map_err(|error| ActionError::new(ErrorKind::Internal, error.to_string()))??;
    if in_memory {
        let [(_, rows), _] = sink.into_rows();
        return Ok(rows);
    }
    sink.into_result().await
}

/// Reads a file, and sends its columns and its rows.
fn read(file: &File, options: &Options, batches: &mpsc::Sender<Batch>) -> Result<(), ActionError> {
    let wrong = |error: &dyn std::fmt::Display| input_error(format!("`data`: {error}"));
    let encoding = encoding_of(file, options.encoding).map_err(|error| wrong(&error))?;
    let text = Decoded::new(DataReader::new(file.data.clone()), encoding);
    let mut text = BufReader::with_capacity(CHUNK_SIZE, text);
    for _ in 0..options.skip {
        skip_line(&mut text).map_err(|error| wrong(&error))?;
    }
    let text = Quotes::new(text, options);
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        // The length of a row is compared with the header below, since that message names the line.
        .flexible(true)
        .delimiter(options.delimiter)
        .quote(options.quote.unwrap_or_default())
        .quoting(options.quote.is_some())
        .from_reader(text);
    let mut rows = Rows { options, header: None, width: 0, waiting: Vec::new(), size: 0, batches };
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| wrong(&error))? {
        let line = record.position().map_or(0, csv::Position::line).saturating_add(options.skip as u64);
        if !rows.take(&record, line).map_err(|error| wrong(&error))? {
            return Ok(());
        }
    }
    rows.flush();
    Ok(())
}

fn skip_line(text: &mut impl io::BufRead) -> io::Result<()> {
    let mut line = Vec::new();
    text.by_ref().take(MAX_ROW as u64).read_until(b'\n', &mut line).map(drop)
}

/// The rows on their way.
struct Rows<'a> {
    options: &'a Options,
    /// The names of the columns; `None` before the first row, and if rows are lists.
    header: Option<Header>,
    /// The number of cells of the first row.
    width: usize,
    waiting: Vec<Vec<Value>>,
    /// The size of the waiting rows, in bytes.
    size: usize,
    batches: &'a mpsc::Sender<Batch>,
}

impl Rows<'_> {
    /// Takes a row. Returns false if nobody waits for more.
    fn take(&mut self, record: &StringRecord, line: u64) -> Result<bool, String> {
        if self.width == 0 {
            self.width = record.len();
            if !self.begin(record)? {
                return Ok(false);
            }
            if self.options.has_header {
                return Ok(true);
            }
        }
        // Without a header and without names the rows are lists of any length.
        let Some(header) = &self.header else {
            return Ok(self.push(record, record.iter().map(Value::from).collect()));
        };
        if record.len() != self.width {
            let first = if self.options.has_header { "the header" } else { "the first row" };
            return Err(format!("the row in line {line} has {} cells, {first} {}", record.len(), self.width));
        }
        let cells = record.iter().map(Value::from).enumerate();
        let row = header.row(cells, &|index| format!("cell {} of line {line}", index + 1))?;
        Ok(self.push(record, row))
    }

    fn push(&mut self, record: &StringRecord, row: Vec<Value>) -> bool {
        self.size += record.as_slice().len() + row.len() * CELL;
        self.waiting.push(row);
        self.size < BATCH || self.flush()
    }

    /// Takes the first row, which may have the names of the columns.
    fn begin(&mut self, record: &StringRecord) -> Result<bool, String> {
        let names = match (&self.options.columns, self.options.has_header) {
            (None, false) => return Ok(true),
            (Some(columns), false) if columns.len() == record.len() => Names::Given(columns.clone()),
            (Some(columns), false) => {
                let (wanted, found) = (columns.len(), record.len());
                return Err(format!("`columns` names {wanted} columns, and the first row has {found} cells"));
            }
            (columns, true) => {
                let names = record.iter().enumerate().map(|(index, name)| (index, name.to_owned())).collect();
                Names::Found { names, wanted: columns.clone() }
            }
        };
        let header = Header::new(names, &self.options.types, &|index| format!("column {}", index + 1))?;
        let columns = header.columns();
        self.header = Some(header);
        Ok(self.batches.blocking_send(Batch::Columns(columns)).is_ok())
    }

    fn flush(&mut self) -> bool {
        self.size = 0;
        let rows = std::mem::take(&mut self.waiting);
        let batch = if self.header.is_some() { Batch::Rows(rows) } else { Batch::Lists(rows) };
        self.batches.blocking_send(batch).is_ok()
    }
}

/// Passes a text on, and checks that each quote is closed at the end of its cell and that no row is too large: a reader that is
/// tolerant takes all rows after an open quote for one cell.
struct Quotes<R> {
    text: R,
    delimiter: u8,
    quote: Option<u8>,
    state: State,
    line: usize,
    /// The bytes and the ends of cells since the last end of a row.
    size: usize,
    cells: usize,
}

/// The place of the next byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of a cell.
    Begin,
    /// In a cell without a quote.
    Plain,
    /// In the quotes that the line opened.
    Quoted(usize),
    /// After a quote in the quotes that the line opened: it is the last one, or the first of two.
    Closing(usize),
}

impl<R: Read> Quotes<R> {
    fn new(text: R, options: &Options) -> Self {
        let (delimiter, quote) = (options.delimiter, options.quote);
        Self { text, delimiter, quote, state: State::Begin, line: options.skip + 1, size: 0, cells: 0 }
    }

    fn check(&mut self, byte: u8) -> Result<(), String> {
        if byte == 0 {
            return Err(format!(
                "line {} has a zero byte, so it is no text, or one of UTF-16: `encoding: utf-16le`",
                self.line
            ));
        }
        self.size += 1;
        let (is_quote, is_line) = (Some(byte) == self.quote, byte == b'\n');
        let is_end = byte == self.delimiter || matches!(byte, b'\r' | b'\n');
        self.state = match self.state {
            State::Begin if is_quote => State::Quoted(self.line),
            State::Begin | State::Plain => {
                if is_end {
                    State::Begin
                } else {
                    State::Plain
                }
            }
            State::Quoted(opened) => {
                if is_quote {
                    State::Closing(opened)
                } else {
                    State::Quoted(opened)
                }
            }
            State::Closing(opened) if is_quote => State::Quoted(opened),
            State::Closing(_) if is_end => State::Begin,
            State::Closing(opened) => {
                return Err(format!(
                    "the cell with a quote in line {opened} goes on after its closing quote in line {}; a quote inside \
                     of a cell is doubled, `\"\"`",
                    self.line
                ));
            }
        };
        if is_line {
            self.line += 1;
            if self.state == State::Begin {
                (self.size, self.cells) = (0, 0);
            }
        }
        self.cells += usize::from(byte == self.delimiter && self.state == State::Begin);
        if self.cells >= MAX_CELLS {
            return Err(format!("the row in line {} has more than {MAX_CELLS} cells", self.line));
        }
        if self.size > MAX_ROW {
            return Err(format!("the row that ends after line {} is larger than 16MiB", self.line));
        }
        Ok(())
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        for byte in buffer.get(..count).unwrap_or_default() {
            self.check(*byte).map_err(io::Error::other)?;
        }
        match self.state {
            State::Quoted(opened) if count == 0 && !buffer.is_empty() => {
                let error = format!("the quote that opens a cell in line {opened} is never closed");
                Err(io::Error::other(error))
            }
            _ => Ok(count),
        }
    }
}
