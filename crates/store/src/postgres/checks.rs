//! The checks of a server before a store is opened on it.

use tokio_postgres::{Client, Row};

use crate::Durability;

/// The oldest server version, as `server_version_num`.
const OLDEST: i32 = 150_000;

/// The server's report about itself.
#[derive(Debug)]
pub(super) struct Server {
    /// Its version, such as `15.8`.
    pub(super) version: String,
    /// The guarantees that it weakens.
    pub(super) weakened: Vec<String>,
    /// The settings of a session that writes.
    pub(super) session: String,
}

const SETTINGS: &str = "SELECT current_setting('server_version_num')::int4, current_setting('server_version'), \
    current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), \
    current_setting('synchronous_standby_names'), current_setting('server_encoding')";

/// Checks the server of a connection. Returns what to tell people if it cannot be used.
pub(super) async fn check(client: &Client, durability: Durability) -> Result<Server, String> {
    let failed = |error: tokio_postgres::Error| super::connect::message(&error);
    let row = client.query_one(SETTINGS, &[]).await.map_err(failed)?;
    let text = |index: usize| row.try_get::<_, String>(index).map_err(failed);
    let number: i32 = row.try_get(0).map_err(failed)?;
    let version = text(1)?.split(' ').next().unwrap_or_default().to_owned();
    if number < OLDEST {
        return Err(format!("the server is PostgreSQL {version}; use version 15 or later"));
    }
    if text(6)? != "UTF8" {
        let found = text(6)?;
        return Err(format!("the database has the encoding {found}; create one with the encoding UTF8"));
    }
    check_pooling(client).await?;
    let (fsync, pages, commit, standbys) = (text(2)?, text(3)?, text(4)?, text(5)?);
    let mut weakened = Vec::new();
    let session = match durability {
        Durability::Relaxed => {
            weakened.push(
                "durability is relaxed: a crash of the database server may take the last writes along"
                    .to_owned(),
            );
            "SET synchronous_commit = off"
        }
        Durability::Full if fsync == "off" => {
            return Err("`fsync` is off on the server, so that a loss of power can destroy the database; switch it on, or \
                set `durability: relaxed`"
                .to_owned());
        }
        Durability::Full if matches!(&*commit, "on" | "remote_apply") => "SET synchronous_commit TO DEFAULT",
        // Any user may ask for more than the default of the database.
        Durability::Full => "SET synchronous_commit = on",
    };
    if fsync == "off" {
        weakened.push(
            "`fsync` is off on the database server: a loss of power can destroy the database".to_owned(),
        );
    }
    if pages == "off" {
        weakened.push(
            "`full_page_writes` is off on the database server: a loss of power can damage pages".to_owned(),
        );
    }
    if standbys.is_empty() {
        weakened.push(
            "the database has no synchronous standby: what is stored is lost with the disk of its server, unless its storage is \
             replicated"
                .to_owned(),
        );
    }
    Ok(Server { version, weakened, session: session.to_owned() })
}

/// Returns what a server says about itself, for a store that is open only for reading.
pub(super) async fn look(client: &Client) -> Result<Server, String> {
    let failed = |error: tokio_postgres::Error| super::connect::message(&error);
    let row = client.query_one("SELECT current_setting('server_version')", &[]).await.map_err(failed)?;
    let version: String = row.try_get(0).map_err(failed)?;
    let version = version.split(' ').next().unwrap_or_default().to_owned();
    Ok(Server { version, weakened: Vec::new(), session: String::new() })
}

/// Returns an error if transactions of this connection reach different sessions of the server.
async fn check_pooling(client: &Client) -> Result<(), String> {
    let failed = |error: tokio_postgres::Error| super::connect::message(&error);
    let pid = |row: &Row| row.try_get::<_, i32>(0).map_err(failed);
    let pooled = "a pooler in transaction mode is between this daemon and the server; give a direct or \
        session-pooled address";
    // A session-level setting is lost, or is another's, when a pooler gives the next transaction to another session.
    let mark = "SELECT pg_backend_pid(), set_config('application_name', current_setting('application_name') || '*', false)";
    let row = client.query_one(mark, &[]).await.map_err(failed)?;
    let (first, marked) = (pid(&row)?, row.try_get::<_, String>(1).map_err(failed)?);
    for _ in 0..3 {
        let again = "SELECT pg_backend_pid(), current_setting('application_name')";
        let row = client.query_one(again, &[]).await.map_err(failed)?;
        if pid(&row)? != first || row.try_get::<_, String>(1).map_err(failed)? != marked {
            return Err(pooled.to_owned());
        }
    }
    Ok(())
}
