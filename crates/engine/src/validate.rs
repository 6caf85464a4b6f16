//! What `validate` asks: the files of a folder, or a text, checked as the daemon would, without anything running.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connector::Registry;
use model::diagnostic::{Report, Source};

use crate::catalog::{Catalog, File, FileKind, Folder, Look, Parts, assemble, stem};
use crate::check::{builtin, connection};
use crate::trial::{self, Tests};

/// What `validate` found.
pub struct Checked {
    /// One report for each file that has something to say, by path.
    pub reports: Vec<Report>,
    /// How many files were checked.
    pub files: usize,
    /// What would be in force.
    pub catalog: Catalog,
}

impl Checked {
    /// How many errors there are in all.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.reports.iter().map(Report::error_count).sum()
    }
}

/// Checks the files of a project folder, or only those at or below `paths`. Reads files and nothing else.
///
/// # Errors
/// The connectors that come with Cogwork do not load.
pub fn check_project(dir: &Path, paths: &[PathBuf]) -> Result<Checked, crate::Error> {
    let builtin = Arc::new(builtin()?);
    let mut folder = Folder::new(dir);
    let changed = folder.look(&Look::Everywhere);
    let previous = Catalog::empty(builtin.clone());
    let (catalog, _) = assemble(Parts {
        previous: &previous,
        folder,
        changed: changed.clone(),
        builtin: &builtin,
        address: &mut |_, _| None,
    });
    let wanted = |path: &str| {
        paths.is_empty()
            || paths
                .iter()
                .any(|wanted| dir.join(path).starts_with(wanted) || Path::new(path).starts_with(wanted))
    };
    let tests: Vec<Tests> =
        trial::find(dir, &catalog, &[]).into_iter().filter(|tests| wanted(&tests.path)).collect();
    let files = changed.iter().filter(|path| wanted(path)).count() + tests.len();
    let wanted = |report: &&Arc<Report>| wanted(report.source().path());
    let mut reports: Vec<Report> =
        catalog.reports().filter(wanted).map(|report| Report::clone(report)).collect();
    reports.extend(tests.into_iter().map(|tests| tests.report).filter(|report| !report.is_empty()));
    reports.sort_by(|one, other| one.source().path().cmp(other.source().path()));
    Ok(Checked { reports, files, catalog })
}

/// Checks a text as if it stood in the file `path` of the project whose snapshot is `catalog`.
#[must_use]
pub fn check_text(catalog: &Catalog, path: &str, text: &str) -> Report {
    if model::trial::stem(path).is_some() {
        return trial::check_text(catalog, path, text);
    }
    let source = Arc::new(Source::new(path, text));
    match FileKind::of(Path::new(path)) {
        Some(FileKind::Connection) => {
            let loaded = model::load::connection(source, stem(path));
            match loaded.to_check() {
                Some((value, gaps)) => connection(value, gaps, &loaded.report, catalog.registry()),
                None => model::load::allow(loaded.report),
            }
        }
        Some(FileKind::Manifest) => {
            let (_, reports) = Registry::clone(catalog.registry()).with_manifests(vec![source.clone()]);
            let own = reports.into_iter().find(|report| report.source().path() == path);
            model::load::allow(own.unwrap_or_else(|| Report::new(source, [])))
        }
        Some(FileKind::Code) => Report::new(source, []),
        Some(FileKind::Automation) | None => {
            catalog.judge_draft(path, File::draft(source, FileKind::Automation))
        }
    }
}
