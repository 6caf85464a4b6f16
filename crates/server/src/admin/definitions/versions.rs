//! Versions of automations: the texts that executions ran on.

use axum::extract::State;
use catalog::{Deployment, Graph};
use model::DefinitionHash;
use serde::Serialize;
use text::diagnostic::Source;
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Segment};
use crate::admin::{Api, Problem, Shared};

/// Maximum number of versions of one automation in an answer.
const VERSIONS: u32 = 200;

/// A version of an automation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Definition)]
pub(crate) struct DefinitionView {
    /// The SHA-256 of the id and the texts.
    hash: String,
    /// The automation.
    automation: String,
    /// True if it is the version in force.
    in_force: bool,
    /// The file, relative to the project folder.
    path: String,
    /// The text of the file.
    source: String,
    /// The code files that it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    code_files: Vec<CodeFileView>,
    /// Its steps; absent if this version of Cogwork cannot load the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<Graph>,
}

/// A code file of an automation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CodeFile)]
struct CodeFileView {
    /// The path, relative to the project folder.
    path: String,
    /// The text.
    source: String,
}

/// The versions of an automation that the daemon still knows.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Versions {
    /// The one in force first, then the one used last; at most 200.
    versions: Vec<VersionView>,
}

/// A version in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AutomationVersion)]
struct VersionView {
    /// The hash, for `GET /api/v1/definitions/{hash}`.
    hash: String,
    /// The file, relative to the project folder.
    path: String,
    /// True if it is the version in force.
    in_force: bool,
    /// The number of kept executions that ran on it, or run on it.
    executions: u64,
}

/// A version of an automation, with its text and its steps
#[utoipa::path(
    get, path = "/api/v1/definitions/{hash}", tag = "automations",
    params(("hash" = String, Path, description = "The `definition` of an execution or of an automation")),
    responses((status = 200, description = "The version", body = DefinitionView)),
)]
pub(crate) async fn show(
    State(api): Shared,
    Segment(hash): Segment,
) -> Result<Answer<DefinitionView>, Problem> {
    let unknown = || {
        let detail = format!("there is no definition `{hash}`; a version is kept as long as its executions");
        Problem::not_found("unknown_definition", detail)
    };
    let parsed = DefinitionHash::try_from(hash.clone()).map_err(|_| unknown())?;
    let version = api.engine.records().version(parsed).await?.ok_or_else(unknown)?;
    let graph = version.checked.map(|automation| {
        let deployment =
            Deployment::old(automation, text::diagnostic::Report::new(version.source.clone(), []));
        api.graph(&deployment)
    });
    let file = |source: &std::sync::Arc<Source>| CodeFileView {
        path: source.path().to_owned(),
        source: source.text().to_owned(),
    };
    Ok(Answer::ok(DefinitionView {
        hash,
        automation: version.automation.to_string(),
        in_force: version.is_in_force,
        path: version.source.path().to_owned(),
        source: version.source.text().to_owned(),
        code_files: version.code_files.iter().map(file).collect(),
        graph,
    }))
}

/// The versions of an automation that are in force or that executions ran on
#[utoipa::path(
    get, path = "/api/v1/automations/{id}/versions", tag = "automations",
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "The versions", body = Versions)),
)]
pub(crate) async fn versions(State(api): Shared, Segment(id): Segment) -> Result<Answer<Versions>, Problem> {
    let catalog = api.engine.catalog();
    let current =
        catalog.find(&id).map(|found| (found.automation.definition, found.automation.source.path()));
    let unknown = || Problem::not_found("unknown_automation", format!("there is no automation `{id}`"));
    let automation = model::AutomationId::parse(&id).ok_or_else(unknown)?;
    let mut stored = api.engine.store().definitions(&automation, VERSIONS).await?;
    let mut versions = Vec::with_capacity(stored.len() + 1);
    match current {
        Ok((hash, path)) => {
            let place = stored.iter().position(|known| known.hash == hash);
            let executions = place.map_or(0, |place| stored.remove(place).executions);
            versions.push(VersionView {
                hash: hash.to_string(),
                path: path.to_owned(),
                in_force: true,
                executions,
            });
        }
        // The file was deleted; its executions are still there.
        Err(error) if stored.is_empty() => return Err(error.into()),
        Err(_) => {}
    }
    versions.extend(stored.into_iter().map(|known| VersionView {
        hash: known.hash.to_string(),
        path: known.path,
        in_force: false,
        executions: known.executions,
    }));
    Ok(Answer::ok(Versions { versions }))
}

impl Api {
    /// The graph of an automation. The effects of its actions are those of the connectors in force.
    pub(crate) fn graph(&self, deployment: &Deployment) -> Graph {
        let catalog = self.engine.catalog();
        Graph::new(&deployment.automation, &deployment.plan, Some(catalog.registry()))
    }
}
