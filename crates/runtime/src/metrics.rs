//! Counters and histograms of the running engine, for the metrics endpoint.
//!
//! Counters and histograms only: gauges are read from the state at each request. No count is kept by
//! automation, since the number of automations has no bound; those by action are bounded by [`MAX_ACTIONS`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use model::execution::{DelayReason, Origin, Status};
use model::metric::{Counter, Histogram, WAIT_BOUNDS, WORK_BOUNDS};

/// The maximum number of actions with their own counts; all further ones are counted together as [`OTHER_ACTIONS`].
pub const MAX_ACTIONS: usize = 500;
/// The name of all actions beyond [`MAX_ACTIONS`].
pub const OTHER_ACTIONS: &str = "other";
/// The name of code blocks among the actions.
pub const CODE_BLOCKS: &str = "code";

/// The origins of executions, in the order of their counters.
const ORIGINS: [&str; 9] =
    ["webhook", "test", "schedule", "poll", "event", "manual", "call", "replay", "emitted"];
/// The final states of executions, in the order of their counters.
const OUTCOMES: [Status; 4] = [Status::Succeeded, Status::Failed, Status::Cancelled, Status::Stuck];
/// The highest status code of HTTP.
const MAX_CODE: usize = 599;

/// The counters and histograms of one engine.
pub struct Metrics {
    accepted: [Counter; ORIGINS.len()],
    ended: [Counter; OUTCOMES.len()],
    /// The waits of executions for a slot, memory or a permit.
    pub queue_waits: Arc<QueueWaits>,
    /// The time from the instant of a schedule to the acceptance of its execution.
    pub schedule_lateness: Histogram,
    /// Polls that got an answer.
    pub polls_succeeded: Counter,
    /// Polls that failed.
    pub polls_failed: Counter,
    /// New items that polls found.
    pub poll_items: Counter,
    /// Messages of brokers that started nothing and went to the message list.
    pub messages_poisoned: Counter,
    /// Executions that came from other nodes.
    pub adopted: Counter,
    answers: Box<[Counter]>,
    actions: ArcSwap<HashMap<String, Arc<ActionMetrics>>>,
    /// Held while an action is added.
    adding: Mutex<()>,
}

/// The waits of executions for a slot or a permit. One that does not have to wait is not counted.
pub struct QueueWaits {
    /// For a slot.
    pub slot: Histogram,
    /// For memory for the large data of a trigger.
    pub memory: Histogram,
    /// For a permit of a concurrency group.
    pub permit: Histogram,
}

/// The calls of one action.
pub struct ActionMetrics {
    /// The working time of its attempts.
    pub duration: Histogram,
    /// Attempts that failed.
    pub failures: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            accepted: Default::default(),
            ended: Default::default(),
            queue_waits: Arc::default(),
            schedule_lateness: Histogram::new(WAIT_BOUNDS),
            polls_succeeded: Counter::default(),
            polls_failed: Counter::default(),
            adopted: Counter::default(),
            poll_items: Counter::default(),
            messages_poisoned: Counter::default(),
            answers: (0..=MAX_CODE).map(|_| Counter::default()).collect(),
            actions: ArcSwap::default(),
            adding: Mutex::default(),
        }
    }
}

impl Default for QueueWaits {
    fn default() -> Self {
        let histogram = || Histogram::new(WAIT_BOUNDS);
        Self { slot: histogram(), memory: histogram(), permit: histogram() }
    }
}

impl QueueWaits {
    /// Counts a wait that has ended.
    pub(crate) fn observe(&self, reason: &DelayReason, waited: Duration) {
        match reason {
            DelayReason::Slot => self.slot.observe_duration(waited),
            DelayReason::Memory => self.memory.observe_duration(waited),
            DelayReason::Permit { .. } => self.permit.observe_duration(waited),
            DelayReason::Commit | DelayReason::Host { .. } => {}
        }
    }
}

impl Default for ActionMetrics {
    fn default() -> Self {
        Self { duration: Histogram::new(WORK_BOUNDS), failures: Counter::default() }
    }
}

impl Metrics {
    /// Counts the acceptance of an execution.
    pub(crate) fn count_accepted(&self, origin: &Origin) {
        let index = match origin {
            Origin::Webhook => 0,
            Origin::Test => 1,
            Origin::Schedule { .. } => 2,
            Origin::Poll => 3,
            Origin::Event => 4,
            Origin::Manual => 5,
            Origin::Call { .. } => 6,
            Origin::Replay { .. } => 7,
            Origin::Emitted { .. } => 8,
            // Another daemon accepted it.
            Origin::Imported { .. } => return,
        };
        self.accepted[index].increment();
    }

    /// Counts the end of an execution.
    pub(crate) fn count_ended(&self, status: Status) {
        if let Some(index) = OUTCOMES.iter().position(|outcome| *outcome == status) {
            self.ended[index].increment();
        }
    }

    /// Counts the answer to a request on a webhook.
    pub fn count_answer(&self, code: u16) {
        if let Some(counter) = self.answers.get(usize::from(code)) {
            counter.increment();
        }
    }

    /// Counts an attempt of an action, and its working time.
    pub(crate) fn count_attempt(&self, action: &str, took_us: u64, failed: bool) {
        let actions = self.actions.load();
        match actions.get(action) {
            Some(metrics) => metrics.count(took_us, failed),
            None => self.add_action(action).count(took_us, failed),
        }
    }

    /// Adds an action at its first attempt.
    #[cold]
    fn add_action(&self, action: &str) -> Arc<ActionMetrics> {
        let _alone = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.actions.load();
        let name = if before.len() < MAX_ACTIONS { action } else { OTHER_ACTIONS };
        if let Some(metrics) = before.get(action).or_else(|| before.get(name)) {
            return metrics.clone();
        }
        let metrics = Arc::<ActionMetrics>::default();
        let mut after = HashMap::clone(&before);
        after.insert(name.to_owned(), metrics.clone());
        self.actions.store(Arc::new(after));
        metrics
    }

    /// The accepted executions by origin.
    pub fn accepted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ORIGINS.into_iter().zip(self.accepted.iter().map(Counter::get))
    }

    /// The ended executions by outcome.
    pub fn ended(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES.into_iter().map(|status| status.as_str()).zip(self.ended.iter().map(Counter::get))
    }

    /// The answers to requests on webhooks by status code, without codes that no request got.
    pub fn answers(&self) -> impl Iterator<Item = (usize, u64)> {
        self.answers.iter().map(Counter::get).enumerate().filter(|(_, count)| *count > 0)
    }

    /// The actions that were called, by name.
    #[must_use]
    pub fn actions(&self) -> Vec<(String, Arc<ActionMetrics>)> {
        let mut actions: Vec<_> =
            self.actions.load().iter().map(|(name, metrics)| (name.clone(), metrics.clone())).collect();
        actions.sort_by(|one, other| one.0.cmp(&other.0));
        actions
    }
}

impl ActionMetrics {
    fn count(&self, took_us: u64, failed: bool) {
        self.duration.observe(took_us);
        if failed {
            self.failures.increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_beyond_the_limit_are_counted_together() {
        let metrics = Metrics::default();
        for index in 0..MAX_ACTIONS + 20 {
            metrics.count_attempt(&format!("connector.action{index}"), 1, index % 2 == 0);
        }
        metrics.count_attempt("connector.action0", 1, true);
        let actions = metrics.actions();
        assert_eq!(actions.len(), MAX_ACTIONS + 1);
        let count = |name: &str| {
            let found = actions.iter().find(|(action, _)| action == name);
            found.map(|(_, metrics)| (metrics.duration.snapshot().count(), metrics.failures.get()))
        };
        assert_eq!(count("connector.action0"), Some((2, 2)));
        assert_eq!(count(OTHER_ACTIONS), Some((20, 10)));
    }

    #[test]
    fn every_origin_and_outcome_has_its_own_counter() {
        let metrics = Metrics::default();
        metrics.count_accepted(&Origin::Poll);
        metrics.count_ended(Status::Stuck);
        assert_eq!(metrics.accepted().find(|(_, count)| *count > 0), Some((Origin::Poll.as_str(), 1)));
        assert_eq!(metrics.ended().find(|(_, count)| *count > 0), Some(("stuck", 1)));
        metrics.count_answer(202);
        metrics.count_answer(60_000);
        assert_eq!(metrics.answers().collect::<Vec<_>>(), [(202, 1)]);
    }
}
