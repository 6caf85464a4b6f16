//! The consumers of brokers, and the messages that started nothing.

use axum::extract::State;
use http::StatusCode;
use ingress::{MessageError, PoisonedMessage, SourceState};
use jiff::Timestamp;
use model::AutomationId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Segments};
use crate::admin::{Api, Problem, Shared};

/// A consumer of a trigger on messages of a broker.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Source)]
pub(crate) struct SourceView {
    /// The automation, with the id of the trigger if it has several.
    automation: String,
    /// The number of the consumer, from 0.
    consumer: u32,
    state: SourceState,
    /// When it got into this state.
    since: Timestamp,
    /// The last error, or the reason why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Number of consecutive failures.
    failures: u32,
    /// Number of messages that wait at the broker, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    /// Number of messages that started an execution since the consumer began.
    accepted: u64,
    /// Number of messages that came again and had started one.
    repeated: u64,
    /// Number of messages that went to the message list.
    poisoned: u64,
    /// Number of messages without an identity: each starts an execution whenever it comes.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    unidentified: u64,
    /// When the last message came.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_at: Option<Timestamp>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The consumers in force.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sources {
    /// By automation.
    sources: Vec<SourceView>,
}

/// The messages that started nothing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Messages {
    /// The newest first.
    messages: Vec<PoisonedMessage>,
}

/// A message that started nothing, with its content.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDetail {
    #[serde(flatten)]
    message: PoisonedMessage,
    /// Its `body` (base64), `headers`, `properties`, and the time `at` which the broker got it.
    #[schema(value_type = value::Json)]
    content: serde_json::Value,
}

/// The result of a deletion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedMessage {
    /// True.
    dropped: bool,
}

impl From<ingress::SourceView> for SourceView {
    fn from(view: ingress::SourceView) -> Self {
        Self {
            automation: view.trigger.name(),
            consumer: view.consumer,
            state: view.state,
            since: view.since,
            error: view.error,
            failures: view.failures,
            lag: view.lag,
            accepted: view.accepted,
            repeated: view.repeated,
            poisoned: view.poisoned,
            unidentified: view.unidentified,
            last_at: view.last_at,
        }
    }
}

impl From<MessageError> for Problem {
    fn from(error: MessageError) -> Self {
        let detail = error.to_string();
        match error {
            MessageError::NotFound(_) => Self::not_found("unknown_message", detail),
            MessageError::Cut(_) => Self::new(StatusCode::CONFLICT, "message_cut", detail),
            MessageError::NoTrigger(_) => Self::new(StatusCode::CONFLICT, "no_trigger", detail),
            MessageError::Fails(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "message_fails", detail),
            MessageError::Engine(error) => Self::from(error),
            MessageError::Store(error) => Self::from(error),
        }
    }
}

impl Api {
    /// Messages of a deleted automation stay in the list, so its id need not be that of an automation in force.
    fn owner_of(&self, name: &str) -> Result<AutomationId, Problem> {
        let known = self.id_of(name);
        known.or_else(|problem| AutomationId::parse(name).ok_or(problem))
    }
}

/// The consumers of brokers
#[utoipa::path(
    get, path = "/api/v1/sources", tag = "automations",
    responses((status = 200, description = "By automation", body = Sources)),
)]
pub(crate) async fn sources(State(api): Shared) -> Result<Answer<Sources>, Problem> {
    let sources = api.engine.ingress().sources_of_all_nodes().await;
    Ok(Answer::ok(Sources { sources: sources.into_iter().map(Into::into).collect() }))
}

/// The messages of brokers that started nothing
#[utoipa::path(
    get, path = "/api/v1/messages", tag = "automations",
    responses((status = 200, description = "The newest first", body = Messages)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Messages>, Problem> {
    Ok(Answer::ok(Messages { messages: api.engine.ingress().messages().await? }))
}

/// A message that started nothing, with its content
#[utoipa::path(
    get, path = "/api/v1/messages/{automation}/{message}", tag = "automations",
    params(
        ("automation" = String, Path, description = "The automation's id"),
        ("message" = String, Path, description = "The message's id in the list"),
    ),
    responses((status = 200, description = "The message", body = MessageDetail)),
)]
pub(crate) async fn show(
    State(api): Shared,
    Segments(automation, id): Segments,
) -> Result<Answer<MessageDetail>, Problem> {
    let (message, content) = api.engine.ingress().message(&api.owner_of(&automation)?, &id).await?;
    Ok(Answer::ok(MessageDetail { message, content: content.to_serde() }))
}

/// Start an execution with a message of the list, and remove it from there
#[utoipa::path(
    post, path = "/api/v1/messages/{automation}/{message}/retry", tag = "automations",
    params(
        ("automation" = String, Path, description = "The automation's id"),
        ("message" = String, Path, description = "The message's id in the list"),
    ),
    responses(
        (status = 200, description = "The message, which is no longer in the list", body = PoisonedMessage),
        (status = 422, description = "It still starts nothing, and stays in the list", body = Problem),
    ),
)]
pub(crate) async fn retry(
    State(api): Shared,
    Segments(automation, id): Segments,
) -> Result<Answer<PoisonedMessage>, Problem> {
    let (owner, engine) = (api.owner_of(&automation)?, api.engine.clone());
    let retried = api.to_its_end(async move { engine.ingress().retry_message(&owner, &id).await }).await??;
    Ok(Answer::ok(retried))
}

/// Remove a message from the list
#[utoipa::path(
    delete, path = "/api/v1/messages/{automation}/{message}", tag = "automations",
    params(
        ("automation" = String, Path, description = "The automation's id"),
        ("message" = String, Path, description = "The message's id in the list"),
    ),
    responses((status = 200, description = "It is gone", body = RemovedMessage)),
)]
pub(crate) async fn drop_one(
    State(api): Shared,
    Segments(automation, id): Segments,
) -> Result<Answer<RemovedMessage>, Problem> {
    api.engine.ingress().drop_message(&api.owner_of(&automation)?, &id).await?;
    Ok(Answer::ok(RemovedMessage { dropped: true }))
}
