//! The specifications of the actions: inputs, results, effects.

use model::action::ResultField;
use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};

use crate::spec::{choice, defaulted, object, optional, required};

/// The number of rows of a result without `maxRows`.
pub(crate) const USUAL_ROWS: i64 = 10_000;
/// The largest number of rows of a result.
pub(crate) const MAX_ROWS: i64 = 100_000;
/// The number of rows that one statement of `sql.insert` takes.
const USUAL_BATCH: i64 = 500;

fn any_map() -> InputType {
    InputType::Map { values: Box::new(InputType::Any) }
}

fn sql() -> InputSpec {
    required("sql", InputType::Text, "One statement, written out; a value is a parameter, `:name`.")
}

fn params() -> InputSpec {
    optional("params", any_map(), "The value of each parameter, by name.")
}

fn expect() -> InputSpec {
    let at_least_none = InputType::Integer { min: Some(0), max: None };
    optional(
        "expect",
        at_least_none,
        "The number of rows that must be affected; with any other, nothing is changed.",
    )
}

fn once() -> InputSpec {
    let about = "True to write a key of the step in the same transaction, into the table `cogwork_once`, by which another attempt \
                 knows that it is done and changes nothing.";
    defaulted("once", InputType::Boolean, false, about)
}

fn rows() -> [ResultField; 2] {
    [
        ResultField::new("rows", ResultType::list(ResultType::map(ResultType::Any)))
            .with_description("The rows, each a map by column."),
        ResultField::new("row", ResultType::map(ResultType::Any).or_null())
            .with_description("The first row; null if there is none."),
    ]
}

fn repeated() -> ResultField {
    ResultField::new("repeated", ResultType::Boolean)
        .with_description("True if an earlier attempt had done it: this is its result.")
}

fn executed() -> Vec<ResultField> {
    let [rows, row] = rows();
    vec![
        ResultField::new("affected", ResultType::Integer).with_description("The number of affected rows."),
        rows,
        row,
        ResultField::new("lastId", ResultType::Integer.or_null()).with_description(
            "The last id that MySQL or SQLite gave; null on PostgreSQL, which has `returning`.",
        ),
    ]
}

/// The result of an action that reads rows, with `more` fields.
pub(crate) fn rows_or_file(more: impl IntoIterator<Item = ResultField>) -> ResultType {
    let [rows, row] = rows();
    let column = ResultType::object([("name", ResultType::Text), ("type", ResultType::Text)]);
    let optional_field = |field: ResultField| ResultField { optional: true, ..field };
    let fields = [
        optional_field(rows),
        optional_field(row),
        optional_field(
            ResultField::new("file", ResultType::File)
                .with_description("The rows, with `as: csv` or `jsonLines`."),
        ),
        ResultField::new("columns", ResultType::list(column)).with_description("The columns, in order."),
        ResultField::new("count", ResultType::Integer).with_description("The number of rows."),
        optional_field(
            ResultField::new("truncated", ResultType::Boolean)
                .with_description("True if there are more than `maxRows`."),
        ),
    ];
    object(fields.into_iter().chain(more))
}

/// `sql.query`.
pub(super) fn query(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Read rows".to_owned(),
        description: Some(
            "Runs one statement in a transaction that only reads. Numbers with decimals are texts with all their digits.".to_owned(),
        ),
        effect: Effect::Read,
        inputs: vec![
            sql(),
            params(),
            defaulted(
                "maxRows",
                InputType::Integer { min: Some(1), max: Some(MAX_ROWS) },
                USUAL_ROWS,
                "The largest number of rows; `truncated` tells if there are more. A file has all rows.",
            ),
            defaulted("as", choice(&["rows", "csv", "jsonLines"]), "rows", "The rows as a list, or as a file."),
            defaulted(
                "decimals",
                choice(&["text", "number"]),
                "text",
                "Numbers with decimals as exact texts, or as numbers, which may lose digits.",
            ),
        ],
        result: Some("`{rows, row, columns, count, truncated}`; with `as: csv` or `jsonLines`, `{file, columns, count}`".to_owned()),
        results: rows_or_file([]),
        ..spec
    }
}

/// `sql.describe`.
pub(super) fn describe(spec: ActionSpec) -> ActionSpec {
    let typed =
        || ResultType::list(ResultType::object([("name", ResultType::Text), ("type", ResultType::Text)]));
    ActionSpec {
        title: "Describe a statement".to_owned(),
        description: Some(
            "Asks the database for the parameters and columns of a statement, which is prepared and not run."
                .to_owned(),
        ),
        effect: Effect::Read,
        inputs: vec![sql()],
        result: Some("`{parameters, columns}`, lists of `{name, type}`".to_owned()),
        results: object([
            ResultField::new("parameters", typed())
                .with_description("The parameters; none if the database states no types."),
            ResultField::new("columns", typed()).with_description("The columns, in order."),
        ]),
        ..spec
    }
}

/// `sql.listRows`.
pub(super) fn list(spec: ActionSpec) -> ActionSpec {
    let texts = || InputType::List { items: Box::new(InputType::Text) };
    let record = ResultType::object([
        ("key", ResultType::Text),
        ("at", ResultType::Text),
        ("row", ResultType::map(ResultType::Any)),
    ]);
    ActionSpec {
        title: "List rows by the time of their last change".to_owned(),
        description: Some(
            "Reads up to 1,000 rows of a table, oldest first. The event `sql.newRows` is made of it."
                .to_owned(),
        ),
        effect: Effect::Read,
        inputs: vec![
            required(
                "table",
                InputType::Text,
                "The table, written out, with its schema if needed: `shop.orders`.",
            ),
            required("id", texts(), "The columns of its key."),
            required(
                "watermark",
                InputType::Text,
                "The column with the date or time of the last change; in UTC if it has no zone.",
            ),
            optional("columns", texts(), "The columns to read; all if not given."),
            optional(
                "overlap",
                InputType::Text,
                "How late a row may become visible, such as `2m`; for the event.",
            ),
            optional(
                "wake",
                InputType::Text,
                "The channel of `notify` on PostgreSQL, on which the event is polled for at once.",
            ),
            optional("after", InputType::Text, "The instant from which rows are read."),
            defaulted("newest", InputType::Boolean, false, "True to read only the newest row."),
            optional("cursor", InputType::Text, "The `nextCursor` of the page before."),
        ],
        result: Some("`{rows, nextCursor, leftOut}`; `rows` has `{key, at, row}`".to_owned()),
        results: ResultType::object([
            ("rows", ResultType::list(record)),
            ("nextCursor", ResultType::Text.or_null()),
            ("leftOut", ResultType::Text.or_null()),
        ]),
        ..spec
    }
}

/// `sql.execute`.
pub(super) fn execute(spec: ActionSpec) -> ActionSpec {
    let mut fields = executed();
    fields.push(repeated());
    ActionSpec {
        title: "Change data".to_owned(),
        description: Some(
            "Runs one statement in a transaction. With `once: true`, a step that is tried again changes nothing more.".to_owned(),
        ),
        inputs: vec![sql(), params(), expect(), once()],
        result: Some("`{affected, rows, row, lastId, repeated}`; `rows` are those of `returning`".to_owned()),
        results: object(fields),
        ..spec
    }
}

/// `sql.insert`.
pub(super) fn insert(spec: ActionSpec) -> ActionSpec {
    let texts = || InputType::List { items: Box::new(InputType::Text) };
    let count = |name: &str, about: &str| ResultField::new(name, ResultType::Integer).with_description(about);
    ActionSpec {
        title: "Insert many rows".to_owned(),
        description: Some(
            "Inserts the rows of a list or a file, all or none of them. A file is read while it is inserted."
                .to_owned(),
        ),
        inputs: vec![
            required(
                "table",
                InputType::Text,
                "The table, written out, with its schema if needed: `shop.payments`.",
            ),
            required("rows", InputType::Any, "A list of maps, or a file."),
            defaulted(
                "format",
                choice(&["csv", "jsonLines"]),
                "csv",
                "The format of a file: CSV with a header, or a JSON map a line.",
            ),
            optional(
                "columns",
                InputType::Any,
                "The columns, if not all fields of the first row: a list, or a map from columns to fields.",
            ),
            defaulted(
                "onConflict",
                choice(&["error", "skip", "update"]),
                "error",
                "What happens with a row whose key exists: an error, nothing, or an update of its other columns.",
            ),
            optional("key", texts(), "The columns of the key, for `onConflict`."),
            defaulted(
                "batch",
                InputType::Integer { min: Some(1), max: Some(5_000) },
                USUAL_BATCH,
                "The number of rows that one statement takes.",
            ),
            once(),
        ],
        result: Some("`{affected, skipped, repeated}`".to_owned()),
        results: object([
            count("affected", "The number of inserted and updated rows."),
            count("skipped", "The number of rows whose key existed, with `onConflict: skip`."),
            repeated(),
        ]),
        ..spec
    }
}

/// `sql.transaction`.
pub(super) fn transaction(spec: ActionSpec) -> ActionSpec {
    let column = InputType::Object {
        fields: vec![
            required("result", InputType::Text, "The `id` of the statement."),
            required("column", InputType::Text, "The name of the column."),
        ],
    };
    let statement = InputType::Object {
        fields: vec![
            sql(),
            params(),
            optional(
                "from",
                InputType::Map { values: Box::new(column) },
                "Parameters that are a column of the first row of an earlier statement, written out.",
            ),
            optional("id", InputType::Text, "The name by which later statements read its first row."),
            optional(
                "rows",
                InputType::List { items: Box::new(any_map()) },
                "A list of `params`: the statement runs once for each.",
            ),
            expect(),
        ],
    };
    ActionSpec {
        title: "Change data with several statements".to_owned(),
        description: Some("Runs the statements in one transaction: all of them, or none.".to_owned()),
        inputs: vec![
            required(
                "statements",
                InputType::List { items: Box::new(statement) },
                "The statements, in order.",
            ),
            defaulted(
                "isolation",
                choice(&["readCommitted", "repeatableRead", "serializable"]),
                "readCommitted",
                "How much the transaction sees of others; SQLite is always serializable.",
            ),
            once(),
        ],
        result: Some(
            "`{results, repeated}`; `results` has `{affected, rows, row, lastId}` for each statement"
                .to_owned(),
        ),
        results: object([
            ResultField::new("results", ResultType::list(object(executed())))
                .with_description("The result of each statement."),
            repeated(),
        ]),
        ..spec
    }
}
