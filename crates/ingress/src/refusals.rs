//! The latest requests that started nothing, by trigger: for the author who looks for a delivery that is missing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::AutomationId;
use model::automation::{TriggerId, TriggerKey};
use serde::Serialize;
use utoipa::ToSchema;

use crate::changes::known_triggers;

/// The number of refusals kept of one trigger.
pub const MAX_REFUSALS: usize = 100;
/// The number of refusals kept in all, about 5 MB. Above it the oldest of all triggers is dropped.
const MAX_TOTAL: usize = 20_000;

/// A request that started nothing: without its body and its headers, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Refusal {
    /// The time of the response.
    pub at: Timestamp,
    /// The id of the trigger; absent for `main`.
    #[serde(skip_serializing_if = "TriggerId::is_main")]
    #[schema(value_type = Option<String>)]
    pub trigger: TriggerId,
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

/// The latest refusals of every trigger.
#[derive(Default)]
pub(crate) struct RefusalLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    of: BTreeMap<TriggerKey, VecDeque<Refusal>>,
    total: usize,
}

impl RefusalLog {
    /// Adds a refusal. A flood of one trigger displaces its own refusals only.
    pub(crate) fn record(&self, automation: &AutomationId, refusal: Refusal) {
        let mut state = self.state();
        let kept = state.of.entry(TriggerKey::new(automation.clone(), refusal.trigger.clone())).or_default();
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

    /// The latest refusals of an Automation, or of one of its triggers, newest first.
    #[must_use]
    pub(crate) fn of(&self, automation: &AutomationId, trigger: Option<&TriggerId>) -> Vec<Refusal> {
        let state = self.state();
        let keys = known_triggers(&state.of, automation).into_iter();
        let keys = keys.filter(|key| trigger.is_none_or(|trigger| key.trigger == *trigger));
        let kept = keys.filter_map(|key| state.of.get(&key));
        let mut kept: Vec<Refusal> = kept.flat_map(|kept| kept.iter().rev()).cloned().collect();
        kept.sort_by_key(|refusal| Reverse(refusal.at));
        kept.truncate(MAX_REFUSALS);
        kept
    }

    /// Deletes the refusals of Automations that are no longer in force.
    pub(crate) fn forget(&self, gone: &[AutomationId]) {
        let mut state = self.state();
        for key in gone.iter().flat_map(|id| known_triggers(&state.of, id)).collect::<Vec<_>>() {
            let dropped = state.of.remove(&key).map_or(0, |kept| kept.len());
            state.total -= dropped;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn drop_oldest(&mut self) {
        let oldest = self.of.iter().filter_map(|(key, kept)| Some((kept.front()?.at, key)));
        let Some((_, key)) = oldest.min_by_key(|(at, _)| *at) else { return };
        let key = key.clone();
        if let Some(kept) = self.of.get_mut(&key) {
            kept.pop_front();
            self.total -= 1;
            if kept.is_empty() {
                self.of.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(second: i64) -> Refusal {
        let at = Timestamp::from_second(second).expect("an instant");
        let trigger = TriggerId::MAIN;
        Refusal { at, trigger, reason: "invalid_signature", status: 401, request: RefusedRequest::default() }
    }

    fn id(text: &str) -> AutomationId {
        AutomationId::parse(text).expect("an id")
    }

    #[test]
    fn the_latest_hundred_refusals_are_kept_newest_first() {
        let log = RefusalLog::default();
        (0..150).for_each(|second| log.record(&id("a"), refusal(second)));
        let kept = log.of(&id("a"), None);
        assert_eq!((kept.len(), kept[0].at.as_second(), kept[99].at.as_second()), (100, 149, 50));
        assert_eq!(log.of(&id("b"), None), []);
        log.forget(&[id("a")]);
        assert_eq!((log.of(&id("a"), None), log.state().total), (Vec::new(), 0));
    }

    #[test]
    fn refusals_are_kept_by_trigger() {
        let log = RefusalLog::default();
        let paid = TriggerId::parse("paid").expect("an id");
        let of_paid = |second| Refusal { trigger: paid.clone(), ..refusal(second) };
        (0..200).for_each(|second| log.record(&id("a"), refusal(second)));
        log.record(&id("a"), of_paid(5));
        log.record(&id("a"), of_paid(500));
        let seconds = |trigger| {
            log.of(&id("a"), trigger).iter().map(|one| one.at.as_second()).take(2).collect::<Vec<_>>()
        };
        assert_eq!(seconds(Some(&paid)), [500, 5], "the flood of the other trigger displaced nothing");
        assert_eq!(seconds(Some(&TriggerId::MAIN)), [199, 198]);
        assert_eq!((seconds(None), log.of(&id("a"), None).len()), (vec![500, 199], MAX_REFUSALS));
        log.forget(&[id("a")]);
        assert_eq!((log.of(&id("a"), None), log.state().total), (Vec::new(), 0));
    }

    #[test]
    fn a_flood_displaces_the_refusals_of_its_own_automation_only() {
        let log = RefusalLog::default();
        log.record(&id("quiet"), refusal(5000));
        (0..50_000).for_each(|second| log.record(&id("flood"), refusal(second)));
        assert_eq!((log.of(&id("quiet"), None).len(), log.of(&id("flood"), None).len()), (1, MAX_REFUSALS));
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
        assert_eq!((log.of(&id("a0"), None).len(), log.of(&id("a249"), None).len()), (0, 100));
    }
}
