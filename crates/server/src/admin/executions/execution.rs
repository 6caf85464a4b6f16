//! Executions: the row of a list, one execution with its history, its log lines, cancellation.

use std::num::NonZeroUsize;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use model::automation::Automation;
use model::execution::{History, InvalidEvent};
use model::{Event, ExecutionId};
use runtime::{Pauses, StepAttempt};
use serde::{Deserialize, Serialize};
use store::{ExecutionFilter, ExecutionRow, Page, Wait};
use utoipa::{IntoParams, ToSchema};

use super::caller::CallerView;
use super::delays::{self, DelayView};
use super::history::{self, StepView};
use super::recorded::{Cuts, Recorded, on_thread};
use super::started::StartedView;
use super::turns::{self, TurnsView};
use super::{large, waiting};
use crate::admin::auth::credential::Credential;
use crate::admin::extract::{self, Answer, Body, Query, Segment, outside};
use crate::admin::{Api, Problem, Shared};

/// Executions on a page where no number is given.
pub(crate) const PAGE: u32 = 50;
/// Default and maximum number of log lines in one answer.
const LINES: u32 = 1000;
/// Maximum number of executions that are named where a text may mean several.
const CANDIDATES: u32 = 10;
/// Maximum number of characters of a reason.
const REASON: usize = 500;

/// An execution as lists show it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Execution)]
pub(crate) struct ExecutionView {
    id: String,
    automation: String,
    /// The hash of the definition that it runs on.
    definition: String,
    /// The id of the trigger that started it; absent for `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<String>,
    /// The kind of start.
    #[schema(value_type = model::Origin)]
    origin: serde_json::Value,
    status: model::Status,
    started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// From acceptance to the end, in milliseconds with a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<f64>,
    /// The error, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The number of stored events.
    events: u32,
    /// The reason why it waits, in lists only; absent if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pauses: Option<Pauses>,
    /// The attempt of the step that it failed at or retries, in lists with `attempts` only; absent if the step has no retry
    /// policy, or the execution more than 500 events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step_attempt: Option<StepAttempt>,
}

impl From<ExecutionRow> for ExecutionView {
    fn from(row: ExecutionRow) -> Self {
        Self {
            id: row.id.to_string(),
            automation: row.automation.to_string(),
            definition: row.definition.to_string(),
            trigger: (!row.trigger.is_main()).then(|| row.trigger.to_string()),
            origin: serde_json::to_value(&row.origin).unwrap_or_default(),
            status: row.status,
            started_at: row.started_at,
            finished_at: row.finished_at,
            took_ms: row
                .finished_at
                .map(|end| end.duration_since(row.started_at).as_micros() as f64 / 1000.0),
            error: row.error,
            events: row.events,
            pauses: None,
            step_attempt: None,
        }
    }
}

/// One execution whole.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionDetail {
    #[serde(flatten)]
    execution: ExecutionView,
    /// The try of the whole execution, from 1.
    attempt: u32,
    /// When the next try of the whole execution begins, while one is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Timestamp>,
    /// The payload that started it; headers that may hold a credential are masked.
    #[schema(value_type = model::Payload)]
    payload: serde_json::Value,
    /// Its steps in the order in which they started.
    steps: Vec<StepView>,
    /// The reason why it waits; absent if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::waiting::WaitingView>)]
    waiting: Option<serde_json::Value>,
    /// The loops of which `steps` has some turns only, with `large=cut`; the others are at `…/turns`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    turns: Vec<TurnsView>,
    /// The waits that have ended, in the order of their beginning. Those that no step asked for are recorded from 100 ms on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<DelayView>,
    /// The answer that the caller of a webhook got, or that it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<CallerView>,
    /// The status of the answer that the caller of a synchronous webhook got, if the execution did not decide it: 504 after
    /// a timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<u16>,
    /// Its end: `outcome` with `result`, `error` or `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::Outcome>)]
    outcome: Option<serde_json::Value>,
    /// The answer that a `respond` step decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::HttpResponse>)]
    response: Option<serde_json::Value>,
    /// The ids of its replays, newest first, at most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replays: Vec<String>,
    /// The executions that its events started; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<StartedView>,
    /// With `events`: the last of these events, as in `…/events`. `steps`, `waits`, `outcome` and the answers are those after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::follow::EventInfo>)]
    last_event: Option<serde_json::Value>,
}

impl Api {
    /// The replays of an execution, newest first.
    async fn replays(&self, of: ExecutionId) -> Result<Vec<String>, Problem> {
        let filter = ExecutionFilter { replay_of: Some(of), ..ExecutionFilter::default() };
        let rows = self.engine.store().executions(&filter, Page { before: None, limit: PAGE }).await?;
        Ok(rows.into_iter().map(|row| row.id.to_string()).collect())
    }

    /// The execution that a path names: by its id, or by a beginning that no other id has.
    pub(crate) async fn execution_id(&self, text: &str) -> Result<ExecutionId, Problem> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let rows = store::executions_by_prefix(&**self.engine.store(), text, CANDIDATES + 1).await?;
        match rows.as_slice() {
            [] => Err(Problem::not_found("unknown_execution", format!("there is no execution `{text}`"))),
            [one] => Ok(one.id),
            several => {
                let detail = format!("`{text}` is the beginning of several ids: {}", candidates(several));
                Err(Problem::new(StatusCode::CONFLICT, "ambiguous_id", detail))
            }
        }
    }
}

/// Some executions that a text may mean, in words.
fn candidates(rows: &[ExecutionRow]) -> String {
    let shown = rows.iter().take(CANDIDATES as usize).map(|row| format!("{} ({})", row.id, row.automation));
    let more = if rows.len() > CANDIDATES as usize { ", …" } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}

/// The form of an execution.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ShowQuery {
    /// `cut` replaces each value over 4 KiB by `{"$large": {at, bytes, type, start}}`, which `…/values?at=` reads, and leaves
    /// all but the first turns of a loop, and the first that did not succeed, to `…/turns`. Whole where it is not given.
    #[param(value_type = Option<String>, example = "cut")]
    large: Option<Large>,
    /// `all` gives all turns of all loops with `large=cut`, too.
    #[param(value_type = Option<String>, example = "all")]
    turns: Option<AllTurns>,
    /// Shows the execution after this number of its events.
    #[param(value_type = Option<usize>, minimum = 1)]
    events: Option<NonZeroUsize>,
}

/// The turns that are shown.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AllTurns {
    All,
}

/// The form of large values.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Large {
    Cut,
}

/// One execution with its payload, its steps and its end
#[utoipa::path(
    get, path = "/api/v1/executions/{id}", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), ShowQuery),
    responses((status = 200, description = "The execution", body = ExecutionDetail)),
)]
pub(crate) async fn show(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
    Query(query): Query<ShowQuery>,
) -> Result<Response, Problem> {
    let (mut detail, cuts) = api.detail(&id, &credential, query.events).await?;
    let is_cut = query.large.is_some();
    if is_cut {
        if query.turns.is_none() {
            detail.turns = turns::keep_some(&mut detail.steps);
        }
        detail.cut(&cuts);
    }
    if is_cut {
        let mut value = serde_json::to_value(detail).map_err(|error| Problem::internal(&error))?;
        large::sweep(&mut value, &cuts);
        return Ok(Answer::ok(value).into_response());
    }
    cuts.answer(detail).await
}

impl Api {
    /// One execution, as the holder of a credential may see it, with markers in place of its large values. `first` is the number of
    /// events after which it is shown; `None` for all.
    pub(crate) async fn detail(
        &self,
        id: &str,
        credential: &Credential,
        first: Option<NonZeroUsize>,
    ) -> Result<(ExecutionDetail, Cuts), Problem> {
        let Recorded { mut row, mut events, cuts } = self.recorded(id).await?;
        if let Some(first) = first {
            events.truncate(first.get());
        }
        let last_event = first.and_then(|_| events.last()).map(|event| {
            let mut shown = history::event(events.len().saturating_sub(1), event);
            large::cut(&mut shown, &format!("/events/{}", events.len().saturating_sub(1)), Some(&cuts));
            shown
        });
        row.status = self.engine.admission().shown_status(&row);
        let waiting = if row.status.is_terminal() { None } else { self.waiting(row.id, credential).await? };
        let automation = self.engine.records().automation_of(&row).await;
        let replays = self.replays(row.id).await?;
        let (store, admission) = (self.engine.store(), self.engine.admission());
        let started = StartedView::read(&**store, row.id, |row| admission.shown_status(row)).await?;
        on_thread(move || {
            let detail = detail(row, events, &cuts, waiting, automation.as_deref());
            let detail = detail.map_err(|error| Problem::internal(&error))?;
            Ok((ExecutionDetail { replays, started, last_event, ..detail }, cuts))
        })
        .await
    }
}

impl ExecutionDetail {
    /// Its steps.
    pub(crate) fn into_steps(self) -> Vec<StepView> {
        self.steps
    }

    /// Replaces large values.
    pub(crate) fn cut(&mut self, cuts: &Cuts) {
        let cuts = Some(cuts);
        large::cut(&mut self.payload, "/payload", cuts);
        self.steps.iter_mut().for_each(|step| step.cut(cuts));
        for (name, value) in [("outcome", &mut self.outcome), ("response", &mut self.response)] {
            value.iter_mut().for_each(|value| large::cut(value, &format!("/{name}"), cuts));
        }
        self.caller.iter_mut().for_each(|caller| caller.cut(cuts));
    }
}

/// One execution, from its events without large values.
pub(crate) fn detail(
    row: ExecutionRow,
    events: Vec<Event>,
    cuts: &Cuts,
    waiting: Option<serde_json::Value>,
    automation: Option<&Automation>,
) -> Result<ExecutionDetail, InvalidEvent> {
    let (history, start) = History::checked(&events)?;
    let caller = automation
        .and_then(|automation| ingress::caller(automation, row.id, &cuts.events_for_caller(&events)));
    Ok(ExecutionDetail {
        execution: row.into(),
        attempt: history.attempt,
        retry_at: history.retry_at,
        payload: history::masked(start.payload),
        steps: history::steps(&history, automation),
        turns: Vec::new(),
        waiting,
        waits: delays::waits(&history),
        caller: caller.map(CallerView::from),
        answered: history.answered,
        outcome: history.outcome.map(outside),
        response: history.response.map(outside),
        replays: Vec::new(),
        started: None,
        last_event: None,
    })
}

/// An execution in the form of the API's list, for whoever reads a store without a daemon; `pauses` is what it waits for,
/// `step_attempt` the attempt of the step that it failed at or retries.
#[must_use]
pub fn describe_row(
    row: ExecutionRow,
    pauses: Option<Pauses>,
    step_attempt: Option<StepAttempt>,
) -> serde_json::Value {
    serde_json::to_value(ExecutionView { pauses, step_attempt, ..row.into() }).unwrap_or_default()
}

/// An execution in the form of `GET /api/v1/executions/{id}`, with markers in place of its large values, which
/// [`Cuts::write`] writes; credentials masked, for whoever reads a store without
/// a daemon. `waits` are its open waits: of these neither the form nor the address is told, which only a daemon knows.
/// `automation` is what it runs on, where that is known: it names the actions of the steps.
///
/// # Errors
/// An event that cannot stand where it stands: the store is damaged.
pub fn describe(
    row: ExecutionRow,
    events: Vec<Event>,
    cuts: &Cuts,
    waits: &[Wait],
    automation: Option<&Automation>,
) -> Result<serde_json::Value, InvalidEvent> {
    let waiting = waiting::stored(&History::new(&events), waits);
    let detail = detail(row, events, cuts, waiting, automation);
    detail.map(|detail| serde_json::to_value(detail).unwrap_or_default())
}

/// Filter and page of the log lines.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct LogQuery {
    /// From the line with this index on, counted from 0.
    after: Option<u32>,
    /// Maximum number: 1 to 1000. Default: 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Log lines of an execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Logs {
    /// In order.
    #[schema(value_type = Vec<model::LogLine>)]
    logs: Vec<model::LogLine>,
    /// The `after` of the lines that follow; absent where these are the last ones so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
}

/// Log lines of an execution, in order
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/logs", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), LogQuery),
    responses((status = 200, description = "The lines", body = Logs)),
)]
pub(crate) async fn logs(
    State(api): Shared,
    Segment(id): Segment,
    Query(query): Query<LogQuery>,
) -> Result<Answer<Logs>, Problem> {
    let (after, limit) = (query.after.unwrap_or(0), extract::limit(query.limit, LINES, LINES)?);
    let execution = api.execution_id(&id).await?;
    let store = api.engine.store();
    if store.execution(execution).await?.is_none() {
        return Err(runtime::Error::NoSuchExecution(execution).into());
    }
    let mut logs = store.logs(execution, after, limit + 1).await?;
    let more = logs.len() > limit as usize;
    logs.truncate(limit as usize);
    Ok(Answer::ok(Logs { logs, next: more.then(|| after.saturating_add(limit)) }))
}

/// Reason for the end of an execution.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// In words, at most 500 characters.
    reason: Option<String>,
}

/// The result of a cancellation
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cancelled {
    /// False where it had come to its end before.
    cancelled: bool,
}

/// End an execution
#[utoipa::path(
    post, path = "/api/v1/executions/{id}/cancel", tag = "executions", request_body = Option<CancelBody>,
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has")),
    responses((status = 200, description = "Whether it was ended by this", body = Cancelled)),
)]
pub(crate) async fn cancel(
    State(api): Shared,
    Segment(id): Segment,
    body: Option<Body<CancelBody>>,
) -> Result<Answer<Cancelled>, Problem> {
    let reason =
        body.and_then(|body| body.0.reason).unwrap_or_else(|| "cancelled through the API".to_owned());
    let reason = text::truncate(&reason, REASON).into_owned();
    let (engine, execution) = (api.engine.clone(), api.execution_id(&id).await?);
    let cancelled =
        api.to_its_end(async move { engine.admission().cancel(execution, &reason).await }).await??;
    Ok(Answer::ok(Cancelled { cancelled }))
}
