//! Deployed definitions: generations of the files of the project, which all daemons that share a store take from there.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::{Deploy, DeployError, Deployed};
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::{Generation, GenerationSource, NodeId};
use text::diagnostic::Report;
use utoipa::ToSchema;

use crate::admin::auth::credential::Credential;
use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::files::project_files;
use crate::admin::operations::status::{DiagnosticView, diagnostics};
use crate::admin::{Problem, Shared};

/// The path of [`deploy`], whose bodies may be large.
pub(crate) const PATH: &str = "/api/v1/deployments";
/// Maximum number of generations that are listed.
const LISTED: u32 = 50;

/// The way in which a generation came about.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentSource)]
enum SourceView {
    /// A project folder was deployed with `cogwork push` or over the API.
    Push,
    /// A daemon deployed its own folder.
    Folder,
    /// A file was changed over the API or in the web UI.
    Edit,
    /// An earlier generation was deployed again.
    Restore,
}

/// A generation of deployed definitions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deployment)]
pub(crate) struct DeploymentView {
    /// Its number. They begin with 1.
    generation: u64,
    /// When it was deployed.
    at: Timestamp,
    /// The credential with which it was deployed, or the daemon whose folder it is.
    by: String,
    /// Its description; empty if there is none.
    note: String,
    source: SourceView,
    /// The number of its files.
    files: u32,
}

/// A generation, and the daemons that run it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ListedDeployment)]
struct ListedDeployment {
    #[serde(flatten)]
    deployment: DeploymentView,
    /// The numbers of the daemons that run it, by their last beats.
    nodes: Vec<i64>,
}

/// The generations of deployed definitions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployments {
    /// At most the last 50, the newest first; none if nothing was deployed: then each daemon runs the files of its own folder.
    deployments: Vec<ListedDeployment>,
}

/// The files of a project folder, to be deployed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeployBody {
    /// All files of the project: automations with their code and tests, connections, connectors. At most 32 MiB.
    files: Vec<catalog::ProjectFile>,
    /// A description of the deployment; at most 1,000 bytes.
    #[serde(default)]
    note: String,
    /// The newest generation that the sender knows, 0 for none. If another one is the newest, the answer is 409. Without it, any may be.
    follows: Option<u64>,
}

/// Options of a roll-back to an earlier generation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RestoreBody {
    /// The newest generation that the sender knows. If another one is the newest, the answer is 409. Without it, any may be.
    follows: Option<u64>,
}

/// The result of a deployment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deployed)]
pub(crate) struct DeployedView {
    /// The newest generation.
    deployment: DeploymentView,
    /// False if the newest generation had these files before: then none was made.
    is_new: bool,
}

/// A deployment that was refused because files have errors.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentErrors)]
pub(crate) struct DeploymentErrors {
    #[serde(flatten)]
    problem: Problem,
    /// The problems of the files that have errors.
    diagnostics: Vec<DiagnosticView>,
    /// The same for people.
    rendered: String,
}

/// The generations of deployed definitions
#[utoipa::path(
    get, path = "/api/v1/deployments", tag = "daemon",
    responses((status = 200, description = "The newest first", body = Deployments)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Deployments>, Problem> {
    let listed = |(generation, nodes): (Generation, Vec<NodeId>)| ListedDeployment {
        deployment: generation.into(),
        nodes: nodes.into_iter().map(|node| node.0).collect(),
    };
    let deployments = api.engine.deployments(LISTED).await?.into_iter().map(listed).collect();
    Ok(Answer::ok(Deployments { deployments }))
}

/// Deploy the files of a project for all daemons that share the store
///
/// The files are checked as `cogwork validate` does; with an error in any of them nothing is deployed. The answer comes when they are in
/// force on this daemon; the others take them within seconds.
#[utoipa::path(
    post, path = "/api/v1/deployments", tag = "daemon", request_body = DeployBody,
    responses(
        (status = 200, description = "It is deployed", body = DeployedView),
        (status = 409, description = "Another generation is the newest, or the store belongs to one daemon", body = Problem),
        (status = 422, description = "Files have errors", body = DeploymentErrors),
    ),
)]
pub(crate) async fn deploy(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Body(DeployBody { files, note, follows }): Body<DeployBody>,
) -> Result<Response, Problem> {
    let author = credential.to_string();
    let deploy = Deploy { files, author, note, follows, source: GenerationSource::Push };
    let engine = api.engine.clone();
    answer(api.to_its_end(async move { engine.deploy(deploy).await }).await?)
}

/// Deploy an earlier generation again
#[utoipa::path(
    post, path = "/api/v1/deployments/{generation}/restore", tag = "daemon", request_body = Option<RestoreBody>,
    params(("generation" = u64, Path, description = "Its number")),
    responses(
        (status = 200, description = "It is deployed, as the newest generation", body = DeployedView),
        (status = 404, description = "It is not kept any more", body = Problem),
        (status = 409, description = "Another generation is the newest", body = Problem),
        (status = 422, description = "Files have errors, by the rules of this release", body = DeploymentErrors),
    ),
)]
pub(crate) async fn restore(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(generation): Segment,
    body: Option<Body<RestoreBody>>,
) -> Result<Response, Problem> {
    let number = generation.parse().map_err(|_| {
        Problem::bad_request("bad_path", format!("`{generation}` is no number of a generation"))
    })?;
    let follows = body.and_then(|Body(body)| body.follows);
    let (engine, author) = (api.engine.clone(), credential.to_string());
    answer(api.to_its_end(async move { engine.restore_generation(number, author, follows).await }).await?)
}

impl From<Generation> for DeploymentView {
    fn from(generation: Generation) -> Self {
        let Generation { number, at, author, note, source, files } = generation;
        let source = match source {
            GenerationSource::Push => SourceView::Push,
            GenerationSource::Folder => SourceView::Folder,
            GenerationSource::Edit => SourceView::Edit,
            GenerationSource::Restore => SourceView::Restore,
        };
        Self { generation: number, at, by: author, note, source, files }
    }
}

fn answer(deployed: Result<Deployed, DeployError>) -> Result<Response, Problem> {
    match deployed {
        Ok(Deployed { generation, is_new, .. }) => {
            Ok(Answer::ok(DeployedView { deployment: generation.into(), is_new }).into_response())
        }
        Err(error) => refused(error),
    }
}

/// The answer to a deployment that was refused.
pub(crate) fn refused(error: DeployError) -> Result<Response, Problem> {
    let (DeployError::Invalid(reports) | DeployError::OlderDaemons(reports)) = error else {
        return Err(problem(error));
    };
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let detail = "files of the project have errors, so nothing was deployed";
    let problem = Problem::new(status, "project_has_errors", detail);
    let rendered = reports.iter().map(|report: &Report| report.render(false)).collect();
    Ok(Answer(status, DeploymentErrors { problem, diagnostics: diagnostics(&reports), rendered })
        .into_response())
}

pub(crate) fn problem(error: DeployError) -> Problem {
    let detail = error.to_string();
    let of = |status, code| Problem::new(status, code, detail.clone());
    match error {
        DeployError::Store(store::Error::NotShared) => of(StatusCode::CONFLICT, "not_shared"),
        DeployError::Store(error) => runtime::Error::from(error).into(),
        DeployError::Invalid(_) | DeployError::OlderDaemons(_) => {
            of(StatusCode::UNPROCESSABLE_ENTITY, "project_has_errors")
        }
        DeployError::Overtaken { .. } => of(StatusCode::CONFLICT, "overtaken"),
        DeployError::Unknown(_) => Problem::not_found("unknown_deployment", detail),
        DeployError::Empty => of(StatusCode::UNPROCESSABLE_ENTITY, "empty_project"),
        DeployError::TooLarge => of(StatusCode::PAYLOAD_TOO_LARGE, "deployment_too_large"),
        DeployError::Twice(_) => of(StatusCode::UNPROCESSABLE_ENTITY, "duplicate_file"),
        DeployError::Path(error) => project_files::file_problem(&error),
        DeployError::Unreadable { .. } => of(StatusCode::UNPROCESSABLE_ENTITY, "unreadable_file"),
        DeployError::Checking(_) => Problem::internal(&error),
    }
}
