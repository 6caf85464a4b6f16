//! Moves a store to another place, which may be of another kind.

use jiff::Timestamp;
use model::failpoint::Failpoints;
use store::Error;
use store::migration::mark::refused;
use store::migration::side::{Side, Use};
use store::migration::{End, Migrated, Progress};

use super::Location;

/// Moves the store at `from` to `to`, which is empty, or has a part of it from a migration that was interrupted. `now` is noted in the
/// source when it is marked as moved. Unfinished executions continue in the first daemon
/// that starts on the target.
///
/// A crash leaves the source as it was; the next call continues.
///
/// # Errors
/// A daemon uses one of the stores, there is no source, it was moved to another place before, the target has other records, or a
/// store cannot be read or written.
pub async fn migrate(
    from: &Location,
    to: &Location,
    now: Timestamp,
    failpoints: Failpoints,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Migrated, Error> {
    if from == to {
        return Err(refused("source and target are the same store".to_owned()));
    }
    if !from.exists()? {
        return Err(refused(format!("there is no store at `{from}`")));
    }
    let source = open(from, Use::Source, failpoints.clone(), progress).await?;
    let target = open(to, Use::Target, failpoints, progress).await?;
    let (source, target) =
        (End { side: source, place: from.to_string() }, End { side: target, place: to.to_string() });
    store::migration::migrate(source, target, now, progress).await
}

/// Removes the mark of a store that was moved, so that daemons start on it again. Returns the place to which it was moved; `None` if it
/// was not.
///
/// # Errors
/// A daemon uses the store, or the store is missing or cannot be written.
pub async fn undo_migration(
    location: &Location,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<String>, Error> {
    if !location.exists()? {
        return Err(refused(format!("there is no store at `{location}`")));
    }
    store::migration::undo(open(location, Use::Source, Failpoints::default(), progress).await?).await
}

#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "only a server uses it"))]
async fn open(
    location: &Location,
    purpose: Use,
    failpoints: Failpoints,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Box<dyn Side>, Error> {
    match location {
        Location::File(path) => store_sqlite::open_side(path, purpose, failpoints),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => {
            store_postgres::open_side(address, purpose, failpoints, progress).await
        }
    }
}
