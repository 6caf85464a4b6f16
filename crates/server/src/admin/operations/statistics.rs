//! Recent results of automations, and the requests that started nothing.

use std::time::Duration;

use axum::extract::State;
use ingress::Refusal;
use jiff::Timestamp;
use runtime::{AutomationStatistics, MAX_WINDOW_HOURS, Outcomes};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::extract::{Answer, Query, Segment};
use crate::admin::{Problem, Shared};

/// The window where none is given, in hours.
const WINDOW_HOURS: u32 = 24;
const HOUR: Duration = Duration::from_secs(3600);

/// Period and automations of the statistics.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct StatisticsQuery {
    /// Up to how long ago: whole hours up to `7d`, `24h` where it is not given. The hour that runs is the last one.
    #[param(example = "24h")]
    window: Option<String>,
    /// Into how many parts of whole hours the window is cut, 24 where it is not given.
    #[param(minimum = 1, maximum = 168)]
    buckets: Option<u32>,
    /// Only the automation with this id.
    automation: Option<String>,
}

impl StatisticsQuery {
    /// Hours of the window, and parts.
    fn read(&self) -> Result<(u32, u32), Problem> {
        let bad = |detail: String| Problem::bad_request("bad_query", detail);
        let hours = match &self.window {
            None => WINDOW_HOURS,
            Some(text) => {
                let window =
                    text::units::parse_duration(text).map_err(|error| bad(format!("`window`: {error}")))?;
                let hours = u32::try_from(window.as_secs() / HOUR.as_secs()).unwrap_or(u32::MAX);
                if window != HOUR * hours.min(MAX_WINDOW_HOURS) || hours == 0 {
                    return Err(bad("`window` is a number of whole hours up to `7d`".to_owned()));
                }
                hours
            }
        };
        let buckets = self.buckets.unwrap_or_else(|| WINDOW_HOURS.min(hours));
        if buckets == 0 || buckets > hours || !hours.is_multiple_of(buckets) {
            return Err(bad(format!("`buckets` has to divide the window of {hours} hours into whole hours")));
        }
        Ok((hours, buckets))
    }
}

/// The executions that ended within a window, tests excepted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Statistics)]
pub(crate) struct StatisticsView {
    /// The beginning of the window.
    from: Timestamp,
    /// The instant from which on all executions are counted, where that is later than `from`, or is not known yet after a
    /// start of the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_from: Option<Timestamp>,
    /// The length of a part in seconds.
    bucket_seconds: u64,
    /// By id; those of which no execution ended are left out.
    automations: Vec<AutomationStatisticsView>,
}

/// The executions of an automation that ended within a window.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AutomationStatistics)]
pub(crate) struct AutomationStatisticsView {
    automation: String,
    succeeded: u32,
    failed: u32,
    cancelled: u32,
    stuck: u32,
    /// The duration in milliseconds that half of them do not exceed, from acceptance to the end; within 5 %.
    p50_ms: f64,
    /// The duration in milliseconds that 95 % of them do not exceed; within 5 %.
    p95_ms: f64,
    /// Number of successful executions in each part, oldest first.
    succeeded_by_bucket: Vec<u32>,
    /// Number of failed or stuck executions in each part, oldest first.
    failed_by_bucket: Vec<u32>,
}

impl From<AutomationStatistics> for AutomationStatisticsView {
    fn from(found: AutomationStatistics) -> Self {
        let Outcomes { succeeded, failed, cancelled, stuck } = found.total;
        let ms = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
        Self {
            automation: found.automation.to_string(),
            succeeded,
            failed,
            cancelled,
            stuck,
            p50_ms: ms(found.p50),
            p95_ms: ms(found.p95),
            succeeded_by_bucket: found.parts.iter().map(|part| part.succeeded).collect(),
            failed_by_bucket: found.parts.iter().map(|part| part.failed.saturating_add(part.stuck)).collect(),
        }
    }
}

/// Recent results of automations
#[utoipa::path(
    get, path = "/api/v1/stats", tag = "automations", params(StatisticsQuery),
    responses((status = 200, description = "By automation", body = StatisticsView)),
)]
pub(crate) async fn statistics(
    State(api): Shared,
    Query(query): Query<StatisticsQuery>,
) -> Result<Answer<StatisticsView>, Problem> {
    let (hours, buckets) = query.read()?;
    let now = api.engine.clock().now();
    let (since, found) = api.engine.context().statistics.within(now, hours, buckets);
    let is_wanted = |one: &runtime::AutomationStatistics| {
        query.automation.as_deref().is_none_or(|wanted| one.automation.as_str() == wanted)
    };
    let hour = i64::try_from(HOUR.as_secs()).unwrap_or(i64::MAX);
    let end = now.as_second().div_euclid(hour) + 1;
    let from = Timestamp::from_second((end - i64::from(hours)) * hour).unwrap_or(Timestamp::MIN);
    let complete_from = since.unwrap_or_else(|| api.engine.status().started_at);
    Ok(Answer::ok(StatisticsView {
        from,
        complete_from: Some(complete_from).filter(|complete| *complete > from),
        bucket_seconds: u64::from(hours / buckets) * HOUR.as_secs(),
        automations: found.into_iter().filter(is_wanted).map(Into::into).collect(),
    }))
}

/// Requests that started nothing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusals {
    /// Newest first, at most 100 since the daemon started.
    refusals: Vec<Refusal>,
}

/// The latest requests to an automation, or to one of its triggers, that started nothing
#[utoipa::path(
    get, path = "/api/v1/automations/{id}/refusals", tag = "automations",
    params(("id" = String, Path, description = "The automation's id, or `ID%2FTRIGGER`")),
    responses((status = 200, description = "Newest first", body = Refusals)),
)]
pub(crate) async fn refusals(State(api): Shared, Segment(id): Segment) -> Result<Answer<Refusals>, Problem> {
    // Without a trigger the automation is meant, which may have several.
    let (automation, trigger) = match id.contains('/') {
        true => {
            let mount = api.mount_of(&id, |_| true)?;
            (mount.deployment.automation.id.clone(), Some(mount.declared().id.clone()))
        }
        false => (api.id_of(&id)?, None),
    };
    Ok(Answer::ok(Refusals { refusals: api.engine.ingress().refusals_of(&automation, trigger.as_ref()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_whole_hours_and_equal_buckets() {
        let read = |window: &str, buckets| {
            StatisticsQuery { window: Some(window.to_owned()), buckets, automation: None }.read()
        };
        assert_eq!(StatisticsQuery::default().read().expect("the default"), (24, 24));
        assert_eq!(read("7d", Some(7)).expect("a week"), (168, 7));
        assert_eq!(read("6h", None).expect("six hours"), (6, 6));
        for (window, buckets) in
            [("90m", None), ("8d", None), ("24h", Some(25)), ("24h", Some(7)), ("24h", Some(0)), ("x", None)]
        {
            assert!(read(window, buckets).is_err(), "{window} {buckets:?}");
        }
    }
}
