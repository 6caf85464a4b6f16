//! The turns of loops: some of them beside the other steps, all of them page by page.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::State;
use model::execution::StepProgress;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::history::StepView;
use super::large;
use crate::admin::auth::credential::Credential;
use crate::admin::extract::{self, Answer, Query, Segment};
use crate::admin::{Problem, Shared};

/// The turns of one step that stand beside the other steps.
const SHOWN: usize = 20;
/// The turns of one step that stand there in addition, since they did not succeed.
const UNUSUAL: usize = 20;
/// Default and maximum number of turns of a page.
const PAGE: usize = 100;

/// A step in a loop of which only some turns are shown.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoopTurns)]
pub(crate) struct TurnsView {
    /// The step.
    step: String,
    /// Number of its turns.
    count: usize,
    /// Number of failed turns.
    failed: usize,
    /// Number of turns that run or wait.
    open: usize,
    /// Duration of the work of all turns in milliseconds.
    took_ms: f64,
}

/// Keeps the first turns of each step in a loop, and the first that did not succeed. Returns the counts of the steps of which
/// some turns were left out.
pub(crate) fn keep_some(steps: &mut Vec<StepView>) -> Vec<TurnsView> {
    let mut found: HashMap<String, TurnsView> = HashMap::new();
    let mut order = Vec::new();
    for step in steps.iter().filter(|step| step.key().contains('[')) {
        let turns = found.entry(step.id().to_owned()).or_insert_with(|| {
            order.push(step.id().to_owned());
            TurnsView { step: step.id().to_owned(), count: 0, failed: 0, open: 0, took_ms: 0.0 }
        });
        turns.count += 1;
        turns.failed += usize::from(step.status() == StepProgress::Failed);
        turns.open += usize::from(is_open(step));
        turns.took_ms += step.took_ms().unwrap_or_default();
    }
    found.retain(|_, turns| turns.count > SHOWN);
    let mut kept: HashMap<String, (usize, usize)> = HashMap::new();
    steps.retain(|step| {
        if !found.contains_key(step.id()) {
            return true;
        }
        let (shown, unusual) = kept.entry(step.id().to_owned()).or_default();
        if *shown < SHOWN {
            *shown += 1;
            return true;
        }
        let is_unusual = step.status() == StepProgress::Failed || is_open(step);
        *unusual += usize::from(is_unusual);
        is_unusual && *unusual <= UNUSUAL
    });
    order.into_iter().filter_map(|step| found.remove(&step)).collect()
}

fn is_open(step: &StepView) -> bool {
    step.status().is_open()
}

/// Filter and page of the turns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct TurnsQuery {
    /// The step, without turns.
    step: String,
    /// Only turns in this state.
    status: Option<String>,
    /// The first turn, counted from 0.
    from: Option<usize>,
    /// Maximum number of turns: 1 to 100. Default: 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// Turns of one step, in the order of their beginning.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turns {
    /// The turns; a value over 4 KiB is `{"$large": {at, bytes, type, start}}`.
    steps: Vec<StepView>,
    /// Number of turns.
    total: usize,
    /// The `from` of the turns that follow; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<usize>,
}

/// The turns of a step in a loop
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/turns", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), TurnsQuery),
    responses((status = 200, description = "A page of them", body = Turns)),
)]
pub(crate) async fn turns(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
    Query(query): Query<TurnsQuery>,
) -> Result<Answer<serde_json::Value>, Problem> {
    let (from, limit) = (query.from.unwrap_or(0), extract::limit(query.limit, PAGE, PAGE)?);
    let (detail, cuts) = api.detail(&id, &credential, None).await?;
    let mut steps = detail.into_steps();
    steps.retain(|step| {
        step.id() == query.step && query.status.as_ref().is_none_or(|status| step.status().as_str() == status)
    });
    let total = steps.len();
    let mut steps: Vec<StepView> = steps.into_iter().skip(from).take(limit).collect();
    steps.iter_mut().for_each(|step| step.cut(Some(&cuts)));
    let end = from.saturating_add(limit);
    let turns = Turns { steps, total, next: Some(end).filter(|end| *end < total) };
    let mut turns = serde_json::to_value(turns).map_err(|error| Problem::internal(&error))?;
    let steps = turns["steps"].as_array_mut().into_iter().flatten();
    steps.for_each(|step| large::sweep_step(step, &cuts));
    Ok(Answer::ok(turns))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::action::ErrorKind;
    use model::{ActionError, Event, History, StepOutcome};
    use value::Value;

    use super::super::history;
    use super::*;

    #[test]
    fn the_first_and_the_first_failed_iterations_of_a_loop_are_kept() {
        let at = Timestamp::UNIX_EPOCH;
        let end = |step: String, failed: bool| {
            let outcome = if failed {
                StepOutcome::Failed {
                    error: ActionError::new(ErrorKind::Failed, "no"),
                    handled: Some(Value::Null),
                }
            } else {
                StepOutcome::Succeeded { result: Value::Null }
            };
            Event::StepFinished { at, step, took_us: 1000, outcome }
        };
        let mut events: Vec<Event> =
            (0..100).map(|turn| end(format!("copy[{turn}]"), turn % 2 == 1)).collect();
        events.push(end("last".into(), false));
        events.push(end("few[0]".into(), false));
        let mut steps = history::steps(&History::new(&events), None);
        let turns = keep_some(&mut steps);
        let expected = TurnsView { step: "copy".into(), count: 100, failed: 50, open: 0, took_ms: 100.0 };
        assert_eq!(turns, [expected]);
        let keys: Vec<&str> = steps.iter().map(StepView::key).collect();
        assert_eq!((keys[0], keys[19], keys[20], keys[39]), ("copy[0]", "copy[19]", "copy[21]", "copy[59]"));
        assert_eq!(keys[40..], ["last", "few[0]"]);
    }
}
