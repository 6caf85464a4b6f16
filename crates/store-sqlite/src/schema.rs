//! The tables and their migrations.

use std::path::Path;

use refinery::{Migration, Runner};
use rusqlite::{Connection, OptionalExtension as _};

use super::settings::open_error;
use store::Error;

/// The tables of a release: its migrations, oldest first. Their number is the version of the tables.
#[derive(Clone, Copy)]
pub(super) struct Schema(&'static [(&'static str, &'static str)]);

/// The tables that this release reads and writes. A released migration never changes.
pub(super) const SCHEMA: Schema = Schema(&[
    ("V1__initial", include_str!("../migrations/V1__initial.sql")),
    ("V2__replays", include_str!("../migrations/V2__replays.sql")),
    ("V3__outbox", include_str!("../migrations/V3__outbox.sql")),
    ("V4__uses", include_str!("../migrations/V4__uses.sql")),
]);

/// `CogW`, set by the first migration.
const APPLICATION_ID: i32 = 0x436f_6757;

/// The table in which refinery records the applied migrations.
const HISTORY: &str = "refinery_schema_history";

impl Schema {
    /// Returns the version of the tables.
    pub(super) fn version(self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Migrates the tables of a file to this version in one transaction.
    pub(super) fn migrate(self, connection: &mut Connection, file: &Path) -> Result<(), Error> {
        let known = self.version();
        match version(connection, file)? {
            Some(found) if found > known => {
                return Err(Error::NewerSchema { path: file.to_owned(), found, known });
            }
            Some(found) if found == known => return Ok(()),
            _ => {}
        }
        let failed = |error: refinery::Error| migration_error(file, &error);
        let migrations = self.0.iter().map(|(name, sql)| Migration::unapplied(name, sql));
        let migrations = migrations.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        // Ungrouped, a crash could leave a migration applied but not recorded.
        Runner::new(&migrations).set_grouped(true).run(connection).map_err(failed)?;
        Ok(())
    }

    /// Returns an error if the tables do not have this version. Used by read-only stores, which cannot migrate.
    pub(super) fn check(self, connection: &Connection, file: &Path) -> Result<(), Error> {
        match self.older(connection, file)? {
            Some(found) => Err(Error::OlderSchema { path: file.to_owned(), found, known: self.version() }),
            None => Ok(()),
        }
    }

    /// Returns the version of the tables if the daemon migrates them when it starts; `None` if this release reads them.
    /// An error if the file is no store, or if a later release wrote its tables: then they cannot be migrated.
    pub(super) fn older(self, connection: &Connection, file: &Path) -> Result<Option<u32>, Error> {
        let (path, known) = (file.to_owned(), self.version());
        match version(connection, file)? {
            Some(found) if found > known => Err(Error::NewerSchema { path, found, known }),
            Some(found) => Ok(Some(found).filter(|found| *found < known)),
            None => Err(Error::NotAStore { path }),
        }
    }
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
    SCHEMA.migrate(&mut connection, Path::new("memory")).expect("the tables are made");
    connection
}

#[cfg(test)]
pub(super) mod tests {
    use model::ExecutionId;

    use super::*;

    const FIRST: Schema = Schema(&[SCHEMA.0[0]]);
    const THIRD: Schema = Schema(&[SCHEMA.0[0], SCHEMA.0[1], SCHEMA.0[2]]);
    /// The tables of a later release.
    pub(in super::super) const LATER: Schema = Schema(&[
        SCHEMA.0[0],
        SCHEMA.0[1],
        SCHEMA.0[2],
        SCHEMA.0[3],
        ("V5__later", "ALTER TABLE watermarks ADD COLUMN later TEXT NOT NULL DEFAULT 'new'"),
    ]);
    /// The last of its migrations fails at its second statement.
    const BROKEN: Schema = Schema(&[
        LATER.0[0],
        LATER.0[1],
        LATER.0[2],
        LATER.0[3],
        LATER.0[4],
        ("V6__broken", "CREATE TABLE half (a); SELECT * FROM missing"),
    ]);

    fn file() -> &'static Path {
        Path::new("memory")
    }

    fn count(connection: &Connection, sql: &str) -> u32 {
        connection.query_row(sql, [], |row| row.get(0)).expect("it is counted")
    }

    #[test]
    fn tables_of_an_earlier_release_are_migrated_and_keep_their_rows() {
        let mut connection = in_memory();
        connection
            .execute("INSERT INTO watermarks VALUES ('orders', 'hourly', 7)", [])
            .expect("it is stored");
        let refused = LATER.check(&connection, file()).expect_err("a reader may not change the tables");
        assert!(matches!(refused, Error::OlderSchema { found: 4, known: 5, .. }), "{refused}");
        assert_eq!(LATER.older(&connection, file()).expect("it is a store"), Some(4));
        for _ in 0..2 {
            LATER.migrate(&mut connection, file()).expect("it is migrated");
            LATER.check(&connection, file()).expect("it has the version");
        }
        let sql = "SELECT count(*) FROM watermarks WHERE instant_ns = 7 AND later = 'new'";
        assert_eq!(count(&connection, sql), 1);
        let refused = SCHEMA.migrate(&mut connection, file()).expect_err("a later release wrote them");
        assert!(matches!(refused, Error::NewerSchema { found: 5, known: 4, .. }), "{refused}");
    }

    #[test]
    fn a_replay_of_the_first_version_is_found_by_the_execution_that_it_replays() {
        let mut connection = Connection::open_in_memory().expect("it opens");
        FIRST.migrate(&mut connection, file()).expect("it is migrated");
        let of = ExecutionId::from_bytes([7; 16]);
        for (id, origin) in
            [(1_u8, format!(r#"{{"kind":"replay","of":"{of}"}}"#)), (2, r#"{"kind":"manual"}"#.into())]
        {
            let sql = "INSERT INTO executions (id, automation, definition, origin, status, shelf, started_ns, events, logs) \
                VALUES (?1, 'orders', x'00', ?2, 2, 2, 0, 2, 0)";
            connection.execute(sql, (vec![id], origin)).expect("it is stored");
        }
        SCHEMA.migrate(&mut connection, file()).expect("it is migrated");
        let sql = "SELECT id FROM executions INDEXED BY executions_by_replay WHERE replay_of = ?1";
        let found: Vec<u8> =
            connection.query_row(sql, [of.as_bytes()], |row| row.get(0)).expect("it is found");
        assert_eq!(found, [1]);
        assert_eq!(count(&connection, "SELECT count(*) FROM executions WHERE replay_of IS NOT NULL"), 1);
    }

    #[test]
    fn definitions_of_the_third_version_keep_their_numbers_of_executions() {
        let mut connection = Connection::open_in_memory().expect("it opens");
        THIRD.migrate(&mut connection, file()).expect("it is migrated");
        let rows = "INSERT INTO definition_texts (sequence, hash, path, text) VALUES (1, x'01', 'a', ''), (2, x'02', 'b', ''); \
                    INSERT INTO definitions (hash, automation, put, executions) VALUES (x'02', 'b', 1, 7), (x'01', 'a', 1, 0)";
        connection.execute_batch(rows).expect("they are stored");
        SCHEMA.migrate(&mut connection, file()).expect("it is migrated");
        let sql = "SELECT executions FROM definition_uses JOIN definition_texts ON sequence = definition WHERE path = ";
        assert_eq!(["'a'", "'b'"].map(|path| count(&connection, &format!("{sql}{path}"))), [0, 7]);
    }

    #[test]
    fn a_failed_migration_changes_nothing() {
        let mut connection = in_memory();
        BROKEN.migrate(&mut connection, file()).expect_err("the last migration fails");
        SCHEMA.check(&connection, file()).expect("it has the version of before");
        assert_eq!(count(&connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), 0);
    }
}
