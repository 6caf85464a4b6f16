//! Rows of a table on their way to a result: the names of its columns, and the values of their types.

use std::collections::HashMap;
use std::fmt::Display;

use model::ActionError;
use value::{Key, Value};

use crate::convert::{ColumnType, Types};
use crate::sql::rows::{Column, RowSink};

/// A part of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Batch {
    /// The columns, before the first row.
    Columns(Vec<Column>),
    /// Rows, each with a value for each column.
    Rows(Vec<Vec<Value>>),
    /// Rows of a table without names.
    Lists(Vec<Vec<Value>>),
}

impl Batch {
    /// Passes the part to a result. Returns false if that needs no more rows.
    pub(crate) async fn into_sink(self, sink: &mut RowSink<'_>) -> Result<bool, ActionError> {
        match self {
            Self::Columns(columns) => sink.columns(columns).await?,
            Self::Rows(rows) => {
                for row in rows {
                    if !sink.row(row).await? {
                        return Ok(false);
                    }
                }
            }
            Self::Lists(rows) => {
                for row in rows {
                    sink.value(Value::from(row)).await?;
                }
            }
        }
        Ok(true)
    }
}

/// The names of the columns.
pub(crate) enum Names {
    /// The author names the columns, in order.
    Given(Vec<String>),
    /// The first row names the columns, each with its index; the author may want some of them, in another order.
    Found {
        /// The cells of the first row.
        names: Vec<(usize, String)>,
        /// The wanted names; all if not given.
        wanted: Option<Vec<String>>,
    },
}

/// The columns of a table.
pub(crate) struct Header {
    columns: Vec<HeaderColumn>,
    /// True if a cell outside of the columns is left out, and no mistake.
    is_selection: bool,
}

struct HeaderColumn {
    index: usize,
    name: Key,
    kind: Option<ColumnType>,
}

impl Header {
    /// Reads the names. `place` names a column by its index.
    ///
    /// # Errors
    /// Returns the reason why a name is missing or there twice.
    pub(crate) fn new(names: Names, types: &Types, place: &dyn Fn(usize) -> String) -> Result<Self, String> {
        let is_selection = matches!(&names, Names::Found { wanted: Some(_), .. });
        let found: Vec<(usize, String)> = match names {
            Names::Given(names) => names.into_iter().enumerate().collect(),
            Names::Found { names, wanted: None } => {
                names.into_iter().filter(|(_, name)| !name.trim().is_empty()).collect()
            }
            Names::Found { names, wanted: Some(wanted) } => select(&names, &wanted, place)?,
        };
        let mut seen = HashMap::new();
        for (index, name) in &found {
            if let Some(first) = seen.insert(name.as_str(), *index) {
                return Err(format!(
                    "{} and {} are both named `{name}`; with `header: false` the first row is no header, and `columns` \
                     names the columns",
                    place(first),
                    place(*index)
                ));
            }
        }
        let kinds = types.of_columns(found.iter().map(|(_, name)| name.as_str()))?;
        let column =
            |((index, name), kind): ((usize, String), _)| HeaderColumn { index, name: Key::from(name), kind };
        Ok(Self { columns: found.into_iter().zip(kinds).map(column).collect(), is_selection })
    }

    /// The columns for a result.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let kind = |kind: Option<ColumnType>| kind.map_or("any", ColumnType::name).to_owned();
        self.columns
            .iter()
            .map(|column| Column { name: column.name.clone(), kind: kind(column.kind) })
            .collect()
    }

    /// The values of a row, from its cells by index. `place` names a cell by its index.
    ///
    /// # Errors
    /// Returns the reason if a cell is not of its column's type, or in no column.
    pub(crate) fn row(
        &self,
        cells: impl IntoIterator<Item = (usize, Value)>,
        place: &dyn Fn(usize) -> String,
    ) -> Result<Vec<Value>, String> {
        let mut row = vec![Value::Null; self.columns.len()];
        for (index, value) in cells {
            // Mostly the columns are all there, in order.
            let near = self.columns.get(index).is_some_and(|column| column.index == index);
            let at =
                if near { Some(index) } else { self.columns.iter().position(|column| column.index == index) };
            match at.and_then(|at| Some((self.columns.get(at)?, row.get_mut(at)?))) {
                Some((column, slot)) => {
                    let place = CellPlace { place, index, name: &column.name };
                    *slot = match column.kind {
                        Some(kind) => kind.convert(value, &place)?,
                        None => value,
                    };
                }
                None if self.is_selection || is_empty(&value) => {}
                None => {
                    return Err(format!(
                        "{} has a value, and its column has no name; name it in the header, or all with `columns` and \
                         `header: false`",
                        place(index)
                    ));
                }
            }
        }
        Ok(row)
    }
}

fn select(
    names: &[(usize, String)],
    wanted: &[String],
    place: &dyn Fn(usize) -> String,
) -> Result<Vec<(usize, String)>, String> {
    let one = |name: &String| {
        let mut found = names.iter().filter(|(_, other)| other == name);
        match (found.next(), found.next()) {
            (Some(found), None) => Ok(found.clone()),
            (None, _) => {
                let there: Vec<String> = names.iter().take(20).map(|(_, name)| format!("`{name}`")).collect();
                Err(format!("`columns` has `{name}`, which the header has not; it has {}", there.join(", ")))
            }
            (Some((first, _)), Some((second, _))) => {
                Err(format!("{} and {} are both named `{name}`", place(*first), place(*second)))
            }
        }
    };
    wanted.iter().map(one).collect()
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

/// The place of a cell for messages: `B7 (amount)`.
struct CellPlace<'a> {
    place: &'a dyn Fn(usize) -> String,
    index: usize,
    name: &'a str,
}

impl Display for CellPlace<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (`{}`)", (self.place)(self.index), self.name)
    }
}
