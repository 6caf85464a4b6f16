//! The node of this daemon: one run of it, which all its rows name. It joins when the store opens, and its beat says that it runs.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;

use super::connect::Session;
use super::lane::Shared;
use super::schema::explain;
use crate::Error;

/// The time between two beats.
const BEAT: Duration = Duration::from_secs(2);
/// The time without a beat after which another daemon counts as dead, by the steady clock of the observer.
const SILENCE: Duration = Duration::from_secs(10);
/// The time between two looks at the beat of another daemon.
const LOOK: Duration = Duration::from_millis(500);
/// The number of lanes of a node.
pub(super) const LANES: i16 = 2;
/// The number of executions that change their owner in one transaction.
const PAGE: i64 = 1000;

/// Held while a node joins, until its transaction ends.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':join', 0))";
const OTHERS: &str = "SELECT id, name, host, release, beat FROM nodes WHERE NOT dead";
const DECLARE_DEAD: &str = "UPDATE nodes SET dead = true WHERE id = $1 AND beat = $2 AND NOT dead";
/// A frozen process can hold the row of its lane in an open transaction.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM lanes WHERE node = $1 AND pid IS NOT NULL";
/// From here on, nothing of the node is committed any more.
const FENCE_OFF: &str = "UPDATE lanes SET dead = true WHERE node = $1";
const JOIN: &str =
    "INSERT INTO nodes (id, name, host, release) VALUES (nextval('node_id'), $1, $2, $3) RETURNING id";
const ADD_LANE: &str = "INSERT INTO lanes (node, lane) VALUES ($1, $2)";
const TAKE_OVER: &str = "WITH c AS (SELECT id FROM live WHERE id > $3 AND owner IS NOT NULL AND owner <> $1 ORDER BY id LIMIT $2 FOR UPDATE), \
    u AS (UPDATE live l SET owner = $1 FROM c WHERE l.id = c.id RETURNING l.id) SELECT max(id::text)::uuid FROM u";
const FORGET_LANES: &str = "DELETE FROM lanes WHERE dead AND node IN (SELECT id FROM nodes WHERE dead)";
const FORGET: &str = "DELETE FROM nodes WHERE dead";
const BEAT_ON: &str = "UPDATE nodes SET beat = beat + 1 WHERE id = $1 AND NOT dead";
const LEAVE: &str = "UPDATE nodes SET dead = true WHERE id = $1";

/// The identity of the daemons that run one after the other on a data folder. Its lock says that no other one runs.
#[derive(Debug)]
pub(super) struct Identity {
    name: String,
    /// `None` if there is no folder: then no predecessor is known to be gone.
    lock: Option<File>,
}

impl Identity {
    /// Reads the identity of a data folder, or makes one.
    ///
    /// # Errors
    /// [`Error::Locked`] if another daemon has it.
    pub(super) fn of(folder: Option<&Path>) -> Result<Self, Error> {
        let fresh = || uuid::Uuid::new_v4().to_string();
        let Some(folder) = folder else { return Ok(Self { name: fresh(), lock: None }) };
        let failed = |path: &Path, error: &std::io::Error| Error::Open {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|error| failed(folder, &error))?;
        let path = folder.join("node");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(|error| failed(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path, pid: None }),
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
        }
        let mut name = String::new();
        std::io::Read::read_to_string(&mut file, &mut name).map_err(|error| failed(&path, &error))?;
        if name.trim().is_empty() {
            name = fresh();
            std::io::Write::write_all(&mut file, name.as_bytes()).map_err(|error| failed(&path, &error))?;
            file.sync_all().map_err(|error| failed(&path, &error))?;
        }
        Ok(Self { name: name.trim().to_owned(), lock: Some(file) })
    }
}

/// Another node that is not known to be dead.
struct Other {
    id: i64,
    name: String,
    host: String,
    release: String,
    beat: i64,
}

/// Joins as the only node: waits until every other one is dead, and takes over its executions. Returns the number of the node.
///
/// # Errors
/// [`Error::InUse`] if another daemon runs. [`Error::Connect`] if the database fails.
pub(super) async fn join(client: &mut Client, identity: &Identity, location: &str) -> Result<i64, Error> {
    let failed = |error: tokio_postgres::Error| Error::Connect {
        location: location.to_owned(),
        reason: explain(&error),
    };
    loop {
        let found = others(client).await.map_err(failed)?;
        for other in found.iter().filter(|other| !is_predecessor(identity, other)) {
            wait_for_silence(client, other, location).await?;
        }
        // It fails if one more has joined, or beats again.
        if let Some(node) = enter(client, identity, &found).await.map_err(failed)? {
            return Ok(node);
        }
    }
}

/// Returns true for an earlier run on the same data folder, whose lock this daemon has.
fn is_predecessor(identity: &Identity, other: &Other) -> bool {
    identity.lock.is_some() && identity.name == other.name
}

async fn others(client: &Client) -> Result<Vec<Other>, tokio_postgres::Error> {
    let mut others = Vec::new();
    for row in client.query(OTHERS, &[]).await? {
        others.push(Other {
            id: row.try_get(0)?,
            name: row.try_get(1)?,
            host: row.try_get(2)?,
            release: row.try_get(3)?,
            beat: row.try_get(4)?,
        });
    }
    Ok(others)
}

/// Watches the beat of another daemon until it has stood still for [`SILENCE`], or the daemon has left.
///
/// # Errors
/// [`Error::InUse`] if it beats.
async fn wait_for_silence(client: &Client, other: &Other, location: &str) -> Result<(), Error> {
    tracing::info!(host = other.host, "looks whether the daemon that used the database last still runs");
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < SILENCE {
        tokio::time::sleep(LOOK).await;
        let now = others(client).await.map_err(|error| super::connect::read_error(&error))?;
        let Some(now) = now.into_iter().find(|now| now.id == other.id) else { return Ok(()) };
        if now.beat != other.beat {
            let (host, release) = (other.host.clone(), other.release.clone());
            return Err(Error::InUse { location: location.to_owned(), host, release });
        }
    }
    Ok(())
}

/// Declares these nodes dead, if they have not beaten since, and joins. `None` if another one is alive.
async fn enter(
    client: &mut Client,
    identity: &Identity,
    dead: &[Other],
) -> Result<Option<i64>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.query_one(LOCK, &[]).await?;
    for other in dead {
        transaction.execute(DECLARE_DEAD, &[&other.id, &other.beat]).await?;
    }
    if !transaction.query(OTHERS, &[]).await?.is_empty() {
        return Ok(None);
    }
    for other in dead {
        transaction.query(TERMINATE, &[&other.id]).await?;
        transaction.execute(FENCE_OFF, &[&other.id]).await?;
    }
    let release = env!("CARGO_PKG_VERSION");
    let node: i64 = transaction.query_one(JOIN, &[&identity.name, &host(), &release]).await?.try_get(0)?;
    for lane in 0..LANES {
        transaction.execute(ADD_LANE, &[&node, &lane]).await?;
    }
    transaction.commit().await?;
    take_over(client, node).await?;
    client.execute(FORGET_LANES, &[]).await?;
    client.execute(FORGET, &[]).await?;
    Ok(Some(node))
}

/// Becomes the owner of all executions of other nodes, which are dead.
async fn take_over(client: &Client, node: i64) -> Result<(), tokio_postgres::Error> {
    let mut after = uuid::Uuid::nil();
    loop {
        let last: Option<uuid::Uuid> =
            client.query_one(TAKE_OVER, &[&node, &PAGE, &after]).await?.try_get(0)?;
        match last {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

/// Returns the name of this machine, for the message to another daemon.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "another machine".to_owned() } else { name.to_owned() }
}

/// Beats until the task is aborted. Poisons the store once another daemon has declared this node dead.
pub(super) async fn beat(shared: Arc<Shared>, mut session: Option<Session>) {
    loop {
        tokio::time::sleep(BEAT).await;
        let open = match session.take() {
            Some(open) => Ok(open),
            None => Session::open(&shared.config, &shared.encryption, "SET statement_timeout = '5s'").await,
        };
        let Ok(open) = open else { continue };
        match open.client.execute(BEAT_ON, &[&shared.node]).await {
            Ok(0) => return shared.poison.set("another daemon has taken over"),
            Ok(_) => session = Some(open),
            Err(error) => {
                tracing::warn!(reason = super::connect::message(&error), "the beat of this daemon is late")
            }
        }
    }
}

/// Leaves: a later daemon need not wait until this one is silent.
pub(super) async fn leave(shared: &Shared) {
    let session = Session::open(&shared.config, &shared.encryption, "SET statement_timeout = '5s'").await;
    let left = match session {
        Ok(session) => session.client.execute(LEAVE, &[&shared.node]).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = left {
        tracing::warn!(
            reason = super::connect::message(&error),
            "the daemon could not sign off at the database"
        );
    }
}
