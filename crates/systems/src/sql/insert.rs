//! `sql.insert`: many rows of a list or a file, some with each statement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use connector::Call;
use model::ActionError;
use value::{File, Map, Value};

use super::file::{Format, RowReader};
use super::params::{Bound, Parameter, input_error};
use super::rows::{Form, RowSink};
use super::session::{Failure, Session};
use super::statement::Dialect;

/// The largest number of parts of the name of a table: database, schema, table.
const MAX_PARTS: usize = 3;

/// The columns of the unique indexes of a table of MySQL.
const UNIQUE_INDEXES: &str = "select s.index_name as found, coalesce(s.column_name, '') as name, \
     coalesce(c.extra like '%auto_increment%', 0) as counts from information_schema.statistics s \
     left join information_schema.columns c on c.table_schema = s.table_schema and c.table_name = s.table_name \
     and c.column_name = s.column_name \
     where s.table_schema = coalesce(?, database()) and s.table_name = ? and s.non_unique = 0";
/// The SQLSTATE with which PostgreSQL refuses a statement that would update a row twice.
const UPDATED_TWICE: &str = "21000";
/// The largest number of columns in the indexes of a table of MySQL: 64 of 16.
const MAX_INDEXED: usize = 1_024;

/// The inputs of a call, checked.
pub(super) struct Insert<'a> {
    dialect: Dialect,
    table: String,
    source: Source<'a>,
    columns: Option<Vec<(String, String)>>,
    on_conflict: OnConflict,
    key: Vec<String>,
    batch: usize,
}

enum Source<'a> {
    List(&'a [Value]),
    File(Arc<File>, Format),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnConflict {
    Error,
    Skip,
    Update,
}

/// The name of a table in quotes.
pub(super) fn table_name(text: &str, dialect: Dialect) -> Result<String, String> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > MAX_PARTS || parts.iter().any(|part| part.is_empty() || part.contains(['"', '`', '\0']))
    {
        return Err(format!(
            "`{text}` is not the name of a table; write it like `payments` or `shop.payments`, without quotes"
        ));
    }
    let quoted: Vec<String> = parts.into_iter().map(|part| dialect.quoted(part)).collect();
    Ok(quoted.join("."))
}

/// The columns of `columns`, each with its field.
fn columns(value: &Value) -> Result<Vec<(String, String)>, ActionError> {
    let wrong = || input_error("`columns` is a list of names, or a map from columns to fields");
    let named = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong);
    match value {
        Value::List(list) => list.0.iter().map(|name| named(name).map(|name| (name.clone(), name))).collect(),
        Value::Map(map) => map.iter().map(|(name, field)| Ok((name.to_string(), named(field)?))).collect(),
        _ => Err(wrong()),
    }
}

impl<'a> Insert<'a> {
    pub(super) fn of(inputs: &'a Map, dialect: Dialect) -> Result<Self, ActionError> {
        let text = |name: &str| inputs.get(name).and_then(Value::as_str).unwrap_or_default();
        let table =
            table_name(text("table"), dialect).map_err(|error| input_error(format!("`table`: {error}")))?;
        let columns = inputs.get("columns").filter(|value| !value.is_null()).map(columns).transpose()?;
        let format = if text("format") == "jsonLines" { Format::JsonLines } else { Format::Csv };
        let source = match inputs.get("rows") {
            Some(Value::List(list)) => Source::List(&list.0),
            Some(Value::File(file)) => Source::File(file.clone(), format),
            Some(Value::String(text)) => {
                let data = text.to_string().into();
                let file = File { content_type: "text/plain".into(), filename: None, data };
                Source::File(Arc::new(file), format)
            }
            other => {
                let kind = other.map_or("null", Value::kind);
                return Err(input_error(format!("`rows` is a {kind}; it takes a list of maps, or a file")));
            }
        };
        let key = inputs.get("key").and_then(Value::as_list).unwrap_or_default();
        let on_conflict = match text("onConflict") {
            "skip" => OnConflict::Skip,
            "update" => OnConflict::Update,
            _ => OnConflict::Error,
        };
        if on_conflict == OnConflict::Update && key.is_empty() {
            return Err(input_error("`onConflict: update` needs `key`, the columns by which a row is found"));
        }
        let batch = inputs.get("batch").and_then(Value::as_i64).and_then(|batch| usize::try_from(batch).ok());
        Ok(Self {
            dialect,
            table,
            source,
            columns,
            on_conflict,
            key: key.iter().map(Value::to_text).collect(),
            batch: batch.unwrap_or(1).max(1),
        })
    }

    pub(super) async fn run(&self, session: &mut dyn Session, call: &Call<'_>) -> Result<Map, Failure> {
        let mut totals = Totals::default();
        let mut columns = self.columns.clone();
        match &self.source {
            Source::List(rows) => {
                let mut batch = Vec::new();
                for chunk in rows.chunks(self.batch) {
                    batch.clear();
                    for (index, row) in chunk.iter().enumerate() {
                        let number = totals.rows + index + 1;
                        let wrong =
                            || input_error(format!("row {number} is a {}, and a row is a map", row.kind()));
                        batch.push(row.as_map().cloned().ok_or_else(wrong)?);
                    }
                    self.insert(session, call, &batch, &mut columns, &mut totals).await?;
                }
            }
            Source::File(file, format) => {
                let memory = call.http.file_memory().clone();
                let mut reader = RowReader::new(file.data.clone(), *format, self.batch, memory);
                while let Some(batch) = reader.next().await {
                    self.insert(session, call, &batch?.rows, &mut columns, &mut totals).await?;
                }
            }
        }
        let skipped = match self.on_conflict {
            OnConflict::Skip => (totals.rows as u64).saturating_sub(totals.affected),
            OnConflict::Error | OnConflict::Update => 0,
        };
        // MySQL counts an update twice, and an update that changes nothing not at all.
        let affected =
            if self.on_conflict == OnConflict::Skip { totals.affected } else { totals.rows as u64 };
        Ok(Map::from_iter([("affected", Value::from(affected)), ("skipped", Value::from(skipped))]))
    }

    async fn insert(
        &self,
        session: &mut dyn Session,
        call: &Call<'_>,
        rows: &[Map],
        columns: &mut Option<Vec<(String, String)>>,
        totals: &mut Totals,
    ) -> Result<(), Failure> {
        let is_first = totals.rows == 0;
        let columns = columns.get_or_insert_with(|| {
            let first = rows.first().into_iter().flat_map(Map::keys);
            first.map(|name| (name.to_owned(), name.to_owned())).collect()
        });
        if columns.is_empty() {
            return Err(input_error("the rows have no fields").into());
        }
        check_fields(rows, columns, self.columns.is_none(), totals.rows)?;
        if is_first
            && self.dialect == Dialect::Mysql
            && self.on_conflict != OnConflict::Error
            && !self.key.is_empty()
        {
            self.check_key(session, call, columns).await?;
        }
        // A statement may have a limited number of values.
        let most = (self.dialect.max_values() / columns.len()).max(1);
        for (index, part) in rows.chunks(most).enumerate() {
            let begin = totals.rows + index * most;
            totals.affected += self.run_statement(session, call, part, (columns, begin)).await?;
        }
        totals.rows += rows.len();
        Ok(())
    }

    /// Inserts the rows of a statement. Returns the number of affected rows.
    ///
    /// A statement of PostgreSQL updates no row twice, unlike those of the others. Only the server knows which keys are equal, so its
    /// rows go one by one after it has said so: the last of several rows with a key counts, whatever the size of the batches.
    async fn run_statement(
        &self,
        session: &mut dyn Session,
        call: &Call<'_>,
        rows: &[Map],
        (columns, begin): (&[(String, String)], usize),
    ) -> Result<u64, Failure> {
        let mut none = RowSink::new(Form::Rows { max: 0 }, usize::MAX, call.answers);
        let whole = self.statement(rows, columns, begin);
        let may_meet = self.dialect == Dialect::Postgres && self.on_conflict == OnConflict::Update;
        if !may_meet || rows.len() == 1 {
            return Ok(session.run(&whole, &mut none).await?.affected);
        }
        session.run(&Bound::plain("savepoint cogwork_batch"), &mut none).await?;
        let mut affected = 0;
        match session.run(&whole, &mut none).await {
            Ok(done) => affected = done.affected,
            Err(failure) if failure.error.code.as_deref() == Some(UPDATED_TWICE) => {
                session.run(&Bound::plain("rollback to savepoint cogwork_batch"), &mut none).await?;
                for (index, row) in rows.iter().enumerate() {
                    let one = self.statement(std::slice::from_ref(row), columns, begin + index);
                    affected += session.run(&one, &mut none).await?.affected;
                }
            }
            Err(failure) => return Err(failure),
        }
        session.run(&Bound::plain("release savepoint cogwork_batch"), &mut none).await?;
        Ok(affected)
    }

    /// Refuses a key that MySQL would not keep. Its statements do not name the key: each unique index counts, and without one a repeated row is
    /// inserted again.
    async fn check_key(
        &self,
        session: &mut dyn Session,
        call: &Call<'_>,
        columns: &[(String, String)],
    ) -> Result<(), Failure> {
        let table = call.inputs.get("table").and_then(Value::as_str).unwrap_or_default();
        let (schema, name) = match table.rsplit_once('.') {
            Some((schema, name)) => (Value::from(schema), name),
            None => (Value::Null, table),
        };
        let values = [schema, name.into()].map(|value| Parameter { name: "table".to_owned(), value });
        let statement = Bound { sql: UNIQUE_INDEXES.to_owned(), values: values.into() };
        let mut found = RowSink::new(Form::Rows { max: MAX_INDEXED }, usize::MAX, call.answers);
        session.run(&statement, &mut found).await?;
        let [(_, found), _] = found.into_rows();
        let mut indexes: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
        for part in found.as_list().unwrap_or_default() {
            let text = |name: &str| part.get(name).unwrap_or_default().to_text();
            let is_given = columns.iter().any(|(column, _)| column.eq_ignore_ascii_case(&text("name")));
            // A value that the database counts up meets no row.
            let is_new = !is_given && part.get("counts") == Some(1.into());
            indexes.entry(text("found")).or_default().push((text("name").to_lowercase(), is_new));
        }
        let key: BTreeSet<String> = self.key.iter().map(|name| name.to_lowercase()).collect();
        let before = indexes.len();
        indexes.retain(|_, parts| parts.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>() != key);
        if indexes.len() == before {
            let message = format!(
                "`key`: `{table}` has no unique index of these columns, so its rows would be inserted again"
            );
            return Err(input_error(message).into());
        }
        match indexes.iter().find(|(_, parts)| !parts.iter().any(|(_, is_new)| *is_new)) {
            None => Ok(()),
            Some((other, _)) => Err(input_error(format!(
                "`key`: `{table}` has also the unique index `{other}`, and MySQL would take a row that meets this one for the same; \
                 leave `onConflict` out, or write the statement with `sql.execute`"
            ))
            .into()),
        }
    }

    /// A statement that inserts these rows, beginning with the row after `begin`.
    fn statement(&self, rows: &[Map], columns: &[(String, String)], begin: usize) -> Bound {
        let names: Vec<String> = columns.iter().map(|(column, _)| self.dialect.quoted(column)).collect();
        let mut sql = format!("insert into {} ({}) values ", self.table, names.join(", "));
        let mut values = Vec::with_capacity(rows.len() * columns.len());
        for (index, row) in rows.iter().enumerate() {
            sql.push_str(if index == 0 { "(" } else { ", (" });
            for (position, (_, field)) in columns.iter().enumerate() {
                let separator = if position == 0 { "" } else { ", " };
                let _ = write!(sql, "{separator}{}", self.dialect.placeholder(values.len()));
                let name = format!("rows[{}].{field}", begin + index);
                values.push(Parameter { name, value: row.get(field).cloned().unwrap_or_default() });
            }
            sql.push(')');
        }
        sql.push_str(&self.conflict_clause(columns));
        Bound { sql, values }
    }

    fn conflict_clause(&self, columns: &[(String, String)]) -> String {
        let quoted = |name: &String| self.dialect.quoted(name);
        let key: Vec<String> = self.key.iter().map(quoted).collect();
        let key_clause = if key.is_empty() { String::new() } else { format!(" ({})", key.join(", ")) };
        let others: Vec<String> = columns
            .iter()
            .map(|(column, _)| column)
            .filter(|column| !self.key.contains(column))
            .map(quoted)
            .collect();
        let is_mysql = self.dialect == Dialect::Mysql;
        match self.on_conflict {
            OnConflict::Error => String::new(),
            // Unlike `ignore`, it hides no other error.
            OnConflict::Skip if is_mysql => {
                let first = columns.first().map(|(column, _)| quoted(column)).unwrap_or_default();
                format!(" on duplicate key update {first} = {first}")
            }
            OnConflict::Update if is_mysql => {
                let set = others.iter().chain(key.iter().filter(|_| others.is_empty()));
                let set: Vec<String> = set.map(|name| format!("{name} = values({name})")).collect();
                format!(" on duplicate key update {}", set.join(", "))
            }
            OnConflict::Update if !others.is_empty() => {
                let set: Vec<String> =
                    others.iter().map(|name| format!("{name} = excluded.{name}")).collect();
                format!(" on conflict{key_clause} do update set {}", set.join(", "))
            }
            OnConflict::Skip | OnConflict::Update => format!(" on conflict{key_clause} do nothing"),
        }
    }
}

/// The numbers of rows so far.
#[derive(Default)]
struct Totals {
    rows: usize,
    affected: u64,
}

/// Refuses rows whose fields differ: a value would be lost, or a null written that nobody gave, in place of a default or over a value.
/// With named columns, further fields are left out on purpose.
fn check_fields(
    rows: &[Map],
    columns: &[(String, String)],
    is_derived: bool,
    before: usize,
) -> Result<(), ActionError> {
    for (number, row) in (before + 1..).zip(rows) {
        if let Some((column, field)) = columns.iter().find(|(_, field)| !row.contains_key(field)) {
            let owner = match is_derived {
                true => ", which the first row has".to_owned(),
                false => format!(" for the column `{column}`"),
            };
            let has: Vec<&str> = row.keys().collect();
            return Err(input_error(format!(
                "row {number} lacks the field `{field}`{owner}; it has `{}`. Write `{field}: null` for no value, or insert such rows \
                 with a step of their own, in which the column keeps its value or gets its default",
                has.join("`, `")
            )));
        }
        let known = |name: &&str| columns.iter().any(|(_, field)| field == name);
        if is_derived && let Some(other) = row.keys().find(|name| !known(name)) {
            return Err(input_error(format!(
                "row {number} has the field `{other}`, which the first row lacks; give it to every row, or name the `columns`"
            )));
        }
    }
    Ok(())
}
