//! The forecast of a reload.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use text::diagnostic::Report;
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Body};
use crate::admin::operations::status::{DiagnosticView, diagnostics};
use crate::admin::{Api, Problem, Shared};

/// The effects of loading the files as they are on disk.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Plan)]
pub(crate) struct PlanView {
    /// The project folder of the daemon.
    folder: String,
    /// The snapshot in force that the files were compared with.
    generation: u64,
    /// The changes of the automations, by id; unchanged ones are left out.
    changes: Vec<catalog::Change>,
    /// The number of automations without a change.
    unchanged: usize,
    /// Connections and connectors that come, change and go.
    files: Vec<catalog::FileChange>,
    /// The number of errors in all files.
    errors: usize,
    /// The problems of the files that have errors.
    diagnostics: Vec<DiagnosticView>,
    /// The same for people.
    rendered: String,
}

/// The changes that a rescan of the project folder would make
#[utoipa::path(
    get, path = "/api/v1/plan", tag = "status",
    responses((status = 200, description = "The changes that would follow", body = PlanView)),
)]
pub(crate) async fn plan(State(api): Shared) -> Result<Answer<PlanView>, Problem> {
    let preview = api.engine.preview_reload().await?;
    Ok(Answer::ok(PlanView::new(&api, preview)))
}

/// The files of a project folder: of all of them that a daemon takes, whether or not they changed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlanBody {
    /// Each with its `path`, relative to the project folder, and its `text`; or the `problem` why it cannot be read.
    files: Vec<catalog::ProjectFile>,
    /// Lays the files over the files in force instead of replacing them: for texts that are not saved.
    #[serde(default)]
    overlay: bool,
}

/// The changes that these files would make in place of the files in force
#[utoipa::path(
    post, path = "/api/v1/plan", tag = "status", request_body = PlanBody,
    responses((status = 200, description = "The changes that would follow", body = PlanView)),
)]
pub(crate) async fn plan_of(
    State(api): Shared,
    Body(body): Body<PlanBody>,
) -> Result<Answer<PlanView>, Problem> {
    let preview = api.engine.preview_files(body.files, body.overlay).await?;
    Ok(Answer::ok(PlanView::new(&api, preview)))
}

impl PlanView {
    fn new(api: &Api, preview: catalog::ReloadPreview) -> Self {
        let dir = &api.engine.settings().dir;
        let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        Self {
            folder: folder.display().to_string(),
            generation: preview.generation,
            errors: preview.errors(),
            diagnostics: diagnostics(&preview.reports),
            rendered: preview.reports.iter().map(|report: &Report| report.render(false)).collect(),
            changes: preview.changes,
            unchanged: preview.unchanged,
            files: preview.files,
        }
    }
}
