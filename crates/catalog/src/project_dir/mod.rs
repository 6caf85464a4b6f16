//! Reads the files of a project, and nothing else that is in its folder or outside of it.
//!
//! A path is opened one component at a time, relative to the parent folder and never through a link. Links are
//! resolved in this module: a target that is a project file itself works, any other target is an error before anything of it is
//! opened. Only regular files are opened, never a pipe, socket or device.

mod target;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use model::project::PROJECT_FILE;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat, statat,
};
use rustix::io::Errno;

use crate::snapshot::FileKind;
pub use target::ProjectTarget;

/// The folder of saved payloads.
const PAYLOADS: &str = "payloads";

/// The folders whose files belong to a project. The data folder and that of secrets lie beside them.
pub const FOLDERS: [&str; 4] = [FileKind::FOLDERS[0], FileKind::FOLDERS[1], FileKind::FOLDERS[2], PAYLOADS];

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
    /// The path, or the target of its link, is inside the project folder and not a project file, such as the data folder or a secret.
    NotProject {
        /// The path, relative to the folder.
        path: PathBuf,
        /// The place that it leads to.
        target: PathBuf,
        /// True if that is a folder.
        is_folder: bool,
    },
    /// The path is not a regular file.
    NotRegular,
    /// The file is a link, and would be replaced.
    IsLink,
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
            Self::NotProject { path, target, .. } if path == target => write!(
                formatter,
                "`{}` is not a project file; only files in {} are read, and no hidden ones",
                path.display(),
                folders()
            ),
            Self::NotProject { path, target, .. } => write!(
                formatter,
                "the link `{}` leads to `{}`, which is not a project file, and is not followed; put the file itself in its place, or a \
                 link to a file of the same kind in {}",
                path.display(),
                target.display(),
                folders()
            ),
            Self::IsLink => formatter.write_str("this is a link; change the file that it leads to"),
            Self::NotRegular => formatter.write_str("it is not a regular file"),
            Self::TooLarge(most) => {
                write!(formatter, "it is larger than {}", text::units::format_size(*most))
            }
            Self::Io(error) => error.fmt(formatter),
        }
    }
}

/// The folders whose files are read, in words.
fn folders() -> String {
    let all: Vec<String> = FOLDERS.iter().map(|folder| format!("`{folder}/`")).collect();
    format!("{} and `{PROJECT_FILE}`", all.join(", "))
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

/// Opens the file at `path`, relative to the project folder `root`.
///
/// # Errors
/// As [`read_project_file`].
pub fn open_project_file(root: &Path, path: &Path) -> Result<File, ProjectFileError> {
    match resolve(root, path)? {
        Node::Folder(_) => Err(ProjectFileError::NotRegular),
        Node::File(file, _) => Ok(file),
    }
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
    let mut content = Vec::new();
    open_project_file(root, path)?.take(most).read_to_end(&mut content)?;
    Ok(content)
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
                Err(error @ (ProjectFileError::LeadsOut(_) | ProjectFileError::NotProject { .. })) => {
                    Err(error)
                }
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
    resolve_for_writing(root, path, false)
}

/// As [`resolve`]. Creates missing folders if `create` is true.
fn resolve_for_writing(root: &Path, path: &Path, create: bool) -> Result<Node, ProjectFileError> {
    // The operator chose the root, so it may itself be a link.
    let folder = open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let (folders, names) = (Vec::new(), VecDeque::new());
    let mut walk = Walk { root, path, top: folder, folders, names, links: 0, create };
    walk.names.extend(path.components().map(|component| component.as_os_str().to_owned()));
    walk.run()
}

/// Path resolution in progress.
struct Walk<'a> {
    root: &'a Path,
    /// The path that is resolved.
    path: &'a Path,
    /// Open project folder.
    top: OwnedFd,
    /// Open folders below the root, with their names.
    folders: Vec<(OsString, OwnedFd)>,
    /// Components still to be opened.
    names: VecDeque<OsString>,
    /// Number of links followed.
    links: usize,
    /// True if missing folders are created.
    create: bool,
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
        self.check_target(self.place(None))?;
        let folder = self.folders.pop().map_or(self.top, |(_, folder)| folder);
        Ok(Node::Folder(folder))
    }

    /// The current folder, or a file in it, relative to the project folder and without links.
    fn place(&self, name: Option<&OsStr>) -> PathBuf {
        self.folders.iter().map(|(name, _)| name.as_os_str()).chain(name).collect()
    }

    /// Checks that the place at which the path ends belongs to the project.
    fn check_target(&self, target: PathBuf) -> Result<(), ProjectFileError> {
        let is_folder = target == self.place(None);
        let fits =
            is_project_place(&target) && (is_folder || self.links == 0 || is_same_use(self.path, &target));
        let path = self.path.to_owned();
        if fits { Ok(()) } else { Err(ProjectFileError::NotProject { path, target, is_folder }) }
    }

    /// Opens a component in the current folder. Returns the file if the path ends there.
    fn enter(&mut self, name: OsString) -> Result<Option<Node>, ProjectFileError> {
        let folder = self.folders.last().map_or(&self.top, |(_, folder)| folder);
        let stat = match statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) if self.create && is_project_place(&self.place(Some(&name))) => {
                match mkdirat(folder, &name, Mode::from_raw_mode(0o777)) {
                    // Another request has created it meanwhile.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?
            }
            found => found?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let opened = openat(folder, &name, FOLDER, Mode::empty())?;
                self.folders.push((name, opened));
                Ok(None)
            }
            FileType::Symlink => self.follow(&name).map(|()| None),
            _ if !self.names.is_empty() => Err(ProjectFileError::Io(io::ErrorKind::NotADirectory.into())),
            FileType::RegularFile => {
                self.check_target(self.place(Some(&name)))?;
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
        ProjectFileError::LeadsOut(self.place(Some(name)))
    }
}

/// Returns true if a place without links is `project.yaml`, or in a folder of the project's files and not hidden. Orchestrators mount files in
/// folders that begin with two dots.
fn is_project_place(place: &Path) -> bool {
    if place == Path::new(PROJECT_FILE) {
        return true;
    }
    let mut names = place.iter().map(OsStr::as_bytes);
    let is_ours = names.next().is_some_and(|first| FOLDERS.iter().any(|folder| folder.as_bytes() == first));
    let is_hidden = |name: &[u8]| name.starts_with(b".") && !name.starts_with(b"..");
    is_ours && !names.any(is_hidden)
}

/// Returns true if the target of a link is a file of the same use as the link: a link with the name of an automation shows no other file.
fn is_same_use(link: &Path, target: &Path) -> bool {
    let is_payload = |path: &Path| {
        path.starts_with(PAYLOADS) && path.extension().is_some_and(|extension| extension == "json")
    };
    let is_source = |path: &Path| {
        FileKind::from_path(path).is_some() || path.to_str().is_some_and(model::test_suite::is_test_file)
    };
    (!is_source(link) || is_source(target)) && (!is_payload(link) || is_payload(target))
}

#[cfg(test)]
mod tests;
