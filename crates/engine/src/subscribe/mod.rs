//! Subscriptions: other applications are made to tell of events, and to stop. What is wanted follows from the automations
//! in force; what there is, is in the store. The two are held against each other at every start and every reload, and
//! whatever differs is set right, again and again until it is.

mod call;
mod orphans;
mod receive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::automation::AutomationId;
use model::value::{Map, Value};
use store::Subscription;
use tokio::sync::{Notify, Semaphore};

use crate::catalog::{Catalog, Deployed, hooked};
use crate::clock::{Clock, Steady};
use crate::engine::Engine;
use crate::locks::KeyedLocks;
use crate::reload::Listener;
use crate::services::Services;
use crate::spelling::written;
use crate::timer::{Due, Timed};

/// How many subscriptions are made or taken back at one time.
const AT_ONCE: usize = 8;
/// The shortest and the longest pause after one that failed.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// After how many failures one that is to be taken back is given up: about a day.
const MOST_FAILURES: u32 = 32;

/// The subscriptions there are, have to be, or have to go, by their own ids.
pub(crate) struct Subscriptions {
    state: Mutex<BTreeMap<String, Entry>>,
    /// Held while one is read, changed and written down: whoever tells a subscription to go while it is made must not
    /// write over what the other application calls it, or nobody could take it back.
    changing: tokio::sync::Mutex<()>,
    /// Told when something may have to be done.
    wake: Notify,
    slots: Semaphore,
    /// Who asks the other application for an Automation, one at a time: what is being made must not be taken for something
    /// that nobody knows of.
    locks: KeyedLocks,
}

struct Entry {
    subscription: Subscription,
    /// When it is tried next: what the subscription says of it is what the wall clock showed when that was decided.
    next: Option<Steady>,
    /// Whether the other application is asked at this moment.
    busy: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            wake: Notify::new(),
            slots: Semaphore::new(AT_ONCE),
            locks: KeyedLocks::default(),
        }
    }
}

/// Holds what there is against what is wanted until the engine stops.
pub(crate) async fn run(services: Arc<Services>) {
    // Somebody may listen already: what is written down for that is known here, too, or comes after this.
    let changing = services.subscriptions.changing.lock().await;
    let stored = services.store.subscriptions().await;
    let concerned = stored.map(|stored| services.subscriptions.take_over(stored, &*services.clock));
    drop(changing);
    match concerned {
        Ok(concerned) => services.timer().run(Comparison { services, concerned }).await,
        Err(error) => {
            tracing::error!(%error, "no event is subscribed to: the subscriptions cannot be read");
        }
    }
}

/// Holds what there is against what is wanted, and sets it right at the instants that are set for it.
struct Comparison {
    services: Arc<Services>,
    /// Whom that which was stored concerns, until it has been compared.
    concerned: BTreeSet<AutomationId>,
}

impl Timed for Comparison {
    async fn adopt(&mut self) {
        self.concerned.extend(self.services.loader.take_decided(Listener::Subscriptions));
        for id in std::mem::take(&mut self.concerned) {
            self.services.compare(&id).await;
        }
    }

    fn next(&self) -> Option<Due> {
        self.services.subscriptions.next().map(Due::Passed)
    }

    async fn moved(&self) {
        self.services.subscriptions.wake.notified().await;
    }

    async fn act(&mut self) {
        for subscription in self.services.subscriptions.take_due(self.services.clock.steady_now()) {
            let services = self.services.clone();
            self.services.tracker.spawn(async move { services.set_right(subscription).await });
        }
    }
}

impl Services {
    /// Holds the subscriptions of an Automation against what it wants.
    async fn compare(&self, id: &AutomationId) {
        let catalog = self.catalog.load_full();
        let deployed = catalog.get(id).filter(|deployed| deployed.automation.enabled);
        let wanted = deployed.and_then(|deployed| self.wanted(&catalog, deployed, false));
        let of_it = |subscription: &Subscription| subscription.automation == *id && !subscription.test;
        let mut there = false;
        for subscription in self.subscriptions.all().into_iter().filter(of_it) {
            if subscription.removing {
                continue;
            }
            if wanted.as_ref().is_some_and(|wanted| wanted.source == subscription.source) && !there {
                there = true;
                continue;
            }
            self.leave(&subscription.id).await;
        }
        if let Some(wanted) = wanted.filter(|_| !there) {
            self.keep_subscription(wanted).await;
        }
        self.subscriptions.wake.notify_one();
    }

    /// The subscription that an Automation wants, not yet made.
    fn wanted(&self, catalog: &Catalog, deployed: &Deployed, test: bool) -> Option<Subscription> {
        let (event, _) = hooked(deployed, catalog)?;
        let asks = &event.asks;
        let url = self.event_url(deployed, test);
        let with = asks.with.iter().map(|(name, template)| format!("{}={}", name.name, written(template)));
        let connection = asks.connection.as_ref().map(|connection| connection.name.clone());
        let words = [asks.action.name.clone(), connection.clone().unwrap_or_default(), url.clone()];
        let now = self.clock.now();
        Some(Subscription {
            id: uuid::Uuid::new_v4().to_string(),
            automation: deployed.automation.id.clone(),
            source: words.into_iter().chain(with).collect::<Vec<_>>().join(" | "),
            event: asks.action.name.clone(),
            connection,
            inputs: Map::new(),
            url,
            requested: false,
            remote: Value::Null,
            removing: false,
            test,
            failures: 0,
            error: None,
            next_at: Some(now),
            since: now,
        })
    }

    /// Subscribes for the test address of an Automation, where somebody listens from now on.
    pub(crate) async fn subscribe_for_test(&self, catalog: &Catalog, deployed: &Deployed) {
        let of_it =
            |one: &Subscription| one.automation == deployed.automation.id && one.test && !one.removing;
        if self.subscriptions.all().iter().any(of_it) {
            return;
        }
        if let Some(wanted) = self.wanted(catalog, deployed, true) {
            let changing = self.subscriptions.changing.lock().await;
            self.keep_subscription(wanted).await;
            drop(changing);
            self.subscriptions.wake.notify_one();
        }
    }

    /// Takes the subscription for the test address of an Automation back.
    pub(crate) async fn unsubscribe_from_test(&self, id: &AutomationId) {
        for one in self.subscriptions.all() {
            if one.automation == *id && one.test && !one.removing {
                self.leave(&one.id).await;
            }
        }
        self.subscriptions.wake.notify_one();
    }

    /// The address at which an Automation hears of its event.
    fn event_url(&self, deployed: &Deployed, test: bool) -> String {
        let base = self.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let token = deployed.address.as_ref().map(|address| if test { &address.test } else { &address.live });
        format!("{base}/trigger/{}", token.map_or("", String::as_str))
    }

    /// Tells a subscription to go.
    async fn leave(&self, id: &str) {
        let _changing = self.subscriptions.changing.lock().await;
        let Some(mut subscription) = self.subscriptions.get(id) else { return };
        let now = self.clock.now();
        (subscription.removing, subscription.failures, subscription.error) = (true, 0, None);
        (subscription.next_at, subscription.since) = (Some(now), now);
        self.keep_subscription(subscription).await;
    }

    /// Writes down how a subscription stands. What is in memory follows only then.
    async fn keep_subscription(&self, subscription: Subscription) {
        if let Err(error) = self.store.put_subscription(subscription.clone()).await {
            return self.lost(&error);
        }
        self.subscriptions.put(subscription, self.clock.ahead());
    }

    /// Makes a subscription, or takes it back.
    async fn set_right(self: Arc<Self>, subscription: Subscription) {
        let slot = tokio::select! {
            slot = self.subscriptions.slots.acquire() => slot,
            () = self.closing.cancelled() => return,
        };
        let (id, automation) = (subscription.id.clone(), subscription.automation.clone());
        let event = subscription.event.clone();
        let alone = self.subscriptions.locks.lock(automation.as_str()).await;
        let result = if subscription.removing {
            self.unsubscribe(&subscription).await.map(|()| None)
        } else {
            self.subscribe(&subscription).await.map(Some)
        };
        drop(slot);
        let _changing = self.subscriptions.changing.lock().await;
        // It may have been told to leave while it was made.
        let Some(mut now) = self.subscriptions.get(&id) else { return };
        match result {
            Ok(Some((inputs, remote))) => {
                tracing::info!(%automation, event, "subscribed");
                (now.inputs, now.remote, now.failures, now.error) = (inputs, remote, 0, None);
                now.next_at = now.removing.then(|| self.clock.now());
                now.since = self.clock.now();
            }
            Ok(None) => {
                tracing::info!(%automation, event, "the subscription is taken back");
                return self.forget_subscription(&id).await;
            }
            Err(_) if self.closing.is_cancelled() => return,
            Err(error) => {
                now.failures = now.failures.saturating_add(1);
                if now.removing && now.failures >= MOST_FAILURES {
                    tracing::error!(%automation, event, error, "a subscription could not be taken back, and is given up");
                    return self.forget_subscription(&id).await;
                }
                tracing::warn!(%automation, event, error, failures = now.failures, leaving = now.removing, "a subscription could not be set right");
                now.error = Some(error);
                now.next_at = Some(pause(self.clock.now(), now.failures));
            }
        }
        self.keep_subscription(now).await;
        drop(alone);
        // Not before: what is still due in memory would begin once more.
        self.subscriptions.rest(&id);
        self.subscriptions.wake.notify_one();
    }

    async fn forget_subscription(&self, id: &str) {
        if let Err(error) = self.store.delete_subscription(id).await {
            return self.lost(&error);
        }
        self.subscriptions.state().remove(id);
    }
}

fn pause(now: Timestamp, failures: u32) -> Timestamp {
    let doubled = SHORTEST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let pause = SignedDuration::try_from(doubled.min(LONGEST_PAUSE)).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

impl Subscriptions {
    fn state(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the store has from before, and gives whom it concerns. Nobody listens any more for those of the test
    /// addresses, but for those that this process has made already.
    fn take_over(&self, stored: Vec<Subscription>, clock: &dyn Clock) -> BTreeSet<AutomationId> {
        // The clock may have been set while nobody looked at it.
        let furthest = clock.steady_now().after(LONGEST_PAUSE);
        let ahead = clock.ahead();
        let mut state = self.state();
        let mut ids = BTreeSet::new();
        for mut subscription in stored {
            ids.insert(subscription.automation.clone());
            if state.contains_key(&subscription.id) {
                continue;
            }
            if subscription.test && !subscription.removing {
                (subscription.removing, subscription.next_at) = (true, Some(subscription.since));
            }
            let next = subscription.next_at.map(|at| Steady::of(at, ahead).min(furthest));
            state.insert(subscription.id.clone(), Entry { subscription, next, busy: false });
        }
        ids
    }

    fn all(&self) -> Vec<Subscription> {
        self.state().values().map(|entry| entry.subscription.clone()).collect()
    }

    fn get(&self, id: &str) -> Option<Subscription> {
        self.state().get(id).map(|entry| entry.subscription.clone())
    }

    /// When something has to be done next.
    fn next(&self) -> Option<Steady> {
        let state = self.state();
        let due = state.values().filter(|entry| !entry.busy).filter_map(|entry| entry.next);
        due.min()
    }

    fn take_due(&self, now: Steady) -> Vec<Subscription> {
        let mut state = self.state();
        let due = |entry: &&mut Entry| !entry.busy && entry.next.is_some_and(|at| at <= now);
        let due = state.values_mut().filter(due).map(|entry| {
            entry.busy = true;
            entry.subscription.clone()
        });
        due.collect()
    }

    /// The other application is asked no longer.
    fn rest(&self, id: &str) {
        if let Some(entry) = self.state().get_mut(id) {
            entry.busy = false;
        }
    }

    /// Takes over how a subscription stands, while the wall clock is so far ahead.
    fn put(&self, subscription: Subscription, ahead: SignedDuration) {
        let mut state = self.state();
        let before = state.get(&subscription.id);
        let busy = before.is_some_and(|entry| entry.busy);
        // What was decided before stands, however the clock was set since.
        let next = match before.filter(|entry| entry.subscription.next_at == subscription.next_at) {
            Some(entry) => entry.next,
            None => subscription.next_at.map(|at| Steady::of(at, ahead)),
        };
        state.insert(subscription.id.clone(), Entry { subscription, next, busy });
    }
}

impl Engine {
    /// The subscriptions there are, have to be, or have to go, by Automation.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Subscription> {
        let ahead = self.services().clock.ahead();
        let state = self.services().subscriptions.state();
        let shown = |entry: &Entry| Subscription {
            next_at: entry.next.map(|at| at.shown(ahead)),
            ..entry.subscription.clone()
        };
        let mut all: Vec<Subscription> = state.values().map(shown).collect();
        all.sort_by(|one, other| (&one.automation, one.since).cmp(&(&other.automation, other.since)));
        all
    }
}
