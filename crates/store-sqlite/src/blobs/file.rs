//! Files of values, such as a large upload, stored as uncompressed blobs.
//!
//! A file is written in chunks while it arrives, under a temporary name. It is synced and renamed just before the first row
//! that names it is queued; before, it is deleted with the last value that refers to it. It is never compressed, so that any
//! part can be read directly.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Result as IoResult, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sha2::{Digest as _, Sha256};
use value::{Blob, BlobSource, Data, ExternalBytes, FileStorage, FileWriter, damaged};

use super::folder::{Folder, Hash, Pin};
use store::Error;
use store::regular;

/// The files of a folder of blobs.
#[derive(Clone, Debug)]
pub(in super::super) struct BlobFiles(pub(in super::super) Arc<Folder>);

/// A file of the store, or one that may become one.
#[derive(Debug)]
pub(in super::super) struct FileBlob {
    folder: Arc<Folder>,
    pin: Arc<Pin>,
    /// The temporary path, until it is renamed.
    fresh: Mutex<Option<PathBuf>>,
    opened: OnceLock<File>,
}

impl BlobFiles {
    /// Returns the pinned blob of a content, synced under its final name. Copies the content of another store. Blocks.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no space. [`Error::Commit`] if the disk fails otherwise. [`Error::RecordDamaged`] if it is
    /// missing.
    pub(in super::super) fn settle(&self, content: &Arc<dyn Blob>) -> Result<Arc<Pin>, Error> {
        let own = match self.0.content(&content.digest()) {
            Some(own) => own,
            None => self.copy(content).map_err(|error| Error::Read { reason: error.to_string() })?,
        };
        own.settle()
    }

    /// Copies a content into this store, and verifies its hash. Blocks.
    pub(in super::super) fn copy(&self, content: &Arc<dyn Blob>) -> IoResult<Arc<FileBlob>> {
        let mut fresh = IncomingFile::begin(&self.0)?;
        let source = Data::from(ExternalBytes::new(content.clone()));
        let mut written = Ok(());
        source.for_each_chunk(|piece| {
            if written.is_ok() {
                written = fresh.write(piece);
            }
        })?;
        written?;
        let copy = fresh.end()?;
        if copy.digest() == content.digest() { Ok(copy) } else { Err(damaged()) }
    }
}

impl FileStorage for BlobFiles {
    fn create(&self) -> IoResult<Box<dyn FileWriter>> {
        Ok(Box::new(IncomingFile::begin(&self.0)?))
    }
}

impl BlobSource for BlobFiles {
    fn blob(&self, digest: [u8; 32], length: u64) -> Arc<dyn Blob> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.0.content_or(digest, || FileBlob {
            folder: self.0.clone(),
            pin: self.0.pin(digest, length),
            fresh: Mutex::default(),
            opened: OnceLock::new(),
        })
    }
}

impl FileBlob {
    /// Syncs and renames the file if that is not done yet, and pins it. Blocks.
    fn settle(&self) -> Result<Arc<Pin>, Error> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let placed = match &*fresh {
            Some(path) => self.pin.place(&self.folder, path),
            None => self.pin.find(&self.folder),
        };
        placed.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full,
            ErrorKind::NotFound => Error::RecordDamaged { detail: format!("a referenced blob: {error}") },
            _ => Error::Commit { reason: format!("a blob: {error}") },
        })?;
        *fresh = None;
        Ok(self.pin.clone())
    }

    fn open(&self) -> IoResult<&File> {
        if let Some(file) = self.opened.get() {
            return Ok(file);
        }
        let file = regular::open_to_read(&self.folder.file(&self.pin.hash))?;
        if file.metadata()?.len() != self.length() {
            return Err(damaged());
        }
        // Another thread may have opened it first.
        Ok(self.opened.get_or_init(|| file))
    }
}

impl Blob for FileBlob {
    fn digest(&self) -> [u8; 32] {
        self.pin.hash
    }

    fn length(&self) -> u64 {
        self.pin.length as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> IoResult<usize> {
        let file = self.open()?;
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(file, buffer, at);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(file, buffer, at);
        read
    }
}

impl Drop for FileBlob {
    fn drop(&mut self) {
        let fresh = self.fresh.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = fresh.take() {
            // No row names it. If it cannot be deleted, the next start does so.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A file that is being written.
struct IncomingFile {
    folder: Arc<Folder>,
    path: PathBuf,
    file: Option<File>,
    hash: Sha256,
    length: u64,
}

impl IncomingFile {
    fn begin(folder: &Arc<Folder>) -> IoResult<Self> {
        // Only one process uses the folder, and it empties this part at its start.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let directory = folder.make_unnamed()?;
        let path = directory.join(format!("arriving-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = Some(options.open(&path)?);
        Ok(Self { folder: folder.clone(), path, file, hash: Sha256::new(), length: 0 })
    }

    /// Finishes the file. Returns an existing file with the same content instead, if there is one.
    fn end(mut self) -> IoResult<Arc<FileBlob>> {
        let file = self.file.take().ok_or_else(|| IoError::from(ErrorKind::NotFound))?;
        let hash: Hash = self.hash.finalize_reset().into();
        let length = usize::try_from(self.length).map_err(IoError::other)?;
        let mut taken = false;
        let kind = self.folder.content_or(hash, || {
            taken = true;
            FileBlob {
                folder: self.folder.clone(),
                pin: self.folder.pin(hash, length),
                fresh: Mutex::new(Some(self.path.clone())),
                opened: OnceLock::from(file),
            }
        });
        if !taken {
            std::fs::remove_file(&self.path)?;
        }
        Ok(kind)
    }
}

impl FileWriter for IncomingFile {
    fn write(&mut self, bytes: &[u8]) -> IoResult<()> {
        let file = self.file.as_mut().ok_or_else(|| IoError::from(ErrorKind::NotFound))?;
        file.write_all(bytes)?;
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> IoResult<Data> {
        let content: Arc<dyn Blob> = self.end()?;
        Ok(Data::from(ExternalBytes::new(content)))
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // It is incomplete.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
