//! Queries of executions, definitions, addresses and watermarks.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use model::value::{BlobSource, with_source};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Origin};
use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::blobs::{self, BlobFiles, Folder};
use super::encode::status_of;
use super::event_codec::DecodedEvent;
use super::list::{self, COLUMNS, MAX_PAGE};
use super::pool::read_error;
use super::start_codec::{self, StartColumns};
use crate::Error;
use crate::types::{Address, Definition, ExecutionFilter, ExecutionRow, Page, Watermark};

/// The most log lines of one read.
const MAX_LINES: u32 = 10_000;

/// Returns all events of an execution. Verifies that there is no gap and that their number is the stored count.
pub(super) fn events(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
) -> Result<Option<Vec<Event>>, Error> {
    match stored_events(connection, folder, id) {
        // It may have been pruned with its blobs after its rows were read.
        Err(Error::RecordDamaged { .. }) if execution(connection, id)?.is_none() => Ok(None),
        found => found,
    }
}

fn stored_events(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
) -> Result<Option<Vec<Event>>, Error> {
    // One snapshot for the count and the events.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(read_error)?;
    let Some(Beginning { count, start }) = beginning(&transaction, id)? else { return Ok(None) };
    let texts = RowReader { folder, cuts: blobs::references(&transaction, id).map_err(read_error)?, id };
    let mut events: Vec<Event> = Vec::new();
    if let Some((sequence, known)) = start {
        let sql = "SELECT body, raw FROM starts WHERE sequence = ?1 AND execution = ?2";
        let mut statement = transaction.prepare_cached(sql).map_err(read_error)?;
        let mut rows = statement.query(params![sequence, id.as_bytes()]).map_err(read_error)?;
        let Some(row) = rows.next().map_err(read_error)? else { return Err(texts.missing(0)) };
        let raw = row.get_ref(1).and_then(|raw| Ok(raw.as_bytes_or_null()?)).map_err(read_error)?;
        events = texts.read(row, 0, 0, |text| start_codec::read(text, raw, known))?;
    }
    {
        let sql = "SELECT first, body FROM events WHERE execution = ?1 ORDER BY first";
        let mut statement = transaction.prepare_cached(sql).map_err(read_error)?;
        let mut rows = statement.query([id.as_bytes()]).map_err(read_error)?;
        while let Some(row) = rows.next().map_err(read_error)? {
            let first: u32 = row.get(0).map_err(read_error)?;
            if first as usize != events.len() {
                return Err(texts.missing(events.len()));
            }
            let more = texts.read(row, 1, first, |text| serde_json::from_str::<Vec<DecodedEvent>>(text))?;
            events.extend(more.into_iter().map(|DecodedEvent(event)| event));
        }
    }
    if events.len() != count as usize {
        return Err(corrupt(format!("execution {id} has {} events, not {count}", events.len())));
    }
    Ok(Some(events))
}

/// The columns of an execution that concern its events.
struct Beginning {
    count: u32,
    /// The row of `starts` with the first events, and the columns that complete it. `None` if an earlier version accepted
    /// the execution: then all events are in `events`.
    start: Option<(i64, StartColumns)>,
}

fn beginning(connection: &Connection, id: ExecutionId) -> Result<Option<Beginning>, Error> {
    let sql = "SELECT events, start, automation, definition, origin FROM executions WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([id.as_bytes()]).map_err(read_error)?;
    let Some(row) = rows.next().map_err(read_error)? else { return Ok(None) };
    let start = match row.get(1).map_err(read_error)? {
        None => None,
        Some(sequence) => {
            let definition = DefinitionHash::from_bytes(row.get(3).map_err(read_error)?);
            Some((
                sequence,
                StartColumns { automation: automation(row, 2)?, definition, origin: origin(row, 4, id)? },
            ))
        }
    };
    Ok(Some(Beginning { count: row.get(0).map_err(read_error)?, start }))
}

/// Reads the texts of the events of one execution.
struct RowReader<'store> {
    folder: &'store Arc<Folder>,
    cuts: blobs::References,
    id: ExecutionId,
}

impl RowReader<'_> {
    /// Decodes the text in a column of the row of event `first`, with its external values restored.
    fn read<T>(
        &self,
        row: &Row<'_>,
        column: usize,
        first: u32,
        read: impl FnOnce(&str) -> serde_json::Result<T>,
    ) -> Result<T, Error> {
        let text = row.get_ref(column).and_then(|text| Ok(text.as_str()?)).map_err(read_error)?;
        let whole = match self.cuts.get(&first) {
            Some(cuts) => Cow::Owned(blobs::restore(self.folder, text, cuts)?),
            None => Cow::Borrowed(text),
        };
        let shelf: Arc<dyn BlobSource> = Arc::new(BlobFiles(self.folder.clone()));
        with_source(shelf, || read(&whole)).map_err(|error| {
            corrupt(format!("event {first} of execution {} cannot be read: {error}", self.id))
        })
    }

    fn missing(&self, event: usize) -> Error {
        corrupt(format!("event {event} of execution {} is missing", self.id))
    }
}

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

/// Returns the addresses of all Automations that ever had some.
pub(super) fn addresses(connection: &Connection) -> Result<Vec<Address>, Error> {
    let sql = "SELECT automation, live, test FROM addresses ORDER BY automation";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let (live, test) = (row.get(1).map_err(read_error)?, row.get(2).map_err(read_error)?);
        found.push(Address { automation: automation(row, 0)?, live, test });
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
        found.push(Watermark { automation: automation(row, 0)?, schedule, instant: timestamp(instant)? });
    }
    Ok(found)
}

/// Reads a row with the columns [`COLUMNS`].
fn execution_row(row: &Row<'_>) -> Result<ExecutionRow, Error> {
    let id = ExecutionId::from_bytes(row.get(0).map_err(read_error)?);
    let status: i64 = row.get(4).map_err(read_error)?;
    let finished: Option<i64> = row.get(6).map_err(read_error)?;
    Ok(ExecutionRow {
        id,
        automation: automation(row, 1)?,
        definition: DefinitionHash::from_bytes(row.get(2).map_err(read_error)?),
        origin: origin(row, 3, id)?,
        status: status_of(status)
            .ok_or_else(|| corrupt(format!("execution {id} has the status {status}")))?,
        started_at: timestamp(row.get(5).map_err(read_error)?)?,
        finished_at: finished.map(timestamp).transpose()?,
        error: row.get(7).map_err(read_error)?,
        events: row.get(8).map_err(read_error)?,
    })
}

fn origin(row: &Row<'_>, column: usize, id: ExecutionId) -> Result<Origin, Error> {
    let text = row.get_ref(column).and_then(|text| Ok(text.as_str()?)).map_err(read_error)?;
    serde_json::from_str(text)
        .map_err(|error| corrupt(format!("the origin of execution {id} cannot be read: {error}")))
}

fn automation(row: &Row<'_>, column: usize) -> Result<AutomationId, Error> {
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
