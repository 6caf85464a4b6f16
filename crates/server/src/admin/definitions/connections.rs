//! The connections: how they are doing, whether they work, and who is asked for consent. Never a value of one.

use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use runtime::{ConnectionReport, LoginState, StartedLogin};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::extract::{Answer, Query, Segment};
use crate::admin::{Problem, Shared};

/// The longest that a request waits for the end of a consent.
const LONGEST_WAIT: u64 = 30;

/// The connections.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connections {
    connections: Vec<ConnectionReport>,
}

/// The connections, and how they are doing
#[utoipa::path(
    get, path = "/api/v1/connections", tag = "connectors",
    responses((status = 200, description = "By name, without any value", body = Connections)),
)]
pub(crate) async fn list(State(api): Shared) -> Answer<Connections> {
    Answer::ok(Connections { connections: api.engine.connections().reports() })
}

/// The result of a test call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConnectionTestResult)]
pub(crate) struct TestView {
    /// True if the call succeeded.
    works: bool,
    /// The action that was called.
    action: String,
    /// Duration of the call in milliseconds.
    took_ms: u64,
    /// Its error, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::ActionError>)]
    error: Option<serde_json::Value>,
}

/// Make the cheap call that shows whether a connection works
#[utoipa::path(
    post, path = "/api/v1/connections/{name}/test", tag = "connectors",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "Whether it works", body = TestView)),
)]
pub(crate) async fn test(State(api): Shared, Segment(name): Segment) -> Result<Answer<TestView>, Problem> {
    let engine = api.engine.clone();
    let tested = api.to_its_end(async move { engine.connections().test_connection(&name).await }).await??;
    Ok(Answer::ok(TestView {
        works: tested.error.is_none(),
        action: tested.action,
        took_ms: tested.took_ms,
        error: tested.error.map(|error| serde_json::to_value(error).unwrap_or_default()),
    }))
}

/// Begin to ask a person for consent to a connection
#[utoipa::path(
    post, path = "/api/v1/connections/{name}/login", tag = "connectors",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "Where the person goes", body = StartedLogin)),
)]
pub(crate) async fn begin_login(
    State(api): Shared,
    Segment(name): Segment,
) -> Result<Answer<StartedLogin>, Problem> {
    Ok(Answer::ok(api.engine.connections().begin_login(&name).await?))
}

/// Time to wait.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct WaitQuery {
    /// Seconds to wait for the end, up to 30. Default: 0.
    #[param(maximum = 30)]
    wait: Option<u64>,
}

/// State of the last consent to a connection
#[utoipa::path(
    get, path = "/api/v1/connections/{name}/login", tag = "connectors",
    params(("name" = String, Path, description = "Its name"), WaitQuery),
    responses((status = 200, description = "How far it has come", body = LoginState)),
)]
pub(crate) async fn login_state(
    State(api): Shared,
    Segment(name): Segment,
    Query(query): Query<WaitQuery>,
) -> Result<Answer<LoginState>, Problem> {
    let wait = Duration::from_secs(query.wait.unwrap_or_default().min(LONGEST_WAIT));
    let state = api.engine.connections().login_state(&name, wait).await.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "no_login", format!("no login was started for `{name}`"))
    })?;
    Ok(Answer::ok(state))
}
