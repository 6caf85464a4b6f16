//! Files of values, such as a large upload. They arrive on the local disk, and move to the database before an event names them.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Result as IoResult, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use value::{Blob, Data, ExternalBytes, FileStorage, FileWriter};

use super::blobs::{CHUNK, READ_CHUNK, unpack};
use super::forms::Hash;
use super::op::params;
use super::reader::{Reader, get};

/// The folder in which files arrive. The next start deletes what a crash leaves in it.
#[derive(Clone, Debug)]
pub(super) struct Spool(Arc<PathBuf>);

impl Spool {
    /// Creates the handle, and deletes what an earlier process left. The folder itself is created on demand.
    pub(super) fn new(folder: &Path) -> IoResult<Self> {
        let path = folder.join("arriving");
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(Self(Arc::new(path))),
        }
    }
}

impl FileStorage for Spool {
    fn create(&self) -> IoResult<Box<dyn FileWriter>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&*self.0)?;
        let path = self.0.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        Ok(Box::new(Arriving { file: Spooled { file, path }, hash: Sha256::new(), length: 0 }))
    }
}

/// A file on the local disk, which is deleted when it is dropped.
#[derive(Debug)]
struct Spooled {
    file: File,
    path: PathBuf,
}

impl Drop for Spooled {
    fn drop(&mut self) {
        // If it cannot be deleted, the next start does so.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A file that is being written.
struct Arriving {
    file: Spooled,
    hash: Sha256,
    length: u64,
}

impl FileWriter for Arriving {
    fn write(&mut self, bytes: &[u8]) -> IoResult<()> {
        self.file.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> IoResult<Data> {
        let Self { file, hash, length } = *self;
        Ok(Data::from(ExternalBytes::new(Arc::new(LocalBlob { file, hash: hash.finalize().into(), length }))))
    }
}

/// A file that arrived and is on the local disk.
#[derive(Debug)]
struct LocalBlob {
    file: Spooled,
    hash: Hash,
    length: u64,
}

impl Blob for LocalBlob {
    fn digest(&self) -> Hash {
        self.hash
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> IoResult<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&self.file.file, buffer, offset);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&self.file.file, buffer, offset);
        read
    }
}

/// A file in the database.
#[derive(Debug)]
pub(super) struct StoredBlob {
    reader: Reader,
    hash: Hash,
    length: u64,
    /// The chunk that was read last: most reads go on where the last one ended.
    chunk: Mutex<Option<(u64, Vec<u8>)>>,
}

impl StoredBlob {
    pub(super) fn new(reader: Reader, hash: Hash, length: u64) -> Self {
        Self { reader, hash, length, chunk: Mutex::default() }
    }

    fn read_chunk(&self, no: u64) -> IoResult<Vec<u8>> {
        let number = i32::try_from(no).map_err(IoError::other)?;
        let rows = self.reader.rows_blocking(READ_CHUNK, params![self.hash.to_vec(), number]);
        let rows = rows.map_err(IoError::other)?;
        let row = rows
            .first()
            .ok_or_else(|| IoError::new(ErrorKind::NotFound, "a blob is missing in the database"))?;
        let left = usize::try_from(self.length - no * CHUNK as u64).map_err(IoError::other)?;
        let stored = get(row, 0).map_err(IoError::other)?;
        unpack(stored, left).map_err(IoError::other)
    }
}

impl Blob for StoredBlob {
    fn digest(&self) -> Hash {
        self.hash
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> IoResult<usize> {
        if offset >= self.length {
            return Ok(0);
        }
        let (no, within) = (offset / CHUNK as u64, offset % CHUNK as u64);
        let mut kept = self.chunk.lock().unwrap_or_else(PoisonError::into_inner);
        let chunk = match kept.take().filter(|(kept, _)| *kept == no) {
            Some((_, chunk)) => chunk,
            None => self.read_chunk(no)?,
        };
        let from = usize::try_from(within).map_err(IoError::other)?;
        let part = chunk.get(from..).unwrap_or_default();
        let count = part.len().min(buffer.len());
        buffer.iter_mut().zip(part).for_each(|(byte, read)| *byte = *read);
        *kept = Some((no, chunk));
        Ok(count)
    }
}
