//! The specifications of the actions: inputs, results.

use model::action::ResultField;
use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};
use serde_json::json;
use value::Value;

use crate::convert::types_input;
use crate::spec::{choice, defaulted, object, optional, required};
use crate::sql::spec::{MAX_ROWS, USUAL_ROWS, rows_or_file};

/// The width of a column, in characters, at most.
const MAX_WIDTH: i64 = 255;

/// The connectors: name, title, actions.
pub(super) fn connectors() -> [(&'static str, &'static str, Vec<ActionSpec>); 4] {
    [
        ("sheet", "Sheets", vec![sheet_read(), sheet_write()]),
        ("html", "HTML", vec![html_select(), html_table(), html_text()]),
        ("zip", "ZIP archives", vec![zip_pack(), zip_unpack()]),
        ("gzip", "GZIP files", vec![gzip_pack(), gzip_unpack()]),
    ]
}

fn spec(
    name: &str,
    title: &str,
    about: &str,
    inputs: Vec<InputSpec>,
    example: serde_json::Value,
) -> ActionSpec {
    ActionSpec {
        name: name.to_owned(),
        title: title.to_owned(),
        description: Some(about.to_owned()),
        // Files have no effect, but a result is committed and not computed again.
        effect: Effect::Read,
        connections: Vec::new(),
        connection_required: false,
        inputs,
        result: None,
        results: ResultType::Any,
        example: Value::from_serde(example),
    }
}

fn texts() -> InputType {
    InputType::List { items: Box::new(InputType::Text) }
}

fn header(about: &str) -> InputSpec {
    defaulted("header", InputType::Boolean, true, about)
}

fn columns() -> InputSpec {
    let about = "With a header the columns to take, in order; without one the names of all columns.";
    optional("columns", texts(), about)
}

fn form() -> [InputSpec; 2] {
    [
        defaulted(
            "as",
            choice(&["rows", "csv", "jsonLines"]),
            "rows",
            "The form of the result: rows in memory, or a file of CSV or of a JSON map a line.",
        ),
        defaulted(
            "maxRows",
            InputType::Integer { min: Some(1), max: Some(MAX_ROWS) },
            USUAL_ROWS,
            "The largest number of rows in memory; `truncated` says if there are more.",
        ),
    ]
}

fn with_file(field: &str) -> ResultType {
    ResultType::object([(field, ResultType::File)])
}

fn sheet_read() -> ActionSpec {
    let mut inputs = vec![
        required("file", InputType::File, "The workbook: xlsx, ods or xls."),
        optional(
            "sheet",
            InputType::Any,
            "The name of a sheet, or its number from 1; the first visible one if not given.",
        ),
        optional(
            "range",
            InputType::Text,
            "The cells to read: `B3:F200`, `B:F`, or `B3` for all from there; all if not given.",
        ),
        header(
            "`true`: the first row that is not empty names the columns; `false`: `columns` names them, or their letters do.",
        ),
        columns(),
        types_input(),
        defaulted(
            "errors",
            choice(&["fail", "null", "text"]),
            "fail",
            "A cell with an error such as `#DIV/0!`, or with a formula that was never computed: the step fails, or the cell is null, or the text of the error.",
        ),
    ];
    inputs.extend(form());
    let about = "Reads the stored values of cells. A number is a number, a date `2026-03-01`, a date with a time `2026-03-01T08:30:00`, a time `08:30:00`, a duration `PT30H`. Rows without a value are left out.";
    let example = json!({"file": "${{ file('the bytes', filename='orders.xlsx') }}", "sheet": "Invoices", "types": {"id": "text"}});
    ActionSpec {
        result: Some("`{rows, row, columns, count, truncated, sheet}`; with another `as` `{file, columns, count, sheet}`".to_owned()),
        results: rows_or_file([
            ResultField::new("sheet", ResultType::Text).with_description("The name of the sheet."),
        ]),
        ..spec("sheet.read", "Read a sheet", about, inputs, example)
    }
}

fn sheet_write() -> ActionSpec {
    let column = InputType::Object {
        fields: vec![
            required("field", InputType::Text, "The key of the rows."),
            optional("title", InputType::Text, "The text of the header; the key if not given."),
            optional(
                "format",
                InputType::Text,
                "The format of its numbers or dates, as the spreadsheet has it: `0.00`, `yyyy-mm-dd`, `@` for texts. Texts of such a column become numbers or dates.",
            ),
            optional(
                "width",
                InputType::Integer { min: Some(1), max: Some(MAX_WIDTH) },
                "The width, in characters.",
            ),
        ],
    };
    let sheet = InputType::Object {
        fields: vec![
            required("name", InputType::Text, "The name of the sheet, at most 31 characters."),
            required("rows", InputType::Any, "The rows: a list of maps, or a file of rows."),
            defaulted("format", choice(&["csv", "jsonLines"]), "jsonLines", "The format of a file of rows."),
            optional(
                "columns",
                InputType::List { items: Box::new(column) },
                "The columns, in order; those of the first row if not given.",
            ),
        ],
    };
    let inputs = vec![
        required("sheets", InputType::List { items: Box::new(sheet) }, "The sheets, in order."),
        defaulted("filename", InputType::Text, "workbook.xlsx", "The name of the file."),
    ];
    let about = "Writes a workbook of the format xlsx. A text stays a text: it never becomes a formula, a number or a date, but in a column with a `format`.";
    let example = json!({
        "sheets": [{
            "name": "Orders",
            "rows": [{"id": "0017", "total": "9.50"}, {"id": "0018", "total": "12.00"}],
            "columns": [{"field": "id"}, {"field": "total", "title": "Total", "format": "0.00", "width": 12}],
        }],
    });
    ActionSpec {
        result: Some("`{file}`".to_owned()),
        results: with_file("file"),
        ..spec("sheet.write", "Write a workbook", about, inputs, example)
    }
}

fn html() -> InputSpec {
    required("html", InputType::Any, "The HTML: a text, or a file in the encoding that it names.")
}

fn html_select() -> ActionSpec {
    let inputs = vec![
        html(),
        required(
            "select",
            InputType::Map { values: Box::new(InputType::Any) },
            "A CSS selector for each name of the result, or `{css, attr, html, all}`: the attribute `attr`, or with `html: true` the inner HTML, in place of the text; with `all: true` the list of all matches in place of the first.",
        ),
    ];
    let about = "The text of an element is that of a reader: without scripts and styles, its blanks joined.";
    let example = json!({
        "html": "<h1>Prices</h1><a href='/tea'>Tea</a><a href='/ink'>Ink</a>",
        "select": {"title": "h1", "links": {"css": "a", "attr": "href", "all": true}},
    });
    ActionSpec {
        result: Some(
            "a map with a text for each name, null if nothing matches; with `all` a list".to_owned(),
        ),
        results: ResultType::map(ResultType::Any),
        ..spec("html.select", "Pick parts of an HTML page", about, inputs, example)
    }
}

fn html_table() -> ActionSpec {
    let mut inputs = vec![
        html(),
        defaulted("css", InputType::Text, "table", "The CSS selector of the table; the first match is read."),
        header(
            "`true`: the first row names the columns; `false`: `columns` names them, or the letters A, B, C do.",
        ),
        columns(),
        types_input(),
    ];
    inputs.extend(form());
    let about = "A cell over several columns or rows counts for each of them. A table inside of a cell is text of the cell.";
    let example = json!({
        "html": "<table><tr><th>Name<th>Price<tr><td>Tea<td>9.50</table>",
        "types": {"Price": "number"},
    });
    ActionSpec {
        result: Some(
            "`{rows, row, columns, count, truncated}`; with another `as` `{file, columns, count}`".to_owned(),
        ),
        results: rows_or_file([]),
        ..spec("html.table", "Read a table of an HTML page", about, inputs, example)
    }
}

fn html_text() -> ActionSpec {
    let inputs = vec![
        html(),
        defaulted("css", InputType::Text, "body", "The CSS selector of the part; the first match is read."),
    ];
    let about = "A paragraph, a heading, a row of a table and each other block is a line. Scripts and styles are left out.";
    ActionSpec {
        result: Some("the text; null if nothing matches".to_owned()),
        results: ResultType::Text.or_null(),
        ..spec(
            "html.text",
            "Read the text of an HTML page",
            about,
            inputs,
            json!({"html": "<p>Hello,</p><p>Ada</p>"}),
        )
    }
}

fn zip_pack() -> ActionSpec {
    let inputs = vec![
        required(
            "files",
            InputType::List { items: Box::new(InputType::Any) },
            "The files: each a file with a name, or `{name, content}`, whose content is a file or a text.",
        ),
        defaulted("filename", InputType::Text, "archive.zip", "The name of the archive."),
    ];
    let example = json!({"files": [{"name": "2026/orders.csv", "content": "id,total\n17,9.50\n"}]});
    ActionSpec {
        result: Some("`{file}`".to_owned()),
        results: with_file("file"),
        ..spec(
            "zip.pack",
            "Pack files into an archive",
            "The same files give the same bytes.",
            inputs,
            example,
        )
    }
}

fn zip_unpack() -> ActionSpec {
    let inputs = vec![
        required("file", InputType::File, "The archive."),
        optional(
            "match",
            InputType::Text,
            "The names to take: `*.csv`, `2026/**`, where `*` stands for all but `/`, `**` for all; all if not given.",
        ),
    ];
    let about = "A name is data, never a path of this machine. A name that leads out of the archive, a name that is there twice, a link and an encrypted file are errors.";
    let results = object([ResultField::new("files", ResultType::list(ResultType::File))
        .with_description("The files, in the order of the archive, without folders.")]);
    ActionSpec {
        result: Some("`{files}`".to_owned()),
        results,
        ..spec(
            "zip.unpack",
            "Unpack an archive",
            about,
            inputs,
            json!({"file": "${{ file('the bytes', filename='orders.zip') }}", "match": "*.csv"}),
        )
    }
}

fn gzip_pack() -> ActionSpec {
    let inputs = vec![required("content", InputType::Any, "The file or the text.")];
    ActionSpec {
        result: Some("`{file}`".to_owned()),
        results: with_file("file"),
        ..spec(
            "gzip.pack",
            "Compress a file",
            "The same content gives the same bytes.",
            inputs,
            json!({"content": "id,total\n17,9.50\n"}),
        )
    }
}

fn gzip_unpack() -> ActionSpec {
    let inputs = vec![required("file", InputType::File, "The compressed file.")];
    ActionSpec {
        result: Some("`{file}`".to_owned()),
        results: with_file("file"),
        ..spec(
            "gzip.unpack",
            "Uncompress a file",
            "Several parts one behind another are one file.",
            inputs,
            json!({"file": "${{ file('the bytes', filename='orders.csv.gz') }}"}),
        )
    }
}
