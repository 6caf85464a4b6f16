//! The events of an execution, and the snapshot at which their replay begins.

use std::borrow::Cow;
use std::sync::Arc;

use model::{DefinitionHash, Event, ExecutionId};
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};
use value::{BlobSource, with_sharing, with_source};

use super::blobs::{self, BlobFiles, Folder};
use super::pool::read_error;
use super::read::{automation, corrupt, execution, origin};
use store::Error;
use store::codec::{
    CutEvents, HistoryBytes, HistoryRow, LARGE_TEXT, StartColumns, cut, decode_events, read_start,
};
use store::{ReplayLog, Snapshot, SnapshotChange};

/// Returns all events of an execution. Verifies that there is no gap and that their number is the stored count.
pub(super) fn events(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
) -> Result<Option<Vec<Event>>, Error> {
    unless_pruned(connection, folder, id, |_| Ok(None), None).map(|log| log.map(|log| log.events))
}

/// Returns all events of an execution without their values of more than `min` bytes.
pub(super) fn events_cut(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
    min: usize,
) -> Result<Option<CutEvents>, Error> {
    let mut values = Vec::new();
    let mut cutting = |text: &str, first, is_start| cut(text, first, min, is_start, &mut values).into_owned();
    let log = unless_pruned(connection, folder, id, |_| Ok(None), Some(&mut cutting))?;
    Ok(log.map(|log| CutEvents { events: log.events, values }))
}

/// Returns the row of the event `first`.
pub(super) fn row(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
    first: u32,
) -> Result<Option<HistoryRow>, Error> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(read_error)?;
    let Some(Beginning { start, .. }) = beginning(&transaction, id)? else { return Ok(None) };
    let sql =
        "SELECT first, body FROM events WHERE execution = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = transaction.prepare_cached(sql).map_err(read_error)?;
    let found = { found }.query_row(params![id.as_bytes(), first], row).optional().map_err(read_error)?;
    let (first, body): (u32, String) = match found {
        Some(found) => found,
        None => {
            let sql = "SELECT body FROM starts WHERE sequence = ?1 AND execution = ?2";
            let mut statement = transaction.prepare_cached(sql).map_err(read_error)?;
            let body = statement.query_row(params![start, id.as_bytes()], |row| row.get(0));
            (0, body.map_err(read_error)?)
        }
    };
    let cuts = blobs::references(&transaction, id, first).map_err(read_error)?;
    let text = match cuts.get(&first) {
        Some(cuts) => blobs::restore(folder, &body, cuts)?,
        None => body,
    };
    Ok(Some(HistoryRow::new(first, text, Some(Arc::new(BlobFiles(folder.clone()))))))
}

/// Returns the sizes of the large values.
pub(super) fn sizes(connection: &Connection, id: ExecutionId) -> Result<HistoryBytes, Error> {
    let cuts = blobs::references(connection, id, 0).map_err(read_error)?;
    Ok(HistoryBytes::from_rows(cuts.values().map(|row| row.iter().map(|(_, _, length)| length).sum())))
}

/// Returns the events after the snapshot of an execution, or all, with the same verification.
pub(super) fn log(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
) -> Result<Option<ReplayLog>, Error> {
    unless_pruned(connection, folder, id, |connection| snapshot(connection, id), None)
}

/// Writes the change of a snapshot.
pub(super) fn change(
    connection: &Connection,
    execution: ExecutionId,
    change: &SnapshotChange,
) -> rusqlite::Result<()> {
    match change {
        SnapshotChange::Keep => Ok(()),
        SnapshotChange::Put(Snapshot { events, body }) => {
            let sql = "INSERT INTO snapshots (execution, events, body) VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET events = excluded.events, body = excluded.body";
            connection.prepare_cached(sql)?.execute(params![execution.as_bytes(), events, body]).map(drop)
        }
        SnapshotChange::Delete => delete_snapshot(connection, execution.as_bytes()),
    }
}

/// Deletes the snapshot of an execution, if it has one.
pub(super) fn delete_snapshot(connection: &Connection, execution: &[u8; 16]) -> rusqlite::Result<()> {
    let sql = "DELETE FROM snapshots WHERE execution = ?1";
    connection.prepare_cached(sql)?.execute([execution]).map(drop)
}

fn snapshot(connection: &Connection, id: ExecutionId) -> Result<Option<Snapshot>, Error> {
    let sql = "SELECT events, body FROM snapshots WHERE execution = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let read = |row: &Row<'_>| Ok(Snapshot { events: row.get(0)?, body: row.get(1)? });
    statement.query_row([id.as_bytes()], read).optional().map_err(read_error)
}

fn unless_pruned(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
    find: impl FnOnce(&Connection) -> Result<Option<Snapshot>, Error>,
    cutting: Option<Cutting<'_>>,
) -> Result<Option<ReplayLog>, Error> {
    match stored_events(connection, folder, id, find, cutting) {
        // It may have been pruned with its blobs after its rows were read.
        Err(Error::RecordDamaged { .. }) if execution(connection, id)?.is_none() => Ok(None),
        found => found,
    }
}

/// Removes large values from the text of a row, which begins with the given event and may be the first row.
type Cutting<'c> = &'c mut dyn FnMut(&str, u32, bool) -> String;

fn stored_events(
    connection: &mut Connection,
    folder: &Arc<Folder>,
    id: ExecutionId,
    find: impl FnOnce(&Connection) -> Result<Option<Snapshot>, Error>,
    mut cutting: Option<Cutting<'_>>,
) -> Result<Option<ReplayLog>, Error> {
    // One snapshot of the database for the count and the events.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(read_error)?;
    let Some(Beginning { count, start, columns }) = beginning(&transaction, id)? else { return Ok(None) };
    let snapshot = find(&transaction)?;
    let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.events);
    let cuts = blobs::references(&transaction, id, from).map_err(read_error)?;
    let texts = RowReader { folder, cuts, id };
    let mut events = {
        let sql = "SELECT body, raw FROM starts WHERE sequence = ?1 AND execution = ?2";
        let mut statement = transaction.prepare_cached(sql).map_err(read_error)?;
        let mut rows = statement.query(params![start, id.as_bytes()]).map_err(read_error)?;
        let Some(row) = rows.next().map_err(read_error)? else { return Err(texts.missing(0)) };
        let raw = row.get_ref(1).and_then(|raw| Ok(raw.as_bytes_or_null()?)).map_err(read_error)?;
        texts.read(row, 0, 0, |text| match &mut cutting {
            Some(cutting) => read_start(&cutting(text, 0, true), raw, columns),
            None => read_start(text, raw, columns),
        })?
    };
    // The number of events before those that are read, without the first one.
    let mut skipped = 0;
    if from > 0 {
        events.truncate(1);
        skipped = from as usize - events.len();
    }
    {
        let sql = "SELECT first, body FROM events WHERE execution = ?1 AND first >= ?2 ORDER BY first";
        let mut statement = transaction.prepare_cached(sql).map_err(read_error)?;
        let mut rows = statement.query(params![id.as_bytes(), from]).map_err(read_error)?;
        while let Some(row) = rows.next().map_err(read_error)? {
            let first: u32 = row.get(0).map_err(read_error)?;
            if first as usize != skipped + events.len() {
                return Err(texts.missing(skipped + events.len()));
            }
            events.extend(texts.read(row, 1, first, |text| match &mut cutting {
                Some(cutting) => decode_events(&cutting(text, first, false)),
                None => decode_events(text),
            })?);
        }
    }
    if skipped + events.len() != count as usize {
        return Err(corrupt(format!("execution {id} has {} events, not {count}", skipped + events.len())));
    }
    Ok(Some(ReplayLog { snapshot, events, count }))
}

/// The columns of an execution that concern its events.
struct Beginning {
    count: u32,
    /// The row of `starts` with the first events.
    start: i64,
    /// The columns that complete the first event.
    columns: StartColumns,
}

fn beginning(connection: &Connection, id: ExecutionId) -> Result<Option<Beginning>, Error> {
    let sql = "SELECT events, start, automation, definition, origin FROM executions WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([id.as_bytes()]).map_err(read_error)?;
    let Some(row) = rows.next().map_err(read_error)? else { return Ok(None) };
    let definition = DefinitionHash::from_bytes(row.get(3).map_err(read_error)?);
    let columns = StartColumns { automation: automation(row, 2)?, definition, origin: origin(row, 4, id)? };
    let (count, start) = (row.get(0).map_err(read_error)?, row.get(1).map_err(read_error)?);
    Ok(Some(Beginning { count, start, columns }))
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
        let read = || if whole.len() < LARGE_TEXT { read(&whole) } else { with_sharing(|| read(&whole)) };
        with_source(shelf, read).map_err(|error| {
            corrupt(format!("event {first} of execution {} cannot be read: {error}", self.id))
        })
    }

    fn missing(&self, event: usize) -> Error {
        corrupt(format!("event {event} of execution {} is missing", self.id))
    }
}
