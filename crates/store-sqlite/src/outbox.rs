//! Events on their way to triggers.

use model::ExecutionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::list::MAX_PAGE;
use super::pool::read_error;
use super::read::timestamp;
use store::codec::to_ns;
use store::{Error, OutboxCount, OutboxRow};

/// Stores events. One whose id is taken stays as it is.
pub(super) fn insert(connection: &Connection, rows: &[OutboxRow]) -> rusqlite::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO outbox (id, name, body, at_ns) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?;
    for OutboxRow { id, name, body, at } in rows {
        insert.execute(params![id.as_bytes(), name, body, to_ns(*at)])?;
    }
    Ok(())
}

/// Deletes events.
pub(super) fn delete(connection: &Connection, ids: &[ExecutionId]) -> rusqlite::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut delete = connection.prepare_cached("DELETE FROM outbox WHERE id = ?1")?;
    for id in ids {
        delete.execute([id.as_bytes()])?;
    }
    Ok(())
}

/// Returns true if events have one of the first names.
pub(super) fn has_named(connection: &Connection, names: &[(String, String)]) -> rusqlite::Result<bool> {
    let mut find = connection.prepare_cached("SELECT 1 FROM outbox WHERE name = ?1")?;
    for (name, _) in names {
        if find.exists([name])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives the events with each first name the second one. Returns their number.
pub(super) fn rename(connection: &Connection, names: &[(String, String)]) -> rusqlite::Result<usize> {
    let mut rename = connection.prepare_cached("UPDATE outbox SET name = ?2 WHERE name = ?1")?;
    names.iter().map(|(from, to)| rename.execute([from, to])).sum()
}

/// Returns a page of the events with a name.
pub(super) fn page(
    connection: &Connection,
    name: &str,
    after: Option<ExecutionId>,
    limit: u32,
) -> Result<Vec<OutboxRow>, Error> {
    let sql = "SELECT id, body, at_ns FROM outbox WHERE name = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let after = after.map(|id| id.as_bytes().to_vec()).unwrap_or_default();
    let mut rows = statement.query(params![name, after, limit.min(MAX_PAGE)]).map_err(read_error)?;
    let (mut found, mut bytes): (Vec<OutboxRow>, _) = (Vec::new(), 0);
    while bytes < OutboxRow::PAGE_BYTES
        && let Some(row) = rows.next().map_err(read_error)?
    {
        let id = ExecutionId::from_bytes(row.get(0).map_err(read_error)?);
        let body: String = row.get(1).map_err(read_error)?;
        bytes += body.len();
        let at = timestamp(row.get(2).map_err(read_error)?)?;
        found.push(OutboxRow { id, name: name.to_owned(), body, at });
    }
    Ok(found)
}

/// Returns the number of events by name.
pub(super) fn counts(connection: &Connection) -> Result<Vec<OutboxCount>, Error> {
    // By the index alone, apart from the first row of each name. The ids begin with the time at which they were made.
    let sql = "SELECT name, count(*), min(id), max(id) FROM outbox GROUP BY name ORDER BY name";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut first =
        connection.prepare_cached("SELECT at_ns FROM outbox WHERE id = ?1").map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let (rows, id): (i64, [u8; 16]) = (row.get(1).map_err(read_error)?, row.get(2).map_err(read_error)?);
        let oldest = first.query_row([id], |row| row.get(0)).optional().map_err(read_error)?;
        found.push(OutboxCount {
            name: row.get(0).map_err(read_error)?,
            rows: u64::try_from(rows).unwrap_or_default(),
            oldest: timestamp(oldest.unwrap_or_default())?,
            last: ExecutionId::from_bytes(row.get(3).map_err(read_error)?),
        });
    }
    Ok(found)
}
