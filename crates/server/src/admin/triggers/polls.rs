//! The polls of automations: their progress, and operations on them.

use axum::extract::State;
use catalog::Mount;
use http::StatusCode;
use ingress::{ForwardError, PollError};
use jiff::Timestamp;
use model::AutomationId;
use model::automation::{Trigger, TriggerKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use value::Value;

use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Api, Problem, Shared};

/// Number of latest polls that are shown.
const LATEST: u32 = 100;

/// Where the poll of an automation stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Poll)]
pub(crate) struct PollView {
    automation: String,
    /// Interval, such as `5m`.
    every: String,
    /// True while a request is under way.
    busy: bool,
    /// The time of the next poll.
    next_at: Timestamp,
    /// When it last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    polled_at: Option<Timestamp>,
    /// When it last found something new.
    #[serde(skip_serializing_if = "Option::is_none")]
    found_at: Option<Timestamp>,
    /// Error of the last poll, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Number of consecutive failures.
    failures: u32,
    /// The cursor of the next poll: for an event an instant, else the value of the trigger's `cursor`.
    #[schema(value_type = value::Json)]
    cursor: serde_json::Value,
    /// Number of polls.
    polls: u64,
    /// Number of new items that they found.
    found: u64,
}

/// The polls in force.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Polls {
    /// By automation.
    polls: Vec<PollView>,
}

/// The result of one poll.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PollEntry)]
pub(crate) struct EntryView {
    /// When.
    at: Timestamp,
    /// Number of items that were read.
    items: u64,
    /// Number of new items.
    found: u64,
    /// Its error, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A poll with what came of the latest ones.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PollDetail {
    #[serde(flatten)]
    poll: PollView,
    /// Newest first, at most 100.
    latest: Vec<EntryView>,
}

/// The cursor from which a poll continues.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RewindBody {
    /// For an event an instant, else a value as the trigger's `cursor` gives it.
    #[schema(value_type = value::Json)]
    cursor: serde_json::Value,
}

impl From<ingress::PollView> for PollView {
    fn from(view: ingress::PollView) -> Self {
        let poll_state = view.poll_state;
        Self {
            automation: view.trigger.name(),
            every: view.every,
            busy: view.busy,
            next_at: poll_state.next_at,
            polled_at: poll_state.polled_at,
            found_at: poll_state.found_at,
            error: poll_state.error,
            failures: poll_state.failures,
            cursor: poll_state.cursor.to_serde(),
            polls: poll_state.polls,
            found: poll_state.found,
        }
    }
}

impl From<store::PollEntry> for EntryView {
    fn from(entry: store::PollEntry) -> Self {
        Self { at: entry.at, items: entry.items, found: entry.found, error: entry.error }
    }
}

impl From<ForwardError> for Problem {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Closing => Self::from(runtime::Error::Closing),
            ForwardError::Store(error) => Self::from(error),
            ForwardError::Unanswered(_) | ForwardError::Unreadable(_) => Self {
                retry_after: Some(5),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unanswered", error.to_string())
            },
        }
    }
}

impl From<PollError> for Problem {
    fn from(error: PollError) -> Self {
        match error {
            PollError::NoPoll(_) => Self::new(StatusCode::CONFLICT, "no_poll", error.to_string()),
            PollError::Forward(error) => Self::from(error),
            PollError::Closing => Self::from(runtime::Error::Closing),
            PollError::Store(error) => Self::from(error),
        }
    }
}

impl Api {
    async fn poll(&self, trigger: &TriggerKey) -> Result<PollView, Problem> {
        let polls = self.engine.ingress().polls_of_all_nodes().await?;
        let found = polls.into_iter().find(|view| view.trigger == *trigger);
        Ok(found.ok_or_else(|| PollError::NoPoll(trigger.clone()))?.into())
    }

    pub(crate) fn id_of(&self, name: &str) -> Result<AutomationId, Problem> {
        Ok(self.engine.catalog().find(name)?.automation.id.clone())
    }

    /// Returns the trigger that a route means: `ID/TRIGGER`, or `ID` for the only one that `suits`.
    pub(crate) fn mount_of(&self, name: &str, suits: impl Fn(&Mount) -> bool) -> Result<Mount, Problem> {
        Ok(self.engine.catalog().find_trigger(name, suits)?)
    }

    /// Returns the key of the trigger that a route means and that takes payloads.
    pub(crate) fn key_of(&self, name: &str) -> Result<TriggerKey, Problem> {
        let takes_requests = |mount: &Mount| matches!(mount.on(), Trigger::Webhook(_) | Trigger::Event(_));
        Ok(self.mount_of(name, takes_requests)?.key())
    }

    fn poll_of(&self, name: &str) -> Result<TriggerKey, Problem> {
        let polls: Vec<TriggerKey> =
            self.engine.ingress().polls().into_iter().map(|poll| poll.trigger).collect();
        Ok(self.mount_of(name, |mount| polls.contains(&mount.key()))?.key())
    }
}

/// The polls in force
#[utoipa::path(
    get, path = "/api/v1/polls", tag = "automations",
    responses((status = 200, description = "By automation", body = Polls)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Polls>, Problem> {
    let polls = api.engine.ingress().polls_of_all_nodes().await?;
    Ok(Answer::ok(Polls { polls: polls.into_iter().map(Into::into).collect() }))
}

/// One poll with what came of the latest ones
#[utoipa::path(
    get, path = "/api/v1/polls/{automation}", tag = "automations",
    params(("automation" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "The poll", body = PollDetail)),
)]
pub(crate) async fn show(State(api): Shared, Segment(name): Segment) -> Result<Answer<PollDetail>, Problem> {
    let automation = api.poll_of(&name)?;
    let poll = api.poll(&automation).await?;
    let latest = api.engine.store().poll_entries(&automation, LATEST).await?;
    Ok(Answer::ok(PollDetail { poll, latest: latest.into_iter().map(Into::into).collect() }))
}

/// Poll now, whenever the next poll is due
#[utoipa::path(
    post, path = "/api/v1/polls/{automation}/now", tag = "automations",
    params(("automation" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "The result", body = EntryView)),
)]
pub(crate) async fn now(State(api): Shared, Segment(name): Segment) -> Result<Answer<EntryView>, Problem> {
    let (automation, engine) = (api.poll_of(&name)?, api.engine.clone());
    let entry = api.to_its_end(async move { engine.ingress().poll_now(&automation).await }).await??;
    Ok(Answer::ok(entry.into()))
}

/// Forget where a poll stands: the next one, made at once, is the first
#[utoipa::path(
    post, path = "/api/v1/polls/{automation}/reset", tag = "automations",
    params(("automation" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "Where it stands now", body = PollView)),
)]
pub(crate) async fn reset(State(api): Shared, Segment(name): Segment) -> Result<Answer<PollView>, Problem> {
    let automation = api.poll_of(&name)?;
    let (engine, id) = (api.engine.clone(), automation.clone());
    api.to_its_end(async move { engine.ingress().reset_poll(&id).await }).await??;
    Ok(Answer::ok(api.poll(&automation).await?))
}

/// Continue a poll from a cursor, and forget the items that it has seen
#[utoipa::path(
    post, path = "/api/v1/polls/{automation}/rewind", tag = "automations", request_body = RewindBody,
    params(("automation" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "Where it stands now", body = PollView)),
)]
pub(crate) async fn rewind(
    State(api): Shared,
    Segment(name): Segment,
    Body(RewindBody { cursor }): Body<RewindBody>,
) -> Result<Answer<PollView>, Problem> {
    let automation = api.poll_of(&name)?;
    let (engine, id, cursor) = (api.engine.clone(), automation.clone(), Value::from_serde(cursor));
    api.to_its_end(async move { engine.ingress().rewind_poll(&id, cursor).await }).await??;
    Ok(Answer::ok(api.poll(&automation).await?))
}
