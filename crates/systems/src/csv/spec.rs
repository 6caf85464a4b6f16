//! The specifications of the actions.

use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};
use serde_json::json;
use value::Value;

use crate::convert::types_input;
use crate::spec::{choice, defaulted, optional, required};

/// The longest preamble that can be left out, in lines.
const MAX_SKIP: i64 = 10_000;

fn texts() -> InputType {
    InputType::List { items: Box::new(InputType::Text) }
}

fn delimiter() -> InputSpec {
    defaulted("delimiter", InputType::Text, ",", "The character between two cells.")
}

fn quote() -> InputSpec {
    let about = "The character around a cell that contains the delimiter, the quote, doubled, or the end of a line; empty for none.";
    defaulted("quote", InputType::Text, "\"", about)
}

fn spec(name: &str, title: &str, about: &str, inputs: Vec<InputSpec>) -> ActionSpec {
    ActionSpec {
        name: name.to_owned(),
        title: title.to_owned(),
        description: Some(about.to_owned()),
        effect: Effect::Read,
        connections: Vec::new(),
        connection_required: false,
        inputs,
        result: None,
        results: ResultType::Any,
        example: Value::Null,
    }
}

/// `data.parseCsv`.
pub(super) fn parse() -> ActionSpec {
    let inputs = vec![
        required("data", InputType::Any, "The CSV: text, or a file."),
        defaulted(
            "header",
            InputType::Boolean,
            true,
            "`true`: the first row names the columns; `false`: a row is a list, or `columns` names its cells.",
        ),
        delimiter(),
        quote(),
        optional(
            "encoding",
            InputType::Text,
            "The encoding of a file, such as `windows-1252` or `utf-16le`; without it that of its mark or its media type, else UTF-8.",
        ),
        defaulted(
            "skip",
            InputType::Integer { min: Some(0), max: Some(MAX_SKIP) },
            0_i64,
            "The number of lines before the header that are left out.",
        ),
        optional(
            "columns",
            texts(),
            "With a header the columns to take, in order; without one the names of all columns.",
        ),
        types_input(),
        defaulted(
            "as",
            choice(&["rows", "csv", "jsonLines"]),
            "rows",
            "The form of the result: rows in memory, or a file of CSV or of a JSON map a line.",
        ),
    ];
    let about = "A cell is a text, unless `types` says otherwise: only you know the meaning of `007`. A file is read as a stream; with `as` it may have any size.";
    ActionSpec {
        result: Some(
            "a list of maps by column, without a header a list of lists; with another `as` `{file, columns, count}`"
                .to_owned(),
        ),
        example: Value::from_serde(json!({"data": "id,quantity\n17,2\n18,5\n", "types": {"quantity": "integer"}})),
        ..spec("data.parseCsv", "Parse CSV", about, inputs)
    }
}

/// `data.toCsv`.
pub(super) fn write() -> ActionSpec {
    let inputs = vec![
        required("rows", InputType::Any, "The rows: a list of maps or of lists, or a file of rows."),
        defaulted(
            "format",
            choice(&["csv", "jsonLines"]),
            "jsonLines",
            "The format of a file of rows: CSV with a header, or a JSON map a line.",
        ),
        optional(
            "columns",
            texts(),
            "The columns, in order; all columns if not given, of a file those of its first row.",
        ),
        defaulted("header", InputType::Boolean, true, "`true`: the first row names the columns."),
        delimiter(),
        quote(),
        defaulted(
            "encoding",
            InputType::Text,
            "utf-8",
            "The encoding of a file, such as `windows-1252` or `utf-16le`.",
        ),
        defaulted(
            "mark",
            InputType::Boolean,
            false,
            "`true` begins a file of UTF-8 or UTF-16 with a mark of its encoding, which Excel needs.",
        ),
        defaulted(
            "as",
            choice(&["text", "file"]),
            "text",
            "The form of the result: a text, or a file of any size.",
        ),
    ];
    let about = "An empty cell is null or an empty text; a map or a list becomes JSON.";
    ActionSpec {
        result: Some("the CSV, as text; with `as: file` as a file".to_owned()),
        results: ResultType::one_of([ResultType::Text, ResultType::File]),
        example: Value::from_serde(
            json!({"rows": [{"id": "17", "quantity": 2}, {"id": "18", "quantity": 5}]}),
        ),
        ..spec("data.toCsv", "Write values as CSV", about, inputs)
    }
}
