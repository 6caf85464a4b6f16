//! Integrity check of a file when it is opened.
//!
//! A check of a whole large file takes minutes, so only a small file is checked as a whole. For a larger one, the check
//! reads the header, the schema, and both ends of every table. Damage elsewhere shows when it is read, which stops the
//! store. Pages have no checksum: neither check detects damage within a value that leaves the structure of its page
//! intact.

use std::path::Path;

use rusqlite::Connection;

use super::settings::open_error;
use store::Error;

/// The largest file that is checked as a whole, which takes about 20 ms.
const WHOLE_BYTES: i64 = 8 << 20;

/// Checks a file that is about to be opened.
///
/// # Errors
/// [`Error::DatabaseDamaged`] if the file is damaged.
pub(super) fn at_start(connection: &Connection, file: &Path) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| open_error(file, &error);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    if number("page_count")?.saturating_mul(number("page_size")?) <= WHOLE_BYTES {
        let found: String =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
        return if found == "ok" { Ok(()) } else { Err(Error::DatabaseDamaged { detail: found }) };
    }
    let mut tables = connection
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )
        .map_err(failed)?;
    let names = tables.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    for name in names {
        read_ends(connection, &name.map_err(failed)?).map_err(failed)?;
    }
    Ok(())
}

/// Reads the first and the last page of a table.
fn read_ends(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let table = table.replace('"', "\"\"");
    let key: Option<String> = connection.query_row(
        "SELECT max(name) FROM pragma_table_info(?1) WHERE pk = 1",
        [&table],
        |row| row.get(0),
    )?;
    let key = key.map_or_else(|| "rowid".to_owned(), |key| format!("\"{}\"", key.replace('"', "\"\"")));
    for order in ["ASC", "DESC"] {
        let sql = format!("SELECT 1 FROM \"{table}\" NOT INDEXED ORDER BY {key} {order} LIMIT 1");
        let mut statement = connection.prepare(&sql)?;
        statement.query([])?.next()?;
    }
    Ok(())
}

/// Checks a table and its indexes as a whole, including that each row is found through its indexes.
///
/// # Errors
/// [`Error::DatabaseDamaged`] if the table is damaged.
pub(super) fn of_table(connection: &Connection, table: &str) -> Result<(), Error> {
    let sql = format!("PRAGMA integrity_check('{table}')");
    let found: String = connection.query_row(&sql, [], |row| row.get(0)).map_err(super::pool::read_error)?;
    if found == "ok" { Ok(()) } else { Err(Error::DatabaseDamaged { detail: found }) }
}
