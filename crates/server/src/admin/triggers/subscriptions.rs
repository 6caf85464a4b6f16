//! Subscriptions at other applications: those that exist, those to be created, those to be removed.

use axum::extract::State;
use http::StatusCode;
use ingress::SubscriptionError;
use jiff::Timestamp;
use model::AutomationId;
use serde::Serialize;
use store::Subscription;
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Segment};
use crate::admin::{Problem, Shared};

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
    state: SubscriptionState,
    /// True if it is for the test address, during a listening session.
    test: bool,
    /// Its id at the other application.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    #[schema(value_type = Option<value::Json>)]
    remote: serde_json::Value,
    /// Error of the last attempt to create, renew or remove it, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Number of consecutive failures.
    failures: u32,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Timestamp>,
    /// Since when it is as it is.
    since: Timestamp,
}

/// The state of a subscription.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum SubscriptionState {
    Active,
    /// It is not yet made.
    Pending,
    /// It is not yet taken back.
    Leaving,
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
            (true, _) => SubscriptionState::Leaving,
            (false, true) => SubscriptionState::Pending,
            (false, false) => SubscriptionState::Active,
        };
        Self {
            automation: one.trigger.name(),
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

impl From<SubscriptionError> for Problem {
    fn from(error: SubscriptionError) -> Self {
        match error {
            SubscriptionError::NoSubscription(_) => {
                Self::new(StatusCode::CONFLICT, "no_subscription", error.to_string())
            }
            SubscriptionError::NothingToForget(_) => {
                Self::new(StatusCode::CONFLICT, "nothing_to_forget", error.to_string())
            }
            SubscriptionError::Forward(error) => Self::from(error),
            SubscriptionError::Closing => Self::from(runtime::Error::Closing),
        }
    }
}

/// The subscriptions to events of other applications
#[utoipa::path(
    get, path = "/api/v1/subscriptions", tag = "automations",
    responses((status = 200, description = "By automation", body = Subscriptions)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Subscriptions>, Problem> {
    let all = api.engine.ingress().subscriptions_of_all_nodes().await?;
    Ok(Answer::ok(Subscriptions { subscriptions: all.into_iter().map(Into::into).collect() }))
}

/// Attempt the pending changes of an automation's subscriptions now, whenever the next attempt is due
#[utoipa::path(
    post, path = "/api/v1/subscriptions/{automation}/try", tag = "automations",
    params(("automation" = String, Path, description = "The automation's id; its file may be gone")),
    responses((status = 200, description = "Its subscriptions after the attempt", body = Subscriptions)),
)]
pub(crate) async fn attempt(
    State(api): Shared,
    Segment(name): Segment,
) -> Result<Answer<Subscriptions>, Problem> {
    let (automation, engine) = (subscriber(&name)?, api.engine.clone());
    let found =
        api.to_its_end(async move { engine.ingress().try_subscriptions(&automation).await }).await??;
    Ok(Answer::ok(Subscriptions { subscriptions: found.into_iter().map(Into::into).collect() }))
}

/// Forget the subscriptions of an automation that could not be taken back
///
/// For an application that is gone, or that refuses the removal. It is not called, and keeps a subscription that it still has.
#[utoipa::path(
    post, path = "/api/v1/subscriptions/{automation}/forget", tag = "automations",
    params(("automation" = String, Path, description = "The automation's id; its file may be gone")),
    responses((status = 200, description = "Its subscriptions that are left", body = Subscriptions)),
)]
pub(crate) async fn forget(
    State(api): Shared,
    Segment(name): Segment,
) -> Result<Answer<Subscriptions>, Problem> {
    let (automation, engine) = (subscriber(&name)?, api.engine.clone());
    let left = async move { engine.ingress().forget_subscriptions(&automation).await };
    let left = api.to_its_end(left).await??;
    Ok(Answer::ok(Subscriptions { subscriptions: left.into_iter().map(Into::into).collect() }))
}

/// The id of an automation that has subscriptions. Its file may be gone: the removal of a subscription outlives it.
fn subscriber(name: &str) -> Result<AutomationId, Problem> {
    AutomationId::parse(name)
        .ok_or_else(|| Problem::not_found("unknown_automation", format!("there is no automation `{name}`")))
}
