//! Subscriptions to events of other applications. The Automations in force define the wanted subscriptions; the store
//! has the existing ones. A reconciliation at every start and reload creates the missing ones and removes the others,
//! with retries until it succeeds.

mod call;
mod orphans;
mod receive;
mod retry;
mod table;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::automation::{AutomationId, NameSetting, TriggerKey};
use store::Subscription;
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};
use value::{Map, Value};

use crate::changes::CatalogListener;
use crate::ingress::Ingress;
use crate::persist::until_done;
use call::Subscribed;
use catalog::canonical_text;
use catalog::{Catalog, Mount, trigger_hook};
use runtime::KeyedLocks;
use runtime::{Clock, MonotonicTime};
use runtime::{Due, Timed};
use table::{SubscriptionTable, Write};

pub use retry::SubscriptionError;
pub(crate) use retry::SubscriptionOperation;

/// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 8;
/// Shortest and longest delay after a failure.
const MIN_DELAY: Duration = Duration::from_secs(10);
const MAX_DELAY: Duration = Duration::from_secs(60 * 60);
/// Number of failures after which unsubscribing is given up: about a day.
const MAX_FAILURES: u32 = 32;

/// Existing subscriptions and pending changes, by their local ids.
pub(crate) struct Subscriptions {
    table: Mutex<SubscriptionTable>,
    /// Serialises read-modify-write of a subscription. Otherwise a removal during the creation could overwrite the
    /// remote id, and unsubscribing would be impossible.
    changing: tokio::sync::Mutex<()>,
    /// Notified when the next due time may have changed.
    wake: Notify,
    slots: Semaphore,
    /// Per-Automation locks around remote requests, so that a subscription under creation is not taken for an orphan.
    locks: KeyedLocks,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            table: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            wake: Notify::new(),
            slots: Semaphore::new(MAX_CONCURRENT),
            locks: KeyedLocks::default(),
        }
    }
}

/// Reconciles subscriptions until the engine stops.
pub(crate) async fn run(ingress: Arc<Ingress>) {
    // A capture session may have been started already. The lock ensures that its subscription is either in the list
    // read here or added later.
    let (context, subscriptions) = (&ingress.context, &ingress.subscriptions);
    let read = || async move {
        let _changing = subscriptions.changing.lock().await;
        let stored = context.store.subscriptions().await?;
        Ok(subscriptions.load(stored, &*context.clock))
    };
    let Some(pending) = until_done(context, read).await else { return };
    ingress.context.timer().run(Reconciler { ingress, pending }).await;
}

/// Timer that reconciles the subscriptions and processes due changes.
struct Reconciler {
    ingress: Arc<Ingress>,
    /// Automations with stored subscriptions that have not been compared since the start.
    pending: BTreeSet<AutomationId>,
}

impl Timed for Reconciler {
    async fn adopt(&mut self) {
        let _still = self.ingress.moving.lock().await;
        let pending = self.ingress.changes.take(CatalogListener::Subscriptions);
        self.pending.extend(pending.automations);
        if !pending.moved.is_empty() {
            self.ingress.read_moved(&pending.moved).await;
        }
        for id in std::mem::take(&mut self.pending) {
            self.ingress.reconcile(&id).await;
        }
    }

    fn next(&self) -> Option<Due> {
        self.ingress.subscriptions.next().map(Due::Monotonic)
    }

    async fn rescheduled(&self) {
        self.ingress.subscriptions.wake.notified().await;
    }

    async fn run_due(&mut self) {
        for subscription in self.ingress.subscriptions.take_due(self.ingress.context.clock.monotonic_now()) {
            if !self.ingress.peers.shards.has(&subscription.trigger.automation) {
                // Another node sees to it. It is read again if it comes here.
                self.ingress.subscriptions.table().forget(&subscription.id);
                continue;
            }
            let ingress = self.ingress.clone();
            self.ingress.context.tracker.spawn(async move { ingress.apply_change(subscription).await });
        }
    }
}

impl Ingress {
    /// Reads the subscriptions of Automations again that another node may have changed.
    async fn read_moved(&self, moved: &BTreeSet<AutomationId>) {
        let (context, subscriptions) = (&self.context, &self.subscriptions);
        let read = || async move {
            let _changing = subscriptions.changing.lock().await;
            let stored = context.store.subscriptions().await?;
            subscriptions.table().forget_automations(moved);
            let stored = stored.into_iter().filter(|one| moved.contains(&one.trigger.automation)).collect();
            subscriptions.load(stored, &*context.clock);
            Ok(())
        };
        until_done(context, read).await;
    }

    /// Reads whose secrets the subscriptions have that another node has moved to other triggers.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read_secret_triggers(&self) -> Result<(), store::Error> {
        let stored = self.context.store.subscriptions().await?;
        let mut table = self.subscriptions.table();
        stored.iter().for_each(|subscription| table.note_secret(subscription));
        Ok(())
    }

    /// Compares the subscriptions of an Automation with the wanted ones and schedules the changes.
    async fn reconcile(&self, id: &AutomationId) {
        if !self.peers.shards.has(id) {
            return;
        }
        let catalog = self.context.catalog.load_full();
        let mounts = catalog.get(id).into_iter().flat_map(|deployment| deployment.mounts());
        let mut wanted: Vec<Subscription> = mounts
            .filter(Mount::is_enabled)
            .filter_map(|mount| self.wanted_subscription(&catalog, &mount, false))
            .collect();
        for subscription in self.subscriptions.of_automation(id) {
            if subscription.removing || subscription.test {
                continue;
            }
            let is_it = |wanted: &Subscription| {
                wanted.trigger == subscription.trigger && wanted.source == subscription.source
            };
            match wanted.iter().position(is_it) {
                Some(index) => drop(wanted.swap_remove(index)),
                None => self.schedule_removal(&subscription.id).await,
            }
        }
        for wanted in wanted {
            self.store_subscription(wanted).await;
        }
        self.subscriptions.wake.notify_one();
    }

    /// Builds the subscription that a trigger wants; `None` if it needs none.
    fn wanted_subscription(&self, catalog: &Catalog, mount: &Mount, test: bool) -> Option<Subscription> {
        let (event, _) = trigger_hook(mount.on(), catalog)?;
        let call = &event.call;
        let url = self.event_url(mount, test);
        let with =
            call.with.iter().map(|(name, template)| format!("{}={}", name.name, canonical_text(template)));
        let connection = call.connection.as_ref().and_then(NameSetting::literal);
        let connection = connection.map(|connection| connection.name.clone());
        let words = [call.action.name.clone(), connection.clone().unwrap_or_default(), url.clone()];
        let now = self.context.clock.now();
        Some(Subscription {
            id: uuid::Uuid::new_v4().to_string(),
            trigger: mount.key(),
            secret_trigger: self.subscriptions.table().secret_trigger(&mount.key()).cloned(),
            source: words.into_iter().chain(with).collect::<Vec<_>>().join(" | "),
            event: call.action.name.clone(),
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

    /// Subscribes for the test address of a trigger, if it has no such subscription yet.
    pub(crate) async fn subscribe_for_test(&self, catalog: &Catalog, mount: &Mount) {
        let key = mount.key();
        let existing = self.subscriptions.of_automation(&key.automation);
        if existing.iter().any(|one| one.trigger == key && one.test && !one.removing) {
            return;
        }
        if let Some(wanted) = self.wanted_subscription(catalog, mount, true) {
            let changing = self.subscriptions.changing.lock().await;
            self.store_subscription(wanted).await;
            drop(changing);
            self.subscriptions.wake.notify_one();
        }
    }

    /// Schedules the removal of the subscription for a test address.
    pub(crate) async fn unsubscribe_from_test(&self, trigger: &TriggerKey) {
        for one in self.subscriptions.of_automation(&trigger.automation) {
            if one.trigger == *trigger && one.test && !one.removing {
                self.schedule_removal(&one.id).await;
            }
        }
        self.subscriptions.wake.notify_one();
    }

    /// Public URL that receives the event of a trigger.
    fn event_url(&self, mount: &Mount, test: bool) -> String {
        let base = self.context.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let token = mount.address().map(|address| if test { &address.test } else { &address.live });
        format!("{base}/trigger/{}", token.map_or("", String::as_str))
    }

    /// Schedules the removal of a subscription.
    async fn schedule_removal(&self, id: &str) {
        let _changing = self.subscriptions.changing.lock().await;
        let Some(mut subscription) = self.subscriptions.get(id) else { return };
        let now = self.context.clock.now();
        (subscription.removing, subscription.failures, subscription.error) = (true, 0, None);
        (subscription.next_at, subscription.since) = (Some(now), now);
        self.store_subscription(subscription).await;
    }

    /// Stores a subscription and updates it in memory. If the store refuses it, it is in memory alone: the write is repeated with
    /// growing pauses before anything else is done for it. Returns true if it is stored.
    async fn store_subscription(&self, subscription: Subscription) -> bool {
        let written = self.context.store.put_subscription(subscription.clone()).await;
        let clock = &self.context.clock;
        let refused_at = written.is_err().then(|| clock.monotonic_now());
        let is_first = self.subscriptions.update(subscription, clock.wall_offset(), refused_at);
        self.report_refusal(written, is_first)
    }

    /// Tells triggers that hear of it that a subscription failed. It is written before the failure itself: after a crash in between the
    /// request is made again.
    async fn raise_subscription_failure(&self, subscription: &Subscription, error: &str) {
        let catalog = self.context.catalog();
        let mount = catalog.trigger(&subscription.trigger).filter(|_| !subscription.test);
        let Some(mount) = mount else { return };
        let subject = (subscription.id.as_str(), subscription.since);
        let emits = self.subscription_failure(&mount, subject, subscription.failures, error);
        if emits.is_empty() {
            return;
        }
        let accept = store::Accept { emits, ..store::Accept::default() };
        match self.context.store.accept(&accept).await {
            Ok(_) => self.rows_committed(&accept.emits),
            Err(error) => self.context.lost(&error),
        }
    }

    /// Reports a refused write of a subscription, unless the same was refused before. Returns true if it succeeded.
    fn report_refusal(&self, written: Result<(), store::Error>, is_first: bool) -> bool {
        if let Err(error) = &written
            && (is_first || error.outcome_unknown())
        {
            self.context.lost(error);
        }
        written.is_ok()
    }

    /// Repeats the refused write of a subscription. Returns false if nothing else is to be done for it now.
    async fn repeat_write(&self, id: &str) -> bool {
        let _changing = self.subscriptions.changing.lock().await;
        let Some(write) = self.subscriptions.table().unstored(id) else { return true };
        match (write, self.subscriptions.get(id)) {
            (Write::Put, Some(subscription)) => {
                let is_stored = self.store_subscription(subscription).await;
                is_stored && self.subscriptions.is_due(id, self.context.clock.monotonic_now())
            }
            (Write::Delete, _) => {
                self.forget_subscription(id).await;
                false
            }
            (Write::Put, None) => false,
        }
    }

    /// Creates, renews or removes a subscription remotely and records the result.
    async fn apply_change(self: Arc<Self>, subscription: Subscription) {
        let slot = tokio::select! {
            slot = self.subscriptions.slots.acquire() => slot,
            () = self.context.closing.cancelled() => return,
        };
        let (id, trigger) = (subscription.id.clone(), subscription.trigger.clone());
        let Some(_hold) = self.peers.shards.hold(&trigger.automation) else {
            // Another node sees to it. It is read again if it comes here.
            return self.subscriptions.table().forget(&id);
        };
        let event = subscription.event.clone();
        let alone = self.subscriptions.locks.lock(trigger.automation.as_str()).await;
        if !self.repeat_write(&id).await {
            return self.end_change(&id);
        }
        let result = if subscription.removing {
            self.unsubscribe(&subscription).await.map(|()| None)
        } else if subscription.remote.is_null() {
            self.subscribe(&subscription).await.map(Some)
        } else {
            self.renew_subscription(&subscription).await.map(Some)
        };
        drop(slot);
        let _changing = self.subscriptions.changing.lock().await;
        // The removal may have been requested during the creation.
        let Some(mut now) = self.subscriptions.get(&id) else { return };
        match result {
            Ok(Some(Subscribed { inputs, remote, next_at })) => {
                let word =
                    if subscription.remote.is_null() { "subscribed" } else { "renewed a subscription" };
                tracing::info!(%trigger, event, "{word}");
                if subscription.remote.is_null() || remote.is_null() {
                    now.since = self.context.clock.now();
                }
                now.requested &= !remote.is_null();
                (now.inputs, now.remote, now.failures, now.error) = (inputs, remote, 0, None);
                now.next_at = if now.removing { Some(self.context.clock.now()) } else { next_at };
            }
            Ok(None) => {
                tracing::info!(%trigger, event, "the subscription is taken back");
                self.forget_subscription(&id).await;
                self.subscribe_again(&subscription).await;
                return self.end_change(&id);
            }
            Err(_) if self.context.closing.is_cancelled() => return,
            // The request was not sent, since the store could not record it.
            Err(_) if self.subscriptions.table().unstored(&id).is_some() => return self.end_change(&id),
            Err(error) => {
                now.failures = now.failures.saturating_add(1);
                self.raise_subscription_failure(&now, &error).await;
                if now.removing && now.failures >= MAX_FAILURES {
                    tracing::error!(%trigger, event, error, "a subscription could not be taken back, and is given up");
                    self.forget_subscription(&id).await;
                    return self.end_change(&id);
                }
                tracing::warn!(%trigger, event, error, failures = now.failures, leaving = now.removing, "a subscription could not be set right");
                now.error = Some(error);
                now.next_at = Some(retry_at(self.context.clock.now(), now.failures));
            }
        }
        self.store_subscription(now).await;
        drop(alone);
        // Only now: an entry that is still due in memory would be processed a second time.
        self.end_change(&id);
    }

    /// Notes the end of an attempt, so that the next one can begin when it is due.
    fn end_change(&self, id: &str) {
        self.subscriptions.release(id);
        self.subscriptions.wake.notify_one();
    }

    /// Deletes a subscription. If the store refuses that, it stays in memory, and the deletion is repeated.
    async fn forget_subscription(&self, id: &str) {
        if let Some(gone) = self.subscriptions.get(id) {
            self.forget_given_secret(&gone).await;
        }
        let deleted = self.context.store.delete_subscription(id).await;
        let mut table = self.subscriptions.table();
        let is_first = match &deleted {
            Ok(()) => {
                table.forget(id);
                false
            }
            Err(_) => table.refuse(id, Write::Delete, self.context.clock.monotonic_now()),
        };
        drop(table);
        self.report_refusal(deleted, is_first);
    }
}

fn retry_at(now: Timestamp, failures: u32) -> Timestamp {
    let doubled = MIN_DELAY.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let pause = SignedDuration::try_from(doubled.min(MAX_DELAY)).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

impl Subscriptions {
    fn table(&self) -> MutexGuard<'_, SubscriptionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the stored subscriptions and returns their Automations. Subscriptions of test addresses are scheduled for
    /// removal unless this process has created them: their capture sessions are gone.
    fn load(&self, stored: Vec<Subscription>, clock: &dyn Clock) -> BTreeSet<AutomationId> {
        // The wall clock may have been changed while the daemon was stopped.
        let furthest = clock.monotonic_now().after(MAX_DELAY);
        let ahead = clock.wall_offset();
        let mut table = self.table();
        let mut ids = BTreeSet::new();
        for mut subscription in stored {
            ids.insert(subscription.trigger.automation.clone());
            if table.get(&subscription.id).is_some() {
                continue;
            }
            if subscription.test && !subscription.removing {
                (subscription.removing, subscription.next_at) = (true, Some(subscription.since));
            }
            let next = subscription.next_at.map(|at| MonotonicTime::from_wall(at, ahead).min(furthest));
            table.put(subscription, next);
        }
        ids
    }

    /// Acquires the right to send requests for the subscriptions of an Automation.
    pub(crate) async fn lock_requests(&self, id: &AutomationId) -> OwnedMutexGuard<()> {
        self.locks.lock(id.as_str()).await
    }

    /// Acquires the right to change subscriptions.
    pub(crate) async fn lock_changes(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Goes on under the key to which the records of a trigger have moved.
    pub(crate) fn rename(&self, from: &TriggerKey, to: &TriggerKey) {
        self.table().rename(from, to);
    }

    fn of_automation(&self, id: &AutomationId) -> Vec<Subscription> {
        self.table().of_automation(id).cloned().collect()
    }

    fn get(&self, id: &str) -> Option<Subscription> {
        self.table().get(id).map(|(subscription, _)| subscription.clone())
    }

    /// The next due time of all subscriptions without a remote request in flight.
    fn next(&self) -> Option<MonotonicTime> {
        self.table().next_due()
    }

    /// Returns true if a change of a subscription is due.
    fn is_due(&self, id: &str, now: MonotonicTime) -> bool {
        self.table().get(id).and_then(|(_, next)| next).is_some_and(|next| next <= now)
    }

    fn take_due(&self, now: MonotonicTime) -> Vec<Subscription> {
        self.table().take_due(now)
    }

    /// Marks the end of a remote request.
    fn release(&self, id: &str) {
        self.table().release(id);
    }

    /// Updates a subscription in memory. `ahead` is the current wall-clock offset, and `refused_at` the time at which the store refused
    /// it. Returns true if that was the first refusal.
    fn update(
        &self,
        subscription: Subscription,
        ahead: SignedDuration,
        refused_at: Option<MonotonicTime>,
    ) -> bool {
        let id = subscription.id.clone();
        let mut table = self.table();
        // An unchanged due time keeps its monotonic time, even if the wall clock was changed.
        let before = table.get(&subscription.id);
        let next = match before.filter(|(before, _)| before.next_at == subscription.next_at) {
            Some((_, next)) => next,
            None => subscription.next_at.map(|at| MonotonicTime::from_wall(at, ahead)),
        };
        table.put(subscription, next);
        match refused_at {
            Some(now) => table.refuse(&id, Write::Put, now),
            None => {
                table.stored(&id);
                false
            }
        }
    }
}

impl Ingress {
    /// Lists the existing, pending and leaving subscriptions that this node has in memory, sorted by Automation. Those of the shards of
    /// other nodes may be out of date.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Subscription> {
        let ahead = self.context.clock.wall_offset();
        let shown = |(subscription, next, is_refused): (&Subscription, Option<MonotonicTime>, bool)| {
            let refused = is_refused.then(|| "the store refuses a change of it, which is retried".to_owned());
            Subscription {
                next_at: next.map(|at| at.to_wall(ahead)),
                error: refused.or_else(|| subscription.error.clone()),
                ..subscription.clone()
            }
        };
        sorted(self.subscriptions.table().all().map(shown).collect())
    }

    /// Lists the existing, pending and leaving subscriptions, sorted by Automation: the same on each node.
    ///
    /// # Errors
    /// The store failed.
    pub async fn subscriptions_of_all_nodes(&self) -> Result<Vec<Subscription>, store::Error> {
        let mut all = self.subscriptions();
        if self.context.store.node().is_some() {
            let is_here = |one: &Subscription| self.peers.shards.has(&one.trigger.automation);
            all.retain(is_here);
            let stored = self.context.store.subscriptions().await?;
            all.extend(stored.into_iter().filter(|one| !is_here(one)));
        }
        Ok(sorted(all))
    }
}

fn sorted(mut all: Vec<Subscription>) -> Vec<Subscription> {
    all.sort_by(|one, other| (&one.trigger, one.since).cmp(&(&other.trigger, other.since)));
    all
}
