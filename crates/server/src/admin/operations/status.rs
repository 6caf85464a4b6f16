//! The daemon itself: how it stands, what its files say.

use std::collections::BTreeMap;
use std::path::Path;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use text::diagnostic::{DiagnosticEntry, Report, Utf16Index};
use utoipa::ToSchema;

use crate::admin::definitions::deployments::DeploymentView;
use crate::admin::extract::{Answer, Body};
use crate::admin::{Api, Problem, Shared};

/// State of the daemon.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Status)]
pub(crate) struct StatusView {
    /// Of Cogwork.
    version: &'static str,
    /// When the daemon started.
    started_at: Timestamp,
    /// True if new executions are accepted.
    accepting: bool,
    /// The outage of the store that lasts; absent if it takes writes. New executions are refused meanwhile, unless only writes of
    /// another kind are.
    #[serde(skip_serializing_if = "Option::is_none")]
    outage: Option<OutageView>,
    /// Executions whose steps are running.
    in_flight: usize,
    /// Executions that are accepted and have not begun.
    queued: usize,
    /// Number of the snapshot of the folder that is in force, from 1.
    generation: u64,
    /// Number of automations in force.
    automations: usize,
    /// Files that do not load and have no last good version in force.
    broken: usize,
    /// Requests that were refused since the start, by reason.
    refused: BTreeMap<String, u64>,
    /// True if changes of project files are refused, by the setting `ui.readOnly`.
    read_only: bool,
    /// Where webhooks arrive.
    hooks: String,
    /// Where this API is.
    admin: String,
    /// The absolute path of the project folder.
    dir: String,
    /// The deployed definitions that are in force; absent if the files of the project folder are.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<DeploymentView>,
    /// Reason why the newest deployed definitions are not in force on this daemon; absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_problem: Option<String>,
    store: StoreView,
}

/// The time in which the store takes no writes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Outage)]
struct OutageView {
    /// `unreachable`: the database does not answer; `stalled`: a write does not end; `readOnly`; `full`: there is no space;
    /// `refused`: for another reason.
    #[schema(example = "unreachable")]
    kind: &'static str,
    /// The message of the database or the system. If the database refuses a kind of write: for which kind, and, after a semicolon, the
    /// statement that grants a missing right.
    reason: String,
    /// The time of the first failure.
    since: Timestamp,
}

fn outage_view(api: &Api) -> Option<OutageView> {
    let outage = api.engine.store().outage()?;
    let ago = jiff::SignedDuration::try_from(outage.since.elapsed()).unwrap_or_default();
    let since = api.engine.context().clock.now().checked_sub(ago).unwrap_or(Timestamp::MIN);
    Some(OutageView { kind: outage.kind.as_str(), reason: outage.reason, since })
}

/// The store.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Store)]
struct StoreView {
    /// The kind of store, with its version.
    engine: String,
    /// Its location.
    location: String,
    /// The version of its tables.
    schema: u32,
    /// Size of its file and its log in bytes.
    bytes: u64,
    /// Of these, the bytes of the file that hold something; the rest is written over before the file grows.
    used_bytes: u64,
    /// Size of its large values in bytes, in files of their own.
    blob_bytes: u64,
    /// Maximum size in bytes, large values included (`limits.storeSize`).
    #[schema(required = true)]
    max_bytes: Option<u64>,
    /// Free room below the maximum: `enough`; `little`, and the oldest executions are deleted; `none`, and new ones are
    /// refused. `none` also if the disk is full.
    #[schema(example = "enough")]
    room: &'static str,
    /// The reasons why a guarantee is weakened.
    weakened: Vec<String>,
}

/// The absolute form of a path; the path as it is if the working directory is gone.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).as_deref().unwrap_or(path).display().to_string()
}

/// State of the daemon
#[utoipa::path(
    get, path = "/api/v1/status", tag = "status",
    responses((status = 200, description = "How it stands", body = StatusView)),
)]
pub(crate) async fn status(State(api): Shared) -> Result<Answer<StatusView>, Problem> {
    let info = api.engine.store().info().await?;
    let (status, catalog) = (api.engine.status(), api.engine.catalog());
    let running = api.engine.running_definitions();
    // The location of a store in a file is a path, that of a server an address.
    let location =
        if info.engine.starts_with("SQLite") { absolute(Path::new(&info.location)) } else { info.location };
    Ok(Answer::ok(StatusView {
        version: env!("CARGO_PKG_VERSION"),
        started_at: status.started_at,
        accepting: status.accepting && info.capacity != store::Capacity::Exhausted,
        outage: outage_view(&api),
        in_flight: status.in_flight,
        queued: status.queued,
        generation: status.generation,
        automations: catalog.automations().len(),
        broken: catalog.invalid_files().len(),
        refused: status.refused,
        read_only: api.read_only,
        hooks: api.public_url(),
        admin: format!("http://{}", api.addresses.admin),
        dir: absolute(&api.engine.settings().dir),
        deployment: running.generation.map(DeploymentView::from),
        deployment_problem: running.problem,
        store: StoreView {
            engine: info.engine,
            location,
            schema: info.schema,
            bytes: info.bytes,
            used_bytes: info.used,
            blob_bytes: info.blob_bytes,
            max_bytes: info.max_bytes,
            room: match info.capacity {
                store::Capacity::Ample => "enough",
                store::Capacity::Low => "little",
                store::Capacity::Exhausted => "none",
            },
            weakened: info.weakened.into_iter().chain(api.engine.peers().key_conflict()).collect(),
        },
    }))
}

impl Api {
    /// The base of the addresses of webhooks that people are shown.
    pub(crate) fn public_url(&self) -> String {
        let settings = self.engine.settings();
        settings.public_url.clone().unwrap_or_else(|| format!("http://{}", self.addresses.hooks))
    }
}

/// A problem in a file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub(crate) struct DiagnosticView {
    #[serde(flatten)]
    entry: DiagnosticEntry,
    /// Start of the place in UTF-16 units from 0, as JavaScript counts.
    from: usize,
    /// End of the place in UTF-16 units.
    to: usize,
}

/// The problems of several files as one list.
pub(crate) fn diagnostics<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Vec<DiagnosticView> {
    let mut all = Vec::new();
    for report in reports.into_iter().filter(|report| !report.is_empty()) {
        let index = Utf16Index::new(report.source().text());
        for (entry, diagnostic) in report.entries().into_iter().zip(report.diagnostics()) {
            let from = index.units_at(diagnostic.span.start as usize);
            let to = index.units_at(diagnostic.span.end as usize);
            all.push(DiagnosticView { entry, from, to });
        }
    }
    all
}

/// The changes made by a rescan of the folder.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reload)]
pub(crate) struct ReloadView {
    /// The snapshot now in force.
    generation: u64,
    /// Newly in force.
    added: Vec<String>,
    /// In force in another definition than before.
    changed: Vec<String>,
    /// No longer in force.
    removed: Vec<String>,
    /// Kept in their last good version since their file does not load.
    stale: Vec<String>,
    /// The diagnostics of the changed files.
    diagnostics: Vec<DiagnosticView>,
}

/// Rescan the project folder now
#[utoipa::path(
    post, path = "/api/v1/reload", tag = "status",
    responses((status = 200, description = "The changes", body = ReloadView)),
)]
pub(crate) async fn reload(State(api): Shared) -> Result<Answer<ReloadView>, Problem> {
    let engine = api.engine.clone();
    let reload = api.to_its_end(async move { engine.reload().await }).await?;
    let words = |ids: Vec<model::AutomationId>| ids.iter().map(ToString::to_string).collect();
    Ok(Answer::ok(ReloadView {
        generation: reload.generation,
        added: words(reload.added),
        changed: words(reload.changed),
        removed: words(reload.removed),
        stale: words(reload.stale),
        diagnostics: diagnostics(&reload.reports),
    }))
}

/// A text to check.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Validate {
    /// The path that the file would have in the project folder: it decides what kind of file it is.
    #[schema(example = "automations/order.yaml")]
    path: String,
    /// The text.
    text: String,
    /// The parts of its structure to answer with.
    #[serde(default)]
    include: Vec<Part>,
}

/// A part of the structure of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum Part {
    /// The step graph.
    Graph,
    /// The steps with their places.
    Outline,
    /// The places that read steps.
    References,
    /// The data of the file.
    Data,
}

/// A step and its place in a text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OutlineStep {
    /// Its id.
    id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Its verb.
    verb: &'static str,
    /// Its path in the file, for `POST /edit`: keys and indices.
    at: Vec<text::yaml::edit::Segment>,
    /// Start of its text, in UTF-16 units from 0.
    from: usize,
    /// End of its text.
    to: usize,
}

/// A place that reads a step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct StepReference {
    /// The id of the step.
    step: String,
    /// Start of the name, in UTF-16 units from 0.
    from: usize,
    /// End of the name.
    to: usize,
}

/// The result of a check.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Validated {
    /// True if the file has no error.
    ok: bool,
    /// All diagnostics, in the order of their positions.
    diagnostics: Vec<DiagnosticView>,
    /// The step graph, in the form of an automation's `plan`; absent if it was not asked for or the text does not parse.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<catalog::Graph>,
    /// The steps in document order.
    #[serde(skip_serializing_if = "Option::is_none")]
    outline: Option<Vec<OutlineStep>>,
    /// The places that read steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    references: Option<Vec<StepReference>>,
    /// The data of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    data: Option<serde_json::Value>,
}

/// Check a text without writing it
#[utoipa::path(
    post, path = "/api/v1/validate", tag = "status", request_body = Validate,
    responses((status = 200, description = "The findings", body = Validated)),
)]
pub(crate) async fn validate(
    State(api): Shared,
    Body(given): Body<Validate>,
) -> Result<Answer<Validated>, Problem> {
    let catalog = api.engine.catalog();
    // Checking is work for a processor, bounded by the size of the text but not short. So are the diagnostics.
    let checked = api.check(move || {
        let inspection = match given.include.is_empty() {
            true => {
                let report = authoring::check_text(&catalog, &given.path, &given.text);
                authoring::Inspection { report, structure: None, data: None }
            }
            false => authoring::inspect_text(&catalog, &given.path, &given.text),
        };
        Validated::new(&given.include, inspection)
    });
    Ok(Answer::ok(checked.await?))
}

impl Validated {
    fn new(include: &[Part], inspection: authoring::Inspection) -> Self {
        let authoring::Inspection { report, structure, data } = inspection;
        let has = |part| include.contains(&part);
        let data = data.filter(|_| has(Part::Data));
        let (graph, outline, references) = match structure {
            None => (None, None, None),
            Some(found) => (
                has(Part::Graph).then_some(found.graph),
                has(Part::Outline).then(|| found.outline.into_iter().map(OutlineStep::from).collect()),
                has(Part::References)
                    .then(|| found.references.into_iter().map(StepReference::from).collect()),
            ),
        };
        let (ok, diagnostics) = (!report.has_errors(), diagnostics([&report]));
        Self { ok, diagnostics, graph, outline, references, data }
    }
}

impl From<authoring::StepPlace> for OutlineStep {
    fn from(step: authoring::StepPlace) -> Self {
        let authoring::StepPlace { id, name, verb, at, range } = step;
        Self { id, name, verb, at, from: range.from, to: range.to }
    }
}

impl From<(String, authoring::TextRange)> for StepReference {
    fn from((step, range): (String, authoring::TextRange)) -> Self {
        Self { step, from: range.from, to: range.to }
    }
}

/// The description of this API
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "status",
    responses((status = 200, description = "This document", body = value::Json)),
)]
pub(crate) async fn description(State(_): Shared) -> Response {
    ([(CONTENT_TYPE, "application/json")], crate::admin::openapi()).into_response()
}
