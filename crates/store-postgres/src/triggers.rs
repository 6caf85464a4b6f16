//! Addresses and progress of triggers, deduplication records, and the secret of the store.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::AutomationId;
use model::automation::TriggerKey;
use tokio_postgres::Row;
use uuid::Uuid;

use super::definitions::trigger_key;
use super::forms::{RECORD, execution_of};
use super::list::timestamp;
use super::op::{Done, Op, Params, params};
use super::queue::Queue;
use super::reader::{Reader, damaged, get, text};
use store::Error;
use store::codec::to_ns;
use store::{Address, DedupHit, PollEntry, PollState, Subscription, Watermark};

const PUT_ADDRESS: &str = "INSERT INTO addresses (automation, live, test) VALUES ($1, $2, $3) \
    ON CONFLICT (automation) DO UPDATE SET live = excluded.live, test = excluded.test";
const ADD_ADDRESS: &str =
    "INSERT INTO addresses (automation, live, test) VALUES ($1, $2, $3) ON CONFLICT (automation) DO NOTHING";
const PUT_SUBSCRIPTION: &str = "INSERT INTO subscriptions (id, body) VALUES ($1, $2) \
    ON CONFLICT (id) DO UPDATE SET body = excluded.body";
const DELETE_SUBSCRIPTION: &str = "DELETE FROM subscriptions WHERE id = $1";
const PUT_SECRET: &str = "INSERT INTO meta (name, value) VALUES ('secret', $1) ON CONFLICT (name) DO NOTHING";
const SECRET: &str = "SELECT value FROM meta WHERE name = 'secret'";
const FIND_RECORD: &str = "SELECT execution, content FROM names \
    WHERE automation = (SELECT no FROM automations WHERE id = $1) AND kind = $2 AND key = $3 AND until_ns > $4";
const KNOWN_KEYS: &str = "SELECT EXISTS (SELECT 1 FROM poll_keys k WHERE k.automation = $1 AND k.key = t.key) \
    FROM unnest($2::bytea[]) WITH ORDINALITY AS t (key, place) ORDER BY t.place";
const POLL_LOG: &str = "SELECT body FROM poll_log WHERE automation = $1 ORDER BY no DESC LIMIT $2";
const POLLING: &str =
    "SELECT p.automation FROM polling p JOIN nodes n ON n.id = p.node AND NOT n.dead ORDER BY 1";
const BEGIN_POLLING: &str = "INSERT INTO polling (automation, node) VALUES ($1, $2) \
    ON CONFLICT (automation) DO UPDATE SET node = excluded.node";
const END_POLLING: &str = "DELETE FROM polling WHERE automation = $1 AND node = $2";

/// Returns the addresses of all triggers that ever had some.
pub(super) async fn addresses(reader: &Reader) -> Result<Vec<Address>, Error> {
    let rows =
        reader.rows("SELECT automation, live, test FROM addresses ORDER BY automation", Vec::new()).await?;
    let address = |row: &Row| {
        Ok(Address { trigger: trigger_key(get(row, 0)?)?, live: get(row, 1)?, test: get(row, 2)? })
    };
    rows.iter().map(address).collect()
}

/// Stores addresses, each replacing the ones of its trigger.
pub(super) async fn put_addresses(queue: &Queue, addresses: Vec<Address>) -> Result<(), Error> {
    write_addresses(queue, PUT_ADDRESS, addresses).await
}

/// Stores the addresses of triggers that have none, and returns the stored ones of all of them.
pub(super) async fn add_addresses(
    queue: &Queue,
    reader: &Reader,
    new: Vec<Address>,
) -> Result<Vec<Address>, Error> {
    let wanted: BTreeSet<TriggerKey> = new.iter().map(|address| address.trigger.clone()).collect();
    write_addresses(queue, ADD_ADDRESS, new).await?;
    let stored = addresses(reader).await?;
    Ok(stored.into_iter().filter(|address| wanted.contains(&address.trigger)).collect())
}

async fn write_addresses(queue: &Queue, sql: &'static str, addresses: Vec<Address>) -> Result<(), Error> {
    let put = |address: Address| -> (&'static str, Params) {
        (sql, params![address.trigger.to_string(), address.live, address.test])
    };
    queue.write(Op::Statements(addresses.into_iter().map(put).collect())).await.map(drop)
}

/// Returns the watermark of every schedule.
pub(super) async fn watermarks(reader: &Reader) -> Result<Vec<Watermark>, Error> {
    let sql = "SELECT automation, schedule, instant_ns FROM watermarks ORDER BY automation";
    let mark = |row: &Row| {
        let instant = timestamp(get(row, 2)?)?;
        Ok(Watermark { trigger: trigger_key(get(row, 0)?)?, schedule: text(row, 1)?, instant })
    };
    reader.rows(sql, Vec::new()).await?.iter().map(mark).collect()
}

/// Returns the state of the poll of every trigger.
pub(super) async fn poll_states(reader: &Reader) -> Result<Vec<(TriggerKey, PollState)>, Error> {
    let state = |row: &Row| Ok((trigger_key(get(row, 0)?)?, parsed(get(row, 1)?, "the state of a poll")?));
    let rows = reader.rows("SELECT automation, body FROM polls ORDER BY automation", Vec::new()).await?;
    rows.iter().map(state).collect()
}

/// Returns for each key whether it is stored for the trigger, in the order of the keys.
pub(super) async fn known_poll_keys(
    reader: &Reader,
    trigger: &TriggerKey,
    keys: &[String],
) -> Result<Vec<bool>, Error> {
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    let rows = reader.rows(KNOWN_KEYS, params![trigger.to_string(), keys]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Notes that a node polls for a trigger, or has done so.
pub(super) async fn set_polling(
    reader: &Reader,
    node: i64,
    trigger: &TriggerKey,
    polls: bool,
) -> Result<(), Error> {
    let sql = if polls { BEGIN_POLLING } else { END_POLLING };
    reader.rows(sql, params![trigger.to_string(), node]).await.map(drop)
}

/// Returns the triggers for which a node polls.
pub(super) async fn polling(reader: &Reader) -> Result<Vec<TriggerKey>, Error> {
    reader.rows(POLLING, Vec::new()).await?.iter().map(|row| trigger_key(get(row, 0)?)).collect()
}

/// Returns the log of the latest polls of a trigger, newest first.
pub(super) async fn poll_entries(
    reader: &Reader,
    trigger: &TriggerKey,
    limit: u32,
) -> Result<Vec<PollEntry>, Error> {
    let rows = reader.rows(POLL_LOG, params![trigger.to_string(), i64::from(limit)]).await?;
    rows.iter().map(|row| parsed(get(row, 0)?, "the log entry of a poll")).collect()
}

/// Returns every subscription.
pub(super) async fn subscriptions(reader: &Reader) -> Result<Vec<Subscription>, Error> {
    let rows = reader.rows("SELECT body FROM subscriptions ORDER BY id", Vec::new()).await?;
    rows.iter().map(|row| parsed(get(row, 0)?, "a subscription")).collect()
}

/// Stores a subscription, replacing the one with its id.
pub(super) async fn put_subscription(queue: &Queue, subscription: &Subscription) -> Result<(), Error> {
    let body =
        serde_json::to_vec(subscription).map_err(|error| Error::Invalid { reason: error.to_string() })?;
    let params = params![subscription.id.as_bytes().to_vec(), body];
    queue.write(Op::Statements(vec![(PUT_SUBSCRIPTION, params)])).await.map(drop)
}

/// Deletes a subscription.
pub(super) async fn delete_subscription(queue: &Queue, id: &str) -> Result<(), Error> {
    let params = params![id.as_bytes().to_vec()];
    queue.write(Op::Statements(vec![(DELETE_SUBSCRIPTION, params)])).await.map(drop)
}

/// Returns the deduplication record with this key that is unexpired at `now`.
pub(super) async fn find_dedup(
    reader: &Reader,
    automation: &AutomationId,
    key: [u8; 32],
    now: Timestamp,
) -> Result<Option<DedupHit>, Error> {
    let params = params![automation.as_str().to_owned(), RECORD, key.to_vec(), to_ns(now)];
    let hit = |row: Row| {
        let content: Option<Vec<u8>> = get(&row, 1)?;
        let content = content.map(<[u8; 32]>::try_from).transpose();
        let content = content.map_err(|_| damaged("a hash of a content is too short".to_owned()))?;
        Ok(DedupHit { execution: execution_of(get::<Uuid>(&row, 0)?), content })
    };
    reader.row(FIND_RECORD, params).await?.map(hit).transpose()
}

/// Stores `fresh` as the secret of the store unless there is one, and returns the stored one.
pub(super) async fn get_or_init_secret(queue: &Queue, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
    let statements = vec![(PUT_SECRET, params![fresh.to_vec()]), (SECRET, Vec::new())];
    let Done::Rows(lists) = queue.write(Op::Statements(statements)).await? else { return Ok(fresh) };
    let row = lists.last().and_then(|rows| rows.first());
    let stored: Vec<u8> = row.map(|row| get(row, 0)).transpose()?.unwrap_or_default();
    stored.try_into().map_err(|_| damaged("the secret of the store is too short".to_owned()))
}

fn parsed<T: serde::de::DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| damaged(format!("{what} cannot be read: {error}")))
}
