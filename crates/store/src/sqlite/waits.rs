//! Open waits of executions. The row of each execution has the number of its waits, so that an execution without waits,
//! which most are, ends without a query for them.

use jiff::Timestamp;
use model::ExecutionId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::encode::to_ns;
use super::list::{self, MAX_PAGE};
use super::pool::read_error;
use super::read::timestamp;
use crate::Error;
use crate::types::{SuspendedExecution, Wait};

/// Replaces all waits of an existing execution.
pub(super) fn replace(
    connection: &Connection,
    execution: ExecutionId,
    waits: &[Wait],
) -> rusqlite::Result<()> {
    let id = execution.as_bytes();
    delete(connection, execution)?;
    let sql = "INSERT INTO waits (execution, step, until_ns, event, child) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = connection.prepare_cached(sql)?;
    for Wait { step, until, event, child } in waits {
        let child = child.as_ref().map(ExecutionId::as_bytes);
        insert.execute(params![id, step, until.map(to_ns), event, child])?;
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
    let sql = "SELECT step, until_ns, event, child FROM waits WHERE execution = ?1 ORDER BY step";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([execution.as_bytes()]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let child: Option<[u8; 16]> = row.get(3).map_err(read_error)?;
        found.push(Wait {
            step: row.get(0).map_err(read_error)?,
            until: time(row, 1)?,
            event: row.get(2).map_err(read_error)?,
            child: child.map(ExecutionId::from_bytes),
        });
    }
    Ok(found)
}

/// The SQL of [`for_event`].
const FOR_EVENT: &str = "SELECT execution, step FROM waits INDEXED BY waits_by_event \
    WHERE event = ?1 AND (execution, step) > (?2, ?3) ORDER BY execution, step LIMIT ?4";

/// The SQL of [`for_child`].
const FOR_CHILD: &str = "SELECT execution, step FROM waits INDEXED BY waits_by_child \
    WHERE child = ?1 ORDER BY execution, step LIMIT 1";

/// Returns the executions and steps that wait for the event with this name.
pub(super) fn for_event(
    connection: &Connection,
    name: &str,
    after: Option<(ExecutionId, String)>,
    limit: u32,
) -> Result<Vec<(ExecutionId, String)>, Error> {
    // An empty blob is below every id.
    let (after, step) = after.map_or_else(Default::default, |(id, step)| (id.as_bytes().to_vec(), step));
    let mut statement = connection.prepare_cached(FOR_EVENT).map_err(read_error)?;
    let mut rows = statement.query(params![name, after, step, limit.min(MAX_PAGE)]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        found.push((execution(row, 0)?, row.get(1).map_err(read_error)?));
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
    fn who_waits_is_found_without_looking_at_the_others() {
        let connection = schema::in_memory();
        for (sql, params, range) in [
            (FOR_EVENT, 4, "waits_by_event (event=? AND (execution,step)>(?,?))"),
            (FOR_CHILD, 1, "waits_by_child (child=?)"),
        ] {
            let plan = list::plan(&connection, sql, vec![&1_i64 as &dyn rusqlite::ToSql; params].as_slice());
            assert!(plan.len() == 1 && plan[0].ends_with(range), "{sql}: {plan:?}");
        }
    }
}
