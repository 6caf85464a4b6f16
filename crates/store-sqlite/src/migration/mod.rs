//! One end of a migration on a SQLite file, under the lock of a daemon.

mod insert;
mod select;

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::automation::Level;
use model::failpoint::{Failpoint, Failpoints};
use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};
use value::{BlobSource as _, FileStorage as _, FileWriter};

use super::blobs::{BlobFiles, Folder};
use super::error_map::{ErrorClass, classify, describe};
use super::paths::{Lock, StorePaths};
use super::pool::read_error;
use super::schema::{self, SCHEMA};
use super::settings;
use super::usage::Usage;
use store::migration::mark::{MOVED, UNFINISHED, check_startable, refused};
use store::migration::record::{BlobRecord, Hash, Kind, Record, Table};
use store::migration::side::{CHUNK_BYTES, Mark, Page, Place, Side, Use, at, hex};
use store::{Error, Options};

/// Every table of a store, and what a migration does with it.
const TABLES: &[Table] = &[
    Table::moved("executions", &[Kind::Ended, Kind::Unfinished]),
    Table::moved("starts", &[Kind::Events]),
    Table::moved("events", &[Kind::Events]),
    Table::moved("logs", &[Kind::Logs]),
    Table::moved("waits", &[Kind::Waits]),
    Table::moved("snapshots", &[Kind::Snapshots]),
    Table::moved("cuts", &[Kind::Events]),
    Table::moved("kept", &[Kind::Events]),
    Table::moved("blobs", &[Kind::Blobs]),
    Table::moved("keys", &[Kind::Keys]),
    Table::moved("sendings", &[Kind::Dedup]),
    Table::moved("definitions", &[Kind::Definitions]),
    Table::moved("definition_texts", &[Kind::Definitions]),
    Table::moved("definition_uses", &[Kind::Definitions]),
    Table::moved("state", &[Kind::State]),
    Table::moved("addresses", &[Kind::Addresses]),
    Table::moved("watermarks", &[Kind::Watermarks]),
    Table::moved("polls", &[Kind::Polls]),
    Table::moved("poll_keys", &[Kind::PollKeys]),
    Table::moved("poll_log", &[Kind::PollLog]),
    Table::moved("subscriptions", &[Kind::Subscriptions]),
    Table::moved("outbox", &[Kind::Outbox]),
    Table::not_moved("meta", "its secret and its version of the state are records; the rest is of this file"),
    Table::not_moved("remains", "rows of executions that are deleted"),
    Table::not_moved("refinery_schema_history", "the version of the tables"),
];

/// The pages after which the log is copied into the file: there is no other connection that does so.
const CHECKPOINT_PAGES: i64 = 4000;

/// A file that no daemon uses.
struct SqliteSide {
    connection: Connection,
    paths: StorePaths,
    folder: Arc<Folder>,
    failpoints: Failpoints,
    /// The compressed value whose chunks are read.
    value: Option<(Hash, String)>,
    writing: Option<Writing>,
    /// The sizes of the files that were written for records that are not written yet.
    stored: HashMap<Hash, u64>,
    _lock: Lock,
}

/// The blob that is being written.
enum Writing {
    /// A removed value, which may be compressed.
    Value(Vec<u8>),
    File(Box<dyn FileWriter>),
}

/// Opens the store at `path` for a migration.
///
/// # Errors
/// A daemon uses the store, its tables have another version, or the system refuses.
pub fn open_side(path: &Path, purpose: Use, failpoints: Failpoints) -> Result<Box<dyn Side>, Error> {
    settings::check_version(rusqlite::version_number(), rusqlite::version())?;
    let paths = StorePaths::new(path);
    if purpose == Use::Target {
        paths.make_directory()?;
    }
    paths.check_file_system()?;
    let mut lock = paths.lock()?;
    let folder = Arc::new(Folder::new(&paths, Usage::default()));
    let connection = match purpose {
        Use::Source => {
            let connection = settings::open_reader(&paths.file)?;
            SCHEMA.check(&connection, &paths.file)?;
            connection
        }
        Use::Target => open_target(&paths, &folder, &mut lock)?,
    };
    let stored = HashMap::new();
    let (value, writing) = (None, None);
    Ok(Box::new(SqliteSide { connection, paths, folder, failpoints, value, writing, stored, _lock: lock }))
}

fn open_target(paths: &StorePaths, folder: &Folder, lock: &mut Lock) -> Result<Connection, Error> {
    let has_content = paths.file.metadata().as_ref().map(Metadata::len).is_ok_and(|bytes| bytes > 0);
    if !has_content && paths.is_occupied() {
        let place = paths.directory.display();
        return Err(refused(format!("there are parts of a store in `{place}`; give another place")));
    }
    paths.make_locked_file(lock)?;
    let mut connection = settings::open_writer(&paths.file, &Options::default())?;
    if schema::is_new(&connection, &paths.file)? {
        SCHEMA.migrate(&mut connection, &paths.file)?;
    }
    SCHEMA.check(&connection, &paths.file)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(read_error)?;
    let opened = |error: std::io::Error| Error::Open { path: paths.file.clone(), reason: error.to_string() };
    folder.take_over().map_err(opened)?;
    Ok(connection)
}

/// Returns an error if no daemon may start on the file, since it was moved or is not complete.
pub(super) fn check_marks(connection: &Connection, file: &Path) -> Result<(), Error> {
    let (moved, unfinished) = (mark(connection, MOVED)?, mark(connection, UNFINISHED)?);
    check_startable(&file.display(), moved.as_deref(), unfinished.as_deref())
}

fn mark(connection: &Connection, name: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    let found = connection.query_row(sql, [name], |row| row.get(0)).optional();
    found.map_err(read_error)
}

#[async_trait]
impl Side for SqliteSide {
    async fn identity(&mut self) -> Result<String, Error> {
        let mut identity = Sha256::new();
        identity.update(schema::made_at(&self.connection).map_err(read_error)?.unwrap_or_default());
        if let Some(secret) = select::secret(&self.connection)? {
            identity.update(secret);
        }
        Ok(hex(&identity.finalize()))
    }

    async fn mark(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        mark(&self.connection, name)
    }

    /// Returns the highest level: the file does not record which levels its definitions have.
    async fn level(&mut self) -> Result<Level, Error> {
        Ok(Level::KNOWN)
    }

    async fn raise_level(&mut self, _level: Level) -> Result<(), Error> {
        Ok(())
    }

    async fn is_empty(&mut self) -> Result<bool, Error> {
        for table in TABLES.iter().filter(|table| table.is_moved()) {
            let sql = format!("SELECT 1 FROM {} LIMIT 1", table.name);
            let found = self.connection.query_row(&sql, [], |_| Ok(())).optional().map_err(read_error)?;
            if found.is_some() {
                return Ok(false);
            }
        }
        Ok(select::secret(&self.connection)?.is_none())
    }

    async fn page(&mut self, kind: Kind, after: &Place) -> Result<Page, Error> {
        select::page(&self.connection, kind, after)
    }

    async fn chunk(&mut self, blob: &BlobRecord, number: u32) -> Result<Vec<u8>, Error> {
        let offset = number as usize * CHUNK_BYTES;
        if blob.is_file {
            let content = BlobFiles(self.folder.clone()).blob(blob.hash, blob.length);
            let mut chunk =
                vec![0; CHUNK_BYTES.min(usize::try_from(blob.length).unwrap_or(usize::MAX) - offset)];
            let mut filled = 0;
            while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                let read = content.read_at((offset + filled) as u64, rest);
                match read.map_err(|error| Error::Read { reason: error.to_string() })? {
                    0 => break,
                    read => filled += read,
                }
            }
            chunk.truncate(filled);
            return Ok(chunk);
        }
        let value = match self.value.take().filter(|(hash, _)| *hash == blob.hash) {
            Some((_, value)) => value,
            None => self.folder.read(&blob.hash, usize::try_from(blob.length).unwrap_or(usize::MAX))?,
        };
        let rest = value.as_bytes().get(offset..).unwrap_or_default();
        let chunk = rest.get(..CHUNK_BYTES).unwrap_or(rest).to_vec();
        self.value = Some((blob.hash, value));
        Ok(chunk)
    }

    async fn begin_blob(&mut self, blob: &BlobRecord) -> Result<bool, Error> {
        let writing = if blob.is_file {
            let file = BlobFiles(self.folder.clone()).create();
            Writing::File(file.map_err(|error| Error::Write { reason: error.to_string() })?)
        } else {
            Writing::Value(Vec::new())
        };
        self.writing = Some(writing);
        Ok(true)
    }

    async fn put_chunk(&mut self, _: &BlobRecord, _: u32, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.writing {
            Some(Writing::Value(value)) => value.extend_from_slice(bytes),
            Some(Writing::File(file)) => {
                file.write(bytes).map_err(|error| Error::Write { reason: error.to_string() })?;
            }
            None => {}
        }
        Ok(())
    }

    async fn end_blob(&mut self, blob: &BlobRecord) -> Result<(), Error> {
        let pin = match self.writing.take() {
            Some(Writing::Value(value)) => self.folder.put(&value)?,
            Some(Writing::File(file)) => {
                // Kept until it has its final name.
                let _content = file.finish().map_err(|error| Error::Write { reason: error.to_string() })?;
                let files = BlobFiles(self.folder.clone());
                let content = files.blob(blob.hash, blob.length);
                files.settle(&content)?
            }
            None => return Ok(()),
        };
        self.stored.insert(blob.hash, pin.stored());
        Ok(())
    }

    async fn write(&mut self, records: &[Record], mark: &Mark) -> Result<(), Error> {
        let stored = std::mem::take(&mut self.stored);
        if self.connection.is_readonly("main").map_err(read_error)? {
            // Until now the source was only read.
            self.connection = settings::open_writer(&self.paths.file, &Options::default())?;
        }
        let transaction = self.connection.transaction().map_err(write_error)?;
        insert::records(&transaction, records, &stored)?;
        let (name, text) = mark;
        match text {
            Some(text) => {
                let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) \
                    ON CONFLICT DO UPDATE SET value = excluded.value";
                transaction.execute(sql, params![name, text]).map_err(write_error)?;
            }
            None => {
                transaction.execute("DELETE FROM meta WHERE name = ?1", [name]).map_err(write_error)?;
            }
        }
        at(&self.failpoints, Failpoint::BeforeCommit)?;
        transaction.commit().map_err(write_error)?;
        at(&self.failpoints, Failpoint::AfterCommit)
    }

    async fn finish(&mut self) -> Result<(), Error> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.query_row(checkpoint, [], |_| Ok(())).map_err(write_error)?;
        super::paths::sync_directory(&self.paths.directory)
            .map_err(|error| Error::Write { reason: error.to_string() })
    }
}

/// Converts an error of a transaction, which is rolled back.
pub(super) fn write_error(error: rusqlite::Error) -> Error {
    match classify(&error) {
        ErrorClass::Full => Error::Full,
        ErrorClass::Busy => Error::Busy,
        ErrorClass::ReadOnly | ErrorClass::Refused | ErrorClass::Fatal | ErrorClass::Other => {
            Error::Write { reason: describe(&error) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_migrated_or_listed_with_a_reason() {
        let connection = schema::in_memory();
        let mut tables = connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
            .expect("it is a query");
        let found = tables.query_map([], |row| row.get(0)).expect("they are listed");
        let found: Vec<String> = found.collect::<Result<_, _>>().expect("they are listed");
        let mut listed: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        listed.sort_unstable();
        assert_eq!(found, listed, "add a new table to `TABLES`, and its records to the migration");
        store::migration::record::check_reasons(TABLES);
    }
}
