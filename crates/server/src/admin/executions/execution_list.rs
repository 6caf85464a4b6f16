//! Pages of the list of executions, filtered, searched and counted.

use std::time::Duration;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::Search;
use jiff::Timestamp;
use model::automation::TriggerId;
use model::{AutomationId, ExecutionId, Status};
use serde::{Deserialize, Serialize};
use store::{ExecutionFilter, ExecutionRow, ExecutionStore, Page};
use utoipa::{IntoParams, ToSchema};

use super::execution::{ExecutionView, PAGE};
use crate::admin::extract::{self, Answer, Query};
use crate::admin::{Api, Problem, Shared};

/// Maximum number of executions on a page.
const MOST: u32 = 200;
/// Maximum number of executions that are counted.
const COUNTED: u32 = 10_000;
/// The time after which a search answers with what it has found.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// The kinds of origins.
const ORIGINS: [&str; 10] =
    ["webhook", "test", "schedule", "poll", "event", "emitted", "manual", "call", "replay", "imported"];
/// The kinds of waits of steps.
const PAUSES: [&str; 6] = ["time", "event", "approval", "call", "operation", "retry"];

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
    searched_to: Option<Timestamp>,
    /// The number of executions that match, on all pages; with `count` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<TotalView>,
}

/// A number of executions, counted up to a limit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Total)]
pub struct TotalView {
    /// The number, at most 10,000.
    pub count: u32,
    /// True if there are more than 10,000, which are not counted.
    pub is_at_least: bool,
}

impl TotalView {
    /// Counts the executions that match, up to the limit of a count.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read(store: &dyn ExecutionStore, filter: &ExecutionFilter) -> Result<Self, store::Error> {
        let count = store.count_executions(filter, COUNTED + 1).await?;
        Ok(Self { count: count.min(COUNTED), is_at_least: count > COUNTED })
    }
}

/// Filter of executions; an execution has to match every given part.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ListQuery {
    /// Of this automation.
    pub(crate) automation: Option<String>,
    /// Started by the trigger with this id, of the `automation`, which must be given too.
    pub(crate) trigger: Option<String>,
    /// In this state; several with commas between them.
    #[param(example = "failed,stuck")]
    pub(crate) status: Option<String>,
    /// Accepted at or after this instant.
    pub(crate) since: Option<Timestamp>,
    /// Accepted before this instant.
    pub(crate) until: Option<Timestamp>,
    /// Tests only, or none of them.
    pub(crate) test: Option<bool>,
    /// The kind of its origin: `webhook`, `test`, `schedule`, `poll`, `event`, `emitted`, `manual`, `call`, `replay`
    /// or `imported`.
    pub(crate) origin: Option<String>,
    /// The hash of its definition, or the beginning of it.
    pub(crate) definition: Option<String>,
    /// The step that made it fail.
    pub(crate) failed_step: Option<String>,
    /// A kind of wait of its steps: `time`, `event`, `approval`, `call` or `retry`.
    pub(crate) waiting_for: Option<String>,
    /// It took, or takes, at least as long.
    #[param(example = "5s")]
    pub(crate) min_took: Option<String>,
    /// A text in its id, automation, error, payload, results or log lines, in any case.
    pub(crate) text: Option<String>,
    /// Replays of the execution with this id.
    pub(crate) replay_of: Option<String>,
    /// Started by events of the execution with this id: own events that it sent, and events of the engine about it.
    pub(crate) started_by: Option<String>,
    /// Started by an event that this step of the execution `startedBy` sent, with its iteration indices.
    pub(crate) started_by_step: Option<String>,
    /// Started by the own event with this id.
    pub(crate) event_id: Option<String>,
    /// The `next` of the page before.
    pub(crate) cursor: Option<String>,
    /// Maximum number: 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<u32>,
    /// True to count the executions that match too, up to 10,000. A search is not counted: `trigger`, `origin`, `definition`, `failedStep`,
    /// `waitingFor`, `minTook`, `text`, `startedByStep`, `eventId`, and one of the statuses `queued` and `running` without the other need a look at each
    /// execution.
    pub(crate) count: Option<bool>,
    /// True to add `stepAttempt` to executions that failed at a step with a retry policy, or retry it.
    pub(crate) attempts: Option<bool>,
}

impl ListQuery {
    pub(crate) fn filter(&self) -> Result<ExecutionFilter, Problem> {
        let bad = |detail: String| Problem::bad_request("bad_query", detail);
        let automation = self.automation.as_deref().map(|name| {
            AutomationId::parse(name)
                .ok_or_else(|| bad(format!("`{name}` cannot be the id of an automation")))
        });
        let words = self.status.as_deref().unwrap_or_default().split(',').map(str::trim);
        let status = words.filter(|word| !word.is_empty()).map(|word| word.parse::<Status>().map_err(bad));
        let execution = |name: &str, id: &Option<String>| {
            let parsed = id.as_deref().map(|id| {
                let unknown = || bad(format!("`{name}` is `{id}`, and no execution has such an id"));
                id.parse::<ExecutionId>().map_err(|_| unknown())
            });
            parsed.transpose()
        };
        if self.replay_of.is_some() && self.started_by.is_some() {
            return Err(bad("give `replayOf` or `startedBy`: no execution has both".to_owned()));
        }
        Ok(ExecutionFilter {
            automation: automation.transpose()?,
            status: status.collect::<Result<_, _>>()?,
            since: self.since,
            until: self.until,
            test: self.test,
            replay_of: execution("replayOf", &self.replay_of)?,
            sender: execution("startedBy", &self.started_by)?,
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
            text::units::parse_duration(text).map_err(|error| bad(format!("`minTook`: {error}")))
        });
        let trigger = self.trigger.as_deref().map(|id| {
            let id = TriggerId::parse(id).filter(|_| self.automation.is_some());
            id.ok_or_else(|| bad("`trigger` is the id of a trigger, with `automation`".to_owned()))
        });
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        if self.started_by_step.is_some() && self.started_by.is_none() {
            return Err(bad("`startedByStep` is a step of the execution `startedBy`".to_owned()));
        }
        Ok(Search {
            trigger: trigger.transpose()?,
            origin: one_of("origin", &self.origin, &ORIGINS)?,
            definition: given(&self.definition),
            failed_step: given(&self.failed_step),
            waiting_for: one_of("waitingFor", &self.waiting_for, &PAUSES)?,
            min_took: min_took.transpose()?,
            text: given(&self.text),
            sender_step: self.started_by_step.clone(),
            event_id: self.event_id.clone(),
            ..Search::default()
        })
    }

    /// Size and start of the page.
    fn page(&self) -> Result<(u32, Option<ExecutionId>), Problem> {
        let limit = extract::limit(self.limit, PAGE, MOST)?;
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
    let (mut filter, (limit, before)) = (query.filter()?, query.page()?);
    let search = query.search()?.with_shown_statuses(&mut filter);
    let (store, clock, records) = (api.engine.store(), api.engine.clock(), api.engine.records());
    let total = match query.count {
        Some(true) if search.is_empty() => Some(TotalView::read(&**store, &filter).await?),
        _ => None,
    };
    let (rows, next, searched_to) = if search.is_empty() {
        let (rows, next) = page_of(&api, &filter, Page { before, limit }).await?;
        (rows, next, None)
    } else {
        let page = Page { before, limit };
        let found =
            search.run(&**store, &**clock, filter, page, SEARCH_TIME, Some(api.engine.admission())).await?;
        let searched_to = found.next.map(|(_, at)| at).filter(|_| found.is_timed_out);
        (found.rows, found.next.map(|(id, _)| id), searched_to)
    };
    let next = next.map(cursor);
    let mut executions = Vec::with_capacity(rows.len());
    for row in rows {
        let pauses = match row.status {
            Status::Waiting => Some(records.pauses(&row).await?),
            _ => None,
        };
        let step_attempt = match query.attempts {
            Some(true) => records.last_attempt(&row, pauses.as_ref()).await?,
            _ => None,
        };
        let mut view = ExecutionView::from(row);
        (view.pauses, view.step_attempt) = (pauses, step_attempt);
        executions.push(view);
    }
    Ok(Answer::ok(Executions { executions, next, searched_to, total }))
}

/// A page of executions, and the last one if there is another page.
async fn page_of(
    api: &Api,
    filter: &ExecutionFilter,
    page: Page,
) -> Result<(Vec<ExecutionRow>, Option<ExecutionId>), Problem> {
    let (limit, admission) = (page.limit as usize, &api.engine.admission());
    // One more than wanted tells whether there is another page.
    let mut rows = api.engine.store().executions(filter, Page { limit: page.limit + 1, ..page }).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    for row in &mut rows {
        row.status = admission.shown_status(row);
    }
    let next = rows.last().map(|last| last.id).filter(|_| has_more);
    Ok((rows, next))
}

/// The automations whose latest executions are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct LatestQuery {
    /// Their ids with commas between them, at most 200.
    #[param(example = "order-intake,approval")]
    automations: String,
}

/// The latest executions of some automations.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LatestExecutions {
    /// One for each automation that was started, tests excepted, in the order of the question.
    executions: Vec<ExecutionView>,
}

/// The latest execution of each of some automations
#[utoipa::path(
    get, path = "/api/v1/executions/latest", tag = "executions", params(LatestQuery),
    responses((status = 200, description = "At most one for each", body = LatestExecutions)),
)]
pub(crate) async fn latest(
    State(api): Shared,
    Query(query): Query<LatestQuery>,
) -> Result<Answer<LatestExecutions>, Problem> {
    let names: Vec<&str> = query.automations.split(',').filter(|name| !name.is_empty()).collect();
    if names.len() > MOST as usize {
        return Err(Problem::bad_request("bad_query", format!("`automations` has at most {MOST} ids")));
    }
    let (store, admission) = (api.engine.store(), api.engine.admission());
    let mut executions = Vec::with_capacity(names.len());
    for name in names {
        let automation = AutomationId::parse(name).ok_or_else(|| {
            Problem::bad_request("bad_query", format!("`{name}` cannot be the id of an automation"))
        })?;
        let filter =
            ExecutionFilter { automation: Some(automation), test: Some(false), ..Default::default() };
        for mut row in store.executions(&filter, Page { before: None, limit: 1 }).await? {
            row.status = admission.shown_status(&row);
            executions.push(ExecutionView::from(row));
        }
    }
    Ok(Answer::ok(LatestExecutions { executions }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips_to_its_execution() {
        let id = ExecutionId::from_bytes(*b"0123456789abcdef");
        assert_eq!(read_cursor(&cursor(id)), Some(id));
        for wrong in ["", "x", "0123456789abcdef", &cursor(id)[1..], &format!("{}A", cursor(id))] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn invalid_filters_are_described_in_the_problem() {
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
