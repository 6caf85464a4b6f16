//! The tables and their migrations.

use std::path::Path;

use refinery::{Migration, Runner};
use rusqlite::{Connection, OptionalExtension as _};

use super::settings::open_error;
use crate::Error;

/// The migrations, oldest first. A released one never changes.
const MIGRATIONS: [(&str, &str); 12] = [
    ("V1__initial", include_str!("../../migrations/V1__initial.sql")),
    ("V2__waits_and_state", include_str!("../../migrations/V2__waits_and_state.sql")),
    ("V3__sendings", include_str!("../../migrations/V3__sendings.sql")),
    ("V4__polls", include_str!("../../migrations/V4__polls.sql")),
    ("V5__blobs", include_str!("../../migrations/V5__blobs.sql")),
    ("V6__queue_shelf", include_str!("../../migrations/V6__queue_shelf.sql")),
    ("V7__files", include_str!("../../migrations/V7__files.sql")),
    ("V8__short_events", include_str!("../../migrations/V8__short_events.sql")),
    ("V9__starts", include_str!("../../migrations/V9__starts.sql")),
    ("V10__event_keys", include_str!("../../migrations/V10__event_keys.sql")),
    ("V11__snapshots", include_str!("../../migrations/V11__snapshots.sql")),
    ("V12__replays", include_str!("../../migrations/V12__replays.sql")),
];

/// The version that this release reads and writes.
pub(super) const CURRENT: u32 = 12;

/// `CogW`, set by the first migration.
const APPLICATION_ID: i32 = 0x436f_6757;

/// The table in which refinery records the applied migrations.
const HISTORY: &str = "refinery_schema_history";

/// Migrates the tables of a file to the current version in one transaction.
pub(super) fn migrate(connection: &mut Connection, file: &Path) -> Result<(), Error> {
    match version(connection, file)? {
        Some(found) if found > CURRENT => {
            return Err(Error::NewerSchema { path: file.to_owned(), found, known: CURRENT });
        }
        Some(CURRENT) => return Ok(()),
        _ => {}
    }
    let failed = |error: refinery::Error| migration_error(file, &error);
    let migrations = MIGRATIONS.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    let migrations = migrations.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    // Ungrouped, a crash could leave a migration applied but not recorded.
    Runner::new(&migrations).set_grouped(true).run(connection).map_err(failed)?;
    Ok(())
}

/// Converts the error of a migration, by its SQLite error if it has one.
fn migration_error(file: &Path, error: &refinery::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
            return open_error(file, error);
        }
        cause = error.source();
    }
    Error::Open { path: file.to_owned(), reason: error.to_string() }
}

/// Returns true if a file has no tables.
pub(super) fn is_new(connection: &Connection, file: &Path) -> Result<bool, Error> {
    Ok(version(connection, file)?.is_none())
}

/// Returns the creation time of the tables as the text in the file; `None` if it has none.
pub(super) fn made_at(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = format!("SELECT applied_on FROM {HISTORY} ORDER BY version LIMIT 1");
    connection.query_row(&sql, [], |row| row.get(0)).optional()
}

/// Returns an error if the tables do not have the current version. Used by read-only stores, which cannot migrate.
pub(super) fn check(connection: &Connection, file: &Path) -> Result<(), Error> {
    let path = file.to_owned();
    match version(connection, file)? {
        Some(CURRENT) => Ok(()),
        Some(found) if found > CURRENT => Err(Error::NewerSchema { path, found, known: CURRENT }),
        Some(found) => Err(Error::OlderSchema { path, found, known: CURRENT }),
        None => Err(Error::NotAStore { path }),
    }
}

/// Returns an error if the file is no store, or if a later release wrote its tables: then they cannot be migrated.
pub(super) fn check_not_newer(connection: &Connection, file: &Path) -> Result<(), Error> {
    let path = file.to_owned();
    match version(connection, file)? {
        Some(found) if found > CURRENT => Err(Error::NewerSchema { path, found, known: CURRENT }),
        Some(_) => Ok(()),
        None => Err(Error::NotAStore { path }),
    }
}

/// Returns the version of the tables if the daemon migrates them when it starts; `None` if this release reads them.
pub(super) fn older(connection: &Connection, file: &Path) -> Result<Option<u32>, Error> {
    check_not_newer(connection, file)?;
    Ok(version(connection, file)?.filter(|found| *found < CURRENT))
}

/// Returns the version of the tables; `None` if there are none.
fn version(connection: &Connection, file: &Path) -> Result<Option<u32>, Error> {
    let failed = |error: rusqlite::Error| open_error(file, &error);
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if tables == 0 {
        return Ok(None);
    }
    let id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    if id != APPLICATION_ID {
        return Err(Error::NotAStore { path: file.to_owned() });
    }
    let sql = format!("SELECT max(version) FROM {HISTORY}");
    let found = connection.query_row(&sql, [], |row| row.get(0)).optional().map_err(failed)?;
    found.flatten().map(Some).ok_or_else(|| Error::NotAStore { path: file.to_owned() })
}

/// Creates the tables in memory, to inspect query plans.
#[cfg(test)]
pub(super) fn in_memory() -> Connection {
    let mut connection = Connection::open_in_memory().expect("it opens");
    migrate(&mut connection, Path::new("memory")).expect("the tables are made");
    connection
}
