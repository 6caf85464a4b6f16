//! SQL of lists. Every list is a union of ranges of one index, each read from its newest end and only as far as the page
//! needs: a page costs a few hundred rows, independent of the number of executions.

use model::{ExecutionId, Status};
use rusqlite::ToSql;

use super::columns::{OPEN_SHELVES, shelf};
use store::codec::{id_prefix, sender_key, to_ns};
use store::{ExecutionFilter, Page};

/// Maximum number of executions of a page.
pub(super) const MAX_PAGE: u32 = 1000;

/// The columns of a list row, in the order in which they are read.
pub(super) const COLUMNS: &str =
    "id, automation, definition, origin, status, started_ns, finished_ns, error, events";

/// A statement with its named parameters.
pub(super) struct Query {
    pub(super) sql: String,
    values: Values,
}

/// The values of named parameters.
type Values = Vec<(&'static str, Box<dyn ToSql + Send>)>;

impl Query {
    /// Returns the parameters in the form that a statement takes.
    pub(super) fn params(&self) -> Vec<(&str, &dyn ToSql)> {
        self.values.iter().map(|(name, value)| (*name, &**value as &dyn ToSql)).collect()
    }
}

/// Builds the query for a page of executions, newest first.
pub(super) fn page(filter: &ExecutionFilter, page: Page) -> Query {
    newest(COLUMNS, filter, Page { limit: page.limit.min(MAX_PAGE), ..page })
}

/// Builds the query for the number of executions that match, at most `at_most`. It reads the same ranges as a page.
pub(super) fn count(filter: &ExecutionFilter, at_most: u32) -> Query {
    let Query { sql, values } = newest("id", filter, Page { before: None, limit: at_most });
    Query { sql: format!("SELECT count(*) FROM ({sql})"), values }
}

/// Builds the query for these columns of the newest executions that match.
fn newest(columns: &str, filter: &ExecutionFilter, page: Page) -> Query {
    let (conditions, mut values) = conditions(filter, page);
    values.push((":limit", Box::new(i64::from(page.limit))));
    if let Some(cause) = filter.replay_of.or(filter.sender.map(sender_key)) {
        return caused(columns, filter, cause, &conditions, values);
    }
    let every = filter.automation.is_none() && filter.status.is_empty() && filter.test.is_none();
    if every {
        let sql =
            format!("SELECT {columns} FROM executions WHERE {conditions} ORDER BY id DESC LIMIT :limit");
        return Query { sql, values };
    }
    let index = match &filter.automation {
        Some(automation) => {
            values.push((":automation", Box::new(automation.as_str().to_owned())));
            "executions_by_automation WHERE automation = :automation AND"
        }
        None => "executions_by_shelf WHERE",
    };
    let ranges: Vec<String> = shelves(filter)
        .into_iter()
        .map(|range| {
            format!(
                "SELECT * FROM (SELECT {columns} FROM executions INDEXED BY {index} {range} AND {conditions} \
                 ORDER BY id DESC LIMIT :limit)"
            )
        })
        .collect();
    let sql = format!("{} ORDER BY id DESC LIMIT :limit", ranges.join(" UNION ALL "));
    Query { sql, values }
}

/// Builds the query for a page of the executions to which another one led. There are few of them, so the other parts of the filter need
/// no index.
fn caused(
    columns: &str,
    filter: &ExecutionFilter,
    cause: ExecutionId,
    conditions: &str,
    mut values: Values,
) -> Query {
    values.push((":cause", Box::new(*cause.as_bytes())));
    let automation = match &filter.automation {
        Some(automation) => {
            values.push((":automation", Box::new(automation.as_str().to_owned())));
            " AND automation = :automation"
        }
        None => "",
    };
    let shelves = match (filter.status.is_empty(), filter.test) {
        (true, None) => String::new(),
        _ => format!(" AND ({})", shelves(filter).join(" OR ")),
    };
    let sql = format!(
        "SELECT {columns} FROM executions INDEXED BY executions_by_replay \
         WHERE replay_of = :cause AND {conditions}{automation}{shelves} ORDER BY id DESC LIMIT :limit"
    );
    Query { sql, values }
}

/// Builds the query for unfinished executions, oldest first; waiting ones only if they keep their permit.
pub(super) fn unfinished() -> String {
    oldest(COLUMNS, &[(Status::Queued, false), (Status::Running, false), (Status::Waiting, true)])
}

/// Builds the query for waiting executions, oldest first: id, whether it keeps its permit, earliest end of its waits.
pub(super) fn list_suspended() -> String {
    let shelves = [false, true].map(|test| shelf(Status::Waiting, true, test).to_string()).join(", ");
    let columns = format!(
        "id, shelf IN ({shelves}), (SELECT min(until_ns) FROM waits WHERE execution = executions.id)"
    );
    oldest(&columns, &[(Status::Waiting, false), (Status::Waiting, true)])
}

/// Builds the query for the number of unfinished executions.
pub(super) fn unfinished_count() -> String {
    format!("SELECT count(*) FROM executions INDEXED BY executions_by_shelf WHERE shelf IN {OPEN_SHELVES}")
}

/// Builds the query for a page of these lists: `?2` rows with ids after `?1`. A list is a status, and whether the
/// executions keep their permits.
fn oldest(columns: &str, lists: &[(Status, bool)]) -> String {
    let range = |shelf: i64| {
        format!(
            "SELECT * FROM (SELECT {columns} FROM executions INDEXED BY executions_by_shelf \
             WHERE shelf = {shelf} AND id > ?1 ORDER BY id LIMIT ?2)"
        )
    };
    let shelves =
        lists.iter().flat_map(|(status, holds)| [false, true].map(|test| shelf(*status, *holds, test)));
    format!("{} ORDER BY id LIMIT ?2", shelves.map(range).collect::<Vec<_>>().join(" UNION ALL "))
}

/// Builds the bounds of the ids and the other conditions of a row.
fn conditions(filter: &ExecutionFilter, page: Page) -> (String, Values) {
    let mut conditions = String::from("id < :before AND id >= :from");
    let mut values: Values = Vec::new();
    // 17 bytes of 0xff sort after every id, which has 16 bytes.
    let mut before = page.before.map_or_else(|| vec![0xff; 17], |id| id.as_bytes().to_vec());
    if let Some(until) = filter.until {
        before = before.min(id_prefix(until.as_millisecond().saturating_add(1)).to_vec());
        conditions.push_str(" AND started_ns < :until");
        values.push((":until", Box::new(to_ns(until))));
    }
    let mut from = Vec::new();
    if let Some(since) = filter.since {
        from = id_prefix(since.as_millisecond()).to_vec();
        conditions.push_str(" AND started_ns >= :since");
        values.push((":since", Box::new(to_ns(since))));
    }
    values.push((":before", Box::new(before)));
    values.push((":from", Box::new(from)));
    (conditions, values)
}

/// Builds the conditions for the ranges of the index: a shelf for each status, two for waiting.
fn shelves(filter: &ExecutionFilter) -> Vec<String> {
    let wanted = |status: &Status| filter.status.is_empty() || filter.status.contains(status);
    let kinds = match filter.test {
        Some(test) => vec![test],
        None => vec![false, true],
    };
    let mut ranges = Vec::new();
    for test in kinds {
        if wanted(&Status::Waiting) {
            let waiting = [false, true].map(|holds| shelf(Status::Waiting, holds, test));
            ranges.extend(waiting.map(|shelf| format!("shelf = {shelf}")));
        }
        let others = Status::ALL.into_iter().filter(|status| *status != Status::Waiting && wanted(status));
        ranges.extend(others.map(|status| format!("shelf = {}", shelf(status, false, test))));
    }
    ranges
}

/// Returns the query plan of SQLite.
#[cfg(test)]
pub(super) fn plan<P: rusqlite::Params>(
    connection: &rusqlite::Connection,
    sql: &str,
    params: P,
) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("it is SQL");
    let rows = statement.query_map(params, |row| row.get("detail")).expect("it explains");
    rows.collect::<Result<_, _>>().expect("it is text")
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use model::AutomationId;

    /// Each read of the table is a range of an index down to the bounds of the id, and already in order.
    fn assert_ranges(plan: &[String], range: &str, context: &str) {
        let reads: Vec<_> = plan.iter().filter(|line| line.contains("executions")).collect();
        assert!(!reads.is_empty(), "{context}: {plan:?}");
        for read in reads {
            assert!(
                read.starts_with("SEARCH executions USING") && read.ends_with(range),
                "{context}: {read}"
            );
        }
    }

    #[test]
    fn every_list_query_reads_only_index_ranges() {
        let connection = schema::in_memory();
        let (before, time) = (ExecutionId::from_bytes([7; 16]), jiff::Timestamp::UNIX_EPOCH);
        for states in 0..128_u8 {
            let status =
                (0..7).filter(|index| states & (1 << index) != 0).map(|index| Status::ALL[index]).collect();
            for test in [None, Some(true), Some(false)] {
                for automation in [None, AutomationId::parse("orders")] {
                    let (since, until) = (Some(time), automation.is_some().then_some(time));
                    let filter = ExecutionFilter {
                        automation,
                        status: Vec::clone(&status),
                        test,
                        since,
                        until,
                        ..ExecutionFilter::default()
                    };
                    let query = page(&filter, Page { before: Some(before), limit: 50 });
                    let plan = plan(&connection, &query.sql, query.params().as_slice());
                    let range = match (&filter.automation, filter.status.is_empty() && test.is_none()) {
                        (Some(_), _) => "(automation=? AND shelf=? AND id>? AND id<?)",
                        (None, true) => "(id>? AND id<?)",
                        (None, false) => "(shelf=? AND id>? AND id<?)",
                    };
                    assert_ranges(&plan, range, &format!("{filter:?}"));
                }
            }
        }
    }

    #[test]
    fn a_count_uses_a_covering_index() {
        let connection = schema::in_memory();
        for automation in [None, AutomationId::parse("orders")] {
            let filter = ExecutionFilter { automation, test: Some(false), ..ExecutionFilter::default() };
            let query = count(&filter, 10_000);
            let plan = plan(&connection, &query.sql, query.params().as_slice());
            let reads: Vec<_> = plan.iter().filter(|line| line.contains("executions")).collect();
            assert!(
                !reads.is_empty() && reads.iter().all(|line| line.contains("COVERING INDEX")),
                "{plan:?}"
            );
        }
    }

    #[test]
    fn replays_and_executions_started_by_events_are_read_from_their_index_in_order() {
        let connection = schema::in_memory();
        let of = Some(ExecutionId::from_bytes([7; 16]));
        for (replay_of, sender, status) in [
            (of, None, Vec::new()),
            (of, None, vec![Status::Failed, Status::Waiting]),
            (None, of, Vec::new()),
            (None, of, vec![Status::Failed, Status::Waiting]),
        ] {
            let automation = AutomationId::parse("orders");
            let filter =
                ExecutionFilter { replay_of, sender, automation, status, ..ExecutionFilter::default() };
            let query = page(&filter, Page { before: None, limit: 50 });
            let plan = plan(&connection, &query.sql, query.params().as_slice());
            assert_eq!(
                plan,
                ["SEARCH executions USING INDEX executions_by_replay (replay_of=? AND id>? AND id<?)"]
            );
        }
    }

    #[test]
    fn unfinished_executions_are_found_by_index() {
        let connection = schema::in_memory();
        for sql in [unfinished(), list_suspended()] {
            let plan = plan(&connection, &sql, (1, 2));
            assert_ranges(&plan, "(shelf=? AND id>?)", &sql);
        }
    }

    #[test]
    fn a_page_without_a_filter_needs_no_sorting() {
        let connection = schema::in_memory();
        let query = page(&ExecutionFilter::default(), Page { before: None, limit: 50 });
        let plan = plan(&connection, &query.sql, query.params().as_slice());
        assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{plan:?}");
    }
}
