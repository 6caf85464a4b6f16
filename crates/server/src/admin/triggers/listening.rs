//! Listening at test addresses.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use ingress::{Capture, ListenError, ListenView, MAX_CAPTURES, MAX_LISTEN_TIME, NonTrigger};
use jiff::Timestamp;
use model::HttpResponse;
use model::automation::TriggerKey;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use value::{File, Value};

use super::subscriptions::SubscriptionView;
use crate::admin::auth::credential::Credential;
use crate::admin::auth::scope::Scope;
use crate::admin::extract::{Answer, Body, Query, Segment, outside};
use crate::admin::{Api, Problem, Shared};

/// The longest that a request for captures waits for one.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// The largest body of a capture that is listed with its results, in bytes.
const RESULTS_BYTES: usize = 256 << 10;

/// State of the listening at a test address.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listening {
    automation: String,
    /// The address at which it is listened.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
    /// The subscription for it, where the trigger is an event that another application tells of.
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription: Option<SubscriptionView>,
    /// True while it accepts requests.
    listening: bool,
    since: Timestamp,
    /// When it ends at the latest.
    until: Timestamp,
    /// Number of requests that are still to be captured.
    left: u32,
    /// The captured requests, oldest first.
    captures: Vec<CaptureView>,
}

/// A request captured during a listening session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Capture)]
pub(crate) struct CaptureView {
    /// Its number within the listening, from 1.
    number: u32,
    at: Timestamp,
    /// The kind of a request that could not have started an execution: `challenge`, `probe`, `ignored` (about another
    /// event).
    #[serde(skip_serializing_if = "Option::is_none")]
    aside: Option<&'static str>,
    /// `accepted`: it would have started an execution; `filtered`: `if` is false; `declined`: the trigger's code decided
    /// that no step runs; `refused`; `nonTrigger`: see `aside`.
    verdict: ingress::Verdict,
    /// The code of the reason for which it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// That reason in words. The sender does not get all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The size of its body.
    bytes: u64,
    /// The response that the sender got.
    answer: AnswerView,
    /// `trigger.results` as steps would read them; absent if the body cannot be read, or has more than 256 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    results: Option<serde_json::Value>,
    /// As it came, without headers that may hold a credential.
    #[schema(value_type = crate::admin::triggers::saved_payloads::StoredPayload)]
    payload: serde_json::Value,
}

/// The response that the sender of a request got.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CaptureAnswer)]
pub(crate) struct AnswerView {
    status: u16,
    /// Each with its name and its value, in order. Credentials are `***`.
    headers: Vec<(String, String)>,
    /// The body as a file: `contentType`, `size`, `encoding`, `data`.
    #[schema(value_type = value::Json)]
    body: serde_json::Value,
}

impl From<&HttpResponse> for AnswerView {
    fn from(answer: &HttpResponse) -> Self {
        let content_type = answer.header("content-type").unwrap_or_default().into();
        let body = File { content_type, filename: None, data: answer.body.clone() };
        Self {
            status: answer.status,
            headers: answer
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            body: outside(&Value::from(body)),
        }
    }
}

impl From<Capture> for CaptureView {
    fn from(capture: Capture) -> Self {
        let bytes = capture.bytes;
        let results = match &capture.results {
            Some(decided) => Some(decided.to_serde()),
            None if bytes > RESULTS_BYTES => None,
            None => trigger::results(&capture.payload).ok().map(|results| results.to_serde()),
        };
        Self {
            number: capture.number,
            at: capture.at,
            aside: capture.aside.map(NonTrigger::word),
            verdict: capture.verdict,
            refused: capture.refused.map(std::borrow::Cow::into_owned),
            reason: capture.reason.as_deref().map(str::to_owned),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            answer: AnswerView::from(&*capture.answer),
            results,
            payload: serde_json::to_value(&*capture.payload).unwrap_or_default(),
        }
    }
}

/// Duration and number of requests.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListenBody {
    /// Maximum duration, up to `10m`. Default: `10m`.
    #[schema(example = "10m")]
    timeout: Option<String>,
    /// Maximum number of requests, up to 100. Default: 100.
    count: Option<u32>,
}

/// Page of the captures.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct CapturesQuery {
    /// Captures after the one with this number.
    #[serde(default)]
    #[param(required = false)]
    after: u32,
    /// True to wait for one, for at most 20 seconds.
    #[serde(default)]
    #[param(required = false)]
    wait: bool,
}

impl From<ListenError> for Problem {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::NotListening(_) => {
                Self::new(StatusCode::CONFLICT, "not_listening", error.to_string())
            }
            ListenError::Store(error) => Self::from(error),
        }
    }
}

impl Api {
    async fn listening(&self, view: ListenView, credential: &Credential) -> Result<Listening, Problem> {
        let subscriptions = self.engine.ingress().subscriptions_of_all_nodes().await?;
        let catalog = self.engine.catalog();
        let mount = catalog.trigger(&view.trigger);
        let for_it = subscriptions.into_iter().filter(|one| one.test && one.trigger == view.trigger);
        let test_url = mount.and_then(|mount| mount.test_url(&self.public_url()));
        Ok(Listening {
            automation: view.trigger.name(),
            test_url: test_url.filter(|_| credential.scopes.allow(Scope::Run)),
            subscription: for_it.max_by_key(|one| !one.removing).map(Into::into),
            listening: view.listening,
            since: view.since,
            until: view.until,
            left: view.left,
            captures: view.captures.into_iter().map(Into::into).collect(),
        })
    }

    /// The session of an automation with its captures after a number.
    pub(crate) async fn captured(
        &self,
        automation: &TriggerKey,
        after: u32,
        wait: Duration,
    ) -> Result<ListenView, Problem> {
        Ok(self.engine.ingress().captures(automation, after, wait).await?)
    }
}

/// Listen at the test address: what comes is captured and starts nothing
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/listen", tag = "automations", request_body = Option<ListenBody>,
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "It listens", body = Listening)),
)]
pub(crate) async fn listen(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
    body: Option<Body<ListenBody>>,
) -> Result<Answer<Listening>, Problem> {
    let automation = api.key_of(&id)?;
    let ListenBody { timeout, count } = body.map(|body| body.0).unwrap_or_default();
    let time = timeout.map(|text| text::units::parse_duration(&text)).transpose().map_err(|error| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", format!("`timeout`: {error}"))
    })?;
    let time = time.unwrap_or(MAX_LISTEN_TIME);
    let view = api.engine.ingress().listen(&automation, time, count.unwrap_or(MAX_CAPTURES)).await?;
    Ok(Answer::ok(api.listening(view, &credential).await?))
}

/// Captured requests, at once or as they come
#[utoipa::path(
    get, path = "/api/v1/automations/{id}/listen", tag = "automations",
    params(("id" = String, Path, description = "The automation's id"), CapturesQuery),
    responses((status = 200, description = "How it stands, with the captures", body = Listening)),
)]
pub(crate) async fn captures(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
    Query(query): Query<CapturesQuery>,
) -> Result<Answer<Listening>, Problem> {
    let automation = api.key_of(&id)?;
    let wait = if query.wait { LONGEST_WAIT } else { Duration::ZERO };
    let view = api.captured(&automation, query.after, wait).await?;
    Ok(Answer::ok(api.listening(view, &credential).await?))
}

/// Listen no longer
#[utoipa::path(
    delete, path = "/api/v1/automations/{id}/listen", tag = "automations",
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "It does not listen any more", body = Listening)),
)]
pub(crate) async fn stop(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
) -> Result<Answer<Listening>, Problem> {
    let automation = api.key_of(&id)?;
    // Checked first: without a session nothing changes.
    api.captured(&automation, u32::MAX, Duration::ZERO).await?;
    api.engine.ingress().stop_listening(&automation).await?;
    let view = api.captured(&automation, u32::MAX, Duration::ZERO).await?;
    Ok(Answer::ok(api.listening(view, &credential).await?))
}
