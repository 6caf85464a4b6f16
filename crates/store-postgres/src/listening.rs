//! Sessions at test addresses, and the requests that they capture. None of this is a batch of a lane: it may be lost with the server.

use jiff::Timestamp;
use model::automation::TriggerKey;
use tokio_postgres::Row;
use uuid::Uuid;

use super::list::timestamp;
use super::op::params;
use super::reader::{Reader, get};
use store::Error;
use store::codec::to_ns;
use store::{Listening, NewCapture, NewListening};

const BEGIN: &str = "SELECT begin_listening($1, $2, $3, $4, $5)";
const STATE: &str =
    "SELECT turn, since_ns, until_ns, most, count, last FROM listenings WHERE automation = $1";
const END: &str = "UPDATE listenings SET until_ns = least(until_ns, $2) WHERE automation = $1";
const ADD: &str = "SELECT add_capture($1, $2, $3, $4, $5, $6, $7, $8)";
const CAPTURES: &str =
    "SELECT number, body FROM captures WHERE automation = $1 AND number > $2 ORDER BY number";
/// Sessions that ended a day ago.
const DELETE_OLD: &str = "WITH d AS (DELETE FROM listenings \
      WHERE until_ns < (extract(epoch FROM clock_timestamp()) * 1000000000)::int8 - 86400000000000 RETURNING automation) \
    DELETE FROM captures c USING d WHERE c.automation = d.automation";

/// Begins a session and returns its number.
pub(super) async fn begin(reader: &Reader, new: NewListening) -> Result<u64, Error> {
    let NewListening { trigger, since, until, most, sessions } = new;
    let params = params![trigger.to_string(), to_ns(since), to_ns(until), int(most), int(sessions)];
    let turn = reader.row(BEGIN, params).await?.map(|row| get::<i64>(&row, 0)).transpose()?;
    Ok(turn.and_then(|turn| u64::try_from(turn).ok()).unwrap_or_default())
}

/// Returns the latest session of a trigger.
pub(super) async fn state(reader: &Reader, trigger: &TriggerKey) -> Result<Option<Listening>, Error> {
    let row = reader.row(STATE, params![trigger.to_string()]).await?;
    let count =
        |row: &Row, index| get::<i32>(row, index).map(|count| u32::try_from(count).unwrap_or_default());
    let state = |row: Row| {
        Ok(Listening {
            turn: u64::try_from(get::<i64>(&row, 0)?).unwrap_or_default(),
            since: timestamp(get(&row, 1)?)?,
            until: timestamp(get(&row, 2)?)?,
            most: count(&row, 3)?,
            count: count(&row, 4)?,
            last: count(&row, 5)?,
        })
    };
    row.map(state).transpose()
}

/// Ends the session of a trigger.
pub(super) async fn end(reader: &Reader, trigger: &TriggerKey, now: Timestamp) -> Result<(), Error> {
    reader.rows(END, params![trigger.to_string(), to_ns(now)]).await.map(drop)
}

/// Stores a capture. Returns false if no session is active.
pub(super) async fn add_capture(reader: &Reader, capture: NewCapture) -> Result<bool, Error> {
    let NewCapture { id, trigger, now, aside, size, body, max_asides, max_bytes } = capture;
    let long = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let params = params![
        trigger.to_string(),
        Uuid::from_bytes(id),
        to_ns(now),
        aside,
        long(size),
        body,
        int(max_asides),
        long(max_bytes),
    ];
    let row = reader.row(ADD, params).await?;
    Ok(row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default())
}

/// Returns the captures of a trigger after a number, in order.
pub(super) async fn captures(
    reader: &Reader,
    trigger: &TriggerKey,
    after: u32,
) -> Result<Vec<(u32, Vec<u8>)>, Error> {
    let rows = reader.rows(CAPTURES, params![trigger.to_string(), int(after)]).await?;
    let capture =
        |row: &Row| Ok((u32::try_from(get::<i32>(row, 0)?).unwrap_or_default(), get::<Vec<u8>>(row, 1)?));
    rows.iter().map(capture).collect()
}

/// Deletes sessions that ended long ago, with their captures.
pub(super) async fn delete_old(reader: &Reader) -> Result<(), Error> {
    reader.rows(DELETE_OLD, Vec::new()).await.map(drop)
}

fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
