//! State of the called hosts: their rate limits, requests to wait, and outages.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::Shared;
use crate::admin::extract::Answer;

/// The hosts that were called since the daemon began.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hosts {
    /// By host and connection.
    hosts: Vec<connector::HostHealth>,
}

/// State of the called hosts
#[utoipa::path(
    get, path = "/api/v1/hosts", tag = "connectors",
    responses((status = 200, description = "By host and connection", body = Hosts)),
)]
pub(crate) async fn list(State(api): Shared) -> Answer<Hosts> {
    Answer::ok(Hosts { hosts: api.engine.connections().hosts() })
}
