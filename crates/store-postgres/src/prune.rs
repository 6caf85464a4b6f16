//! Deletion of old records, in transactions small enough that no other write waits long.

use jiff::Timestamp;
use model::{AutomationId, Status};
use uuid::Uuid;

use super::forms::TEST_SHELF;
use super::list::prefix;
use super::op::{Op, Params, params};
use super::queue::Queue;
use super::reader::{Reader, get};
use super::state::count;
use store::Error;
use store::codec::{status_code, to_ns};
use store::{OutcomeFilter, PruneFilter, PruneRule};

/// The number of executions that one transaction deletes.
const BATCH_EXECUTIONS: usize = 64;
/// Maximum number of records that one transaction deletes, and that one call deletes.
const STEP_ROWS: u32 = 500;
const MOST_AT_ONCE: u32 = 100_000;

const DELETE: &str = "SELECT prune_executions($1, $2, $3)";
const OLDEST: &str = "SELECT id FROM executions WHERE shelf = ANY ($1) ORDER BY id LIMIT $2";
const DELETE_KEYS: &str = "WITH c AS (SELECT automation, kind, key FROM names n WHERE until_ns IS NULL AND execution < $1 \
      AND NOT EXISTS (SELECT 1 FROM live WHERE id = n.execution) \
      AND NOT EXISTS (SELECT 1 FROM executions WHERE id = n.execution) ORDER BY execution LIMIT $2 FOR UPDATE), \
    d AS (DELETE FROM names n USING c WHERE n.automation = c.automation AND n.kind = c.kind AND n.key = c.key RETURNING 1) \
    SELECT count(*) FROM d";
const DELETE_RECORDS: &str = "WITH c AS (SELECT automation, kind, key FROM names WHERE until_ns < $1 ORDER BY until_ns LIMIT $2 FOR UPDATE), \
    d AS (DELETE FROM names n USING c WHERE n.automation = c.automation AND n.kind = c.kind AND n.key = c.key RETURNING 1) \
    SELECT count(*) FROM d";

/// Deletes ended executions with all their data.
pub(super) async fn prune(
    queue: &Queue,
    reader: &Reader,
    filter: &PruneFilter,
    limit: u32,
) -> Result<u64, Error> {
    let ids = candidates(reader, filter, limit.min(MOST_AT_ONCE)).await?;
    let mut deleted = 0;
    for chunk in ids.chunks(BATCH_EXECUTIONS) {
        let chunk = chunk.to_vec();
        let (low, high) = (chunk.iter().min().copied(), chunk.iter().max().copied());
        let params = params![chunk, low, high];
        deleted += count(&queue.write(Op::Statements(vec![(DELETE, params)])).await?)?;
    }
    Ok(deleted)
}

/// Deletes keys older than `before` whose executions are deleted.
pub(super) async fn prune_keys(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    let before = prefix(before.as_millisecond());
    in_steps(queue, limit, |step| (DELETE_KEYS, params![before, step])).await
}

/// Deletes deduplication records that expired before `before`, the earliest first.
pub(super) async fn prune_dedup(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    in_steps(queue, limit, |step| (DELETE_RECORDS, params![to_ns(before), step])).await
}

/// Deletes in steps until nothing is left or `limit` are deleted. `delete` returns the statement that deletes so many records.
/// Returns the number of deleted records.
pub(super) async fn in_steps(
    queue: &Queue,
    limit: u32,
    delete: impl Fn(i64) -> (&'static str, Params) + Send,
) -> Result<u64, Error> {
    let (mut deleted, limit) = (0, u64::from(limit.min(MOST_AT_ONCE)));
    while deleted < limit {
        let step = (limit - deleted).min(STEP_ROWS.into());
        let statement = delete(i64::try_from(step).unwrap_or(i64::MAX));
        let count = count(&queue.write(Op::Statements(vec![statement])).await?)?;
        deleted += count;
        if count < step {
            break;
        }
    }
    Ok(deleted)
}

/// Returns the executions to delete. It reads each list from its oldest end, so rows that stay cost nothing.
async fn candidates(reader: &Reader, filter: &PruneFilter, limit: u32) -> Result<Vec<Uuid>, Error> {
    let shelves = shelves(filter.outcome);
    if filter.rule == PruneRule::Oldest && filter.automation.is_none() && filter.except.is_empty() {
        let rows = reader.rows(OLDEST, params![shelves, i64::from(limit)]).await?;
        return rows.iter().map(|row| get(row, 0)).collect();
    }
    let mut ids = Vec::new();
    for automation in automations(reader, filter).await? {
        let (highest, before) = match filter.rule {
            // An execution that ended before was accepted before.
            PruneRule::EndedBefore(at) => (prefix(at.as_millisecond().saturating_add(1)), to_ns(at)),
            PruneRule::AllButNewest(count) => match newest_but(reader, automation, &shelves, count).await? {
                Some(id) => (id, i64::MAX),
                None => continue,
            },
            PruneRule::Oldest => (Uuid::max(), i64::MAX),
        };
        let left = i64::from(limit) - i64::try_from(ids.len()).unwrap_or(i64::MAX);
        ids.extend(ended(reader, automation, &shelves, highest, before, left).await?);
        if ids.len() >= limit as usize {
            break;
        }
    }
    Ok(ids)
}

/// Returns the shelves of these outcomes.
fn shelves(outcome: OutcomeFilter) -> Vec<i16> {
    let statuses = Status::ALL.into_iter().filter(|status| match outcome {
        OutcomeFilter::Any => status.is_terminal(),
        OutcomeFilter::Succeeded => *status == Status::Succeeded,
        OutcomeFilter::Unsuccessful => status.is_terminal() && *status != Status::Succeeded,
    });
    let codes = statuses.filter_map(|status| i16::try_from(status_code(status)).ok());
    codes.flat_map(|code| [code, code + TEST_SHELF]).collect()
}

/// Returns the numbers of the Automations that a filter matches.
async fn automations(reader: &Reader, filter: &PruneFilter) -> Result<Vec<i32>, Error> {
    let name = |automation: &AutomationId| automation.as_str().to_owned();
    let (only, except) =
        (filter.automation.as_ref().map(name), filter.except.iter().map(name).collect::<Vec<_>>());
    let sql = "SELECT no FROM automations WHERE ($1::text IS NULL OR id = $1) AND id <> ALL ($2) ORDER BY id";
    reader.rows(sql, params![only, except]).await?.iter().map(|row| get(row, 0)).collect()
}

/// Builds a union of the ranges of some shelves of an Automation, each with an `ORDER BY` and a `LIMIT`.
fn union(shelves: &[i16], conditions: &str, end: &str) -> String {
    let range = |shelf: &i16| {
        format!("(SELECT id FROM executions WHERE automation = $1 AND shelf = {shelf}{conditions} {end})")
    };
    shelves.iter().map(range).collect::<Vec<_>>().join(" UNION ALL ")
}

/// Returns the executions of an Automation with ids below `highest` that ended before `before`, the oldest first.
async fn ended(
    reader: &Reader,
    automation: i32,
    shelves: &[i16],
    highest: Uuid,
    before: i64,
    limit: i64,
) -> Result<Vec<Uuid>, Error> {
    let end = "ORDER BY id LIMIT $4";
    let sql = format!("{} {end}", union(shelves, " AND id < $2 AND finished_ns < $3", end));
    let rows = reader.rows(sql, params![automation, highest, before, limit]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Returns the oldest of the `count` newest executions of an Automation; all older ones are to be deleted. `None` if there
/// are at most `count`.
async fn newest_but(
    reader: &Reader,
    automation: i32,
    shelves: &[i16],
    count: u32,
) -> Result<Option<Uuid>, Error> {
    let count = count.min(PruneRule::MAX_KEPT);
    let Some(before_last) = count.checked_sub(1) else { return Ok(Some(Uuid::max())) };
    let ranges = union(shelves, "", "ORDER BY id DESC LIMIT $2::int8 + 1");
    let sql = format!("{ranges} ORDER BY id DESC LIMIT 1 OFFSET $2::int8");
    let row = reader.row(sql, params![automation, i64::from(before_last)]).await?;
    row.map(|row| get(&row, 0)).transpose()
}
