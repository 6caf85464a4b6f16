//! Opens stores, in a file or on a server, by their location.

mod location;
mod migration;

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use store::{Backup, Durability, Error, Examination, Options, Restored, Store};

pub use self::location::Location;
pub use self::migration::{migrate, undo_migration};

/// Opens the store at `location`. Creates it if it is missing, and migrates its tables to the current version.
/// Blocks for some milliseconds; on a server as long as it takes to take over the executions of daemons that are gone.
///
/// # Errors
/// Another process has the store open, the file system is not reliable, the location holds something else, a later
/// release wrote the store, or the system refuses.
pub fn open(location: &Location, options: Options) -> Result<Arc<dyn Store>, Error> {
    match location {
        Location::File(path) => store_sqlite::open(path, options),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => store_postgres::open(address, options),
    }
}

/// Opens the store at `location` only for reading; a daemon may have it open. Writes return [`Error::ReadOnly`].
///
/// # Errors
/// There is no store, the file system is not reliable, or another release wrote its tables.
pub fn open_read_only(location: &Location) -> Result<Arc<dyn Store>, Error> {
    match location {
        Location::File(path) => store_sqlite::open_read_only(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => store_postgres::open_read_only(address),
    }
}

/// Checks that a daemon could open the store at `location` with this durability, and changes nothing. A daemon may have it open. Blocks.
///
/// # Errors
/// The errors of [`open`], except that another daemon has it open.
#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "only a server uses it"))]
pub fn examine(location: &Location, durability: Durability) -> Result<Examination, Error> {
    match location {
        Location::File(path) => store_sqlite::examine(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => store_postgres::examine(address, durability),
    }
}

/// Copies a snapshot of the store at `location` to the new folder `to`; a daemon may have the store open and go on
/// writing. The copy is a store of its own. Blocks until the copy is on disk; after a crash there is no folder `to`.
///
/// # Errors
/// There is no store, `to` exists, a blob is missing or damaged, or the system refuses. A database on a server is not copied.
pub fn back_up(location: &Location, to: &Path) -> Result<Backup, Error> {
    match location {
        Location::File(path) => store_sqlite::back_up(path, to),
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => Err(Error::Backup {
            path: to.to_owned(),
            reason: "the store is on PostgreSQL; use its own backups, such as `pg_basebackup` with an archive of its log, \
                or `pg_dump`"
                .to_owned(),
        }),
    }
}

/// Restores the store in the folder `from`, which [`back_up`] made, to `location`. Checks it as a whole and migrates it to the
/// current version before it changes anything there. An earlier store is replaced only if `replace` is true, and is kept in a
/// folder beside it, named after `now`. Blocks until everything is on disk; after a crash `location` has the earlier store or the restored one.
///
/// # Errors
/// A daemon has the store at `location` open, there is a store and `replace` is false, `from` holds none or a damaged one, a
/// later release wrote it, or the system refuses. A database on a server is not restored.
pub fn restore(from: &Path, location: &Location, replace: bool, now: Timestamp) -> Result<Restored, Error> {
    match location {
        Location::File(path) => store_sqlite::restore(from, path, replace, now),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Err(Error::Restore {
            place: address.to_string(),
            reason: "the store is on PostgreSQL; use the means of its own backups, such as `pg_restore`"
                .to_owned(),
        }),
    }
}
