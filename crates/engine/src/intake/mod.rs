//! From an accepted start to a running execution: durable first, then a slot, in order, within limits.

mod accept;
mod definition;
mod gate;
mod kept;
mod rest;
mod resume;
mod signal;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use model::automation::{AutomationId, DefinitionHash};
use model::execution::{ExecutionId, Origin};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, watch};

pub(crate) use accept::{Admission, Slot, Terms};
pub use definition::read_definition;
use gate::Gate;
pub(crate) use kept::{AwaitedEvents, since_begin};
pub use signal::{Answer, SignalError};

use crate::catalog::Deployment;
use crate::chance::Drawn;
use crate::clock::Steady;
use crate::run::{CameFrom, Progress, Run, Wake};
use crate::services::Services;
use crate::told::{Standing, Turn};

/// Executions that are accepted and have not ended.
pub(crate) struct Intake {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    wake: Notify,
    /// Told when the next instant at which something wakes may be another.
    rest: Notify,
    /// Told when an execution comes into memory or leaves it.
    moved: Notify,
    /// How far the clock was ahead of the steady scale at first: by that is read what other processes recorded.
    first_ahead: SignedDuration,
}

/// An accepted execution that waits for a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    id: ExecutionId,
    came_from: CameFrom,
    /// How far the clock was ahead when the last of its events was recorded.
    ahead: SignedDuration,
}

impl Queued {
    fn new(id: ExecutionId, ahead: SignedDuration) -> Self {
        Self { id, came_from: CameFrom::ThisProcess, ahead }
    }

    fn from_rest(id: ExecutionId, ahead: SignedDuration) -> Self {
        Self { came_from: CameFrom::Rest, ..Self::new(id, ahead) }
    }
}

/// An execution of which nothing but pauses is left.
#[derive(Clone, Copy, Debug)]
struct Sleeper {
    wake: Wake,
    /// How far the clock was ahead when the last of its events was recorded.
    ahead: SignedDuration,
}

#[derive(Default)]
struct State {
    /// Accepted, waiting for a slot, in order.
    backlog: VecDeque<Queued>,
    /// At rest. Whoever takes one out of here has it.
    resting: HashMap<ExecutionId, Sleeper>,
    /// When they go on, in order: those that go by the wall clock, and those that last a certain time. One may be in both.
    calendar: BTreeSet<(Timestamp, ExecutionId)>,
    alarms: BTreeSet<(Steady, ExecutionId)>,
    /// On their way into memory, or with somebody who records what came for them: nobody else goes on with them. One that
    /// something came for while it waited for a slot keeps its place in the backlog meanwhile. With the reason, where they
    /// are to end and nobody has seen to it yet.
    in_hand: HashMap<ExecutionId, Option<String>>,
    /// Running in this process.
    live: HashMap<ExecutionId, Arc<Run>>,
    /// Where somebody waits for the end of one that has not begun.
    awaited: HashMap<ExecutionId, watch::Sender<Progress>>,
    /// Executions of each schedule that have not ended.
    scheduled: HashMap<AutomationId, usize>,
    gates: HashMap<(AutomationId, String), Gate>,
    /// Executions of another process that have not come to the gates of their Automations yet: nobody passes them by.
    before: HashMap<AutomationId, HashSet<ExecutionId>>,
    /// Definitions known to be stored.
    stored: HashSet<DefinitionHash>,
    old: HashMap<DefinitionHash, Arc<Deployment>>,
    /// When the last id was given out, and how many before it in the same millisecond.
    last_millisecond: i64,
    sequence: u16,
    drawn: Drawn,
}

impl Intake {
    pub(crate) fn new(in_flight: usize, first_ahead: SignedDuration) -> Self {
        let slots = Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            slots,
            state: Mutex::new(State::default()),
            wake: Notify::new(),
            rest: Notify::new(),
            moved: Notify::new(),
            first_ahead,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state().live.len()
    }

    pub(crate) fn resting(&self) -> usize {
        self.state().resting.len()
    }

    /// What an execution waits for that is accepted and not under way; nothing where it is, or rests.
    pub(crate) fn standing(&self, id: ExecutionId) -> Option<Standing> {
        let state = self.state();
        if let Some(ahead) = state.backlog.iter().position(|queued| queued.id == id) {
            return Some(Standing { queued_behind: Some(ahead), ..Standing::default() });
        }
        state.gates.iter().find_map(|((_, key), gate)| {
            let ahead = gate.waiting.iter().position(|waiting| waiting.id == id)?;
            let turn = Turn { key: key.clone(), holders: gate.holders.clone(), ahead };
            Some(Standing { turn: Some(turn), ..Standing::default() })
        })
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().backlog.len()
    }

    /// Whether an execution that the Automation's schedule started has not ended.
    pub(crate) fn schedule_is_busy(&self, automation: &AutomationId) -> bool {
        self.state().scheduled.get(automation).is_some_and(|count| *count > 0)
    }

    /// Comes when an execution comes into memory or leaves it.
    pub(crate) fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Whether an execution is in memory.
    pub(crate) fn is_live(&self, id: ExecutionId) -> bool {
        self.state().live.contains_key(&id)
    }

    /// How far an execution has come, if it has not ended.
    pub(crate) fn watch(&self, id: ExecutionId) -> Option<watch::Receiver<Progress>> {
        let mut state = self.state();
        if let Some(run) = state.live.get(&id) {
            return Some(run.progress.subscribe());
        }
        let waits = state.resting.contains_key(&id)
            || state.backlog.iter().any(|queued| queued.id == id)
            || state.gates.values().any(|gate| gate.has_waiting(id));
        waits.then(|| {
            state.awaited.entry(id).or_insert_with(|| watch::channel(Progress::default()).0).subscribe()
        })
    }

    /// Asks an execution to end. False if this process does not have it.
    pub(crate) fn cancel(&self, services: &Arc<Services>, id: ExecutionId, reason: &str) -> bool {
        let mut state = self.state();
        if let Some(run) = state.live.get(&id) {
            run.cancelled.cancel(reason);
            return true;
        }
        if let Some(end) = state.in_hand.get_mut(&id) {
            // Whoever has it sees to that.
            end.get_or_insert_with(|| reason.to_owned());
            return true;
        }
        let position = state.backlog.iter().position(|waiting| waiting.id == id);
        let queued = position.and_then(|position| state.backlog.remove(position));
        let resting = state.take_resting(id);
        let gated = state.gates.values_mut().find_map(|gate| {
            let position = gate.waiting.iter().position(|waiting| waiting.id == id)?;
            gate.waiting.remove(position)
        });
        let Some(found) = queued.or(resting).or(gated) else { return false };
        state.in_hand.insert(id, Some(reason.to_owned()));
        drop(state);
        // It goes on without a slot, only to end at once.
        services.tracker.spawn(services.clone().load_and_run(found, None));
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id for an execution accepted now. Those of one millisecond are told apart by a count in the bits behind
    /// the time (RFC 9562, 6.2), so that they sort in the order of acceptance.
    pub(crate) fn next_id(&self, now: Timestamp) -> ExecutionId {
        let millisecond = now.as_millisecond();
        let mut state = self.state();
        let mut bits = state.drawn.next::<10>();
        state.sequence =
            if state.last_millisecond == millisecond { state.sequence.wrapping_add(1) } else { 0 };
        state.last_millisecond = millisecond;
        bits[..2].copy_from_slice(&(state.sequence & 0x0fff).to_be_bytes());
        ExecutionId::new(now, bits)
    }

    fn enqueue(&self, queued: Queued) {
        self.state().backlog.push_back(queued);
        self.wake.notify_one();
    }

    fn count_scheduled(&self, automation: &AutomationId, origin: &Origin) {
        self.state().count_scheduled(automation, origin);
    }
}

impl State {
    /// Whether there is one to which the next slot can be given. Nobody passes the first by while somebody has it in hand.
    fn has_next_in_line(&self) -> bool {
        self.backlog.front().is_some_and(|first| !self.in_hand.contains_key(&first.id))
    }

    /// Takes the first that waits for a slot, if there is one to take.
    fn next_in_line(&mut self) -> Option<Queued> {
        let next = if self.has_next_in_line() { self.backlog.pop_front() } else { None }?;
        self.in_hand.insert(next.id, None);
        Some(next)
    }

    /// Whoever had it has brought it to where it is found. Why it is to end, where somebody said so meanwhile.
    fn out_of_hand(&mut self, id: ExecutionId) -> Option<String> {
        self.in_hand.remove(&id).flatten()
    }

    fn count_scheduled(&mut self, automation: &AutomationId, origin: &Origin) {
        if matches!(origin, Origin::Schedule { .. }) {
            *self.scheduled.entry(automation.clone()).or_default() += 1;
        }
    }
}
