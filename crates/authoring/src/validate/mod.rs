//! Checks a project folder or a single text as the daemon would, without a running daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{
    AssembleInput, Catalog, File, FileKind, Folder, ScanScope, assemble, builtin, check_connection, stem,
};
use connector::Registry;
use model::AutomationId;
use text::diagnostic::{Report, Source};

use crate::test_suite::{TestFile, check_suite, find_test_files};

/// Result of checking a project.
pub struct ProjectCheck {
    /// Non-empty reports, one per file, by path.
    pub reports: Vec<Report>,
    /// Number of checked files.
    pub files: usize,
    /// Snapshot that would be in force.
    pub catalog: Catalog,
}

impl ProjectCheck {
    /// Returns the total number of errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.reports.iter().map(Report::error_count).sum()
    }
}

/// Checks the files of a project folder, or only those at or below `paths`. Only reads files.
///
/// # Errors
/// Returns an error if the built-in connectors do not load.
pub fn check_project(dir: &Path, paths: &[PathBuf]) -> Result<ProjectCheck, catalog::Error> {
    let builtin = Arc::new(builtin()?);
    let mut folder = Folder::new(dir);
    let changed = folder.scan(&ScanScope::Full);
    let previous = Catalog::empty(builtin.clone());
    let (catalog, _) = assemble(AssembleInput {
        previous: &previous,
        folder,
        changed: changed.clone(),
        refused_level: None,
        builtin: &builtin,
        address: &mut |_, _| None,
    });
    let wanted = |path: &str| {
        paths.is_empty()
            || paths
                .iter()
                .any(|wanted| dir.join(path).starts_with(wanted) || Path::new(path).starts_with(wanted))
    };
    let tests: Vec<TestFile> =
        find_test_files(dir, &catalog, &[]).into_iter().filter(|tests| wanted(&tests.path)).collect();
    let files = changed.iter().filter(|path| wanted(path)).count() + tests.len();
    let wanted = |report: &&Arc<Report>| wanted(report.source().path());
    let mut reports: Vec<Report> =
        catalog.reports().filter(wanted).map(|report| Report::clone(report)).collect();
    reports.extend(tests.into_iter().map(|tests| tests.report).filter(|report| !report.is_empty()));
    // Connectors and connections come first because their errors explain errors in automations.
    let place = |report: &Report| {
        let path = report.source().path().to_owned();
        (FileKind::from_path(Path::new(&path)).unwrap_or(FileKind::Automation), path)
    };
    reports.sort_by_cached_key(place);
    Ok(ProjectCheck { reports, files, catalog })
}

/// Checks a text that is not stored in the project, such as a draft or a temporary copy made by a hook. Its keys
/// determine the file kind. An id that a project file already has is accepted, since the text may be a copy of that
/// file.
#[must_use]
pub fn check_draft(catalog: &Catalog, path: &str, text: &str) -> Report {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    let is_tests = model::test_suite::suite_stem(path).is_some() || (has("tests:") && !has("steps:"));
    if is_tests {
        return check_suite(catalog, path, text);
    }
    let kind = match () {
        () if has("steps:") || has("trigger:") => FileKind::Automation,
        () if has("connector:") => FileKind::Manifest,
        () if has("type:") => FileKind::Connection,
        () => FileKind::Automation,
    };
    // A temporary file may have a name that is not a valid id.
    let name = stem(path);
    let id = AutomationId::parse(name).or_else(|| AutomationId::suggest(name));
    let name = id.as_ref().map_or("draft", AutomationId::as_str);
    check_as(catalog, path, name, text, Some(kind)).without("duplicate-automation")
}

/// Checks a text as if it were the file `path` of the project with the snapshot `catalog`.
#[must_use]
pub fn check_text(catalog: &Catalog, path: &str, text: &str) -> Report {
    if model::test_suite::suite_stem(path).is_some() {
        return check_suite(catalog, path, text);
    }
    check_as(catalog, path, stem(path), text, FileKind::from_path(Path::new(path)))
}

/// Checks a text as a file of this kind. `name` is the default name.
fn check_as(catalog: &Catalog, path: &str, name: &str, text: &str, kind: Option<FileKind>) -> Report {
    let source = Arc::new(Source::new(path, text));
    match kind {
        Some(FileKind::Connection) => {
            let loaded = language::load::connection(source, name);
            match loaded.for_checking() {
                Some((value, gaps)) => check_connection(value, gaps, &loaded.report, catalog.registry()),
                None => language::load::apply_allow_comments(loaded.report),
            }
        }
        Some(FileKind::Manifest) => {
            let (_, reports) = Registry::clone(catalog.registry()).with_manifests(vec![source.clone()]);
            let own = reports.into_iter().find(|report| report.source().path() == path);
            language::load::apply_allow_comments(own.unwrap_or_else(|| Report::new(source, [])))
        }
        Some(FileKind::Code) => Report::new(source, []),
        Some(kind @ (FileKind::Project | FileKind::StatementTypes | FileKind::ConnectorLock)) => {
            catalog.check_draft(path, File::draft(source, name, kind))
        }
        Some(FileKind::Automation) | None => {
            catalog.check_draft(path, File::draft(source, name, FileKind::Automation))
        }
    }
}

#[cfg(test)]
mod tests;
