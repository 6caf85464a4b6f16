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
use crate::catalog::{
    Catalog, Change, Effect, FileChange, Folder, InFlight, Look, Parts, Reload, assemble, in_flight,
};
use crate::engine::Engine;
use crate::services::Services;

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

impl Engine {
    /// What [`Engine::reload`] would change now. Changes nothing itself.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn forecast(&self) -> Result<Forecast, Error> {
        self.services().clone().forecast().await
    }
}

impl Services {
    async fn forecast(self: Arc<Self>) -> Result<Forecast, Error> {
        let folder = self.loader.folder().await;
        let services = self.clone();
        // Reading and checking is work for a thread of its own.
        let work = tokio::task::spawn_blocking(move || {
            let mut folder = folder;
            let (before, now) = (services.catalog.load_full(), services.clock.now());
            let assembled = services.loader.assemble(&before, &mut folder, &Look::Everywhere);
            let (after, reload) = match assembled {
                Some(assembled) => (assembled.catalog, assembled.reload),
                None => (Catalog::clone(&before), Reload::default()),
            };
            (Forecast::of(&before, &after, &reload, now), after)
        });
        let (mut forecast, after) = work.await.map_err(|error| Error::Checking(error.to_string()))?;
        forecast.count_executions(&after, &*self.store).await?;
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
