//! Connectors and their actions.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::described::{ActionInfo, ConnectionTypeInfo};
use super::extract::{Answer, Segment};
use super::{Problem, Shared};

/// A connector.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Connector)]
struct ConnectorView {
    name: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The version of its manifest, or of Cogwork.
    version: String,
    /// The names of its actions.
    actions: Vec<String>,
    /// The names of its connection types.
    connection_types: Vec<String>,
    /// The file it comes from, for a user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// The connectors.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connectors {
    connectors: Vec<ConnectorView>,
}

/// One connector with all it declares.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectorDetail {
    name: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The version of its manifest, or of Cogwork.
    version: String,
    /// Each action: what it does, its inputs, its result, an example.
    #[schema(value_type = Vec<ActionInfo>)]
    actions: Vec<serde_json::Value>,
    /// Each connection type with its inputs.
    #[schema(value_type = Vec<ConnectionTypeInfo>)]
    connection_types: Vec<serde_json::Value>,
    /// The file it comes from, for a user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// The connectors
#[utoipa::path(
    get, path = "/api/v1/connectors", tag = "connectors",
    responses((status = 200, description = "By name", body = Connectors)),
)]
pub(crate) async fn list(State(api): Shared) -> Answer<Connectors> {
    let catalog = api.engine.catalog();
    let connectors = catalog.registry().connectors().map(|connector| ConnectorView {
        name: connector.name.clone(),
        title: connector.title.clone(),
        description: connector.description.clone(),
        version: connector.version.clone(),
        actions: connector.actions.clone(),
        connection_types: connector.connections.clone(),
        file: connector.file.clone(),
    });
    Answer::ok(Connectors { connectors: connectors.collect() })
}

/// One connector with its actions and connection types
#[utoipa::path(
    get, path = "/api/v1/connectors/{name}", tag = "connectors",
    params(("name" = String, Path, description = "The connector's name")),
    responses((status = 200, description = "The connector", body = ConnectorDetail)),
)]
pub(crate) async fn show(
    State(api): Shared,
    Segment(name): Segment,
) -> Result<Answer<ConnectorDetail>, Problem> {
    let catalog = api.engine.catalog();
    let registry = catalog.registry();
    let Some(connector) = registry.connector(&name) else {
        let nearest =
            model::diagnostic::nearest(&name, registry.connectors().map(|found| found.name.as_str()));
        let hint = nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"));
        return Err(Problem::not_found("unknown_connector", format!("there is no connector `{name}`{hint}")));
    };
    Ok(Answer::ok(ConnectorDetail {
        name: connector.name.clone(),
        title: connector.title.clone(),
        description: connector.description.clone(),
        version: connector.version.clone(),
        actions: connector
            .actions
            .iter()
            .filter_map(|name| registry.action(name))
            .map(|found| plain(found.spec()))
            .collect(),
        connection_types: connector
            .connections
            .iter()
            .filter_map(|name| registry.connection_type(name))
            .map(plain)
            .collect(),
        file: connector.file.clone(),
    }))
}

fn plain(declared: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(declared).unwrap_or_default()
}
