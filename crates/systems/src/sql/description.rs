//! The answer of a database that was asked for a statement's parameters and columns.

use value::{Map, Value};

use super::rows::Column;

/// The description of a statement by its database.
#[derive(Debug, Default)]
pub(super) struct Description {
    /// The type of each placeholder; empty if the database states none.
    pub parameters: Vec<String>,
    pub columns: Vec<Column>,
}

impl Description {
    /// The result of `sql.describe`. `names` are the parameters of the placeholders, in order.
    pub(super) fn into_result(self, names: &[String]) -> Value {
        let typed = |name: &str, kind: &str| -> Value {
            Map::from_iter([("name", Value::from(name)), ("type", Value::from(kind))]).into()
        };
        let mut parameters: Vec<(&str, &str)> = Vec::new();
        for (name, kind) in names.iter().zip(&self.parameters) {
            // A parameter that occurs twice may have two types; the first one stands for it.
            if !parameters.iter().any(|(known, _)| known == name) {
                parameters.push((name, kind));
            }
        }
        let parameters: Vec<Value> = parameters.into_iter().map(|(name, kind)| typed(name, kind)).collect();
        let columns: Vec<Value> =
            self.columns.iter().map(|column| typed(&column.name, &column.kind)).collect();
        Map::from_iter([("parameters", Value::from(parameters)), ("columns", Value::from(columns))]).into()
    }
}
