//! Changes of project files. The folder that was checked stays open, and everything is done in it by its descriptor: a folder that is swapped
//! with a link meanwhile leads nowhere.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fsync, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{Node, ProjectFileError, resolve_for_writing};

/// The attempts to find a name for a temporary file.
const ATTEMPTS: u64 = 100;

/// Numbers the temporary files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file of the project, or the place of one, in an open folder.
pub struct ProjectTarget {
    folder: OwnedFd,
    name: OsString,
}

impl ProjectTarget {
    /// Opens the folder of the file at `path`, relative to the project folder `root`, and creates missing folders if `create` is true.
    ///
    /// # Errors
    /// A link on the way leads to something else than a folder of the project, the file is a link or no regular file, or the system call
    /// fails.
    pub fn open(root: &Path, path: &Path, create: bool) -> Result<Self, ProjectFileError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ProjectFileError::NotRegular);
        };
        let Node::Folder(folder) = resolve_for_writing(root, parent, create)? else {
            return Err(ProjectFileError::Io(io::ErrorKind::NotADirectory.into()));
        };
        let target = Self { folder, name: name.to_owned() };
        match target.stat()?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            None | Some(FileType::RegularFile) => Ok(target),
            // A rename would put a file in the place of the link.
            Some(FileType::Symlink) => Err(ProjectFileError::IsLink),
            Some(_) => Err(ProjectFileError::NotRegular),
        }
    }

    fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if the file exists.
    ///
    /// # Errors
    /// The system call fails.
    pub fn exists(&self) -> io::Result<bool> {
        Ok(self.stat()?.is_some())
    }

    /// The number of files in the folder, at most `most`.
    ///
    /// # Errors
    /// The system call fails.
    pub fn siblings(&self, most: usize) -> io::Result<usize> {
        let entries = Dir::read_from(&self.folder)?.filter_map(Result::ok);
        Ok(entries.filter(|entry| !entry.file_name().to_bytes().starts_with(b".")).take(most).count())
    }

    /// Writes a temporary file, syncs it and renames it, so that readers see the old content or the new one. A new file gets the permissions
    /// `mode`.
    ///
    /// # Errors
    /// The file cannot be written. Nothing changed then.
    pub fn replace(&self, content: &[u8], mode: u32) -> io::Result<()> {
        let (draft, name) = self.create_draft()?;
        let written = self
            .fill(draft, content, mode)
            .and_then(|()| Ok(renameat(&self.folder, &name, &self.folder, &self.name)?));
        if let Err(error) = written {
            let _ = unlinkat(&self.folder, &name, AtFlags::empty());
            return Err(error);
        }
        Ok(fsync(&self.folder)?)
    }

    fn create_draft(&self) -> io::Result<(File, OsString)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".draft-{}-{number}", std::process::id()));
            match openat(&self.folder, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => return Ok((file.into(), name)),
                // Another process with this number has left it.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn fill(&self, mut draft: File, content: &[u8], mode: u32) -> io::Result<()> {
        draft.write_all(content)?;
        let mode = self.stat()?.map_or(mode, |stat| stat.st_mode & 0o777);
        fchmod(&draft, Mode::from_raw_mode(mode))?;
        draft.sync_all()
    }

    /// Deletes the file. Returns false if it does not exist.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub fn remove(&self) -> io::Result<bool> {
        match unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the file another place, which must be free.
    ///
    /// # Errors
    /// The other place is taken, the file does not exist, or the system call fails.
    pub fn move_to(&self, other: &Self) -> io::Result<()> {
        // A link fails if the target exists, while a rename would overwrite it.
        linkat(&self.folder, &self.name, &other.folder, &other.name, AtFlags::empty())?;
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }
}
