//! Moves what is stored under the key of a trigger.

use model::automation::TriggerKey;
use rusqlite::{Connection, params};

use super::encode::WriteResult;
use super::outbox;
use super::write::WriteError;
use store::{Error, OutboxRow, Subscription};

/// The tables with rows by the key of a trigger, each with the words for its rows. `subscriptions` has the key in its bodies too.
const TABLES: [(&str, &str); 6] = [
    ("addresses", "an address"),
    ("watermarks", "the position of a schedule"),
    ("polls", "the position of a poll"),
    ("poll_keys", "items of polls"),
    ("poll_log", "a log of polls"),
    ("subscriptions", "a subscription"),
];

/// Moves the rows of a trigger, unless the other trigger has rows.
pub(super) fn move_rows(
    connection: &Connection,
    from: &TriggerKey,
    to: &TriggerKey,
) -> Result<WriteResult, WriteError> {
    // Events on their way move to the other trigger.
    let events = OutboxRow::moved_names(from, to);
    if kinds(connection, from)?.iter().all(|(_, has)| !has) && !outbox::has_named(connection, &events)? {
        return Ok(WriteResult::Count(0));
    }
    // Before any write, so that a refusal needs no rollback.
    Error::check_free(to, kinds(connection, to)?).map_err(WriteError::Refused)?;
    let subscriptions = subscriptions(connection, from)?;
    let mut moved = outbox::rename(connection, &events)?;
    for (table, _) in TABLES {
        let sql = format!("UPDATE {table} SET automation = ?2 WHERE automation = ?1");
        moved += connection.prepare_cached(&sql)?.execute([from.to_string(), to.to_string()])?;
    }
    for subscription in subscriptions.into_iter().map(|subscription| subscription.moved_to(to)) {
        let body = serde_json::to_string(&subscription)
            .map_err(|error| WriteError::Undo(Error::Invalid { reason: error.to_string() }))?;
        let sql = "UPDATE subscriptions SET body = ?2 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute(params![subscription.id, body])?;
    }
    Ok(WriteResult::Count(moved as u64))
}

/// Returns for each table its words, and true if the trigger has rows there.
fn kinds(connection: &Connection, trigger: &TriggerKey) -> rusqlite::Result<Vec<(&'static str, bool)>> {
    let kind = |(table, words): &(&'static str, &'static str)| {
        let sql = format!("SELECT 1 FROM {table} WHERE automation = ?1");
        Ok((*words, connection.prepare_cached(&sql)?.exists([trigger.to_string()])?))
    };
    TABLES.iter().map(kind).collect()
}

fn subscriptions(connection: &Connection, trigger: &TriggerKey) -> Result<Vec<Subscription>, WriteError> {
    let mut statement = connection.prepare_cached("SELECT body FROM subscriptions WHERE automation = ?1")?;
    let bodies = statement.query_map([trigger.to_string()], |row| row.get::<_, String>(0))?;
    let read = |body: rusqlite::Result<String>| {
        let reason = |error: serde_json::Error| format!("a subscription cannot be read: {error}");
        serde_json::from_str(&body?)
            .map_err(|error| WriteError::Refused(Error::Read { reason: reason(error) }))
    };
    let found: Result<Vec<_>, _> = bodies.map(read).collect();
    found
}
