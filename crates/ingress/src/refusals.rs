//! The latest requests that started nothing, by Automation: for the author who looks for a delivery that is missing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::AutomationId;
use serde::Serialize;
use utoipa::ToSchema;

/// The number of refusals kept of one Automation.
pub const MAX_REFUSALS: usize = 100;
/// The number of refusals kept in all, about 5 MB. Above it the oldest of all Automations is dropped.
const MAX_TOTAL: usize = 20_000;

/// A request that started nothing: without its body and its headers, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Refusal {
    /// The time of the response.
    pub at: Timestamp,
    /// The reason, by the names of `refused`.
    pub reason: &'static str,
    /// The HTTP status that was sent.
    pub status: u16,
    /// The request.
    #[serde(flatten)]
    pub request: RefusedRequest,
}

/// The parts of a refused request that are kept. All texts are shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedRequest {
    /// True for a request to the test address.
    #[serde(rename = "test")]
    pub is_test: bool,
    /// The HTTP method.
    pub method: String,
    /// The path after the token, shortened.
    pub fragment: String,
    /// The content type; absent if none was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The size of the body; absent if it was refused before it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The latest refusals of every Automation.
#[derive(Default)]
pub(crate) struct RefusalLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    of: HashMap<AutomationId, VecDeque<Refusal>>,
    total: usize,
}

impl RefusalLog {
    /// Adds a refusal. A flood of one Automation displaces its own refusals only.
    pub(crate) fn record(&self, automation: &AutomationId, refusal: Refusal) {
        let mut state = self.state();
        let kept = match state.of.get_mut(automation) {
            Some(kept) => kept,
            None => state.of.entry(automation.clone()).or_default(),
        };
        kept.push_back(refusal);
        if kept.len() > MAX_REFUSALS {
            kept.pop_front();
            return;
        }
        state.total += 1;
        if state.total > MAX_TOTAL {
            state.drop_oldest();
        }
    }

    /// The refusals of an Automation, newest first.
    #[must_use]
    pub(crate) fn of(&self, automation: &AutomationId) -> Vec<Refusal> {
        self.state().of.get(automation).map(|kept| kept.iter().rev().cloned().collect()).unwrap_or_default()
    }

    /// Deletes the refusals of Automations that are no longer in force.
    pub(crate) fn forget(&self, gone: &[AutomationId]) {
        let mut state = self.state();
        for id in gone {
            let dropped = state.of.remove(id).map_or(0, |kept| kept.len());
            state.total -= dropped;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn drop_oldest(&mut self) {
        let oldest = self.of.iter().filter_map(|(id, kept)| Some((kept.front()?.at, id)));
        let Some((_, id)) = oldest.min_by_key(|(at, _)| *at) else { return };
        let id = id.clone();
        if let Some(kept) = self.of.get_mut(&id) {
            kept.pop_front();
            self.total -= 1;
            if kept.is_empty() {
                self.of.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(second: i64) -> Refusal {
        let at = Timestamp::from_second(second).expect("an instant");
        Refusal { at, reason: "invalid_signature", status: 401, request: RefusedRequest::default() }
    }

    fn id(text: &str) -> AutomationId {
        AutomationId::parse(text).expect("an id")
    }

    #[test]
    fn the_latest_hundred_refusals_are_kept_newest_first() {
        let log = RefusalLog::default();
        (0..150).for_each(|second| log.record(&id("a"), refusal(second)));
        let kept = log.of(&id("a"));
        assert_eq!((kept.len(), kept[0].at.as_second(), kept[99].at.as_second()), (100, 149, 50));
        assert_eq!(log.of(&id("b")), []);
        log.forget(&[id("a")]);
        assert_eq!((log.of(&id("a")), log.state().total), (Vec::new(), 0));
    }

    #[test]
    fn a_flood_displaces_the_refusals_of_its_own_automation_only() {
        let log = RefusalLog::default();
        log.record(&id("quiet"), refusal(5000));
        (0..50_000).for_each(|second| log.record(&id("flood"), refusal(second)));
        assert_eq!((log.of(&id("quiet")).len(), log.of(&id("flood")).len()), (1, MAX_REFUSALS));
    }

    #[test]
    fn the_refusals_of_all_automations_are_bounded() {
        let log = RefusalLog::default();
        for automation in 0..250_i64 {
            (0..100).for_each(|second| {
                log.record(&id(&format!("a{automation}")), refusal(automation * 100 + second))
            });
        }
        assert_eq!(log.state().total, MAX_TOTAL);
        assert_eq!(log.state().of.values().map(VecDeque::len).sum::<usize>(), MAX_TOTAL);
        assert_eq!((log.of(&id("a0")).len(), log.of(&id("a249")).len()), (0, 100));
    }
}
