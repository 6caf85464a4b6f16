//! Setup of the connections.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use store::regular;
use store::{Durability, Error, Options};

/// The oldest supported SQLite. Earlier versions could damage a file when a checkpoint ran while the write-ahead log
/// restarted (the WAL-reset bug, <https://sqlite.org/wal.html>).
pub(super) const OLDEST_SQLITE: (i32, &str) = (3_051_003, "3.51.3");

/// The time that a connection waits for a lock of another program, such as the `sqlite3` shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The page cache of the writer. The hot pages are the right edges of a few trees; the system caches the others.
const WRITER_CACHE_KIB: i64 = 4096;

/// The page cache of each reading connection.
const READER_CACHE_KIB: i64 = 1024;

/// The number of prepared statements that a connection keeps: more than there are different ones in this crate, so that no
/// mix of writes prepares a statement again and again.
const STATEMENTS: usize = 128;

/// The size to which the write-ahead log is truncated after it grew beyond it.
const WAL_SIZE_LIMIT: i64 = 32 << 20;

/// Returns an error if the linked SQLite is older than [`OLDEST_SQLITE`].
pub(super) fn check_version(number: i32, text: &str) -> Result<(), Error> {
    if number < OLDEST_SQLITE.0 {
        return Err(Error::TooOld { library: format!("SQLite {text}"), needed: OLDEST_SQLITE.1 });
    }
    Ok(())
}

/// Opens the writing connection, and verifies each setting on which durability depends.
pub(super) fn open_writer(file: &Path, options: &Options) -> Result<Connection, Error> {
    check_regular(file)?;
    let failed = |error: rusqlite::Error| open_error(file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // Takes effect only in a file without tables. Pruning needs it to return free pages to the file system.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(failed)?;
    expect(&connection, file, "journal_mode", "wal", "WAL")?;
    let (name, number) = match options.durability {
        Durability::Full => ("FULL", 2),
        Durability::Relaxed => ("NORMAL", 1),
    };
    connection.pragma_update(None, "synchronous", name).map_err(failed)?;
    let found: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(failed)?;
    if found != number {
        return Err(refused(file, "synchronous", &found.to_string()));
    }
    sync_through_the_drive(&connection).map_err(failed)?;
    common(&connection, WRITER_CACHE_KIB).map_err(failed)?;
    // The checkpointer thread runs the checkpoints, so that no commit waits for one.
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(failed)?;
    connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT).map_err(failed)?;
    Ok(connection)
}

/// Opens the connection of the checkpointer.
pub(super) fn open_checkpointer(file: &Path, options: &Options) -> Result<Connection, Error> {
    check_regular(file)?;
    let failed = |error: rusqlite::Error| open_error(file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    let synchronous = if options.durability == Durability::Full { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
    sync_through_the_drive(&connection).map_err(failed)?;
    common(&connection, READER_CACHE_KIB).map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(failed)?;
    Ok(connection)
}

/// Opens a reading connection.
pub(super) fn open_reader(file: &Path) -> Result<Connection, Error> {
    check_regular(file)?;
    let failed = |error: rusqlite::Error| open_error(file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.pragma_update(None, "query_only", true).map_err(failed)?;
    common(&connection, READER_CACHE_KIB).map_err(failed)?;
    Ok(connection)
}

/// Refuses a link, a pipe or another file that cannot be a store.
fn check_regular(file: &Path) -> Result<(), Error> {
    regular::check(file).map_err(|error| Error::Open { path: file.to_owned(), reason: error.to_string() })
}

/// Applies the settings of every connection.
fn common(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    // With memory mapping a failing disk raises SIGBUS, which kills the process; without it, it is an error.
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The schema of a damaged or hostile file cannot run functions, and SQL cannot damage the file.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Makes syncs reach the medium on macOS, where a plain sync only reaches the cache of the drive.
fn sync_through_the_drive(connection: &Connection) -> rusqlite::Result<()> {
    if cfg!(target_os = "macos") {
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    Ok(())
}

fn expect(
    connection: &Connection,
    file: &Path,
    pragma: &str,
    wanted: &str,
    value: &str,
) -> Result<(), Error> {
    let found: String = connection
        .pragma_update_and_check(None, pragma, value, |row| row.get(0))
        .map_err(|error| open_error(file, &error))?;
    if found != wanted {
        return Err(refused(file, pragma, &found));
    }
    Ok(())
}

fn refused(file: &Path, pragma: &str, found: &str) -> Error {
    let reason =
        format!("SQLite keeps `{pragma}` at `{found}` here, and the store cannot promise anything then");
    Error::Open { path: file.to_owned(), reason }
}

pub(super) fn open_error(file: &Path, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => Error::NotAStore { path: file.to_owned() },
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => Error::DatabaseDamaged { detail: error.to_string() },
        _ => Error::Open { path: file.to_owned(), reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linked_sqlite_meets_the_minimum_version() {
        check_version(rusqlite::version_number(), rusqlite::version()).expect("the bundled SQLite is recent");
    }

    #[test]
    fn a_sqlite_below_the_minimum_version_is_rejected() {
        let error = check_version(3_051_002, "3.51.2").expect_err("it is too old");
        assert!(matches!(error, Error::TooOld { .. }));
        assert!(check_version(OLDEST_SQLITE.0, OLDEST_SQLITE.1).is_ok());
    }

    #[test]
    fn the_writer_uses_the_pragmas_its_guarantees_require() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("settings.db");
        for (durability, synchronous) in [(Durability::Full, 2), (Durability::Relaxed, 1)] {
            std::fs::write(&file, "").expect("an empty file");
            let options = Options { durability, ..Options::default() };
            let connection = open_writer(&file, &options).expect("it opens");
            let number = |name| {
                connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).expect("a number")
            };
            assert_eq!(number("synchronous"), synchronous);
            assert_eq!(number("auto_vacuum"), 2);
            assert_eq!(number("wal_autocheckpoint"), 0);
            let mode: String =
                connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("a mode");
            assert_eq!(mode, "wal");
            drop(connection);
            std::fs::remove_file(&file).expect("it goes");
        }
    }
}
