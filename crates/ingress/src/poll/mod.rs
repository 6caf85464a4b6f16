//! Polls: call an action periodically and start executions for new items. One timer serves all polls in force; each
//! poll runs in its own task with a deadline. The cursor, the seen keys and the started executions commit together, so
//! an interrupted poll leaves no trace and is repeated.

mod cycle;
mod dedup;
mod request;
mod view;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connector::{EventSource, EventSpec, Registry};
use jiff::{SignedDuration, Timestamp};
use model::Backoff;
use model::automation::{AutomationId, Delivery, EventTrigger, PollStart, PollTrigger, Trigger, TriggerKey};
use store::PollState;
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};

use crate::changes::{CatalogListener, known_triggers, triggers_of};
use crate::ingress::Ingress;
use crate::persist::until_done;
use catalog::Mount;
use catalog::PollSource;
use runtime::KeyedLocks;
use runtime::{Clock, MonotonicTime};
use runtime::{Due, Timed};

pub(crate) use view::PollOperation;
pub use view::{PollError, PollView};

/// The delays of a poll whose result the store did not take.
const STORE_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The shortest time between two polls that something woke.
const WAKE_GAP: Duration = Duration::from_secs(1);
/// Maximum number of concurrent polls.
const MAX_CONCURRENT: usize = 32;

/// Polls in force and their progress.
pub(crate) struct Polls {
    state: Mutex<State>,
    /// Notified when the next due time may have changed.
    wake: Notify,
    /// Locks by trigger: polling, resetting and rewinding exclude each other.
    locks: KeyedLocks,
    slots: Semaphore,
    /// The tasks that listen for what wakes a poll.
    listeners: Mutex<wake::Listeners>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<TriggerKey, Entry>,
    order: BTreeSet<(MonotonicTime, TriggerKey)>,
    /// Stored progress of polls that are not in force.
    stored: BTreeMap<TriggerKey, PollState>,
}

struct Entry {
    every: Duration,
    poll_state: PollState,
    /// Time of the last successful poll on the monotonic clock. `poll_state` has the wall-clock times.
    last_success: Option<MonotonicTime>,
    next: MonotonicTime,
    /// The last delay after a result that the store did not take; zero if it took the last one.
    store_delays: Backoff,
    /// True while the poll runs; it is not in `order` then.
    busy: bool,
    /// True if this node polls, and no other one. Otherwise it is not in `order`.
    is_here: bool,
    /// Time at which something last woke it.
    woken_at: Option<MonotonicTime>,
    /// True if something woke it while it ran: it runs again.
    runs_again: bool,
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            locks: KeyedLocks::default(),
            slots: Semaphore::new(MAX_CONCURRENT),
            listeners: Mutex::default(),
        }
    }
}

/// Progress of a poll that is in force.
struct Progress {
    poll_state: PollState,
    last_success: Option<MonotonicTime>,
    next: MonotonicTime,
}

impl Progress {
    fn stored(poll_state: PollState, ahead: SignedDuration) -> Self {
        let last_success = poll_state.polled_at.map(|at| MonotonicTime::from_wall(at, ahead));
        let next = MonotonicTime::from_wall(poll_state.next_at, ahead);
        Self { poll_state, last_success, next }
    }

    /// Continues from this progress if it belongs to the same source, else from the beginning.
    fn go_on(before: Option<Self>, source: &PollSource, every: Duration, clock: &dyn Clock) -> Self {
        let now = clock.monotonic_now();
        let begin = || Self {
            poll_state: initial_poll_state(source.text().to_owned(), clock.now()),
            last_success: None,
            next: now,
        };
        let before = before.filter(|before| before.poll_state.source == source.text());
        let mut progress = before.unwrap_or_else(begin);
        if progress.poll_state.failures == 0
            && let Some(last_success) = progress.last_success
        {
            // The interval may have become shorter.
            progress.next = progress.next.min(last_success.after(every));
        }
        progress
    }
}

/// Kind of a poll trigger with its definition.
enum PollRequest<'a> {
    /// The results of an action.
    Action(&'a PollTrigger),
    /// An event that its connector detects by polling.
    Event(&'a EventTrigger, Arc<EventSpec>),
}

impl<'a> PollRequest<'a> {
    /// Returns the poll of a trigger; `None` if it does not poll.
    fn of(trigger: &'a Trigger, registry: &Registry) -> Option<Self> {
        match trigger {
            Trigger::Poll(poll) => Some(Self::Action(poll)),
            Trigger::Event(event) => {
                let spec = registry.event(&event.call.action.name)?;
                matches!(spec.source, EventSource::Poll(_)).then(|| Self::Event(event, spec.clone()))
            }
            _ => None,
        }
    }

    fn every(&self) -> Duration {
        match self {
            Self::Action(poll) => poll.every,
            Self::Event(event, spec) => match (&event.every, &spec.source) {
                (Some((every, _)), _) => *every,
                (None, EventSource::Poll(polled)) => polled.every,
                (None, EventSource::Hook(_) | EventSource::Stream(_) | EventSource::Engine) => Duration::MAX,
            },
        }
    }

    fn start(&self) -> PollStart {
        match self {
            Self::Action(poll) => poll.start,
            Self::Event(event, _) => event.start.map(|(start, _)| start).unwrap_or_default(),
        }
    }

    fn deliver(&self) -> Delivery {
        match self {
            Self::Action(poll) => poll.deliver,
            Self::Event(event, _) => event.deliver.map(|(deliver, _)| deliver).unwrap_or_default(),
        }
    }
}

/// Runs all polls until the engine stops.
pub(crate) async fn run(ingress: Arc<Ingress>) {
    let context = &ingress.context;
    let Some(stored) = until_done(context, || context.store.poll_states()).await else { return };
    ingress.polls.state().stored = stored.into_iter().collect();
    ingress.context.timer().run(PollTimer(ingress)).await;
}

/// Timer over all polls in force.
struct PollTimer(Arc<Ingress>);

impl Timed for PollTimer {
    async fn adopt(&mut self) {
        let ingress = &self.0;
        let _still = ingress.moving.lock().await;
        let pending = ingress.changes.take(CatalogListener::Polls);
        if !pending.moved.is_empty() {
            // Without its progress a poll would start over, and take the items since then for known ones.
            let context = &ingress.context;
            let stored = until_done(context, || context.store.poll_states()).await;
            if let Some(stored) = stored {
                ingress.polls.forget(&pending.moved, stored);
            }
        }
        ingress.polls.adopt(ingress, pending.automations);
        let here = ingress.polls.keys_here();
        let mut listeners = ingress.polls.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.adopt(ingress, here.into_iter());
    }

    fn next(&self) -> Option<Due> {
        self.0.polls.state().order.first().map(|(at, _)| Due::Monotonic(*at))
    }

    async fn rescheduled(&self) {
        self.0.polls.wake.notified().await;
    }

    async fn run_due(&mut self) {
        for id in self.0.polls.take_due(self.0.context.clock.monotonic_now()) {
            let ingress = self.0.clone();
            self.0.context.tracker.spawn(async move { ingress.poll_when_free(id).await });
        }
    }
}

impl Ingress {
    async fn poll_when_free(self: Arc<Self>, id: TriggerKey) {
        let slot = tokio::select! {
            slot = self.polls.slots.acquire() => slot,
            () = self.context.closing.cancelled() => return,
        };
        self.note_polling(&id, true).await;
        self.poll(&id).await;
        self.note_polling(&id, false).await;
        drop(slot);
        self.polls.release(&id);
    }

    /// Records that this node polls, or has polled, for status pages of other nodes.
    async fn note_polling(&self, trigger: &TriggerKey, polls: bool) {
        if self.context.store.node().is_some()
            && let Err(error) = self.context.store.set_polling(trigger, polls).await
        {
            tracing::debug!(%trigger, %error, "other daemons do not show that a poll is under way");
        }
    }
}

impl Polls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the stored progress of polls for theirs: another node may have polled.
    fn forget(&self, moved: &BTreeSet<AutomationId>, stored: Vec<(TriggerKey, PollState)>) {
        let mut state = self.state();
        for key in moved.iter().flat_map(|id| known_triggers(&state.entries, id)).collect::<Vec<_>>() {
            if let Some(entry) = state.entries.remove(&key) {
                state.order.remove(&(entry.next, key));
            }
        }
        state.stored.extend(stored.into_iter().filter(|(key, _)| moved.contains(&key.automation)));
    }

    /// Applies the polls of these Automations from the snapshot in force. A poll whose request is unchanged keeps its progress.
    fn adopt(&self, ingress: &Ingress, ids: BTreeSet<AutomationId>) {
        let (catalog, clock) = (&*ingress.context.catalog.load(), &*ingress.context.clock);
        let ahead = clock.wall_offset();
        let mut state = self.state();
        let keys = triggers_of(&ids, catalog, |id| known_triggers(&state.entries, id));
        for id in keys {
            let before = state.entries.remove(&id);
            if let Some(entry) = &before {
                state.order.remove(&(entry.next, id.clone()));
            }
            let busy = before.as_ref().is_some_and(|entry| entry.busy);
            let of_entry =
                |Entry { poll_state, last_success, next, .. }| Progress { poll_state, last_success, next };
            let before = before
                .map(of_entry)
                .or_else(|| state.stored.remove(&id).map(|poll_state| Progress::stored(poll_state, ahead)));
            let mount = catalog.trigger(&id).filter(Mount::is_enabled);
            let on = mount.as_ref().map(Mount::on);
            let request = on.and_then(|trigger| PollRequest::of(trigger, catalog.registry()));
            let source = on.and_then(|trigger| PollSource::of(trigger, catalog.registry()));
            let Some((request, source)) = request.zip(source) else {
                // The progress is kept in case the Automation is enabled again or its file comes back.
                state
                    .stored
                    .extend(before.map(|before| (id, with_wall_time(before.poll_state, before.next, ahead))));
                continue;
            };
            let every = request.every();
            let mut progress = Progress::go_on(before, &source, every, clock);
            // The wall clock may have been changed while the daemon was stopped: limit the delay to the longest regular
            // one.
            let furthest = clock.monotonic_now().after(every.max(cycle::MAX_BACKOFF));
            progress.next = progress.next.min(furthest);
            let is_here = ingress.peers.shards.has(&id.automation);
            if !busy && is_here {
                state.order.insert((progress.next, id.clone()));
            }
            let Progress { poll_state, last_success, next } = progress;
            let entry = Entry {
                every,
                poll_state,
                last_success,
                next,
                store_delays: STORE_DELAYS,
                busy,
                is_here,
                woken_at: None,
                runs_again: false,
            };
            state.entries.insert(id, entry);
        }
    }

    /// Acquires the right to change the records of two triggers, for which nothing polls meanwhile.
    pub(crate) async fn lock_both(&self, one: &TriggerKey, other: &TriggerKey) -> [OwnedMutexGuard<()>; 2] {
        let (first, second) = (one.min(other), one.max(other));
        [self.locks.lock(&first.to_string()).await, self.locks.lock(&second.to_string()).await]
    }

    /// Goes on with a poll under the key to which its records have moved.
    pub(crate) fn rename(&self, from: &TriggerKey, to: &TriggerKey) {
        let mut state = self.state();
        // Without records it has not polled yet.
        if let Some(fresh) = state.entries.remove(to) {
            state.order.remove(&(fresh.next, to.clone()));
        }
        let stored = state.stored.remove(from);
        state.stored.extend(stored.map(|poll_state| (to.clone(), poll_state)));
        if let Some(entry) = state.entries.remove(from) {
            state.order.remove(&(entry.next, from.clone()));
            if entry.is_here {
                state.order.insert((entry.next, to.clone()));
            }
            // A task that waits to poll under the former key finds nothing there.
            state.entries.insert(to.clone(), Entry { busy: false, ..entry });
        }
    }

    /// Removes all due polls from the order and marks them busy.
    fn take_due(&self, now: MonotonicTime) -> Vec<TriggerKey> {
        let mut state = self.state();
        let mut due = Vec::new();
        while state.order.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, id)) = state.order.pop_first()
        {
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.busy = true;
                due.push(id);
            }
        }
        due
    }

    /// Puts a finished poll back into the order.
    fn release(&self, id: &TriggerKey) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(id) {
            entry.busy = false;
            if std::mem::take(&mut entry.runs_again) {
                entry.next = entry.woken_at.map_or(entry.next, |at| entry.next.min(at));
            }
            let next = entry.next;
            if entry.is_here {
                state.order.insert((next, id.clone()));
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The polls of this node.
    fn keys_here(&self) -> Vec<TriggerKey> {
        let state = self.state();
        let here = state.entries.iter().filter(|(_, entry)| entry.is_here);
        here.map(|(key, _)| key.clone()).collect()
    }

    /// Lets a poll run at once, at most once in [`WAKE_GAP`]. A failing poll keeps its delay.
    fn wake_up(&self, id: &TriggerKey, now: MonotonicTime) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id).filter(|entry| entry.poll_state.failures == 0) else {
            return;
        };
        let at = entry.woken_at.map_or(now, |before| before.after(WAKE_GAP).max(now));
        if entry.busy {
            (entry.runs_again, entry.woken_at) = (true, Some(at));
            return;
        }
        if entry.next <= at {
            return;
        }
        let before = std::mem::replace(&mut entry.next, at);
        entry.woken_at = Some(at);
        if entry.is_here {
            state.order.remove(&(before, id.clone()));
            state.order.insert((at, id.clone()));
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Sets the next time of a running poll whose result the store did not take. Its progress stays: the delay doubles with each
    /// time in a row, and ends with the next result.
    fn postpone(&self, id: &TriggerKey, now: MonotonicTime) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id) else { return };
        entry.next = now.after(entry.store_delays.pause().min(entry.every));
    }

    /// Progress of a poll; `None` if it is not in force.
    fn poll_state(&self, id: &TriggerKey) -> Option<PollState> {
        self.state().entries.get(id).map(|entry| entry.poll_state.clone())
    }

    /// Returns true if this node polls for a trigger.
    fn is_here(&self, id: &TriggerKey) -> bool {
        self.state().entries.get(id).is_some_and(|entry| entry.is_here)
    }

    /// Records the progress of a poll, unless its request has changed meanwhile. `ahead` is the current wall-clock
    /// offset.
    fn update(&self, id: &TriggerKey, poll_state: PollState, ahead: SignedDuration) {
        let mut state = self.state();
        let Some(entry) =
            state.entries.get_mut(id).filter(|entry| entry.poll_state.source == poll_state.source)
        else {
            return;
        };
        let (before, next) = (entry.next, MonotonicTime::from_wall(poll_state.next_at, ahead));
        let waits = entry.is_here && !entry.busy;
        if poll_state.failures == 0 {
            entry.last_success = poll_state.polled_at.map(|at| MonotonicTime::from_wall(at, ahead));
        }
        (entry.next, entry.poll_state, entry.store_delays) = (next, poll_state, STORE_DELAYS);
        if waits {
            state.order.remove(&(before, id.clone()));
            state.order.insert((next, id.clone()));
        }
        drop(state);
        self.wake.notify_one();
    }
}

/// Sets `next_at` to the wall-clock time of the next poll.
fn with_wall_time(poll_state: PollState, next: MonotonicTime, ahead: SignedDuration) -> PollState {
    PollState { next_at: next.to_wall(ahead), ..poll_state }
}

/// Progress of a poll that has never run.
fn initial_poll_state(source: String, now: Timestamp) -> PollState {
    PollState {
        source,
        cursor: value::Value::Null,
        polled_at: None,
        found_at: None,
        next_at: now,
        failures: 0,
        error: None,
        polls: 0,
        found: 0,
    }
}
