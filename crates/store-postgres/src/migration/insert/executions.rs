//! Writing of executions, each with everything that belongs to it.

use std::collections::BTreeSet;

use model::AutomationId;
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Result, run};
use crate::forms::{TEST_SHELF, id_of};
use crate::partitions::{day_of, first_id};
use store::Shard;
use store::migration::record::{EventRow, ExecutionRecord};

/// It has no owner: the daemon that takes its shard gets it. An execution that is not gated has the shard of its Automation too, since
/// the definition alone says whether it is.
const LIVE: &str = "INSERT INTO live (id, automation, definition, origin, test, status, started_ns, owner, events, logs, holds, waits, \
      wake_ns, replay_of, gate) \
    SELECT t.id, a.no, d.no, t.origin, t.test, t.status, t.started, NULL, t.events, t.logs, t.holds, t.waits, t.wake, t.replay, t.gate \
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bytea[], $5::bool[], $6::int2[], $7::int8[], $8::int4[], $9::int4[], \
      $10::bool[], $11::bool[], $12::int8[], $13::uuid[], $14::int2[]) \
      AS t (id, automation, definition, origin, test, status, started, events, logs, holds, waits, wake, replay, gate) \
    JOIN automations a ON a.id = t.automation JOIN definitions d ON d.hash = t.definition";
const ENDED: &str = "INSERT INTO executions (id, automation, definition, origin, shelf, started_ns, finished_ns, error, events, logs, \
      start, raw, tail_first, tail, replay_of) \
    SELECT t.id, a.no, d.no, t.origin, t.shelf, t.started, t.finished, t.error, t.events, t.logs, t.start, t.raw, t.tail_first, t.tail, \
      t.replay \
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bytea[], $5::int2[], $6::int8[], $7::int8[], $8::bytea[], $9::int4[], \
      $10::int4[], $11::bytea[], $12::bytea[], $13::int4[], $14::bytea[], $15::uuid[]) \
      AS t (id, automation, definition, origin, shelf, started, finished, error, events, logs, start, raw, tail_first, tail, replay) \
    JOIN automations a ON a.id = t.automation JOIN definitions d ON d.hash = t.definition";
const DAYS: &str = "INSERT INTO definition_days (definition, day) \
    SELECT DISTINCT d.no, t.day FROM unnest($1::bytea[], $2::int4[]) AS t (definition, day) \
    JOIN definitions d ON d.hash = t.definition ON CONFLICT DO NOTHING";
const EVENTS: &str = "INSERT INTO events (execution, first, body, raw) \
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::bytea[], $4::bytea[])";
const USES: &str = "INSERT INTO blob_uses (execution, first, blob, at) \
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::bytea[], $4::int4[])";
const LOGS: &str =
    "INSERT INTO logs (execution, first, lines) SELECT * FROM unnest($1::uuid[], $2::int4[], $3::bytea[])";
const WAITS: &str = "INSERT INTO waits (execution, step, until_ns, event, path, value, condition, child) \
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::int8[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::uuid[])";
const SNAPSHOTS: &str = "INSERT INTO snapshots (execution, events, body) SELECT * FROM unnest($1::uuid[], $2::int4[], $3::bytea[])";

/// Inserts executions in the open transaction.
pub(super) async fn insert(transaction: &Transaction<'_>, records: &[&ExecutionRecord]) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let days: Vec<i32> = records.iter().map(|record| day_of(Uuid::from_bytes(record.id))).collect();
    for day in days.iter().collect::<BTreeSet<_>>() {
        let (low, high) = (first_id(*day), first_id(day.saturating_add(1)));
        transaction.execute("SELECT make_day($1, $2, $3)", &[day, &low, &high]).await?;
    }
    let definitions: Vec<&[u8]> = records.iter().map(|record| &record.definition[..]).collect();
    transaction.execute(DAYS, &[&definitions, &days]).await?;
    let (ended, open): (Vec<&ExecutionRecord>, Vec<_>) = records.iter().partition(|record| record.has_ended);
    live(transaction, &open).await?;
    history(transaction, &ended).await?;
    // The last row of an execution that has ended stands in its row of the history: the only one as its start.
    let inner = ended.iter().flat_map(|record| {
        let others = record.rows.len().saturating_sub(1);
        record.rows.iter().take(others).map(|row| (*record, row))
    });
    let outer = open.iter().flat_map(|record| record.rows.iter().map(|row| (*record, row)));
    events(transaction, &inner.chain(outer).collect::<Vec<_>>()).await?;
    details(transaction, records).await
}

/// Collects a column of executions, or of rows of them.
macro_rules! column {
    ($records:expr, $record:pat => $value:expr) => {
        $records.iter().map(|$record| $value).collect::<Vec<_>>()
    };
}

async fn live(transaction: &Transaction<'_>, records: &[&ExecutionRecord]) -> Result<()> {
    let shard = |id: &str| AutomationId::parse(id).map(|id| i16::from(Shard::of(&id).number()));
    let columns: [&(dyn ToSql + Sync); 14] = [
        &column!(records, record => Uuid::from_bytes(record.id)),
        &column!(records, record => &*record.automation),
        &column!(records, record => &record.definition[..]),
        &column!(records, record => record.origin.as_bytes()),
        &column!(records, record => record.is_test),
        &column!(records, record => small(record.status)),
        &column!(records, record => record.started_ns),
        &column!(records, record => signed(record.events)),
        &column!(records, record => signed(record.logs)),
        &column!(records, record => record.keeps_permit),
        &column!(records, record => !record.waits.is_empty()),
        &column!(records, record => record.waits.iter().filter_map(|wait| wait.until_ns).min()),
        &column!(records, record => record.cause().map(id_of)),
        &column!(records, record => shard(&record.automation)),
    ];
    run(transaction, LIVE, records.len(), &columns).await
}

async fn history(transaction: &Transaction<'_>, records: &[&ExecutionRecord]) -> Result<()> {
    let start = |record: &&ExecutionRecord| match record.rows.as_slice() {
        [only] => Some(only.body.clone().into_bytes()),
        _ => None,
    };
    let raw = |record: &&ExecutionRecord| match record.rows.as_slice() {
        [only] => only.raw.clone(),
        _ => None,
    };
    let columns: [&(dyn ToSql + Sync); 15] = [
        &column!(records, record => Uuid::from_bytes(record.id)),
        &column!(records, record => &*record.automation),
        &column!(records, record => &record.definition[..]),
        &column!(records, record => record.origin.as_bytes()),
        &column!(records, record => small(record.status) + if record.is_test { TEST_SHELF } else { 0 }),
        &column!(records, record => record.started_ns),
        &column!(records, record => record.finished_ns),
        &column!(records, record => record.error.as_ref().map(String::as_bytes)),
        &column!(records, record => signed(record.events)),
        &column!(records, record => signed(record.logs)),
        &column!(records, record => start(record)),
        &column!(records, record => raw(record)),
        &column!(records, record => tail(record).map(|row| signed(row.first))),
        &column!(records, record => tail(record).map(|row| row.body.as_bytes())),
        &column!(records, record => record.cause().map(id_of)),
    ];
    run(transaction, ENDED, records.len(), &columns).await
}

/// Returns the last events of an execution that has more than its start.
fn tail(record: &ExecutionRecord) -> Option<&EventRow> {
    record.rows.last().filter(|_| record.rows.len() > 1)
}

async fn events(transaction: &Transaction<'_>, rows: &[(&ExecutionRecord, &EventRow)]) -> Result<()> {
    let columns: [&(dyn ToSql + Sync); 4] = [
        &column!(rows, (record, _) => Uuid::from_bytes(record.id)),
        &column!(rows, (_, row) => signed(row.first)),
        &column!(rows, (_, row) => row.body.as_bytes()),
        &column!(rows, (_, row) => row.raw.as_deref()),
    ];
    run(transaction, EVENTS, rows.len(), &columns).await
}

/// Inserts blobs of rows, log lines, waits and snapshots.
async fn details(transaction: &Transaction<'_>, records: &[&ExecutionRecord]) -> Result<()> {
    let of = |record: &ExecutionRecord| Uuid::from_bytes(record.id);
    let rows = records.iter().flat_map(|record| record.rows.iter().map(move |row| (*record, row)));
    let uses: Vec<_> =
        rows.flat_map(|(record, row)| row.uses.iter().map(move |blob| (record, row, blob))).collect();
    let columns: [&(dyn ToSql + Sync); 4] = [
        &column!(uses, (record, ..) => of(record)),
        &column!(uses, (_, row, _) => signed(row.first)),
        &column!(uses, (_, _, blob) => &blob.blob[..]),
        // -1: the text names the file.
        &column!(uses, (_, _, blob) => blob.at.map_or(-1, signed)),
    ];
    run(transaction, USES, uses.len(), &columns).await?;
    let lines: Vec<_> =
        records.iter().flat_map(|record| record.lines.iter().map(move |lines| (*record, lines))).collect();
    let columns: [&(dyn ToSql + Sync); 3] = [
        &column!(lines, (record, _) => of(record)),
        &column!(lines, (_, (first, _)) => signed(*first)),
        &column!(lines, (_, (_, lines)) => lines.as_bytes()),
    ];
    run(transaction, LOGS, lines.len(), &columns).await?;
    let waits: Vec<_> =
        records.iter().flat_map(|record| record.waits.iter().map(move |wait| (*record, wait))).collect();
    let columns: [&(dyn ToSql + Sync); 8] = [
        &column!(waits, (record, _) => of(record)),
        &column!(waits, (_, wait) => wait.step.as_bytes()),
        &column!(waits, (_, wait) => wait.until_ns),
        &column!(waits, (_, wait) => wait.event.as_ref().map(String::as_bytes)),
        &column!(waits, (_, wait) => wait.path.as_bytes()),
        &column!(waits, (_, wait) => wait.value.as_bytes()),
        &column!(waits, (_, wait) => wait.condition.as_ref().map(String::as_bytes)),
        &column!(waits, (_, wait) => wait.child.map(Uuid::from_bytes)),
    ];
    run(transaction, WAITS, waits.len(), &columns).await?;
    let snapshots: Vec<_> = records
        .iter()
        .filter_map(|record| record.snapshot.as_ref().map(|snapshot| (*record, snapshot)))
        .collect();
    let columns: [&(dyn ToSql + Sync); 3] = [
        &column!(snapshots, (record, _) => of(record)),
        &column!(snapshots, (_, (events, _)) => signed(*events)),
        &column!(snapshots, (_, (_, body)) => body.as_bytes()),
    ];
    run(transaction, SNAPSHOTS, snapshots.len(), &columns).await
}

fn small(status: i64) -> i16 {
    i16::try_from(status).unwrap_or_default()
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
