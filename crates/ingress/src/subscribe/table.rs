//! The subscriptions in memory, with indexes by Automation and by due time: each operation costs the logarithm of their
//! number.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use model::Backoff;
use model::automation::{AutomationId, TriggerKey};
use runtime::MonotonicTime;
use store::Subscription;

/// Existing subscriptions and pending changes, by their local ids.
#[derive(Default)]
pub(super) struct SubscriptionTable {
    entries: BTreeMap<String, Entry>,
    of_automation: BTreeMap<AutomationId, BTreeSet<String>>,
    /// The entries that have a due time and are not busy.
    due: BTreeSet<(MonotonicTime, String)>,
    /// The triggers that the secrets of other triggers are derived from, whose subscriptions have moved.
    secret_triggers: BTreeMap<TriggerKey, TriggerKey>,
}

/// The pauses between attempts to store a subscription that the store has refused.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

struct Entry {
    subscription: Subscription,
    /// Next attempt on the monotonic clock. The subscription itself has the wall-clock time; `None` if nothing is
    /// pending.
    next: Option<MonotonicTime>,
    /// True while a remote request runs.
    busy: bool,
    /// The write that the store has refused; `None` if the store has the subscription as it is here.
    unstored: Option<Unstored>,
}

/// A write of a subscription that the store has refused. It is repeated before anything else is done for the subscription.
#[derive(Clone, Copy)]
struct Unstored {
    /// Next attempt of the write.
    next: MonotonicTime,
    pauses: Backoff,
    write: Write,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Put,
    Delete,
}

impl Entry {
    /// The next attempt of the refused write, or else of the change.
    fn due(&self) -> Option<MonotonicTime> {
        self.unstored.map(|unstored| unstored.next).or(self.next)
    }
}

impl SubscriptionTable {
    /// Returns a subscription and the time of its next attempt.
    pub(super) fn get(&self, id: &str) -> Option<(&Subscription, Option<MonotonicTime>)> {
        self.entries.get(id).map(|entry| (&entry.subscription, entry.next))
    }

    /// Returns all subscriptions, each with the time of its next attempt, and true if the store has refused its last change.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Subscription, Option<MonotonicTime>, bool)> {
        self.entries.values().map(|entry| (&entry.subscription, entry.due(), entry.unstored.is_some()))
    }

    /// Returns the refused write of a subscription; `None` if the store has it as it is here.
    pub(super) fn unstored(&self, id: &str) -> Option<Write> {
        self.entries.get(id)?.unstored.map(|unstored| unstored.write)
    }

    /// Notes that the store has refused a write of a subscription in the table. Returns true if it is the first refusal.
    pub(super) fn refuse(&mut self, id: &str, write: Write, now: MonotonicTime) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return true };
        let due = entry.due();
        let is_first = entry.unstored.is_none();
        let mut pauses = entry.unstored.map_or(PAUSES, |before| before.pauses);
        let next = now.after(pauses.pause());
        entry.unstored = Some(Unstored { next, pauses, write });
        let is_busy = entry.busy;
        if let Some(due) = due {
            self.due.remove(&(due, id.to_owned()));
        }
        if !is_busy {
            self.due.insert((next, id.to_owned()));
        }
        is_first
    }

    pub(super) fn of_automation(&self, id: &AutomationId) -> impl Iterator<Item = &Subscription> {
        let ids = self.of_automation.get(id).into_iter().flatten();
        ids.filter_map(|id| self.entries.get(id)).map(|entry| &entry.subscription)
    }

    /// Adds or replaces a subscription. A remote request in flight stays in flight, and a refused write refused.
    pub(super) fn put(&mut self, subscription: Subscription, next: Option<MonotonicTime>) {
        let id = subscription.id.clone();
        self.note_secret(&subscription);
        let before = self.remove(&id);
        let busy = before.as_ref().is_some_and(|entry| entry.busy);
        let unstored = before.and_then(|entry| entry.unstored);
        self.of_automation.entry(subscription.trigger.automation.clone()).or_default().insert(id.clone());
        let entry = Entry { subscription, next, busy, unstored };
        if let Some(due) = entry.due().filter(|_| !busy) {
            self.due.insert((due, id.clone()));
        }
        self.entries.insert(id, entry);
    }

    /// Notes the trigger that the secret of a subscription is derived from.
    pub(super) fn note_secret(&mut self, subscription: &Subscription) {
        if let Some(secret_trigger) = &subscription.secret_trigger {
            self.secret_triggers.insert(subscription.trigger.clone(), secret_trigger.clone());
        }
    }

    /// Returns the trigger that the secret of another one is derived from; `None` if it is its own.
    pub(super) fn secret_trigger(&self, trigger: &TriggerKey) -> Option<&TriggerKey> {
        self.secret_triggers.get(trigger)
    }

    /// Goes on with the subscriptions of a trigger under the key to which its records have moved.
    pub(super) fn rename(&mut self, from: &TriggerKey, to: &TriggerKey) {
        let secret_triggers = &mut self.secret_triggers;
        for entry in self.entries.values_mut().filter(|entry| entry.subscription.trigger == *from) {
            entry.subscription = entry.subscription.clone().moved_to(to);
            secret_triggers
                .extend(entry.subscription.secret_trigger.clone().map(|first| (to.clone(), first)));
        }
    }

    /// Notes that the store has a subscription as it is here.
    pub(super) fn stored(&mut self, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Some(unstored) = entry.unstored.take() else { return };
        self.due.remove(&(unstored.next, id.to_owned()));
        if let Some(next) = entry.next.filter(|_| !entry.busy) {
            self.due.insert((next, id.to_owned()));
        }
    }

    fn remove(&mut self, id: &str) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        if let Some(ids) = self.of_automation.get_mut(&entry.subscription.trigger.automation) {
            ids.remove(id);
            if ids.is_empty() {
                self.of_automation.remove(&entry.subscription.trigger.automation);
            }
        }
        if let Some(due) = entry.due() {
            self.due.remove(&(due, id.to_owned()));
        }
        Some(entry)
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.remove(id);
    }

    /// Forgets the subscriptions of these Automations that have no request in flight.
    pub(super) fn forget_automations(&mut self, automations: &BTreeSet<AutomationId>) {
        for automation in automations {
            let ids = self.of_automation.get(automation).cloned().unwrap_or_default();
            for id in ids {
                if self.entries.get(&id).is_some_and(|entry| !entry.busy) {
                    self.remove(&id);
                }
            }
        }
    }

    /// The next due time of all subscriptions that are not busy.
    pub(super) fn next_due(&self) -> Option<MonotonicTime> {
        self.due.first().map(|(next, _)| *next)
    }

    /// Returns the subscriptions that are due, and marks them as busy.
    pub(super) fn take_due(&mut self, now: MonotonicTime) -> Vec<Subscription> {
        let mut taken = Vec::new();
        while let Some((next, id)) = self.due.pop_first() {
            if next > now {
                self.due.insert((next, id));
                break;
            }
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.busy = true;
                taken.push(entry.subscription.clone());
            }
        }
        taken
    }

    /// Returns the pending subscriptions of an Automation, whenever they are due, and marks them as busy.
    pub(super) fn take_pending(&mut self, automation: &AutomationId) -> Vec<Subscription> {
        let ids = self.of_automation.get(automation).into_iter().flatten();
        let mut taken = Vec::new();
        for id in ids {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            if let Some(due) = entry.due().filter(|_| !entry.busy) {
                self.due.remove(&(due, id.clone()));
                entry.busy = true;
                taken.push(entry.subscription.clone());
            }
        }
        taken
    }

    /// Marks the end of a remote request.
    pub(super) fn release(&mut self, id: &str) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.busy = false;
            if let Some(due) = entry.due() {
                self.due.insert((due, id.to_owned()));
            }
        }
    }
}
