//! Previews a reload: what the files would change, and which executions would continue on an earlier version.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use model::Status;
use model::automation::{AutomationId, DefinitionHash};
use model::project::PROJECT_FILE;
use serde::{Deserialize, Serialize};
use store::{ExecutionFilter, ExecutionStore, Page, Store};
use text::diagnostic::Report;

use crate::error::Error;
use crate::reload::Loader;
use crate::snapshot::{
    AssembleInput, Catalog, Change, ChangeKind, File, FileChange, Folder, InFlightExecutions, MAX_FILES,
    ReloadSummary, ScanScope, assemble, count_by_definition,
};

/// Maximum executions counted per automation: the limit of waiting executions (interfaces, "Limits").
const MAX_EXECUTIONS: usize = 100_000;
/// Executions read per page.
const PAGE: u32 = 1000;

/// Changes that a reload of the project folder would make.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadPreview {
    /// Generation of the snapshot compared with; 0 if nothing is in force.
    pub generation: u64,
    /// Changed automations, by id.
    pub changes: Vec<Change>,
    /// Number of unchanged automations.
    pub unchanged: usize,
    /// Changed connection and connector files.
    pub files: Vec<FileChange>,
    /// Reports of all files with errors, changed or not.
    #[serde(skip)]
    pub reports: Vec<Report>,
}

impl ReloadPreview {
    /// Returns the total number of errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.reports.iter().map(Report::error_count).sum()
    }

    fn new(before: &Catalog, after: &Catalog, reload: &ReloadSummary, now: Timestamp) -> Self {
        let changes = after.changes(before, reload, now);
        let in_force = |effect| {
            matches!(
                effect,
                ChangeKind::Added | ChangeKind::Changed | ChangeKind::Stale | ChangeKind::Restored
            )
        };
        let changed = changes.iter().filter(|change| in_force(change.effect)).count();
        let wrong = after.reports().filter(|report| report.has_errors());
        Self {
            generation: before.generation(),
            unchanged: after.automations().len().saturating_sub(changed),
            changes,
            files: after.file_changes(before, reload),
            reports: wrong.map(|report| Report::clone(report)).collect(),
        }
    }

    /// Adds the executions that would continue on a version other than the one then in force.
    async fn count_executions(&mut self, after: &Catalog, store: &dyn ExecutionStore) -> Result<(), Error> {
        for change in &mut self.changes {
            change.executions = executions_on_other_versions(change, after, store).await?;
        }
        Ok(())
    }
}

/// Returns the unfinished executions of a changed automation on versions other than the one in force.
pub(crate) async fn executions_on_other_versions(
    change: &Change,
    after: &Catalog,
    store: &dyn ExecutionStore,
) -> Result<Vec<InFlightExecutions>, Error> {
    let Some(id) = AutomationId::parse(&change.id).filter(|_| change.may_leave_executions()) else {
        return Ok(Vec::new());
    };
    let current = after.get(&id).map(|deployment| deployment.automation.definition);
    let status = vec![Status::Queued, Status::Running, Status::Waiting];
    let filter = ExecutionFilter { automation: Some(id), status, ..ExecutionFilter::default() };
    let mut others: Vec<DefinitionHash> = Vec::new();
    let mut before = None;
    while others.len() < MAX_EXECUTIONS {
        let page = store.executions(&filter, Page { before, limit: PAGE }).await?;
        before = page.last().map(|row| row.id);
        others
            .extend(page.iter().map(|row| row.definition).filter(|definition| Some(*definition) != current));
        if page.len() < PAGE as usize {
            break;
        }
    }
    Ok(count_by_definition(others))
}

/// Project file read by a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PlanFile)]
pub struct ProjectFile {
    /// Path relative to the project folder, separated by `/`.
    pub path: String,
    /// Content.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Reason why the file could not be read; absent if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ProjectFile {
    fn is_inside(&self) -> bool {
        let mut parts = self.path.split('/');
        let is_inside = self.path.contains('/') || self.path == PROJECT_FILE;
        is_inside && parts.all(|part| !matches!(part, "" | "." | ".."))
    }
}

/// Reads the project files that a daemon would load: automations, their code, connections and connectors.
#[must_use]
pub fn project_files(dir: &Path) -> Vec<ProjectFile> {
    let mut folder = Folder::new(dir);
    folder.scan(&ScanScope::Full);
    let files = folder.all().map(|file| {
        let problem = (!file.is_read()).then(|| {
            let first = file.report().entries().into_iter().next();
            first.map_or_else(|| "the file cannot be read".to_owned(), |entry| entry.message.to_string())
        });
        ProjectFile { path: file.source.path().to_owned(), text: file.source.text().to_owned(), problem }
    });
    files.collect()
}

/// Returns the sorted ids of the automations defined in a project folder, without checking the files.
#[must_use]
pub fn automation_ids(dir: &Path) -> Vec<AutomationId> {
    let mut folder = Folder::new(dir);
    folder.scan(&ScanScope::Full);
    let mut ids: Vec<AutomationId> = folder.all().filter_map(|file| file.claimed_id()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The files that a preview reads.
pub enum PreviewFiles {
    /// The files on disk.
    OnDisk,
    /// These alone.
    All(Vec<ProjectFile>),
    /// The files in force, with these laid over them.
    Overlay(Vec<ProjectFile>),
}

impl Loader {
    /// Returns the changes if these files replaced the active ones, or were laid over them. Changes nothing itself.
    ///
    /// # Errors
    /// There are more than 12,000 files, a path is not a path inside a project, or the store cannot be read.
    pub async fn preview_files(
        self: Arc<Self>,
        files: Vec<ProjectFile>,
        overlay: bool,
        before: Arc<Catalog>,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<ReloadPreview, Error> {
        if files.len() > MAX_FILES {
            return Err(Error::Input(format!(
                "{} files exceed the limit of {MAX_FILES} per project",
                files.len()
            )));
        }
        if let Some(wrong) = files.iter().find(|file| !file.is_inside()) {
            return Err(Error::Input(format!("`{}` is not the path of a file inside a project", wrong.path)));
        }
        let files = if overlay { PreviewFiles::Overlay(files) } else { PreviewFiles::All(files) };
        self.preview(files, before, store, now).await
    }

    /// The changes that a reload of these files would make now. Changes nothing itself.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn preview(
        self: Arc<Self>,
        given: PreviewFiles,
        before: Arc<Catalog>,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<ReloadPreview, Error> {
        let folder = self.files().await;
        let loader = self.clone();
        // Reading and checking is work for a blocking thread.
        let work = tokio::task::spawn_blocking(move || {
            let mut folder = folder;
            let read = |files: Vec<ProjectFile>| {
                let file = |given: ProjectFile| {
                    Some((given.path.clone(), File::from_text(&given.path, given.text, given.problem)?))
                };
                files.into_iter().filter_map(file).collect::<Vec<(String, File)>>()
            };
            let assembled = match given {
                PreviewFiles::OnDisk => loader.assemble(&before, &mut folder, &ScanScope::Full),
                PreviewFiles::All(files) => {
                    let (folder, changed) = before.folder().with_files(read(files));
                    loader.assemble_changed(&before, &folder, changed)
                }
                PreviewFiles::Overlay(files) => {
                    let (folder, changed) = before.folder().overlaid(read(files));
                    loader.assemble_changed(&before, &folder, changed)
                }
            };
            let (after, reload) = match assembled? {
                Some(assembled) => (assembled.catalog, assembled.reload),
                None => (Catalog::clone(&before), ReloadSummary::default()),
            };
            Ok::<_, Error>((ReloadPreview::new(&before, &after, &reload, now), after))
        });
        let (mut preview, after) = work.await.map_err(|error| Error::Checking(error.to_string()))??;
        preview.count_executions(&after, store).await?;
        Ok(preview)
    }
}

impl Loader {
    /// Builds the snapshot that would be in force if the file `path` had this text. Changes nothing.
    ///
    /// # Errors
    /// The path is not that of a project file, or the text has errors: then they are the message.
    pub fn draft(&self, before: &Catalog, path: &str, text: &str) -> Result<Catalog, Error> {
        let given = ProjectFile { path: path.to_owned(), text: text.to_owned(), problem: None };
        let file = Some(given).filter(ProjectFile::is_inside);
        let file = file.and_then(|given| File::from_text(&given.path, given.text, None));
        let Some(file) = file else {
            return Err(Error::Input(format!("`{path}` is not the path of a file inside a project")));
        };
        let (mut folder, path): (Folder, Arc<str>) = (before.folder().clone(), path.into());
        folder.put(path.clone(), file);
        let assembled = self.assemble_changed(before, &folder, BTreeSet::from([path.clone()]))?;
        let catalog = assembled.map_or_else(|| before.clone(), |assembled| assembled.catalog);
        let wrong = catalog.reports().find(|report| report.source().path() == &*path && report.has_errors());
        match wrong {
            Some(report) => Err(Error::Input(report.render(false))),
            None => Ok(catalog),
        }
    }
}

/// Previews starting a daemon on a project folder, including the executions in its store that would continue on an
/// earlier version.
///
/// # Errors
/// Returns an error if the built-in connectors do not load or the store cannot be read.
pub async fn preview_project(
    dir: &Path,
    store: Option<&dyn Store>,
    now: Timestamp,
) -> Result<ReloadPreview, Error> {
    let builtin = Arc::new(crate::check::builtin()?);
    let mut folder = Folder::new(dir);
    let changed = folder.scan(&ScanScope::Full);
    let before = Catalog::empty(builtin.clone());
    let parts = AssembleInput {
        previous: &before,
        folder,
        changed,
        refused_level: None,
        builtin: &builtin,
        address: &mut |_, _| None,
    };
    let (after, reload) = assemble(parts);
    let mut preview = ReloadPreview::new(&before, &after, &reload, now);
    if let Some(store) = store {
        preview.count_executions(&after, store).await?;
    }
    Ok(preview)
}
