//! State, keys and logs of polls, and subscriptions.

use model::automation::TriggerKey;
use rusqlite::{Connection, TransactionBehavior, params};

use super::encode::WriteResult;
use super::pool::read_error;
use super::read::{corrupt, trigger_key};
use super::write::WriteError;
use store::Error;
use store::codec::PollRow;
use store::{PollEntry, PollState, PollWrite, Subscription};

/// Writes the result of a poll.
pub(super) fn write(connection: &Connection, row: &PollRow) -> rusqlite::Result<()> {
    let trigger = row.trigger.to_string();
    connection
        .prepare_cached(
            "INSERT INTO polls (automation, body) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET body = excluded.body",
        )?
        .execute(params![trigger, row.standing])?;
    if row.forget {
        connection.prepare_cached("DELETE FROM poll_keys WHERE automation = ?1")?.execute([&trigger])?;
    }
    if !row.keys.is_empty() {
        let sql = "INSERT INTO poll_keys (automation, key, seen_ns) VALUES (?1, ?2, ?3) \
                   ON CONFLICT DO UPDATE SET seen_ns = excluded.seen_ns";
        let mut put = connection.prepare_cached(sql)?;
        for key in &row.keys {
            put.execute(params![trigger, key, row.at_ns])?;
        }
        let sql = "DELETE FROM poll_keys WHERE automation = ?1 AND key IN (SELECT key FROM poll_keys \
                   WHERE automation = ?1 ORDER BY seen_ns DESC LIMIT -1 OFFSET ?2)";
        let most = i64::try_from(PollWrite::MAX_KEYS).unwrap_or(i64::MAX);
        connection.prepare_cached(sql)?.execute(params![trigger, most])?;
    }
    if let Some(entry) = &row.entry {
        let sql = "INSERT INTO poll_log (automation, body) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![trigger, entry])?;
        let sql = "DELETE FROM poll_log WHERE automation = ?1 AND sequence <= (SELECT sequence FROM poll_log \
                   WHERE automation = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)";
        connection.prepare_cached(sql)?.execute(params![trigger, PollWrite::MAX_ENTRIES])?;
    }
    Ok(())
}

/// Stores a subscription, or deletes it if `kept` is `None`.
pub(super) fn put_subscription(
    connection: &Connection,
    id: &str,
    kept: Option<&(TriggerKey, String)>,
) -> Result<WriteResult, WriteError> {
    match kept {
        Some((trigger, body)) => {
            let sql = "INSERT INTO subscriptions (id, automation, body) VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET body = excluded.body";
            connection.prepare_cached(sql)?.execute(params![id, trigger.to_string(), body])?
        }
        None => connection.prepare_cached("DELETE FROM subscriptions WHERE id = ?1")?.execute([id])?,
    };
    Ok(WriteResult::Nothing)
}

/// Returns the state of the poll of each trigger.
pub(super) fn standings(connection: &Connection) -> Result<Vec<(TriggerKey, PollState)>, Error> {
    let sql = "SELECT automation, body FROM polls ORDER BY automation";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let body: String = row.get(1).map_err(read_error)?;
        found.push((trigger_key(row, 0)?, parsed(&body, "the state of a poll")?));
    }
    Ok(found)
}

/// Returns for each key whether it is stored for the trigger, in the order of the keys.
pub(super) fn seen(
    connection: &mut Connection,
    trigger: &TriggerKey,
    keys: &[String],
) -> Result<Vec<bool>, Error> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(read_error)?;
    let mut statement = snapshot
        .prepare_cached("SELECT 1 FROM poll_keys WHERE automation = ?1 AND key = ?2")
        .map_err(read_error)?;
    let trigger = trigger.to_string();
    let seen = |key: &String| statement.exists(params![trigger, key]).map_err(read_error);
    keys.iter().map(seen).collect()
}

/// Returns the log of the latest polls of a trigger, newest first.
pub(super) fn entries(
    connection: &Connection,
    trigger: &TriggerKey,
    limit: u32,
) -> Result<Vec<PollEntry>, Error> {
    let sql = "SELECT body FROM poll_log WHERE automation = ?1 ORDER BY sequence DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query(params![trigger.to_string(), limit]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let body: String = row.get(0).map_err(read_error)?;
        found.push(parsed(&body, "the log entry of a poll")?);
    }
    Ok(found)
}

/// Returns every subscription: active, to be created, or to be removed.
pub(super) fn subscriptions(connection: &Connection) -> Result<Vec<Subscription>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT body FROM subscriptions ORDER BY id").map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let body: String = row.get(0).map_err(read_error)?;
        found.push(parsed(&body, "a subscription")?);
    }
    Ok(found)
}

fn parsed<T: serde::de::DeserializeOwned>(body: &str, what: &str) -> Result<T, Error> {
    serde_json::from_str(body).map_err(|error| corrupt(format!("{what} cannot be read: {error}")))
}
