//! Statements of steps to a SQLite file, beside the plain client: the difference is Cogwork's.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, ResolvedConnection, UncountedAnswers,
};
use rusqlite::Connection;
use value::{Map, MemoryFiles, Reserved, Value};

use super::Terms;
use crate::Error;
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// The number of rounds of each.
const ROUNDS: usize = 7;
/// The rows that are read and written at a time.
const ROWS: u32 = 100_000;
/// The statements of one row that are run in a round.
const STATEMENTS: u32 = 300;
const READ: &str = "select n, s from rows";
const ONE: &str = "select n, s from rows where n = 7";

/// Measures single statements, rows into a file, and rows into a table.
pub(super) async fn measure(_: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(Error::io("a folder"))?;
    let plain = Connection::open(folder.path().join("rows.db"))?;
    plain.execute_batch(&format!(
        "pragma journal_mode = wal; create table rows (n integer primary key, s text); create table copy (n integer, s text);
         insert into rows with recursive c (n) as (select 1 union all select n + 1 from c where n < {ROWS}) select n, 'row ' || n from c"
    ))?;
    let ours = Ours::new("sql.sqlite", Map::from_iter([("file", Value::from("rows.db"))]), folder.path())?;
    let (mut rows, mut statements, mut inserts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let found = ours.call("sql.query", [("sql", Value::from(READ)), ("as", Value::from("csv"))]).await?;
        let with_step = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let file = export(&plain)?;
        rows.push((with_step, began.elapsed().as_secs_f64()));
        drop(file);
        let began = Instant::now();
        for _ in 0..STATEMENTS {
            ours.call("sql.query", [("sql", Value::from(ONE))]).await?;
        }
        let with_step = began.elapsed().as_secs_f64();
        let began = Instant::now();
        for _ in 0..STATEMENTS {
            let transaction = plain.unchecked_transaction()?;
            transaction.prepare_cached(ONE)?.query_row([], |row| row.get::<_, String>(1))?;
            transaction.commit()?;
        }
        statements.push((with_step, began.elapsed().as_secs_f64()));
        let file = found.get("file").unwrap_or_default();
        let began = Instant::now();
        ours.call("sql.insert", [("table", Value::from("copy")), ("rows", file)]).await?;
        let with_step = began.elapsed().as_secs_f64();
        let began = Instant::now();
        insert(&plain)?;
        inserts.push((with_step, began.elapsed().as_secs_f64()));
        plain.execute("delete from copy", [])?;
    }
    for (name, count, times) in [
        ("rows of SQLite into a file", ROWS, rows),
        ("rows of a file into SQLite", ROWS, inserts),
        ("statements to SQLite", STATEMENTS, statements),
    ] {
        let per_second = |time: f64| f64::from(count) / time;
        let ratio = median(times.iter().map(|(ours, plain)| plain / ours));
        let row = Row::new(
            "sql",
            name.to_owned(),
            per_second(median(times.iter().map(|(ours, _)| *ours))),
            Unit::PerSecond,
        );
        let plain = per_second(median(times.iter().map(|(_, plain)| *plain)));
        report.add(row.beside("rusqlite", plain, ratio).target(Some(Target::Ratio(0.02))));
    }
    Ok(())
}

/// Writes all rows as CSV, as a program of its own would.
fn export(plain: &Connection) -> Result<Vec<u8>, Error> {
    use std::io::Write as _;
    let mut file = Vec::new();
    let mut statement = plain.prepare_cached(READ)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, text): (i64, String) = (row.get(0)?, row.get(1)?);
        writeln!(file, "{number},{text}").map_err(Error::io("memory"))?;
    }
    Ok(file)
}

/// Inserts as many rows with a prepared statement, in one transaction.
fn insert(plain: &Connection) -> Result<(), Error> {
    let transaction = plain.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached("insert into copy (n, s) values (?, ?)")?;
    for number in 0..ROWS {
        statement.execute((number, format!("row {number}")))?;
    }
    drop(statement);
    Ok(transaction.commit()?)
}

/// The actions, with a connection.
pub(super) struct Ours<'f> {
    pub(super) registry: connector::Registry,
    pub(super) http: Http,
    pub(super) connection: ResolvedConnection,
    folder: &'f Path,
}

pub(super) struct Silent;

impl LogSink for Silent {
    fn line(&self, _: model::LogLevel, _: &str) {}
}

impl<'f> Ours<'f> {
    pub(super) fn new(kind: &str, with: Map, folder: &'f Path) -> Result<Self, Error> {
        let failed = |reason: String| Error::Server(reason);
        let registry = catalog::builtin().map_err(|error| failed(error.to_string()))?;
        let allow = AllowList::parse(["127.0.0.1"]).map_err(|error| failed(error.to_string()))?;
        let http = Http::new(HttpOptions { allow, ..HttpOptions::default() });
        let http = http.map_err(|error| failed(error.to_string()))?;
        let found = registry.connection_type(kind).ok_or_else(|| failed(format!("there is no {kind}")))?;
        let connection = found.resolve("rows", &with).map_err(|error| failed(error.to_string()))?;
        Ok(Self { registry, http, connection, folder })
    }

    pub(super) async fn call<const N: usize>(
        &self,
        name: &str,
        inputs: [(&str, Value); N],
    ) -> Result<Value, Error> {
        let failed = |error: model::ActionError| Error::Server(error.into_message());
        let action = self.registry.action(name);
        let action = action.ok_or_else(|| Error::Server(format!("there is no {name}")))?;
        let memory = Reserved::uncounted(usize::MAX);
        let inputs =
            connector::check_inputs(action.spec(), &Map::from_iter(inputs), &memory).map_err(failed)?;
        let call = Call {
            inputs: &inputs,
            connection: Some(&self.connection),
            idempotency_key: "",
            memory: &memory,
            answers: &UncountedAnswers,
            http: &self.http,
            debug: false,
            log: &Silent,
            trace: None,
            files: FileAccess { storage: Arc::new(MemoryFiles), dir: Some(self.folder) },
            time_left: None,
        };
        action.call(call).await.map_err(failed)
    }
}
