//! A directory that confines file access. Every component of a path is opened relative to its parent, and links are
//! refused, so no path leads outside, even if folders are swapped concurrently.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fstat, fsync, linkat, mkdirat, open, openat, renameat, statat,
    unlinkat,
};

/// Maximum number of components in a path.
const MAX_DEPTH: usize = 32;
/// Maximum length of a file or folder name, in bytes.
const MAX_NAME: usize = 255;
/// Prefix of temporary files.
const PARTIAL: &str = ".cogwork-";

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directory that all files are read from and written to.
pub(super) struct SandboxedDir(OwnedFd);

/// An entry of a listing.
pub(super) struct Entry {
    pub name: String,
    /// `file`, `folder` or `other`.
    pub kind: &'static str,
    pub size: u64,
    /// Modification time in seconds since 1970.
    pub modified: i64,
}

/// Behaviour if the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Replace,
    Keep,
}

/// Splits a path into its components and checks them.
pub(super) fn path_components(path: &str) -> Result<Vec<&str>, String> {
    let names: Vec<&str> = path.split('/').collect();
    if path.starts_with('/') {
        return Err("`path` begins with `/`; it is a path inside the folder of files".to_owned());
    }
    if names.len() > MAX_DEPTH {
        return Err(format!("`path` has more than {MAX_DEPTH} names"));
    }
    for name in &names {
        let words = match *name {
            "" => "an empty name",
            "." | ".." => "a `.` or `..`",
            name if name.len() > MAX_NAME => "a name of more than 255 bytes",
            name if name.chars().any(|c| c.is_control() || c == '\\') => "a `\\` or a control character",
            name if name.starts_with(PARTIAL) => "a name that is reserved for temporary files",
            _ => continue,
        };
        return Err(format!("`path` holds {words}; write it like `reports/today.csv`"));
    }
    Ok(names)
}

impl SandboxedDir {
    /// Opens the directory and creates it if necessary.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        // The configured directory itself may be a link.
        let folder = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self(folder))
    }

    /// Opens the folder at these components.
    fn folder(&self, names: &[&str], make: bool) -> io::Result<OwnedFd> {
        let mut folder = openat(&self.0, ".", FOLDER, Mode::empty())?;
        for name in names {
            if make {
                match mkdirat(&folder, *name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            folder = openat(&folder, *name, FOLDER, Mode::empty())?;
        }
        Ok(folder)
    }

    /// Reads a file of at most `max` bytes, with its modification time.
    pub(super) fn read(&self, names: &[&str], max: usize) -> io::Result<(Vec<u8>, i64)> {
        let Some((name, above)) = names.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let folder = self.folder(above, false)?;
        // Non-blocking, since opening a pipe would otherwise block forever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&folder, *name, flags, Mode::empty())?;
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a file"));
        }
        let mut content = Vec::new();
        let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
        File::from(file).take(limit).read_to_end(&mut content)?;
        if content.len() > max {
            let max = text::units::format_size(max as u64);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max}")));
        }
        Ok((content, seconds(found.st_mtime)))
    }

    /// Writes a file atomically and durably. Creates missing folders.
    pub(super) fn write(&self, names: &[&str], content: &[u8], existing: Existing) -> io::Result<()> {
        let Some((name, above)) = names.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let folder = self.folder(above, true)?;
        let partial = format!("{PARTIAL}{}", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, partial.as_str(), flags, Mode::from_raw_mode(0o644))?);
        let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| match existing {
            Existing::Replace => Ok(renameat(&folder, partial.as_str(), &folder, *name)?),
            // A hard link fails if the name exists, while a rename would replace it.
            Existing::Keep => Ok(linkat(&folder, partial.as_str(), &folder, *name, AtFlags::empty())?),
        });
        if written.is_err() || existing == Existing::Keep {
            let _ = unlinkat(&folder, partial.as_str(), AtFlags::empty());
        }
        written?;
        Ok(fsync(&folder)?)
    }

    /// Lists at most `max` entries of a folder by name, without temporary files.
    pub(super) fn list(&self, names: &[&str], max: usize) -> io::Result<Vec<Entry>> {
        let folder = self.folder(names, false)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            // Paths are text, so a name that is not UTF-8 is unreachable.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || name.starts_with(PARTIAL) {
                continue;
            }
            if entries.len() == max {
                return Err(io::Error::other(format!("the folder has more than {max} entries")));
            }
            let found = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // Deleted since the listing.
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            let kind = match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => "file",
                FileType::Directory => "folder",
                _ => "other",
            };
            let size = u64::try_from(found.st_size).unwrap_or(0);
            entries.push(Entry { name: name.to_owned(), kind, size, modified: seconds(found.st_mtime) });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }
}

/// The width of the field differs between systems.
fn seconds(time: impl TryInto<i64>) -> i64 {
    time.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pretty_assertions::assert_eq;

    use super::*;

    fn folder() -> (tempfile::TempDir, SandboxedDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = SandboxedDir::open(&folder.path().join("files")).expect("it opens");
        (folder, root)
    }

    #[test]
    fn a_path_that_could_leave_the_folder_is_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\\b", "a\nb", "a/.cogwork-1", "a/"]
        {
            assert!(path_components(path).is_err(), "{path:?}");
        }
        assert!(path_components(&"a/".repeat(40)).is_err());
        assert_eq!(path_components("reports/ü 1.csv"), Ok(vec!["reports", "ü 1.csv"]));
    }

    #[test]
    fn a_written_file_can_be_read_and_listed() {
        let (_kept, root) = folder();
        root.write(&["a", "b.txt"], b"one", Existing::Replace).expect("written");
        root.write(&["a", "b.txt"], b"two", Existing::Replace).expect("replaced");
        let kept = root.write(&["a", "b.txt"], b"three", Existing::Keep).expect_err("it is there");
        assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(root.read(&["a", "b.txt"], 3).expect("it is there").0, b"two");
        assert_eq!(root.read(&["a", "b.txt"], 2).expect_err("too large").kind(), io::ErrorKind::FileTooLarge);
        let names: Vec<_> =
            root.list(&["a"], 9).expect("a list").into_iter().map(|entry| (entry.name, entry.size)).collect();
        assert_eq!(names, [("b.txt".to_owned(), 3)], "nothing is left over of what was in the making");
        assert!(root.list(&["a"], 0).is_err());
    }

    #[test]
    fn no_link_leads_out() {
        let (kept, root) = folder();
        std::fs::write(kept.path().join("secret"), "s").expect("written");
        let inside = kept.path().join("files");
        symlink(kept.path().join("secret"), inside.join("file")).expect("a link");
        symlink(kept.path(), inside.join("way")).expect("a link");
        assert!(root.read(&["file"], 9).is_err());
        assert!(root.read(&["way", "secret"], 9).is_err());
        assert!(root.write(&["way", "new"], b"x", Existing::Replace).is_err());
        assert!(root.list(&["way"], 9).is_err());
        // The link itself is replaced, not its target.
        root.write(&["file"], b"x", Existing::Replace).expect("written");
        assert_eq!(std::fs::read(kept.path().join("secret")).expect("it is there"), b"s");
        assert!(!kept.path().join("new").exists());
    }

    #[test]
    fn a_path_has_a_maximum_of_components() {
        let path = |names: usize| vec!["a"; names].join("/");
        assert!(path_components(&path(MAX_DEPTH)).is_ok());
        assert_eq!(path_components(&path(MAX_DEPTH + 1)), Err("`path` has more than 32 names".to_owned()));
    }
}
