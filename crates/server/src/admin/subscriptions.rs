//! Subscriptions at other applications: those that exist, those to be created, those to be removed.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use store::Subscription;
use utoipa::ToSchema;

use super::Shared;
use super::described::{AnyJson, SubscriptionWord};
use super::extract::Answer;

/// A subscription to an event of another application.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Subscription)]
pub(crate) struct SubscriptionView {
    automation: String,
    /// The event, such as `github.push`.
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
    /// `active`; `pending` until it is made; `leaving` until it is taken back.
    #[schema(value_type = SubscriptionWord)]
    state: &'static str,
    /// True if it is for the test address, during a listening session.
    test: bool,
    /// Its id at the other application.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    #[schema(value_type = Option<AnyJson>)]
    remote: serde_json::Value,
    /// Why it could not be set right, if it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How often that failed.
    failures: u32,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Timestamp>,
    /// Since when it is as it is.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

/// The subscriptions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subscriptions {
    /// By automation.
    subscriptions: Vec<SubscriptionView>,
}

impl From<Subscription> for SubscriptionView {
    fn from(one: Subscription) -> Self {
        let state = match (one.removing, one.remote.is_null()) {
            (true, _) => "leaving",
            (false, true) => "pending",
            (false, false) => "active",
        };
        Self {
            automation: one.automation.to_string(),
            event: one.event,
            connection: one.connection,
            state,
            test: one.test,
            remote: one.remote.to_serde(),
            error: one.error,
            failures: one.failures,
            next_at: one.next_at,
            since: one.since,
        }
    }
}

/// The subscriptions to events of other applications
#[utoipa::path(
    get, path = "/api/v1/subscriptions", tag = "automations",
    responses((status = 200, description = "By automation", body = Subscriptions)),
)]
pub(crate) async fn list(State(api): Shared) -> Answer<Subscriptions> {
    Answer::ok(Subscriptions {
        subscriptions: api.engine.ingress().subscriptions().into_iter().map(Into::into).collect(),
    })
}
