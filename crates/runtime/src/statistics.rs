//! Outcomes and durations of ended executions, by Automation and hour.
//!
//! They are counted in memory where a run ends: a lookup and two additions under a lock, far less than the commit before
//! them, and no query has to read the history. A sum kept in the store would cost every commit a second row, and an
//! aggregate over the table would read the window at every request. After a restart the counts of the last day come from the
//! store, newest first and at most [`MAX_RESTORED`] rows. Each daemon of a cluster counts the executions that it ran.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::execution::ExecutionId;
use model::{AutomationId, Status};
use store::{ExecutionFilter, ExecutionStore, Page};

/// The longest window, in hours.
pub const MAX_WINDOW_HOURS: u32 = 7 * 24;
/// The number of rows that are read from the store after a restart.
const MAX_RESTORED: usize = 50_000;
/// The number of rows read at once.
const PAGE: u32 = 500;
/// The age in hours up to which rows are read after a restart.
const RESTORED_HOURS: i64 = 24;
/// The number of hours with executions kept in all, about 40 MB. Above it the oldest ones of all Automations are dropped.
const MAX_HOURS: usize = 250_000;
/// The buckets of the histogram for each doubling of the duration: a quantile is off by at most 5 %.
const BUCKETS_PER_DOUBLING: f64 = 8.0;
const SECONDS_PER_HOUR: i64 = 3600;

/// The statistics of all Automations.
#[derive(Default)]
pub struct Statistics {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    of: HashMap<AutomationId, VecDeque<Hour>>,
    /// The number of hours in all queues.
    hours: usize,
    /// The instant from which on everything is counted; `None` before the restore has ended.
    since: Option<Timestamp>,
}

/// The executions of an Automation that ended within an hour.
#[derive(Clone, Debug, Default)]
struct Hour {
    /// The hour, counted from 1970.
    number: i64,
    counts: Outcomes,
    /// The number of executions by the bucket of their duration, ascending. Few buckets are in use.
    durations: Vec<(u16, u32)>,
}

/// Numbers of executions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Succeeded.
    pub succeeded: u32,
    /// Failed.
    pub failed: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// Given up after crashes.
    pub stuck: u32,
}

/// The statistics of one Automation within a window.
#[derive(Clone, Debug, PartialEq)]
pub struct AutomationStatistics {
    /// The Automation.
    pub automation: AutomationId,
    /// The whole window.
    pub total: Outcomes,
    /// Its equal parts, oldest first.
    pub parts: Vec<Outcomes>,
    /// The duration that half of the executions do not exceed.
    pub p50: Duration,
    /// The duration that 95 % of them do not exceed.
    pub p95: Duration,
}

impl Statistics {
    /// Counts an execution that ended with `status` after `took`.
    pub(crate) fn record(&self, automation: &AutomationId, status: Status, ended: Timestamp, took: Duration) {
        let mut state = self.state();
        let number = hour_of(ended);
        let hours = match state.of.get_mut(automation) {
            Some(hours) => hours,
            None => state.of.entry(automation.clone()).or_default(),
        };
        // Almost always the last one; rows of the store come newest first.
        let place = hours.iter().rposition(|hour| hour.number <= number);
        let hour = match place.filter(|&place| hours[place].number == number) {
            Some(place) => hours.get_mut(place),
            None => {
                let place = place.map_or(0, |place| place + 1);
                hours.insert(place, Hour { number, ..Hour::default() });
                hours.get_mut(place)
            }
        };
        let Some(hour) = hour else { return };
        let is_new = hour.durations.is_empty();
        hour.add(status, took);
        if is_new {
            state.hours += 1;
            state.trim(automation, number);
        }
    }

    /// Returns the statistics of `window_hours` up to the hour of `now`, in `parts` equal parts, of all Automations with an
    /// ended execution, and the instant since which they are complete.
    #[must_use]
    pub fn within(
        &self,
        now: Timestamp,
        window_hours: u32,
        parts: u32,
    ) -> (Option<Timestamp>, Vec<AutomationStatistics>) {
        let state = self.state();
        let end = hour_of(now) + 1;
        let start = end - i64::from(window_hours);
        let of = state.of.iter().filter_map(|(automation, hours)| {
            let mut found = AutomationStatistics {
                automation: automation.clone(),
                total: Outcomes::default(),
                parts: vec![Outcomes::default(); parts as usize],
                p50: Duration::ZERO,
                p95: Duration::ZERO,
            };
            let mut durations: Vec<(u16, u32)> = Vec::new();
            for hour in hours.iter().filter(|hour| (start..end).contains(&hour.number)) {
                let part = (hour.number - start) * i64::from(parts) / i64::from(window_hours);
                if let Some(part) = usize::try_from(part).ok().and_then(|part| found.parts.get_mut(part)) {
                    part.add(hour.counts);
                }
                found.total.add(hour.counts);
                hour.durations.iter().for_each(|&(bucket, count)| add(&mut durations, bucket, count));
            }
            (found.p50, found.p95) = (quantile(&durations, 0.5)?, quantile(&durations, 0.95)?);
            Some(found)
        });
        let mut of: Vec<_> = of.collect();
        of.sort_by(|one, other| one.automation.as_str().cmp(other.automation.as_str()));
        (state.since, of)
    }

    /// Deletes the statistics of Automations that are no longer in force.
    pub(crate) fn forget(&self, gone: &[AutomationId]) {
        let mut state = self.state();
        for id in gone {
            let dropped = state.of.remove(id).map_or(0, |hours| hours.len());
            state.hours -= dropped;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps the bounds after a new hour of `automation`.
    fn trim(&mut self, automation: &AutomationId, number: i64) {
        if let Some(hours) = self.of.get_mut(automation) {
            while hours.front().is_some_and(|hour| hour.number + i64::from(MAX_WINDOW_HOURS) < number) {
                hours.pop_front();
                self.hours -= 1;
            }
        }
        if self.hours <= MAX_HOURS {
            return;
        }
        // A whole hour of all Automations at once, so that the search is rare.
        let Some(oldest) = self.of.values().filter_map(|hours| hours.front()).map(|hour| hour.number).min()
        else {
            return;
        };
        for hours in self.of.values_mut() {
            if hours.front().is_some_and(|hour| hour.number == oldest) {
                hours.pop_front();
                self.hours -= 1;
            }
        }
        self.of.retain(|_, hours| !hours.is_empty());
    }
}

impl Hour {
    fn add(&mut self, status: Status, took: Duration) {
        let count = match status {
            Status::Failed => &mut self.counts.failed,
            Status::Cancelled => &mut self.counts.cancelled,
            Status::Stuck => &mut self.counts.stuck,
            _ => &mut self.counts.succeeded,
        };
        *count = count.saturating_add(1);
        add(&mut self.durations, bucket(took), 1);
    }
}

impl Outcomes {
    fn add(&mut self, more: Self) {
        self.succeeded = self.succeeded.saturating_add(more.succeeded);
        self.failed = self.failed.saturating_add(more.failed);
        self.cancelled = self.cancelled.saturating_add(more.cancelled);
        self.stuck = self.stuck.saturating_add(more.stuck);
    }
}

fn hour_of(at: Timestamp) -> i64 {
    at.as_second().div_euclid(SECONDS_PER_HOUR)
}

fn add(durations: &mut Vec<(u16, u32)>, bucket: u16, count: u32) {
    match durations.binary_search_by_key(&bucket, |(known, _)| *known) {
        Ok(place) => durations[place].1 = durations[place].1.saturating_add(count),
        Err(place) => durations.insert(place, (bucket, count)),
    }
}

/// The bucket of a duration: 0 up to a microsecond, then eight for each doubling.
fn bucket(took: Duration) -> u16 {
    let micros = took.as_secs_f64() * 1e6;
    if micros <= 1.0 { 0 } else { (micros.log2() * BUCKETS_PER_DOUBLING).ceil() as u16 }
}

/// Returns the middle of the bucket of this quantile; `None` without executions.
fn quantile(durations: &[(u16, u32)], part: f64) -> Option<Duration> {
    let total: u64 = durations.iter().map(|(_, count)| u64::from(*count)).sum();
    let wanted = (total as f64 * part).ceil() as u64;
    let mut seen = 0;
    let (bucket, _) = durations.iter().find(|(_, count)| {
        seen += u64::from(*count);
        seen >= wanted
    })?;
    let micros = ((f64::from(*bucket) - 0.5).max(0.0) / BUCKETS_PER_DOUBLING).exp2();
    Some(Duration::from_secs_f64(micros / 1e6))
}

impl Statistics {
    /// Counts the executions of the last day that ended before this process started. The caller may drop the future early.
    pub async fn restore(&self, store: &dyn ExecutionStore, started_at: Timestamp) {
        match self.read_ended(store, started_at).await {
            Ok(since) => self.state().since = Some(since),
            Err(error) => tracing::warn!(%error, "the statistics begin with this start"),
        }
    }

    /// Counts ended executions from the store, and returns the instant from which on all are counted.
    async fn read_ended(
        &self,
        store: &dyn ExecutionStore,
        started_at: Timestamp,
    ) -> Result<Timestamp, store::Error> {
        let day = SignedDuration::from_hours(RESTORED_HOURS);
        let since = started_at.checked_sub(day).unwrap_or(Timestamp::MIN);
        let filter = ExecutionFilter { since: Some(since), test: Some(false), ..ExecutionFilter::default() };
        let mut before: Option<ExecutionId> = None;
        let mut read = 0;
        loop {
            let rows = store.executions(&filter, Page { before, limit: PAGE }).await?;
            read += rows.len();
            for row in &rows {
                // Executions that end in this process are counted where they end.
                let Some(ended) = row.finished_at.filter(|ended| *ended < started_at) else { continue };
                let took = Duration::try_from(row.started_at.duration_until(ended)).unwrap_or_default();
                self.record(&row.automation, row.status, ended, took);
            }
            match rows.last() {
                Some(last) if read >= MAX_RESTORED => return Ok(last.started_at),
                Some(last) if rows.len() == PAGE as usize => before = Some(last.id),
                _ => return Ok(since),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> AutomationId {
        AutomationId::parse(text).expect("an id")
    }

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * SECONDS_PER_HOUR + 59).expect("an instant")
    }

    #[test]
    fn executions_are_counted_by_outcome_and_part_of_the_time_window() {
        let statistics = Statistics::default();
        for (hour, status) in
            [(1, Status::Failed), (100, Status::Succeeded), (88, Status::Stuck), (123, Status::Failed)]
        {
            statistics.record(&id("a"), status, at(hour), Duration::from_millis(10));
        }
        let (_, found) = statistics.within(at(123), 24, 2);
        assert_eq!((found.len(), found[0].parts.len()), (1, 2));
        let expected = Outcomes { succeeded: 1, failed: 1, ..Outcomes::default() };
        assert_eq!(found[0].total, expected);
        assert_eq!((found[0].parts[0].succeeded, found[0].parts[1].failed), (1, 1));
        assert_eq!(statistics.within(at(500), 24, 24).1, []);
    }

    #[test]
    fn quantiles_match_the_durations_within_five_percent() {
        let statistics = Statistics::default();
        for ms in 1..=1000 {
            statistics.record(&id("a"), Status::Succeeded, at(5), Duration::from_millis(ms));
        }
        let (_, found) = statistics.within(at(5), 1, 1);
        for (measured, expected) in [(found[0].p50, 500.0), (found[0].p95, 950.0)] {
            let measured = measured.as_secs_f64() * 1000.0;
            assert!((measured / expected - 1.0).abs() < 0.05, "{measured} for {expected}");
        }
    }

    #[test]
    fn old_hours_and_removed_automations_take_no_memory() {
        let statistics = Statistics::default();
        (0..1000).for_each(|hour| statistics.record(&id("a"), Status::Succeeded, at(hour), Duration::ZERO));
        assert_eq!(statistics.state().hours, MAX_WINDOW_HOURS as usize + 1);
        statistics.forget(&[id("a")]);
        assert_eq!(statistics.state().hours, 0);
    }

    #[test]
    fn the_oldest_hour_of_all_automations_is_dropped_over_the_maximum() {
        let statistics = Statistics::default();
        for (automation, hour) in [("a", 1), ("b", 1), ("b", 2)] {
            statistics.record(&id(automation), Status::Succeeded, at(hour), Duration::ZERO);
        }
        let total = |now| {
            let (_, found) = statistics.within(at(now), 10, 1);
            found.iter().map(|of| of.total.succeeded).sum::<u32>()
        };
        statistics.state().hours = MAX_HOURS - 1;
        statistics.record(&id("b"), Status::Succeeded, at(3), Duration::ZERO);
        assert_eq!(total(5), 4, "there is room for all");
        statistics.record(&id("b"), Status::Succeeded, at(4), Duration::ZERO);
        assert_eq!((total(5), statistics.state().hours), (3, MAX_HOURS - 1));
    }
}
