//! Writing of records into a database: the records of a page by one statement for each table, with arrays.

use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::super::forms::{KEY, RECORD};
use store::migration::record::Record;

mod executions;

type Result<T> = std::result::Result<T, tokio_postgres::Error>;

const PUT_AUTOMATIONS: &str =
    "INSERT INTO automations (id) SELECT DISTINCT unnest($1::text[]) ON CONFLICT (id) DO NOTHING";
const DEFINITIONS: &str = "INSERT INTO definitions (hash, automation, put, path, body) \
    SELECT t.hash, a.no, t.put, t.path, t.body \
    FROM unnest($1::bytea[], $2::text[], $3::int8[], $4::bytea[], $5::bytea[]) AS t (hash, automation, put, path, body) \
    JOIN automations a ON a.id = t.automation";
const NAMES: &str = "INSERT INTO names (automation, kind, key, execution, content, until_ns) \
    SELECT a.no, t.kind, t.key, t.execution, t.content, t.until_ns \
    FROM unnest($1::text[], $2::int2[], $3::bytea[], $4::uuid[], $5::bytea[], $6::int8[]) \
      AS t (automation, kind, key, execution, content, until_ns) JOIN automations a ON a.id = t.automation";
const STATE: &str = "INSERT INTO state (scope, key, version, expires_ns, value) \
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::int8[], $4::int8[], $5::bytea[])";
const ADDRESSES: &str =
    "INSERT INTO addresses (automation, live, test) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])";
const WATERMARKS: &str = "INSERT INTO watermarks (automation, schedule, instant_ns) \
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::int8[])";
const POLLS: &str = "INSERT INTO polls (automation, body) SELECT * FROM unnest($1::text[], $2::bytea[])";
const POLL_KEYS: &str = "INSERT INTO poll_keys (automation, key, seen_ns) \
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::int8[])";
const POLL_LOG: &str = "INSERT INTO poll_log (automation, body) \
    SELECT automation, body FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS t (automation, body, place) ORDER BY place";
const OUTBOX: &str = "INSERT INTO outbox (id, name, body, at_ns) \
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::int8[])";
const SUBSCRIPTIONS: &str =
    "INSERT INTO subscriptions (id, body) SELECT * FROM unnest($1::bytea[], $2::bytea[])";

/// Inserts records in the open transaction. The content of blobs is written already.
pub(super) async fn records(transaction: &Transaction<'_>, records: &[Record]) -> Result<()> {
    let mut all = Vec::new();
    for record in records {
        match record {
            Record::Secret(secret) => {
                let sql = "INSERT INTO meta (name, value) VALUES ('secret', $1)";
                transaction.execute(sql, &[secret]).await?;
            }
            Record::StateVersion(version) if *version > 0 => {
                transaction.execute("SELECT setval('state_version', $1)", &[version]).await?;
            }
            Record::Execution(record) => all.push(&**record),
            _ => {}
        }
    }
    executions::insert(transaction, &all).await?;
    definitions(transaction, records).await?;
    names(transaction, records).await?;
    state(transaction, records).await?;
    triggers(transaction, records).await
}

/// Runs a statement with these columns, unless they are empty.
async fn run(
    transaction: &Transaction<'_>,
    sql: &str,
    rows: usize,
    columns: &[&(dyn ToSql + Sync)],
) -> Result<()> {
    if rows > 0 {
        transaction.execute(sql, columns).await?;
    }
    Ok(())
}

/// Collects a column of the records of a kind.
macro_rules! column {
    ($records:expr, $pattern:pat => $value:expr) => {
        $records
            .iter()
            .filter_map(|record| match record {
                $pattern => Some($value),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}

async fn definitions(transaction: &Transaction<'_>, records: &[Record]) -> Result<()> {
    let automations = column!(records, Record::Definition { automation, .. } => automation);
    run(transaction, PUT_AUTOMATIONS, automations.len(), &[&automations]).await?;
    let hashes = column!(records, Record::Definition { hash, .. } => &hash[..]);
    let puts = column!(records, Record::Definition { put, .. } => *put);
    let paths = column!(records, Record::Definition { path, .. } => path.as_bytes());
    let texts = column!(records, Record::Definition { text, .. } => text.as_bytes());
    run(transaction, DEFINITIONS, puts.len(), &[&hashes, &automations, &puts, &paths, &texts]).await
}

async fn names(transaction: &Transaction<'_>, records: &[Record]) -> Result<()> {
    let names =
        column!(records, Record::Key { automation, .. } | Record::Dedup { automation, .. } => automation);
    // Its definitions may be deleted.
    run(transaction, PUT_AUTOMATIONS, names.len(), &[&names]).await?;
    let kinds: Vec<i16> = records
        .iter()
        .filter_map(|record| match record {
            Record::Key { .. } => Some(KEY),
            Record::Dedup { .. } => Some(RECORD),
            _ => None,
        })
        .collect();
    let keys = column!(records, Record::Key { key, .. } | Record::Dedup { key, .. } => key);
    let executions = column!(records, Record::Key { execution, .. } | Record::Dedup { execution, .. }
        => uuid::Uuid::from_bytes(*execution));
    let contents: Vec<Option<&[u8]>> = records
        .iter()
        .filter_map(|record| match record {
            Record::Key { .. } => Some(None),
            Record::Dedup { content, .. } => Some(content.as_deref()),
            _ => None,
        })
        .collect();
    let until: Vec<Option<i64>> = records
        .iter()
        .filter_map(|record| match record {
            Record::Key { .. } => Some(None),
            Record::Dedup { until_ns, .. } => Some(Some(*until_ns)),
            _ => None,
        })
        .collect();
    run(transaction, NAMES, kinds.len(), &[&names, &kinds, &keys, &executions, &contents, &until]).await
}

async fn state(transaction: &Transaction<'_>, records: &[Record]) -> Result<()> {
    let scopes = column!(records, Record::State { scope, .. } => scope.as_bytes());
    let keys = column!(records, Record::State { key, .. } => key.as_bytes());
    let versions = column!(records, Record::State { version, .. } => *version);
    let expiries = column!(records, Record::State { expires_ns, .. } => *expires_ns);
    let values = column!(records, Record::State { value, .. } => value.as_bytes());
    run(transaction, STATE, versions.len(), &[&scopes, &keys, &versions, &expiries, &values]).await
}

/// Inserts addresses and the progress of triggers.
async fn triggers(transaction: &Transaction<'_>, records: &[Record]) -> Result<()> {
    let automations = column!(records, Record::Address { automation, .. } => automation);
    let live = column!(records, Record::Address { live, .. } => live);
    let test = column!(records, Record::Address { test, .. } => test);
    run(transaction, ADDRESSES, live.len(), &[&automations, &live, &test]).await?;
    let automations = column!(records, Record::Watermark { automation, .. } => automation);
    let schedules = column!(records, Record::Watermark { schedule, .. } => schedule.as_bytes());
    let instants = column!(records, Record::Watermark { instant_ns, .. } => *instant_ns);
    run(transaction, WATERMARKS, instants.len(), &[&automations, &schedules, &instants]).await?;
    let automations = column!(records, Record::Poll { automation, .. } => automation);
    let bodies = column!(records, Record::Poll { body, .. } => body.as_bytes());
    run(transaction, POLLS, bodies.len(), &[&automations, &bodies]).await?;
    let automations = column!(records, Record::PollKey { automation, .. } => automation);
    let keys = column!(records, Record::PollKey { key, .. } => key.as_bytes());
    let seen = column!(records, Record::PollKey { seen_ns, .. } => *seen_ns);
    run(transaction, POLL_KEYS, seen.len(), &[&automations, &keys, &seen]).await?;
    let automations = column!(records, Record::PollEntry { automation, .. } => automation);
    let bodies = column!(records, Record::PollEntry { body, .. } => body.as_bytes());
    run(transaction, POLL_LOG, bodies.len(), &[&automations, &bodies]).await?;
    let ids = column!(records, Record::Subscription { id, .. } => id.as_bytes());
    let bodies = column!(records, Record::Subscription { body, .. } => body.as_bytes());
    run(transaction, SUBSCRIPTIONS, ids.len(), &[&ids, &bodies]).await?;
    let ids = column!(records, Record::Outbox { id, .. } => uuid::Uuid::from_bytes(*id));
    let names = column!(records, Record::Outbox { name, .. } => name.as_bytes());
    let bodies = column!(records, Record::Outbox { body, .. } => body.as_bytes());
    let instants = column!(records, Record::Outbox { at_ns, .. } => *at_ns);
    run(transaction, OUTBOX, ids.len(), &[&ids, &names, &bodies, &instants]).await
}
