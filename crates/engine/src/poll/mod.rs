//! Polls: what a trigger asks for again and again, and what of it is new. One timer over all polls in force; each poll is a
//! task of its own with a deadline. Cursor, seen keys and the executions that a poll starts commit together: a poll that
//! does not come to its end has not happened, and is made again.

mod ask;
mod sift;
mod turn;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connector::{EventSource, EventSpec, Registry};
use jiff::{SignedDuration, Timestamp};
use model::automation::{AutomationId, Deliver, EventTrigger, PollStart, PollTrigger, Trigger};
use store::PollState;
use tokio::sync::{Notify, Semaphore};

use crate::catalog::{Catalog, Deployed};
use crate::clock::{Clock, Steady};
use crate::locks::KeyedLocks;
use crate::reload::Listener;
use crate::services::Services;
use crate::spelling::written;
use crate::timer::{Due, Timed};

pub use view::{PollError, PollView};

/// How many polls are made at one time.
const AT_ONCE: usize = 32;

/// Polls in force, and where each stands.
pub(crate) struct Polls {
    state: Mutex<State>,
    /// Told when another poll may be the next.
    wake: Notify,
    /// Who polls, resets or rewinds an Automation, one at a time.
    locks: KeyedLocks,
    slots: Semaphore,
}

#[derive(Default)]
struct State {
    entries: HashMap<AutomationId, Entry>,
    order: BTreeSet<(Steady, AutomationId)>,
    /// What the store knows of polls that are not in force.
    stored: HashMap<AutomationId, PollState>,
}

struct Entry {
    every: Duration,
    standing: PollState,
    /// When it was last polled without an error, and when it is next: what the standing says of both is what the wall clock showed.
    asked: Option<Steady>,
    next: Steady,
    /// Whether it is polled at this moment: then it is not in the order.
    busy: bool,
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            locks: KeyedLocks::default(),
            slots: Semaphore::new(AT_ONCE),
        }
    }
}

/// What a trigger asks for.
enum Question<'a> {
    /// An action's results.
    Any(&'a PollTrigger),
    /// An event that its connector looks for.
    Event(&'a EventTrigger, Arc<EventSpec>),
}

impl<'a> Question<'a> {
    /// What the trigger of an Automation polls for, if it does.
    fn of(deployed: &'a Deployed, registry: &Registry) -> Option<Self> {
        match &deployed.automation.trigger {
            Trigger::Poll(poll) => Some(Self::Any(poll)),
            Trigger::Event(event) => {
                let spec = registry.event(&event.asks.action.name)?;
                matches!(spec.source, EventSource::Poll(_)).then(|| Self::Event(event, spec.clone()))
            }
            Trigger::Webhook(_) | Trigger::Schedule(_) | Trigger::Manual => None,
        }
    }

    fn every(&self) -> Duration {
        match self {
            Self::Any(poll) => poll.every,
            Self::Event(event, spec) => match (&event.every, &spec.source) {
                (Some((every, _)), _) => *every,
                (None, EventSource::Poll(polled)) => polled.every,
                (None, EventSource::Hook(_)) => Duration::MAX,
            },
        }
    }

    fn start(&self) -> PollStart {
        match self {
            Self::Any(poll) => poll.start,
            Self::Event(event, _) => event.start.map(|(start, _)| start).unwrap_or_default(),
        }
    }

    fn deliver(&self) -> Deliver {
        match self {
            Self::Any(poll) => poll.deliver,
            Self::Event(event, _) => event.deliver.map(|(deliver, _)| deliver).unwrap_or_default(),
        }
    }

    /// What tells this question from another: what was known of another one's answers is worth nothing.
    fn source(&self) -> String {
        let (asks, more) = match self {
            Self::Any(poll) => (&poll.asks, vec![&poll.items, &poll.id, &poll.cursor]),
            Self::Event(event, _) => (&event.asks, Vec::new()),
        };
        let mut words = asks.action.name.clone();
        for (name, template) in &asks.with {
            words = format!("{words} {}={}", name.name, written(template));
        }
        let connection = asks.connection.as_ref().map_or("", |connection| &connection.name);
        let more = more.into_iter().flatten().map(|expression| expression.text().to_owned());
        [words, connection.to_owned()].into_iter().chain(more).collect::<Vec<_>>().join(" | ")
    }
}

/// Polls until the engine stops.
pub(crate) async fn run(services: Arc<Services>) {
    match services.store.poll_states().await {
        Ok(stored) => services.polls.state().stored = stored.into_iter().collect(),
        Err(error) => {
            tracing::error!(%error, "nothing is polled: where the polls stand cannot be read");
            return;
        }
    }
    services.timer().run(Round(services)).await;
}

/// All polls in force, at their instants.
struct Round(Arc<Services>);

impl Timed for Round {
    async fn adopt(&mut self) {
        let services = &self.0;
        let decided = services.loader.take_decided(Listener::Polls);
        services.polls.adopt(&services.catalog.load(), decided, &*services.clock);
    }

    fn next(&self) -> Option<Due> {
        self.0.polls.state().order.first().map(|(at, _)| Due::Passed(*at))
    }

    async fn moved(&self) {
        self.0.polls.wake.notified().await;
    }

    async fn act(&mut self) {
        for id in self.0.polls.take_due(self.0.clock.steady_now()) {
            let services = self.0.clone();
            self.0.tracker.spawn(async move { services.poll_when_free(id).await });
        }
    }
}

impl Services {
    async fn poll_when_free(self: Arc<Self>, id: AutomationId) {
        let slot = tokio::select! {
            slot = self.polls.slots.acquire() => slot,
            () = self.closing.cancelled() => return,
        };
        self.poll(&id).await;
        drop(slot);
        self.polls.rest(&id);
    }
}

impl Polls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the polls of these Automations from a snapshot. One that asks the same as before goes on where it stood.
    fn adopt(&self, catalog: &Catalog, ids: BTreeSet<AutomationId>, clock: &dyn Clock) {
        let ahead = clock.ahead();
        let mut state = self.state();
        for id in ids {
            let before = state.entries.remove(&id);
            if let Some(entry) = &before {
                state.order.remove(&(entry.next, id.clone()));
            }
            let busy = before.as_ref().is_some_and(|entry| entry.busy);
            let before = before.map(|entry| (entry.standing, entry.asked, entry.next)).or_else(|| {
                let standing = state.stored.remove(&id)?;
                let asked = standing.polled_at.map(|at| Steady::of(at, ahead));
                let next = Steady::of(standing.next_at, ahead);
                Some((standing, asked, next))
            });
            let deployed = catalog.get(&id).filter(|deployed| deployed.automation.enabled);
            let question = deployed.and_then(|deployed| Question::of(deployed, catalog.registry()));
            let Some(question) = question else {
                // Where it stood is kept: it may be enabled again, or come back.
                state.stored.extend(before.map(|(standing, _, next)| (id, shown(standing, next, ahead))));
                continue;
            };
            let (source, every) = (question.source(), question.every());
            let before = before.filter(|(standing, ..)| standing.source == source);
            let (standing, asked, mut next) =
                before.unwrap_or_else(|| (afresh(source, clock.now()), None, clock.steady_now()));
            // The clock may have been set while nobody looked at it: nothing is further off than it can have been meant.
            next = next.min(clock.steady_now().after(every.max(turn::LONGEST_BACKOFF)));
            if standing.failures == 0
                && let Some(asked) = asked
            {
                // It may be asked more often than before.
                next = next.min(asked.after(every));
            }
            if !busy {
                state.order.insert((next, id.clone()));
            }
            state.entries.insert(id, Entry { every, standing, asked, next, busy });
        }
    }

    /// Takes everything that is due out of the order.
    fn take_due(&self, now: Steady) -> Vec<AutomationId> {
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

    /// Puts a poll that was made back into the order.
    fn rest(&self, id: &AutomationId) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(id) {
            entry.busy = false;
            let next = entry.next;
            state.order.insert((next, id.clone()));
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Where the poll of an Automation stands, if it is in force.
    fn standing(&self, id: &AutomationId) -> Option<PollState> {
        self.state().entries.get(id).map(|entry| entry.standing.clone())
    }

    /// Says where a poll stands now, while the wall clock is so far ahead, unless another question has taken its place
    /// meanwhile.
    fn put(&self, id: &AutomationId, standing: PollState, ahead: SignedDuration) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id).filter(|entry| entry.standing.source == standing.source)
        else {
            return;
        };
        let (before, next, busy) = (entry.next, Steady::of(standing.next_at, ahead), entry.busy);
        if standing.failures == 0 {
            entry.asked = standing.polled_at.map(|at| Steady::of(at, ahead));
        }
        (entry.next, entry.standing) = (next, standing);
        if !busy {
            state.order.remove(&(before, id.clone()));
            state.order.insert((next, id.clone()));
        }
        drop(state);
        self.wake.notify_one();
    }
}

/// Where a poll stands, with its next instant as the wall clock will show it.
fn shown(standing: PollState, next: Steady, ahead: SignedDuration) -> PollState {
    PollState { next_at: next.shown(ahead), ..standing }
}

/// Where a poll stands that was never made.
fn afresh(source: String, now: Timestamp) -> PollState {
    PollState {
        source,
        cursor: model::Value::Null,
        polled_at: None,
        found_at: None,
        next_at: now,
        failures: 0,
        error: None,
        polls: 0,
        found: 0,
    }
}
