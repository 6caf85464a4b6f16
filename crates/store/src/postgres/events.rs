//! The events of an execution, its snapshot and its log lines.

use std::borrow::Cow;
use std::sync::Arc;

use model::value::{BlobSource, with_source};
use model::{DefinitionHash, Event, ExecutionId, LogLine};
use tokio_postgres::Row;

use super::blobs::{Blobs, Cuts};
use super::definitions::automation;
use super::forms::id_of;
use super::op::params;
use super::reader::{Reader, damaged, get, optional_text, text};
use crate::Error;
use crate::codec::{DecodedEvent, StartColumns, read_start, restore};
use crate::types::{ReplayLog, Snapshot};

/// The most log lines of one read.
const MAX_LINES: u32 = 10_000;

const SNAPSHOT: &str = "SELECT events, body FROM snapshots WHERE execution = $1";
const HEAD: &str = "SELECT h.events, a.id, d.hash, h.origin, h.start, h.raw, h.tail_first, h.tail FROM ( \
      SELECT events, automation, definition, origin, NULL::bytea AS start, NULL::bytea AS raw, NULL::int4 AS tail_first, \
        NULL::bytea AS tail FROM live WHERE id = $1 \
      UNION ALL SELECT events, automation, definition, origin, start, raw, tail_first, tail FROM executions WHERE id = $1) h \
    JOIN automations a ON a.no = h.automation JOIN definitions d ON d.no = h.definition";
const EVENTS: &str = "SELECT first, body, raw FROM events \
    WHERE execution = $1 AND (first = 0 OR first >= $2) AND first < $3 ORDER BY first";
/// Begins with the row that contains the line `$2`.
const LOGS: &str = "SELECT first, lines FROM logs WHERE execution = $1 AND first >= coalesce( \
    (SELECT max(first) FROM logs WHERE execution = $1 AND first <= $2), 0) ORDER BY first LIMIT $3";

/// Returns all events of an execution. Verifies that there is no gap and that their number is the stored count.
pub(super) async fn events(
    reader: &Reader,
    blobs: &Blobs,
    id: ExecutionId,
) -> Result<Option<Vec<Event>>, Error> {
    Ok(unless_pruned(reader, blobs, id, false).await?.map(|log| log.events))
}

/// Returns the events after the snapshot of an execution, or all, with the same verification.
pub(super) async fn log(reader: &Reader, blobs: &Blobs, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
    unless_pruned(reader, blobs, id, true).await
}

/// Returns log lines of an execution in order, beginning with index `after`.
pub(super) async fn logs(
    reader: &Reader,
    id: ExecutionId,
    after: u32,
    limit: u32,
) -> Result<Vec<LogLine>, Error> {
    let limit = limit.min(MAX_LINES) as usize;
    let from = i32::try_from(after).unwrap_or(i32::MAX);
    let rows = reader.rows(LOGS, params![id_of(id), from, i64::try_from(limit).unwrap_or(i64::MAX)]).await?;
    let mut found: Vec<LogLine> = Vec::new();
    for row in rows {
        let first = u32::try_from(get::<i32>(&row, 0)?).unwrap_or_default();
        let lines: Vec<LogLine> = serde_json::from_slice(get(&row, 1)?).map_err(|error| {
            damaged(format!("log line {first} of execution {id} cannot be read: {error}"))
        })?;
        let skip = after.saturating_sub(first) as usize;
        found.extend(lines.into_iter().skip(skip).take(limit - found.len()));
    }
    Ok(found)
}

async fn unless_pruned(
    reader: &Reader,
    blobs: &Blobs,
    id: ExecutionId,
    from_snapshot: bool,
) -> Result<Option<ReplayLog>, Error> {
    match stored(reader, blobs, id, from_snapshot).await {
        // It may have been pruned after its row was read.
        Err(Error::RecordDamaged { .. }) if reader.row(HEAD, params![id_of(id)]).await?.is_none() => Ok(None),
        found => found,
    }
}

/// Reads a log. The snapshot is read first and the events last: what is only ever appended to then fits together.
async fn stored(
    reader: &Reader,
    blobs: &Blobs,
    id: ExecutionId,
    from_snapshot: bool,
) -> Result<Option<ReplayLog>, Error> {
    let snapshot = if from_snapshot { snapshot(reader, id).await? } else { None };
    let Some(head) = reader.row(HEAD, params![id_of(id)]).await? else { return Ok(None) };
    let count: i32 = get(&head, 0)?;
    let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.events);
    let from_row = i32::try_from(from).unwrap_or(i32::MAX);
    let rows = reader.rows(EVENTS, params![id_of(id), from_row, count]).await?;
    let cuts = blobs.cuts(id_of(id), from_row).await?;
    let mut log = Log { blobs, cuts, id, events: Vec::new(), skipped: 0 };
    let mut rows = rows.into_iter();
    match get::<Option<&[u8]>>(&head, 4)? {
        Some(start) => log.start(start, get(&head, 5)?, &head).await?,
        None => {
            let row = rows.next().ok_or_else(|| log.missing(0))?;
            if get::<i32>(&row, 0)? != 0 {
                return Err(log.missing(0));
            }
            log.start(get(&row, 1)?, get(&row, 2)?, &head).await?;
        }
    }
    if from > 0 {
        log.events.truncate(1);
        log.skipped = from as usize - 1;
    }
    for row in rows {
        log.append(get(&row, 0)?, get(&row, 1)?).await?;
    }
    if let (Some(first), Some(tail)) = (get::<Option<i32>>(&head, 6)?, get::<Option<&[u8]>>(&head, 7)?)
        && first >= from_row
    {
        log.append(first, tail).await?;
    }
    let count = u32::try_from(count).unwrap_or_default();
    if log.skipped + log.events.len() != count as usize {
        let found = log.skipped + log.events.len();
        return Err(damaged(format!("execution {id} has {found} events, not {count}")));
    }
    Ok(Some(ReplayLog { snapshot, events: log.events, count }))
}

async fn snapshot(reader: &Reader, id: ExecutionId) -> Result<Option<Snapshot>, Error> {
    let row = reader.row(SNAPSHOT, params![id_of(id)]).await?;
    let snapshot = |row: Row| {
        Ok(Snapshot { events: u32::try_from(get::<i32>(&row, 0)?).unwrap_or_default(), body: text(&row, 1)? })
    };
    row.map(snapshot).transpose()
}

/// The events of an execution while they are read.
struct Log<'store> {
    blobs: &'store Blobs,
    cuts: Cuts,
    id: ExecutionId,
    events: Vec<Event>,
    /// The number of events that are left out after the first.
    skipped: usize,
}

impl Log<'_> {
    /// Reads the row of the first events, with the columns of the execution that complete it.
    async fn start(&mut self, body: &[u8], raw: Option<&[u8]>, head: &Row) -> Result<(), Error> {
        let hash: Vec<u8> = get(head, 2)?;
        let hash = hash.try_into().map_err(|_| damaged("a hash of a definition is too short".to_owned()))?;
        let origin = optional_text(head, 3)?.unwrap_or_default();
        let origin = serde_json::from_str(&origin);
        let origin = origin.map_err(|error| {
            damaged(format!("the origin of execution {} cannot be read: {error}", self.id))
        })?;
        let columns = StartColumns {
            automation: automation(get(head, 1)?)?,
            definition: DefinitionHash::from_bytes(hash),
            origin,
        };
        self.events = self.read(0, body, |text| read_start(text, raw, columns)).await?;
        Ok(())
    }

    /// Reads the row of an append.
    async fn append(&mut self, first: i32, body: &[u8]) -> Result<(), Error> {
        let next = self.skipped + self.events.len();
        if usize::try_from(first) != Ok(next) {
            return Err(self.missing(next));
        }
        let more = self.read(first, body, |text| serde_json::from_str::<Vec<DecodedEvent>>(text)).await?;
        self.events.extend(more.into_iter().map(|DecodedEvent(event)| event));
        Ok(())
    }

    /// Decodes the text of the row of event `first`, with its removed values restored.
    async fn read<T>(
        &self,
        first: i32,
        body: &[u8],
        read: impl FnOnce(&str) -> serde_json::Result<T>,
    ) -> Result<T, Error> {
        let unreadable = |error: &dyn std::fmt::Display| {
            damaged(format!("event {first} of execution {} cannot be read: {error}", self.id))
        };
        let text = std::str::from_utf8(body).map_err(|error| unreadable(&error))?;
        let whole = match self.cuts.get(&first) {
            None => Cow::Borrowed(text),
            Some(cuts) => {
                let mut parts = Vec::with_capacity(cuts.len());
                for (at, hash, length) in cuts {
                    parts.push((*at, self.blobs.text(hash, *length).await?));
                }
                let whole = restore(text, &parts);
                Cow::Owned(whole.ok_or_else(|| unreadable(&"the offset of a blob is not in its row"))?)
            }
        };
        let source: Arc<dyn BlobSource> = Arc::new(self.blobs.clone());
        with_source(source, || read(&whole)).map_err(|error| unreadable(&error))
    }

    fn missing(&self, event: usize) -> Error {
        damaged(format!("event {event} of execution {} is missing", self.id))
    }
}
