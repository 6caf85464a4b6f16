//! Operations on many executions: replays and cancellations.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use engine::{
    BULK_PER_SECOND, BulkAction, BulkPlan, BulkProgress, BulkSelection, BulkState, MAX_BULK_PER_SECOND,
};
use http::StatusCode;
use jiff::Timestamp;
use runtime::ReplayRequest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::execution_list::ListQuery;
use super::replay::Version;
use crate::admin::auth::guard::DryRun;
use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Problem, Shared};

/// The maximum number of characters of a reason.
const REASON: usize = 500;

/// The action of an operation on each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkAction)]
pub(crate) enum Action {
    /// Replays it from its start, if it has ended.
    Replay,
    /// Cancels it, if it has not ended.
    Cancel,
}

/// The executions of an operation. Each part that is given must match.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkFilter {
    /// The automation.
    automation: Option<String>,
    /// The statuses that match.
    #[serde(default)]
    status: Vec<String>,
    /// Accepted at or after this instant.
    since: Option<Timestamp>,
    /// Accepted before this instant.
    until: Option<Timestamp>,
    /// True for tests only, false for no tests.
    test: Option<bool>,
}

/// An operation on many executions.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkBody {
    action: Action,
    /// The executions, at most 10,000. Alternatively `filter`.
    ids: Option<Vec<String>>,
    /// All executions that match when the operation starts.
    filter: Option<BulkFilter>,
    /// True to do nothing, and to return the number of executions.
    #[serde(default)]
    dry_run: bool,
    /// The number of executions per second: 1 to 100. Default: 10.
    #[schema(minimum = 1, maximum = 100)]
    per_second: Option<u32>,
    /// For replays: the version that they run on.
    #[serde(default)]
    definition: Version,
    /// For replays: true for tests. Default: as each execution was.
    test: Option<bool>,
    /// For cancellations: the reason, for the history.
    reason: Option<String>,
}

/// The count of an operation, or its progress.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkView {
    /// The id of the operation; absent if nothing was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[schema(value_type = Action)]
    action: &'static str,
    /// `planned`, `running`, `stopped` or `finished`.
    state: BulkStateView,
    /// The number of executions.
    total: usize,
    /// The number of executions that are done, failed ones included.
    done: usize,
    /// The number of executions on which the action failed.
    failed: usize,
    /// The number of replays that call other systems again. Only with `planned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    calling: Option<usize>,
    /// The number of selected executions that are left out: only ended ones are replayed, only others cancelled. Only with
    /// `planned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<usize>,
    /// The number of executions by automation. Only with `planned`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    automations: BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// The ids of the first 100 new executions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    started: Vec<String>,
    /// The first 100 failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<BulkFailureView>,
}

/// The state of an operation on many executions: `planned` if nothing was started.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkState)]
enum BulkStateView {
    Planned,
    Running,
    Stopped,
    Finished,
}

impl From<BulkState> for BulkStateView {
    fn from(state: BulkState) -> Self {
        match state {
            BulkState::Running => Self::Running,
            BulkState::Stopped => Self::Stopped,
            BulkState::Finished => Self::Finished,
        }
    }
}

/// A failure within an operation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkFailureView {
    /// The execution.
    id: String,
    /// The error, in words.
    message: String,
}

impl From<BulkProgress> for BulkView {
    fn from(progress: BulkProgress) -> Self {
        let failures = progress.failures.into_iter();
        Self {
            id: Some(progress.id),
            action: progress.action,
            state: progress.state.into(),
            total: progress.total,
            done: progress.done,
            failed: progress.failed,
            calling: None,
            skipped: None,
            automations: BTreeMap::new(),
            started_at: Some(progress.started_at),
            finished_at: progress.finished_at,
            started: progress.started.iter().map(ToString::to_string).collect(),
            failures: failures
                .map(|failure| BulkFailureView { id: failure.id.to_string(), message: failure.message })
                .collect(),
        }
    }
}

impl BulkView {
    fn planned(action: &'static str, plan: &BulkPlan) -> Self {
        let automations = plan.automations.iter();
        Self {
            id: None,
            action,
            state: BulkStateView::Planned,
            total: plan.ids.len(),
            done: 0,
            failed: 0,
            calling: Some(plan.calling),
            skipped: Some(plan.skipped),
            automations: automations.map(|(id, count)| (id.to_string(), *count)).collect(),
            started_at: None,
            finished_at: None,
            started: Vec::new(),
            failures: Vec::new(),
        }
    }
}

/// The operations on many executions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Operations {
    /// Newest first, at most 50.
    operations: Vec<BulkView>,
}

impl BulkBody {
    fn action(&self) -> BulkAction {
        match self.action {
            Action::Replay => BulkAction::Replay(Box::new(ReplayRequest {
                original: self.definition == Version::Original,
                test: self.test,
                ..ReplayRequest::default()
            })),
            Action::Cancel => {
                let reason = self.reason.as_deref().unwrap_or("cancelled through the API");
                BulkAction::Cancel(text::truncate(reason, REASON).into_owned())
            }
        }
    }

    fn selection(&mut self) -> Result<BulkSelection, Problem> {
        let bad = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail);
        match (self.ids.take(), self.filter.take()) {
            (Some(ids), None) => {
                let ids = ids
                    .into_iter()
                    .map(|id| id.parse().map_err(|_| bad(format!("`{id}` is not the id of an execution"))));
                Ok(BulkSelection::Ids(ids.collect::<Result<_, _>>()?))
            }
            (None, Some(filter)) => {
                let BulkFilter { automation, status, since, until, test } = filter;
                let status = Some(status.join(",")).filter(|status| !status.is_empty());
                let query = ListQuery { automation, status, since, until, test, ..ListQuery::default() };
                Ok(BulkSelection::Filter(Box::new(query.filter()?)))
            }
            _ => Err(bad("give `ids` or `filter`, one of them".to_owned())),
        }
    }
}

/// Replay or cancel many executions
///
/// The operation lives in the memory of the daemon and ends with it; each replay and cancellation that it has made stands.
#[utoipa::path(
    post, path = "/api/v1/executions/bulk", tag = "executions", request_body = BulkBody,
    responses(
        (status = 200, description = "The number of executions; nothing was started (`dryRun`)", body = BulkView),
        (status = 202, description = "The operation goes on", body = BulkView),
    ),
)]
pub(crate) async fn begin(State(api): Shared, Body(mut body): Body<BulkBody>) -> Result<Response, Problem> {
    let per_second = body.per_second.unwrap_or(BULK_PER_SECOND);
    if !(1..=MAX_BULK_PER_SECOND).contains(&per_second) {
        let detail = format!("`perSecond` goes from 1 to {MAX_BULK_PER_SECOND}");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail));
    }
    let (action, selection) = (body.action(), body.selection()?);
    let (engine, bulk) = (&api.engine, api.engine.bulk());
    let plan = bulk.plan(engine.records(), &action, selection).await?;
    if body.dry_run {
        let view = BulkView::planned(action.as_str(), &plan);
        return Ok((Extension(DryRun), Answer::ok(view)).into_response());
    }
    let progress = bulk.start((engine.admission(), engine.ingress()), action, plan.ids, per_second)?;
    Ok(Answer(StatusCode::ACCEPTED, BulkView::from(progress)).into_response())
}

/// List the operations on many executions
#[utoipa::path(
    get, path = "/api/v1/executions/bulk", tag = "executions",
    responses((status = 200, description = "The operations since the daemon started", body = Operations)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Operations>, Problem> {
    let operations = api.engine.bulk().list().into_iter().map(BulkView::from).collect();
    Ok(Answer::ok(Operations { operations }))
}

/// Show the progress of an operation
#[utoipa::path(
    get, path = "/api/v1/executions/bulk/{id}", tag = "executions",
    params(("id" = String, Path, description = "The operation's id")),
    responses((status = 200, description = "Its progress", body = BulkView)),
)]
pub(crate) async fn show(State(api): Shared, Segment(id): Segment) -> Result<Answer<BulkView>, Problem> {
    api.engine.bulk().get(&id).map(|progress| Answer::ok(progress.into())).ok_or_else(|| unknown(&id))
}

/// Stop an operation
///
/// Executions that are done stay as they are.
#[utoipa::path(
    delete, path = "/api/v1/executions/bulk/{id}", tag = "executions",
    params(("id" = String, Path, description = "The operation's id")),
    responses((status = 200, description = "Its progress so far", body = BulkView)),
)]
pub(crate) async fn stop(State(api): Shared, Segment(id): Segment) -> Result<Answer<BulkView>, Problem> {
    api.engine.bulk().stop(&id).map(|progress| Answer::ok(progress.into())).ok_or_else(|| unknown(&id))
}

fn unknown(id: &str) -> Problem {
    Problem::not_found("unknown_operation", format!("there is no operation `{id}`; a restart forgets them"))
}
