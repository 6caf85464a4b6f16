//! Open waits of executions.

use jiff::Timestamp;
use model::ExecutionId;
use tokio_postgres::Row;
use uuid::Uuid;

use super::forms::{execution_of, id_of};
use super::list::{MAX_PAGE, timestamp};
use super::op::params;
use super::reader::{Reader, get, optional_text, text};
use store::Error;
use store::{AwaitedEvent, EventKey, EventWaiter, SuspendedExecution, Wait};

const SUSPENDED: &str = "SELECT id, holds, wake_ns FROM live WHERE id > $1 AND status = 6 AND ($3::int8 IS NULL OR owner = $3) ORDER BY id LIMIT $2";
const OF_EXECUTION: &str = "SELECT step, until_ns, child, event, path, value, condition FROM waits \
    WHERE execution = $1 ORDER BY step";
/// The paths, by one search of the index for each.
const PATHS: &str = "WITH RECURSIVE each (path) AS ( \
      (SELECT path FROM waits WHERE event = $1 ORDER BY path LIMIT 1) \
      UNION ALL SELECT (SELECT path FROM waits WHERE event = $1 AND path > each.path ORDER BY path LIMIT 1) \
        FROM each WHERE path IS NOT NULL) \
    SELECT path FROM each WHERE path IS NOT NULL LIMIT $2";
const FOR_VALUE: &str = "SELECT execution, step, value, condition FROM waits \
    WHERE event = $1 AND path = $2 AND sha256(value) = sha256($3) AND value = $3 AND (execution, step) > ($4, $5) \
    ORDER BY execution, step LIMIT $6";
const FOR_PATH: &str = "SELECT execution, step, value, condition FROM waits \
    WHERE event = $1 AND path = $2 AND (value, execution, step) > ($3, $4, $5) \
    ORDER BY value, execution, step LIMIT $6";
const FOR_CHILD: &str = "SELECT execution, step FROM waits WHERE child = $1 ORDER BY execution, step LIMIT 1";

/// Returns waiting executions of a node, or of all, oldest first.
pub(super) async fn list_suspended(
    reader: &Reader,
    node: Option<i64>,
    after: Option<ExecutionId>,
    limit: u32,
) -> Result<Vec<SuspendedExecution>, Error> {
    let params = params![after.map_or(Uuid::nil(), id_of), i64::from(limit.min(MAX_PAGE)), node];
    let suspended = |row: &Row| {
        Ok(SuspendedExecution {
            execution: execution_of(get(row, 0)?),
            keeps_permit: get(row, 1)?,
            wake_at: time(row, 2)?,
        })
    };
    reader.rows(SUSPENDED, params).await?.iter().map(suspended).collect()
}

/// Returns the open waits of an execution, ordered by step.
pub(super) async fn of_execution(reader: &Reader, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
    let wait = |row: &Row| {
        let event = match optional_text(row, 3)? {
            Some(name) => {
                let key = EventKey { path: text(row, 4)?, value: text(row, 5)? };
                Some(AwaitedEvent { name, key, condition: optional_text(row, 6)? })
            }
            None => None,
        };
        let child = get::<Option<Uuid>>(row, 2)?.map(execution_of);
        Ok(Wait { step: text(row, 0)?, until: time(row, 1)?, event, child })
    };
    reader.rows(OF_EXECUTION, params![id_of(execution)]).await?.iter().map(wait).collect()
}

/// Returns the paths of the keys by which steps wait for events with this name.
pub(super) async fn event_paths(reader: &Reader, name: &str) -> Result<Vec<String>, Error> {
    let params = params![name.as_bytes().to_vec(), i64::from(MAX_PAGE)];
    reader.rows(PATHS, params).await?.iter().map(|row| text(row, 0)).collect()
}

/// Returns the steps that wait for events with this name by a key with this path.
pub(super) async fn for_event(
    reader: &Reader,
    name: &str,
    path: &str,
    value: Option<&str>,
    after: Option<EventWaiter>,
    limit: u32,
) -> Result<Vec<EventWaiter>, Error> {
    let sql = if value.is_some() { FOR_VALUE } else { FOR_PATH };
    // The first id and the empty text are below all that are stored.
    let (from, id, step) = match after {
        Some(after) => (after.value, id_of(after.execution), after.step),
        None => Default::default(),
    };
    let from = value.map_or(from, str::to_owned);
    let params = params![
        name.as_bytes().to_vec(),
        path.as_bytes().to_vec(),
        from.into_bytes(),
        id,
        step.into_bytes(),
        i64::from(limit.min(MAX_PAGE)),
    ];
    let waiter = |row: &Row| {
        Ok(EventWaiter {
            execution: execution_of(get(row, 0)?),
            step: text(row, 1)?,
            value: text(row, 2)?,
            condition: optional_text(row, 3)?,
        })
    };
    reader.rows(sql, params).await?.iter().map(waiter).collect()
}

/// Returns the execution and the step that wait for the end of `child`.
pub(super) async fn for_child(
    reader: &Reader,
    child: ExecutionId,
) -> Result<Option<(ExecutionId, String)>, Error> {
    let row = reader.row(FOR_CHILD, params![id_of(child)]).await?;
    row.map(|row| Ok((execution_of(get(&row, 0)?), text(&row, 1)?))).transpose()
}

fn time(row: &Row, index: usize) -> Result<Option<Timestamp>, Error> {
    get::<Option<i64>>(row, index)?.map(timestamp).transpose()
}
