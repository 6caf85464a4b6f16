//! Writing of records into a file.

use std::collections::HashMap;

use model::ExecutionId;
use rusqlite::{Connection, params};

use super::super::columns::shelf;
use super::write_error;
use store::Error;
use store::codec::status_of;
use store::migration::mark::refused;
use store::migration::record::{BlobRecord, BlobUse, ExecutionRecord, Hash, Record};

/// Inserts records in the open transaction. `stored` has the sizes of the files of blobs.
pub(super) fn records(
    connection: &Connection,
    records: &[Record],
    stored: &HashMap<Hash, u64>,
) -> Result<(), Error> {
    let mut uses: HashMap<Hash, i64> = HashMap::new();
    for record in records {
        match record {
            Record::Execution(record) => {
                execution(connection, record)?;
                *uses.entry(record.definition).or_default() += 1;
            }
            Record::Blob(record) => {
                let bytes = stored.get(&record.hash).copied().unwrap_or_default();
                blob(connection, record, bytes).map_err(write_error)?;
            }
            Record::Key { key, .. } if std::str::from_utf8(key).is_err() => {
                return Err(refused(
                    "an execution has a key of more than 1,024 bytes, of which the source has only the hash, and a file \
                     needs the key; let the execution that called it end, and its keys expire"
                        .to_owned(),
                ));
            }
            record => one(connection, record).map_err(write_error)?,
        }
    }
    let sql = "UPDATE definition_uses SET executions = executions + ?2 \
               WHERE definition = (SELECT sequence FROM definition_texts WHERE hash = ?1)";
    for (hash, count) in uses {
        let mut statement = connection.prepare_cached(sql).map_err(write_error)?;
        statement.execute(params![hash, count]).map_err(write_error)?;
    }
    Ok(())
}

fn one(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
        connection.prepare_cached(sql)?.execute(params).map(drop)
    };
    match record {
        Record::Secret(secret) => {
            run("INSERT INTO meta (name, value) VALUES ('secret', ?1)", params![secret])
        }
        Record::StateVersion(version) => {
            run("UPDATE meta SET value = ?1 WHERE name = 'stateVersion'", params![version])
        }
        Record::Definition { hash, automation, put, path, text } => {
            let sql = "INSERT INTO definitions (hash, automation, put) VALUES (?1, ?2, ?3)";
            run(sql, params![hash, automation, put])?;
            run(
                "INSERT INTO definition_texts (hash, path, text) VALUES (?1, ?2, ?3)",
                params![hash, path, text],
            )?;
            run(
                "INSERT INTO definition_uses (definition, executions) VALUES (last_insert_rowid(), 0)",
                params![],
            )
        }
        Record::Key { automation, key, execution } => run(
            "INSERT INTO keys (automation, key, execution) VALUES (?1, ?2, ?3)",
            params![automation, String::from_utf8_lossy(key), execution],
        ),
        Record::Dedup { automation, key, content, execution, until_ns } => run(
            "INSERT INTO sendings (automation, key, content, execution, until_ns) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![automation, key, content, execution, until_ns],
        ),
        Record::State { scope, key, version, expires_ns, value } => run(
            "INSERT INTO state (scope, key, version, expires_ns, value) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![scope, key, version, expires_ns, value],
        ),
        Record::Address { automation, live, test } => run(
            "INSERT INTO addresses (automation, live, test) VALUES (?1, ?2, ?3)",
            params![automation, live, test],
        ),
        Record::Watermark { automation, schedule, instant_ns } => run(
            "INSERT INTO watermarks (automation, schedule, instant_ns) VALUES (?1, ?2, ?3)",
            params![automation, schedule, instant_ns],
        ),
        Record::Poll { automation, body } => {
            run("INSERT INTO polls (automation, body) VALUES (?1, ?2)", params![automation, body])
        }
        Record::PollKey { automation, key, seen_ns } => run(
            "INSERT INTO poll_keys (automation, key, seen_ns) VALUES (?1, ?2, ?3)",
            params![automation, key, seen_ns],
        ),
        Record::PollEntry { automation, body } => {
            run("INSERT INTO poll_log (automation, body) VALUES (?1, ?2)", params![automation, body])
        }
        Record::Subscription { id, automation, body } => run(
            "INSERT INTO subscriptions (id, automation, body) VALUES (?1, ?2, ?3)",
            params![id, automation, body],
        ),
        Record::Outbox { id, name, body, at_ns } => run(
            "INSERT INTO outbox (id, name, body, at_ns) VALUES (?1, ?2, ?3, ?4)",
            params![id, name, body, at_ns],
        ),
        Record::Blob(_) | Record::Execution(_) => Ok(()),
    }
}

/// Inserts the row of a blob, whose uses are counted with the rows that name it.
fn blob(connection: &Connection, record: &BlobRecord, stored: u64) -> rusqlite::Result<()> {
    let stored = i64::try_from(stored).unwrap_or(i64::MAX);
    let length = i64::try_from(record.length).unwrap_or(i64::MAX);
    connection
        .prepare_cached("INSERT INTO blobs (hash, length, stored, uses, is_file) VALUES (?1, ?2, ?3, 0, ?4)")?
        .execute(params![record.hash, length, stored, record.is_file])?;
    let sql = "UPDATE meta SET value = value + ?1 WHERE name = 'blobBytes'";
    connection.prepare_cached(sql)?.execute([stored]).map(drop)
}

fn execution(connection: &Connection, record: &ExecutionRecord) -> Result<(), Error> {
    let status = status_of(record.status)
        .ok_or_else(|| Error::RecordDamaged { detail: format!("there is no status {}", record.status) })?;
    let shelf = shelf(status, record.keeps_permit, record.is_test);
    insert(connection, record, shelf).map_err(write_error)
}

fn insert(connection: &Connection, record: &ExecutionRecord, shelf: i64) -> rusqlite::Result<()> {
    let id = &record.id;
    let mut start = None;
    for row in &record.rows {
        if row.first == 0 {
            let sql = "INSERT INTO starts (execution, body, raw) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![id, row.body, row.raw])?;
            start = Some(connection.last_insert_rowid());
        } else {
            let sql = "INSERT INTO events (execution, first, body) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![id, row.first, row.body])?;
        }
        for BlobUse { at, blob } in &row.uses {
            match at {
                Some(at) => {
                    let sql = "INSERT INTO cuts (execution, first, at, blob) VALUES (?1, ?2, ?3, ?4)";
                    connection.prepare_cached(sql)?.execute(params![id, row.first, at, blob])?;
                }
                None => {
                    let sql = "INSERT INTO kept (execution, first, blob) VALUES (?1, ?2, ?3)";
                    connection.prepare_cached(sql)?.execute(params![id, row.first, blob])?;
                }
            }
            connection.prepare_cached("UPDATE blobs SET uses = uses + 1 WHERE hash = ?1")?.execute([blob])?;
        }
    }
    let sql = "INSERT INTO executions (id, automation, definition, origin, status, shelf, started_ns, finished_ns, \
        error, events, logs, waits, start, replay_of) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    connection.prepare_cached(sql)?.execute(params![
        id,
        record.automation,
        record.definition,
        record.origin,
        record.status,
        shelf,
        record.started_ns,
        record.finished_ns,
        record.error,
        record.events,
        record.logs,
        i64::try_from(record.waits.len()).unwrap_or(i64::MAX),
        start,
        record.cause().as_ref().map(ExecutionId::as_bytes),
    ])?;
    for (first, lines) in &record.lines {
        let sql = "INSERT INTO logs (execution, first, lines) VALUES (?1, ?2, ?3)";
        connection.prepare_cached(sql)?.execute(params![id, first, lines])?;
    }
    for wait in &record.waits {
        let sql = "INSERT INTO waits (execution, step, until_ns, child, event, path, value, condition) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        connection.prepare_cached(sql)?.execute(params![
            id,
            wait.step,
            wait.until_ns,
            wait.child,
            wait.event,
            wait.path,
            wait.value,
            wait.condition,
        ])?;
    }
    if let Some((events, body)) = &record.snapshot {
        let sql = "INSERT INTO snapshots (execution, events, body) VALUES (?1, ?2, ?3)";
        connection.prepare_cached(sql)?.execute(params![id, events, body])?;
    }
    Ok(())
}
