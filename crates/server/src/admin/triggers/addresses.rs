//! The addresses of automations: replacing one whose token has become known.

use axum::extract::State;
use catalog::AddressKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Problem, Shared};

/// One of the two addresses of an automation.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Which {
    /// The address that starts executions.
    Live,
    /// The address that starts test executions.
    Test,
}

/// The address to replace.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RotateBody {
    address: Which,
}

/// The addresses of a trigger. They are absent if it receives no requests.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RotatedAddresses)]
pub(crate) struct Rotated {
    #[serde(skip_serializing_if = "Option::is_none")]
    live_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
}

/// Replace the live or the test address: the previous one leads nowhere from then on
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/rotate-token", tag = "automations", request_body = RotateBody,
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "The addresses from now on", body = Rotated)),
)]
pub(crate) async fn rotate(
    State(api): Shared,
    Segment(id): Segment,
    Body(body): Body<RotateBody>,
) -> Result<Answer<Rotated>, Problem> {
    let target = api.mount_of(&id, |mount| mount.address().is_some())?.key();
    let kind = match body.address {
        Which::Live => AddressKind::Live,
        Which::Test => AddressKind::Test,
    };
    let (engine, key) = (api.engine.clone(), target.clone());
    api.to_its_end(async move { engine.rotate_address(&key, kind).await }).await??;
    let (catalog, base) = (api.engine.catalog(), api.public_url());
    let mount = catalog.find_mount(&target)?;
    Ok(Answer::ok(Rotated { live_url: mount.live_url(&base), test_url: mount.test_url(&base) }))
}
