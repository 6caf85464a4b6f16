//! `sql.listRows`: the rows of a table by a column that tells when they were written, for events.

use connector::Call;
use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use value::instant::Instant;
use value::{Map, Value};

use super::insert::table_name;
use super::params::{Bound, Parameter, input_error};
use super::rows::{Form, RowSink};
use super::server::NO_WAKE;
use super::session::{Failure, Session};
use super::statement::Dialect;
use crate::spec::{instant_of, period_of};

/// The longest name of a channel, in bytes: PostgreSQL cuts longer ones.
const MAX_CHANNEL: usize = 63;
/// The rows of a page.
const PAGE: usize = 1_000;

/// The inputs of a call, checked.
pub(super) struct List {
    dialect: Dialect,
    watermark: String,
    ids: Vec<String>,
    is_newest: bool,
    statement: Bound,
}

/// Checks the name of a channel of notifications.
pub(super) fn check_channel(channel: &str) -> Result<(), ActionError> {
    if channel.is_empty() || channel.len() > MAX_CHANNEL || channel.contains('\0') {
        let message = format!("`wake` is the name of a channel with at most {MAX_CHANNEL} bytes");
        return Err(input_error(message));
    }
    Ok(())
}

impl List {
    pub(super) fn of(inputs: &Map, dialect: Dialect) -> Result<Self, ActionError> {
        let text = |name: &str| inputs.get(name).and_then(Value::as_str).unwrap_or_default();
        let texts = |name: &str| -> Vec<String> {
            inputs.get(name).and_then(Value::as_list).unwrap_or_default().iter().map(Value::to_text).collect()
        };
        let table =
            table_name(text("table"), dialect).map_err(|error| input_error(format!("`table`: {error}")))?;
        if dialect != Dialect::Postgres && !text("wake").is_empty() {
            return Err(input_error(NO_WAKE));
        }
        if inputs.contains_key("wake") {
            check_channel(text("wake"))?;
        }
        period_of(inputs, "overlap")?;
        let (watermark, ids) = (text("watermark").to_owned(), texts("id"));
        if ids.is_empty() {
            return Err(input_error("`id` is an empty list; name the columns of the key"));
        }
        let is_newest = inputs.get("newest").and_then(Value::as_bool).unwrap_or(false);
        let mut list = Self {
            dialect,
            watermark,
            ids,
            is_newest,
            statement: Bound { sql: String::new(), values: Vec::new() },
        };
        list.statement =
            list.select(&table, &texts("columns"), instant_of(inputs, "after")?, text("cursor"))?;
        Ok(list)
    }

    fn select(
        &self,
        table: &str,
        columns: &[String],
        after: Option<Timestamp>,
        cursor: &str,
    ) -> Result<Bound, ActionError> {
        let quoted = |name: &String| self.dialect.quoted(name);
        let watermark = quoted(&self.watermark);
        let ids: Vec<String> = self.ids.iter().map(quoted).collect();
        let selected = if columns.is_empty() {
            "*".to_owned()
        } else {
            let needed = self.ids.iter().chain([&self.watermark]).filter(|name| !columns.contains(name));
            columns.iter().chain(needed).map(quoted).collect::<Vec<_>>().join(", ")
        };
        let mut values: Vec<Parameter> = Vec::new();
        let mut bind = |name: &str, value: Value| {
            values.push(Parameter { name: name.to_owned(), value });
            self.dialect.placeholder(values.len() - 1)
        };
        let mut conditions = vec![format!("{watermark} is not null")];
        if let Some(at) = after {
            conditions.push(match self.dialect {
                Dialect::Postgres => format!("{watermark} >= {}", bind("after", at.to_string().into())),
                Dialect::Mysql => {
                    let at = at.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string();
                    format!("{watermark} >= {}", bind("after", at.into()))
                }
                // Its times are texts of several forms.
                Dialect::Sqlite => {
                    format!("julianday({watermark}) >= julianday({})", bind("after", at.to_string().into()))
                }
            });
        }
        if !cursor.is_empty() {
            let wrong = || input_error("`cursor` is not one that this action has given");
            let position = Value::from_stored(cursor).map_err(|_| wrong())?;
            let position =
                position.as_list().filter(|values| values.len() == ids.len() + 1).ok_or_else(wrong)?;
            let (at, key) = position.split_first().ok_or_else(wrong)?;
            let at = bind("cursor", self.position(at));
            let position: Vec<String> =
                std::iter::once(at).chain(key.iter().map(|value| bind("cursor", value.clone()))).collect();
            conditions.push(format!("({watermark}, {}) > ({})", ids.join(", "), position.join(", ")));
        }
        let (order, limit) = match self.is_newest {
            true => (format!("{watermark} desc"), 1),
            false => (format!("{watermark}, {}", ids.join(", ")), PAGE),
        };
        let conditions = conditions.join(" and ");
        let sql = format!("select {selected} from {table} where {conditions} order by {order} limit {limit}");
        Ok(Bound { sql, values })
    }

    /// The time of a row as it is compared with the column.
    fn position(&self, value: &Value) -> Value {
        match (self.dialect, value.as_str()) {
            // MySQL reads no zone, and its session is in UTC.
            (Dialect::Mysql, Some(text)) if Instant::parse(text).is_some() => {
                Value::from(text.trim_end_matches('Z'))
            }
            _ => value.clone(),
        }
    }

    /// Reads a page of rows, oldest first.
    pub(super) async fn read(&self, session: &mut dyn Session, call: &Call<'_>) -> Result<Value, Failure> {
        let mut rows = RowSink::new(Form::Rows { max: PAGE }, call.http.options().max_response, call.answers);
        session.run(&self.statement, &mut rows).await?;
        let [(_, rows), _] = rows.into_rows();
        let rows = rows.as_list().unwrap_or_default();
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            records.push(self.record(row)?);
        }
        let last = rows.last().filter(|_| rows.len() == PAGE && !self.is_newest);
        let next = last.and_then(|row| {
            let position =
                [&self.watermark].into_iter().chain(&self.ids).map(|name| row.get(name).unwrap_or_default());
            position.collect::<Value>().to_stored().ok()
        });
        let entries = [("rows", Value::from(records)), ("nextCursor", next.map_or(Value::Null, Value::from))];
        Ok(Value::from(Map::from_iter(entries)))
    }

    /// A row with its key, which is another one after each change, and its instant.
    fn record(&self, row: &Value) -> Result<Value, ActionError> {
        let written = row.get(&self.watermark).unwrap_or_default();
        let at = instant(&written).ok_or_else(|| {
            let message = format!(
                "the column `{}` holds `{}`, which is no date or time; for other columns poll `sql.query`",
                self.watermark,
                written.to_text()
            );
            ActionError::new(ErrorKind::Response, message)
        })?;
        let parts = self.ids.iter().map(|name| row.get(name).unwrap_or_default().to_text());
        let key: Vec<String> = parts.chain([at.clone()]).collect();
        let entries = [("key", Value::from(key.join("/"))), ("at", Value::from(at)), ("row", row.clone())];
        Ok(Value::from(Map::from_iter(entries)))
    }
}

/// The instant of a date or a time; one without a zone is in UTC, as the session is.
fn instant(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let forms = [text.to_owned(), format!("{text}Z"), format!("{text}T00:00:00Z")];
    forms.iter().find_map(|form| Instant::parse(form)).map(|at| at.to_timestamp().to_string())
}
