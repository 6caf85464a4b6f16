//! Restoring a backup to the place of a store.
//!
//! The backup is copied beside the store and checked there. The store that is there is kept as hard links in a folder of its
//! own. Its log is moved into its database file, so that the rename of the restored database file alone replaces it: before
//! that rename the earlier store is in force, after it the restored one. Large values have their content as their name, so
//! those of both can be in the folder at once.

use std::fs;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::backup::copy_store;
use super::paths::{StorePaths, sync_directory};
use super::pool::read_error;
use super::schema::SCHEMA;
use super::settings;
use store::regular;
use store::{Error, Restored};

/// Maximum number of names of folders for a replaced store that are tried.
const NAMES: u32 = 1000;

/// Restores the store in the folder `from`, which [`crate::back_up`] made, to `to`. Checks it as a whole and migrates it to
/// the current version before it changes anything there. An earlier store is replaced only if `replace` is true, and is kept
/// in a folder beside it, named after `now`. Blocks until everything is on disk; after a crash `to` has the earlier store or
/// the restored one.
///
/// # Errors
/// A daemon has the store at `to` open, there is a store and `replace` is false, `from` holds none or a damaged one, a later
/// release wrote it, or the system refuses.
pub fn restore(from: &Path, to: &Path, replace: bool, now: Timestamp) -> Result<Restored, Error> {
    let (backup, target) = (StorePaths::new(from), StorePaths::new(to));
    let failed = |reason: String| Error::Restore { place: target.directory.display().to_string(), reason };
    let io = |error: IoError| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failed("there is no space left".to_owned()),
        _ => failed(error.to_string()),
    };
    let source = settings::open_reader(&backup.file)?;
    SCHEMA.older(&source, &backup.file)?;
    // `query_only` would also forbid writing the copy.
    source.pragma_update(None, "query_only", false).map_err(read_error)?;
    target.make_directory()?;
    if is_same(&backup.directory, &target.directory).map_err(io)? && backup.file == target.file {
        return Err(failed("the backup is this store itself".to_owned()));
    }
    target.check_file_system()?;
    let _lock = target.lock()?;
    let occupied = target.is_occupied();
    if occupied && !replace {
        return Err(Error::Occupied { path: target.directory.clone() });
    }
    let staging = Staging::make(target.beside(".restoring")).map_err(io)?;
    let copy = StorePaths::of_directory(&staging.0);
    copy.make_directory()?;
    let copied = copy_store(&backup, &source, &copy, SCHEMA).map_err(|error| match error {
        Error::Full => failed("there is no space left".to_owned()),
        Error::Backup { reason, .. } => failed(reason),
        other => other,
    })?;
    check(&copy)?;
    let kept = if occupied { Some(keep(&target, now).map_err(io)?) } else { None };
    put_in_place(&copy, &target).map_err(io)?;
    let replaced = kept.map(|kept| kept.finish(&target.directory)).transpose().map_err(io)?;
    Ok(Restored { executions: copied.executions, blobs: copied.blobs, bytes: copied.bytes, replaced })
}

/// The folder of the copy. It is removed when this is dropped.
struct Staging(PathBuf);

impl Staging {
    /// Takes the place, and removes what an interrupted call left in it.
    fn make(path: PathBuf) -> IoResult<Self> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(Self(path)),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A rest of it does no harm, and the next call removes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_same(one: &Path, other: &Path) -> IoResult<bool> {
    Ok(fs::canonicalize(one)? == fs::canonicalize(other)?)
}

/// Checks the whole database of the copy, with its indexes.
fn check(copy: &StorePaths) -> Result<(), Error> {
    let connection = settings::open_reader(&copy.file)?;
    let found: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(read_error)?;
    if found == "ok" { Ok(()) } else { Err(Error::DatabaseDamaged { detail: found }) }
}

/// A folder for the store that is replaced: its name while the store is in force, and its name afterwards.
struct Kept {
    partial: PathBuf,
    folder: PathBuf,
}

/// Keeps the store that is in force, complete, in a new folder beside it. Its files are links, so they take no space.
fn keep(target: &StorePaths, now: Timestamp) -> IoResult<Kept> {
    // After it, the database file is complete without its log. A damaged one cannot do that; then the log is kept too.
    let _ = empty_log(&target.file);
    let kept = name_for_kept(&target.directory, now)?;
    let copy = StorePaths::of_directory(&kept.partial);
    copy.make_directory().map_err(|error| IoError::other(error.to_string()))?;
    for suffix in ["", "-wal"] {
        let file = target.beside(suffix);
        if file.exists() {
            link(&file, &copy.beside(suffix))?;
        }
    }
    for_each_blob(&target.blobs(), |part, name, file| {
        let to = copy.blobs().join(part);
        make_folder(&to)?;
        link(file, &to.join(name))
    })?;
    sync_tree(&kept.partial)?;
    sync_directory(&target.directory)?;
    Ok(kept)
}

/// Returns names that are free: a crash may have left the folder of an earlier call, which can be the only copy of a store.
fn name_for_kept(directory: &Path, now: Timestamp) -> IoResult<Kept> {
    let made = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    for number in 1..=NAMES {
        let name = if number == 1 { format!("replaced-{made}") } else { format!("replaced-{made}-{number}") };
        let (folder, partial) = (directory.join(&name), directory.join(format!("{name}.partial")));
        if !folder.exists() && !partial.exists() {
            return Ok(Kept { partial, folder });
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

impl Kept {
    /// Gives the folder its final name, after the restored store is in force.
    fn finish(self, directory: &Path) -> IoResult<PathBuf> {
        fs::rename(&self.partial, &self.folder)?;
        sync_directory(directory)?;
        Ok(self.folder)
    }
}

/// Creates a folder that only its owner can enter, with its parents.
fn make_folder(path: &Path) -> IoResult<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Moves the log of a database into its file.
fn empty_log(file: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Moves the copy to the place of the store. The rename of the database file is the moment at which it is in force.
fn put_in_place(copy: &StorePaths, target: &StorePaths) -> IoResult<()> {
    let blobs = target.blobs();
    for_each_blob(&copy.blobs(), |part, name, file| {
        let to = blobs.join(part);
        make_folder(&to)?;
        fs::rename(file, to.join(name))
    })?;
    if blobs.is_dir() {
        sync_tree(&blobs)?;
    }
    // The log of the earlier store would be applied to the restored file. It is empty, or it is kept.
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(target.beside(suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_directory(&target.directory)?;
    fs::rename(&copy.file, &target.file)?;
    sync_directory(&target.directory)
}

/// Calls `each` with the part, the name and the path of every large value in a folder, which need not exist.
fn for_each_blob(folder: &Path, mut each: impl FnMut(&Path, &Path, &Path) -> IoResult<()>) -> IoResult<()> {
    let parts = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        parts => parts?,
    };
    for part in parts {
        let part = part?;
        // Incomplete files are in a folder with a longer name.
        if part.file_name().len() != 2 || !part.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(part.path())? {
            let file = file?;
            each(Path::new(&part.file_name()), Path::new(&file.file_name()), &file.path())?;
        }
    }
    Ok(())
}

/// Links a file; copies it where the file system has no links.
fn link(from: &Path, to: &Path) -> IoResult<()> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    regular::check(from)?;
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

/// Syncs a folder and its folders, which makes the names in them durable.
fn sync_tree(folder: &Path) -> IoResult<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_directory(folder)
}
