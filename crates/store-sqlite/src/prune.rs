//! Pruning, in transactions small enough that no other write waits long.
//!
//! Deletion takes two steps: first the row of an execution, after which it is gone for every reader, then its events and
//! logs, of which there may be a million. The table `remains` records the second step, so that it continues after a crash.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use jiff::Timestamp;
use model::{ExecutionId, Status};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::blobs::{self, Folder};
use super::columns::{OPEN_SHELVES, shelf};
use super::encode::{WriteOp, WriteResult};
use super::pool::{Pool, read_error};
use super::queue::Queue;
use super::statements::{COUNT_DEFINITION, FIND_DEFINITION};
use super::write::{Use, Uses, WriteError};
use store::Error;
use store::codec::{id_prefix, to_ns};
use store::{OutcomeFilter, PruneFilter, PruneRule};

/// The number of executions that one transaction deletes.
const BATCH_EXECUTIONS: usize = 128;

/// Maximum number of executions, or keys, that one call deletes.
const MOST_AT_ONCE: u32 = 100_000;

/// Maximum number of rows, and of bytes approximately, of remains that one transaction deletes.
const SWEEP_ROWS: usize = 1000;
const SWEEP_BYTES: usize = 4 << 20;

/// Maximum number of definitions or keys that one transaction deletes.
const STEP_ROWS: u32 = 500;

/// Maximum number of pages that one transaction returns to the file system.
const VACUUM_PAGES: i64 = 256;

/// Deletes ended executions with all their data, and returns free space to the file system.
pub(super) async fn prune(
    queue: &Queue,
    pool: &Arc<Pool>,
    folder: &Arc<Folder>,
    filter: PruneFilter,
    limit: u32,
) -> Result<u64, Error> {
    let limit = limit.min(MOST_AT_ONCE);
    let ids = pool.read(move |connection| candidates(connection, &filter, limit).map_err(read_error)).await?;
    if ids.is_empty() {
        return Ok(0);
    }
    let mut deleted = 0;
    for chunk in ids.chunks(BATCH_EXECUTIONS) {
        deleted += count(&queue.write(WriteOp::DeleteExecutions(chunk.to_vec())).await?);
    }
    delete_leftovers(queue, pool, folder).await?;
    Ok(deleted)
}

/// Deletes the leftovers of a crash: unfinished pruning, and unreferenced files. Returns the number of deleted files.
pub(super) async fn collect_garbage(
    queue: &Queue,
    pool: &Arc<Pool>,
    folder: &Arc<Folder>,
) -> Result<u64, Error> {
    delete_leftovers(queue, pool, folder).await?;
    blobs::delete_strays(pool, folder).await
}

/// Deletes the data of deleted executions, and returns free space to the file system.
async fn delete_leftovers(queue: &Queue, pool: &Arc<Pool>, folder: &Arc<Folder>) -> Result<(), Error> {
    while more(&queue.write(WriteOp::DeleteRemains).await?) {}
    while more(&queue.write(WriteOp::DeleteDefinitions).await?) {}
    blobs::delete_unused_files(queue, pool, folder).await?;
    while more(&queue.write(WriteOp::Vacuum).await?) {}
    Ok(())
}

/// Deletes keys older than `before` whose executions are deleted.
pub(super) async fn prune_keys(queue: &Queue, before: Timestamp, limit: u32) -> Result<u64, Error> {
    let before = id_prefix(before.as_millisecond());
    let (mut deleted, limit) = (0, u64::from(limit.min(MOST_AT_ONCE)));
    while deleted < limit {
        let step = u32::try_from(limit - deleted).unwrap_or(STEP_ROWS).min(STEP_ROWS);
        let count = count(&queue.write(WriteOp::DeleteKeys { before, limit: step }).await?);
        deleted += count;
        if count < u64::from(step) {
            break;
        }
    }
    Ok(deleted)
}

fn more(done: &WriteResult) -> bool {
    matches!(done, WriteResult::More(true))
}

fn count(done: &WriteResult) -> u64 {
    if let WriteResult::Count(count) = done { *count } else { 0 }
}

/// Returns the executions to delete. It reads each list from its oldest end, so rows that stay cost nothing.
fn candidates(
    connection: &Connection,
    filter: &PruneFilter,
    limit: u32,
) -> rusqlite::Result<Vec<ExecutionId>> {
    let shelves = shelves(filter.outcome);
    if filter.rule == PruneRule::Oldest && filter.automation.is_none() && filter.except.is_empty() {
        return oldest_of_all(connection, &shelves, limit);
    }
    let automations = match &filter.automation {
        Some(automation) => vec![automation.as_str().to_owned()],
        None => automations(connection)?,
    };
    let wanted = |automation: &&String| !filter.except.iter().any(|except| except.as_str() == *automation);
    let mut ids = Vec::new();
    for automation in automations.iter().filter(wanted) {
        let (highest, before) = match filter.rule {
            // An execution that ended before was accepted before.
            PruneRule::EndedBefore(at) => {
                (id_prefix(at.as_millisecond().saturating_add(1)).to_vec(), to_ns(at))
            }
            PruneRule::AllButNewest(count) => match newest_but(connection, automation, &shelves, count)? {
                Some(id) => (id.to_vec(), i64::MAX),
                None => continue,
            },
            PruneRule::Oldest => (ABOVE_ALL_IDS.to_vec(), i64::MAX),
        };
        let mut found = ended(connection, automation, &shelves, &highest, before, limit)?;
        found.truncate((limit as usize).saturating_sub(ids.len()));
        ids.append(&mut found);
        if ids.len() >= limit as usize {
            break;
        }
    }
    Ok(ids)
}

/// 17 bytes of 0xff, which sort after every id.
const ABOVE_ALL_IDS: [u8; 17] = [0xff; 17];

/// Returns the shelves of these outcomes.
fn shelves(outcome: OutcomeFilter) -> Vec<i64> {
    let statuses = Status::ALL.into_iter().filter(|status| match outcome {
        OutcomeFilter::Any => status.is_terminal(),
        OutcomeFilter::Succeeded => *status == Status::Succeeded,
        OutcomeFilter::Unsuccessful => status.is_terminal() && *status != Status::Succeeded,
    });
    statuses.flat_map(|status| [shelf(status, false, false), shelf(status, false, true)]).collect()
}

/// Returns the executions of an Automation with ids below `highest` that ended before `before`, the oldest of each shelf.
fn ended(
    connection: &Connection,
    automation: &str,
    shelves: &[i64],
    highest: &[u8],
    before: i64,
    limit: u32,
) -> rusqlite::Result<Vec<ExecutionId>> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM executions INDEXED BY executions_by_automation \
         WHERE automation = ?1 AND shelf = ?2 AND id < ?3 AND finished_ns < ?4 ORDER BY id LIMIT ?5",
    )?;
    let mut ids = Vec::new();
    for shelf in shelves {
        let mut rows = statement.query(params![automation, shelf, highest, before, limit])?;
        while let Some(row) = rows.next()? {
            ids.push(ExecutionId::from_bytes(row.get(0)?));
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the oldest of the `count` newest executions of an Automation; all older ones are to be deleted. `None` if there
/// are at most `count`.
fn newest_but(
    connection: &Connection,
    automation: &str,
    shelves: &[i64],
    count: u32,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let count = count.min(PruneRule::MAX_KEPT);
    let Some(before_last) = count.checked_sub(1) else { return Ok(Some(ABOVE_ALL_IDS.to_vec())) };
    let range = |shelf: &i64| {
        format!(
            "SELECT * FROM (SELECT id FROM executions INDEXED BY executions_by_automation \
             WHERE automation = ?1 AND shelf = {shelf} ORDER BY id DESC LIMIT ?2 + 1)"
        )
    };
    let ranges = shelves.iter().map(range).collect::<Vec<_>>().join(" UNION ALL ");
    let sql = format!("{ranges} ORDER BY id DESC LIMIT 1 OFFSET ?2");
    connection.prepare_cached(&sql)?.query_row(params![automation, before_last], |row| row.get(0)).optional()
}

/// Returns the oldest executions of all Automations.
fn oldest_of_all(connection: &Connection, shelves: &[i64], limit: u32) -> rusqlite::Result<Vec<ExecutionId>> {
    let range = |shelf: &i64| {
        format!(
            "SELECT * FROM (SELECT id FROM executions INDEXED BY executions_by_shelf \
             WHERE shelf = {shelf} ORDER BY id LIMIT ?1)"
        )
    };
    let ranges = shelves.iter().map(range).collect::<Vec<_>>().join(" UNION ALL ");
    let mut statement = connection.prepare_cached(&format!("{ranges} ORDER BY id LIMIT ?1"))?;
    statement.query_map([limit], |row| row.get(0).map(ExecutionId::from_bytes))?.collect()
}

/// Returns every Automation with executions, with one index lookup for each.
fn automations(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE each (automation) AS ( \
           SELECT min(automation) FROM executions \
           UNION ALL \
           SELECT (SELECT min(automation) FROM executions WHERE automation > each.automation) \
           FROM each WHERE automation IS NOT NULL) \
         SELECT automation FROM each WHERE automation IS NOT NULL",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Deletes the rows of ended executions, and records in `remains` that their events and logs are to be deleted.
pub(super) fn delete_executions(
    connection: &Connection,
    uses: &mut Uses,
    ids: &[ExecutionId],
) -> Result<WriteResult, WriteError> {
    let mut delete = connection.prepare_cached(&format!(
        "DELETE FROM executions WHERE id = ?1 AND shelf NOT IN {OPEN_SHELVES} RETURNING definition, start"
    ))?;
    let mut note = connection
        .prepare_cached("INSERT INTO remains (execution, start) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    let mut deleted = Vec::with_capacity(ids.len());
    for id in ids {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
        if let Some((definition, start)) = delete.query_row([id.as_bytes()], read).optional()? {
            note.execute(params![id.as_bytes(), start])?;
            deleted.push(model::DefinitionHash::from_bytes(definition));
        }
    }
    let count = u64::try_from(deleted.len()).unwrap_or(u64::MAX);
    let mut number = connection.prepare_cached(FIND_DEFINITION)?;
    for definition in deleted {
        let of = match uses.entry(definition) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unseen) => {
                let number = number.query_row([definition.as_bytes()], |row| row.get(0))?;
                unseen.insert(Use { number, change: 0 })
            }
        };
        of.change -= 1;
    }
    Ok(WriteResult::Count(count))
}

/// Deletes some of the events and logs of deleted executions.
pub(super) fn delete_remains(connection: &Connection) -> Result<WriteResult, WriteError> {
    let mut next = connection.prepare_cached("SELECT execution, start FROM remains LIMIT 1")?;
    let mut done = connection.prepare_cached("DELETE FROM remains WHERE execution = ?1")?;
    let mut delete_start = connection.prepare_cached(
        "DELETE FROM starts WHERE sequence = ?1 AND execution = ?2 \
         RETURNING octet_length(body) + coalesce(octet_length(raw), 0)",
    )?;
    let (mut rows, mut bytes) = (0, 0);
    let read = |row: &Row<'_>| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, Option<i64>>(1)?));
    while let Some((execution, start)) = next.query_row([], read).optional()? {
        if rows >= SWEEP_ROWS || bytes >= SWEEP_BYTES {
            return Ok(WriteResult::More(true));
        }
        // If an earlier transaction deleted it, another row may have its number now.
        let length =
            delete_start.query_row(params![start, execution], |row| row.get::<_, i64>(0)).optional()?;
        if let Some(length) = length {
            rows += 1;
            bytes += usize::try_from(length).unwrap_or_default();
        }
        for (find, delete) in SWEEPS {
            let mut find = connection.prepare_cached(find)?;
            let mut delete = connection.prepare_cached(delete)?;
            let limit = SWEEP_ROWS + 1 - rows;
            let found = find.query_map(params![execution, i64::try_from(limit).unwrap_or(1)], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })?;
            for (sequence, length) in found.collect::<Result<Vec<_>, _>>()? {
                if rows >= SWEEP_ROWS || bytes >= SWEEP_BYTES {
                    return Ok(WriteResult::More(true));
                }
                delete.execute([sequence])?;
                rows += 1;
                bytes += usize::try_from(length).unwrap_or_default();
            }
        }
        loop {
            let left = SWEEP_ROWS.saturating_sub(rows);
            if left == 0 {
                return Ok(WriteResult::More(true));
            }
            match blobs::delete_references(connection, &execution, left)? {
                0 => break,
                deleted => rows += deleted,
            }
        }
        super::replay::delete_snapshot(connection, &execution)?;
        done.execute([execution])?;
    }
    Ok(WriteResult::More(false))
}

/// For each table, the SQL that finds some rows of an execution with their sizes, and the SQL that deletes one.
const SWEEPS: [(&str, &str); 2] = [
    (
        "SELECT sequence, octet_length(body) FROM events WHERE execution = ?1 ORDER BY first LIMIT ?2",
        "DELETE FROM events WHERE sequence = ?1",
    ),
    (
        "SELECT sequence, octet_length(lines) FROM logs WHERE execution = ?1 ORDER BY first LIMIT ?2",
        "DELETE FROM logs WHERE sequence = ?1",
    ),
];

/// Deletes definitions without references. The latest one of an Automation stays: it is active, and the next execution may
/// refer to it.
pub(super) fn delete_definitions(
    connection: &Connection,
    uses: &mut Uses,
) -> Result<WriteResult, WriteError> {
    let mut count = connection.prepare_cached(COUNT_DEFINITION)?;
    // Drained, so that a later write of this batch checks again whether a definition is still stored.
    for Use { number, change } in uses.drain().map(|(_, of)| of) {
        count.execute(params![number, change])?;
    }
    let mut find = connection.prepare_cached(
        "SELECT hash, sequence FROM definition_uses JOIN definition_texts ON sequence = definition \
         JOIN definitions AS old USING (hash) WHERE executions = 0 AND put < (SELECT max(put) FROM definitions WHERE automation = old.automation) LIMIT ?1",
    )?;
    let found = find
        .query_map([STEP_ROWS], |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, i64>(1)?)))?
        .collect::<Result<Vec<_>, _>>()?;
    for (hash, number) in &found {
        connection.prepare_cached("DELETE FROM definitions WHERE hash = ?1")?.execute([hash])?;
        connection.prepare_cached("DELETE FROM definition_texts WHERE sequence = ?1")?.execute([number])?;
        connection.prepare_cached("DELETE FROM definition_uses WHERE definition = ?1")?.execute([number])?;
    }
    Ok(WriteResult::More(found.len() >= STEP_ROWS as usize))
}

/// Deletes keys of deleted executions with ids before this prefix.
pub(super) fn delete_keys(
    connection: &Connection,
    before: &[u8; 6],
    limit: u32,
) -> Result<WriteResult, WriteError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM keys WHERE (automation, key) IN ( \
           SELECT automation, key FROM keys AS old INDEXED BY keys_by_execution WHERE execution < ?1 \
           AND NOT EXISTS (SELECT 1 FROM executions WHERE id = old.execution) ORDER BY execution LIMIT ?2)",
    )?;
    let count = statement.execute(params![before, limit])?;
    Ok(WriteResult::Count(u64::try_from(count).unwrap_or(u64::MAX)))
}

/// Returns some free pages to the file system. Keeps a reserve for the next writes: an eighth of the file, or
/// [`VACUUM_PAGES`] if that is more.
pub(super) fn vacuum(connection: &Connection) -> Result<WriteResult, WriteError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (pages, free) = (number("page_count")?, number("freelist_count")?);
    let stock = (pages / 8).max(VACUUM_PAGES);
    let surplus = free - stock;
    if surplus <= 0 {
        return Ok(WriteResult::More(false));
    }
    let step = surplus.min(VACUUM_PAGES);
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({step})"))?;
    let mut rows = statement.query([])?;
    // Each row returns one page.
    while rows.next()?.is_some() {}
    let left = number("freelist_count")?;
    Ok(WriteResult::More(surplus > step && left < free))
}
