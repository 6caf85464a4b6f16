//! State values by scope and key. All versions come from one counter in the file, so none is ever used twice, not even
//! after deletions and restarts.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use super::encode::{WriteOp, WriteResult};
use super::list::MAX_PAGE;
use super::pool::read_error;
use super::queue::Queue;
use super::read::{corrupt, timestamp};
use super::write::WriteError;
use store::Error;
use store::codec::{StateChange, to_ns};
use store::{StateEntry, StateRow};

/// The approximate limit of a page in bytes.
const PAGE_BYTES: usize = 8 << 20;

/// Maximum number of values, and of bytes approximately, that one transaction deletes.
const STEP_ROWS: u32 = 500;
const STEP_BYTES: i64 = 4 << 20;

/// Maximum number of values that one call deletes.
const MOST_AT_ONCE: u32 = 100_000;

/// Optimistic lock: returns an error if a stored version differs from the expected one. Writes nothing.
pub(super) fn check(connection: &Connection, changes: &[StateChange]) -> Result<(), WriteError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut find = connection.prepare_cached("SELECT version FROM state WHERE scope = ?1 AND key = ?2")?;
    for StateChange { scope, key, expected, .. } in changes {
        let found: Option<i64> = find.query_row([scope, key], |row| row.get(0)).optional()?;
        if found != *expected {
            let (scope, key) = (scope.clone(), key.clone());
            return Err(WriteError::Refused(Error::StateChanged { scope, key }));
        }
    }
    Ok(())
}

/// Writes changes after [`check`].
pub(super) fn write(connection: &Connection, changes: &[StateChange]) -> rusqlite::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut delete = connection.prepare_cached("DELETE FROM state WHERE scope = ?1 AND key = ?2")?;
    let mut put = connection.prepare_cached(
        "INSERT INTO state (scope, key, version, expires_ns, value) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (scope, key) DO UPDATE \
         SET version = excluded.version, expires_ns = excluded.expires_ns, value = excluded.value",
    )?;
    let sql = "UPDATE meta SET value = value + ?1 WHERE name = 'stateVersion' RETURNING value - ?1";
    let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
    let mut version: i64 = connection.prepare_cached(sql)?.query_row([count], |row| row.get(0))?;
    for StateChange { scope, key, value, expires_ns, .. } in changes {
        version += 1;
        match value {
            Some(value) => put.execute(params![scope, key, version, expires_ns, value])?,
            None => delete.execute([scope, key])?,
        };
    }
    Ok(())
}

/// Returns the values with these keys, in the order of the keys, from one snapshot.
pub(super) fn read(
    connection: &mut Connection,
    scope: &str,
    keys: &[String],
) -> Result<Vec<Option<StateEntry>>, Error> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(read_error)?;
    let sql = "SELECT key, version, expires_ns, value FROM state WHERE scope = ?1 AND key = ?2";
    let mut statement = snapshot.prepare_cached(sql).map_err(read_error)?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let mut rows = statement.query([scope, key]).map_err(read_error)?;
        let row = rows.next().map_err(read_error)?.map(|row| state_row(row, scope)).transpose()?;
        found.push(row.map(|(row, _)| row.entry));
    }
    Ok(found)
}

/// Returns a page of the values of a scope, ordered by key. `after` is empty for the first page, since no key is.
pub(super) fn list(
    connection: &Connection,
    scope: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<StateRow>, Error> {
    let sql = "SELECT key, version, expires_ns, value FROM state \
               WHERE scope = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query(params![scope, after, limit.min(MAX_PAGE)]).map_err(read_error)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES
        && let Some(row) = rows.next().map_err(read_error)?
    {
        let (row, length) = state_row(row, scope)?;
        found.push(row);
        bytes += length;
    }
    Ok(found)
}

/// Reads a value, and returns its size in bytes with it.
fn state_row(row: &Row<'_>, scope: &str) -> Result<(StateRow, usize), Error> {
    let key: String = row.get(0).map_err(read_error)?;
    let damaged = |why: String| corrupt(format!("the state `{key}` of `{scope}` cannot be read: {why}"));
    let version: i64 = row.get(1).map_err(read_error)?;
    let version = u64::try_from(version).map_err(|_| damaged(format!("{version} is no version")))?;
    let expires: Option<i64> = row.get(2).map_err(read_error)?;
    let json = row.get_ref(3).and_then(|value| Ok(value.as_str()?)).map_err(read_error)?;
    let value = serde_json::from_str(json).map_err(|error| damaged(error.to_string()))?;
    let entry = StateEntry { value, version, expires_at: expires.map(timestamp).transpose()? };
    Ok((StateRow { key, entry }, json.len()))
}

/// Deletes values that expired before `before`, in steps.
pub(super) async fn prune(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    let (mut gone, limit) = (0, limit.min(MOST_AT_ONCE));
    while gone < limit {
        let work = WriteOp::DeleteExpiredState { before_ns: to_ns(before), limit: limit - gone };
        match queue.write(work).await? {
            WriteResult::Count(count) if count > 0 => gone += u32::try_from(count).unwrap_or(u32::MAX),
            _ => break,
        }
    }
    Ok(u64::from(gone))
}

/// Deletes some values that expired before this time, the earliest first.
pub(super) fn delete_expired(
    connection: &Connection,
    before_ns: i64,
    limit: u32,
) -> Result<WriteResult, WriteError> {
    let mut find = connection.prepare_cached(
        "SELECT sequence, octet_length(value) FROM state INDEXED BY state_by_expiry \
         WHERE expires_ns < ?1 ORDER BY expires_ns LIMIT ?2",
    )?;
    let mut delete = connection.prepare_cached("DELETE FROM state WHERE sequence = ?1")?;
    let limit = STEP_ROWS.min(limit);
    let found = find.query_map(params![before_ns, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, i64)> = found.collect::<Result<_, _>>()?;
    let (mut gone, mut bytes) = (0, 0);
    for (sequence, length) in found {
        delete.execute([sequence])?;
        gone += 1;
        bytes += length;
        if bytes >= STEP_BYTES {
            break;
        }
    }
    Ok(WriteResult::Count(gone))
}
