//! The node of this daemon: one run of it, which all its rows name. It joins when the store opens and leaves when it closes.

use std::fs::{File, TryLockError};
use std::path::Path;

use model::automation::Level;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use super::agreement::Agreement;
use super::beat::{channel, send};
use super::lane::Shared;
use super::level::number;
use super::migration;
use super::peers::{PAGE, TAKE_OVER};
use super::schema::explain;
use store::Error;
use store::{News, NodeDetails};

/// The number of lanes of a node.
pub(super) const LANES: i16 = 2;

/// Held while a node joins, until its transaction ends.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':join', 0))";
const PREDECESSORS: &str = "SELECT id, beat FROM nodes WHERE NOT dead AND name = $1";
const DECLARE_DEAD: &str = "UPDATE nodes SET dead = true WHERE id = $1 AND beat = $2 AND NOT dead";
/// A frozen process can hold the row of its lane in an open transaction, and locks.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM ( \
    SELECT pid FROM lanes WHERE node = $1 UNION ALL SELECT pid FROM nodes WHERE id = $1) p WHERE pid IS NOT NULL";
/// From here on, nothing of the node is committed any more.
const FENCE_OFF: &str = "UPDATE lanes SET dead = true WHERE node = $1";
const JOIN: &str = "INSERT INTO nodes (id, name, host, release, details, level, joined_ns) \
    VALUES (nextval('node_id'), $1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1e9)::int8) RETURNING id";
const ADD_LANE: &str = "INSERT INTO lanes (node, lane) VALUES ($1, $2)";
/// Confirms the executions that it took over when it joined: it finds them like those that it owned before.
const CONFIRM_ALL: &str = "UPDATE live SET handed = false WHERE owner = $1 AND handed";
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

/// Joins the nodes of the store. An earlier run on the same data folder, whose lock this daemon has, is declared dead at once.
/// Returns the number of the node.
///
/// # Errors
/// [`Error::Connect`] if the database fails. [`Error::Moved`] and [`Error::HalfMoved`] if no daemon may start on it.
pub(super) async fn join(
    client: &mut Client,
    identity: &Identity,
    agreement: &Agreement,
    location: &str,
) -> Result<i64, Error> {
    let failed = |reason: String| Error::Connect { location: location.to_owned(), reason };
    match enter(client, identity, agreement, location).await {
        Ok(joined) => joined,
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            Err(failed("it is being moved by `cogwork migrate`; wait for its end".to_owned()))
        }
        Err(error) => Err(failed(explain(&error))),
    }
}

async fn enter(
    client: &mut Client,
    identity: &Identity,
    agreement: &Agreement,
    location: &str,
) -> Result<Result<i64, Error>, tokio_postgres::Error> {
    let mut transaction = client.transaction().await?;
    // A daemon that joins has it for a moment, a migration until it ends.
    transaction.batch_execute("SET LOCAL lock_timeout = '10s'").await?;
    transaction.query_one(LOCK, &[]).await?;
    transaction.batch_execute("SET LOCAL lock_timeout TO DEFAULT").await?;
    if let Err(error) = migration::check_marks(&transaction, location).await? {
        return Ok(Err(error));
    }
    if identity.lock.is_some() {
        for row in transaction.query(PREDECESSORS, &[&identity.name]).await? {
            fence_off(&mut transaction, row.try_get(0)?, row.try_get(1)?).await?;
        }
    }
    let release = env!("CARGO_PKG_VERSION");
    let details = NodeDetails { settings: Some(agreement.own()), ..NodeDetails::default() };
    let details = serde_json::to_vec(&details).unwrap_or_default();
    let joined = transaction
        .query_one(JOIN, &[&identity.name, &host(), &release, &details, &number(Level::KNOWN)])
        .await?;
    let node: i64 = joined.try_get(0)?;
    for lane in 0..LANES {
        transaction.execute(ADD_LANE, &[&node, &lane]).await?;
    }
    agreement.join(&transaction).await?;
    transaction.commit().await?;
    Ok(Ok(node))
}

/// Declares a node dead, unless it has beaten since, and fences off its lanes. Returns true if it did.
pub(super) async fn fence_off(
    transaction: &mut Transaction<'_>,
    node: i64,
    beat: i64,
) -> Result<bool, tokio_postgres::Error> {
    if transaction.execute(DECLARE_DEAD, &[&node, &beat]).await? == 0 {
        return Ok(false);
    }
    // Without the right to do so, the lanes end when their open transactions time out.
    let terminating = transaction.transaction().await?;
    if terminating.query(TERMINATE, &[&node]).await.is_ok() {
        terminating.commit().await?;
    } else {
        terminating.rollback().await?;
    }
    transaction.execute(FENCE_OFF, &[&node]).await?;
    Ok(true)
}

/// Takes over the executions of the earlier runs on the data folder. A daemon without a folder takes over from all that are dead.
pub(super) async fn take_over(
    client: &Client,
    node: i64,
    identity: &Identity,
) -> Result<(), tokio_postgres::Error> {
    let of = identity.lock.as_ref().map(|_| &identity.name);
    let mut after = Some(uuid::Uuid::nil());
    while let Some(last) = after {
        after = client.query_one(TAKE_OVER, &[&node, &last, &PAGE, &of]).await?.try_get(0)?;
    }
    client.execute(CONFIRM_ALL, &[&node]).await.map(drop)
}

/// Returns the name of this machine, for the message to another daemon.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "another machine".to_owned() } else { name.to_owned() }
}

/// Leaves: the other nodes take over what this one has.
pub(super) async fn leave(shared: &Shared) {
    let session = shared.access.open("SET statement_timeout = '5s'").await;
    let left = match session {
        Ok(session) => {
            let left = session.client.execute(LEAVE, &[&shared.node]).await;
            // The others look at once.
            let told = send(&session, &channel(&session).await.unwrap_or_default(), None, &News::Nodes).await;
            left.map(drop).and(told)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = left {
        tracing::warn!(
            reason = super::connect::message(&error),
            "the daemon could not sign off at the database"
        );
    }
}
