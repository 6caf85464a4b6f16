//! Collects the rows of a statement: as values in memory, or as a file that is written while they arrive.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use connector::{AnswerMemory, FileSink};
use model::{ActionError, ErrorKind};
use value::{File, Key, Map, Value};

use super::params::input_error;

/// The largest row, in bytes.
pub(crate) const MAX_ROW: usize = 16 << 20;
/// The bytes of rows that are held without being counted.
pub(crate) const UNCOUNTED: usize = 64 << 10;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: Key,
    /// The type in the words of the database.
    pub kind: String,
}

/// The form of the rows.
pub(crate) enum Form {
    /// Values, at most `max` of them.
    Rows { max: usize },
    /// A file of CSV with a header.
    Csv(FileSink),
    /// A file with a JSON map a line.
    JsonLines(FileSink),
}

/// Takes rows.
pub(crate) struct RowSink<'a> {
    form: Form,
    columns: Vec<Column>,
    rows: Vec<Value>,
    count: usize,
    is_truncated: bool,
    /// The size of the rows in memory, and the part of it that has been counted.
    bytes: usize,
    counted: usize,
    max_bytes: usize,
    answers: &'a dyn AnswerMemory,
    /// True if numbers with decimals become numbers, which may lose digits; else exact texts.
    pub numbers: bool,
}

impl<'a> RowSink<'a> {
    /// A sink for a result of at most `max_bytes` in memory.
    pub(crate) fn new(form: Form, max_bytes: usize, answers: &'a dyn AnswerMemory) -> Self {
        Self {
            form,
            columns: Vec::new(),
            rows: Vec::new(),
            count: 0,
            is_truncated: false,
            bytes: 0,
            counted: UNCOUNTED,
            max_bytes,
            answers,
            numbers: false,
        }
    }

    /// A number with decimals, given by its exact text.
    pub(crate) fn decimal(&self, text: &str) -> Value {
        let number = text.parse::<f64>().ok().filter(|number| self.numbers && number.is_finite());
        number.map_or_else(|| Value::from(text), Value::from)
    }

    /// True if there were more rows than the form takes.
    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Takes the columns, before the first row.
    pub(crate) async fn columns(&mut self, columns: Vec<Column>) -> Result<(), ActionError> {
        let mut names = HashSet::new();
        for column in &columns {
            if !names.insert(column.name.as_str()) {
                let message = format!("two columns are called `{}`; name them with `as`", column.name);
                return Err(input_error(message));
            }
        }
        self.columns = columns;
        let names = self.columns.iter().map(|column| column.name.as_str());
        match &mut self.form {
            Form::Csv(file) => file.push(&csv_line(names)?).await,
            Form::Rows { .. } | Form::JsonLines(_) => Ok(()),
        }
    }

    /// Takes a row. Returns false if no more rows are needed.
    pub(crate) async fn row(&mut self, values: Vec<Value>) -> Result<bool, ActionError> {
        if let Form::Rows { max } = self.form
            && self.count >= max
        {
            self.is_truncated = true;
            return Ok(false);
        }
        self.count += 1;
        match &mut self.form {
            Form::Csv(file) => {
                let cells: Vec<String> = values.iter().map(cell).collect();
                file.push(&csv_line(cells.iter().map(String::as_str))?).await?;
            }
            Form::JsonLines(file) => {
                let mut line = map_of(&self.columns, values).to_json().into_bytes();
                line.push(b'\n');
                file.push(&line).await?;
            }
            Form::Rows { .. } => {
                let row = map_of(&self.columns, values);
                self.value(row).await?;
            }
        }
        Ok(true)
    }

    /// Takes a row that is no map of the columns, for a result in memory.
    pub(crate) async fn value(&mut self, row: Value) -> Result<(), ActionError> {
        self.count_bytes(row.estimated_size(MAX_ROW)).await?;
        self.rows.push(row);
        Ok(())
    }

    async fn count_bytes(&mut self, bytes: usize) -> Result<(), ActionError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.max_bytes {
            let most = text::units::format_size(self.max_bytes as u64);
            let message =
                format!("the rows have more than {most}; ask for fewer, or write them to a file with `as`");
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        while self.bytes > self.counted {
            self.counted *= 2;
            self.answers.arriving(self.counted.min(self.max_bytes)).await;
        }
        Ok(())
    }

    /// The rows as a list, and the first of them.
    pub(crate) fn into_rows(self) -> [(&'static str, Value); 2] {
        let row = self.rows.first().cloned().unwrap_or_default();
        [("rows", Value::from(self.rows)), ("row", row)]
    }

    /// The result of `sql.query`.
    pub(crate) async fn into_result(self) -> Result<Value, ActionError> {
        let column = |column: &Column| {
            Map::from_iter([("name", Value::from(&*column.name)), ("type", Value::from(&*column.kind))])
                .into()
        };
        let columns: Vec<Value> = self.columns.iter().map(column).collect();
        let count = Value::from(self.count);
        let rest = [("columns", Value::from(columns)), ("count", count)];
        let (file, content_type, name) = match self.form {
            Form::Rows { .. } => {
                let truncated = ("truncated", Value::from(self.is_truncated));
                let row = ("row", self.rows.first().cloned().unwrap_or_default());
                let rows = [("rows", Value::from(self.rows)), row];
                return Ok(rows.into_iter().chain(rest).chain([truncated]).collect::<Map>().into());
            }
            Form::Csv(file) => (file, "text/csv; charset=utf-8", "rows.csv"),
            Form::JsonLines(file) => (file, "application/jsonl", "rows.jsonl"),
        };
        let data = file.finish().await?;
        let file = File { content_type: content_type.into(), filename: Some(name.into()), data };
        Ok([("file", Value::from(file))].into_iter().chain(rest).collect::<Map>().into())
    }
}

fn map_of(columns: &[Column], values: Vec<Value>) -> Value {
    columns.iter().map(|column| column.name.clone()).zip(values).collect::<Map>().into()
}

/// A cell of CSV. Bytes are always Base64, also where they could be read as a text.
fn cell(value: &Value) -> String {
    let bytes = value.as_file().and_then(|file| file.data.in_memory());
    bytes.map_or_else(|| value.to_text(), |bytes| STANDARD.encode(bytes))
}

fn csv_line<'c>(cells: impl Iterator<Item = &'c str>) -> Result<Vec<u8>, ActionError> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    let failed = |error: &dyn std::fmt::Display| ActionError::new(ErrorKind::Internal, error.to_string());
    writer.write_record(cells).map_err(|error| failed(&error))?;
    writer.into_inner().map_err(|error| failed(&error))
}
