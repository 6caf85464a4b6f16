//! The checks of a server before a store is opened on it.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::connect::{Trouble, in_time};
use store::Durability;

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

/// Checks the server of a connection; `second` is another one to it. Returns what to tell people if it cannot be used.
pub(super) async fn check(
    client: &Client,
    second: &Client,
    durability: Durability,
) -> Result<Server, String> {
    let failed = |error: tokio_postgres::Error| super::connect::message(&error);
    // First, since a statement that another connection has prepared may be in the way of ours behind a pooler.
    check_pooling(client, second).await?;
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

/// Returns an error if a session of the server is not that of one connection: a pooler gives it to whichever has a transaction.
async fn check_pooling(client: &Client, second: &Client) -> Result<(), String> {
    let reason = |trouble: Trouble| trouble.reason;
    let pid = async |client: &Client| {
        // Without a statement that is prepared, which some poolers refuse.
        let rows = in_time(client.simple_query("SELECT pg_backend_pid()")).await.map_err(reason)?;
        let pid = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        pid.ok_or_else(|| "the server does not tell the process of a connection".to_owned())
    };
    let first = pid(client).await?;
    // A pooler that takes its sessions in turn gives another one each time.
    let second_time = pid(client).await?;
    in_time(second.batch_execute("BEGIN")).await.map_err(reason)?;
    // While this transaction is open, the pooler has to give the other connection another session, or this one has its session.
    let others = pid(second).await?;
    let again = pid(client).await?;
    in_time(second.batch_execute("COMMIT")).await.map_err(reason)?;
    if others == first || second_time != first || again != first {
        return Err("a pooler in transaction mode is between this daemon and the server; give a direct or \
            session-pooled address"
            .to_owned());
    }
    Ok(())
}
