//! Waiting executions, and the answers and events sent to them.

use axum::extract::State;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use model::execution::{History, WaitReason};
use runtime::{Answer as Answered, AnsweredQuestion, QueueStatus, SentEvent, SignalError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Wait;
use utoipa::ToSchema;
use value::{Map, Value};

use crate::admin::auth::credential::Credential;
use crate::admin::auth::scope::Scope;
use crate::admin::extract::{Answer, Body, Segment, optional_header};
use crate::admin::{Api, Problem, Shared};

/// The default sender of a signal, for the history.
const BY: &str = "the API";
/// Maximum number of characters of a sender.
const BY_CHARS: usize = 200;
/// The header with the id of an event.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Maximum number of bytes of an event's name, as a step takes it, and of its id.
const NAME_BYTES: usize = 200;

/// The reasons why an execution waits.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waiting)]
pub(crate) struct WaitingView {
    #[serde(flatten)]
    status: QueueStatus,
    /// The address at which a person or another system answers, if a step waits for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_url: Option<String>,
}

impl Api {
    /// The reasons why an execution waits; `None` if it does not wait. The resume address lets everyone answer who knows it, so a
    /// credential without `run` does not get it.
    pub(crate) async fn waiting(
        &self,
        id: model::ExecutionId,
        credential: &Credential,
    ) -> Result<Option<serde_json::Value>, Problem> {
        let queue_status = self.engine.admission().queue_status(id).await?;
        if queue_status.pauses.is_empty()
            && queue_status.turn.is_none()
            && queue_status.queued_behind.is_none()
            && !queue_status.for_store
        {
            return Ok(None);
        }
        let is_answered = credential.scopes.allow(Scope::Run) && is_answered_from_outside(&queue_status);
        let resume_url = is_answered.then(|| self.engine.context().resume_url(id));
        let told = serde_json::to_value(WaitingView { status: queue_status, resume_url });
        told.map(Some).map_err(|error| Problem::internal(&error))
    }
}

fn is_answered_from_outside(queue_status: &QueueStatus) -> bool {
    let outside =
        |reason: &WaitReason| matches!(reason, WaitReason::Event { .. } | WaitReason::Approval { .. });
    queue_status.pauses.iter().any(|pending| outside(&pending.on))
}

/// The reasons why an execution waits, from the store alone. Without a daemon there is no resume address.
pub(crate) fn stored(history: &History<'_>, waits: &[Wait]) -> Option<serde_json::Value> {
    let begun = |step: &str| {
        let step = step.trim_end_matches(Wait::OPERATION);
        let (_, on, wait) = history.step_waits().filter(|(waiting, ..)| *waiting == step).last()?;
        Some(pause(step, wait.from, wait.until, on))
    };
    let pauses: Vec<_> = waits.iter().filter_map(|wait| begun(&wait.step)).collect();
    (!pauses.is_empty()).then(|| json!({ "pauses": pauses }))
}

fn pause(step: &str, since: Timestamp, until: Option<Timestamp>, on: &WaitReason) -> serde_json::Value {
    let mut told = json!({ "step": step, "since": since, "on": on });
    if let Some(until) = until {
        told["until"] = json!(until);
    }
    told
}

/// A signal to an execution: the data of an event, or an answer to an approval.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SignalBody {
    /// The step; required if several wait.
    step: Option<String>,
    /// The data of the event; null if absent.
    #[schema(value_type = Option<value::Json>)]
    data: Option<serde_json::Value>,
    /// The chosen option of an approval.
    option: Option<String>,
    /// The values of the approval's form.
    #[schema(value_type = Option<HashMap<String, value::Json>>)]
    form: Option<serde_json::Map<String, serde_json::Value>>,
    /// The sender, as text for the history, at most 200 characters.
    by: Option<String>,
}

/// The effect of a signal.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Signalled {
    /// `answered` or `delivered`. It is durable; whether an event is one that the step waits for is the step's to say.
    status: &'static str,
}

/// Answer a question of an execution, or send it the event that it waits for
#[utoipa::path(
    post, path = "/api/v1/executions/{id}/signal", tag = "executions", request_body = SignalBody,
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has")),
    responses((status = 200, description = "It was taken", body = Signalled)),
)]
pub(crate) async fn signal(
    State(api): Shared,
    Segment(id): Segment,
    body: Option<Body<SignalBody>>,
) -> Result<Answer<Signalled>, Problem> {
    let id = api.execution_id(&id).await?;
    let SignalBody { step, data, option, form, by } = body.map(|body| body.0).unwrap_or_default();
    let bad = |detail: &str| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail);
    let by = Some(text::truncate(&by.unwrap_or_else(|| BY.to_owned()), BY_CHARS).into_owned());
    let engine = api.engine.clone();
    let step = step.as_deref();
    let status = match (option, data) {
        (Some(_), Some(_)) => {
            return Err(bad("give `data` of an event, or an `option` to answer with, not both"));
        }
        (Some(option), None) => {
            let form = form.unwrap_or_default().into_iter();
            let form: Map = form.map(|(name, value)| (name, Value::from_serde(value))).collect();
            engine.admission().answer(id, step, Answered { option, form, by }).await.map(|()| "answered")
        }
        (None, _) if form.is_some() => {
            return Err(bad("`form` belongs to an answer; say which with `option`"));
        }
        (None, data) => {
            let data = data.map(Value::from_serde).unwrap_or_default();
            engine.admission().signal(id, step, data, by).await.map(|()| "delivered")
        }
    };
    Ok(Answer::ok(Signalled { status: status? }))
}

/// Questions that people answered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnsweredQuestions {
    /// Newest first, at most 100 since the daemon started.
    answers: Vec<AnsweredQuestion>,
}

/// The latest answers of people to questions of executions
#[utoipa::path(
    get, path = "/api/v1/answers", tag = "executions",
    responses((status = 200, description = "Answers that this daemon took, newest first", body = AnsweredQuestions)),
)]
pub(crate) async fn answers(State(api): Shared) -> Answer<AnsweredQuestions> {
    Answer::ok(AnsweredQuestions { answers: api.engine.admission().answers.latest() })
}

/// An event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EmitBody {
    /// Its name, as the `waitFor` steps have it.
    #[schema(example = "order-17-paid")]
    name: String,
    /// The data of the event, which becomes the result of those steps; null if absent.
    #[schema(value_type = Option<value::Json>)]
    data: Option<serde_json::Value>,
    /// The sender, as text for the history, at most 200 characters.
    by: Option<String>,
    /// Its id, at most 200 bytes: events with the same id start a trigger once. Without it the header `Idempotency-Key` counts, or else a
    /// new id.
    id: Option<String>,
}

/// To whom an event was sent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Emitted {
    /// Number of steps that waited for it.
    delivered: u64,
    /// True if it is kept for executions that were accepted before and wait for it later. An event is not kept if no automation in force
    /// waits for its name, if it has 1 MiB or more, or if too many events are kept.
    kept: bool,
    /// Its id.
    id: String,
    /// The triggers that it starts: `orders`, `orders/paid`. It is stored until each of them has started or declined it.
    starts: Vec<String>,
    /// True if an event with this name and id, which starts triggers, was sent before: nothing was sent now.
    repeated: bool,
}

/// Send an event to the executions that wait for it, and to the triggers that it starts
#[utoipa::path(
    post, path = "/api/v1/events", tag = "executions", request_body = EmitBody,
    params(("idempotency-key" = Option<String>, Header, description = "The id of the event, if the body has none")),
    responses((status = 200, description = "How many waited for it, and what it starts", body = Emitted)),
)]
pub(crate) async fn emit(
    State(api): Shared,
    headers: HeaderMap,
    Body(EmitBody { name, data, by, id }): Body<EmitBody>,
) -> Result<Answer<Emitted>, Problem> {
    if name.is_empty() || name.len() > NAME_BYTES {
        let detail = format!("the name of an event has from 1 to {NAME_BYTES} bytes");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_event", detail));
    }
    let id = match id {
        Some(id) => Some(id),
        None => optional_header(&headers, IDEMPOTENCY_KEY)?.map(str::to_owned),
    };
    if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > NAME_BYTES) {
        let detail = format!("the id of an event has from 1 to {NAME_BYTES} bytes");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_event", detail));
    }
    let by = text::truncate(&by.unwrap_or_else(|| BY.to_owned()), BY_CHARS).into_owned();
    let (engine, data) = (api.engine.clone(), data.map(Value::from_serde).unwrap_or_default());
    // A caller that disconnects must not leave some of the waiting executions without the event.
    let sent = async move { engine.admission().emit_as(id, &name, data, Some(by)).await };
    let SentEvent { delivered, kept, id, starts, repeated } = api.to_its_end(sent).await??;
    Ok(Answer::ok(Emitted { delivered, kept, id, starts, repeated }))
}

impl From<SignalError> for Problem {
    fn from(error: SignalError) -> Self {
        let detail = error.to_string();
        match error {
            SignalError::NotWaiting => Self::new(StatusCode::CONFLICT, "not_waiting", detail),
            SignalError::Several(_) => Self::new(StatusCode::CONFLICT, "several_waiting", detail),
            SignalError::Answer(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_answer", detail),
            SignalError::TooMany => Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_events", detail),
            SignalError::Engine(error) => error.into(),
        }
    }
}
