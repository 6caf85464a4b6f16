//! Queries of executions, definitions, addresses and watermarks.

use jiff::Timestamp;
use model::automation::{TriggerId, TriggerKey};
use model::{AutomationId, DefinitionHash, ExecutionId, LogLine, Origin};
use rusqlite::{Connection, Row, params};

use super::list::{self, COLUMNS, MAX_PAGE};
use super::pool::read_error;
use store::Error;
use store::codec::{decode_origin, status_of};
use store::{Address, Definition, DefinitionUse, ExecutionFilter, ExecutionRow, Page, Watermark};

/// Maximum number of log lines of one read.
const MAX_LINES: u32 = 10_000;

/// Returns the list row of one execution.
pub(super) fn execution(connection: &Connection, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM executions WHERE id = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(read_error)?;
    let mut rows = statement.query([id.as_bytes()]).map_err(read_error)?;
    rows.next().map_err(read_error)?.map(execution_row).transpose()
}

/// Returns a page of executions, newest first.
pub(super) fn executions(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: Page,
) -> Result<Vec<ExecutionRow>, Error> {
    let query = list::page(filter, page);
    let mut statement = connection.prepare_cached(&query.sql).map_err(read_error)?;
    let mut rows = statement.query(query.params().as_slice()).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        found.push(execution_row(row)?);
    }
    Ok(found)
}

/// Returns the number of executions that match, at most `at_most`.
pub(super) fn count_executions(
    connection: &Connection,
    filter: &ExecutionFilter,
    at_most: u32,
) -> Result<u32, Error> {
    let query = list::count(filter, at_most);
    let mut statement = connection.prepare_cached(&query.sql).map_err(read_error)?;
    statement.query_row(query.params().as_slice(), |row| row.get(0)).map_err(read_error)
}

/// Returns executions that have not ended, oldest first.
pub(super) fn unfinished(
    connection: &Connection,
    after: Option<ExecutionId>,
    limit: u32,
) -> Result<Vec<ExecutionRow>, Error> {
    let after = after.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
    let mut statement = connection.prepare_cached(&list::unfinished()).map_err(read_error)?;
    let mut rows = statement.query(params![after, limit.min(MAX_PAGE)]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        found.push(execution_row(row)?);
    }
    Ok(found)
}

/// Returns the number of executions that have not ended.
pub(super) fn unfinished_count(connection: &Connection) -> Result<u64, Error> {
    let count: i64 = connection
        .prepare_cached(&list::unfinished_count())
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(read_error)?;
    u64::try_from(count).map_err(|_| corrupt("a count is negative".to_owned()))
}

/// Returns log lines of an execution in order, beginning with index `after`.
pub(super) fn logs(
    connection: &Connection,
    id: ExecutionId,
    after: u32,
    limit: u32,
) -> Result<Vec<LogLine>, Error> {
    let limit = limit.min(MAX_LINES) as usize;
    // Begins with the row that contains the line `after`.
    let sql = "SELECT first, lines FROM logs WHERE execution = ?1 AND first >= coalesce( \
                 (SELECT max(first) FROM logs WHERE execution = ?1 AND first <= ?2), 0) ORDER BY first";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query(params![id.as_bytes(), after]).map_err(read_error)?;
    let mut found: Vec<LogLine> = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next().map_err(read_error)?
    {
        let first: u32 = row.get(0).map_err(read_error)?;
        let lines = row.get_ref(1).and_then(|lines| Ok(lines.as_str()?)).map_err(read_error)?;
        let lines: Vec<LogLine> = serde_json::from_str(lines).map_err(|error| {
            corrupt(format!("log line {first} of execution {id} cannot be read: {error}"))
        })?;
        let skip = after.saturating_sub(first) as usize;
        found.extend(lines.into_iter().skip(skip).take(limit - found.len()));
    }
    Ok(found)
}

/// Returns the definition with this hash.
pub(super) fn definition(connection: &Connection, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
    let sql =
        "SELECT automation, path, text FROM definitions JOIN definition_texts USING (hash) WHERE hash = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([hash.as_bytes()]).map_err(read_error)?;
    let Some(row) = rows.next().map_err(read_error)? else { return Ok(None) };
    Ok(Some(Definition {
        hash,
        automation: automation(row, 0)?,
        path: row.get(1).map_err(read_error)?,
        text: row.get(2).map_err(read_error)?,
    }))
}

/// Returns the definitions of an Automation, the one put last first.
pub(super) fn definitions(
    connection: &Connection,
    automation: &AutomationId,
    limit: u32,
) -> Result<Vec<DefinitionUse>, Error> {
    let sql = "SELECT hash, path, executions FROM definitions JOIN definition_texts USING (hash) \
               JOIN definition_uses ON definition = sequence WHERE automation = ?1 ORDER BY put DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query(params![automation.as_str(), limit.min(MAX_PAGE)]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let executions: i64 = row.get(2).map_err(read_error)?;
        found.push(DefinitionUse {
            hash: DefinitionHash::from_bytes(row.get(0).map_err(read_error)?),
            path: row.get(1).map_err(read_error)?,
            executions: u64::try_from(executions).unwrap_or_default(),
        });
    }
    Ok(found)
}

/// Returns the addresses of all triggers that ever had some.
pub(super) fn addresses(connection: &Connection) -> Result<Vec<Address>, Error> {
    let sql = "SELECT automation, live, test FROM addresses ORDER BY automation";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let (live, test) = (row.get(1).map_err(read_error)?, row.get(2).map_err(read_error)?);
        found.push(Address { trigger: trigger_key(row, 0)?, live, test });
    }
    Ok(found)
}

/// Returns the watermark of every schedule.
pub(super) fn watermarks(connection: &Connection) -> Result<Vec<Watermark>, Error> {
    let sql = "SELECT automation, schedule, instant_ns FROM watermarks ORDER BY automation";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let (schedule, instant) = (row.get(1).map_err(read_error)?, row.get(2).map_err(read_error)?);
        found.push(Watermark { trigger: trigger_key(row, 0)?, schedule, instant: timestamp(instant)? });
    }
    Ok(found)
}

/// Reads a row with the columns [`COLUMNS`].
fn execution_row(row: &Row<'_>) -> Result<ExecutionRow, Error> {
    let id = ExecutionId::from_bytes(row.get(0).map_err(read_error)?);
    let status: i64 = row.get(4).map_err(read_error)?;
    let finished: Option<i64> = row.get(6).map_err(read_error)?;
    let (origin, trigger) = origin(row, 3, id)?;
    Ok(ExecutionRow {
        id,
        automation: automation(row, 1)?,
        definition: DefinitionHash::from_bytes(row.get(2).map_err(read_error)?),
        origin,
        trigger,
        status: status_of(status)
            .ok_or_else(|| corrupt(format!("execution {id} has the status {status}")))?,
        started_at: timestamp(row.get(5).map_err(read_error)?)?,
        finished_at: finished.map(timestamp).transpose()?,
        error: row.get(7).map_err(read_error)?,
        events: row.get(8).map_err(read_error)?,
    })
}

pub(super) fn origin(row: &Row<'_>, column: usize, id: ExecutionId) -> Result<(Origin, TriggerId), Error> {
    let text = row.get_ref(column).and_then(|text| Ok(text.as_bytes()?)).map_err(read_error)?;
    decode_origin(text)
        .map_err(|error| corrupt(format!("the origin of execution {id} cannot be read: {error}")))
}

pub(super) fn trigger_key(row: &Row<'_>, column: usize) -> Result<TriggerKey, Error> {
    let text = row.get_ref(column).and_then(|text| Ok(text.as_str()?)).map_err(read_error)?;
    text.parse().map_err(|_| corrupt(format!("`{text}` is not the key of a trigger")))
}

pub(super) fn automation(row: &Row<'_>, column: usize) -> Result<AutomationId, Error> {
    let text = row.get_ref(column).and_then(|text| Ok(text.as_str()?)).map_err(read_error)?;
    AutomationId::parse(text).ok_or_else(|| corrupt(format!("`{text}` is no id of an Automation")))
}

/// Converts nanoseconds of the tables to a time.
pub(super) fn timestamp(ns: i64) -> Result<Timestamp, Error> {
    Timestamp::from_nanosecond(i128::from(ns)).map_err(|_| corrupt(format!("{ns} is no time")))
}

/// Creates the error for content that no store writes.
pub(super) fn corrupt(what: String) -> Error {
    Error::RecordDamaged { detail: what }
}
