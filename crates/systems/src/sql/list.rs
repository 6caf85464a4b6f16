//! `sql.listRows`: the rows of a table by a column that tells when they were written, for events.

use connector::Call;
use jiff::Timestamp;
use model::{ActionError, LogLevel};
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
/// The rows of which the first one with a date or time is the newest.
const NEWEST: usize = 100;
/// The characters of a value in a message.
const SHOWN: usize = 60;

/// The inputs of a call, checked.
pub(super) struct List {
    dialect: Dialect,
    watermark: String,
    ids: Vec<String>,
    is_newest: bool,
    is_open: bool,
    statement: Bound,
    /// Finds a row that the statement does not, since SQLite reads no date or time in it.
    unread: Option<Bound>,
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
            is_open: text("after").is_empty(),
            statement: Bound::plain(""),
            unread: None,
        };
        if dialect == Dialect::Sqlite && text("cursor").is_empty() && (is_newest || !list.is_open) {
            let watermark = dialect.quoted(&list.watermark);
            let readable = readable(&watermark);
            list.unread = Some(Bound::plain(&format!(
                "select {watermark} from {table} where {watermark} is not null and not ({readable}) limit 1"
            )));
        }
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
                    let at = bind("after", at.to_string().into());
                    format!("{} and julianday({watermark}) >= julianday({at})", readable(&watermark))
                }
            });
        }
        if self.is_newest && self.dialect == Dialect::Sqlite {
            conditions.push(readable(&watermark));
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
            true => (format!("{watermark} desc"), NEWEST),
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

    /// Reads a page of rows, oldest first. A row without a date or time is left out: it must not keep the others away.
    pub(super) async fn read(&self, session: &mut dyn Session, call: &Call<'_>) -> Result<Value, Failure> {
        let rows = found(session, call, &self.statement).await?;
        let rows = rows.as_list().unwrap_or_default();
        let unread = match &self.unread {
            Some(statement) => found(session, call, statement).await?,
            None => Value::Null,
        };
        let mut left_out: Vec<Value> = Vec::new();
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            let written = row.get(&self.watermark).unwrap_or_default();
            match instant(&written) {
                Some(at) => records.push(self.record(row, at)),
                None => left_out.push(written),
            }
        }
        left_out
            .extend(unread.as_list().unwrap_or_default().iter().filter_map(|row| row.get(&self.watermark)));
        if self.is_newest {
            records.truncate(1);
        }
        let last = rows.last().filter(|_| rows.len() == PAGE && !self.is_newest);
        let next = last.and_then(|row| self.next_cursor(row));
        let problem = left_out.first().map(|value| self.problem(value, records.is_empty())).transpose()?;
        if let Some(problem) = &problem {
            call.log.line(LogLevel::Warn, problem);
        }
        let entries = [
            ("rows", Value::from(records)),
            ("nextCursor", next.map_or(Value::Null, Value::from)),
            ("leftOut", problem.map_or(Value::Null, Value::from)),
        ];
        Ok(Value::from(Map::from_iter(entries)))
    }

    /// The position behind a row; `None` if only rows without a time follow, which are the last ones of PostgreSQL.
    fn next_cursor(&self, row: &Value) -> Option<String> {
        let position = [&self.watermark].into_iter().chain(&self.ids);
        let position: Vec<Value> = position.map(|name| row.get(name).unwrap_or_default()).collect();
        let written = position.first().and_then(Value::as_str);
        let is_end = self.dialect == Dialect::Postgres && written == Some("infinity");
        if is_end { None } else { position.into_iter().collect::<Value>().to_stored().ok() }
    }

    /// A row with its key, which is another one after each change, and its instant.
    fn record(&self, row: &Value, at: String) -> Value {
        let parts = self.ids.iter().map(|name| row.get(name).unwrap_or_default().to_text());
        let key: Vec<String> = parts.chain([at.clone()]).collect();
        let entries = [("key", Value::from(key.join("/"))), ("at", Value::from(at)), ("row", row.clone())];
        Value::from(Map::from_iter(entries))
    }

    /// The message about rows whose time is `value`. It is an error if no row of the column can have a time: the values of the types of
    /// times are texts, and a column of SQLite has values of several types.
    fn problem(&self, value: &Value, is_alone: bool) -> Result<String, ActionError> {
        let column = &self.watermark;
        let shown = match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                format!("`{}`", value.to_text().chars().take(SHOWN).collect::<String>())
            }
            other => format!("a {}", other.kind()),
        };
        let is_fixed = self.dialect != Dialect::Sqlite || self.is_newest || self.is_open;
        if is_alone && is_fixed && value.as_str().is_none() {
            return Err(input_error(format!(
                "`watermark`: the column `{column}` holds {shown}, which is no date or time; name another column, or poll `sql.query`"
            )));
        }
        Ok(format!(
            "rows whose column `{column}` holds no date or time that can be compared, such as {shown}, are left out; write one, or null"
        ))
    }
}

/// The rows that a statement finds.
async fn found(session: &mut dyn Session, call: &Call<'_>, statement: &Bound) -> Result<Value, Failure> {
    let mut rows = RowSink::new(Form::Rows { max: PAGE }, call.http.options().max_response, call.answers);
    session.run(statement, &mut rows).await?;
    let [(_, rows), _] = rows.into_rows();
    Ok(rows)
}

/// The condition that SQLite reads a date or time in a column. It would take a number for a Julian day.
fn readable(column: &str) -> String {
    format!("typeof({column}) = 'text' and julianday({column}) is not null")
}

/// The instant of a date or a time; one without a zone is in UTC, as the session is.
fn instant(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let forms = [text.to_owned(), format!("{text}Z"), format!("{text}T00:00:00Z")];
    forms.iter().find_map(|form| Instant::parse(form)).map(|at| at.to_timestamp().to_string())
}
