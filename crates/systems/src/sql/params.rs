//! Parameters: converts the values of a step to the values of a statement.

use model::{ActionError, ErrorKind};
use value::{Map, Value};

use super::statement::{Dialect, Statement};

/// The largest number of items of a list in `in (…)`.
const MAX_LIST: usize = 1_000;

const NULL_IN_LIST: &str =
    "which equals no value in `in (…)`, and with which `not in (…)` finds nothing; leave it out";

/// A statement with its values.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// The text for the database.
    pub sql: String,
    /// The values of its placeholders.
    pub values: Vec<Parameter>,
}

impl Bound {
    /// A statement without values.
    pub(super) fn plain(sql: &str) -> Self {
        Self { sql: sql.to_owned(), values: Vec::new() }
    }
}

/// The value of a placeholder.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// The name for messages.
    pub name: String,
    pub value: Value,
}

pub(super) fn input_error(message: impl Into<String>) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}

/// Reads a statement that is known at runtime only, or was checked before.
pub(super) fn parse(sql: &str, dialect: Dialect) -> Result<Statement, ActionError> {
    Statement::parse(sql, dialect).map_err(|error| input_error(format!("`sql`: {error}")))
}

/// Binds values to the parameters of a statement.
pub(super) fn bind(statement: &Statement, params: &Map) -> Result<Bound, ActionError> {
    let names = statement.parameters();
    if let Some(unused) = params.keys().find(|name| !names.contains(name)) {
        return Err(input_error(format!("`params.{unused}` is not a parameter of the statement")));
    }
    let mut values = Vec::new();
    let mut failed = None;
    let sql = statement.render(|name, in_list| match value_of(name, in_list, params) {
        Ok(found) => {
            let count = found.len();
            let named = found.into_iter().map(|value| Parameter { name: format!("params.{name}"), value });
            values.extend(named);
            count
        }
        Err(error) => {
            failed.get_or_insert(error);
            0
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(Bound { sql, values }),
    }
}

/// The values of a parameter: one, or the items of a list in `in (…)`.
fn value_of(name: &str, in_list: bool, params: &Map) -> Result<Vec<Value>, ActionError> {
    let Some(value) = params.get(name) else {
        return Err(input_error(format!("the parameter `:{name}` has no value; add it to `params`")));
    };
    match value.as_list().filter(|_| in_list) {
        None if !in_list || !value.is_null() => Ok(vec![value.clone()]),
        Some([]) => Err(input_error(format!(
            "`params.{name}` is an empty list, for which `in ({})` is no condition; skip the step where nothing is to be found",
            format_args!(":{name}")
        ))),
        Some(items) if items.len() > MAX_LIST => {
            let count = items.len();
            Err(ActionError::new(
                ErrorKind::Limit,
                format!("`params.{name}` has {count} items, and `in (…)` takes at most {MAX_LIST}"),
            ))
        }
        Some(items) if items.iter().any(Value::is_null) => {
            Err(input_error(format!("`params.{name}` has a null, {NULL_IN_LIST}")))
        }
        None => Err(input_error(format!("`params.{name}` is null, {NULL_IN_LIST}"))),
        Some(items) => Ok(items.to_vec()),
    }
}
