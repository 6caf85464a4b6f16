//! The connections: how they are doing, whether they work, and who is asked for consent. Never a value of one.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use jiff::Timestamp;
use runtime::{ConnectionReport, LoginState, StartedLogin};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::extract::{Answer, Query, Segment};
use crate::admin::{Problem, Shared};

/// The longest that a request waits for the end of a consent.
const LONGEST_WAIT: u64 = 30;

/// A connection: what it is and how it is doing, never what it holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Connection)]
pub(crate) struct ConnectionView {
    name: String,
    /// The type, such as `wiki.basic`.
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The file, relative to the project folder.
    path: String,
    /// The diagnostics of the file as it is now; the version in force is the last that loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_error: Option<String>,
    /// The secrets that it reads and that are not set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_secrets: Vec<String>,
    /// The ids of the automations whose steps name it.
    used_by: Vec<String>,
    state: runtime::ConnectionState,
    /// Calls that went well since the daemon started.
    succeeded: u64,
    /// Calls that failed for the connection's own sake, or the other side's.
    failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure_at: Option<Timestamp>,
    /// Error of the last call; absent after a successful one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// When its access token ends, for one with tokens. Another one is asked for before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// The address of the site that its calls go to, where several are behind a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<String>,
    /// The hosts that were called with it, as `GET /api/v1/hosts` has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<connector::HostHealth>,
}

impl From<ConnectionReport> for ConnectionView {
    fn from(report: ConnectionReport) -> Self {
        Self {
            name: report.name,
            kind: report.kind,
            description: report.description,
            path: report.path,
            file_error: report.file_error,
            missing_secrets: report.missing_secrets,
            used_by: report.used_by,
            state: report.state,
            succeeded: report.health.succeeded,
            failed: report.health.failed,
            last_success_at: report.health.last_success_at,
            last_failure_at: report.health.last_failure_at,
            last_error: report.health.last_error,
            expires_at: report.expires_at,
            site: report.site.map(|site| site.url),
            hosts: report.hosts,
        }
    }
}

/// The connections.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connections {
    connections: Vec<ConnectionView>,
}

/// The connections, and how they are doing
#[utoipa::path(
    get, path = "/api/v1/connections", tag = "connectors",
    responses((status = 200, description = "By name, without any value", body = Connections)),
)]
pub(crate) async fn list(State(api): Shared) -> Answer<Connections> {
    Answer::ok(Connections {
        connections: api.engine.connections().reports().into_iter().map(Into::into).collect(),
    })
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

/// A consent that is asked for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginView {
    /// The address to open in a browser.
    url: String,
    /// Where the provider sends people back to; its set-up has to name it exactly.
    redirect_url: String,
    /// When it is too late.
    expires_at: Timestamp,
}

impl From<StartedLogin> for LoginView {
    fn from(begun: StartedLogin) -> Self {
        Self { url: begun.url, redirect_url: begun.redirect_url, expires_at: begun.expires_at }
    }
}

/// Begin to ask a person for consent to a connection
#[utoipa::path(
    post, path = "/api/v1/connections/{name}/login", tag = "connectors",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "Where the person goes", body = LoginView)),
)]
pub(crate) async fn begin_login(
    State(api): Shared,
    Segment(name): Segment,
) -> Result<Answer<LoginView>, Problem> {
    Ok(Answer::ok(api.engine.connections().begin_login(&name)?.into()))
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
