//! The own events of a project.

use axum::extract::State;
use runtime::OwnEvent;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::extract::Answer;
use crate::admin::{Problem, Shared};

/// The own events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnEvents {
    /// By name.
    events: Vec<OwnEvent>,
}

/// List the own events: who sends them, who waits for them, what they start, and how many are on their way
#[utoipa::path(
    get, path = "/api/v1/own-events", tag = "automations",
    responses((status = 200, description = "The events that automations in force name, or that are on their way", body = OwnEvents)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<OwnEvents>, Problem> {
    Ok(Answer::ok(OwnEvents { events: api.engine.context().own_events().await? }))
}
