//! The secrets of the store: written and never read.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

use axum::extract::State;
use jiff::Timestamp;
use runtime::{ListedSecret, Rotation, SecretSource, StoredSecret};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use value::Secret;

use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Problem, Shared};

/// A secret: all but its value.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub(crate) struct SecretView {
    name: String,
    /// `store`, `folder`, or `environment` for a variable of it that a file of the project needs.
    source: &'static str,
    /// Number of times that it was set, for a secret of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// When it was set last, for one of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_at: Option<Timestamp>,
    /// The id of the key that seals it, for one of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// False if the key that encrypts it is missing, so that it cannot be read.
    readable: bool,
}

impl From<ListedSecret> for SecretView {
    fn from(listed: ListedSecret) -> Self {
        match (listed.source, listed.kept) {
            (SecretSource::Store, Some(kept)) => kept.into(),
            (source, _) => Self {
                name: listed.name,
                source: if source == SecretSource::Environment { "environment" } else { "folder" },
                version: None,
                set_at: None,
                key: None,
                readable: true,
            },
        }
    }
}

impl From<StoredSecret> for SecretView {
    fn from(kept: StoredSecret) -> Self {
        Self {
            name: kept.name,
            source: "store",
            version: Some(kept.version),
            set_at: Some(kept.set_at),
            key: Some(kept.key),
            readable: kept.readable,
        }
    }
}

/// The secrets.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Secrets {
    /// The secrets of the store, then of the folder that the store does not have, then of the environment.
    secrets: Vec<SecretView>,
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
    Answer::ok(Secrets {
        secrets: context.secrets().into_iter().map(Into::into).collect(),
        missing: context.unset_secrets(),
    })
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
    responses((status = 200, description = "It is kept, and read from now on", body = SecretView)),
)]
pub(crate) async fn put(
    State(api): Shared,
    Segment(name): Segment,
    Body(body): Body<SecretBody>,
) -> Result<Answer<SecretView>, Problem> {
    let engine = api.engine.clone();
    let kept = api
        .to_its_end(async move { engine.context().set_secret(&name, body.value.expose()).await })
        .await??;
    Ok(Answer::ok(kept.into()))
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

/// The result of a key rotation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rotated {
    /// Number of values that were sealed again, tokens of connections included.
    sealed: usize,
    /// The id of the key that seals them now.
    key: String,
    /// True if the environment supplies the keys; those after the first can then be removed.
    given: bool,
}

impl From<Rotation> for Rotated {
    fn from(rotation: Rotation) -> Self {
        Self { sealed: rotation.sealed, key: rotation.key, given: rotation.given }
    }
}

/// Seal the secrets of the store with a new key
#[utoipa::path(
    post, path = "/api/v1/secret-keys", tag = "secrets",
    responses((status = 200, description = "All are sealed with it", body = Rotated)),
)]
pub(crate) async fn rotate(State(api): Shared) -> Result<Answer<Rotated>, Problem> {
    let engine = api.engine.clone();
    let rotation = api.to_its_end(async move { engine.context().rotate_key().await }).await??;
    Ok(Answer::ok(rotation.into()))
}
