//! Moving what is stored under the id of a trigger to another id.

use axum::extract::State;
use http::StatusCode;
use ingress::MoveError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Problem, Shared};

/// The ids of a move.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MoveBody {
    /// The id that the trigger has had.
    from: String,
    /// The id that it gets. Nothing may be stored under it.
    to: String,
}

/// The result of a move.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moved {
    /// The number of moved rows; 0 if nothing was stored.
    rows: u64,
}

impl From<MoveError> for Problem {
    fn from(error: MoveError) -> Self {
        match error {
            MoveError::Refused(detail) => Self::new(StatusCode::CONFLICT, "trigger_has_rows", detail),
            MoveError::Forward(error) => Self::from(error),
            MoveError::Failed(error) => Self::from(error),
        }
    }
}

/// Move what is stored under the id of a trigger to another id: its addresses, its positions and its subscriptions
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/move-trigger", tag = "automations", request_body = MoveBody,
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "How much was moved", body = Moved)),
)]
pub(crate) async fn relocate(
    State(api): Shared,
    Segment(id): Segment,
    Body(MoveBody { from, to }): Body<MoveBody>,
) -> Result<Answer<Moved>, Problem> {
    let engine = api.engine.clone();
    let rows = api.to_its_end(async move { engine.move_trigger(&id, &from, &to).await }).await??;
    Ok(Answer::ok(Moved { rows }))
}
