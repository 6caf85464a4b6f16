//! The lock that keeps daemons from joining, and the proof that none runs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::super::beat::SILENCE;
use super::super::node::fence_off;
use super::super::schema::explain;
use store::Error;
use store::migration::mark::refused;
use store::migration::side::Progress;

/// Daemons take the same lock while they join.
const LOCK: &str =
    "SELECT pg_try_advisory_lock(hashtextextended('cogwork:' || current_schema() || ':join', 0))";
const ALIVE: &str = "SELECT id, beat, host FROM nodes WHERE NOT dead ORDER BY id";

/// The time between two looks at the beats, and at the lock.
const LOOK: Duration = Duration::from_millis(500);
/// The time for which the lock is asked for: the server keeps the one of a process that was killed until it notices.
const LOCK_WAIT: Duration = Duration::from_secs(3);

/// Takes the lock for the session, and waits until no daemon can run: one that did not leave must not have beaten for as long as other
/// daemons would wait. Its connections are fenced off then.
///
/// # Errors
/// [`Error::Migrate`] if a daemon runs.
pub(super) async fn wait(
    client: &mut Client,
    location: &str,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), Error> {
    let failed = |error: tokio_postgres::Error| Error::Connect {
        location: location.to_owned(),
        reason: explain(&error),
    };
    let asked = Instant::now();
    while !client.query_one(LOCK, &[]).await.and_then(|row| row.try_get::<_, bool>(0)).map_err(failed)? {
        if asked.elapsed() >= LOCK_WAIT {
            return Err(refused(format!(
                "a daemon is starting on `{location}`, or it is being moved already"
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
    let begun = Instant::now();
    let mut seen: HashMap<i64, i64> = HashMap::new();
    loop {
        let alive = client.query(ALIVE, &[]).await.map_err(failed)?;
        for row in &alive {
            let (id, beat): (i64, i64) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
            let host: String = row.try_get(2).map_err(failed)?;
            let is_first = seen.is_empty();
            if *seen.entry(id).or_insert(beat) != beat {
                return Err(refused(format!("a daemon on `{host}` uses `{location}`; stop it")));
            }
            if is_first {
                progress(Progress::Waiting { host });
            }
        }
        if alive.is_empty() {
            return Ok(());
        }
        if begun.elapsed() >= SILENCE {
            let mut transaction = client.transaction().await.map_err(failed)?;
            for (id, beat) in &seen {
                fence_off(&mut transaction, *id, *beat).await.map_err(failed)?;
            }
            transaction.commit().await.map_err(failed)?;
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}
