//! Pages of executions, each with everything that belongs to it.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::super::read_error;
use super::{get, hash, id, text};
use crate::forms::TEST_SHELF;
use crate::reader::optional_text;
use store::Error;
use store::migration::record::{BlobUse, EventRow, ExecutionRecord, Kind, Record, WaitRow};
use store::migration::side::{PAGE_BYTES, Page, Place, hex};

/// The next ids with about the bytes of their events and logs, which are counted without reading them.
macro_rules! sizes {
    ($from:literal) => {
        concat!(
            "SELECT h.id, h.own + coalesce((SELECT sum(octet_length(body) + coalesce(octet_length(raw), 0)) FROM events \
               WHERE execution = h.id), 0)::int8 \
             + coalesce((SELECT sum(octet_length(lines)) FROM logs WHERE execution = h.id), 0)::int8 FROM (",
            $from,
            " ORDER BY id LIMIT 500) h ORDER BY h.id"
        )
    };
}

const ENDED: &str = sizes!(
    "SELECT id, (coalesce(octet_length(start), 0) + coalesce(octet_length(raw), 0) + coalesce(octet_length(tail), 0))::int8 AS own \
     FROM executions WHERE id > $1"
);
const UNFINISHED: &str = sizes!("SELECT id, 0::int8 AS own FROM live WHERE id > $1");

const ENDED_HEADS: &str = "SELECT e.id, a.id, d.hash, e.origin, e.shelf, e.started_ns, e.finished_ns, e.error, e.events, e.logs, \
      e.start, e.raw, e.tail_first, e.tail \
    FROM executions e JOIN automations a ON a.no = e.automation JOIN definitions d ON d.no = e.definition \
    WHERE e.id = ANY ($1) AND e.id BETWEEN $2 AND $3 ORDER BY e.id";
const UNFINISHED_HEADS: &str = "SELECT e.id, a.id, d.hash, e.origin, e.status, e.started_ns, NULL::int8, NULL::bytea, e.events, e.logs, \
      NULL::bytea, NULL::bytea, NULL::int4, NULL::bytea, e.test, e.holds \
    FROM live e JOIN automations a ON a.no = e.automation JOIN definitions d ON d.no = e.definition \
    WHERE e.id = ANY ($1) AND e.id BETWEEN $2 AND $3 ORDER BY e.id";
const EVENTS: &str = "SELECT execution, first, body, raw FROM events WHERE execution = ANY ($1) AND execution BETWEEN $2 AND $3";
const USES: &str = "SELECT execution, first, blob, at FROM blob_uses WHERE execution = ANY ($1) AND execution BETWEEN $2 AND $3";
const LOGS: &str = "SELECT execution, first, lines FROM logs WHERE execution = ANY ($1) AND execution BETWEEN $2 AND $3 \
    ORDER BY execution, first";
const WAITS: &str = "SELECT execution, step, until_ns, event, path, value, condition, child FROM waits \
    WHERE execution = ANY ($1) AND execution BETWEEN $2 AND $3 ORDER BY execution, step";
const SNAPSHOTS: &str = "SELECT execution, events, body FROM snapshots WHERE execution = ANY ($1) AND execution BETWEEN $2 AND $3";

/// Returns the ended or the unfinished executions after a place.
pub(super) async fn page(client: &Client, kind: Kind, after: &Place) -> Result<Page, Error> {
    let after: [u8; 16] = after.bytes(0).try_into().unwrap_or_default();
    let (sizes, heads) =
        if kind == Kind::Ended { (ENDED, ENDED_HEADS) } else { (UNFINISHED, UNFINISHED_HEADS) };
    let (mut ids, mut bytes) = (Vec::new(), 0_i64);
    for row in client.query(sizes, &[&Uuid::from_bytes(after)]).await.map_err(read_error)? {
        ids.push(get::<Uuid>(&row, 0)?);
        bytes = bytes.saturating_add(get(&row, 1)?);
        if bytes >= i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX) {
            break;
        }
    }
    let (Some(&low), Some(&high)) = (ids.first(), ids.last()) else { return Ok(Page::default()) };
    let params: [&(dyn ToSql + Sync); 3] = [&ids, &low, &high];
    let mut records = Vec::with_capacity(ids.len());
    for row in client.query(heads, &params).await.map_err(read_error)? {
        records.push(head(kind, &row)?);
    }
    let mut parts = Parts { records, places: HashMap::new() };
    parts.places = parts.records.iter().enumerate().map(|(place, record)| (record.id, place)).collect();
    for (sql, add) in PARTS {
        for row in client.query(sql, &params).await.map_err(read_error)? {
            if let Some(record) = parts.of(id(&row, 0)?) {
                add(record, &row)?;
            }
        }
    }
    let mut page = Page::default();
    for mut record in parts.records {
        record.rows.sort_unstable_by_key(|row| row.first);
        let place = Place::one(hex(&record.id));
        page.push(Record::Execution(Box::new(record)), place);
    }
    Ok(page)
}

type Add = fn(&mut ExecutionRecord, &Row) -> Result<(), Error>;

/// The queries of the parts of executions. Rows of events come before their blobs.
const PARTS: [(&str, Add); 5] =
    [(EVENTS, event), (USES, blob_use), (LOGS, lines), (WAITS, wait), (SNAPSHOTS, snapshot)];

/// The executions of a page, found by their ids.
struct Parts {
    records: Vec<ExecutionRecord>,
    places: HashMap<[u8; 16], usize>,
}

impl Parts {
    fn of(&mut self, id: [u8; 16]) -> Option<&mut ExecutionRecord> {
        let place = self.places.get(&id)?;
        self.records.get_mut(*place)
    }
}

fn head(kind: Kind, row: &Row) -> Result<ExecutionRecord, Error> {
    let has_ended = kind == Kind::Ended;
    let shelf: i16 = get(row, 4)?;
    let (status, is_test, holds) = if has_ended {
        (shelf % TEST_SHELF, shelf >= TEST_SHELF, false)
    } else {
        (shelf, get(row, 14)?, get(row, 15)?)
    };
    let mut rows = Vec::new();
    if get::<Option<&[u8]>>(row, 10)?.is_some() {
        rows.push(EventRow { first: 0, body: text(row, 10)?, raw: get(row, 11)?, uses: Vec::new() });
    }
    if let Some(first) = get::<Option<i32>>(row, 12)? {
        rows.push(EventRow { first: count(first), body: text(row, 13)?, raw: None, uses: Vec::new() });
    }
    let status = i64::from(status);
    Ok(ExecutionRecord {
        id: id(row, 0)?,
        automation: get(row, 1)?,
        definition: hash(row, 2)?,
        origin: text(row, 3)?,
        status,
        is_test,
        has_ended,
        keeps_permit: holds && status == store::codec::status_code(model::Status::Waiting),
        started_ns: get(row, 5)?,
        finished_ns: get(row, 6)?,
        error: optional_text(row, 7)?,
        events: count(get(row, 8)?),
        logs: count(get(row, 9)?),
        rows,
        lines: Vec::new(),
        waits: Vec::new(),
        snapshot: None,
    })
}

fn event(record: &mut ExecutionRecord, row: &Row) -> Result<(), Error> {
    let (first, body, raw) = (count(get(row, 1)?), text(row, 2)?, get(row, 3)?);
    record.rows.push(EventRow { first, body, raw, uses: Vec::new() });
    Ok(())
}

fn blob_use(record: &mut ExecutionRecord, row: &Row) -> Result<(), Error> {
    let (first, blob, at) = (count(get(row, 1)?), hash(row, 2)?, get::<i32>(row, 3)?);
    if let Some(row) = record.rows.iter_mut().find(|row| row.first == first) {
        row.uses.push(BlobUse { at: u32::try_from(at).ok(), blob });
    }
    Ok(())
}

fn lines(record: &mut ExecutionRecord, row: &Row) -> Result<(), Error> {
    record.lines.push((count(get(row, 1)?), text(row, 2)?));
    Ok(())
}

fn wait(record: &mut ExecutionRecord, row: &Row) -> Result<(), Error> {
    record.waits.push(WaitRow {
        step: text(row, 1)?,
        until_ns: get(row, 2)?,
        event: optional_text(row, 3)?,
        path: text(row, 4)?,
        value: text(row, 5)?,
        condition: optional_text(row, 6)?,
        child: get::<Option<Uuid>>(row, 7)?.map(Uuid::into_bytes),
    });
    Ok(())
}

fn snapshot(record: &mut ExecutionRecord, row: &Row) -> Result<(), Error> {
    record.snapshot = Some((count(get(row, 1)?), text(row, 2)?));
    Ok(())
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}
