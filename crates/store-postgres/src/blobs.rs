//! Large values in the database. They are removed from the texts of rows, stored in chunks by their hashes, and restored when the
//! rows are read.
//!
//! A blob is written in transactions of its own before the event that names it. Each write that names it notes the time, and
//! [`Blobs::delete_unused`] leaves what was named within the last hour.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use uuid::Uuid;
use value::{Blob, BlobSource};

use super::files::StoredBlob;
use super::forms::Hash;
use super::op::params;
use super::reader::{Reader, damaged, get};
use store::Error;
use store::codec::{ExternalValue, ExternalValues, compress, decompress, find_large, in_place, remove};

/// The bytes of a chunk before compression.
pub(super) const CHUNK: usize = store::migration::side::CHUNK_BYTES;
/// The number of callers that write blobs concurrently. Each holds a copy of a value.
const WRITERS: usize = 4;
/// The forms of a stored chunk, by its first byte.
const RAW: u8 = 0;
const COMPRESSED: u8 = 1;

/// The time of the server, so that no clock of a daemon matters.
pub(super) const TOUCH: &str = "UPDATE blobs SET at_ns = (extract(epoch FROM clock_timestamp()) * 1000000000)::int8 \
    WHERE hash = $1 AND stored >= 0 RETURNING stored";
/// The row comes first, so that what a crash leaves is found by it. It is complete once `stored` is known.
pub(super) const BEGIN: &str = "INSERT INTO blobs (hash, length, stored, at_ns) \
    VALUES ($1, $2, -1, (extract(epoch FROM clock_timestamp()) * 1000000000)::int8) \
    ON CONFLICT (hash) DO UPDATE SET at_ns = excluded.at_ns";
pub(super) const PUT: &str =
    "INSERT INTO blob_chunks (hash, no, bytes) VALUES ($1, $2, $3) ON CONFLICT (hash, no) DO NOTHING";
pub(super) const COMPLETE: &str = "UPDATE blobs SET stored = $2 WHERE hash = $1 RETURNING stored";
pub(super) const READ_CHUNK: &str = "SELECT bytes FROM blob_chunks WHERE hash = $1 AND no = $2";
const READ: &str = "SELECT bytes FROM blob_chunks WHERE hash = $1 ORDER BY no";
const CUTS: &str = "SELECT u.first, u.at, u.blob, b.length FROM blob_uses u LEFT JOIN blobs b ON b.hash = u.blob \
    WHERE u.execution = $1 AND u.at >= 0 AND (u.first = 0 OR u.first >= $2) ORDER BY u.first, u.at";
const DELETE_UNUSED: &str = "WITH c AS (SELECT hash FROM blobs b \
      WHERE at_ns < ((extract(epoch FROM clock_timestamp()) - 3600) * 1000000000)::int8 \
        AND NOT EXISTS (SELECT 1 FROM blob_uses u WHERE u.blob = b.hash) ORDER BY hash LIMIT 100 FOR UPDATE), \
    d AS (DELETE FROM blobs b USING c WHERE b.hash = c.hash RETURNING b.hash), \
    p AS (DELETE FROM blob_chunks k USING d WHERE k.hash = d.hash) SELECT count(*) FROM d";

/// The values removed from the rows of an execution, by the first event of the row: offset, hash and length.
pub(super) type Cuts = HashMap<i32, Vec<(usize, Hash, usize)>>;

/// The blobs of a store.
#[derive(Clone, Debug)]
pub(super) struct Blobs {
    reader: Reader,
    threshold: usize,
    turns: Arc<Semaphore>,
}

impl Blobs {
    /// Creates the handle; values of `threshold` bytes or more are stored as blobs.
    pub(super) fn new(reader: Reader, threshold: usize) -> Self {
        Self { reader, threshold: threshold.max(1), turns: Arc::new(Semaphore::new(WRITERS)) }
    }

    /// Returns the least size of a removed value, in bytes.
    pub(super) fn threshold(&self) -> usize {
        self.threshold
    }

    /// Stores the large values of a text, which it removes from it, and the files that the text names.
    pub(super) async fn externalize(
        &self,
        text: &mut String,
        external: &mut ExternalValues<Hash>,
    ) -> Result<(), Error> {
        // The whole cost for a small write.
        if text.len() < self.threshold && external.named.is_empty() {
            return Ok(());
        }
        let _turn = self.turns.acquire().await.map_err(|_| Error::Closed)?;
        if text.len() >= self.threshold {
            let ranges = in_place(|| find_large(text, self.threshold));
            let mut blobs = Vec::with_capacity(ranges.len());
            for range in &ranges {
                blobs.push(self.put_bytes(text.as_bytes()[range.clone()].to_vec()).await?);
            }
            let (left, places) = remove(text, &ranges);
            *text = left;
            external.cuts =
                places.into_iter().zip(blobs).map(|(at, blob)| ExternalValue { at, blob }).collect();
        }
        for file in &external.named {
            external.files.push(self.put_file(file.clone()).await?);
        }
        Ok(())
    }

    async fn put_bytes(&self, content: Vec<u8>) -> Result<Hash, Error> {
        let hash: Hash = Sha256::digest(&content).into();
        if self.touch(&hash).await? {
            return Ok(hash);
        }
        self.begin(&hash, content.len() as u64).await?;
        let mut stored = 0;
        for (no, chunk) in (0_i32..).zip(content.chunks(CHUNK)) {
            stored += self.put_chunk(&hash, no, chunk).await?;
        }
        self.complete(&hash, stored).await?;
        Ok(hash)
    }

    async fn put_file(&self, file: Arc<dyn Blob>) -> Result<Hash, Error> {
        let hash = file.digest();
        if self.touch(&hash).await? {
            return Ok(hash);
        }
        self.begin(&hash, file.length()).await?;
        let (mut stored, mut at, mut digest) = (0, 0_u64, Sha256::new());
        for no in 0_i32.. {
            let source = file.clone();
            let read = tokio::task::spawn_blocking(move || read_chunk(&*source, at));
            let chunk = read.await.map_err(|error| Error::Write { reason: error.to_string() })?;
            let chunk = chunk.map_err(|error| Error::Read { reason: error.to_string() })?;
            if chunk.is_empty() {
                break;
            }
            digest.update(&chunk);
            at += chunk.len() as u64;
            stored += self.put_chunk(&hash, no, &chunk).await?;
        }
        if at != file.length() || digest.finalize()[..] != hash[..] {
            return Err(damaged("a file does not have the content of its hash".to_owned()));
        }
        self.complete(&hash, stored).await?;
        Ok(hash)
    }

    /// Notes that a write is about to name a blob. Returns false if it is not stored.
    async fn touch(&self, hash: &Hash) -> Result<bool, Error> {
        Ok(self.reader.row(TOUCH, params![hash.to_vec()]).await.map_err(write_error)?.is_some())
    }

    async fn begin(&self, hash: &Hash, length: u64) -> Result<(), Error> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        self.reader.rows(BEGIN, params![hash.to_vec(), length]).await.map(drop).map_err(write_error)
    }

    /// Returns the stored size.
    async fn put_chunk(&self, hash: &Hash, no: i32, chunk: &[u8]) -> Result<i64, Error> {
        let bytes = pack(chunk);
        let stored = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        self.reader.rows(PUT, params![hash.to_vec(), no, bytes]).await.map_err(write_error)?;
        Ok(stored)
    }

    async fn complete(&self, hash: &Hash, stored: i64) -> Result<(), Error> {
        self.reader.rows(COMPLETE, params![hash.to_vec(), stored]).await.map(drop).map_err(write_error)
    }

    /// Returns the values removed from the rows of an execution: from its first row, and from those of the events from `from` on.
    pub(super) async fn cuts(&self, id: Uuid, from: i32) -> Result<Cuts, Error> {
        let mut cuts = Cuts::new();
        for row in self.reader.rows(CUTS, params![id, from]).await? {
            let (first, at): (i32, i32) = (get(&row, 0)?, get(&row, 1)?);
            let hash: Vec<u8> = get(&row, 2)?;
            let hash = hash.try_into().map_err(|_| damaged("a hash of a blob is too short".to_owned()))?;
            let length =
                get::<Option<i64>>(&row, 3)?.ok_or_else(|| damaged("a blob is missing".to_owned()))?;
            let length = usize::try_from(length).unwrap_or_default();
            cuts.entry(first).or_default().push((usize::try_from(at).unwrap_or_default(), hash, length));
        }
        Ok(cuts)
    }

    /// Returns the content of a removed value, and verifies its hash.
    pub(super) async fn text(&self, hash: &Hash, length: usize) -> Result<String, Error> {
        let mut content = Vec::new();
        for row in self.reader.rows(READ, params![hash.to_vec()]).await? {
            content.extend(unpack(get(&row, 0)?, length - content.len().min(length))?);
        }
        if content.len() != length || Sha256::digest(&content)[..] != hash[..] {
            return Err(damaged("a blob does not have the content of its hash".to_owned()));
        }
        String::from_utf8(content).map_err(|_| damaged("a blob is not text".to_owned()))
    }

    /// Deletes blobs that no row names, and returns their number.
    pub(super) async fn delete_unused(&self) -> Result<u64, Error> {
        let mut deleted = 0;
        loop {
            let row = self.reader.row(DELETE_UNUSED, Vec::new()).await.map_err(write_error)?;
            let count: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
            if count == 0 {
                return Ok(deleted);
            }
            deleted += u64::try_from(count).unwrap_or_default();
        }
    }
}

impl BlobSource for Blobs {
    fn blob(&self, digest: Hash, length: u64) -> Arc<dyn Blob> {
        Arc::new(StoredBlob::new(self.reader.clone(), digest, length))
    }
}

/// Returns the stored form of a chunk.
pub(super) fn pack(chunk: &[u8]) -> Vec<u8> {
    match compress(chunk) {
        Some(packed) => [&[COMPRESSED], packed.as_slice()].concat(),
        None => [&[RAW], chunk].concat(),
    }
}

/// Returns the content of a stored chunk, which has at most `most` bytes and [`CHUNK`].
pub(super) fn unpack(stored: &[u8], most: usize) -> Result<Vec<u8>, Error> {
    let broken = || damaged("a chunk of a blob cannot be read".to_owned());
    match stored.split_first() {
        Some((&RAW, bytes)) => Ok(bytes.to_vec()),
        Some((&COMPRESSED, bytes)) => decompress(bytes.to_vec(), most.min(CHUNK)).ok_or_else(broken),
        _ => Err(broken()),
    }
}

/// Reads a chunk of a file. Blocks.
fn read_chunk(file: &dyn Blob, at: u64) -> std::io::Result<Vec<u8>> {
    let mut chunk = vec![0; CHUNK];
    let mut length = 0;
    while let Some(rest) = chunk.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(at + length as u64, rest)? {
            0 => break,
            read => length += read,
        }
    }
    chunk.truncate(length);
    Ok(chunk)
}

/// A blob is written on a connection that otherwise reads.
fn write_error(error: Error) -> Error {
    match error {
        Error::Read { reason } => Error::Write { reason },
        error => error,
    }
}
