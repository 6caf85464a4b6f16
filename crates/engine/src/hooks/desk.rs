//! What is remembered of addresses while the process lives: how often each was asked, and who waits for a sender to bring
//! its secret.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{AutomationId, RateLimit};
use tokio::sync::OwnedMutexGuard;
use trigger::Rejection;
use trigger::dedup::DedupKey;

use crate::catalog::Mounted;
use crate::locks::KeyedLocks;

/// How often an address answers challenges, each of which costs a stranger nothing.
const CHALLENGES: RateLimit = RateLimit { max: 5, per: Duration::from_secs(1), burst: 20 };

/// What is remembered of addresses. Bounded by the Automations in force: those that go are forgotten.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Who looks whether something was sent before, one at a time, until it is known to all that it was.
    sendings: KeyedLocks,
}

#[derive(Default)]
struct State {
    starts: HashMap<(AutomationId, bool), Bucket>,
    challenges: HashMap<(AutomationId, bool), Bucket>,
    /// When each key last proved a request, by its place.
    keys: HashMap<AutomationId, BTreeMap<usize, Timestamp>>,
    /// Until when somebody waits for a secret.
    pairings: HashMap<AutomationId, Timestamp>,
}

/// Tokens that come back evenly; each start takes one.
struct Bucket {
    rule: RateLimit,
    tokens: f64,
    at: Timestamp,
}

impl Desk {
    /// Waits for its turn among those that send the same at one time.
    pub(super) async fn turn(&self, automation: &AutomationId, name: &DedupKey) -> OwnedMutexGuard<()> {
        self.sendings.lock(&format!("{automation}/{}", hex::encode(name.key))).await
    }

    /// Refuses a start that comes too soon.
    pub(super) fn pace(&self, mounted: &Mounted, rule: &RateLimit, now: Timestamp) -> Result<(), Rejection> {
        take(&mut self.state().starts, mounted, *rule, now)
    }

    /// Refuses a challenge that comes too soon.
    pub(super) fn pace_challenge(&self, mounted: &Mounted, now: Timestamp) -> Result<(), Rejection> {
        take(&mut self.state().challenges, mounted, CHALLENGES, now)
    }

    /// Notes that a key proved a request.
    pub(super) fn note_key(&self, automation: &AutomationId, key: usize, now: Timestamp) {
        let mut state = self.state();
        match state.keys.get_mut(automation) {
            Some(keys) => keys.insert(key, now).is_some(),
            None => state.keys.insert(automation.clone(), BTreeMap::from([(key, now)])).is_some(),
        };
    }

    pub(super) fn keys_used(&self, automation: &AutomationId) -> BTreeMap<usize, Timestamp> {
        self.state().keys.get(automation).cloned().unwrap_or_default()
    }

    /// Forgets Automations that are no longer in force.
    pub(crate) fn forget(&self, gone: &[AutomationId]) {
        if gone.is_empty() {
            return;
        }
        let mut state = self.state();
        for id in gone {
            for test in [false, true] {
                state.starts.remove(&(id.clone(), test));
                state.challenges.remove(&(id.clone(), test));
            }
            state.keys.remove(id);
            state.pairings.remove(id);
        }
    }

    /// Forgets when keys were used of Automations whose files may name others now.
    pub(crate) fn forget_keys(&self, changed: &[AutomationId]) {
        if !changed.is_empty() {
            let mut state = self.state();
            changed.iter().for_each(|id| drop(state.keys.remove(id)));
        }
    }

    pub(super) fn open_pairing(&self, automation: &AutomationId, until: Timestamp) {
        self.state().pairings.insert(automation.clone(), until);
    }

    pub(super) fn pairing(&self, automation: &AutomationId, now: Timestamp) -> Option<Timestamp> {
        self.state().pairings.get(automation).copied().filter(|until| now < *until)
    }

    /// Ends a pairing. False if none was open: of several that come at once, one has it.
    pub(super) fn close_pairing(&self, automation: &AutomationId, now: Timestamp) -> bool {
        self.state().pairings.remove(automation).is_some_and(|until| now < until)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(
    buckets: &mut HashMap<(AutomationId, bool), Bucket>,
    mounted: &Mounted,
    rule: RateLimit,
    now: Timestamp,
) -> Result<(), Rejection> {
    let full = || Bucket { rule, tokens: f64::from(rule.burst), at: now };
    let key = (mounted.deployed.automation.id.clone(), mounted.test);
    let bucket = buckets.entry(key).or_insert_with(full);
    if bucket.rule != rule {
        *bucket = full();
    }
    bucket.take(now).map_err(Rejection::rate_limited)
}

impl Bucket {
    /// Takes a token, or says in what time there will be one.
    fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        let a_second = f64::from(self.rule.max) / self.rule.per.as_secs_f64();
        // A clock that was set back gives nothing, and takes nothing away.
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.tokens = (self.tokens + passed * a_second).min(f64::from(self.rule.burst));
        self.at = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / a_second));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_comes_back_and_says_when_more_will() {
        let at = |millis| Timestamp::from_millisecond(millis).expect("an instant");
        let rule = RateLimit { max: 2, per: Duration::from_secs(1), burst: 3 };
        let mut bucket = Bucket { rule, tokens: 3.0, at: at(0) };
        let mut taken = |millis| bucket.take(at(millis));
        assert_eq!([taken(0), taken(0), taken(0)], [Ok(()); 3]);
        assert_eq!(taken(0), Err(Duration::from_millis(500)));
        assert_eq!(taken(250), Err(Duration::from_millis(250)));
        assert_eq!([taken(500), taken(500)], [Ok(()), Err(Duration::from_millis(500))]);
        // Set back, then far ahead: no more than fits.
        assert_eq!(taken(100), Err(Duration::from_millis(500)));
        assert_eq!([taken(90_000); 1], [Ok(())]);
        assert_eq!([taken(90_000), taken(90_000)], [Ok(()); 2]);
        assert!(taken(90_000).is_err());
    }
}
