//! Writes rows as CSV, in the encoding that their reader wants.

use connector::{Call, FileSink};
use csv::{QuoteStyle, Writer, WriterBuilder};
use encoding_rs::{EncoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use model::{ActionError, ErrorKind};
use value::{File, Map, Value};

use super::read::{named_encoding, separators};
use crate::convert::{input_error, text_of, texts_of};
use crate::sql::file::{Format, read_rows};

/// The largest text of a result, in bytes: the limit of a step's result.
const MAX_TEXT: usize = 16 << 20;
/// The bytes that are encoded together.
const PIECE: usize = 64 << 10;

/// The inputs of `data.toCsv`.
pub(super) struct Options {
    columns: Option<Vec<String>>,
    has_header: bool,
    delimiter: u8,
    quote: Option<u8>,
    encoding: &'static Encoding,
    has_mark: bool,
    is_file: bool,
}

impl Options {
    pub(super) fn of(inputs: &Map) -> Result<Self, ActionError> {
        let (delimiter, quote) = separators(inputs)?;
        let flag = |name: &str, usual| inputs.get(name).and_then(Value::as_bool).unwrap_or(usual);
        let options = Self {
            columns: texts_of(inputs, "columns"),
            has_header: flag("header", true),
            delimiter,
            quote,
            encoding: named_encoding(inputs)?.unwrap_or(UTF_8),
            has_mark: flag("mark", false),
            is_file: text_of(inputs, "as") != Some("text"),
        };
        let is_unicode = [UTF_8, UTF_16LE, UTF_16BE].contains(&options.encoding);
        if !options.is_file && (options.encoding != UTF_8 || options.has_mark) {
            let name = if options.has_mark { "mark" } else { "encoding" };
            return Err(input_error(format!("`{name}` is for a file, which `as: file` gives")));
        }
        if options.has_mark && !is_unicode {
            return Err(input_error(format!("`mark` has no meaning in {}", options.encoding.name())));
        }
        Ok(options)
    }
}

/// Checks the inputs, as far as they are known.
pub(super) fn check(inputs: &Map) -> Result<Options, ActionError> {
    match inputs.get("rows") {
        None | Some(Value::List(_) | Value::File(_)) => Options::of(inputs),
        Some(other) => {
            let kind = other.kind();
            Err(input_error(format!("`rows` is a {kind}; it takes a list of maps or lists, or a file")))
        }
    }
}

/// `data.toCsv`.
pub(super) async fn write(call: &Call<'_>) -> Result<Value, ActionError> {
    let options = check(call.inputs)?;
    let mut output = Output::new(&options, call.file_sink("the rows"));
    match call.inputs.get("rows") {
        Some(Value::List(rows)) => {
            let columns = columns_of(options.columns.as_ref(), &rows.0);
            output.begin(columns.as_deref()).await?;
            for row in &rows.0 {
                output.row(row, columns.as_deref()).await?;
            }
        }
        Some(Value::File(file)) => {
            let is_csv = text_of(call.inputs, "format") == Some("csv");
            let format = if is_csv { Format::Csv } else { Format::JsonLines };
            let mut batches = read_rows(file.data.clone(), format);
            let mut columns = options.columns.clone();
            let mut has_begun = false;
            while let Some(batch) = batches.recv().await {
                for row in batch? {
                    if !has_begun {
                        columns = columns.or_else(|| Some(row.keys().map(str::to_owned).collect()));
                        output.begin(columns.as_deref()).await?;
                        has_begun = true;
                    }
                    output.file_row(row, columns.as_deref().unwrap_or_default()).await?;
                }
            }
        }
        _ => {}
    }
    output.finish().await
}

/// The columns of rows that are maps, in the order in which they appear; `None` for lists.
pub(crate) fn columns_of(given: Option<&Vec<String>>, rows: &[Value]) -> Option<Vec<String>> {
    if given.is_some() || !rows.iter().all(|row| row.as_map().is_some()) {
        return given.cloned();
    }
    let mut names = indexmap::IndexSet::new();
    names.extend(rows.iter().filter_map(Value::as_map).flat_map(Map::keys));
    (!names.is_empty()).then(|| names.into_iter().map(str::to_owned).collect())
}

/// The CSV on its way to a text or a file.
struct Output<'o> {
    options: &'o Options,
    csv: Writer<Vec<u8>>,
    text: Vec<u8>,
    file: FileSink,
    count: usize,
    /// The kind of the first row.
    kind: Option<&'static str>,
}

impl<'o> Output<'o> {
    fn new(options: &'o Options, file: FileSink) -> Self {
        Self { options, csv: csv_writer(options, Vec::new()), text: Vec::new(), file, count: 0, kind: None }
    }

    async fn begin(&mut self, columns: Option<&[String]>) -> Result<(), ActionError> {
        if self.options.has_mark {
            self.csv = csv_writer(self.options, "\u{feff}".as_bytes().to_vec());
        }
        match columns.filter(|_| self.options.has_header) {
            Some(columns) => self.record(columns).await,
            None => Ok(()),
        }
    }

    async fn row(&mut self, row: &Value, columns: Option<&[String]>) -> Result<(), ActionError> {
        self.count += 1;
        let kind = *self.kind.get_or_insert(if row.as_list().is_some() { "list" } else { "map" });
        let cells: Vec<String> = match (row, columns) {
            (Value::Map(map), Some(columns)) if kind == "map" => cells_of(map, columns),
            // Every map is empty: the rows have no cells.
            (Value::Map(_), None) if kind == "map" => return Ok(()),
            (Value::List(list), Some(columns)) if kind == "list" && list.0.len() != columns.len() => {
                let (count, cells, columns) = (self.count, list.0.len(), columns.len());
                return Err(input_error(format!(
                    "`rows`: row {count} has {cells} cells, and there are {columns} columns"
                )));
            }
            (Value::List(list), _) if kind == "list" => list.0.iter().map(Value::to_text).collect(),
            (other, _) => {
                let (count, found) = (self.count, other.kind());
                return Err(input_error(format!("`rows`: row {count} is {found}, not a {kind}")));
            }
        };
        self.record(&cells).await
    }

    /// A row of a file, whose other columns are not known before its end.
    async fn file_row(&mut self, row: Map, columns: &[String]) -> Result<(), ActionError> {
        self.count += 1;
        let is_other = |name: &&str| !columns.iter().any(|column| column == name);
        if self.options.columns.is_none()
            && let Some(other) = row.keys().find(is_other)
        {
            let message = format!(
                "`rows`: row {} has `{other}`, which the first row has not; name all columns with `columns`",
                self.count
            );
            return Err(input_error(message));
        }
        self.record(&cells_of(&row, columns)).await
    }

    async fn record(&mut self, cells: &[String]) -> Result<(), ActionError> {
        if self.options.quote.is_none()
            && let Some(cell) =
                cells.iter().find(|cell| needs_quote(cell, self.options.delimiter, cells.len()))
        {
            let shown: String = cell.chars().take(40).collect();
            let message = format!("`rows`: row {} has the cell `{shown}`, which needs a quote", self.count);
            return Err(input_error(message));
        }
        self.csv.write_record(cells).map_err(|error| internal(&error))?;
        if self.csv.get_ref().len() > PIECE { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), ActionError> {
        let full = std::mem::replace(&mut self.csv, csv_writer(self.options, Vec::new()));
        let bytes = full.into_inner().map_err(|error| internal(&error))?;
        if self.options.is_file {
            let bytes = encode(bytes, self.options.encoding, self.count)?;
            return self.file.push(&bytes).await;
        }
        self.text.extend_from_slice(&bytes);
        if self.text.len() > MAX_TEXT {
            let message = "the CSV is larger than 16MiB; `as: file` gives a file of any size";
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Value, ActionError> {
        self.flush().await?;
        if !self.options.is_file {
            return String::from_utf8(self.text).map(Value::from).map_err(|error| internal(&error));
        }
        let content_type = format!("text/csv; charset={}", self.options.encoding.name().to_ascii_lowercase());
        let (content_type, filename) = (content_type.into(), Some("rows.csv".into()));
        Ok(Value::from(File { content_type, filename, data: self.file.finish().await? }))
    }
}

fn csv_writer(options: &Options, buffer: Vec<u8>) -> Writer<Vec<u8>> {
    let style = if options.quote.is_some() { QuoteStyle::Necessary } else { QuoteStyle::Never };
    let mut builder = WriterBuilder::new();
    builder.flexible(true).delimiter(options.delimiter).quote_style(style);
    builder.quote(options.quote.unwrap_or(b'"')).from_writer(buffer)
}

/// True for a cell that is read as another one, or for a row as none, unless it is in quotes.
fn needs_quote(cell: &str, delimiter: u8, cells: usize) -> bool {
    (cell.is_empty() && cells == 1)
        || cell.bytes().any(|byte| byte == delimiter || matches!(byte, b'\r' | b'\n'))
}

fn cells_of(row: &Map, columns: &[String]) -> Vec<String> {
    columns.iter().map(|name| row.get(name).map_or_else(String::new, Value::to_text)).collect()
}

/// Encodes whole rows.
fn encode(bytes: Vec<u8>, encoding: &'static Encoding, row: usize) -> Result<Vec<u8>, ActionError> {
    if encoding == UTF_8 {
        return Ok(bytes);
    }
    let text = String::from_utf8(bytes).map_err(|error| internal(&error))?;
    // An encoder for UTF-16 is left out of the standard for the web.
    if encoding == UTF_16LE {
        return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    }
    if encoding == UTF_16BE {
        return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    let mut encoder = encoding.new_encoder();
    let most = encoder.max_buffer_length_from_utf8_without_replacement(text.len()).unwrap_or(4 * text.len());
    let mut encoded = Vec::with_capacity(most);
    match encoder.encode_from_utf8_to_vec_without_replacement(&text, &mut encoded, true).0 {
        EncoderResult::InputEmpty => Ok(encoded),
        EncoderResult::OutputFull => Err(internal(&"the encoder needs more room than it asked for")),
        EncoderResult::Unmappable(character) => {
            let (name, before) = (encoding.name(), if row > 1 { " or before" } else { "" });
            Err(input_error(format!("`rows`: row {row}{before} has `{character}`, which {name} has not")))
        }
    }
}

fn internal(error: &dyn std::fmt::Display) -> ActionError {
    ActionError::new(ErrorKind::Internal, error.to_string())
}
