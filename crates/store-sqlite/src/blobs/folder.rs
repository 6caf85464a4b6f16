//! The folder of blobs: one file for each value, named by the SHA-256 of its content, synced before any row names it, and
//! never changed.
//!
//! A blob that a write is about to name is *pinned*: its file is not deleted until the write is committed or abandoned.
//! Deletion checks for a pin, and for a row that names the blob, under the lock under which pins are created.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error as IoError, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::super::paths::{StorePaths, sync_directory};
use super::super::usage::Usage;
use super::file::FileBlob;
use store::Error;
use store::codec::{compress, decompress};
use store::regular;

/// The name of a blob: the SHA-256 of its content.
pub(in super::super) type Hash = [u8; 32];

/// The folder of files without a final name. The next start deletes what a crash leaves in it.
const UNNAMED: &str = "unnamed";

/// Maximum delay of the file system's clock behind the process's clock.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(2);

/// The number of entries at which dropped pins are removed from the map.
const PINS: usize = 1024;

/// The folder, shared by writers, readers and deletion.
#[derive(Debug)]
pub(in super::super) struct Folder {
    path: PathBuf,
    /// The lock file, which a copy locks shared and deletion locks exclusively.
    lock: PathBuf,
    pins: Mutex<HashMap<Hash, Weak<Pin>>>,
    /// The files that values refer to.
    contents: Mutex<HashMap<Hash, Weak<FileBlob>>>,
    usage: Usage,
}

/// A reference that keeps the file of a blob from being deleted while it lives.
#[derive(Debug)]
pub(in super::super) struct Pin {
    pub(in super::super) hash: Hash,
    /// The size of the content in bytes.
    pub(in super::super) length: usize,
    /// Its file, once it is written.
    written: Mutex<Option<StoredFile>>,
    usage: Usage,
}

/// The size of a written file.
#[derive(Clone, Copy, Debug, Default)]
struct StoredFile {
    /// The size of the file, and the part of it that this pin added.
    stored: u64,
    added: u64,
}

impl Pin {
    /// Returns the size of its file in bytes.
    pub(in super::super) fn stored(&self) -> u64 {
        self.written().stored
    }

    fn written(&self) -> StoredFile {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default()
    }

    /// Syncs a new file and renames it to its final name. It replaces a file of that name, which has the same content, is
    /// damaged, or is compressed. Blocks.
    pub(super) fn place(&self, folder: &Folder, fresh: &Path) -> std::io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        File::open(fresh)?.sync_all()?;
        let path = folder.file(&self.hash);
        let part = path.parent().unwrap_or(&folder.path);
        let stored = self.length as u64;
        let added = if written.is_some() || path.exists() { 0 } else { stored };
        self.usage.reserve(added)?;
        let placed = make_directory(part, Some(&folder.path))
            .and_then(|()| std::fs::rename(fresh, &path))
            .and_then(|()| sync_directory(part));
        if placed.is_err() {
            self.usage.settle(added);
        } else {
            let before = written.map_or(0, |written| written.added);
            *written = Some(StoredFile { stored, added: added + before });
        }
        placed
    }

    /// Reads the size of its file, which must exist since a row names it. Blocks.
    pub(super) fn find(&self, folder: &Folder) -> std::io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_none() {
            let stored = std::fs::metadata(folder.file(&self.hash))?.len();
            *written = Some(StoredFile { stored, added: 0 });
        }
        Ok(())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Its row counts it now, if there is one.
        self.usage.settle(self.written().added);
    }
}

/// The exclusive lock of deletion, against a concurrent copy of the folder.
#[derive(Debug)]
pub(in super::super) struct DeleteLock(
    #[expect(dead_code, reason = "the lock is released when the file is closed")] File,
);

impl Folder {
    /// Creates the handle to the folder of a store. The folder itself is created on demand.
    pub(in super::super) fn new(paths: &StorePaths, usage: Usage) -> Self {
        Self {
            path: paths.blobs(),
            lock: paths.blobs_lock(),
            pins: Mutex::default(),
            contents: Mutex::default(),
            usage,
        }
    }

    /// Repairs the folder after an earlier process: syncs the names of files, and deletes incomplete ones. Call it before
    /// any write.
    pub(in super::super) fn take_over(&self) -> std::io::Result<()> {
        if self.path.is_dir() {
            sync_directory(&self.path)?;
            self.path.parent().map_or(Ok(()), sync_directory)?;
        }
        self.clear_unnamed()
    }

    /// Deletes incomplete files.
    pub(in super::super) fn clear_unnamed(&self) -> std::io::Result<()> {
        match std::fs::remove_dir_all(self.path.join(UNNAMED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes and syncs a blob with this content unless there is one, and pins it. Blocks.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no space. [`Error::Commit`] if the disk fails otherwise.
    pub(in super::super) fn put(&self, content: &[u8]) -> Result<Arc<Pin>, Error> {
        let pin = self.pin(Sha256::digest(content).into(), content.len());
        // A concurrent writer of the same content waits here until the file and its name are durable.
        let mut written = pin.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_none() {
            let file = self.write(&pin.hash, content).map_err(|error| match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full,
                _ => Error::Commit { reason: format!("{}: {error}", self.file(&pin.hash).display()) },
            })?;
            *written = Some(file);
        }
        drop(written);
        Ok(pin)
    }

    /// Returns the content of a blob, and verifies its hash. Blocks.
    ///
    /// # Errors
    /// [`Error::RecordDamaged`] if its file is missing or damaged, with its path.
    pub(in super::super) fn read(&self, hash: &Hash, length: usize) -> Result<String, Error> {
        let path = self.file(hash);
        let corrupt =
            |what: &str| Error::RecordDamaged { detail: format!("the blob `{}` {what}", path.display()) };
        let stored = read_at_most(&path, length).map_err(|error| match error.kind() {
            ErrorKind::NotFound => corrupt("is missing"),
            _ => Error::Read { reason: format!("`{}`: {error}", path.display()) },
        })?;
        let content = decompress(stored, length).filter(|content| Sha256::digest(content)[..] == hash[..]);
        let content = content.ok_or_else(|| corrupt("does not have the content of its name"))?;
        String::from_utf8(content).map_err(|_| corrupt("is not text"))
    }

    /// Takes the lock of deletion; `None` while a backup copies the folder.
    pub(in super::super) fn deleting(&self) -> std::io::Result<Option<DeleteLock>> {
        let file = lock_file(&self.lock)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DeleteLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns true if a write in progress names this blob.
    pub(in super::super) fn is_pinned(&self, hash: &Hash) -> bool {
        is_pinned(&self.pins(), hash)
    }

    /// Deletes the file of a blob unless it is pinned or `named` returns true for a row that names it. Returns true if it was
    /// deleted.
    ///
    /// The pins are checked first, since a dropped pin may have become a row. No pin is created meanwhile.
    pub(in super::super) fn delete_unless(
        &self,
        hash: &Hash,
        named: impl FnOnce() -> Result<bool, Error>,
        _lock: &DeleteLock,
    ) -> Result<bool, Error> {
        let pins = self.pins();
        if is_pinned(&pins, hash) || named()? {
            return Ok(false);
        }
        match std::fs::remove_file(self.file(hash)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::Write { reason: format!("{}: {error}", self.file(hash).display()) }),
        }
    }

    /// Returns the blobs in the part `index` of 256. Skips files with other names.
    pub(in super::super) fn part(&self, index: u8) -> std::io::Result<Vec<Hash>> {
        let name = hex([index]);
        let entries = match std::fs::read_dir(self.path.join(&name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            found.extend(entry?.file_name().to_str().and_then(|rest| parse(&format!("{name}{rest}"))));
        }
        Ok(found)
    }

    /// Returns the file with this name, if a value refers to it.
    pub(super) fn content(&self, hash: &Hash) -> Option<Arc<FileBlob>> {
        self.contents().get(hash).and_then(Weak::upgrade)
    }

    /// Returns the file with this name, if a value refers to it, else the result of `make`.
    pub(super) fn content_or(&self, hash: Hash, make: impl FnOnce() -> FileBlob) -> Arc<FileBlob> {
        let mut contents = self.contents();
        if let Some(content) = contents.get(&hash).and_then(Weak::upgrade) {
            return content;
        }
        if contents.len() >= PINS {
            contents.retain(|_, content| content.strong_count() > 0);
        }
        let content = Arc::new(make());
        contents.insert(hash, Arc::downgrade(&content));
        content
    }

    fn contents(&self) -> MutexGuard<'_, HashMap<Hash, Weak<FileBlob>>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the folder of files without a final name.
    pub(super) fn make_unnamed(&self) -> std::io::Result<PathBuf> {
        let unnamed = self.path.join(UNNAMED);
        make_directory(&self.path, self.path.parent())?;
        make_directory(&unnamed, None)?;
        Ok(unnamed)
    }

    /// Returns true if a file is older than this by the clock of the file system, allowing for [`MAX_CLOCK_SKEW`].
    pub(super) fn is_older(&self, hash: &Hash, than: SystemTime) -> bool {
        let written = std::fs::metadata(self.file(hash)).and_then(|file| file.modified());
        written.is_ok_and(|written| written + MAX_CLOCK_SKEW < than)
    }

    /// Returns the path of a blob: `ab/cdef…`.
    pub(super) fn file(&self, hash: &Hash) -> PathBuf {
        let (part, rest) = hash.split_at(1);
        self.path.join(hex(part)).join(hex(rest))
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Hash, Weak<Pin>>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins a blob, which need not exist yet.
    pub(super) fn pin(&self, hash: Hash, length: usize) -> Arc<Pin> {
        let mut pins = self.pins();
        if let Some(pin) = pins.get(&hash).and_then(Weak::upgrade) {
            return pin;
        }
        if pins.len() >= PINS {
            pins.retain(|_, pin| pin.strong_count() > 0);
        }
        let pin = Arc::new(Pin { hash, length, written: Mutex::new(None), usage: self.usage.clone() });
        pins.insert(hash, Arc::downgrade(&pin));
        pin
    }

    /// Writes the file, unless there is an undamaged one.
    fn write(&self, hash: &Hash, content: &[u8]) -> std::io::Result<StoredFile> {
        let path = self.file(hash);
        let part = path.parent().unwrap_or(&self.path);
        if let Some(stored) = self.holding(&path, content)? {
            // Its writer may have died before its name was synced.
            sync_directory(part)?;
            return Ok(StoredFile { stored, added: 0 });
        }
        let packed = compress(content);
        let stored = packed.as_deref().unwrap_or(content);
        let bytes = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        self.usage.reserve(bytes)?;
        let written = self.write_new(&path, part, stored);
        if written.is_err() {
            self.usage.settle(bytes);
        }
        written.map(|()| StoredFile { stored: bytes, added: bytes })
    }

    fn write_new(&self, path: &Path, part: &Path, stored: &[u8]) -> std::io::Result<()> {
        let unnamed = self.make_unnamed()?;
        make_directory(part, Some(&self.path))?;
        // The name is unique, since each blob has one writer at a time.
        let fresh = unnamed.join(path.file_name().unwrap_or_default());
        let result = write_synced(&fresh, stored).and_then(|()| std::fs::rename(&fresh, path));
        if result.is_err() {
            // Frees its space. If it cannot be deleted, the next start does so.
            let _ = std::fs::remove_file(&fresh);
        }
        result.and_then(|()| sync_directory(part))
    }

    /// Returns the size of the file if it has this content.
    fn holding(&self, path: &Path, content: &[u8]) -> std::io::Result<Option<u64>> {
        let stored = match read_at_most(path, content.len()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            stored => stored?,
        };
        let bytes = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        let sound = decompress(stored, content.len()).is_some_and(|found| found == content);
        if !sound {
            tracing::warn!(blob = %path.display(), "the blob was damaged; it is written again");
        }
        Ok(sound.then_some(bytes))
    }
}

/// The shared lock of a copy, against deletion in any process.
#[derive(Debug)]
pub(in super::super) struct CopyLock(#[expect(dead_code, reason = "as for `DeleteLock`")] File);

/// Takes the shared lock of a copy. Waits for a running deletion.
pub(in super::super) fn lock_for_copy(paths: &StorePaths) -> std::io::Result<CopyLock> {
    let file = lock_file(&paths.blobs_lock())?;
    file.lock_shared()?;
    Ok(CopyLock(file))
}

fn is_pinned(pins: &HashMap<Hash, Weak<Pin>>, hash: &Hash) -> bool {
    pins.get(hash).is_some_and(|pin| pin.strong_count() > 0)
}

/// Reads a file up to one byte more than `length`.
fn read_at_most(path: &Path, length: usize) -> std::io::Result<Vec<u8>> {
    let mut stored = Vec::new();
    let most = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(1);
    regular::open_to_read(path)?.take(most).read_to_end(&mut stored)?;
    Ok(stored)
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a directory for its owner only, and syncs `above`, which makes its name durable.
fn make_directory(path: &Path, above: Option<&Path>) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Ok(()) => above.map_or(Ok(()), sync_directory),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn lock_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    regular::open(path, &mut options)
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write as _;
    bytes.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn parse(text: &str) -> Option<Hash> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

impl From<super::super::usage::OverLimit> for IoError {
    fn from(_: super::super::usage::OverLimit) -> Self {
        ErrorKind::StorageFull.into()
    }
}
