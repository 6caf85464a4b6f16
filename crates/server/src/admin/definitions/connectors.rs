//! Connectors and their actions.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Segment};
use crate::admin::{Problem, Shared};

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
    /// The names of its events.
    events: Vec<String>,
    /// The file it comes from, for a user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// An event of another application, which a trigger can name.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConnectorEvent)]
struct EventView {
    /// The full name, such as `github.push`.
    name: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The names of the connection types that it accepts.
    connections: Vec<String>,
    /// True if it needs a connection.
    connection_required: bool,
    /// The inputs of the trigger.
    inputs: Vec<model::InputSpec>,
    /// `subscribed` if the application sends it to an address, `polled` if the daemon asks for it.
    delivery: connector::EventDelivery,
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
    actions: Vec<model::ActionSpec>,
    /// Each connection type with its inputs.
    connection_types: Vec<connector::ConnectionType>,
    /// Each event with its inputs.
    events: Vec<EventView>,
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
        events: connector.events.clone(),
        file: connector.file.clone(),
    });
    Answer::ok(Connectors { connectors: connectors.collect() })
}

/// One connector with its actions, connection types and events
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
            text::diagnostic::nearest(&name, registry.connectors().map(|found| found.name.as_str()));
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
            .map(|found| found.spec().clone())
            .collect(),
        connection_types: connector
            .connections
            .iter()
            .filter_map(|name| registry.connection_type(name))
            .cloned()
            .collect(),
        events: connector
            .events
            .iter()
            .filter_map(|name| registry.event(name))
            .map(|event| EventView {
                name: event.name.clone(),
                title: event.title.clone(),
                description: event.description.clone(),
                connections: event.connections.clone(),
                connection_required: event.connection_required,
                inputs: event.inputs.clone(),
                delivery: event.source.delivery(),
            })
            .collect(),
        file: connector.file.clone(),
    }))
}
