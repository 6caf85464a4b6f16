//! The tables, and how a file of an earlier release gets the current ones.

use std::path::Path;

use refinery::{Migration, Runner};
use rusqlite::{Connection, OptionalExtension as _};

use super::settings::open_error;
use crate::Error;

/// Every version of the tables, oldest first. One that is released never changes.
const MIGRATIONS: [(&str, &str); 9] = [
    ("V1__initial", include_str!("../../migrations/V1__initial.sql")),
    ("V2__waits_and_state", include_str!("../../migrations/V2__waits_and_state.sql")),
    ("V3__sendings", include_str!("../../migrations/V3__sendings.sql")),
    ("V4__polls", include_str!("../../migrations/V4__polls.sql")),
    ("V5__blobs", include_str!("../../migrations/V5__blobs.sql")),
    ("V6__queue_shelf", include_str!("../../migrations/V6__queue_shelf.sql")),
    ("V7__files", include_str!("../../migrations/V7__files.sql")),
    ("V8__short_events", include_str!("../../migrations/V8__short_events.sql")),
    ("V9__starts", include_str!("../../migrations/V9__starts.sql")),
];

/// The version that this release reads and writes.
pub(super) const CURRENT: u32 = 9;

/// `CogW`, set by the first migration.
const APPLICATION_ID: i32 = 0x436f_6757;

/// Where refinery keeps which migrations a file has had.
const HISTORY: &str = "refinery_schema_history";

/// Brings the tables of a file up to the current version, all steps in one transaction.
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
    // One by one, a crash could leave a migration done but not noted.
    Runner::new(&migrations).set_grouped(true).run(connection).map_err(failed)?;
    Ok(())
}

/// What a failed migration says, by the error of SQLite where that is what failed.
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

/// Whether a file has no tables at all.
pub(super) fn is_new(connection: &Connection, file: &Path) -> Result<bool, Error> {
    Ok(version(connection, file)?.is_none())
}

/// When the tables were made, in the words of the file; `None` where it does not say.
pub(super) fn made_at(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = format!("SELECT applied_on FROM {HISTORY} ORDER BY version LIMIT 1");
    connection.query_row(&sql, [], |row| row.get(0)).optional()
}

/// Refuses tables that this release cannot read; for whoever may not change them.
pub(super) fn check(connection: &Connection, file: &Path) -> Result<(), Error> {
    let path = file.to_owned();
    match version(connection, file)? {
        Some(CURRENT) => Ok(()),
        Some(found) if found > CURRENT => Err(Error::NewerSchema { path, found, known: CURRENT }),
        Some(found) => Err(Error::OlderSchema { path, found, known: CURRENT }),
        None => Err(Error::NotAStore { path }),
    }
}

/// The version of a file's tables; `None` where it has no tables at all.
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

/// The tables in memory, to look at what SQLite makes of a query.
#[cfg(test)]
pub(super) fn in_memory() -> Connection {
    let mut connection = Connection::open_in_memory().expect("it opens");
    migrate(&mut connection, Path::new("memory")).expect("the tables are made");
    connection
}
