//! In-memory copy of the project files; a scan rereads only changed files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use model::project::PROJECT_FILE;
use rpds::RedBlackTreeMapSync;
use rustix::fs::Stat;

use super::file::{File, FileKind};
use crate::parallel;
use crate::project_dir::{self, EntryKind, Node, ProjectFileError};

/// Maximum folder depth below `automations/`.
const MAX_DEPTH: usize = 8;
/// Maximum number of folders in the path of a project file.
pub const MAX_FOLDERS: usize = MAX_DEPTH + 1;
/// Maximum number of project files (interfaces, "Limits").
pub(crate) const MAX_FILES: usize = 12_000;

/// Extent of a scan for changed files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanScope {
    /// Scan all folders.
    Full,
    /// Scan only these paths, relative to the project folder, because the watcher reported events there.
    Paths(BTreeSet<PathBuf>),
}

/// Project files as last read. A clone is cheap and shares all files, so each snapshot keeps the files it was built
/// from.
#[derive(Clone)]
pub struct Folder {
    dir: Arc<Path>,
    files: RedBlackTreeMapSync<Arc<str>, Arc<File>>,
}

/// File metadata that detects changes: a file with the same stamp is not reread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Modification time: seconds and nanoseconds since 1970.
    modified: (i128, i128),
    length: i128,
    inode: i128,
}

/// Files found by a scan. A kind of `None` marks a symbolic link that leads out of the project, kept so that it is
/// reported.
type Candidates = BTreeMap<Arc<str>, (Option<FileKind>, Stamp)>;

impl Folder {
    /// A project folder that has not been scanned yet.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into(), files: RedBlackTreeMapSync::new_sync() }
    }

    /// Returns the same files for another folder. A scan then finds the differences there.
    pub(crate) fn moved_to(&self, dir: &Path) -> Self {
        Self { dir: dir.into(), files: self.files.clone() }
    }

    /// Returns a folder with these files, which a client read and sent, and the paths that differ from this one.
    pub(crate) fn with_files(&self, files: Vec<(String, File)>) -> (Self, BTreeSet<Arc<str>>) {
        let mut next = Self { dir: self.dir.clone(), files: RedBlackTreeMapSync::new_sync() };
        let mut changed = BTreeSet::new();
        for (path, file) in files {
            let path: Arc<str> = path.into();
            match self.get(&path).filter(|known| known.has_same_text(&file)) {
                Some(known) => next.files.insert_mut(path, known.clone()),
                None => {
                    changed.insert(path.clone());
                    next.put(path, file);
                }
            }
        }
        changed.extend(self.files.keys().filter(|path| next.get(path).is_none()).cloned());
        (next, changed)
    }

    /// Returns this folder with these files laid over it, and the paths that differ.
    pub(crate) fn overlaid(&self, files: Vec<(String, File)>) -> (Self, BTreeSet<Arc<str>>) {
        let (mut next, mut changed) = (self.clone(), BTreeSet::new());
        for (path, file) in files {
            let path: Arc<str> = path.into();
            if self.get(&path).is_none_or(|known| !known.has_same_text(&file)) {
                changed.insert(path.clone());
                next.put(path, file);
            }
        }
        (next, changed)
    }

    /// Iterates over all files, by path.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<File>> {
        self.files.values()
    }

    /// Iterates over the files of a kind, by path relative to the project folder.
    pub(crate) fn files(&self, kind: FileKind) -> impl Iterator<Item = (&Arc<str>, &Arc<File>)> {
        kind.folder()
            .into_iter()
            .flat_map(|folder| self.below(folder))
            .filter(move |(path, _)| FileKind::from_path(Path::new(&***path)) == Some(kind))
    }

    /// Returns the project folder; `None` for an empty catalog.
    pub(crate) fn dir(&self) -> Option<&Path> {
        Some(&*self.dir).filter(|dir| !dir.as_os_str().is_empty())
    }

    /// Returns the file at a path relative to the project folder.
    pub(crate) fn get(&self, path: &str) -> Option<&Arc<File>> {
        self.files.get(path)
    }

    /// Stores a file without accessing the disk.
    pub(crate) fn put(&mut self, path: Arc<str>, file: File) {
        self.files.insert_mut(path, Arc::new(file));
    }

    /// Scans the disk, rereads changed files and returns their paths, including paths of deleted files.
    pub fn scan(&mut self, scope: &ScanScope) -> BTreeSet<Arc<str>> {
        let found = match scope {
            ScanScope::Full => None,
            ScanScope::Paths(paths) => self.scan_paths(paths),
        };
        found.unwrap_or_else(|| self.scan_all())
    }

    fn scan_all(&mut self) -> BTreeSet<Arc<str>> {
        let mut found = Candidates::new();
        for folder in FileKind::FOLDERS {
            list_folder(&self.dir, Path::new(folder), MAX_DEPTH, &mut found);
        }
        list_project_file(&self.dir, &mut found);
        let gone = self.files.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        found.retain(|path, (_, stamp)| self.get(path).is_none_or(|file| file.stamp != *stamp));
        self.apply(found, gone)
    }

    /// Scans only these paths. Returns `None` if a path may contain several files because it is a folder or a link to
    /// one.
    fn scan_paths(&mut self, paths: &BTreeSet<PathBuf>) -> Option<BTreeSet<Arc<str>>> {
        let (mut found, mut gone) = (Candidates::new(), Vec::new());
        for path in paths {
            let Some(name) = slash_path(path) else { continue };
            let was_folder = self.below(&name).next().is_some();
            let stamp = match project_dir::resolve(&self.dir, path) {
                _ if was_folder => return None,
                // The link may belong to a parent folder.
                Ok(Node::Folder(_)) | Err(ProjectFileError::LeadsOut(_)) => return None,
                Ok(Node::File(_, stat)) => Some(Stamp::from_stat(&stat)),
                Err(_) => None,
            };
            let kind = FileKind::from_path(path).filter(|_| can_be_listed(path));
            match (kind, stamp) {
                (Some(kind), Some(stamp)) if self.get(&name).is_some() || self.has_room(&found) => {
                    // Reread even with an equal stamp: two writes within one tick of the file system's clock have the
                    // same one.
                    found.insert(name, (Some(kind), stamp));
                }
                (_, None) if self.get(&name).is_some() => gone.push(name),
                _ => {}
            }
        }
        Some(self.apply(found, gone))
    }

    fn has_room(&self, found: &Candidates) -> bool {
        has_room(self.files.size() + found.len())
    }

    /// Iterates over the files below a folder.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<File>)> {
        let start: Arc<str> = format!("{folder}/").into();
        let within = start.clone();
        self.files.range(start..).take_while(move |(path, _)| path.starts_with(&*within))
    }

    /// Reads the files found, removes deleted ones and returns the changed paths.
    fn apply(&mut self, found: Candidates, gone: Vec<Arc<str>>) -> BTreeSet<Arc<str>> {
        let found: Vec<_> = found.into_iter().collect();
        let read = parallel::map(&found, |(path, (kind, stamp))| {
            Arc::new(File::read(&self.dir, path, *kind, *stamp))
        });
        for path in &gone {
            self.files.remove_mut(path);
        }
        let mut changed: BTreeSet<Arc<str>> = gone.into_iter().collect();
        for ((path, _), mut file) in found.into_iter().zip(read) {
            let is_same =
                |old: &&Arc<File>| old.is_read && file.is_read && old.source.text() == file.source.text();
            match self.get(&path).filter(is_same) {
                // The content is unchanged: keep what was loaded from it.
                Some(old) => file = Arc::new(File { stamp: file.stamp, ..File::clone(old) }),
                None => {
                    changed.insert(path.clone());
                }
            }
            self.files.insert_mut(path, file);
        }
        changed
    }
}

impl Stamp {
    /// Stamp of a text that is not on disk.
    pub(super) const NONE: Self = Self { modified: (0, 0), length: 0, inode: 0 };

    /// Builds a stamp. The fields' types differ between systems; `i128` holds each of them.
    fn from_stat(stat: &Stat) -> Self {
        Self {
            modified: (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
            length: i128::from(stat.st_size),
            inode: i128::from(stat.st_ino),
        }
    }
}

/// Adds `project.yaml` if it exists.
fn list_project_file(root: &Path, found: &mut Candidates) {
    let stamp = match project_dir::resolve(root, Path::new(PROJECT_FILE)) {
        Ok(Node::File(_, stat)) => Stamp::from_stat(&stat),
        // Reading it reports the problem.
        Err(ProjectFileError::LeadsOut(_) | ProjectFileError::NotProject { .. }) => Stamp::NONE,
        Ok(Node::Folder(_)) | Err(_) => return,
    };
    found.insert(PROJECT_FILE.into(), (Some(FileKind::Project), stamp));
}

fn list_folder(root: &Path, below: &Path, depth: usize, found: &mut Candidates) {
    let entries = match project_dir::list(root, below) {
        Ok(entries) => entries,
        // The top-level folder itself is a link. Links at lower levels are entries of their parent folder.
        Err(ProjectFileError::LeadsOut(link) | ProjectFileError::NotProject { path: link, .. }) => {
            found.extend(slash_path(&link).map(|name| (name, (None, Stamp::NONE))));
            return;
        }
        Err(_) => return,
    };
    for entry in entries {
        let path = below.join(&entry.name);
        let kind = FileKind::from_path(&path);
        // The target of a link that leads out is never examined, so it may be a file or a folder.
        let (kind, stamp) = match entry.kind {
            Ok(EntryKind::Folder) => {
                if depth > 0 && !is_hidden(&path) {
                    list_folder(root, &path, depth - 1, found);
                }
                continue;
            }
            Ok(EntryKind::File(stat)) if kind.is_some() => (kind, Stamp::from_stat(&stat)),
            // A link to a file that has no use in a project, such as a text for people.
            Err(ProjectFileError::NotProject { is_folder: false, .. }) if kind.is_none() => continue,
            Err(_) if kind.is_some() || is_reported_link(&path) => (kind, Stamp::NONE),
            _ => continue,
        };
        let Some(name) = slash_path(&path) else { continue };
        if !has_room(found.len()) {
            return;
        }
        found.insert(name, (kind, stamp));
    }
}

/// Returns true if a link without a file kind is reported when it leads out. Links in test folders are reported with
/// the tests.
fn is_reported_link(path: &Path) -> bool {
    !is_hidden(path) && !path.to_str().is_some_and(model::test_suite::is_test_file)
}

fn has_room(files: usize) -> bool {
    if files < MAX_FILES {
        return true;
    }
    tracing::error!(limit = MAX_FILES, "the project has too many files; the rest is ignored");
    false
}

/// Returns true if a full scan would reach a file at this path.
fn can_be_listed(path: &Path) -> bool {
    let folders =
        path.parent().into_iter().flat_map(Path::ancestors).filter(|folder| folder.parent().is_some());
    let mut deep = 0;
    folders.inspect(|_| deep += 1).all(|folder| !is_hidden(folder)) && deep <= MAX_FOLDERS
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Converts a path relative to the project folder to its `/`-separated form; `None` if it is not UTF-8 or leads out.
fn slash_path(path: &Path) -> Option<Arc<str>> {
    let names: Option<Vec<&str>> = path
        .components()
        .map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    names.map(|names| names.join("/").into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn can_be_listed_agrees_with_a_full_scan() {
        let deep = |folders: usize| format!("automations/{}x.yaml", "a/".repeat(folders));
        assert!(can_be_listed(Path::new("automations/x.yaml")));
        assert!(can_be_listed(Path::new(&deep(MAX_DEPTH))));
        assert!(!can_be_listed(Path::new(&deep(MAX_DEPTH + 1))));
        assert!(!can_be_listed(Path::new("automations/.git/x.yaml")));
    }

    #[test]
    fn a_path_scan_finds_the_same_files_as_a_full_scan() {
        let project = tempfile::tempdir().expect("a folder");
        let dir = project.path();
        fs::create_dir_all(dir.join("automations/sub/.hidden")).expect("folders");
        let texts = [
            "automations/a.yaml",
            "automations/sub/b.yml",
            "automations/sub/.hidden/c.yaml",
            "automations/a.txt",
        ];
        let mut watched = Folder::new(dir);
        watched.scan(&ScanScope::Full);
        for path in texts {
            fs::write(dir.join(path), "trigger: {manual: {}}\nsteps: []\n").expect("written");
        }
        let all = texts.iter().map(PathBuf::from).collect();
        let changed = watched.scan(&ScanScope::Paths(all));
        assert_eq!(changed, Folder::new(dir).scan(&ScanScope::Full));
        assert_eq!(changed.len(), 2);
        fs::remove_file(dir.join(texts[0])).expect("removed");
        let gone = watched.scan(&ScanScope::Paths(BTreeSet::from([texts[0].into()])));
        assert_eq!(gone.into_iter().collect::<Vec<_>>(), [Arc::<str>::from(texts[0])]);
        // Removing a folder removes its files.
        fs::remove_dir_all(dir.join("automations/sub")).expect("removed");
        let gone = watched.scan(&ScanScope::Paths(BTreeSet::from(["automations/sub".into()])));
        assert_eq!(gone.into_iter().collect::<Vec<_>>(), [Arc::<str>::from(texts[1])]);
        assert!(watched.files(FileKind::Automation).next().is_none());
    }

    #[test]
    fn a_rewritten_file_with_the_same_text_is_unchanged() {
        let project = tempfile::tempdir().expect("a folder");
        fs::create_dir(project.path().join("automations")).expect("a folder");
        let path = project.path().join("automations/a.yaml");
        let mut folder = Folder::new(project.path());
        fs::write(&path, "steps: []\n").expect("written");
        assert_eq!(folder.scan(&ScanScope::Full).len(), 1);
        let read = folder.get("automations/a.yaml").expect("read").source.clone();
        fs::remove_file(&path).and_then(|()| fs::write(&path, "steps: []\n")).expect("written");
        assert!(folder.scan(&ScanScope::Full).is_empty());
        assert!(Arc::ptr_eq(&read, &folder.get("automations/a.yaml").expect("read").source));
        fs::write(&path, "steps: {}\n").expect("written");
        assert_eq!(folder.scan(&ScanScope::Paths(BTreeSet::from(["automations/a.yaml".into()]))).len(), 1);
    }

    #[test]
    fn the_number_of_project_files_is_limited() {
        assert!(has_room(MAX_FILES - 1));
        assert!(!has_room(MAX_FILES));
    }

    #[test]
    fn code_of_one_mib_is_read_and_longer_code_is_reported_instead_of_truncated() {
        let project = tempfile::tempdir().expect("a folder");
        fs::create_dir(project.path().join("automations")).expect("a folder");
        let text = |bytes: usize| format!("//{}", "x".repeat(bytes - 2));
        for (name, bytes) in [("whole", script::MAX_SOURCE), ("longer", script::MAX_SOURCE + 1)] {
            fs::write(project.path().join(format!("automations/{name}.js")), text(bytes)).expect("written");
        }
        let mut folder = Folder::new(project.path());
        folder.scan(&ScanScope::Full);
        let whole = folder.get("automations/whole.js").expect("it is there");
        assert_eq!(whole.source.text().len(), script::MAX_SOURCE);
        let longer = folder.get("automations/longer.js").expect("it is there");
        assert!(!longer.is_read() && longer.code().is_none());
        let shown = longer.report().render(false);
        assert!(shown.contains("it is larger than 1MiB"), "{shown}");
    }
}
