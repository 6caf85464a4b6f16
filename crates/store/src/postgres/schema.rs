//! The tables and their migrations.

use refinery::{Migration, Runner};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::message;

/// The migrations, oldest first. A released one never changes.
const MIGRATIONS: [(&str, &str); 4] = [
    ("V1__initial", include_str!("../../migrations/postgres/V1__initial.sql")),
    ("V2__buckets", include_str!("../../migrations/postgres/V2__buckets.sql")),
    ("V3__shard_letters", include_str!("../../migrations/postgres/V3__shard_letters.sql")),
    ("V4__listening", include_str!("../../migrations/postgres/V4__listening.sql")),
];

/// The version that this release reads and writes.
pub(super) const CURRENT: i32 = 4;

/// Only one daemon migrates at a time. Held by the session.
const LOCK: &str =
    "SELECT pg_advisory_lock(hashtextextended('cogwork:' || current_schema() || ':schema', 0))";
const UNLOCK: &str =
    "SELECT pg_advisory_unlock(hashtextextended('cogwork:' || current_schema() || ':schema', 0))";

/// Makes the tables, or migrates them to the current version in one transaction. Returns what to tell people if that fails.
pub(super) async fn migrate(client: &mut Client) -> Result<(), String> {
    let failed = |error: tokio_postgres::Error| explain(&error);
    let schema = client.query_one("SELECT current_schema()", &[]).await.map_err(failed)?;
    if schema.try_get::<_, Option<String>>(0).map_err(failed)?.is_none() {
        return Err(
            "the database has no schema that its user may use; create one, or set `search_path`".to_owned()
        );
    }
    client.query_one(LOCK, &[]).await.map_err(failed)?;
    let migrated = migrate_locked(client).await;
    client.query_one(UNLOCK, &[]).await.map_err(failed)?;
    migrated
}

async fn migrate_locked(client: &mut Client) -> Result<(), String> {
    match version(client).await? {
        Some(CURRENT) => return Ok(()),
        Some(found) if found > CURRENT => return Err(newer(found)),
        _ => {}
    }
    let migrations = MIGRATIONS.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    let migrations = migrations.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    // Ungrouped, a crash could leave a migration applied but not recorded.
    let run = Runner::new(&migrations).set_grouped(true).run_async(client).await;
    run.map(drop).map_err(|error| cause(&error))
}

/// Returns what to tell people if the tables do not have the current version. A read-only store cannot migrate.
pub(super) async fn check(client: &Client) -> Result<(), String> {
    match version(client).await? {
        Some(CURRENT) => Ok(()),
        Some(found) if found > CURRENT => Err(newer(found)),
        Some(found) => Err(format!(
            "it has tables of version {found}, this release reads version {CURRENT}; start the daemon once to migrate them"
        )),
        None => Err("it has no tables of Cogwork; start the daemon once to make them, or give the address of another \
            database"
            .to_owned()),
    }
}

fn newer(found: i32) -> String {
    format!(
        "it has tables of version {found}, this release knows up to {CURRENT}; use the release that wrote it, or a later one"
    )
}

/// Returns the version of the tables; `None` if there are none.
async fn version(client: &Client) -> Result<Option<i32>, String> {
    let failed = |error: tokio_postgres::Error| explain(&error);
    let found = "SELECT to_regclass('refinery_schema_history') IS NOT NULL, to_regclass('live') IS NOT NULL, \
        to_regclass('executions') IS NOT NULL OR to_regclass('events') IS NOT NULL";
    let row = client.query_one(found, &[]).await.map_err(failed)?;
    let (history, live, others): (bool, bool, bool) =
        (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
    match (history, live) {
        (true, true) => {
            let row = client.query_one("SELECT max(version)::int4 FROM refinery_schema_history", &[]).await;
            row.map_err(failed)?.try_get(0).map_err(failed)
        }
        (false, false) if !others => Ok(None),
        _ => Err("it has tables of another program with the same names; give Cogwork a database, or a schema, of its \
            own"
            .to_owned()),
    }
}

fn cause(error: &refinery::Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
            return explain(error);
        }
        source = error.source();
    }
    error.to_string()
}

/// Returns the message of an error, with the way out if it is known.
pub(super) fn explain(error: &tokio_postgres::Error) -> String {
    let said = message(error);
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => format!(
            "{said}; the user needs the right to create tables: make it the owner of the database, or `GRANT CREATE, USAGE ON \
             SCHEMA public TO <user>`"
        ),
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            format!("{said}; create it, or correct the name at the end of the address")
        }
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            format!("{said}; correct the user and the password in the address")
        }
        // The client has looked for a server that takes writes.
        None if said.contains("does not allow writes") => {
            "the server is a standby, which takes no writes; give the address of the primary".to_owned()
        }
        _ => said,
    }
}
