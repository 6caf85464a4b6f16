//! From an accepted start to a running execution: durable first, then a slot, in order, within limits.

mod accept;
mod gate;
mod resume;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::automation::{AutomationId, DefinitionHash};
use model::execution::{ExecutionId, Origin};
use tokio::sync::{Notify, Semaphore, watch};

pub(crate) use accept::Terms;
use gate::Gate;

use crate::catalog::Deployed;
use crate::engine::Services;
use crate::run::{Progress, Run};

/// Executions that are accepted and have not ended.
pub(crate) struct Intake {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    /// Accepted, waiting for a slot, in order of acceptance.
    backlog: VecDeque<ExecutionId>,
    /// Running in this process.
    live: HashMap<ExecutionId, Arc<Run>>,
    /// Where somebody waits for the end of one that has not begun.
    awaited: HashMap<ExecutionId, watch::Sender<Progress>>,
    /// Executions of each schedule that have not ended.
    scheduled: HashMap<AutomationId, usize>,
    gates: HashMap<(AutomationId, String), Gate>,
    /// Definitions known to be stored.
    stored: HashSet<DefinitionHash>,
    old: HashMap<DefinitionHash, Arc<Deployed>>,
    refused: BTreeMap<&'static str, u64>,
    /// When the last id was given out, and how many before it in the same millisecond.
    last_millisecond: i64,
    sequence: u16,
}

impl Intake {
    pub(crate) fn new(in_flight: usize) -> Self {
        let slots = Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)));
        Self { slots, state: Mutex::new(State::default()), wake: Notify::new() }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state().live.len()
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().backlog.len()
    }

    pub(crate) fn refused(&self) -> BTreeMap<String, u64> {
        self.state().refused.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    /// Counts a start that was refused or passed over.
    pub(crate) fn count_refused(&self, reason: &'static str) {
        *self.state().refused.entry(reason).or_default() += 1;
    }

    /// Whether an execution that the Automation's schedule started has not ended.
    pub(crate) fn schedule_is_busy(&self, automation: &AutomationId) -> bool {
        self.state().scheduled.get(automation).is_some_and(|count| *count > 0)
    }

    /// How far an execution has come, if it has not ended.
    pub(crate) fn watch(&self, id: ExecutionId) -> Option<watch::Receiver<Progress>> {
        let mut state = self.state();
        if let Some(run) = state.live.get(&id) {
            return Some(run.progress.subscribe());
        }
        let waits =
            state.backlog.contains(&id) || state.gates.values().any(|gate| gate.waiting.contains(&id));
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
        let position = state.backlog.iter().position(|waiting| *waiting == id);
        let queued = position.and_then(|position| state.backlog.remove(position)).is_some();
        let gated = state.gates.values_mut().any(|gate| {
            let before = gate.waiting.len();
            gate.waiting.retain(|waiting| *waiting != id);
            gate.waiting.len() < before
        });
        drop(state);
        if queued || gated {
            // It begins without a slot, only to end at once.
            let services = services.clone();
            let reason = reason.to_owned();
            let tracker = services.tracker.clone();
            tracker.spawn(async move { services.load_and_run(id, None, Some(reason)).await });
        }
        queued || gated
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id for an execution accepted now. Those of one millisecond are told apart by a count in the bits behind
    /// the time (RFC 9562, 6.2), so that they sort in the order of acceptance.
    fn next_id(&self, now: jiff::Timestamp) -> ExecutionId {
        let mut bits = random::<10>();
        let millisecond = now.as_millisecond();
        let mut state = self.state();
        state.sequence =
            if state.last_millisecond == millisecond { state.sequence.wrapping_add(1) } else { 0 };
        state.last_millisecond = millisecond;
        bits[..2].copy_from_slice(&(state.sequence & 0x0fff).to_be_bytes());
        ExecutionId::new(now, bits)
    }

    fn enqueue(&self, id: ExecutionId) {
        self.state().backlog.push_back(id);
        self.wake.notify_one();
    }

    fn count_scheduled(&self, automation: &AutomationId, origin: &Origin) {
        if matches!(origin, Origin::Schedule { .. }) {
            *self.state().scheduled.entry(automation.clone()).or_default() += 1;
        }
    }
}

/// Random bits for an id.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // The system's source of randomness never fails once it is seeded; an id stays unique by its time.
        tracing::error!("the system gives no random bytes");
    }
    bytes
}
