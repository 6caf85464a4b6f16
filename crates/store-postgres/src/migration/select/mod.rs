//! Pages of the records of a database.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::super::forms::{KEY, RECORD};
use super::super::reader::damaged;
use super::read_error;
use store::Error;
use store::migration::record::{BlobRecord, Hash, Kind, Record};
use store::migration::side::{PAGE_RECORDS, Page, Place, hex};

mod executions;

type Result<T> = std::result::Result<T, tokio_postgres::Error>;

const SECRET: &str = "SELECT value FROM meta WHERE name = 'secret'";
const STATE_VERSION: &str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM state_version";

/// Returns the records of a kind after a place.
pub(super) async fn page(client: &Client, kind: Kind, after: &Place) -> std::result::Result<Page, Error> {
    match kind {
        Kind::Store => store(client, after).await.map_err(read_error),
        Kind::Ended | Kind::Unfinished => executions::page(client, kind, after).await,
        _ => rows(client, kind, after).await,
    }
}

/// Returns the signing key.
pub(super) async fn secret(client: &Client) -> Result<Option<Vec<u8>>> {
    client.query_opt(SECRET, &[]).await?.map(|row| row.try_get(0)).transpose()
}

async fn store(client: &Client, after: &Place) -> Result<Page> {
    let mut page = Page::default();
    if !after.0.is_empty() {
        return Ok(page);
    }
    if let Some(secret) = secret(client).await? {
        page.push(Record::Secret(secret), Place::one("secret"));
    }
    let version = client.query_one(STATE_VERSION, &[]).await?.try_get(0)?;
    page.push(Record::StateVersion(version), Place::one("stateVersion"));
    Ok(page)
}

/// The query of a kind: its parameters are the parts of the cursor and the maximum number of rows.
fn query(kind: Kind) -> &'static str {
    match kind {
        Kind::Definitions => {
            "SELECT d.hash, a.id, d.put, d.path, d.body FROM definitions d JOIN automations a ON a.no = d.automation \
             WHERE d.hash > $1 ORDER BY d.hash LIMIT $2"
        }
        Kind::Blobs => {
            "SELECT b.hash, b.length, EXISTS (SELECT 1 FROM blob_uses u WHERE u.blob = b.hash AND u.at < 0) FROM blobs b \
             WHERE b.hash > $1 AND EXISTS (SELECT 1 FROM blob_uses u WHERE u.blob = b.hash) ORDER BY b.hash LIMIT $2"
        }
        Kind::Keys => {
            "SELECT a.id, n.key, n.execution, n.automation FROM ( \
               SELECT * FROM names WHERE (automation, kind, key) > ($1, $2::int2, $3) AND kind = $2 \
               ORDER BY automation, kind, key LIMIT $4) n \
             JOIN automations a ON a.no = n.automation ORDER BY n.automation, n.key"
        }
        Kind::Dedup => {
            "SELECT a.id, n.key, n.execution, n.automation, n.content, n.until_ns FROM ( \
               SELECT * FROM names WHERE (automation, kind, key) > ($1, $2::int2, $3) AND kind = $2 \
               ORDER BY automation, kind, key LIMIT $4) n \
             JOIN automations a ON a.no = n.automation ORDER BY n.automation, n.key"
        }
        // A page of large values must not be read whole.
        Kind::State => {
            "SELECT scope, key, version, expires_ns, value FROM ( \
               SELECT *, sum(octet_length(value)) OVER (ORDER BY scope, key) - octet_length(value) AS before FROM ( \
                 SELECT * FROM state WHERE (scope, key) > ($1, $2) ORDER BY scope, key LIMIT $3) s) t \
             WHERE before < 4194304 ORDER BY scope, key"
        }
        Kind::Addresses => {
            "SELECT automation, live, test FROM addresses WHERE automation > $1 ORDER BY automation LIMIT $2"
        }
        Kind::Watermarks => {
            "SELECT automation, schedule, instant_ns FROM watermarks WHERE automation > $1 ORDER BY automation LIMIT $2"
        }
        Kind::Polls => {
            "SELECT automation, body FROM polls WHERE automation > $1 ORDER BY automation LIMIT $2"
        }
        Kind::PollKeys => {
            "SELECT automation, key, seen_ns FROM poll_keys WHERE (automation, key) > ($1, $2) \
             ORDER BY automation, key LIMIT $3"
        }
        Kind::PollLog => "SELECT automation, body, no FROM poll_log WHERE no > $1 ORDER BY no LIMIT $2",
        Kind::Outbox => {
            "SELECT id, name, body, at_ns FROM ( \
               SELECT *, sum(octet_length(body)) OVER (ORDER BY id) - octet_length(body) AS before FROM ( \
                 SELECT * FROM outbox WHERE id > $1 ORDER BY id LIMIT $2) s) t \
             WHERE before < 4194304 ORDER BY id"
        }
        _ => "SELECT id, body FROM subscriptions WHERE id > $1 ORDER BY id LIMIT $2",
    }
}

async fn rows(client: &Client, kind: Kind, after: &Place) -> std::result::Result<Page, Error> {
    let most = i64::try_from(PAGE_RECORDS).unwrap_or(i64::MAX);
    let (first, second) = (after.part(0), after.part(1));
    let place: Vec<Box<dyn ToSql + Sync + Send>> = match kind {
        Kind::Definitions | Kind::Blobs => vec![Box::new(after.bytes(0))],
        Kind::Keys | Kind::Dedup => {
            let number = i32::try_from(after.number(0, -1)).unwrap_or(i32::MAX);
            let kind = if kind == Kind::Keys { KEY } else { RECORD };
            vec![Box::new(number), Box::new(kind), Box::new(after.bytes(1))]
        }
        Kind::State => vec![Box::new(first.as_bytes()), Box::new(second.as_bytes())],
        Kind::PollKeys => vec![Box::new(first), Box::new(second.as_bytes())],
        Kind::PollLog => vec![Box::new(after.number(0, i64::MIN))],
        Kind::Subscriptions => vec![Box::new(first.as_bytes())],
        Kind::Outbox => {
            let last = Uuid::from_slice(&after.bytes(0)).unwrap_or_default();
            vec![Box::new(last)]
        }
        _ => vec![Box::new(first)],
    };
    let mut params: Vec<&(dyn ToSql + Sync)> =
        place.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
    params.push(&most);
    let mut page = Page::default();
    for row in client.query(query(kind), &params).await.map_err(read_error)? {
        let (record, place) = record(kind, &row)?;
        if !page.push(record, place) {
            break;
        }
    }
    Ok(page)
}

fn record(kind: Kind, row: &Row) -> std::result::Result<(Record, Place), Error> {
    Ok(match kind {
        Kind::Definitions => {
            let hash = hash(row, 0)?;
            let (automation, put, path, text) = (get(row, 1)?, get(row, 2)?, text(row, 3)?, text(row, 4)?);
            (Record::Definition { hash, automation, put, path, text }, Place::one(hex(&hash)))
        }
        Kind::Blobs => {
            let (hash, length): (Hash, i64) = (hash(row, 0)?, get(row, 1)?);
            let length = u64::try_from(length).unwrap_or_default();
            (Record::Blob(BlobRecord { hash, length, is_file: get(row, 2)? }), Place::one(hex(&hash)))
        }
        Kind::Keys | Kind::Dedup => {
            let (automation, key): (String, Vec<u8>) = (get(row, 0)?, get(row, 1)?);
            let (execution, number) = (id(row, 2)?, get::<i32>(row, 3)?);
            let place = Place::two(number.to_string(), hex(&key));
            let record = match kind {
                Kind::Keys => Record::Key { automation, key, execution },
                _ => Record::Dedup {
                    automation,
                    key,
                    content: get(row, 4)?,
                    execution,
                    until_ns: get(row, 5)?,
                },
            };
            (record, place)
        }
        Kind::State => {
            let (scope, key) = (text(row, 0)?, text(row, 1)?);
            let place = Place::two(&*scope, &*key);
            let (version, expires_ns, value) = (get(row, 2)?, get(row, 3)?, text(row, 4)?);
            (Record::State { scope, key, version, expires_ns, value }, place)
        }
        Kind::Addresses => {
            let automation: String = get(row, 0)?;
            let place = Place::one(&*automation);
            (Record::Address { automation, live: get(row, 1)?, test: get(row, 2)? }, place)
        }
        Kind::Watermarks => {
            let automation: String = get(row, 0)?;
            let place = Place::one(&*automation);
            (Record::Watermark { automation, schedule: text(row, 1)?, instant_ns: get(row, 2)? }, place)
        }
        Kind::Polls => {
            let automation: String = get(row, 0)?;
            let place = Place::one(&*automation);
            (Record::Poll { automation, body: text(row, 1)? }, place)
        }
        Kind::PollKeys => {
            let (automation, key): (String, String) = (get(row, 0)?, text(row, 1)?);
            let place = Place::two(&*automation, &*key);
            (Record::PollKey { automation, key, seen_ns: get(row, 2)? }, place)
        }
        Kind::PollLog => {
            let place = Place::one(get::<i64>(row, 2)?.to_string());
            (Record::PollEntry { automation: get(row, 0)?, body: text(row, 1)? }, place)
        }
        Kind::Outbox => {
            let id = id(row, 0)?;
            let (name, body, at_ns) = (text(row, 1)?, text(row, 2)?, get(row, 3)?);
            (Record::Outbox { id, name, body, at_ns }, Place::one(hex(&id)))
        }
        _ => {
            let (id, body) = (text(row, 0)?, text(row, 1)?);
            let place = Place::one(&*id);
            (Record::Subscription { automation: automation_of(&body)?, id, body }, place)
        }
    })
}

/// Returns the key of the trigger of a subscription.
fn automation_of(body: &str) -> std::result::Result<String, Error> {
    let unreadable = |error| damaged(format!("a subscription cannot be read: {error}"));
    let subscription: store::Subscription = serde_json::from_str(body).map_err(unreadable)?;
    Ok(subscription.trigger.to_string())
}

fn get<'row, T: tokio_postgres::types::FromSql<'row>>(
    row: &'row Row,
    index: usize,
) -> std::result::Result<T, Error> {
    row.try_get(index).map_err(read_error)
}

/// Returns a column of bytes that are text.
fn text(row: &Row, index: usize) -> std::result::Result<String, Error> {
    super::super::reader::text(row, index)
}

fn id(row: &Row, index: usize) -> std::result::Result<[u8; 16], Error> {
    get::<Uuid>(row, index).map(Uuid::into_bytes)
}

fn hash(row: &Row, index: usize) -> std::result::Result<Hash, Error> {
    let bytes: &[u8] = get(row, index)?;
    bytes.try_into().map_err(|_| damaged("a hash is too short".to_owned()))
}
