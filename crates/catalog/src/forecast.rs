//! What the files on disk would change if they were taken now, and which executions would go on as before.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use model::Status;
use model::automation::{AutomationId, DefinitionHash};
use model::diagnostic::Report;
use serde::{Deserialize, Serialize};
use store::{ExecutionFilter, Page, Store};

use crate::Error;
use crate::reload::Loader;
use crate::snapshot::{
    Catalog, Change, Effect, File, FileChange, Folder, InFlight, Look, MAX_FILES, Parts, Reload, assemble,
    in_flight,
};

/// The most executions of one Automation that are counted: as many as may wait (interfaces, "Limits").
const MOST_EXECUTIONS: usize = 100_000;
/// How many of them are read at one time.
const PAGE: u32 = 1000;

/// What a look at the project folder would change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The snapshot in force that the files were compared with; 0 where nothing is in force.
    pub generation: u64,
    /// What becomes of the Automations, by id; those that stay as they are left out.
    pub changes: Vec<Change>,
    /// How many Automations stay as they are.
    pub unchanged: usize,
    /// Connections and connectors that come, change and go.
    pub files: Vec<FileChange>,
    /// The files that have errors, whether or not they changed.
    #[serde(skip)]
    pub reports: Vec<Report>,
}

impl Forecast {
    /// How many errors there are in all files.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.reports.iter().map(Report::error_count).sum()
    }

    fn of(before: &Catalog, after: &Catalog, reload: &Reload, now: Timestamp) -> Self {
        let changes = after.changes(before, reload, now);
        let in_force =
            |effect| matches!(effect, Effect::Added | Effect::Changed | Effect::Stale | Effect::Restored);
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

    /// Adds which executions would go on with another version than the one then in force.
    async fn count_executions(&mut self, after: &Catalog, store: &dyn Store) -> Result<(), Error> {
        for change in &mut self.changes {
            change.executions = left_behind(change, after, store).await?;
        }
        Ok(())
    }
}

/// The executions of a changed Automation that have not ended and go on with another version than the one in force.
pub(crate) async fn left_behind(
    change: &Change,
    after: &Catalog,
    store: &dyn Store,
) -> Result<Vec<InFlight>, Error> {
    let Some(id) = AutomationId::parse(&change.id).filter(|_| change.leaves_executions_behind()) else {
        return Ok(Vec::new());
    };
    let current = after.get(&id).map(|deployed| deployed.automation.definition);
    let status = vec![Status::Queued, Status::Running, Status::Waiting];
    let filter = ExecutionFilter { automation: Some(id), status, ..ExecutionFilter::default() };
    let mut others: Vec<DefinitionHash> = Vec::new();
    let mut before = None;
    while others.len() < MOST_EXECUTIONS {
        let page = store.executions(&filter, Page { before, limit: PAGE }).await?;
        before = page.last().map(|row| row.id);
        others
            .extend(page.iter().map(|row| row.definition).filter(|definition| Some(*definition) != current));
        if page.len() < PAGE as usize {
            break;
        }
    }
    Ok(in_flight(others))
}

/// A file of a project folder that somebody else has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GivenFile {
    /// Its path, relative to the project folder, with `/` between its parts.
    pub path: String,
    /// Its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Why it could not be read, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl GivenFile {
    fn is_inside(&self) -> bool {
        let mut parts = self.path.split('/');
        self.path.contains('/') && parts.all(|part| !matches!(part, "" | "." | ".."))
    }
}

/// The files of a project folder that a daemon would take: automations, their code, connections and connectors.
#[must_use]
pub fn project_files(dir: &Path) -> Vec<GivenFile> {
    let mut folder = Folder::new(dir);
    folder.look(&Look::Everywhere);
    let files = folder.all().map(|file| {
        let problem = (!file.is_read()).then(|| {
            let first = file.report().entries().into_iter().next();
            first.map_or_else(|| "the file cannot be read".to_owned(), |entry| entry.message.to_string())
        });
        GivenFile { path: file.source.path().to_owned(), text: file.source.text().to_owned(), problem }
    });
    files.collect()
}

/// The ids that the files of a project folder give to their Automations, in order. Nothing is checked.
#[must_use]
pub fn automation_ids(dir: &Path) -> Vec<AutomationId> {
    let mut folder = Folder::new(dir);
    folder.look(&Look::Everywhere);
    let mut ids: Vec<AutomationId> = folder.all().filter_map(|file| file.claims()).collect();
    ids.sort();
    ids.dedup();
    ids
}

impl Loader {
    /// The changes if these files took the place of those in force. Changes nothing itself.
    ///
    /// # Errors
    /// There are more than 12,000 files, a path is not a path inside a project, or the store cannot be read.
    pub async fn forecast_of(
        self: Arc<Self>,
        files: Vec<GivenFile>,
        before: Arc<Catalog>,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Forecast, Error> {
        if files.len() > MAX_FILES {
            return Err(Error::Input(format!(
                "{} files are more than the {MAX_FILES} of a project",
                files.len()
            )));
        }
        if let Some(wrong) = files.iter().find(|file| !file.is_inside()) {
            return Err(Error::Input(format!("`{}` is no path of a file inside a project", wrong.path)));
        }
        self.forecast(Some(files), before, store, now).await
    }

    /// The changes that a reload would make now: of `given`, or of the files on disk. Changes nothing itself.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn forecast(
        self: Arc<Self>,
        given: Option<Vec<GivenFile>>,
        before: Arc<Catalog>,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Forecast, Error> {
        let folder = self.files().await;
        let loader = self.clone();
        // Reading and checking is work for a blocking thread.
        let work = tokio::task::spawn_blocking(move || {
            let mut folder = folder;
            let assembled = match given {
                None => loader.assemble(&before, &mut folder, &Look::Everywhere),
                Some(given) => {
                    let files = given.into_iter().filter_map(|given| {
                        let file = File::given(&given.path, given.text, given.problem)?;
                        Some((given.path, file))
                    });
                    let (folder, changed) = before.folder().replaced(files.collect());
                    loader.assemble_changed(&before, &folder, changed)
                }
            };
            let (after, reload) = match assembled {
                Some(assembled) => (assembled.catalog, assembled.reload),
                None => (Catalog::clone(&before), Reload::default()),
            };
            (Forecast::of(&before, &after, &reload, now), after)
        });
        let (mut forecast, after) = work.await.map_err(|error| Error::Checking(error.to_string()))?;
        forecast.count_executions(&after, store).await?;
        Ok(forecast)
    }
}

/// What starting a daemon over a project folder would bring into force, and which executions in its store would go on
/// with an earlier version.
///
/// # Errors
/// The connectors that come with Cogwork do not load, or the store cannot be read.
pub async fn forecast_project(
    dir: &Path,
    store: Option<&dyn Store>,
    now: Timestamp,
) -> Result<Forecast, Error> {
    let builtin = Arc::new(crate::check::builtin()?);
    let mut folder = Folder::new(dir);
    let changed = folder.look(&Look::Everywhere);
    let before = Catalog::empty(builtin.clone());
    let parts = Parts { previous: &before, folder, changed, builtin: &builtin, address: &mut |_, _| None };
    let (after, reload) = assemble(parts);
    let mut forecast = Forecast::of(&before, &after, &reload, now);
    if let Some(store) = store {
        forecast.count_executions(&after, store).await?;
    }
    Ok(forecast)
}
