//! The files of tests of a project: found beside the Automations, read, and checked against what they test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::diagnostic::{Diagnostic, Report, Source, Span};
use model::load;
use model::trial::{self, Suite};

use crate::check::check;
use catalog::Catalog;
use catalog::{EntryKind, list_project_folder, read_start};

/// The folder that tests stand in, as the Automations do.
const FOLDER: &str = "automations";
/// How deep folders below it are looked into.
const MAX_DEPTH: usize = 8;
/// The most files of tests.
const MAX_FILES: usize = 12_000;
/// The most bytes that are read of a file: more than the loader takes, so that it can say so itself.
const MAX_BYTES: u64 = 512 << 10;

/// A file of tests.
pub struct Tests {
    /// Its path, relative to the project folder.
    pub path: String,
    /// What there is to say of it.
    pub report: Report,
    /// The tests, where nothing is wrong with the file.
    pub suite: Option<Suite>,
}

/// The files of tests of a project folder, or only those at or below `paths`, in the order of their paths. `catalog` is
/// that of the project.
#[must_use]
pub fn find(dir: &Path, catalog: &Catalog, paths: &[PathBuf]) -> Vec<Tests> {
    let mut found = BTreeSet::new();
    list(dir, Path::new(FOLDER), MAX_DEPTH, &mut found);
    let wanted =
        |path: &&String| paths.is_empty() || paths.iter().any(|wanted| Path::new(path).starts_with(wanted));
    found.iter().filter(wanted).map(|path| read(dir, catalog, path)).collect()
}

/// Checks a text as if it stood in the file of tests `path` of the project whose snapshot is `catalog`.
#[must_use]
pub fn check_text(catalog: &Catalog, path: &str, text: &str) -> Report {
    load_text(catalog, None, path, text.to_owned()).report
}

fn read(dir: &Path, catalog: &Catalog, path: &str) -> Tests {
    match read_text(dir, path) {
        Ok(text) => load_text(catalog, Some(dir), path, text),
        Err(message) => {
            let diagnostic = Diagnostic::error("unreadable-file", message, Span::default());
            let report = Report::new(Source::new(path, ""), [diagnostic]);
            Tests { path: path.to_owned(), report, suite: None }
        }
    }
}

/// `dir` is the project folder, where the files around the tests can be looked at.
fn load_text(catalog: &Catalog, dir: Option<&Path>, path: &str, text: String) -> Tests {
    let source = Arc::new(Source::new(path, text));
    let stem = trial::stem(path).unwrap_or_else(|| catalog::stem(path));
    let loaded = load::trial(source, stem);
    let report = match loaded.to_check() {
        Some((suite, _)) => catalog::check_together(&loaded.report, check(suite, catalog, dir)),
        None => loaded.report.clone(),
    };
    let report = load::allow(report);
    let suite = loaded.value.filter(|_| !report.has_errors());
    Tests { path: path.to_owned(), report, suite }
}

fn list(root: &Path, below: &Path, depth: usize, found: &mut BTreeSet<String>) {
    let Ok(entries) = list_project_folder(root, below) else { return };
    for entry in entries {
        let path = below.join(&entry.name);
        let hidden = entry.name.to_string_lossy().starts_with('.');
        if matches!(entry.kind, Ok(EntryKind::Folder)) {
            if depth > 0 && !hidden {
                list(root, &path, depth - 1, found);
            }
            continue;
        }
        // A link that leads out is reported when it is read.
        let Some(name) = path.to_str().filter(|name| !hidden && trial::stem(name).is_some()) else {
            continue;
        };
        if found.len() < MAX_FILES {
            found.insert(name.replace(std::path::MAIN_SEPARATOR, "/"));
        }
    }
}

fn read_text(root: &Path, path: &str) -> Result<String, String> {
    let bytes = read_start(root, Path::new(path), MAX_BYTES)
        .map_err(|error| format!("the file cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned())
}
