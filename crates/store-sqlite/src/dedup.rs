//! Deduplication records. They are checked and taken in the transaction that accepts an execution, and deleted after
//! their expiry.

use jiff::Timestamp;
use model::{AutomationId, ExecutionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::encode::{NewExecutionRow, WriteOp, WriteResult};
use super::pool::read_error;
use super::queue::Queue;
use super::write::WriteError;
use store::DedupHit;
use store::codec::to_ns;
use store::{AcceptOutcome, Error};

/// Maximum number of records that one transaction deletes, and that one call deletes.
const STEP_ROWS: u32 = 500;
const MOST_AT_ONCE: u32 = 100_000;

const FIND: &str =
    "SELECT execution, content FROM sendings WHERE automation = ?1 AND key = ?2 AND until_ns > ?3";

/// Returns the record with this key that is unexpired at `now`.
pub(super) fn find(
    connection: &Connection,
    automation: &AutomationId,
    key: &[u8; 32],
    now: Timestamp,
) -> Result<Option<DedupHit>, Error> {
    query(connection, automation, key, to_ns(now)).map_err(read_error)
}

fn query(
    connection: &Connection,
    automation: &AutomationId,
    key: &[u8; 32],
    now_ns: i64,
) -> rusqlite::Result<Option<DedupHit>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(params![automation.as_str(), key, now_ns], |row| {
        Ok(DedupHit { execution: ExecutionId::from_bytes(row.get(0)?), content: row.get(1)? })
    });
    found.optional()
}

/// Returns the outcome for an execution whose key is taken; `None` if all its keys are free.
pub(super) fn find_taken(
    connection: &Connection,
    row: &NewExecutionRow,
) -> rusqlite::Result<Option<AcceptOutcome>> {
    for record in &row.dedup {
        if let Some(hit) = query(connection, &row.automation, &record.key, row.started_ns)? {
            let has_other_content = hit.conflicts_with(record.content);
            let taken = if has_other_content { AcceptOutcome::Mismatch } else { AcceptOutcome::Duplicate };
            return Ok(Some(taken(hit.execution)));
        }
    }
    Ok(None)
}

/// Inserts the records of an execution, replacing expired ones.
pub(super) fn take(connection: &Connection, row: &NewExecutionRow) -> rusqlite::Result<()> {
    if row.dedup.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO sendings (automation, key, content, execution, until_ns) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for record in &row.dedup {
        let until = to_ns(record.until);
        let values = params![row.automation.as_str(), record.key, record.content, row.id.as_bytes(), until];
        statement.execute(values)?;
    }
    Ok(())
}

/// Deletes records that expired before `before`.
pub(super) async fn prune(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    let (mut deleted, limit) = (0, limit.min(MOST_AT_ONCE));
    while deleted < limit {
        let step = STEP_ROWS.min(limit - deleted);
        let work = WriteOp::DeleteExpiredDedup { before_ns: to_ns(before), limit: step };
        let WriteResult::Count(count) = queue.write(work).await? else { break };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        deleted = deleted.saturating_add(count);
        if count < step {
            break;
        }
    }
    Ok(u64::from(deleted))
}

/// Deletes some records that expired before this time, the earliest first.
pub(super) fn delete_expired(
    connection: &Connection,
    before_ns: i64,
    limit: u32,
) -> Result<WriteResult, WriteError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM sendings WHERE (automation, key) IN ( \
           SELECT automation, key FROM sendings INDEXED BY sendings_by_end \
           WHERE until_ns < ?1 ORDER BY until_ns LIMIT ?2)",
    )?;
    let count = statement.execute(params![before_ns, limit])?;
    Ok(WriteResult::Count(u64::try_from(count).unwrap_or(u64::MAX)))
}
