//! Lists of executions. A page is a union of ranges in the order of ids: of the table of those that have not ended, and of the
//! shelves of the history, each read from its newest end and only as far as the page needs.

use model::{DefinitionHash, ExecutionId, Status};
use tokio_postgres::Row;
use uuid::Uuid;

use super::definitions::automation;
use super::forms::{TEST_SHELF, execution_of, id_of};
use super::op::{Params, params};
use super::reader::{Reader, damaged, get, optional_text};
use store::Error;
use store::codec::{decode_origin, id_prefix, sender_key, status_code, status_of, to_ns};
use store::{ExecutionFilter, ExecutionRow, HandedExecution, Page};

/// Maximum number of executions of a page.
pub(super) const MAX_PAGE: u32 = 1000;

/// The columns of a range, in the order in which they are read.
const LIVE: &str = "SELECT id, automation, definition, origin, status, started_ns, NULL::int8 AS finished_ns, \
    NULL::bytea AS error, events FROM live";
const LIVE_WITH_WAITS: &str = "SELECT id, automation, definition, origin, status, started_ns, NULL::int8 AS finished_ns, \
    NULL::bytea AS error, events, holds, wake_ns FROM live";
const ENDED: &str = "SELECT id, automation, definition, origin, (shelf % 8)::int2 AS status, started_ns, finished_ns, error, events \
    FROM executions";

const UNFINISHED: &str = "(status <> 6 OR holds)";

/// Returns the list row of one execution.
pub(super) async fn execution(reader: &Reader, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
    let sql = named(&format!("{LIVE} WHERE id = $1 UNION ALL {ENDED} WHERE id = $1"), "");
    reader.row(sql, params![id_of(id)]).await?.as_ref().map(execution_row).transpose()
}

/// Returns a page of executions, newest first.
pub(super) async fn executions(
    reader: &Reader,
    filter: &ExecutionFilter,
    page: Page,
) -> Result<Vec<ExecutionRow>, Error> {
    let (rows, params) = newest(filter, Page { limit: page.limit.min(MAX_PAGE), ..page });
    let sql = named(&rows, "ORDER BY u.id DESC");
    reader.rows(sql, params).await?.iter().map(execution_row).collect()
}

/// Returns the number of executions that match, at most `at_most`.
pub(super) async fn count_executions(
    reader: &Reader,
    filter: &ExecutionFilter,
    at_most: u32,
) -> Result<u32, Error> {
    let (rows, params) = newest(filter, Page { before: None, limit: at_most });
    let row = reader.row(format!("SELECT count(*) FROM ({rows}) n"), params).await?;
    let count: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
    Ok(u32::try_from(count).unwrap_or(at_most))
}

/// Returns executions of a node, or of all, that have not ended, oldest first; waiting ones only if they keep their permit.
pub(super) async fn unfinished(
    reader: &Reader,
    node: Option<i64>,
    after: Option<ExecutionId>,
    limit: u32,
) -> Result<Vec<ExecutionRow>, Error> {
    let page = format!(
        "{LIVE} WHERE id > $1 AND {UNFINISHED} AND ($3::int8 IS NULL OR owner = $3) ORDER BY id LIMIT $2"
    );
    let sql = named(&page, "ORDER BY u.id");
    let params = params![after.map_or(Uuid::nil(), id_of), i64::from(limit.min(MAX_PAGE)), node];
    reader.rows(sql, params).await?.iter().map(execution_row).collect()
}

/// Returns executions that a node owns and has not confirmed. Those that have begun come first, since one of them may have the
/// permit that another one waits for.
pub(super) async fn handed(reader: &Reader, node: i64) -> Result<Vec<HandedExecution>, Error> {
    let page = format!("{LIVE_WITH_WAITS} WHERE owner = $1 AND handed ORDER BY events = 1, id LIMIT $2");
    let sql = format!(
        "SELECT u.id, a.id, d.hash, u.origin, u.status, u.started_ns, u.finished_ns, u.error, u.events, u.holds, u.wake_ns \
         FROM ({page}) u JOIN automations a ON a.no = u.automation JOIN definitions d ON d.no = u.definition ORDER BY u.events = 1, u.id"
    );
    let handed = |row: &Row| {
        Ok(HandedExecution {
            row: execution_row(row)?,
            keeps_permit: get(row, 9)?,
            wake_at: get::<Option<i64>>(row, 10)?.map(timestamp).transpose()?,
        })
    };
    reader.rows(sql, params![node, i64::from(MAX_PAGE)]).await?.iter().map(handed).collect()
}

/// Returns the number of executions that have not ended.
pub(super) async fn unfinished_count(reader: &Reader) -> Result<u64, Error> {
    let row = reader.row("SELECT count(*) FROM live", Vec::new()).await?;
    let count: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Returns the query of rows with the names of their dictionaries.
fn named(rows: &str, order: &str) -> String {
    format!(
        "SELECT u.id, a.id, d.hash, u.origin, u.status, u.started_ns, u.finished_ns, u.error, u.events FROM ({rows}) u \
         JOIN automations a ON a.no = u.automation JOIN definitions d ON d.no = u.definition {order}"
    )
}

/// Builds the query for the newest executions that match.
fn newest(filter: &ExecutionFilter, page: Page) -> (String, Params) {
    let mut params = params![page.before.map_or(Uuid::max(), id_of), Uuid::nil(), i64::from(page.limit)];
    // The greatest id is none that an execution has.
    let mut conditions = String::from("id < $1 AND id >= $2");
    if let Some(until) = filter.until {
        let bound = prefix(until.as_millisecond().saturating_add(1));
        params[0] = Box::new(page.before.map_or(bound, |before| id_of(before).min(bound)));
        params.push(Box::new(to_ns(until)));
        conditions.push_str(&format!(" AND started_ns < ${}", params.len()));
    }
    if let Some(since) = filter.since {
        params[1] = Box::new(prefix(since.as_millisecond()));
        params.push(Box::new(to_ns(since)));
        conditions.push_str(&format!(" AND started_ns >= ${}", params.len()));
    }
    if let Some(automation) = &filter.automation {
        params.push(Box::new(automation.as_str().to_owned()));
        let no = format!(" AND automation = (SELECT no FROM automations WHERE id = ${})", params.len());
        conditions.push_str(&no);
    }
    if let Some(cause) = filter.replay_of.or(filter.sender.map(sender_key)) {
        params.push(Box::new(id_of(cause)));
        conditions.push_str(&format!(" AND replay_of = ${}", params.len()));
    }
    let end = "ORDER BY id DESC LIMIT $3";
    let ranges = live_ranges(filter).into_iter().map(|range| (LIVE, range));
    let ranges = ranges.chain(ended_ranges(filter).into_iter().map(|range| (ENDED, range)));
    let ranges = ranges.map(|(columns, range)| format!("({columns} WHERE {conditions}{range} {end})"));
    let ranges = ranges.collect::<Vec<_>>().join(" UNION ALL ");
    (format!("SELECT * FROM ({ranges}) r {end}"), params)
}

/// Returns the conditions of the range of executions that have not ended; none if the filter has only ended ones.
fn live_ranges(filter: &ExecutionFilter) -> Option<String> {
    let test = filter.test.map(|test| if test { " AND test" } else { " AND NOT test" }).unwrap_or_default();
    if filter.status.is_empty() {
        return Some(test.to_owned());
    }
    let codes: Vec<String> = filter
        .status
        .iter()
        .filter(|status| !status.is_terminal())
        .map(|status| status_code(*status).to_string())
        .collect();
    (!codes.is_empty()).then(|| format!(" AND status IN ({}){test}", codes.join(", ")))
}

/// Returns the conditions of the ranges of ended executions: one for each shelf, or one for all.
fn ended_ranges(filter: &ExecutionFilter) -> Vec<String> {
    if filter.automation.is_none() && filter.status.is_empty() && filter.test.is_none() {
        return vec![String::new()];
    }
    let wanted = |status: &Status| filter.status.is_empty() || filter.status.contains(status);
    let statuses = Status::ALL.into_iter().filter(|status| status.is_terminal() && wanted(status));
    let codes: Vec<i64> = statuses.map(status_code).collect();
    let tests = match filter.test {
        Some(test) => vec![test],
        None => vec![false, true],
    };
    let shelves = tests.into_iter().flat_map(|test| {
        let added = if test { i64::from(TEST_SHELF) } else { 0 };
        codes.iter().map(move |code| code + added)
    });
    shelves.map(|shelf| format!(" AND shelf = {shelf}")).collect()
}

/// Returns the id before all ids of a millisecond.
pub(super) fn prefix(millisecond: i64) -> Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(id_prefix(millisecond)).for_each(|(byte, first)| *byte = first);
    Uuid::from_bytes(bytes)
}

fn execution_row(row: &Row) -> Result<ExecutionRow, Error> {
    let id = execution_of(get(row, 0)?);
    let hash: Vec<u8> = get(row, 2)?;
    let hash = hash.try_into().map_err(|_| damaged("a hash of a definition is too short".to_owned()))?;
    let origin: &[u8] = get(row, 3)?;
    let (origin, trigger) = decode_origin(origin)
        .map_err(|error| damaged(format!("the origin of execution {id} cannot be read: {error}")))?;
    let status: i16 = get(row, 4)?;
    let events: i32 = get(row, 8)?;
    Ok(ExecutionRow {
        id,
        automation: automation(get(row, 1)?)?,
        definition: DefinitionHash::from_bytes(hash),
        origin,
        trigger,
        status: status_of(status.into())
            .ok_or_else(|| damaged(format!("execution {id} has the status {status}")))?,
        started_at: timestamp(get(row, 5)?)?,
        finished_at: get::<Option<i64>>(row, 6)?.map(timestamp).transpose()?,
        error: optional_text(row, 7)?,
        events: u32::try_from(events).unwrap_or_default(),
    })
}

/// Converts nanoseconds of the tables to a time.
pub(super) fn timestamp(ns: i64) -> Result<jiff::Timestamp, Error> {
    jiff::Timestamp::from_nanosecond(i128::from(ns)).map_err(|_| damaged(format!("{ns} is no time")))
}
