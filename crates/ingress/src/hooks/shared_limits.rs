//! Rate limits over all daemons that share a store: a node takes tokens from the bucket in the store, several at once, and uses them here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::automation::{AutomationId, RateLimit, TriggerKey};
use store::{BucketKind, TokenGrant, TokenRequest};
use trigger::Rejection;

use catalog::Route;
use runtime::{Context, MonotonicTime};

/// The part of a burst that a node takes at once.
const BLOCKS: u32 = 8;
/// The time in which a node uses the tokens that it has taken. Then they are lost, since they may be in the bucket again.
const HOLD: Duration = Duration::from_secs(1);
/// The time that a request waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time after a failure of the store in which requests are refused without asking it.
const PAUSE: Duration = Duration::from_secs(1);

/// The tokens of this node, by Automation, `true` for its test address, and the limited requests. Bounded by the Automations in force.
#[derive(Default)]
pub(super) struct SharedBuckets {
    shares: Mutex<Shares>,
}

type Shares = HashMap<(TriggerKey, bool, BucketKind), Arc<tokio::sync::Mutex<Share>>>;

/// The tokens of one bucket that this node holds.
struct Share {
    rule: RateLimit,
    tokens: u32,
    /// The end of the time in which it may use them.
    until: MonotonicTime,
    refusal: Option<Refusal>,
}

/// A refusal of the store that also applies to later requests.
#[derive(Clone, Copy)]
enum Refusal {
    /// The bucket is empty until then.
    Empty(MonotonicTime),
    /// The store failed; it is not queried until then.
    Failed(MonotonicTime),
}

impl SharedBuckets {
    /// Takes a token, or rejects the request. Without an answer of the store it is rejected with 503: its start could not be stored either.
    pub(super) async fn check_rate(
        &self,
        context: &Context,
        route: &Route,
        kind: BucketKind,
        rule: RateLimit,
    ) -> Result<(), Rejection> {
        let share = self.share(route, kind, rule, context.clock.monotonic_now());
        // One asks at a time; the others use what it gets.
        let mut share = share.lock().await;
        let now = context.clock.monotonic_now();
        if let Some(decided) = share.decide(rule, now) {
            return decided;
        }
        let request = TokenRequest {
            trigger: route.mount.key(),
            test: route.is_test,
            kind,
            per_second: f64::from(rule.max) / rule.per.as_secs_f64(),
            burst: rule.burst,
            wanted: (rule.burst / BLOCKS).max(1),
            hold: HOLD,
        };
        let taken = tokio::select! {
            biased;
            taken = context.store.take_tokens(request) => taken.map_err(|error| error.to_string()),
            () = context.clock.sleep_for(PATIENCE) => Err("it does not answer".to_owned()),
        };
        match taken {
            Ok(grant) => share.receive(grant, now),
            Err(error) => {
                let automation = &route.mount.deployment.automation.id;
                if context.store.outage().is_none() {
                    tracing::warn!(%automation, error, "requests are refused: the store cannot be asked for their rate");
                }
                share.refusal = Some(Refusal::Failed(context.clock.monotonic_now().after(PAUSE)));
                Err(unavailable(PAUSE))
            }
        }
    }

    /// Deletes the tokens of Automations that are no longer in force.
    pub(super) fn forget(&self, removed: &[AutomationId]) {
        let mut shares = self.shares();
        shares.retain(|(trigger, _, _), _| !removed.contains(&trigger.automation));
    }

    fn share(
        &self,
        route: &Route,
        kind: BucketKind,
        rule: RateLimit,
        now: MonotonicTime,
    ) -> Arc<tokio::sync::Mutex<Share>> {
        let key = (route.mount.key(), route.is_test, kind);
        let new = || Arc::new(tokio::sync::Mutex::new(Share::new(rule, now)));
        self.shares().entry(key).or_insert_with(new).clone()
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn new(rule: RateLimit, now: MonotonicTime) -> Self {
        Self { rule, tokens: 0, until: now, refusal: None }
    }

    /// Decides without the store: uses a local token, or repeats a refusal that still applies. `None` if the store must decide.
    fn decide(&mut self, rule: RateLimit, now: MonotonicTime) -> Option<Result<(), Rejection>> {
        if self.rule != rule {
            *self = Self::new(rule, now);
        }
        if self.tokens > 0 && now < self.until {
            self.tokens -= 1;
            return Some(Ok(()));
        }
        match self.refusal {
            Some(Refusal::Empty(until)) if now < until => {
                Some(Err(Rejection::rate_limited(until.since(now))))
            }
            Some(Refusal::Failed(until)) if now < until => Some(Err(unavailable(until.since(now)))),
            _ => None,
        }
    }

    /// Takes the answer to a request that was sent at `sent`, and uses one of its tokens.
    fn receive(&mut self, grant: TokenGrant, sent: MonotonicTime) -> Result<(), Rejection> {
        match grant.granted.checked_sub(1) {
            Some(left) => {
                *self = Self { rule: self.rule, tokens: left, until: sent.after(HOLD), refusal: None };
                Ok(())
            }
            None => {
                self.tokens = 0;
                self.refusal = Some(Refusal::Empty(sent.after(grant.retry_after)));
                Err(Rejection::rate_limited(grant.retry_after))
            }
        }
    }
}

fn unavailable(retry_after: Duration) -> Rejection {
    Rejection::unavailable("the database that counts the requests does not answer; try again", retry_after)
}
