//! The subscriptions in memory, with indexes by Automation and by due time: each operation costs the logarithm of their
//! number.

use std::collections::{BTreeMap, BTreeSet};

use model::automation::AutomationId;
use runtime::MonotonicTime;
use store::Subscription;

/// Existing subscriptions and pending changes, by their local ids.
#[derive(Default)]
pub(super) struct SubscriptionTable {
    entries: BTreeMap<String, Entry>,
    of_automation: BTreeMap<AutomationId, BTreeSet<String>>,
    /// The entries that have a due time and are not busy.
    due: BTreeSet<(MonotonicTime, String)>,
}

struct Entry {
    subscription: Subscription,
    /// Next attempt on the monotonic clock. The subscription itself has the wall-clock time; `None` if nothing is
    /// pending.
    next: Option<MonotonicTime>,
    /// True while a remote request runs.
    busy: bool,
}

impl SubscriptionTable {
    /// Returns a subscription and the time of its next attempt.
    pub(super) fn get(&self, id: &str) -> Option<(&Subscription, Option<MonotonicTime>)> {
        self.entries.get(id).map(|entry| (&entry.subscription, entry.next))
    }

    /// Returns all subscriptions, each with the time of its next attempt.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Subscription, Option<MonotonicTime>)> {
        self.entries.values().map(|entry| (&entry.subscription, entry.next))
    }

    pub(super) fn of_automation(&self, id: &AutomationId) -> impl Iterator<Item = &Subscription> {
        let ids = self.of_automation.get(id).into_iter().flatten();
        ids.filter_map(|id| self.entries.get(id)).map(|entry| &entry.subscription)
    }

    /// Adds or replaces a subscription. A remote request in flight stays in flight.
    pub(super) fn put(&mut self, subscription: Subscription, next: Option<MonotonicTime>) {
        let id = subscription.id.clone();
        let busy = self.remove(&id).is_some_and(|entry| entry.busy);
        self.of_automation.entry(subscription.automation.clone()).or_default().insert(id.clone());
        if let Some(next) = next.filter(|_| !busy) {
            self.due.insert((next, id.clone()));
        }
        self.entries.insert(id, Entry { subscription, next, busy });
    }

    fn remove(&mut self, id: &str) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        if let Some(ids) = self.of_automation.get_mut(&entry.subscription.automation) {
            ids.remove(id);
            if ids.is_empty() {
                self.of_automation.remove(&entry.subscription.automation);
            }
        }
        if let Some(next) = entry.next {
            self.due.remove(&(next, id.to_owned()));
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
            if let Some(next) = entry.next.filter(|_| !entry.busy) {
                self.due.remove(&(next, id.clone()));
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
            if let Some(next) = entry.next {
                self.due.insert((next, id.to_owned()));
            }
        }
    }
}
