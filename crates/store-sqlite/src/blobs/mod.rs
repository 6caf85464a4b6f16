//! Large values. They are removed from the texts of rows, stored in files named by their hashes, and restored when the rows
//! are read.

mod file;
mod folder;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use model::ExecutionId;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::Semaphore;

use super::encode::{WriteOp, WriteResult};
use super::pool::{Pool, read_error};
use super::queue::{QUEUE_BYTES, Queue};
use super::read::corrupt;
use super::write::WriteError;
use super::{check, schema};
use store::Error;
use store::codec::{ExternalValue, find_large, remove, restore as restore_text};

pub(super) use file::BlobFiles;
pub(super) use folder::{Folder, Hash, Pin, lock_for_copy};

/// The number of callers that write blobs concurrently. Each holds a compressed copy of its value.
const WRITERS: usize = 4;

/// Maximum number of rows of blobs that one transaction deletes.
const STEP_ROWS: u32 = 500;

/// The parts of a row that are in files. Each blob is pinned until the row is committed.
pub(super) type ExternalValues = store::codec::ExternalValues<Arc<Pin>>;

/// Moves large values of rows into blobs before the rows are queued.
#[derive(Debug)]
pub(super) struct Externalizer {
    folder: Arc<Folder>,
    threshold: usize,
    turns: Semaphore,
}

impl Externalizer {
    /// Creates one that moves values of `threshold` bytes or more.
    pub(super) fn new(folder: Arc<Folder>, threshold: usize) -> Self {
        Self { folder, threshold: threshold.max(1), turns: Semaphore::new(WRITERS) }
    }

    /// Returns the least size of a moved value, in bytes.
    pub(super) fn threshold(&self) -> usize {
        self.threshold
    }

    /// Moves the large values of an operation into blobs, and renames the files that it names to their final paths. All of
    /// them are synced when it returns.
    ///
    /// # Errors
    /// The errors of [`Folder::put`].
    pub(super) async fn cut(&self, mut work: WriteOp) -> Result<WriteOp, Error> {
        // The whole cost for a small write.
        if work.texts().all(|(text, external)| text.len() < self.threshold && external.named.is_empty()) {
            return Ok(work);
        }
        // The queue refuses it.
        if work.bytes() > QUEUE_BYTES {
            return Ok(work);
        }
        let _turn = self.turns.acquire().await.map_err(|_| Error::Closed)?;
        let (folder, threshold) = (self.folder.clone(), self.threshold);
        let cutting = allocator::large_work(move || {
            let contents = BlobFiles(folder);
            for (text, external) in work.texts() {
                external.cuts = externalize_text(&contents.0, text, threshold)?;
                let files = external.named.iter().map(|content| contents.settle(content));
                external.files = files.collect::<Result<_, _>>()?;
            }
            Ok(work)
        });
        cutting.await.map_err(|error| Error::Write { reason: error.to_string() })?
    }
}

fn externalize_text(
    folder: &Folder,
    text: &mut String,
    threshold: usize,
) -> Result<Vec<ExternalValue<Arc<Pin>>>, Error> {
    if text.len() < threshold {
        return Ok(Vec::new());
    }
    let ranges = find_large(text, threshold);
    let blobs = ranges.iter().map(|range| folder.put(&text.as_bytes()[range.clone()]));
    let blobs = blobs.collect::<Result<Vec<_>, _>>()?;
    let (left, places) = remove(text, &ranges);
    *text = left;
    Ok(places.into_iter().zip(blobs).map(|(at, blob)| ExternalValue { at, blob }).collect())
}

/// Inserts the references of a row to its blobs in the open transaction.
pub(super) fn insert_references(
    connection: &Connection,
    execution: ExecutionId,
    first: u32,
    external: &ExternalValues,
) -> rusqlite::Result<()> {
    if external.is_empty() {
        return Ok(());
    }
    let mut insert_cut =
        connection.prepare_cached("INSERT INTO cuts (execution, first, at, blob) VALUES (?1, ?2, ?3, ?4)")?;
    let mut insert_file =
        connection.prepare_cached("INSERT INTO kept (execution, first, blob) VALUES (?1, ?2, ?3)")?;
    let mut added = 0;
    for ExternalValue { at, blob } in &external.cuts {
        added += count_use(connection, blob, false)?;
        insert_cut.execute(params![execution.as_bytes(), first, signed(*at), blob.hash])?;
    }
    for blob in &external.files {
        added += count_use(connection, blob, true)?;
        insert_file.execute(params![execution.as_bytes(), first, blob.hash])?;
    }
    count_bytes(connection, added)
}

/// Increments the reference count of a blob, and returns the bytes of files that this adds.
fn count_use(connection: &Connection, blob: &Pin, is_file: bool) -> rusqlite::Result<i64> {
    let mut reuse = connection
        .prepare_cached("UPDATE blobs SET uses = uses + 1, is_file = max(is_file, ?2) WHERE hash = ?1")?;
    if reuse.execute(params![blob.hash, is_file])? > 0 {
        return Ok(0);
    }
    let stored = signed(blob.stored());
    connection
        .prepare_cached("INSERT INTO blobs (hash, length, stored, uses, is_file) VALUES (?1, ?2, ?3, 1, ?4)")?
        .execute(params![blob.hash, signed(blob.length), stored, is_file])?;
    Ok(stored)
}

/// The values removed from the rows of an execution, by the first event of the row: offset, hash and length.
pub(super) type References = HashMap<u32, Vec<(usize, Hash, usize)>>;

/// Returns the values removed from the rows of an execution: from its first row, and from those of the events from `from` on.
pub(super) fn references(
    connection: &Connection,
    execution: ExecutionId,
    from: u32,
) -> rusqlite::Result<References> {
    let mut statement = connection.prepare_cached(
        "SELECT first, at, blob, length FROM cuts LEFT JOIN blobs ON hash = blob \
         WHERE execution = ?1 AND (first = 0 OR first >= ?2) ORDER BY first, at",
    )?;
    let mut rows = statement.query(params![execution.as_bytes(), from])?;
    let mut places = References::new();
    while let Some(row) = rows.next()? {
        let blob = (row.get::<_, u32>(1)? as usize, row.get(2)?, row.get::<_, u32>(3)? as usize);
        places.entry(row.get(0)?).or_default().push(blob);
    }
    Ok(places)
}

/// Restores the text of a row.
///
/// # Errors
/// [`Error::RecordDamaged`] if a blob is missing or damaged, or does not fit.
pub(super) fn restore(folder: &Folder, text: &str, cuts: &[(usize, Hash, usize)]) -> Result<String, Error> {
    let read = |(at, hash, length): &(usize, Hash, usize)| Ok((*at, folder.read(hash, *length)?));
    let parts = cuts.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
    restore_text(text, &parts).ok_or_else(|| corrupt("the offset of a blob is not in its row".to_owned()))
}

/// Deletes some of the references of a deleted execution to blobs, and returns their number.
pub(super) fn delete_references(
    connection: &Connection,
    execution: &[u8; 16],
    limit: usize,
) -> rusqlite::Result<usize> {
    match delete_cuts(connection, execution, limit)? {
        0 => delete_file_references(connection, execution, limit),
        deleted => Ok(deleted),
    }
}

/// Deletes some of the references of a deleted execution to files.
fn delete_file_references(
    connection: &Connection,
    execution: &[u8; 16],
    limit: usize,
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM kept WHERE (execution, first, blob) IN ( \
               SELECT execution, first, blob FROM kept WHERE execution = ?1 LIMIT ?2) RETURNING blob";
    delete_uses(connection, sql, execution, limit)
}

/// Deletes some of the references of a deleted execution to removed values.
fn delete_cuts(connection: &Connection, execution: &[u8; 16], limit: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM cuts WHERE (execution, first, at) IN ( \
               SELECT execution, first, at FROM cuts WHERE execution = ?1 ORDER BY first, at LIMIT ?2) RETURNING blob";
    delete_uses(connection, sql, execution, limit)
}

fn delete_uses(
    connection: &Connection,
    sql: &str,
    execution: &[u8; 16],
    limit: usize,
) -> rusqlite::Result<usize> {
    let mut deleted = connection.prepare_cached(sql)?;
    let blobs = deleted.query_map(params![execution, signed(limit)], |row| row.get::<_, Hash>(0))?;
    let blobs = blobs.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut unuse = connection.prepare_cached("UPDATE blobs SET uses = uses - 1 WHERE hash = ?1")?;
    for blob in &blobs {
        unuse.execute([blob])?;
    }
    Ok(blobs.len())
}

/// Deletes some rows of unused blobs, except pinned ones, which a queued write will use. Returns the deleted ones, whose
/// files are to be deleted next.
pub(super) fn delete_unused(connection: &Connection, folder: &Folder) -> Result<WriteResult, WriteError> {
    let mut unused = connection.prepare_cached("SELECT hash FROM blobs WHERE uses = 0")?;
    let mut delete = connection.prepare_cached("DELETE FROM blobs WHERE hash = ?1 RETURNING stored")?;
    let mut rows = unused.query([])?;
    let (mut deleted, mut bytes) = (Vec::new(), 0);
    while deleted.len() < STEP_ROWS as usize
        && let Some(row) = rows.next()?
    {
        let hash: Hash = row.get(0)?;
        if !folder.is_pinned(&hash) {
            deleted.push(hash);
        }
    }
    drop(rows);
    for hash in &deleted {
        bytes -= delete.query_row([hash], |row| row.get::<_, i64>(0))?;
    }
    count_bytes(connection, bytes)?;
    Ok(WriteResult::DeletedBlobs(deleted))
}

/// Deletes unused blobs. Does nothing while a backup copies the folder.
pub(super) async fn delete_unused_files(
    queue: &Queue,
    pool: &Arc<Pool>,
    folder: &Arc<Folder>,
) -> Result<(), Error> {
    let Some(lock) = folder.deleting().map_err(|error| write_error(&error))? else { return Ok(()) };
    let mut lock = lock;
    loop {
        let WriteResult::DeletedBlobs(deleted) = queue.write(WriteOp::DeleteBlobRows).await? else {
            return Ok(());
        };
        if deleted.is_empty() {
            return Ok(());
        }
        let folder = folder.clone();
        lock = pool
            .read(move |connection| {
                for hash in &deleted {
                    folder.delete_unless(hash, || is_referenced(connection, hash), &lock)?;
                }
                Ok(lock)
            })
            .await?;
    }
}

/// Deletes files that no row names, which a crash between a blob and its row leaves. Returns their number.
///
/// Before the first deletion it checks the whole table that would name them. It keeps files that are older than the store,
/// since the store cannot have written them.
pub(super) async fn delete_strays(pool: &Arc<Pool>, folder: &Arc<Folder>) -> Result<u64, Error> {
    let Some(lock) = folder.deleting().map_err(|error| write_error(&error))? else { return Ok(0) };
    let mut lock = lock;
    let (mut deleted, mut foreign, mut made_at) = (0, 0, None);
    for index in 0..=u8::MAX {
        let folder = folder.clone();
        // One part at a time, so that other reads can run between.
        let part = pool.read(move |connection| {
            let mut strays = 0;
            for hash in folder.part(index).map_err(|error| write_error(&error))? {
                if is_referenced(connection, &hash)? {
                    continue;
                }
                let made_at = match made_at {
                    Some(made_at) => made_at,
                    None => *made_at.insert(check_tables(connection)?),
                };
                if folder.is_older(&hash, made_at) {
                    foreign += 1;
                    continue;
                }
                let deleted = folder.delete_unless(&hash, || is_referenced(connection, &hash), &lock)?;
                strays += u64::from(deleted);
            }
            Ok((strays, foreign, made_at, lock))
        });
        let strays;
        (strays, foreign, made_at, lock) = part.await?;
        deleted += strays;
    }
    if foreign > 0 {
        tracing::warn!(
            files = foreign,
            "large values in the folder of blobs are older than the store and named by nothing in it; they are kept, since another store may have written them"
        );
    }
    Ok(deleted)
}

/// Checks the tables of blobs, and returns the creation time of the store.
fn check_tables(connection: &Connection) -> Result<SystemTime, Error> {
    check::of_table(connection, "blobs")?;
    for table in ["cuts", "kept"] {
        let sql = format!("SELECT 1 FROM {table} WHERE blob NOT IN (SELECT hash FROM blobs) LIMIT 1");
        if connection.query_row(&sql, [], |_| Ok(())).optional().map_err(read_error)?.is_some() {
            return Err(corrupt(format!("rows of `blobs` that `{table}` refers to are missing")));
        }
    }
    let made_at = schema::made_at(connection).map_err(read_error)?;
    let made_at = made_at.and_then(|made_at| made_at.parse::<Timestamp>().ok());
    // Without a creation time, every file counts as older.
    Ok(made_at.map_or_else(|| Timestamp::MAX.into(), SystemTime::from))
}

fn is_referenced(connection: &Connection, hash: &Hash) -> Result<bool, Error> {
    let row = connection
        .prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")
        .and_then(|mut statement| statement.query_row([hash], |_| Ok(())).optional());
    row.map(|row| row.is_some()).map_err(read_error)
}

fn count_bytes(connection: &Connection, added: i64) -> rusqlite::Result<()> {
    if added != 0 {
        let sql = "UPDATE meta SET value = value + ?1 WHERE name = 'blobBytes'";
        connection.prepare_cached(sql)?.execute([added])?;
    }
    Ok(())
}

fn write_error(error: &std::io::Error) -> Error {
    Error::Write { reason: format!("the folder of blobs: {error}") }
}

fn signed<N: TryInto<i64>>(number: N) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
