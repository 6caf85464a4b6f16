//! The statements of a step as the database describes them: their parameters, and the types of the rows.

use std::sync::Arc;

use connector::StaticInputs;
use expression::Template;
use model::action::{ObjectType, ResultField};
use model::described::DescribedStatement;
use model::{ActionSpec, ResultType};
use value::Value;

use super::Kind;
use super::check::texts;
use super::statement::Dialect;

/// The statements of a step that are written out.
pub(super) fn statements(kind: Kind, inputs: &StaticInputs<'_>) -> Vec<String> {
    match kind {
        Kind::Query | Kind::Execute | Kind::Describe => {
            inputs.literal("sql").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
        }
        Kind::Transaction => (inputs.template)("statements").map(texts).unwrap_or_default(),
        Kind::Insert | Kind::List => Vec::new(),
    }
}

/// The type of the result of `sql.query` and `sql.execute`, whose rows have the described columns; `None` if none are described, as
/// MariaDB does not for `returning`.
pub(super) fn results<'d>(
    spec: &ActionSpec,
    inputs: &StaticInputs<'_>,
    described: &dyn Fn(&str) -> Option<&'d DescribedStatement>,
) -> Option<ResultType> {
    let [connection_type] = &inputs.connection_types[..] else { return None };
    let dialect = Dialect::of(connection_type)?;
    let described = described(inputs.literal("sql")?.as_str()?).filter(|known| !known.columns.is_empty())?;
    let numbers = match (inputs.template)("decimals") {
        None => Some(false),
        Some(Template::Literal(value)) => Some(value.as_str() == Some("number")),
        Some(_) => None,
    };
    let columns =
        described.columns.iter().map(|column| (&*column.name, column_type(dialect, &column.kind, numbers)));
    let row = ResultType::object(columns);
    let ResultType::Object(declared) = &spec.results else { return None };
    let fields = declared.fields.iter().map(|field| {
        let kind = match field.name.as_str() {
            "rows" => ResultType::list(row.clone()),
            "row" => row.clone().or_null(),
            _ => field.kind.clone(),
        };
        ResultField { kind, ..field.clone() }
    });
    let object = ObjectType { fields: fields.collect(), ..ObjectType::clone(declared) };
    Some(ResultType::Object(Arc::new(object)))
}

/// The type of a column. `numbers` is true if numbers with decimals become numbers, and `None` if only the run tells.
fn column_type(dialect: Dialect, kind: &str, numbers: Option<bool>) -> ResultType {
    let decimal = match numbers {
        Some(false) => ResultType::Text,
        // `NaN` is a text in any case.
        Some(true) | None => ResultType::one_of([ResultType::Number, ResultType::Text]),
    };
    let integer_or_text = || ResultType::one_of([ResultType::Integer, ResultType::Text]);
    let known = match dialect {
        Dialect::Postgres => match kind {
            "int2" | "int4" | "int8" | "oid" => ResultType::Integer,
            "bool" => ResultType::Boolean,
            "float4" | "float8" => ResultType::one_of([ResultType::Number, ResultType::Text]),
            "numeric" => decimal,
            "text" | "varchar" | "bpchar" | "name" | "xml" | "uuid" | "date" | "time" | "timetz"
            | "timestamp" | "timestamptz" | "interval" | "inet" | "cidr" | "money" => ResultType::Text,
            "bytea" => ResultType::File,
            _ => ResultType::Any,
        },
        Dialect::Mysql => match kind.trim_end_matches(" unsigned") {
            "longlong" if kind.ends_with("unsigned") => integer_or_text(),
            "tiny" | "short" | "long" | "int24" | "longlong" | "year" => ResultType::Integer,
            "bit" => integer_or_text(),
            "decimal" | "newdecimal" => decimal,
            "float" | "double" => ResultType::Number,
            "date" | "newdate" | "time" | "time2" | "datetime" | "datetime2" | "timestamp" | "timestamp2" => {
                ResultType::Text
            }
            // A text, or bytes: a file.
            _ => ResultType::Any,
        },
        // A column holds values of any type.
        Dialect::Sqlite => ResultType::Any,
    };
    if known == ResultType::Any { known } else { known.or_null() }
}
