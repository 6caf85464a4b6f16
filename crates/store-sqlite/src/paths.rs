//! Paths of a store: directory, permissions, lock file, and a check of the file system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use store::Error;
use store::regular;

/// The name of the database file in a directory.
const FILE_NAME: &str = "cogwork.db";

/// The file of the key that encrypts stored secrets, in the same directory. It is created after the store.
const KEY_FILE: &str = "master.key";

/// The paths of a store.
#[derive(Clone, Debug)]
pub(super) struct StorePaths {
    /// The directory that holds the file, its write-ahead log and its lock.
    pub(super) directory: PathBuf,
    /// The database file.
    pub(super) file: PathBuf,
    /// True if the directory belongs to the store alone.
    own_directory: bool,
}

/// The lock against a second daemon. Dropping it releases the lock.
///
/// The lock file has the process id for the error of a second daemon. The database file is locked too, since the lock file can be deleted,
/// and the database file can have another name in another directory.
#[derive(Debug)]
#[expect(dead_code, reason = "the locks are released when the files are closed")]
pub(super) struct Lock {
    file: File,
    database: Option<File>,
}

impl StorePaths {
    /// Creates the paths for a file, if `path` is one or ends in `.db`, `.sqlite` or `.sqlite3`, else for a directory
    /// with a `cogwork.db` in it.
    pub(super) fn new(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let names_file =
            path.is_file() || (!path.is_dir() && matches!(extension, "db" | "sqlite" | "sqlite3"));
        if names_file {
            // Of a link, the directory of the file that it leads to: the log and the lock are there.
            let resolved = path.is_symlink().then(|| path.canonicalize().ok()).flatten();
            let path = resolved.as_deref().unwrap_or(path);
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = parent.unwrap_or(Path::new(".")).to_owned();
            Self { directory, file: path.to_owned(), own_directory: false }
        } else {
            Self::of_directory(path)
        }
    }

    /// Creates the paths for a directory, which need not exist.
    pub(super) fn of_directory(path: &Path) -> Self {
        Self { directory: path.to_owned(), file: path.join(FILE_NAME), own_directory: true }
    }

    /// Creates the directory if it is missing. If it belongs to the store alone, only its owner gets access.
    pub(super) fn make_directory(&self) -> Result<(), Error> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.directory).map_err(|error| self.error(&self.directory, &error))?;
        if self.own_directory {
            restrict(&self.directory, 0o700).map_err(|error| self.error(&self.directory, &error))?;
        }
        Ok(())
    }

    /// Takes the lock, and writes the id of this process into the file for the error of a second daemon.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        let path = self.beside(".lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = regular::open(&path, &mut options).map_err(|error| self.error(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = (&file).take(20).read_to_string(&mut text);
                return Err(Error::Locked { path, pid: read.ok().and_then(|_| text.trim().parse().ok()) });
            }
            Err(TryLockError::Error(error)) => return Err(self.error(&path, &error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .and_then(|()| file.flush());
        written.map_err(|error| self.error(&path, &error))?;
        let database = match regular::open_to_read(&self.file) {
            Ok(database) => Some(self.lock_database(database)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.error(&self.file, &error)),
        };
        Ok(Lock { file, database })
    }

    /// Locks the database file. SQLite has locks of another kind on it.
    fn lock_database(&self, database: File) -> Result<File, Error> {
        // Elsewhere both kinds can exclude each other.
        if !cfg!(target_os = "linux") {
            return Ok(database);
        }
        match database.try_lock() {
            Ok(()) => Ok(database),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: self.file.clone(), pid: None }),
            Err(TryLockError::Error(error)) => Err(self.error(&self.file, &error)),
        }
    }

    /// Creates the file if it is missing, and locks it. As [`StorePaths::make_file`].
    pub(super) fn make_locked_file(&self, lock: &mut Lock) -> Result<(), Error> {
        self.make_file()?;
        if lock.database.is_none() {
            let database =
                regular::open_to_read(&self.file).map_err(|error| self.error(&self.file, &error))?;
            lock.database = Some(self.lock_database(database)?);
        }
        Ok(())
    }

    /// Creates the file if it is missing, with access for its owner only; SQLite gives its log the same permissions.
    /// Call it only under the lock: closing a file that this process has open elsewhere would release the POSIX locks of
    /// SQLite on it.
    pub(super) fn make_file(&self) -> Result<(), Error> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.file) {
            // The name of the file must be as durable as its content.
            Ok(file) => file.sync_all().and_then(|()| sync_directory(&self.directory)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                regular::open_to_read(&self.file).and_then(|file| regular::make_private(&file))
            }
            Err(error) => Err(error),
        }
        .map_err(|error| self.error(&self.file, &error))
    }

    /// Returns an error if files of a store are beside the database file, which is missing (`is_missing`) or empty.
    pub(super) fn check_not_emptied(&self, is_missing: bool, with_log: bool) -> Result<(), Error> {
        let mut traces = Vec::new();
        let log = self.beside("-wal");
        if with_log && log.metadata().is_ok_and(|log| log.len() > 0) {
            traces.push(log);
        }
        if holds_blobs(&self.blobs()) {
            traces.push(self.blobs());
        }
        let key = self.directory.join(KEY_FILE);
        if self.own_directory && key.is_file() {
            traces.push(key);
        }
        if traces.is_empty() {
            return Ok(());
        }
        let name =
            |path: &PathBuf| format!("`{}`", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        let traces = traces.iter().map(name).collect();
        Err(Error::DatabaseLost { path: self.file.clone(), is_missing, traces })
    }

    /// Returns true if the place holds a store, or parts of one: a database file with content, a log, or large values.
    pub(super) fn is_occupied(&self) -> bool {
        let holds = |path: &Path| path.metadata().is_ok_and(|file| file.len() > 0);
        holds(&self.file) || holds(&self.beside("-wal")) || holds_blobs(&self.blobs())
    }

    /// Returns an error if the database file is missing or empty, but there was a store.
    pub(super) fn check_before_opening(&self) -> Result<(), Error> {
        self.has_content().map(drop)
    }

    /// Returns true if the database file has content, and false if there was never a store.
    ///
    /// # Errors
    /// The place cannot be read, or the file is missing or empty, but there was a store.
    fn has_content(&self) -> Result<bool, Error> {
        match std::fs::metadata(&self.file) {
            Ok(found) if found.len() > 0 => Ok(true),
            Ok(_) => self.check_not_emptied(false, true).map(|()| false),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.check_not_emptied(true, true).map(|()| false)
            }
            Err(error) => Err(self.error(&self.file, &error)),
        }
    }

    /// Refines an error on opening: in a directory that belongs to the store alone, a file that is not a store must be a
    /// damaged one.
    pub(super) fn refine_error(&self, error: Error) -> Error {
        match error {
            Error::NotAStore { path } if self.own_directory => Error::DatabaseDamaged {
                detail: format!("`{}` is no longer a database of Cogwork", path.display()),
            },
            error => error,
        }
    }

    /// Returns the folder of the blobs: `blobs` beside a `cogwork.db`, else one named after the file.
    pub(super) fn blobs(&self) -> PathBuf {
        if self.file.file_name().is_some_and(|name| name == FILE_NAME) {
            self.directory.join("blobs")
        } else {
            self.beside("-blobs")
        }
    }

    /// Returns the lock file between deleting and copying blobs.
    pub(super) fn blobs_lock(&self) -> PathBuf {
        self.beside(".blobs-lock")
    }

    /// Returns the path of a file that belongs to the database file and has its name with this suffix.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.file.clone().into_os_string();
        path.push(suffix);
        PathBuf::from(path)
    }

    /// Returns a sentence about the guarantees that the file system weakens; `None` if it is reliable.
    ///
    /// # Errors
    /// [`Error::NetworkFileSystem`] if its locks and syncs are not reliable.
    pub(super) fn check_file_system(&self) -> Result<Option<String>, Error> {
        match file_system(&self.directory).map_err(|error| self.error(&self.directory, &error))? {
            FileSystem::Sound => Ok(None),
            FileSystem::Weak(how) => Ok(Some(format!("`{}` is {how}", self.directory.display()))),
            FileSystem::Network(kind) => Err(Error::NetworkFileSystem { path: self.directory.clone(), kind }),
        }
    }

    fn error(&self, path: &Path, error: &std::io::Error) -> Error {
        let way_out = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "; run this as the user of the daemon, or give this user the right to the folder"
            }
            _ => "",
        };
        Error::Open { path: path.to_owned(), reason: format!("{error}{way_out}") }
    }
}

/// Returns true if there is a store at `path`, false if nothing was ever stored there.
///
/// # Errors
/// The place cannot be read, or the database file is missing beside other files of a store.
pub fn exists(path: &Path) -> Result<bool, Error> {
    StorePaths::new(path).has_content()
}

/// Returns true if the folder has blobs. Incomplete files do not count.
fn holds_blobs(folder: &Path) -> bool {
    let parts = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut parts = parts.filter(|part| part.file_name().len() == 2);
    parts.any(|part| std::fs::read_dir(part.path()).is_ok_and(|mut files| files.next().is_some()))
}

/// Removes the permissions of group and others that `mode` does not have from a directory.
fn restrict(path: &Path, mode: u32) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // A directory may be reached through a link; a file in its place is not ours.
        let directory = File::open(path)?;
        let found = directory.metadata()?;
        if !found.is_dir() {
            return Err(std::io::ErrorKind::NotADirectory.into());
        }
        if found.permissions().mode() & 0o077 & !mode != 0 {
            directory.set_permissions(std::fs::Permissions::from_mode(mode))?;
        }
    }
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}

/// Syncs a directory, which makes the names in it durable.
pub(super) fn sync_directory(directory: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// The reliability of locks and syncs on a file system.
#[derive(Debug, PartialEq, Eq)]
enum FileSystem {
    Sound,
    Weak(&'static str),
    Network(&'static str),
}

#[cfg(target_os = "linux")]
fn file_system(directory: &Path) -> std::io::Result<FileSystem> {
    let found = rustix::fs::statfs(directory)?;
    // The numbers of the kernel have 32 bits; the field may be wider.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only 32 bits are used")]
    Ok(classify(found.f_type as u32))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_directory: &Path) -> std::io::Result<FileSystem> {
    Ok(FileSystem::Sound)
}

/// Classifies a file system by its number in `statfs(2)` and the `magic.h` of the kernel.
#[cfg(target_os = "linux")]
fn classify(magic: u32) -> FileSystem {
    match magic {
        0x6969 => FileSystem::Network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => FileSystem::Network("SMB"),
        0x5346_414f | 0x6b41_4653 => FileSystem::Network("AFS"),
        0x7375_7245 => FileSystem::Network("Coda"),
        0x00c3_6400 => FileSystem::Network("Ceph"),
        0x0bd0_0bd0 => FileSystem::Network("Lustre"),
        0x786f_4256 => FileSystem::Network("VirtualBox shared"),
        0x0102_1997 => FileSystem::Weak("on a 9P file system, whose locks may not reach the host"),
        0x6573_5546 => FileSystem::Weak("on a FUSE file system, whose syncs may not reach a disk"),
        0x0102_1994 | 0x8584_58f6 => FileSystem::Weak("in memory, and is lost when the machine stops"),
        _ => FileSystem::Sound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_directory_unless_it_looks_like_a_file() {
        let paths = StorePaths::new(Path::new("/none/.cogwork"));
        assert_eq!(paths.file, Path::new("/none/.cogwork/cogwork.db"));
        let paths = StorePaths::new(Path::new("/none/data/flows.sqlite"));
        assert_eq!((paths.directory.as_path(), paths.own_directory), (Path::new("/none/data"), false));
        assert_eq!(StorePaths::new(Path::new("flows.db")).directory, Path::new("."));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_rejected_and_volatile_ones_reported() {
        assert_eq!(classify(0x6969), FileSystem::Network("NFS"));
        assert_eq!(classify(0xff53_4d42), FileSystem::Network("SMB"));
        assert!(matches!(classify(0x0102_1994), FileSystem::Weak(_)));
        assert_eq!(classify(0xef53), FileSystem::Sound);
    }

    #[cfg(unix)]
    #[test]
    fn directory_and_file_are_accessible_to_the_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let outer = tempfile::tempdir().expect("a directory");
        let own = outer.path().join("data");
        std::fs::create_dir(&own).expect("it is made");
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).expect("it is opened to all");
        let paths = StorePaths::new(&own);
        std::fs::write(&paths.file, "").expect("it is written");
        std::fs::set_permissions(&paths.file, std::fs::Permissions::from_mode(0o644))
            .expect("it is opened to all");
        paths.make_directory().expect("it is restricted");
        let _lock = paths.lock().expect("it is free");
        paths.make_file().expect("it is restricted");
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&own), mode(&paths.file)), (0o700, 0o600));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_second_daemon_is_rejected_without_the_lock_file_and_under_a_link() {
        let outer = tempfile::tempdir().expect("a directory");
        let paths = StorePaths::of_directory(outer.path());
        let mut lock = paths.lock().expect("it is free");
        paths.make_locked_file(&mut lock).expect("it is made");
        std::fs::remove_file(paths.beside(".lock")).expect("it is deleted");
        assert!(matches!(paths.lock(), Err(Error::Locked { .. })));
        let other = tempfile::tempdir_in(outer.path()).expect("a directory");
        let other = StorePaths::of_directory(other.path());
        std::fs::hard_link(&paths.file, &other.file).expect("a link");
        assert!(matches!(other.lock(), Err(Error::Locked { .. })));
        let link = outer.path().join("link.db");
        std::os::unix::fs::symlink(&paths.file, &link).expect("a link");
        assert!(matches!(StorePaths::new(&link).lock(), Err(Error::Locked { .. })));
        drop(lock);
        let _lock = paths.lock().expect("it is free");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_never_changed_through_a_symlink() {
        use std::os::unix::fs::PermissionsExt as _;
        let outer = tempfile::tempdir().expect("a directory");
        let theirs = outer.path().join("theirs");
        std::fs::write(&theirs, "x").expect("it is written");
        std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o644)).expect("it is set");
        let paths = StorePaths::of_directory(&outer.path().join("data"));
        paths.make_directory().expect("it is made");
        std::os::unix::fs::symlink(&theirs, &paths.file).expect("a link");
        let refused = paths.lock().expect_err("it is a link").to_string();
        assert!(refused.contains("it is a link"), "{refused}");
        assert!(paths.make_file().is_err());
        assert_eq!(std::fs::metadata(&theirs).expect("it is there").permissions().mode() & 0o777, 0o644);
    }
}
