//! The folder of the blobs: one file a value, named by the SHA-256 of what it holds, written and synced before anything
//! names it, and never changed.
//!
//! A blob that is about to be named is *pinned*: nobody deletes its file until the write that names it is committed
//! or given up. Whoever deletes looks for a pin, and for the row that names it, under the lock under which pins are made.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error as IoError, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::super::paths::{StorePaths, sync_directory};
use super::super::usage::Usage;
use super::compress::{compress, decompress};
use super::file::FileBlob;
use crate::Error;

/// The name of a blob: the SHA-256 of what it holds.
pub(in super::super) type Hash = [u8; 32];

/// Where files are written before they get their names; what a crash left there is nobody's.
const UNNAMED: &str = "unnamed";

/// How far the clock of the file system may be behind that of the process.
const CLOCKS_APART: Duration = Duration::from_secs(2);

/// Pins that are gone are forgotten when there are as many as this.
const PINS: usize = 1024;

/// The folder, shared by all who write, read and delete.
#[derive(Debug)]
pub(in super::super) struct Folder {
    path: PathBuf,
    /// A lock that whoever copies the folder shares, and whoever deletes has alone.
    lock: PathBuf,
    pins: Mutex<HashMap<Hash, Weak<Pin>>>,
    /// The files that somebody holds.
    contents: Mutex<HashMap<Hash, Weak<FileBlob>>>,
    usage: Usage,
}

/// A blob whose file is there, and stays for as long as this lives.
#[derive(Debug)]
pub(in super::super) struct Pin {
    pub(in super::super) hash: Hash,
    /// Bytes of what it holds.
    pub(in super::super) length: usize,
    /// Its file, once that is written.
    written: Mutex<Option<StoredFile>>,
    usage: Usage,
}

/// A file that is written.
#[derive(Clone, Copy, Debug, Default)]
struct StoredFile {
    /// Its size, and how much of it was not there before.
    stored: u64,
    added: u64,
}

impl Pin {
    /// Bytes of its file.
    pub(in super::super) fn stored(&self) -> u64 {
        self.written().stored
    }

    fn written(&self) -> StoredFile {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default()
    }

    /// Gives a file that arrived its paths, synced. What is there by this name holds the same, or is damaged, or is
    /// compressed, which a file is not. Blocks.
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

    /// Looks whether its file is there, as it has to be where a row names it. Blocks.
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
        // Its row counts it by now, if it has one.
        self.usage.settle(self.written().added);
    }
}

/// Held by whoever deletes files, so that nobody copies the folder meanwhile.
#[derive(Debug)]
pub(in super::super) struct DeleteLock(
    #[expect(dead_code, reason = "the lock is released when the file is closed")] File,
);

impl Folder {
    /// The folder of the store at this paths; it is made when it is first needed.
    pub(in super::super) fn of(paths: &StorePaths, usage: Usage) -> Self {
        Self {
            path: paths.blobs(),
            lock: paths.blobs_lock(),
            pins: Mutex::default(),
            contents: Mutex::default(),
            usage,
        }
    }

    /// Makes what a process before this one left sound: names that may not be on disk are, and what it left half
    /// written goes. To be called before anything is written.
    pub(in super::super) fn take_over(&self) -> std::io::Result<()> {
        if self.path.is_dir() {
            sync_directory(&self.path)?;
            self.path.parent().map_or(Ok(()), sync_directory)?;
        }
        self.clear_unnamed()
    }

    /// Deletes what is half written.
    pub(in super::super) fn clear_unnamed(&self) -> std::io::Result<()> {
        match std::fs::remove_dir_all(self.path.join(UNNAMED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Sees to it that a file holds this, synced, and keeps it from being deleted. Blocks.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no room. [`Error::Commit`] if the disk fails otherwise.
    pub(in super::super) fn put(&self, content: &[u8]) -> Result<Arc<Pin>, Error> {
        let pin = self.pin(Sha256::digest(content).into(), content.len());
        // Whoever puts the same at the same time waits here, until the file is as durable as its name.
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

    /// What a blob holds, checked against its name. Blocks.
    ///
    /// # Errors
    /// [`Error::RecordDamaged`] if its file is missing or damaged, which names it.
    pub(in super::super) fn read(&self, hash: &Hash, length: usize) -> Result<String, Error> {
        let path = self.file(hash);
        let corrupt =
            |what: &str| Error::RecordDamaged { detail: format!("the blob `{}` {what}", path.display()) };
        let stored = read_at_most(&path, length).map_err(|error| match error.kind() {
            ErrorKind::NotFound => corrupt("is missing"),
            _ => Error::Read { reason: format!("`{}`: {error}", path.display()) },
        })?;
        let content = decompress(stored, length).filter(|content| Sha256::digest(content)[..] == hash[..]);
        let content = content.ok_or_else(|| corrupt("does not hold what its name says"))?;
        String::from_utf8(content).map_err(|_| corrupt("is no text"))
    }

    /// The right to delete; `None` while somebody copies the folder.
    pub(in super::super) fn deleting(&self) -> std::io::Result<Option<DeleteLock>> {
        let file = lock_file(&self.lock)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DeleteLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a write is under way that names this blob.
    pub(in super::super) fn is_pinned(&self, hash: &Hash) -> bool {
        is_pinned(&self.pins(), hash)
    }

    /// Deletes the file of a blob unless it is pinned, or `named` says that a row names it. A pin that is gone was given
    /// up or is a row by now, so that is asked after the pins, and nobody can make one meanwhile.
    pub(in super::super) fn delete_unless(
        &self,
        hash: &Hash,
        named: impl FnOnce() -> Result<bool, Error>,
        _right: &DeleteLock,
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

    /// The blobs whose files are in the `index`th of its 256 parts. What is none of ours is passed over.
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

    /// The file that somebody holds with this name.
    pub(super) fn content(&self, hash: &Hash) -> Option<Arc<FileBlob>> {
        self.contents().get(hash).and_then(Weak::upgrade)
    }

    /// The file that somebody holds with this name, or else this one.
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

    /// The folder of what has no name yet.
    pub(super) fn make_unnamed(&self) -> std::io::Result<PathBuf> {
        let unnamed = self.path.join(UNNAMED);
        make_directory(&self.path, self.path.parent())?;
        make_directory(&unnamed, None)?;
        Ok(unnamed)
    }

    /// Whether a file is older than this, by the clock of the file system, which may be a moment behind.
    pub(super) fn is_older(&self, hash: &Hash, than: SystemTime) -> bool {
        let written = std::fs::metadata(self.file(hash)).and_then(|file| file.modified());
        written.is_ok_and(|written| written + CLOCKS_APART < than)
    }

    /// The file of a blob: `ab/cdef…`.
    pub(super) fn file(&self, hash: &Hash) -> PathBuf {
        let (part, rest) = hash.split_at(1);
        self.path.join(hex(part)).join(hex(rest))
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Hash, Weak<Pin>>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a blob from being deleted, whether or not there is one.
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

    /// Writes the file, unless it is there and sound.
    fn write(&self, hash: &Hash, content: &[u8]) -> std::io::Result<StoredFile> {
        let path = self.file(hash);
        let part = path.parent().unwrap_or(&self.path);
        if let Some(stored) = self.holding(&path, content)? {
            // Whoever wrote it may have died before its name was on disk.
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
        // One writer a blob, and what it holds is its name: no other has this one.
        let fresh = unnamed.join(path.file_name().unwrap_or_default());
        let result = write_synced(&fresh, stored).and_then(|()| std::fs::rename(&fresh, path));
        if result.is_err() {
            // Its space may be what is needed; if it cannot go now, the next start sees to it.
            let _ = std::fs::remove_file(&fresh);
        }
        result.and_then(|()| sync_directory(part))
    }

    /// The size of the file, if it holds this.
    fn holding(&self, path: &Path, content: &[u8]) -> std::io::Result<Option<u64>> {
        let stored = match read_at_most(path, content.len()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            stored => stored?,
        };
        let bytes = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        let sound = decompress(stored, content.len()).is_some_and(|found| found == content);
        if !sound {
            tracing::warn!(blob = %path.display(), "the blob was damaged; it is written anew");
        }
        Ok(sound.then_some(bytes))
    }
}

/// Keeps a folder of blobs as it is until it is dropped, in whatever process.
#[derive(Debug)]
pub(in super::super) struct CopyLock(#[expect(dead_code, reason = "as for `DeleteLock`")] File);

/// Keeps whoever has this store open from deleting blobs. Waits for one that does so now.
pub(in super::super) fn lock_for_copy(paths: &StorePaths) -> std::io::Result<CopyLock> {
    let file = lock_file(&paths.blobs_lock())?;
    file.lock_shared()?;
    Ok(CopyLock(file))
}

fn is_pinned(pins: &HashMap<Hash, Weak<Pin>>, hash: &Hash) -> bool {
    pins.get(hash).is_some_and(|pin| pin.strong_count() > 0)
}

/// Reads a file that is no longer than what it holds.
fn read_at_most(path: &Path, length: usize) -> std::io::Result<Vec<u8>> {
    let mut stored = Vec::new();
    let most = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut stored)?;
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

/// Makes a directory for its owner only; `above` is synced then, so that its name is as durable as what it holds.
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
    options.open(path)
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write as _;
    bytes.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
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
