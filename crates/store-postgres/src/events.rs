//! The events of an execution, its snapshot and its log lines.

use std::borrow::Cow;
use std::sync::Arc;

use model::{DefinitionHash, Event, ExecutionId, LogLine};
use tokio_postgres::Row;
use value::{BlobSource, with_sharing, with_source};

use super::blobs::{Blobs, Cuts};
use super::definitions::automation;
use super::forms::id_of;
use super::op::params;
use super::reader::{Reader, damaged, get, optional_text, text};
use store::Error;
use store::codec::{
    CutEvents, CutValue, HistoryBytes, HistoryRow, LARGE_TEXT, StartColumns, cut, decode_events,
    decode_origin, read_start, restore,
};
use store::{ReplayLog, Snapshot};

/// Maximum number of log lines of one read.
const MAX_LINES: u32 = 10_000;

const SNAPSHOT: &str = "SELECT events, body FROM snapshots WHERE execution = $1";
const HEAD: &str = "SELECT h.events, a.id, d.hash, h.origin, h.start, h.raw, h.tail_first, h.tail FROM ( \
      SELECT events, automation, definition, origin, NULL::bytea AS start, NULL::bytea AS raw, NULL::int4 AS tail_first, \
        NULL::bytea AS tail FROM live WHERE id = $1 \
      UNION ALL SELECT events, automation, definition, origin, start, raw, tail_first, tail FROM executions WHERE id = $1) h \
    JOIN automations a ON a.no = h.automation JOIN definitions d ON d.no = h.definition";
const EVENTS: &str = "SELECT first, body, raw FROM events \
    WHERE execution = $1 AND (first = 0 OR first >= $2) AND first < $3 ORDER BY first";
/// The row that contains the event `$2`.
const ROW: &str =
    "SELECT first, body FROM events WHERE execution = $1 AND first <= $2 ORDER BY first DESC LIMIT 1";
/// Begins with the row that contains the line `$2`.
const LOGS: &str = "SELECT first, lines FROM logs WHERE execution = $1 AND first >= coalesce( \
    (SELECT max(first) FROM logs WHERE execution = $1 AND first <= $2), 0) ORDER BY first LIMIT $3";

/// Returns all events of an execution. Verifies that there is no gap and that their number is the stored count.
pub(super) async fn events(
    reader: &Reader,
    blobs: &Blobs,
    id: ExecutionId,
) -> Result<Option<Vec<Event>>, Error> {
    Ok(unless_pruned(reader, blobs, id, false, None).await?.map(|log| log.events))
}

/// Returns all events of an execution without their values of more than `min` bytes.
pub(super) async fn events_cut(
    reader: &Reader,
    blobs: &Blobs,
    id: ExecutionId,
    min: usize,
) -> Result<Option<CutEvents>, Error> {
    let mut values = Vec::new();
    let log = unless_pruned(reader, blobs, id, false, Some((min, &mut values))).await?;
    Ok(log.map(|log| CutEvents { events: log.events, values }))
}

/// Returns the row of the event `first`.
pub(super) async fn row(
    reader: &Reader,
    blobs: &Blobs,
    id: ExecutionId,
    first: u32,
) -> Result<Option<HistoryRow>, Error> {
    let event = i32::try_from(first).unwrap_or(i32::MAX);
    let Some(head) = reader.row(HEAD, params![id_of(id)]).await? else { return Ok(None) };
    let row = reader.row(ROW, params![id_of(id), event]).await?;
    let tail = get::<Option<i32>>(&head, 6)?.filter(|first| *first <= event);
    let (first, body) = match (tail, &row, get::<Option<&[u8]>>(&head, 4)?) {
        (Some(first), _, _) => (first, get::<&[u8]>(&head, 7)?),
        (None, Some(row), _) => (get(row, 0)?, get(row, 1)?),
        (None, None, Some(start)) => (0, start),
        (None, None, None) => return Ok(None),
    };
    let cuts = blobs.cuts(id_of(id), first).await?;
    let log = Log { blobs, cuts, id, events: Vec::new(), skipped: 0, cutting: None };
    let text = log.text(first, body).await?.into_owned();
    let first = u32::try_from(first).unwrap_or_default();
    Ok(Some(HistoryRow::new(first, text, Some(Arc::new(blobs.clone())))))
}

/// Returns the sizes of the large values.
pub(super) async fn sizes(blobs: &Blobs, id: ExecutionId) -> Result<HistoryBytes, Error> {
    let cuts = blobs.cuts(id_of(id), 0).await?;
    Ok(HistoryBytes::from_rows(cuts.values().map(|row| row.iter().map(|(_, _, length)| length).sum())))
}

/// Returns the events after the snapshot of an execution, or all, with the same verification.
pub(super) async fn log(reader: &Reader, blobs: &Blobs, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
    unless_pruned(reader, blobs, id, true, None).await
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
    cutting: Option<(usize, &mut Vec<CutValue>)>,
) -> Result<Option<ReplayLog>, Error> {
    match stored(reader, blobs, id, from_snapshot, cutting).await {
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
    cutting: Option<(usize, &mut Vec<CutValue>)>,
) -> Result<Option<ReplayLog>, Error> {
    let snapshot = if from_snapshot { snapshot(reader, id).await? } else { None };
    let Some(head) = reader.row(HEAD, params![id_of(id)]).await? else { return Ok(None) };
    let count: i32 = get(&head, 0)?;
    let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.events);
    let from_row = i32::try_from(from).unwrap_or(i32::MAX);
    let rows = reader.rows(EVENTS, params![id_of(id), from_row, count]).await?;
    let cuts = blobs.cuts(id_of(id), from_row).await?;
    let mut log = Log { blobs, cuts, id, events: Vec::new(), skipped: 0, cutting };
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
    /// The least size of values that are left out, and these values.
    cutting: Option<(usize, &'store mut Vec<CutValue>)>,
}

impl Log<'_> {
    /// Reads the row of the first events, with the columns of the execution that complete it.
    async fn start(&mut self, body: &[u8], raw: Option<&[u8]>, head: &Row) -> Result<(), Error> {
        let hash: Vec<u8> = get(head, 2)?;
        let hash = hash.try_into().map_err(|_| damaged("a hash of a definition is too short".to_owned()))?;
        let origin = optional_text(head, 3)?.unwrap_or_default();
        let origin = decode_origin(origin.as_bytes());
        let origin = origin.map_err(|error| {
            damaged(format!("the origin of execution {} cannot be read: {error}", self.id))
        })?;
        let columns = StartColumns {
            automation: automation(get(head, 1)?)?,
            definition: DefinitionHash::from_bytes(hash),
            origin,
        };
        let mut cutting = self.cutting.take();
        let events = self.read(0, body, |text| match &mut cutting {
            Some((min, values)) => read_start(&cut(text, 0, *min, true, values), raw, columns),
            None => read_start(text, raw, columns),
        });
        self.events = events.await?;
        self.cutting = cutting;
        Ok(())
    }

    /// Reads the row of an append.
    async fn append(&mut self, first: i32, body: &[u8]) -> Result<(), Error> {
        let next = self.skipped + self.events.len();
        if usize::try_from(first) != Ok(next) {
            return Err(self.missing(next));
        }
        let index = u32::try_from(first).unwrap_or_default();
        let mut cutting = self.cutting.take();
        let more = self.read(first, body, |text| match &mut cutting {
            Some((min, values)) => decode_events(&cut(text, index, *min, false, values)),
            None => decode_events(text),
        });
        let more = more.await?;
        self.cutting = cutting;
        self.events.extend(more);
        Ok(())
    }

    /// Decodes the text of the row of event `first`.
    async fn read<T>(
        &self,
        first: i32,
        body: &[u8],
        read: impl FnOnce(&str) -> serde_json::Result<T>,
    ) -> Result<T, Error> {
        let whole = self.text(first, body).await?;
        let source: Arc<dyn BlobSource> = Arc::new(self.blobs.clone());
        let read = || if whole.len() < LARGE_TEXT { read(&whole) } else { with_sharing(|| read(&whole)) };
        with_source(source, read).map_err(|error| self.unreadable(first, &error))
    }

    /// The text of the row of event `first`, with its removed values restored.
    async fn text<'b>(&self, first: i32, body: &'b [u8]) -> Result<Cow<'b, str>, Error> {
        let text = std::str::from_utf8(body).map_err(|error| self.unreadable(first, &error))?;
        let Some(cuts) = self.cuts.get(&first) else { return Ok(Cow::Borrowed(text)) };
        let mut parts = Vec::with_capacity(cuts.len());
        for (at, hash, length) in cuts {
            parts.push((*at, self.blobs.text(hash, *length).await?));
        }
        let whole = restore(text, &parts);
        let whole = whole.ok_or_else(|| self.unreadable(first, &"the offset of a blob is not in its row"));
        whole.map(Cow::Owned)
    }

    fn unreadable(&self, first: i32, error: &dyn std::fmt::Display) -> Error {
        damaged(format!("event {first} of execution {} cannot be read: {error}", self.id))
    }

    fn missing(&self, event: usize) -> Error {
        damaged(format!("event {event} of execution {} is missing", self.id))
    }
}
