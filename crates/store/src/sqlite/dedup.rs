//! What was sent before: looked up and taken in the transaction that accepts the execution, and forgotten at its end.

use jiff::Timestamp;
use model::{AutomationId, ExecutionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::encode::{NewExecutionRow, WriteOp, WriteResult, to_ns};
use super::pool::read_error;
use super::queue::Queue;
use super::write::WriteError;
use crate::types::DedupHit;
use crate::{AcceptOutcome, Error};

/// How many are forgotten in one transaction, and by one call.
const STEP_ROWS: u32 = 500;
const MOST_AT_ONCE: u32 = 100_000;

const FIND: &str =
    "SELECT execution, content FROM sendings WHERE automation = ?1 AND key = ?2 AND until_ns > ?3";

/// What has this name at this time.
pub(super) fn find(
    connection: &Connection,
    automation: &AutomationId,
    key: &[u8; 32],
    now: Timestamp,
) -> Result<Option<DedupHit>, Error> {
    look(connection, automation, key, to_ns(now)).map_err(read_error)
}

fn look(
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

/// Whether one of an execution's names is taken, and by what.
pub(super) fn taken(
    connection: &Connection,
    row: &NewExecutionRow,
) -> rusqlite::Result<Option<AcceptOutcome>> {
    for sending in &row.dedup {
        if let Some(sent) = look(connection, &row.automation, &sending.key, row.started_ns)? {
            let conflicts_with = sent.conflicts_with(sending.content);
            let taken = if conflicts_with { AcceptOutcome::Mismatch } else { AcceptOutcome::Duplicate };
            return Ok(Some(taken(sent.execution)));
        }
    }
    Ok(None)
}

/// Gives an execution its names, in place of those that are over.
pub(super) fn take(connection: &Connection, row: &NewExecutionRow) -> rusqlite::Result<()> {
    if row.dedup.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO sendings (automation, key, content, execution, until_ns) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for sending in &row.dedup {
        let until = to_ns(sending.until);
        let values = params![row.automation.as_str(), sending.key, sending.content, row.id.as_bytes(), until];
        statement.execute(values)?;
    }
    Ok(())
}

/// Forgets names whose time ended before `before`.
pub(super) async fn prune(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    let (mut gone, limit) = (0, limit.min(MOST_AT_ONCE));
    while gone < limit {
        let step = STEP_ROWS.min(limit - gone);
        let work = WriteOp::DeleteExpiredDedup { before_ns: to_ns(before), limit: step };
        let WriteResult::Count(count) = queue.write(work).await? else { break };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        gone = gone.saturating_add(count);
        if count < step {
            break;
        }
    }
    Ok(u64::from(gone))
}

/// Forgets some names whose time ended before this, the earliest first.
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
