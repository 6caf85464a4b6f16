//! Finds, reads and checks the test files of a project, which are beside the automations.

mod check;
mod result;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{Catalog, EntryKind, ProjectFile, list_project_folder, read_start};
use language::load;
use model::test_suite::{CASSETTE_DIR, Suite, suite_stem};
use text::diagnostic::{Diagnostic, Report, Source, Span};

use self::check::check;
pub use self::write::{append_case, is_pattern, start_of};

/// Folder of the test files.
const FOLDER: &str = "automations";
/// Maximum folder depth below it.
const MAX_DEPTH: usize = 8;
/// Maximum number of test files.
const MAX_FILES: usize = 12_000;
/// Maximum bytes read from a file; above the loader's own limit, so that the loader reports an oversized file.
const MAX_BYTES: u64 = 512 << 10;

/// Loaded test file.
pub struct TestFile {
    /// Path relative to the project folder.
    pub path: String,
    /// Problems of the file.
    pub report: Report,
    /// Tests; `None` if the file has errors.
    pub suite: Option<Suite>,
}

/// Finds the test files of a project folder, or only those at or below `paths`, by path. `catalog` is the project's
/// snapshot.
#[must_use]
pub fn find_test_files(dir: &Path, catalog: &Catalog, paths: &[PathBuf]) -> Vec<TestFile> {
    let mut found = BTreeSet::new();
    list(dir, Path::new(FOLDER), MAX_DEPTH, &mut found);
    let wanted =
        |path: &&String| paths.is_empty() || paths.iter().any(|wanted| Path::new(path).starts_with(wanted));
    found.iter().filter(wanted).map(|path| read(dir, catalog, path)).collect()
}

/// Reads the test files of a project folder, by path, without checking them.
#[must_use]
pub fn read_test_files(dir: &Path) -> Vec<ProjectFile> {
    let mut found = BTreeSet::new();
    list(dir, Path::new(FOLDER), MAX_DEPTH, &mut found);
    let read = |path: String| match read_text(dir, &path) {
        Ok(text) => ProjectFile { path, text, problem: None },
        Err(message) => ProjectFile { path, text: String::new(), problem: Some(message) },
    };
    found.into_iter().map(read).collect()
}

/// Loads a text as if it were the test file `path` of the project with the snapshot `catalog`.
#[must_use]
pub fn load_suite(catalog: &Catalog, path: &str, text: &str) -> TestFile {
    load_text(catalog, None, path, text.to_owned())
}

/// Checks a text as [`load_suite`] does.
#[must_use]
pub(crate) fn check_suite(catalog: &Catalog, path: &str, text: &str) -> Report {
    load_text(catalog, None, path, text.to_owned()).report
}

/// Returns the path of a recording, relative to the project folder: in the folder `cassettes` beside the tests.
#[must_use]
pub fn cassette_path(suite: &Suite, name: &str) -> PathBuf {
    let tests = Path::new(suite.source.path());
    tests.parent().unwrap_or(Path::new("")).join(CASSETTE_DIR).join(name)
}

fn read(dir: &Path, catalog: &Catalog, path: &str) -> TestFile {
    match read_text(dir, path) {
        Ok(text) => load_text(catalog, Some(dir), path, text),
        Err(message) => {
            let diagnostic = Diagnostic::error("unreadable-file", message, Span::default());
            let report = Report::new(Source::new(path, ""), [diagnostic]);
            TestFile { path: path.to_owned(), report, suite: None }
        }
    }
}

/// Loads a test file. `dir` is the project folder, if files beside the tests may be examined.
fn load_text(catalog: &Catalog, dir: Option<&Path>, path: &str, text: String) -> TestFile {
    let source = Arc::new(Source::new(path, text));
    let stem = suite_stem(path).unwrap_or_else(|| catalog::stem(path));
    let loaded = load::test_suite(source, stem);
    let report = match loaded.for_checking() {
        Some((suite, _)) => catalog::check_merge(&loaded.report, check(suite, catalog, dir)),
        None => loaded.report.clone(),
    };
    let report = load::apply_allow_comments(report);
    let suite = loaded.value.filter(|_| !report.has_errors());
    TestFile { path: path.to_owned(), report, suite }
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
        let Some(name) = path.to_str().filter(|name| !hidden && suite_stem(name).is_some()) else {
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
