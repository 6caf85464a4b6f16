//! The forecast of a reload.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

use axum::extract::State;
use serde::{Deserialize, Serialize};
use text::diagnostic::Report;
use utoipa::ToSchema;

use super::extract::{Answer, Body};
use super::status::{DiagnosticView, diagnostics};
use super::{Api, Problem, Shared};

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
    #[schema(value_type = Vec<ChangeView>)]
    changes: Vec<engine::Change>,
    /// The number of automations without a change.
    unchanged: usize,
    /// Connections and connectors that come, change and go.
    #[schema(value_type = Vec<FileChangeView>)]
    files: Vec<engine::FileChange>,
    /// How many errors there are in all files.
    errors: usize,
    /// The problems of the files that have errors.
    #[schema(value_type = Vec<DiagnosticView>)]
    diagnostics: Vec<serde_json::Value>,
    /// The same for people.
    rendered: String,
}

/// The change of one automation, as [`engine::Change`] serialises it; this type exists for the description of the API.
#[derive(ToSchema)]
#[schema(as = PlannedChange, rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields exist to be described")]
struct ChangeView {
    /// The automation's id; of a file that cannot be read the one that its name suggests.
    id: String,
    /// The file, relative to the project folder.
    path: String,
    /// `added`, `changed`, `removed`; `stale` where its last good version stays in force since its file has errors,
    /// `restored` where it no longer has, `broken` where it has errors and no version is in force.
    effect: String,
    /// The version that was in force: the first digits of its hash.
    before: Option<String>,
    /// The version that is then in force.
    definition: Option<String>,
    /// The differences.
    details: Vec<DetailView>,
    /// The next instants of its new schedule.
    #[schema(value_type = Option<Vec<String>>, format = DateTime)]
    next_fires: Option<Vec<String>>,
    /// The zone of its schedule.
    timezone: Option<String>,
    /// Unfinished executions that continue with an earlier version.
    executions: Option<Vec<InFlightView>>,
}

/// One thing that is different.
#[derive(ToSchema)]
#[schema(as = PlannedDetail, rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields exist to be described")]
struct DetailView {
    /// The changed part: `trigger`, `steps`, `connections`, `calls`, or another key of the file.
    part: String,
    /// The kind of change: `mounted`, `unmounted`, `kept`, `restarted`, `added`, `removed`, `changed` or `moved`.
    how: String,
    /// The names of the changed steps, connections or automations.
    names: Option<Vec<String>>,
    /// The old value, if it is short.
    before: Option<String>,
    /// The new value, if it is short.
    after: Option<String>,
}

/// A connection or a connector that comes, changes or goes.
#[derive(ToSchema)]
#[schema(as = PlannedFile, rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields exist to be described")]
struct FileChangeView {
    /// The file, relative to the project folder.
    path: String,
    /// `added`, `changed` or `removed`.
    how: String,
}

/// Executions that have not ended.
#[derive(ToSchema)]
#[schema(as = InFlight, rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields exist to be described")]
struct InFlightView {
    /// The version that they continue with: the first digits of its hash.
    definition: String,
    /// How many there are.
    count: usize,
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
    #[schema(value_type = Vec<PlanFile>)]
    files: Vec<engine::ProjectFile>,
    /// Lays the files over those in force, instead of taking their place: for texts that are not saved.
    #[serde(default)]
    overlay: bool,
}

/// A file of a project folder, as a client has read it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "its fields exist to be described")]
pub(super) struct PlanFile {
    /// Relative to the project folder.
    path: String,
    /// The text; empty if it is not given.
    text: Option<String>,
    /// Why it cannot be read.
    problem: Option<String>,
}

/// The changes that these files would make in place of those in force
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
    fn new(api: &Api, preview: engine::ReloadPreview) -> Self {
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

#[cfg(test)]
mod tests {
    use engine::{Change, ChangeKind, Detail, DiffKind, FileChange, InFlightExecutions};
    use serde_json::{Value, json};
    use utoipa::PartialSchema;

    use super::*;

    fn keys(value: &Value) -> Vec<&String> {
        let mut keys: Vec<_> = value.as_object().into_iter().flat_map(|object| object.keys()).collect();
        keys.sort();
        keys
    }

    fn described<T: PartialSchema>() -> Value {
        serde_json::to_value(T::schema()).expect("a schema")["properties"].take()
    }

    #[test]
    fn a_change_is_described_as_it_is_written() {
        let text = || Some("text".to_owned());
        let detail = Detail {
            part: "steps".to_owned(),
            how: DiffKind::Added,
            names: vec!["a".to_owned()],
            before: text(),
            after: text(),
        };
        let change = Change {
            id: "a".to_owned(),
            path: "automations/a.yaml".to_owned(),
            effect: ChangeKind::Changed,
            before: text(),
            definition: text(),
            details: vec![detail.clone()],
            next_fires: vec![jiff::Timestamp::UNIX_EPOCH],
            timezone: text(),
            executions: vec![InFlightExecutions { definition: "a".to_owned(), count: 1 }],
        };
        let file = FileChange { path: "connections/a.yaml".to_owned(), how: DiffKind::Added };
        let written = json!([change, detail, file, change.executions[0]]);
        let views = [
            described::<ChangeView>(),
            described::<DetailView>(),
            described::<FileChangeView>(),
            described::<InFlightView>(),
        ];
        for (index, view) in views.iter().enumerate() {
            assert_eq!(keys(&written[index]), keys(view));
        }
    }
}
