//! Pages of the records of a file.

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::columns::OPEN_SHELVES;
use super::super::pool::read_error;
use store::Error;
use store::codec::key_name;
use store::migration::record::{
    BlobRecord, BlobUse, EventRow, ExecutionRecord, Hash, Id, Kind, Record, WaitRow,
};
use store::migration::side::{PAGE_RECORDS, Page, Place, hex};

type Result<T> = rusqlite::Result<T>;

/// Returns the records of a kind after a place.
pub(super) fn page(connection: &Connection, kind: Kind, after: &Place) -> std::result::Result<Page, Error> {
    match kind {
        Kind::Store => store(connection, after),
        Kind::Ended | Kind::Unfinished => executions(connection, kind, after),
        _ => rows(connection, kind, after),
    }
    .map_err(read_error)
}

/// Returns the signing key.
pub(super) fn secret(connection: &Connection) -> std::result::Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'secret'";
    connection.query_row(sql, [], |row| row.get(0)).optional().map_err(read_error)
}

fn store(connection: &Connection, after: &Place) -> Result<Page> {
    let mut page = Page::default();
    if !after.0.is_empty() {
        return Ok(page);
    }
    let value = |name: &str| format!("SELECT value FROM meta WHERE name = '{name}'");
    let secret = connection.query_row(&value("secret"), [], |row| row.get(0)).optional()?;
    if let Some(secret) = secret {
        page.push(Record::Secret(secret), Place::one("secret"));
    }
    let version = connection.query_row(&value("stateVersion"), [], |row| row.get(0))?;
    page.push(Record::StateVersion(version), Place::one("stateVersion"));
    Ok(page)
}

/// The query of a kind: its parameters are the parts of the cursor and the maximum number of rows.
fn query(kind: Kind) -> &'static str {
    match kind {
        Kind::Definitions => {
            "SELECT hash, automation, put, path, text FROM definitions JOIN definition_texts USING (hash) \
             WHERE hash > ?1 AND ?2 IS NOT NULL ORDER BY hash LIMIT ?3"
        }
        Kind::Blobs => {
            "SELECT hash, length, is_file FROM blobs WHERE hash > ?1 AND ?2 IS NOT NULL AND uses > 0 ORDER BY hash LIMIT ?3"
        }
        Kind::Keys => {
            "SELECT automation, key, execution FROM keys WHERE (automation, key) > (?1, ?2) \
             ORDER BY automation, key LIMIT ?3"
        }
        Kind::Dedup => {
            "SELECT automation, key, content, execution, until_ns FROM sendings WHERE (automation, key) > (?1, ?2) \
             ORDER BY automation, key LIMIT ?3"
        }
        Kind::State => {
            "SELECT scope, key, version, expires_ns, value FROM state WHERE (scope, key) > (?1, ?2) \
             ORDER BY scope, key LIMIT ?3"
        }
        Kind::Addresses => {
            "SELECT automation, live, test FROM addresses WHERE automation > ?1 AND ?2 IS NOT NULL \
             ORDER BY automation LIMIT ?3"
        }
        Kind::Watermarks => {
            "SELECT automation, schedule, instant_ns FROM watermarks WHERE automation > ?1 AND ?2 IS NOT NULL \
             ORDER BY automation LIMIT ?3"
        }
        Kind::Polls => {
            "SELECT automation, body FROM polls WHERE automation > ?1 AND ?2 IS NOT NULL ORDER BY automation LIMIT ?3"
        }
        Kind::PollKeys => {
            "SELECT automation, key, seen_ns FROM poll_keys WHERE (automation, key) > (?1, ?2) \
             ORDER BY automation, key LIMIT ?3"
        }
        Kind::PollLog => {
            "SELECT automation, body, sequence FROM poll_log WHERE sequence > ?1 AND ?2 IS NOT NULL \
             ORDER BY sequence LIMIT ?3"
        }
        Kind::Subscriptions => {
            "SELECT id, automation, body FROM subscriptions WHERE id > ?1 AND ?2 IS NOT NULL ORDER BY id LIMIT ?3"
        }
        Kind::Outbox => {
            "SELECT id, name, body, at_ns FROM outbox WHERE id > ?1 AND ?2 IS NOT NULL ORDER BY id LIMIT ?3"
        }
        // They have functions of their own, or are parts of executions.
        _ => "SELECT 1 WHERE ?1 = ?2 AND ?3 < 0",
    }
}

fn rows(connection: &Connection, kind: Kind, after: &Place) -> Result<Page> {
    let first: Box<dyn ToSql> = match kind {
        Kind::Definitions | Kind::Blobs | Kind::Outbox => Box::new(after.bytes(0)),
        Kind::PollLog => Box::new(after.number(0, 0)),
        _ => Box::new(after.part(0).to_owned()),
    };
    let second: Box<dyn ToSql> = match kind {
        Kind::Dedup => Box::new(after.bytes(1)),
        _ => Box::new(after.part(1).to_owned()),
    };
    let most = i64::try_from(PAGE_RECORDS).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(query(kind))?;
    let mut rows = statement.query(params![first, second, most])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let (record, place) = record(kind, row)?;
        if !page.push(record, place) {
            break;
        }
    }
    Ok(page)
}

fn record(kind: Kind, row: &Row<'_>) -> Result<(Record, Place)> {
    let text = |index: usize| row.get::<_, String>(index);
    Ok(match kind {
        Kind::Definitions => {
            let hash: Hash = row.get(0)?;
            let (automation, put, path, text) = (text(1)?, row.get(2)?, text(3)?, text(4)?);
            (Record::Definition { hash, automation, put, path, text }, Place::one(hex(&hash)))
        }
        Kind::Blobs => {
            let (hash, length): (Hash, i64) = (row.get(0)?, row.get(1)?);
            let length = u64::try_from(length).unwrap_or_default();
            (Record::Blob(BlobRecord { hash, length, is_file: row.get(2)? }), Place::one(hex(&hash)))
        }
        Kind::Keys => {
            let (automation, key) = (text(0)?, text(1)?);
            let place = Place::two(&*automation, &*key);
            (Record::Key { automation, key: key_name(&key), execution: row.get(2)? }, place)
        }
        Kind::Dedup => {
            let (automation, key): (String, Vec<u8>) = (text(0)?, row.get(1)?);
            let place = Place::two(&*automation, hex(&key));
            let (content, execution, until_ns) = (row.get(2)?, row.get(3)?, row.get(4)?);
            (Record::Dedup { automation, key, content, execution, until_ns }, place)
        }
        Kind::State => {
            let (scope, key) = (text(0)?, text(1)?);
            let place = Place::two(&*scope, &*key);
            let (version, expires_ns, value) = (row.get(2)?, row.get(3)?, text(4)?);
            (Record::State { scope, key, version, expires_ns, value }, place)
        }
        Kind::Addresses => {
            let automation = text(0)?;
            let place = Place::one(&*automation);
            (Record::Address { automation, live: text(1)?, test: text(2)? }, place)
        }
        Kind::Watermarks => {
            let automation = text(0)?;
            let place = Place::one(&*automation);
            (Record::Watermark { automation, schedule: text(1)?, instant_ns: row.get(2)? }, place)
        }
        Kind::Polls => {
            let automation = text(0)?;
            let place = Place::one(&*automation);
            (Record::Poll { automation, body: text(1)? }, place)
        }
        Kind::PollKeys => {
            let (automation, key) = (text(0)?, text(1)?);
            let place = Place::two(&*automation, &*key);
            (Record::PollKey { automation, key, seen_ns: row.get(2)? }, place)
        }
        Kind::PollLog => {
            let place = Place::one(row.get::<_, i64>(2)?.to_string());
            (Record::PollEntry { automation: text(0)?, body: text(1)? }, place)
        }
        Kind::Outbox => {
            let id: Id = row.get(0)?;
            let (name, body, at_ns) = (text(1)?, text(2)?, row.get(3)?);
            (Record::Outbox { id, name, body, at_ns }, Place::one(hex(&id)))
        }
        _ => {
            let id = text(0)?;
            let place = Place::one(&*id);
            (Record::Subscription { id, automation: text(1)?, body: text(2)? }, place)
        }
    })
}

fn executions(connection: &Connection, kind: Kind, after: &Place) -> Result<Page> {
    let not = if kind == Kind::Ended { "NOT " } else { "" };
    let sql = format!(
        "SELECT id, automation, definition, origin, status, shelf, started_ns, finished_ns, error, events, logs, start \
         FROM executions WHERE id > ?1 AND shelf {not}IN {OPEN_SHELVES} ORDER BY id LIMIT ?2"
    );
    let most = i64::try_from(PAGE_RECORDS).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![after.bytes(0), most])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let id: Id = row.get(0)?;
        let shelf: i64 = row.get(5)?;
        let record = ExecutionRecord {
            id,
            automation: row.get(1)?,
            definition: row.get(2)?,
            origin: row.get(3)?,
            status: row.get(4)?,
            is_test: shelf & 8 != 0,
            has_ended: kind == Kind::Ended,
            keeps_permit: kind == Kind::Unfinished && shelf & 7 == 7,
            started_ns: row.get(6)?,
            finished_ns: row.get(7)?,
            error: row.get(8)?,
            events: row.get(9)?,
            logs: row.get(10)?,
            rows: events(connection, &id, row.get(11)?)?,
            lines: lines(connection, &id)?,
            waits: waits(connection, &id)?,
            snapshot: snapshot(connection, &id)?,
        };
        if !page.push(Record::Execution(Box::new(record)), Place::one(hex(&id))) {
            break;
        }
    }
    Ok(page)
}

/// Returns the rows of events of an execution, the first from the table `starts`.
fn events(connection: &Connection, id: &Id, start: i64) -> Result<Vec<EventRow>> {
    let sql = "SELECT body, raw FROM starts WHERE sequence = ?1 AND execution = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = vec![statement.query_row(params![start, id], |row| {
        Ok(EventRow { first: 0, body: row.get(0)?, raw: row.get(1)?, uses: Vec::new() })
    })?];
    let sql = "SELECT first, body FROM events WHERE execution = ?1 ORDER BY first";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([id], |row| {
        Ok(EventRow { first: row.get(0)?, body: row.get(1)?, raw: None, uses: Vec::new() })
    })?;
    for row in rows {
        found.push(row?);
    }
    let sql = "SELECT first, at, blob FROM cuts WHERE execution = ?1 \
        UNION ALL SELECT first, NULL, blob FROM kept WHERE execution = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut uses = statement.query([id])?;
    while let Some(row) = uses.next()? {
        let first: u32 = row.get(0)?;
        let blob_use = BlobUse { at: row.get(1)?, blob: row.get(2)? };
        if let Some(row) = found.iter_mut().find(|row| row.first == first) {
            row.uses.push(blob_use);
        }
    }
    Ok(found)
}

fn lines(connection: &Connection, id: &Id) -> Result<Vec<(u32, String)>> {
    let sql = "SELECT first, lines FROM logs WHERE execution = ?1 ORDER BY first";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn waits(connection: &Connection, id: &Id) -> Result<Vec<WaitRow>> {
    let sql = "SELECT step, until_ns, event, path, value, condition, child FROM waits WHERE execution = ?1 ORDER BY step";
    let mut statement = connection.prepare_cached(sql)?;
    let wait = |row: &Row<'_>| {
        Ok(WaitRow {
            step: row.get(0)?,
            until_ns: row.get(1)?,
            event: row.get(2)?,
            path: row.get(3)?,
            value: row.get(4)?,
            condition: row.get(5)?,
            child: row.get(6)?,
        })
    };
    statement.query_map([id], wait)?.collect()
}

fn snapshot(connection: &Connection, id: &Id) -> Result<Option<(u32, String)>> {
    let sql = "SELECT events, body FROM snapshots WHERE execution = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}
