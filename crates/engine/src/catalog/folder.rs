//! The files of a project folder, read again only where they have changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use model::automation::Automation;
use model::diagnostic::{Diagnostic, Report, Source, Span};
use model::load::{self, Loaded};
use model::{Connection, DefinitionHash};

/// How deep folders below `automations/` are looked into.
const MAX_DEPTH: usize = 8;
/// The most files of a project (interfaces, "Limits").
const MAX_FILES: usize = 12_000;
/// The most bytes that are read of a file: more than the loader takes, so that it can say so itself.
const MAX_BYTES: u64 = 512 << 10;

/// What kind of file it is, told by its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    Manifest,
    Connection,
    Automation,
}

impl FileKind {
    const FOLDERS: [(&'static str, Self); 3] = [
        ("connectors", Self::Manifest),
        ("connections", Self::Connection),
        ("automations", Self::Automation),
    ];

    /// The kind of a file at this path relative to the project folder.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let folder = path.components().next()?.as_os_str();
        let name = path.file_name()?.to_str()?;
        let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
        let kept =
            yaml && !name.starts_with('.') && !name.ends_with(".test.yaml") && !name.ends_with(".test.yml");
        Self::FOLDERS.iter().find(|(word, _)| kept && folder == *word).map(|(_, kind)| *kind)
    }
}

/// The files as they were last read.
pub(crate) struct Folder {
    dir: PathBuf,
    files: BTreeMap<String, File>,
    /// Counts the scans that found a manifest or a connection changed.
    pub(crate) surroundings: u64,
}

pub(crate) struct File {
    pub(crate) kind: FileKind,
    stamp: Stamp,
    pub(crate) source: Arc<Source>,
    pub(crate) content: Content,
}

/// What the file system says of a file: while it stays the same the file is not read again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

#[derive(Clone)]
pub(crate) enum Content {
    Automation { loaded: Arc<Loaded<Arc<Automation>>>, definition: Option<DefinitionHash> },
    Connection(Arc<Loaded<Arc<Connection>>>),
    Manifest,
}

impl Folder {
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), files: BTreeMap::new(), surroundings: 0 }
    }

    /// Every file by its path relative to the project folder.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Looks at the folder again and reads what changed. Gives the paths that did.
    pub(crate) fn scan(&mut self) -> Vec<String> {
        let found = self.list();
        let mut changed = Vec::new();
        self.files.retain(|path, file| {
            let kept = found.contains_key(path);
            if !kept {
                changed.push(path.clone());
                self.surroundings += u64::from(file.kind != FileKind::Automation);
            }
            kept
        });
        let stale: Vec<_> = found
            .into_iter()
            .filter(|(path, (_, stamp))| self.files.get(path).is_none_or(|file| file.stamp != *stamp))
            .collect();
        for (path, file) in read_all(&self.dir, stale) {
            let same = self.files.get(&path).is_some_and(|old| old.source.text() == file.source.text());
            if same {
                // Touched, not changed: what was loaded from it stays.
                if let Some(old) = self.files.get_mut(&path) {
                    old.stamp = file.stamp;
                }
                continue;
            }
            self.surroundings += u64::from(file.kind != FileKind::Automation);
            changed.push(path.clone());
            self.files.insert(path, file);
        }
        changed.sort();
        changed
    }

    fn list(&self) -> BTreeMap<String, (FileKind, Stamp)> {
        let mut found = BTreeMap::new();
        for (folder, kind) in FileKind::FOLDERS {
            list_folder(&self.dir, Path::new(folder), kind, MAX_DEPTH, &mut found);
        }
        found
    }
}

fn list_folder(
    root: &Path,
    below: &Path,
    kind: FileKind,
    depth: usize,
    found: &mut BTreeMap<String, (FileKind, Stamp)>,
) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        // Follows links, as editors and config maps use them; devices and pipes are not regular files.
        let Ok(metadata) = fs::metadata(root.join(&path)) else { continue };
        if metadata.is_dir() {
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if depth > 0 && !hidden {
                list_folder(root, &path, kind, depth - 1, found);
            }
            continue;
        }
        let Some(name) = path.to_str().filter(|_| metadata.is_file() && FileKind::of(&path).is_some()) else {
            continue;
        };
        if found.len() >= MAX_FILES {
            tracing::error!(
                limit = MAX_FILES,
                "the project has more files than are read; the rest is left out"
            );
            return;
        }
        found.insert(name.to_owned(), (kind, Stamp::of(&metadata)));
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { modified: metadata.modified().ok(), length: metadata.len(), inode }
    }
}

/// Reads and loads many files, on as many threads as there are cores.
fn read_all(root: &Path, files: Vec<(String, (FileKind, Stamp))>) -> Vec<(String, File)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len() / 16 + 1);
    if threads <= 1 {
        return files.into_iter().map(|(path, (kind, stamp))| read_one(root, path, kind, stamp)).collect();
    }
    let share = files.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = files
            .chunks(share)
            .map(|part| {
                scope.spawn(move || {
                    let part = part.iter().cloned();
                    part.map(|(path, (kind, stamp))| read_one(root, path, kind, stamp)).collect::<Vec<_>>()
                })
            })
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

fn read_one(root: &Path, path: String, kind: FileKind, stamp: Stamp) -> (String, File) {
    let text = read_text(&root.join(&path));
    let stem = stem(&path).to_owned();
    let (text, problem) = match text {
        Ok(text) => (text, None),
        Err(message) => (String::new(), Some(message)),
    };
    let source = Arc::new(Source::new(path.clone(), text));
    let content = match kind {
        FileKind::Manifest => Content::Manifest,
        FileKind::Connection => {
            let loaded = shared(load::connection(source.clone(), &stem), problem, &source);
            Content::Connection(Arc::new(loaded))
        }
        FileKind::Automation => {
            let loaded = shared(load::automation(source.clone(), &stem), problem, &source);
            let definition = loaded.value.as_ref().map(|automation| automation.definition);
            Content::Automation { loaded: Arc::new(loaded), definition }
        }
    };
    (path, File { kind, stamp, source, content })
}

fn shared<T>(loaded: Loaded<T>, problem: Option<String>, source: &Arc<Source>) -> Loaded<Arc<T>> {
    match problem {
        None => loaded.map(Arc::new),
        Some(message) => {
            let diagnostic = Diagnostic::error("unreadable-file", message, Span::default());
            Loaded::refused(Report::new(source.clone(), [diagnostic]))
        }
    }
}

/// The file's name without folder and ending.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")).unwrap_or(name)
}

fn read_text(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the file cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned())
}
