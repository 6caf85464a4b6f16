//! Executions: pages of a list, one execution with its history, its log lines, cancellation.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::{Pauses, Search};
use http::StatusCode;
use jiff::Timestamp;
use model::automation::Automation;
use model::execution::InvalidEvent;
use model::{AutomationId, Event, Execution, ExecutionId, Status};
use serde::{Deserialize, Serialize};
use store::{ExecutionFilter, ExecutionRow, Page, Wait};
use utoipa::{IntoParams, ToSchema};

use super::caller::CallerView;
use super::credential::Credential;
use super::delays::{self, DelayView};
use super::described::{LogLineInfo, OriginInfo, OutcomeInfo, PayloadInfo, ResponseInfo, StatusWord};
use super::extract::{Answer, Body, Query, Segment, outside};
use super::history::{self, StepView};
use super::scope::Scope;
use super::turns::{self, TurnsView};
use super::{Api, Problem, Shared, large, waiting};

/// The path of an execution, without its id.
pub(super) const PATH: &str = "/api/v1/executions/";

/// Executions on a page where no number is given.
const PAGE: u32 = 50;
/// The most executions on a page.
const MOST: u32 = 200;
/// The time after which a search answers with what it has found.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// The kinds of origins.
const ORIGINS: [&str; 9] =
    ["webhook", "test", "schedule", "poll", "event", "manual", "call", "replay", "imported"];
/// The kinds of waits of steps.
const PAUSES: [&str; 5] = ["time", "event", "approval", "call", "retry"];
/// Log lines given at one time where no number is given, and the most of them.
const LINES: u32 = 1000;
/// The most executions that are named where a text may mean several.
const CANDIDATES: u32 = 10;
/// The most characters of a reason.
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
    /// The trigger that started it.
    #[schema(value_type = OriginInfo)]
    origin: serde_json::Value,
    #[schema(value_type = StatusWord)]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// From acceptance to the end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<i64>,
    /// The error, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The number of stored events.
    events: u32,
    /// The reason why it waits, in lists only; absent if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::waiting::PausesView>)]
    pauses: Option<Pauses>,
}

impl From<ExecutionRow> for ExecutionView {
    fn from(row: ExecutionRow) -> Self {
        Self {
            id: row.id.to_string(),
            automation: row.automation.to_string(),
            definition: row.definition.to_string(),
            origin: serde_json::to_value(&row.origin).unwrap_or_default(),
            status: row.status.as_str(),
            started_at: row.started_at,
            finished_at: row.finished_at,
            took_ms: row.finished_at.map(|end| end.as_millisecond() - row.started_at.as_millisecond()),
            error: row.error,
            events: row.events,
            pauses: None,
        }
    }
}

/// A page of executions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Executions {
    /// Newest first.
    executions: Vec<ExecutionView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// A search ended here, since a second was over: what was accepted before has not been looked at. `next` goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    searched_to: Option<Timestamp>,
}

/// Which executions to list; every part that is given must fit.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ListQuery {
    /// Of this automation.
    pub(super) automation: Option<String>,
    /// In this state; several with commas between them.
    #[param(example = "failed,stuck")]
    pub(super) status: Option<String>,
    /// Accepted at or after this instant.
    #[param(value_type = Option<String>, format = DateTime)]
    pub(super) since: Option<Timestamp>,
    /// Accepted before this instant.
    #[param(value_type = Option<String>, format = DateTime)]
    pub(super) until: Option<Timestamp>,
    /// Tests only, or none of them.
    pub(super) test: Option<bool>,
    /// The kind of its origin: `webhook`, `test`, `schedule`, `poll`, `event`, `manual`, `call`, `replay` or `imported`.
    pub(super) origin: Option<String>,
    /// The hash of its definition, or the beginning of it.
    pub(super) definition: Option<String>,
    /// The step that made it fail.
    pub(super) failed_step: Option<String>,
    /// A kind of wait of its steps: `time`, `event`, `approval`, `call` or `retry`.
    pub(super) waiting_for: Option<String>,
    /// It took, or takes, at least as long.
    #[param(example = "5s")]
    pub(super) min_took: Option<String>,
    /// A text in its id, automation, error, payload, results or log lines, in any case.
    pub(super) text: Option<String>,
    /// Replays of the execution with this id.
    pub(super) replay_of: Option<String>,
    /// The `next` of the page before.
    pub(super) cursor: Option<String>,
    /// How many at most: 1 to 200, 50 where it is not given.
    #[param(minimum = 1, maximum = 200)]
    pub(super) limit: Option<u32>,
}

impl ListQuery {
    pub(super) fn filter(&self) -> Result<ExecutionFilter, Problem> {
        let bad = |detail: String| Problem::bad_request("bad_query", detail);
        let automation = self.automation.as_deref().map(|name| {
            AutomationId::parse(name)
                .ok_or_else(|| bad(format!("`{name}` cannot be the id of an automation")))
        });
        let words = self.status.as_deref().unwrap_or_default().split(',').map(str::trim);
        let status = words.filter(|word| !word.is_empty()).map(|word| word.parse::<Status>().map_err(bad));
        let replay_of = self.replay_of.as_deref().map(|id| {
            id.parse().map_err(|_| bad(format!("`replayOf` is `{id}`, and no execution has such an id")))
        });
        Ok(ExecutionFilter {
            automation: automation.transpose()?,
            status: status.collect::<Result<_, _>>()?,
            since: self.since,
            until: self.until,
            test: self.test,
            replay_of: replay_of.transpose()?,
        })
    }

    /// The conditions that need a look at each execution.
    fn search(&self) -> Result<Search, Problem> {
        let bad = |detail: String| Problem::bad_request("bad_query", detail);
        let one_of = |name: &str, word: &Option<String>, words: &[&str]| match word.as_deref() {
            Some(word) if !words.contains(&word) => {
                Err(bad(format!("`{name}` is one of {}, and not `{word}`", words.join(", "))))
            }
            word => Ok(word.map(str::to_owned)),
        };
        let min_took = self.min_took.as_deref().map(|text| {
            model::units::parse_duration(text).map_err(|error| bad(format!("`minTook`: {error}")))
        });
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        Ok(Search {
            origin: one_of("origin", &self.origin, &ORIGINS)?,
            definition: given(&self.definition),
            failed_step: given(&self.failed_step),
            waiting_for: one_of("waitingFor", &self.waiting_for, &PAUSES)?,
            min_took: min_took.transpose()?,
            text: given(&self.text),
        })
    }

    /// How many, and after which.
    fn page(&self) -> Result<(u32, Option<ExecutionId>), Problem> {
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=MOST).contains(&limit) {
            return Err(Problem::bad_request("bad_query", format!("`limit` goes from 1 to {MOST}")));
        }
        let before = self.cursor.as_deref().map(|cursor| {
            read_cursor(cursor).ok_or_else(|| {
                Problem::bad_request("bad_cursor", "`cursor` must be the `next` of the page before")
            })
        });
        Ok((limit, before.transpose()?))
    }
}

/// A cursor is the last execution of a page, encoded so that clients do not build one themselves.
fn cursor(last: ExecutionId) -> String {
    URL_SAFE_NO_PAD.encode(last.as_bytes())
}

fn read_cursor(text: &str) -> Option<ExecutionId> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(ExecutionId::from_bytes(bytes.try_into().ok()?))
}

/// Executions, newest first
#[utoipa::path(
    get, path = "/api/v1/executions", tag = "executions", params(ListQuery),
    responses((status = 200, description = "A page of them", body = Executions)),
)]
pub(crate) async fn list(
    State(api): Shared,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Executions>, Problem> {
    let (filter, search, (limit, before)) = (query.filter()?, query.search()?, query.page()?);
    let (store, clock) = (api.engine.store(), api.engine.clock());
    let (rows, next, searched_to) = if search.is_empty() {
        // One more than wanted tells whether there is another page.
        let mut rows = store.executions(&filter, Page { before, limit: limit + 1 }).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| more).map(|last| last.id);
        (rows, next, None)
    } else {
        let page = Page { before, limit };
        let found = search.run(&**store, &**clock, filter, page, SEARCH_TIME).await?;
        let searched_to = found.next.map(|(_, at)| at).filter(|_| found.is_timed_out);
        (found.rows, found.next.map(|(id, _)| id), searched_to)
    };
    let next = next.map(cursor);
    let mut executions = Vec::with_capacity(rows.len());
    for row in rows {
        let pauses = match row.status {
            Status::Waiting => Some(api.engine.runtime().pauses(&row).await?),
            _ => None,
        };
        executions.push(ExecutionView { pauses, ..row.into() });
    }
    Ok(Answer::ok(Executions { executions, next, searched_to }))
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
    #[schema(value_type = Option<String>, format = DateTime)]
    retry_at: Option<Timestamp>,
    /// The payload that started it; headers that may hold a credential are masked.
    #[schema(value_type = PayloadInfo)]
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
    /// How it ended: `outcome` with `result`, `error` or `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OutcomeInfo>)]
    outcome: Option<serde_json::Value>,
    /// The answer that a `respond` step decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ResponseInfo>)]
    response: Option<serde_json::Value>,
    /// The ids of its replays, newest first, at most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replays: Vec<String>,
}

impl Api {
    /// The replays of an execution, newest first.
    async fn replays(&self, of: ExecutionId) -> Result<Vec<String>, Problem> {
        let filter = ExecutionFilter { replay_of: Some(of), ..ExecutionFilter::default() };
        let rows = self.engine.store().executions(&filter, Page { before: None, limit: PAGE }).await?;
        Ok(rows.into_iter().map(|row| row.id.to_string()).collect())
    }

    /// Reads an execution from the store, by the id in a path.
    pub(crate) async fn execution(&self, id: &str) -> Result<(ExecutionRow, Vec<Event>), Problem> {
        let unknown = || Problem::not_found("unknown_execution", format!("there is no execution `{id}`"));
        let id = self.execution_id(id).await?;
        let store = self.engine.store();
        let row = store.execution(id).await?.ok_or_else(unknown)?;
        let events = store.events(id).await?.ok_or_else(unknown)?;
        Ok((row, events))
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
) -> Result<Answer<ExecutionDetail>, Problem> {
    let mut detail = api.detail(&id).await?;
    if let Some(Large::Cut) = query.large {
        detail.cut();
    }
    // The resume address lets everyone answer who knows it.
    if let Some(waiting) = detail.waiting.as_mut().and_then(serde_json::Value::as_object_mut)
        && !credential.scopes.allow(Scope::Run)
    {
        waiting.remove("resumeUrl");
    }
    Ok(Answer::ok(detail))
}

impl Api {
    /// One execution whole.
    pub(crate) async fn detail(&self, id: &str) -> Result<ExecutionDetail, Problem> {
        let (row, events) = self.execution(id).await?;
        let waiting = if row.status.is_terminal() { None } else { self.waiting(row.id).await? };
        let automation = self.engine.runtime().automation_of(&row).await;
        let replays = self.replays(row.id).await?;
        let detail = detail(row, events, waiting, automation.as_deref());
        detail.map(|detail| ExecutionDetail { replays, ..detail }).map_err(|error| Problem::internal(&error))
    }
}

impl ExecutionDetail {
    /// Its steps.
    pub(crate) fn into_steps(self) -> Vec<StepView> {
        self.steps
    }

    /// Replaces large values, and keeps some turns of each loop.
    pub(crate) fn cut(&mut self) {
        large::cut(&mut self.payload, "/payload");
        self.turns = turns::keep_some(&mut self.steps);
        self.steps.iter_mut().for_each(StepView::cut);
        for (name, value) in [("outcome", &mut self.outcome), ("response", &mut self.response)] {
            value.iter_mut().for_each(|value| large::cut(value, &format!("/{name}")));
        }
        self.caller.iter_mut().for_each(CallerView::cut);
    }
}

/// One execution whole, from its events.
pub(super) fn detail(
    row: ExecutionRow,
    events: Vec<Event>,
    waiting: Option<serde_json::Value>,
    automation: Option<&Automation>,
) -> Result<ExecutionDetail, InvalidEvent> {
    let steps = history::steps(&events, automation);
    let (waits, answered) = (delays::waits(&events), delays::answered(&events));
    let caller = automation.and_then(|automation| engine::caller(automation, row.id, &events));
    let state = Execution::from_events(row.id, events)?;
    Ok(ExecutionDetail {
        execution: row.into(),
        attempt: state.attempt,
        retry_at: state.retry_at,
        payload: history::masked(&state.payload),
        steps,
        turns: Vec::new(),
        waiting,
        waits,
        caller: caller.map(CallerView::from),
        answered,
        outcome: state.outcome.as_ref().map(outside),
        response: state.response.as_ref().map(outside),
        replays: Vec::new(),
    })
}

/// An execution in the form of the API's list, for whoever reads a store without a daemon; `pauses` is what it waits for.
#[must_use]
pub fn describe_row(row: ExecutionRow, pauses: Option<Pauses>) -> serde_json::Value {
    serde_json::to_value(ExecutionView { pauses, ..row.into() }).unwrap_or_default()
}

/// An execution in the form of `GET /api/v1/executions/{id}`, credentials masked, for whoever reads a store without
/// a daemon. `waits` are its open waits: of these neither the form nor the address is told, which only a daemon knows.
/// `automation` is what it runs on, where that is known: it names the actions of the steps.
///
/// # Errors
/// An event that cannot stand where it stands: the store is damaged.
pub fn describe(
    row: ExecutionRow,
    events: Vec<Event>,
    waits: &[Wait],
    automation: Option<&Automation>,
) -> Result<serde_json::Value, InvalidEvent> {
    let waiting = waiting::stored(&events, waits);
    detail(row, events, waiting, automation).map(|detail| serde_json::to_value(detail).unwrap_or_default())
}

/// Which log lines.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct LogQuery {
    /// From the line with this index on, counted from 0.
    after: Option<u32>,
    /// How many at most: 1 to 1000, 1000 where it is not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Log lines of an execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Logs {
    /// In order.
    #[schema(value_type = Vec<LogLineInfo>)]
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
    let (after, limit) = (query.after.unwrap_or(0), query.limit.unwrap_or(LINES));
    if !(1..=LINES).contains(&limit) {
        return Err(Problem::bad_request("bad_query", format!("`limit` goes from 1 to {LINES}")));
    }
    let execution = api.execution_id(&id).await?;
    let store = api.engine.store();
    if store.execution(execution).await?.is_none() {
        return Err(engine::Error::NoSuchExecution(execution).into());
    }
    let mut logs = store.logs(execution, after, limit + 1).await?;
    let more = logs.len() > limit as usize;
    logs.truncate(limit as usize);
    Ok(Answer::ok(Logs { logs, next: more.then(|| after.saturating_add(limit)) }))
}

/// Why an execution is ended.
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
    let reason = model::redact::truncate(&reason, REASON).into_owned();
    let (engine, execution) = (api.engine.clone(), api.execution_id(&id).await?);
    let cancelled =
        api.to_its_end(async move { engine.runtime().cancel(execution, &reason).await }).await??;
    Ok(Answer::ok(Cancelled { cancelled }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_the_execution_it_was_made_of() {
        let id = ExecutionId::from_bytes(*b"0123456789abcdef");
        assert_eq!(read_cursor(&cursor(id)), Some(id));
        for wrong in ["", "x", "0123456789abcdef", &cursor(id)[1..], &format!("{}A", cursor(id))] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn filters_that_cannot_be_met_are_problems_in_words() {
        let check = |query: ListQuery, expected: &str| {
            let problem = query.filter().map(|_| ()).and(query.page().map(|_| ())).expect_err("a problem");
            assert_eq!((problem.status, problem.detail.as_str()), (400, expected));
        };
        let query = ListQuery::default;
        let status = "`done` is not a status of an execution; use one of queued, running, waiting, succeeded, failed, cancelled, stuck";
        check(ListQuery { status: Some("failed, done".into()), ..query() }, status);
        let automation = "`A b` cannot be the id of an automation";
        check(ListQuery { automation: Some("A b".into()), ..query() }, automation);
        check(ListQuery { limit: Some(0), ..query() }, "`limit` goes from 1 to 200");
        check(ListQuery { limit: Some(201), ..query() }, "`limit` goes from 1 to 200");
        check(
            ListQuery { cursor: Some("!".into()), ..query() },
            "`cursor` must be the `next` of the page before",
        );
    }
}
