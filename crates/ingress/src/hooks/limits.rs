//! State of webhook addresses: rate limits, key usage and open pairings. It is lost when the process ends. Where nodes share a store, that
//! has the rate limits and the pairings.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{AutomationId, RateLimit, TriggerKey};
use store::{BucketKind, Store};
use tokio::sync::OwnedMutexGuard;
use trigger::Rejection;
use trigger::dedup::DedupKey;

use catalog::Route;
use runtime::{Context, KeyedLocks};

use super::shared_limits::SharedBuckets;

/// Rate limit for challenges, which unauthenticated senders can send.
const CHALLENGE_RATE: RateLimit = RateLimit { max: 5, per: Duration::from_secs(1), burst: 20 };

/// Per-address state of webhooks. Its size is bounded by the number of Automations in force: removed Automations are
/// deleted by [`Self::forget`].
#[derive(Default)]
pub(crate) struct RateLimits {
    state: Mutex<State>,
    /// Serialises identical requests: one lock for each deduplication key, held until the first execution is committed.
    dedup_locks: KeyedLocks,
    /// The tokens of rate limits where several nodes share the store.
    shared: SharedBuckets,
}

#[derive(Default)]
struct State {
    starts: HashMap<(TriggerKey, bool), Bucket>,
    challenges: HashMap<(TriggerKey, bool), Bucket>,
    /// Time at which each key last verified a request, by the key's index.
    keys: HashMap<TriggerKey, BTreeMap<usize, Timestamp>>,
    /// Expiry times of open pairings.
    pairings: HashMap<TriggerKey, Timestamp>,
}

/// Token bucket: tokens refill at a constant rate and each start takes one.
struct Bucket {
    rule: RateLimit,
    tokens: f64,
    at: Timestamp,
}

impl RateLimits {
    /// Acquires the lock of a deduplication key.
    pub(super) async fn lock_dedup_key(&self, trigger: &TriggerKey, name: &DedupKey) -> OwnedMutexGuard<()> {
        self.dedup_locks.lock(&format!("{trigger}/{}", hex::encode(name.key))).await
    }

    /// Rejects a start that exceeds the trigger's rate limit, which holds over all nodes that share the store. A process that has
    /// its store to itself counts in memory.
    pub(super) async fn check_rate(
        &self,
        context: &Context,
        route: &Route,
        rule: RateLimit,
    ) -> Result<(), Rejection> {
        if context.store.node().is_some() {
            return self.shared.check_rate(context, route, BucketKind::Start, rule).await;
        }
        take(&mut self.state().starts, route, rule, context.clock.now())
    }

    /// Rejects a challenge that exceeds the rate limit, which holds over all nodes like that of starts.
    pub(super) async fn check_challenge_rate(
        &self,
        context: &Context,
        route: &Route,
    ) -> Result<(), Rejection> {
        if context.store.node().is_some() {
            return self.shared.check_rate(context, route, BucketKind::Challenge, CHALLENGE_RATE).await;
        }
        take(&mut self.state().challenges, route, CHALLENGE_RATE, context.clock.now())
    }

    /// Records that a key verified a request.
    pub(super) fn record_key_use(&self, trigger: &TriggerKey, key: usize, now: Timestamp) {
        let mut state = self.state();
        match state.keys.get_mut(trigger) {
            Some(keys) => keys.insert(key, now).is_some(),
            None => state.keys.insert(trigger.clone(), BTreeMap::from([(key, now)])).is_some(),
        };
    }

    pub(super) fn keys_used(&self, trigger: &TriggerKey) -> BTreeMap<usize, Timestamp> {
        self.state().keys.get(trigger).cloned().unwrap_or_default()
    }

    /// Deletes the state of Automations that are no longer in force.
    pub(crate) fn forget(&self, removed: &[AutomationId]) {
        if removed.is_empty() {
            return;
        }
        self.shared.forget(removed);
        let mut state = self.state();
        let is_left = |trigger: &TriggerKey| !removed.contains(&trigger.automation);
        state.starts.retain(|(trigger, _), _| is_left(trigger));
        state.challenges.retain(|(trigger, _), _| is_left(trigger));
        state.keys.retain(|trigger, _| is_left(trigger));
        state.pairings.retain(|trigger, _| is_left(trigger));
    }

    /// Goes on under the key to which the records of a trigger have moved.
    pub(crate) fn rename(&self, from: &TriggerKey, to: &TriggerKey) {
        let mut state = self.state();
        let State { starts, challenges, keys, pairings } = &mut *state;
        for is_test in [false, true] {
            for buckets in [&mut *starts, &mut *challenges] {
                let bucket = buckets.remove(&(from.clone(), is_test));
                buckets.extend(bucket.map(|bucket| ((to.clone(), is_test), bucket)));
            }
        }
        let (used, until) = (keys.remove(from), pairings.remove(from));
        keys.extend(used.map(|used| (to.clone(), used)));
        pairings.extend(until.map(|until| (to.clone(), until)));
    }

    /// Deletes the key usage of changed Automations, whose files may define other keys now.
    pub(crate) fn forget_keys(&self, changed: &[AutomationId]) {
        if !changed.is_empty() {
            self.state().keys.retain(|trigger, _| !changed.contains(&trigger.automation));
        }
    }

    /// Opens a pairing, at all nodes that share the store.
    pub(super) async fn open_pairing(
        &self,
        store: &dyn Store,
        trigger: &TriggerKey,
        until: Timestamp,
    ) -> Result<(), store::Error> {
        if store.node().is_some() {
            return store.open_pairing(trigger, until).await;
        }
        self.state().pairings.insert(trigger.clone(), until);
        Ok(())
    }

    /// Returns the end of an open pairing.
    pub(super) async fn pairing(
        &self,
        store: &dyn Store,
        trigger: &TriggerKey,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, store::Error> {
        let until = match store.node() {
            Some(_) => store.pairing(trigger).await?,
            None => self.state().pairings.get(trigger).copied(),
        };
        Ok(until.filter(|until| now < *until))
    }

    /// Closes a pairing. Returns false if none was open: only one of several simultaneous senders gets it.
    pub(super) async fn close_pairing(
        &self,
        store: &dyn Store,
        trigger: &TriggerKey,
        now: Timestamp,
    ) -> Result<bool, store::Error> {
        if store.node().is_some() {
            return store.close_pairing(trigger, now).await;
        }
        Ok(self.state().pairings.remove(trigger).is_some_and(|until| now < until))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(
    buckets: &mut HashMap<(TriggerKey, bool), Bucket>,
    route: &Route,
    rule: RateLimit,
    now: Timestamp,
) -> Result<(), Rejection> {
    let full = || Bucket { rule, tokens: f64::from(rule.burst), at: now };
    let key = (route.mount.key(), route.is_test);
    let bucket = buckets.entry(key).or_insert_with(full);
    if bucket.rule != rule {
        *bucket = full();
    }
    bucket.take(now).map_err(Rejection::rate_limited)
}

impl Bucket {
    /// Takes a token, or returns the time until the next one is available.
    fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        let per_second = f64::from(self.rule.max) / self.rule.per.as_secs_f64();
        // A clock that was set back neither adds nor removes tokens.
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.tokens = (self.tokens + passed * per_second).min(f64::from(self.rule.burst));
        self.at = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_bucket_refills_and_returns_the_time_until_the_next_token() {
        let at = |millis| Timestamp::from_millisecond(millis).expect("an instant");
        let rule = RateLimit { max: 2, per: Duration::from_secs(1), burst: 3 };
        let mut bucket = Bucket { rule, tokens: 3.0, at: at(0) };
        let mut taken = |millis| bucket.take(at(millis));
        assert_eq!([taken(0), taken(0), taken(0)], [Ok(()); 3]);
        assert_eq!(taken(0), Err(Duration::from_millis(500)));
        assert_eq!(taken(250), Err(Duration::from_millis(250)));
        assert_eq!([taken(500), taken(500)], [Ok(()), Err(Duration::from_millis(500))]);
        // The clock goes back, then far forward: the bucket never exceeds its burst.
        assert_eq!(taken(100), Err(Duration::from_millis(500)));
        assert_eq!([taken(90_000); 1], [Ok(())]);
        assert_eq!([taken(90_000), taken(90_000)], [Ok(()); 2]);
        assert!(taken(90_000).is_err());
    }
}
