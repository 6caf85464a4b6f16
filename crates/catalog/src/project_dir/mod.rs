//! Reads files of a project folder without following links that lead out of it.
//!
//! A path is opened one component at a time, relative to the parent folder and never through a link. Links are
//! resolved in this module: a target inside the project works, a target outside is an error before anything of it is
//! opened. Only regular files are opened, never a pipe, socket or device.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;

/// Maximum number of links followed per path, as in the kernel.
const MAX_LINKS: usize = 40;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// `NONBLOCK` keeps the open from blocking if a pipe replaces the file after the check.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Error of reading a project file.
#[derive(Debug)]
pub enum ProjectFileError {
    /// A link leads out of the project folder. Holds the link's path, relative to the folder.
    LeadsOut(PathBuf),
    /// The path is not a regular file.
    NotRegular,
    /// The file exceeds this limit in bytes.
    TooLarge(u64),
    /// I/O error of the operating system.
    Io(io::Error),
}

impl fmt::Display for ProjectFileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadsOut(link) => write!(
                formatter,
                "the link `{}` leads out of the project folder and is not followed; put the file itself in its \
                 place, or a relative link to a place inside the project",
                link.display()
            ),
            Self::NotRegular => formatter.write_str("it is not a regular file"),
            Self::TooLarge(most) => {
                write!(formatter, "it is larger than {}", model::units::format_size(*most))
            }
            Self::Io(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ProjectFileError {}

impl From<Errno> for ProjectFileError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<io::Error> for ProjectFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ProjectFileError> for io::Error {
    fn from(error: ProjectFileError) -> Self {
        match error {
            ProjectFileError::Io(error) => error,
            ProjectFileError::TooLarge(_) => Self::new(io::ErrorKind::FileTooLarge, error),
            _ => Self::other(error),
        }
    }
}

/// File or folder inside the project, with links resolved.
pub(crate) enum Node {
    /// Open folder.
    Folder(OwnedFd),
    /// Open regular file.
    File(File, Stat),
}

/// Entry of a folder, with links resolved.
pub struct Entry {
    /// Name within the folder.
    pub name: OsString,
    /// Kind, or the error if a link leads out.
    pub kind: Result<EntryKind, ProjectFileError>,
}

/// Kind of a folder entry.
pub enum EntryKind {
    /// Folder.
    Folder,
    /// Regular file.
    File(Stat),
}

/// Reads at most `most` bytes of the file at `path`, relative to the project folder `root`.
///
/// # Errors
/// Returns an error if a link leads out, the path is not a regular file, the file is larger than `most`, or the
/// system call fails.
pub fn read_project_file(root: &Path, path: &Path, most: u64) -> Result<Vec<u8>, ProjectFileError> {
    let content = read_start(root, path, most.saturating_add(1))?;
    if content.len() as u64 > most { Err(ProjectFileError::TooLarge(most)) } else { Ok(content) }
}

/// Checks that a file may be written at `path`, relative to the project folder `root`: no link may lead out.
///
/// # Errors
/// Returns an error if a link leads out, the path exists and is not a regular file, or the system call fails.
pub fn check_project_target(root: &Path, path: &Path) -> Result<(), ProjectFileError> {
    match resolve(root, path) {
        Ok(Node::File(..)) => Ok(()),
        Ok(Node::Folder(_)) => Err(ProjectFileError::NotRegular),
        Err(ProjectFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reads the first `most` bytes of a file.
pub fn read_start(root: &Path, path: &Path, most: u64) -> Result<Vec<u8>, ProjectFileError> {
    match resolve(root, path)? {
        Node::Folder(_) => Err(ProjectFileError::NotRegular),
        Node::File(file, _) => {
            let mut content = Vec::new();
            file.take(most).read_to_end(&mut content)?;
            Ok(content)
        }
    }
}

/// Lists a folder in the order of the operating system. Includes folders, regular files and, as errors, links that
/// lead out.
pub fn list(root: &Path, path: &Path) -> Result<Vec<Entry>, ProjectFileError> {
    let Node::Folder(folder) = resolve(root, path)? else {
        return Err(ProjectFileError::Io(io::ErrorKind::NotADirectory.into()));
    };
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        // The entry was deleted meanwhile.
        let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(EntryKind::File(stat)),
            FileType::Directory => Ok(EntryKind::Folder),
            FileType::Symlink => match resolve(root, &path.join(name)) {
                Ok(Node::Folder(_)) => Ok(EntryKind::Folder),
                Ok(Node::File(_, stat)) => Ok(EntryKind::File(stat)),
                Err(error @ ProjectFileError::LeadsOut(_)) => Err(error),
                // The link is dangling, circular, or points to a special file.
                Err(_) => continue,
            },
            _ => continue,
        };
        entries.push(Entry { name: name.to_owned(), kind });
    }
    Ok(entries)
}

/// Opens the file or folder at `path`, relative to the project folder `root`.
///
/// # Errors
/// As [`read_project_file`].
pub(crate) fn resolve(root: &Path, path: &Path) -> Result<Node, ProjectFileError> {
    // The operator chose the root, so it may itself be a link.
    let folder = open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut walk = Walk { root, top: folder, folders: Vec::new(), names: VecDeque::new(), links: 0 };
    walk.names.extend(path.components().map(|component| component.as_os_str().to_owned()));
    walk.run()
}

/// Path resolution in progress.
struct Walk<'a> {
    root: &'a Path,
    /// Open project folder.
    top: OwnedFd,
    /// Open folders below the root, with their names.
    folders: Vec<(OsString, OwnedFd)>,
    /// Components still to be opened.
    names: VecDeque<OsString>,
    /// Number of links followed.
    links: usize,
}

impl Walk<'_> {
    fn run(mut self) -> Result<Node, ProjectFileError> {
        while let Some(name) = self.names.pop_front() {
            match Path::new(&name).components().next() {
                None | Some(Component::CurDir) => {}
                Some(Component::ParentDir) => {
                    if self.folders.pop().is_none() {
                        return Err(ProjectFileError::LeadsOut(name.into()));
                    }
                }
                Some(Component::Normal(_)) => {
                    if let Some(file) = self.enter(name)? {
                        return Ok(file);
                    }
                }
                Some(_) => return Err(ProjectFileError::LeadsOut(name.into())),
            }
        }
        let folder = self.folders.pop().map_or(self.top, |(_, folder)| folder);
        Ok(Node::Folder(folder))
    }

    /// Opens a component in the current folder. Returns the file if the path ends there.
    fn enter(&mut self, name: OsString) -> Result<Option<Node>, ProjectFileError> {
        let folder = self.folders.last().map_or(&self.top, |(_, folder)| folder);
        let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let opened = openat(folder, &name, FOLDER, Mode::empty())?;
                self.folders.push((name, opened));
                Ok(None)
            }
            FileType::Symlink => self.follow(&name).map(|()| None),
            _ if !self.names.is_empty() => Err(ProjectFileError::Io(io::ErrorKind::NotADirectory.into())),
            FileType::RegularFile => {
                let file = openat(folder, &name, FILE, Mode::empty())?;
                let stat = fstat(&file)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(ProjectFileError::NotRegular);
                }
                Ok(Some(Node::File(file.into(), stat)))
            }
            _ => Err(ProjectFileError::NotRegular),
        }
    }

    /// Inserts the link's target before the remaining components.
    fn follow(&mut self, name: &OsStr) -> Result<(), ProjectFileError> {
        let folder = self.folders.last().map_or(&self.top, |(_, folder)| folder);
        let target = readlinkat(folder, name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let inside = if target.is_absolute() {
            let Some(inside) = self.inside(&target) else { return Err(self.leads_out(name)) };
            self.folders.clear();
            inside
        } else {
            target
        };
        // Checked here because the link's own name is known, for the error.
        let mut depth = self.folders.len();
        for component in inside.components() {
            match component {
                Component::ParentDir if depth == 0 => return Err(self.leads_out(name)),
                Component::ParentDir => depth -= 1,
                _ => depth += 1,
            }
        }
        for component in inside.components().rev() {
            self.names.push_front(component.as_os_str().to_owned());
        }
        Ok(())
    }

    /// Returns the part of an absolute path below the project folder, compared textually.
    fn inside(&self, target: &Path) -> Option<PathBuf> {
        let roots = [self.root.canonicalize().ok(), std::path::absolute(self.root).ok()];
        roots.iter().flatten().find_map(|root| target.strip_prefix(root).ok()).map(Path::to_owned)
    }

    fn leads_out(&self, name: &OsStr) -> ProjectFileError {
        let folders: PathBuf = self.folders.iter().map(|(name, _)| name).collect();
        ProjectFileError::LeadsOut(folders.join(name))
    }
}

#[cfg(test)]
mod tests;
