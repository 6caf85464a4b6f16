//! Open pairings with senders that supply the secret of a webhook. None of this is a batch of a lane: a pairing is open for minutes, and
//! one that is lost is opened again.

use jiff::Timestamp;
use model::automation::TriggerKey;

use super::list::timestamp;
use super::op::params;
use super::reader::{Reader, get};
use store::Error;
use store::codec::to_ns;

const OPEN: &str = "INSERT INTO pairings (automation, until_ns) VALUES ($1, $2) \
    ON CONFLICT (automation) DO UPDATE SET until_ns = excluded.until_ns";
const STATE: &str = "SELECT until_ns FROM pairings WHERE automation = $1";
const CLOSE: &str = "DELETE FROM pairings WHERE automation = $1 RETURNING until_ns";
/// The pairings that ended a day ago, since clocks differ.
const DELETE_OLD: &str = "DELETE FROM pairings \
    WHERE until_ns < (extract(epoch FROM clock_timestamp()) * 1000000000)::int8 - 86400000000000";

/// Opens a pairing.
pub(super) async fn open(reader: &Reader, trigger: &TriggerKey, until: Timestamp) -> Result<(), Error> {
    reader.rows(OPEN, params![trigger.to_string(), to_ns(until)]).await.map(drop)
}

/// Returns the end of a pairing.
pub(super) async fn state(reader: &Reader, trigger: &TriggerKey) -> Result<Option<Timestamp>, Error> {
    let row = reader.row(STATE, params![trigger.to_string()]).await?;
    row.map(|row| timestamp(get(&row, 0)?)).transpose()
}

/// Closes a pairing. Returns false if none was open.
pub(super) async fn close(reader: &Reader, trigger: &TriggerKey, now: Timestamp) -> Result<bool, Error> {
    let row = reader.row(CLOSE, params![trigger.to_string()]).await?;
    let until = row.map(|row| get::<i64>(&row, 0)).transpose()?;
    Ok(until.is_some_and(|until| to_ns(now) < until))
}

/// Deletes pairings that ended long ago.
pub(super) async fn delete_old(reader: &Reader) -> Result<(), Error> {
    reader.rows(DELETE_OLD, Vec::new()).await.map(drop)
}
