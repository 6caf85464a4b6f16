//! Open waits of executions. The row of each execution has the number of its waits, so that an execution without waits,
//! which most are, ends without a query for them.

use jiff::Timestamp;
use model::ExecutionId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::list::{self, MAX_PAGE};
use super::pool::read_error;
use super::read::timestamp;
use store::Error;
use store::codec::to_ns;
use store::{AwaitedEvent, EventKey, EventWaiter, SuspendedExecution, Wait};

/// Replaces all waits of an existing execution.
pub(super) fn replace(
    connection: &Connection,
    execution: ExecutionId,
    waits: &[Wait],
) -> rusqlite::Result<()> {
    let id = execution.as_bytes();
    delete(connection, execution)?;
    let sql = "INSERT INTO waits (execution, step, until_ns, child, event, path, value, condition) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut insert = connection.prepare_cached(sql)?;
    for Wait { step, until, event, child } in waits {
        let child = child.as_ref().map(ExecutionId::as_bytes);
        let name = event.as_ref().map(|event| &event.name);
        let none = AwaitedEvent::default();
        let AwaitedEvent { key, condition, .. } = event.as_ref().unwrap_or(&none);
        insert.execute(params![id, step, until.map(to_ns), child, name, key.path, key.value, condition])?;
    }
    let sql = "UPDATE executions SET waits = (SELECT count(*) FROM waits WHERE execution = ?1) WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([id])?;
    Ok(())
}

/// Deletes all waits of an execution that has `events` events. Returns true if there were any.
pub(super) fn clear(connection: &Connection, execution: ExecutionId, events: u32) -> rusqlite::Result<bool> {
    let sql = "UPDATE executions SET waits = 0 WHERE id = ?1 AND events = ?2 AND waits > 0";
    let any = connection.prepare_cached(sql)?.execute(params![execution.as_bytes(), events])? > 0;
    if any {
        delete(connection, execution)?;
    }
    Ok(any)
}

fn delete(connection: &Connection, execution: ExecutionId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM waits WHERE execution = ?1";
    connection.prepare_cached(sql)?.execute([execution.as_bytes()]).map(drop)
}

/// Returns waiting executions, oldest first.
pub(super) fn list_suspended(
    connection: &Connection,
    after: Option<ExecutionId>,
    limit: u32,
) -> Result<Vec<SuspendedExecution>, Error> {
    let after = after.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
    let mut statement = connection.prepare_cached(&list::list_suspended()).map_err(read_error)?;
    let mut rows = statement.query(params![after, limit.min(MAX_PAGE)]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let execution = execution(row, 0)?;
        found.push(SuspendedExecution {
            execution,
            keeps_permit: row.get(1).map_err(read_error)?,
            wake_at: time(row, 2)?,
        });
    }
    Ok(found)
}

/// Returns the open waits of an execution, ordered by step.
pub(super) fn of_execution(connection: &Connection, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
    let sql = "SELECT step, until_ns, child, event, path, value, condition FROM waits WHERE execution = ?1 \
        ORDER BY step";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([execution.as_bytes()]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let child: Option<[u8; 16]> = row.get(2).map_err(read_error)?;
        let event = match row.get(3).map_err(read_error)? {
            Some(name) => {
                let key = EventKey {
                    path: row.get(4).map_err(read_error)?,
                    value: row.get(5).map_err(read_error)?,
                };
                Some(AwaitedEvent { name, key, condition: row.get(6).map_err(read_error)? })
            }
            None => None,
        };
        found.push(Wait {
            step: row.get(0).map_err(read_error)?,
            until: time(row, 1)?,
            event,
            child: child.map(ExecutionId::from_bytes),
        });
    }
    Ok(found)
}

/// The SQL of [`event_paths`]: the next path. One search for each path, however many steps wait.
const NEXT_PATH: &str = "SELECT path FROM waits INDEXED BY waits_by_event \
    WHERE event = ?1 AND path > ?2 ORDER BY path LIMIT 1";

/// The SQL of [`event_paths`]: the empty path, if a step waits without a key.
const EMPTY_PATH: &str = "SELECT path FROM waits INDEXED BY waits_by_event \
    WHERE event = ?1 AND path = ?2 LIMIT 1";

/// The SQL of [`for_event`] with a value.
const FOR_VALUE: &str = "SELECT execution, step, value, condition FROM waits INDEXED BY waits_by_event \
    WHERE event = ?1 AND path = ?2 AND value = ?3 AND (execution, step) > (?4, ?5) \
    ORDER BY execution, step LIMIT ?6";

/// The SQL of [`for_event`] without a value.
const FOR_PATH: &str = "SELECT execution, step, value, condition FROM waits INDEXED BY waits_by_event \
    WHERE event = ?1 AND path = ?2 AND (value, execution, step) > (?3, ?4, ?5) \
    ORDER BY value, execution, step LIMIT ?6";

/// The SQL of [`for_child`].
const FOR_CHILD: &str = "SELECT execution, step FROM waits INDEXED BY waits_by_child \
    WHERE child = ?1 ORDER BY execution, step LIMIT 1";

/// Returns the paths of the keys by which steps wait for events with this name.
pub(super) fn event_paths(connection: &Connection, name: &str) -> Result<Vec<String>, Error> {
    let mut found: Vec<String> = Vec::new();
    let mut empty = connection.prepare_cached(EMPTY_PATH).map_err(read_error)?;
    if empty.exists(params![name, ""]).map_err(read_error)? {
        found.push(String::new());
    }
    let mut next = connection.prepare_cached(NEXT_PATH).map_err(read_error)?;
    while found.len() < MAX_PAGE as usize {
        let after = found.last().map_or("", String::as_str);
        let path = next.query_row(params![name, after], |row| row.get(0)).optional().map_err(read_error)?;
        let Some(path) = path else { break };
        found.push(path);
    }
    Ok(found)
}

/// Returns the steps that wait for events with this name by a key with this path.
pub(super) fn for_event(
    connection: &Connection,
    name: &str,
    path: &str,
    value: Option<&str>,
    after: Option<EventWaiter>,
    limit: u32,
) -> Result<Vec<EventWaiter>, Error> {
    let sql = if value.is_some() { FOR_VALUE } else { FOR_PATH };
    // An empty blob is below every id, and the empty text below every value.
    let (from, id, step) = match after {
        Some(after) => (after.value, after.execution.as_bytes().to_vec(), after.step),
        None => Default::default(),
    };
    let from = value.unwrap_or(&from);
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows =
        statement.query(params![name, path, from, id, step, limit.min(MAX_PAGE)]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        found.push(EventWaiter {
            execution: execution(row, 0)?,
            step: row.get(1).map_err(read_error)?,
            value: row.get(2).map_err(read_error)?,
            condition: row.get(3).map_err(read_error)?,
        });
    }
    Ok(found)
}

/// Returns the execution and the step that wait for the end of `child`.
pub(super) fn for_child(
    connection: &Connection,
    child: ExecutionId,
) -> Result<Option<(ExecutionId, String)>, Error> {
    let mut statement = connection.prepare_cached(FOR_CHILD).map_err(read_error)?;
    let found = statement.query_row([child.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
    let found = found.optional().map_err(read_error)?;
    Ok(found.map(|(parent, step)| (ExecutionId::from_bytes(parent), step)))
}

fn execution(row: &Row<'_>, column: usize) -> Result<ExecutionId, Error> {
    row.get(column).map(ExecutionId::from_bytes).map_err(read_error)
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, Error> {
    row.get::<_, Option<i64>>(column).map_err(read_error)?.map(timestamp).transpose()
}

#[cfg(test)]
mod tests {
    use super::super::{list, schema};
    use super::*;

    #[test]
    fn waiting_executions_are_found_by_index() {
        let connection = schema::in_memory();
        for (sql, params, range) in [
            (EMPTY_PATH, 2, "waits_by_event (event=? AND path=?)"),
            (NEXT_PATH, 2, "waits_by_event (event=? AND path>?)"),
            (FOR_VALUE, 6, "waits_by_event (event=? AND path=? AND value=? AND (execution,step)>(?,?))"),
            (FOR_PATH, 6, "waits_by_event (event=? AND path=? AND (value,execution,step)>(?,?,?))"),
            (FOR_CHILD, 1, "waits_by_child (child=?)"),
        ] {
            let plan = list::plan(&connection, sql, vec![&1_i64 as &dyn rusqlite::ToSql; params].as_slice());
            assert!(plan.len() == 1 && plan[0].ends_with(range), "{sql}: {plan:?}");
        }
    }
}
