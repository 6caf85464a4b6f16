//! Values that outlive executions.

use jiff::Timestamp;
use tokio_postgres::Row;

use super::list::{MAX_PAGE, timestamp};
use super::op::{Done, params};
use super::queue::Queue;
use super::reader::{Reader, damaged, get, text};
use store::Error;
use store::codec::to_ns;
use store::{StateEntry, StateRow};

/// The approximate limit of a page in bytes, and the number of values that are read at once for it.
const PAGE_BYTES: usize = 8 << 20;
const PAGE_STEP: i64 = 64;

const READ: &str = "SELECT s.key, s.version, s.expires_ns, s.value FROM unnest($2::bytea[]) WITH ORDINALITY AS t (key, place) \
    LEFT JOIN state s ON s.scope = $1 AND s.key = t.key ORDER BY t.place";
const LIST: &str =
    "SELECT key, version, expires_ns, value FROM state WHERE scope = $1 AND key > $2 ORDER BY key LIMIT $3";
const DELETE_EXPIRED: &str = "WITH c AS (SELECT scope, key FROM state WHERE expires_ns < $1 ORDER BY expires_ns LIMIT $2 FOR UPDATE), \
    d AS (DELETE FROM state s USING c WHERE s.scope = c.scope AND s.key = c.key RETURNING 1) SELECT count(*) FROM d";

/// Returns the values with these keys, in the order of the keys, from one snapshot.
pub(super) async fn read(
    reader: &Reader,
    scope: &str,
    keys: &[String],
) -> Result<Vec<Option<StateEntry>>, Error> {
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    let rows = reader.rows(READ, params![scope.as_bytes().to_vec(), keys]).await?;
    let entry = |row: &Row| match get::<Option<i64>>(row, 1)? {
        Some(_) => state_row(row, scope).map(|(row, _)| Some(row.entry)),
        None => Ok(None),
    };
    rows.iter().map(entry).collect()
}

/// Returns a page of the values of a scope, ordered by key. `after` is empty for the first page, since no key is.
pub(super) async fn list(
    reader: &Reader,
    scope: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<StateRow>, Error> {
    let limit = limit.min(MAX_PAGE) as usize;
    let (mut found, mut bytes, mut after): (Vec<StateRow>, _, _) = (Vec::new(), 0, after.as_bytes().to_vec());
    while found.len() < limit && bytes < PAGE_BYTES {
        let step = PAGE_STEP.min(i64::try_from(limit - found.len()).unwrap_or(PAGE_STEP));
        let rows = reader.rows(LIST, params![scope.as_bytes().to_vec(), after, step]).await?;
        let is_last = rows.len() < usize::try_from(step).unwrap_or_default();
        after = Vec::new();
        for row in &rows {
            if bytes >= PAGE_BYTES {
                break;
            }
            let (row, length) = state_row(row, scope)?;
            after = row.key.as_bytes().to_vec();
            found.push(row);
            bytes += length;
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// Deletes values that expired before `before`, the earliest first.
pub(super) async fn prune(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    super::prune::in_steps(queue, limit, |step| (DELETE_EXPIRED, params![to_ns(before), step])).await
}

/// Returns the count that a statement returned.
pub(super) fn count(done: &Done) -> Result<u64, Error> {
    let Done::Rows(lists) = done else { return Ok(0) };
    let row = lists.first().and_then(|rows| rows.first());
    let count: i64 = row.map(|row| get(row, 0)).transpose()?.unwrap_or_default();
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Reads a value, and returns its size in bytes with it.
fn state_row(row: &Row, scope: &str) -> Result<(StateRow, usize), Error> {
    let key = text(row, 0)?;
    let broken = |why: String| damaged(format!("the state `{key}` of `{scope}` cannot be read: {why}"));
    let version: i64 = get(row, 1)?;
    let version = u64::try_from(version).map_err(|_| broken(format!("{version} is no version")))?;
    let expires_at = get::<Option<i64>>(row, 2)?.map(timestamp).transpose()?;
    let json: &[u8] = get(row, 3)?;
    let value = serde_json::from_slice(json).map_err(|error| broken(error.to_string()))?;
    Ok((StateRow { key, entry: StateEntry { value, version, expires_at } }, json.len()))
}
