//! Large values: cut out of the texts of rows, kept in files that are named by what they hold, and put back when the
//! rows are read.

mod compress;
mod externalize;
mod file;
mod folder;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use model::ExecutionId;
use model::value::Content;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::Semaphore;

use super::encode::{WriteOp, WriteResult};
use super::pool::{Pool, read_error};
use super::queue::{QUEUE_BYTES, Queue};
use super::read::corrupt;
use super::write::WriteError;
use super::{check, schema};
use crate::Error;

pub(super) use file::BlobFiles;
pub(super) use folder::{Folder, Hash, Pin, lock_for_copy};

/// How many callers write blobs at one time; each holds its value once more, compressed.
const WRITERS: usize = 4;

/// How many rows of blobs one step deletes.
const STEP_ROWS: u32 = 500;

/// What of a row is in files.
#[derive(Debug, Default)]
pub(super) struct ExternalValues {
    /// What was cut out of its text.
    pub(super) cuts: Vec<ExternalValue>,
    /// What its text names of files, and the blobs of these once they are in their places.
    pub(super) named: Vec<Arc<dyn Content>>,
    pub(super) files: Vec<Arc<Pin>>,
}

impl ExternalValues {
    /// Of a row whose text names these.
    pub(super) fn naming(named: Vec<Arc<dyn Content>>) -> Self {
        Self { named, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cuts.is_empty() && self.files.is_empty()
    }
}

/// A value that was cut out of a row's text.
#[derive(Debug)]
pub(super) struct ExternalValue {
    /// Where it is to be put back.
    pub(super) at: usize,
    /// Its blob, which stays at least until the row is committed.
    pub(super) blob: Arc<Pin>,
}

/// What takes large values out of rows before they are queued.
#[derive(Debug)]
pub(super) struct Externalizer {
    folder: Arc<Folder>,
    threshold: usize,
    turns: Semaphore,
}

impl Externalizer {
    /// One that cuts out what has so many bytes or more.
    pub(super) fn new(folder: Arc<Folder>, threshold: usize) -> Self {
        Self { folder, threshold: threshold.max(1), turns: Semaphore::new(WRITERS) }
    }

    /// How many bytes a value has at least that is cut out.
    pub(super) fn threshold(&self) -> usize {
        self.threshold
    }

    /// Moves the large values of this work into blobs, and the files that it names to their places. All of them are on disk
    /// when it returns.
    ///
    /// # Errors
    /// Those of [`Folder::put`].
    pub(super) async fn cut(&self, mut work: WriteOp) -> Result<WriteOp, Error> {
        // All that a small write pays.
        if work.texts().all(|(text, external)| text.len() < self.threshold && external.named.is_empty()) {
            return Ok(work);
        }
        // Refused as a whole, which the queue says.
        if work.bytes() > QUEUE_BYTES {
            return Ok(work);
        }
        let _turn = self.turns.acquire().await.map_err(|_| Error::Closed)?;
        let (folder, threshold) = (self.folder.clone(), self.threshold);
        let cutting = tokio::task::spawn_blocking(move || {
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
) -> Result<Vec<ExternalValue>, Error> {
    if text.len() < threshold {
        return Ok(Vec::new());
    }
    let ranges = externalize::find_large(text, threshold);
    let blobs = ranges.iter().map(|range| folder.put(&text.as_bytes()[range.clone()]));
    let blobs = blobs.collect::<Result<Vec<_>, _>>()?;
    let (left, places) = externalize::remove(text, &ranges);
    *text = left;
    Ok(places.into_iter().zip(blobs).map(|(at, blob)| ExternalValue { at, blob }).collect())
}

/// Notes in the open transaction what was cut out of a row, and that its blobs are used.
pub(super) fn insert_references(
    connection: &Connection,
    execution: ExecutionId,
    first: u32,
    external: &ExternalValues,
) -> rusqlite::Result<()> {
    if external.is_empty() {
        return Ok(());
    }
    let mut paths =
        connection.prepare_cached("INSERT INTO cuts (execution, first, at, blob) VALUES (?1, ?2, ?3, ?4)")?;
    let mut keep =
        connection.prepare_cached("INSERT INTO kept (execution, first, blob) VALUES (?1, ?2, ?3)")?;
    let mut added = 0;
    for ExternalValue { at, blob } in &external.cuts {
        added += count_use(connection, blob, false)?;
        paths.execute(params![execution.as_bytes(), first, signed(*at), blob.hash])?;
    }
    for blob in &external.files {
        added += count_use(connection, blob, true)?;
        keep.execute(params![execution.as_bytes(), first, blob.hash])?;
    }
    count_bytes(connection, added)
}

/// Counts one more use of a blob, and gives how many bytes of files that adds.
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

/// What is cut out of the rows of an execution: by the row's first event, where it goes and what it is.
pub(super) type References = HashMap<u32, Vec<(usize, Hash, usize)>>;

/// What is cut out of the rows of an execution.
pub(super) fn references(connection: &Connection, execution: ExecutionId) -> rusqlite::Result<References> {
    let mut statement = connection.prepare_cached(
        "SELECT first, at, blob, length FROM cuts LEFT JOIN blobs ON hash = blob \
         WHERE execution = ?1 ORDER BY first, at",
    )?;
    let mut rows = statement.query([execution.as_bytes()])?;
    let mut places = References::new();
    while let Some(row) = rows.next()? {
        let blob = (row.get::<_, u32>(1)? as usize, row.get(2)?, row.get::<_, u32>(3)? as usize);
        places.entry(row.get(0)?).or_default().push(blob);
    }
    Ok(places)
}

/// The text of a row as it was before this was cut out of it.
///
/// # Errors
/// [`Error::RecordDamaged`] if a blob is missing or damaged, or does not fit.
pub(super) fn restore(folder: &Folder, text: &str, cuts: &[(usize, Hash, usize)]) -> Result<String, Error> {
    let read = |(at, hash, length): &(usize, Hash, usize)| Ok((*at, folder.read(hash, *length)?));
    let parts = cuts.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
    externalize::restore(text, &parts)
        .ok_or_else(|| corrupt("a place of a blob is none of its row's".to_owned()))
}

/// Deletes some of what was kept apart of a deleted execution's rows, and gives how much that was.
pub(super) fn delete_references(
    connection: &Connection,
    execution: &[u8; 16],
    limit: usize,
) -> rusqlite::Result<usize> {
    match delete_cuts(connection, execution, limit)? {
        0 => delete_file_references(connection, execution, limit),
        gone => Ok(gone),
    }
}

/// Deletes some of what a deleted execution's rows named of files.
fn delete_file_references(
    connection: &Connection,
    execution: &[u8; 16],
    limit: usize,
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM kept WHERE (execution, first, blob) IN ( \
               SELECT execution, first, blob FROM kept WHERE execution = ?1 LIMIT ?2) RETURNING blob";
    delete_uses(connection, sql, execution, limit)
}

/// Deletes some of what was cut out of them.
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
    let mut gone = connection.prepare_cached(sql)?;
    let blobs = gone.query_map(params![execution, signed(limit)], |row| row.get::<_, Hash>(0))?;
    let blobs = blobs.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut unuse = connection.prepare_cached("UPDATE blobs SET uses = uses - 1 WHERE hash = ?1")?;
    for blob in &blobs {
        unuse.execute([blob])?;
    }
    Ok(blobs.len())
}

/// Deletes some rows of blobs that nothing uses, but for those that a write on its way will use. Answered with those that
/// went, whose files are to go now.
pub(super) fn delete_unused(connection: &Connection, folder: &Folder) -> Result<WriteResult, WriteError> {
    let mut unused = connection.prepare_cached("SELECT hash FROM blobs WHERE uses = 0")?;
    let mut delete = connection.prepare_cached("DELETE FROM blobs WHERE hash = ?1 RETURNING stored")?;
    let mut rows = unused.query([])?;
    let (mut gone, mut bytes) = (Vec::new(), 0);
    while gone.len() < STEP_ROWS as usize
        && let Some(row) = rows.next()?
    {
        let hash: Hash = row.get(0)?;
        if !folder.is_pinned(&hash) {
            gone.push(hash);
        }
    }
    drop(rows);
    for hash in &gone {
        bytes -= delete.query_row([hash], |row| row.get::<_, i64>(0))?;
    }
    count_bytes(connection, bytes)?;
    Ok(WriteResult::DeletedBlobs(gone))
}

/// Deletes the blobs that nothing uses. Nothing happens while somebody copies the folder.
pub(super) async fn delete_unused_files(
    queue: &Queue,
    pool: &Arc<Pool>,
    folder: &Arc<Folder>,
) -> Result<(), Error> {
    let Some(right) = folder.deleting().map_err(|error| write_error(&error))? else { return Ok(()) };
    let mut right = right;
    loop {
        let WriteResult::DeletedBlobs(gone) = queue.write(WriteOp::DeleteBlobRows).await? else {
            return Ok(());
        };
        if gone.is_empty() {
            return Ok(());
        }
        let folder = folder.clone();
        right = pool
            .read(move |connection| {
                for hash in &gone {
                    folder.delete_unless(hash, || is_named(connection, hash), &right)?;
                }
                Ok(right)
            })
            .await?;
    }
}

/// Deletes files that no row names, which a crash between a blob and its row leaves, and gives how many went. Before the
/// first of them goes, the table that would name them is checked as a whole. A file that is older than the store is not
/// its own, and stays.
pub(super) async fn delete_strays(pool: &Arc<Pool>, folder: &Arc<Folder>) -> Result<u64, Error> {
    let Some(right) = folder.deleting().map_err(|error| write_error(&error))? else { return Ok(0) };
    let mut right = right;
    let (mut gone, mut foreign, mut made_at) = (0, 0, None);
    for index in 0..=u8::MAX {
        let folder = folder.clone();
        // One part at a time, so that other reads have their turns.
        let part = pool.read(move |connection| {
            let mut strays = 0;
            for hash in folder.part(index).map_err(|error| write_error(&error))? {
                if is_named(connection, &hash)? {
                    continue;
                }
                let made_at = match made_at {
                    Some(made_at) => made_at,
                    None => *made_at.insert(intact_since(connection)?),
                };
                if folder.is_older(&hash, made_at) {
                    foreign += 1;
                    continue;
                }
                let deleted = folder.delete_unless(&hash, || is_named(connection, &hash), &right)?;
                strays += u64::from(deleted);
            }
            Ok((strays, foreign, made_at, right))
        });
        let strays;
        (strays, foreign, made_at, right) = part.await?;
        gone += strays;
    }
    if foreign > 0 {
        tracing::warn!(
            files = foreign,
            "large values in the folder of blobs are older than the store and named by nothing in it; they are kept, since another store may have written them"
        );
    }
    Ok(gone)
}

/// When the store was made, once what it says of its blobs is checked as a whole.
fn intact_since(connection: &Connection) -> Result<SystemTime, Error> {
    check::of_table(connection, "blobs")?;
    for table in ["cuts", "kept"] {
        let sql = format!("SELECT 1 FROM {table} WHERE blob NOT IN (SELECT hash FROM blobs) LIMIT 1");
        if connection.query_row(&sql, [], |_| Ok(())).optional().map_err(read_error)?.is_some() {
            return Err(corrupt(format!("rows of `blobs` that `{table}` names are missing")));
        }
    }
    let made_at = schema::made_at(connection).map_err(read_error)?;
    let made_at = made_at.and_then(|made_at| made_at.parse::<Timestamp>().ok());
    // Where it does not say, every file is older.
    Ok(made_at.map_or_else(|| Timestamp::MAX.into(), SystemTime::from))
}

fn is_named(connection: &Connection, hash: &Hash) -> Result<bool, Error> {
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
