//! The secrets of the store: written and never read.

use axum::extract::State;
use runtime::{ListedSecret, Rotation};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use value::Secret;

use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Problem, Shared};

/// The secrets.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Secrets {
    /// The secrets of the store, then of the folder that the store does not have, then the secrets of the project that the environment or a
    /// provider has.
    secrets: Vec<ListedSecret>,
    /// The names of the secrets that files of the project need and that are not set.
    missing: Vec<String>,
}

/// The secrets there are, without their values
#[utoipa::path(
    get, path = "/api/v1/secrets", tag = "secrets",
    responses((status = 200, description = "By name", body = Secrets)),
)]
pub(crate) async fn list(State(api): Shared) -> Answer<Secrets> {
    let context = api.engine.context();
    Answer::ok(Secrets { secrets: context.secrets(), missing: context.unset_secrets() })
}

/// A secret to keep.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SecretBody {
    /// At most 64 KiB. No answer ever holds it.
    #[serde(deserialize_with = "sealed")]
    #[schema(value_type = String, format = Password, write_only)]
    value: Secret,
}

fn sealed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

/// Keep a secret in the store, sealed
#[utoipa::path(
    put, path = "/api/v1/secrets/{name}", tag = "secrets", request_body = SecretBody,
    params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "It is kept, and read from now on", body = ListedSecret)),
)]
pub(crate) async fn put(
    State(api): Shared,
    Segment(name): Segment,
    Body(body): Body<SecretBody>,
) -> Result<Answer<ListedSecret>, Problem> {
    let engine = api.engine.clone();
    let kept = api
        .to_its_end(async move { engine.context().set_secret(&name, body.value.expose()).await })
        .await??;
    Ok(Answer::ok(kept))
}

/// The result of a removal
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Removed {
    /// False where the store had none of that name.
    removed: bool,
}

/// Remove a secret from the store
#[utoipa::path(
    delete, path = "/api/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "Whether there was one", body = Removed)),
)]
pub(crate) async fn delete(State(api): Shared, Segment(name): Segment) -> Result<Answer<Removed>, Problem> {
    let engine = api.engine.clone();
    let removed = api.to_its_end(async move { engine.context().remove_secret(&name).await }).await??;
    Ok(Answer::ok(Removed { removed }))
}

/// Seal the secrets of the store with a new key
#[utoipa::path(
    post, path = "/api/v1/secret-keys", tag = "secrets",
    responses((status = 200, description = "All are sealed with it", body = Rotation)),
)]
pub(crate) async fn rotate(State(api): Shared) -> Result<Answer<Rotation>, Problem> {
    let engine = api.engine.clone();
    let rotation = api.to_its_end(async move { engine.context().rotate_key().await }).await??;
    Ok(Answer::ok(rotation))
}
