//! The execution table: every execution of this process that is accepted and has not ended, with its one state.

mod leaving;
mod permits;
mod queued;
mod recovering;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::automation::{AutomationId, TriggerKey};
use model::execution::{DelayReason, Event, ExecutionId, Origin};
use tokio::sync::watch;

use super::backlog::{Backlog, Lane};
use crate::api::Progress;
use crate::api::{ConcurrencyWait, QueueStatus};
use crate::clock::{Clock, MonotonicTime};
use crate::metrics::QueueWaits;
use crate::run::{ReplaySource, Run, Wake};
use permits::ConcurrencyGroup;
pub(super) use permits::PermitWaiter;
pub(crate) use queued::Queued;
pub(super) use recovering::Ahead;
use recovering::Recovering;

/// The state of an execution that is accepted and has not ended.
pub(super) enum ExecutionState {
    /// Waits in the backlog for memory or a slot.
    Queued(Queued),
    /// Waits for a permit of its concurrency group.
    WaitingForPermit(Box<PermitWait>),
    /// Claimed by one task, which loads it or records a signal for it. No other task may run it.
    Claimed {
        /// True if the execution stays in the backlog meanwhile, so that no later one is dispatched before it.
        is_in_backlog: bool,
        /// The reason of a cancellation that was requested during the claim.
        pending_cancel: Option<String>,
        /// True if an execution that it waits for has ended during the claim.
        is_woken: bool,
        /// True while it is given to another node.
        is_leaving: bool,
    },
    /// Runs in this process.
    Running(Arc<Run>),
    /// Nothing but pauses is left; it is not in memory.
    Suspended(Suspended),
    /// The store has refused a write of it. It goes to the backlog after a pause.
    Paused {
        /// The end of the pause.
        until: MonotonicTime,
        queued: Box<Queued>,
    },
}

impl ExecutionState {
    fn claimed(is_in_backlog: bool, pending_cancel: Option<String>) -> Self {
        Self::Claimed { is_in_backlog, pending_cancel, is_woken: false, is_leaving: false }
    }
}

/// An execution that waits for a permit of a concurrency group.
pub(super) struct PermitWait {
    pub(super) group: GroupKey,
    pub(super) queued: Queued,
}

/// An execution with only waiting steps. There may be millions, so it is kept small.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    pub(super) wake: Wake,
    /// The wall-clock offset when its last event was recorded.
    pub(super) wall_offset: SignedDuration,
    /// True if it keeps the permit of its concurrency group.
    pub(super) keeps_permit: bool,
}

impl Suspended {
    pub(super) fn into_queued(self, since: MonotonicTime) -> Queued {
        Queued { source: ReplaySource::Suspended, ..Queued::new(self.wall_offset, since) }
    }
}

/// A concurrency group: all executions of one automation with the same concurrency key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub(super) automation: AutomationId,
    pub(super) key: String,
}

/// The result of a request to cancel.
pub(super) enum Cancel {
    /// The task that has the execution ends it.
    Requested,
    /// The caller has claimed the execution and must run it to its end.
    Claimed(Queued),
    /// The execution is not in this process.
    Unknown,
}

/// The result of claiming an execution in order to record something for it.
pub(super) enum Claim {
    /// It runs: its journal takes what is to be recorded.
    Running(Arc<Run>),
    Queued(Queued),
    Suspended(Suspended),
    /// It is claimed by another task, or not in this process.
    Unavailable,
}

/// The executions by id, each with exactly one [`ExecutionState`].
///
/// Invariants, kept by [`ExecutionTable::set`] and [`ExecutionTable::take`]: `running`, `waiting_for_permit`, `suspended` and `movable`
/// count the states;
/// an execution has timers only while it is suspended or paused. The backlog and the groups hold ids alone: an id in the backlog is
/// `Queued`, or `Claimed` with `is_in_backlog`; an id that waits in a group is `WaitingForPermit` with the key of that group.
#[derive(Default)]
pub(super) struct ExecutionTable {
    executions: HashMap<ExecutionId, ExecutionState>,
    /// Waiting for memory or a slot, in order.
    backlog: Backlog,
    pub(super) groups: HashMap<GroupKey, ConcurrencyGroup>,
    /// When suspended and paused executions wake by the wall clock, and by the monotonic one. An execution may be in both.
    wall_timers: BTreeSet<(Timestamp, ExecutionId)>,
    timers: BTreeSet<(MonotonicTime, ExecutionId)>,
    /// The progress channels of executions that callers wait for and that are not in memory.
    watchers: HashMap<ExecutionId, watch::Sender<Progress>>,
    /// Executions from before the restart that have not requested their permit yet, by automation.
    recovering: HashMap<AutomationId, Recovering>,
    /// The number of unfinished executions that the schedule of each automation started.
    scheduled: HashMap<TriggerKey, usize>,
    running: usize,
    waiting_for_permit: usize,
    suspended: usize,
    /// The number of queued executions that another node may run as well.
    movable: usize,
    waits: Arc<QueueWaits>,
}

impl ExecutionTable {
    /// An empty table, which counts waits for slots and permits in `waits`.
    pub(super) fn new(waits: Arc<QueueWaits>) -> Self {
        Self { waits, ..Self::default() }
    }

    /// Sets the state of an execution and returns the one before.
    fn set(&mut self, id: ExecutionId, state: ExecutionState) -> Option<ExecutionState> {
        let wake = match &state {
            ExecutionState::Running(_) => {
                self.running += 1;
                None
            }
            ExecutionState::WaitingForPermit(_) => {
                self.waiting_for_permit += 1;
                None
            }
            ExecutionState::Suspended(suspended) => {
                self.suspended += 1;
                Some(suspended.wake)
            }
            ExecutionState::Paused { until, .. } => Some(Wake { at: None, after: Some(*until) }),
            ExecutionState::Queued(queued) => {
                self.movable += usize::from(queued.is_movable);
                None
            }
            _ => None,
        };
        let before = self.executions.insert(id, state);
        self.left(id, before.as_ref());
        if let Some(wake) = wake {
            self.wall_timers.extend(wake.at.map(|at| (at, id)));
            self.timers.extend(wake.after.map(|after| (after, id)));
        }
        before
    }

    /// Takes an execution out of the table.
    fn take(&mut self, id: ExecutionId) -> Option<ExecutionState> {
        let before = self.executions.remove(&id);
        self.left(id, before.as_ref());
        before
    }

    /// Counts the state that an execution has left, and removes its timers.
    fn left(&mut self, id: ExecutionId, before: Option<&ExecutionState>) {
        match before {
            Some(ExecutionState::Running(_)) => self.running -= 1,
            Some(ExecutionState::WaitingForPermit(_)) => self.waiting_for_permit -= 1,
            Some(ExecutionState::Suspended(suspended)) => {
                self.suspended -= 1;
                if let Some(at) = suspended.wake.at {
                    self.wall_timers.remove(&(at, id));
                }
                if let Some(after) = suspended.wake.after {
                    self.timers.remove(&(after, id));
                }
            }
            Some(ExecutionState::Paused { until, .. }) => {
                self.timers.remove(&(*until, id));
            }
            Some(ExecutionState::Queued(queued)) => self.movable -= usize::from(queued.is_movable),
            _ => {}
        }
    }

    pub(super) fn running_count(&self) -> usize {
        self.running
    }

    pub(super) fn waiting_for_permit_count(&self) -> usize {
        self.waiting_for_permit
    }

    pub(super) fn suspended_count(&self) -> usize {
        self.suspended
    }

    pub(super) fn backlog_len(&self) -> usize {
        self.backlog.len()
    }

    /// The number of queued executions that another node may run as well.
    pub(super) fn movable_count(&self) -> usize {
        self.movable
    }

    /// The number of executions that wait in a queue of the backlog.
    pub(super) fn waiting_count(&self, lane: Lane) -> usize {
        self.backlog.len_of(lane)
    }

    /// True if the execution is in the table.
    pub(super) fn has(&self, id: ExecutionId) -> bool {
        self.executions.contains_key(&id)
    }

    /// The run of an execution, if it is in memory.
    pub(super) fn run(&self, id: ExecutionId) -> Option<&Arc<Run>> {
        match self.executions.get(&id) {
            Some(ExecutionState::Running(run)) => Some(run),
            _ => None,
        }
    }

    /// True if the execution is suspended or paused, or waits for a slot or a permit.
    pub(super) fn is_parked(&self, id: ExecutionId) -> bool {
        match self.executions.get(&id) {
            Some(
                ExecutionState::Queued(_)
                | ExecutionState::WaitingForPermit(_)
                | ExecutionState::Suspended(_)
                | ExecutionState::Paused { .. },
            ) => true,
            Some(ExecutionState::Claimed { is_in_backlog, .. }) => *is_in_backlog,
            Some(ExecutionState::Running(_)) | None => false,
        }
    }

    /// Subscribes to the progress of an execution that has not ended; `None` if it is claimed or not in this process.
    pub(super) fn watch(&mut self, id: ExecutionId) -> Option<watch::Receiver<Progress>> {
        if let Some(run) = self.run(id) {
            return Some(run.progress.subscribe());
        }
        self.is_parked(id).then(|| {
            self.watchers.entry(id).or_insert_with(|| watch::channel(Progress::default()).0).subscribe()
        })
    }

    /// Takes the progress channel of an execution that comes into memory.
    pub(super) fn progress(&mut self, id: ExecutionId) -> watch::Sender<Progress> {
        // Most executions come into memory when nothing waits for them.
        let waited_for = if self.watchers.is_empty() { None } else { self.watchers.remove(&id) };
        waited_for.unwrap_or_else(|| watch::channel(Progress::default()).0)
    }

    /// The queue position, concurrency wait or refused write of an execution; `None` if it runs or is suspended.
    pub(super) fn queue_status(&self, id: ExecutionId) -> Option<QueueStatus> {
        match self.executions.get(&id)? {
            ExecutionState::Queued(_) | ExecutionState::Claimed { is_in_backlog: true, .. } => {
                let ahead = self.backlog.position(id)?;
                let for_memory = self.backlog.is_in(Lane::Memory, id);
                Some(QueueStatus { queued_behind: Some(ahead), for_memory, ..QueueStatus::default() })
            }
            ExecutionState::WaitingForPermit(wait) => {
                let key = &wait.group;
                let group = self.groups.get(key)?;
                let ahead = group.waiting.iter().position(|waiting| waiting.id == id)?;
                let turn = ConcurrencyWait { key: key.key.clone(), holders: group.holders.clone(), ahead };
                Some(QueueStatus { turn: Some(turn), ..QueueStatus::default() })
            }
            ExecutionState::Paused { .. } => Some(QueueStatus { for_store: true, ..QueueStatus::default() }),
            ExecutionState::Running(run) if run.journal.is_refused() => {
                Some(QueueStatus { for_store: true, ..QueueStatus::default() })
            }
            _ => None,
        }
    }

    /// True if the execution waits for a slot, for memory or for a permit.
    pub(super) fn is_queued(&self, id: ExecutionId) -> bool {
        matches!(
            self.executions.get(&id),
            Some(
                ExecutionState::Queued(_)
                    | ExecutionState::WaitingForPermit(_)
                    | ExecutionState::Claimed { is_in_backlog: true, .. }
            )
        )
    }

    /// Appends an execution to the backlog.
    pub(super) fn enqueue(&mut self, id: ExecutionId, queued: Queued) {
        self.backlog.push_back(queued.lane(), id);
        self.set(id, ExecutionState::Queued(queued));
    }

    /// Puts an execution at the front of the backlog.
    pub(super) fn enqueue_first(&mut self, id: ExecutionId, queued: Queued) {
        self.backlog.push_front(queued.lane(), id);
        self.set(id, ExecutionState::Queued(queued));
    }

    pub(super) fn suspend(&mut self, id: ExecutionId, suspended: Suspended) {
        self.set(id, ExecutionState::Suspended(suspended));
    }

    /// Registers an execution that runs from now on. Returns the reason of a cancellation that was requested while it was
    /// claimed, and the recovered executions that are ahead of it in its automation.
    pub(super) fn register(&mut self, id: ExecutionId, run: Arc<Run>) -> (Option<String>, Ahead) {
        let ahead = self.take_recovered(&run.deployment.automation.id, id);
        match self.set(id, ExecutionState::Running(run)) {
            Some(ExecutionState::Claimed { pending_cancel, .. }) => (pending_cancel, ahead),
            _ => (None, ahead),
        }
    }

    /// Moves a running execution out of memory, with the channel on which callers wait for its progress.
    pub(super) fn park(
        &mut self,
        id: ExecutionId,
        state: ExecutionState,
        watchers: Option<watch::Sender<Progress>>,
    ) {
        if let ExecutionState::Queued(queued) = &state {
            self.backlog.push_back(queued.lane(), id);
        }
        self.set(id, state);
        self.watchers.extend(watchers.map(|watchers| (id, watchers)));
    }

    /// Removes an execution that has ended or continues in another process.
    pub(super) fn remove(&mut self, id: ExecutionId) {
        self.take(id);
        if !self.watchers.is_empty() {
            self.watchers.remove(&id);
        }
    }

    /// The first execution of a queue of the backlog; `None` if the queue is empty or its first execution is claimed. No later one of the queue is
    /// dispatched before it.
    pub(super) fn next(&self, lane: Lane) -> Option<&Queued> {
        match self.executions.get(&self.backlog.first(lane)?) {
            Some(ExecutionState::Queued(queued)) => Some(queued),
            _ => None,
        }
    }

    /// Claims the first of a queue of the backlog, for which a slot is free.
    pub(super) fn claim_next(&mut self, lane: Lane, clock: &dyn Clock) -> Option<(ExecutionId, Queued)> {
        self.next(lane)?;
        let id = self.backlog.pop(lane)?;
        let Some(ExecutionState::Queued(mut queued)) = self.take(id) else { return None };
        self.set(id, ExecutionState::claimed(false, queued.cancel.take()));
        queued.end_wait(queued.reason(), clock, &self.waits);
        Some((id, queued))
    }

    /// Cancels an execution. One that is not in memory is claimed: it is loaded without a slot, only to end at once.
    pub(super) fn cancel(&mut self, id: ExecutionId, reason: &str, clock: &dyn Clock) -> Cancel {
        match self.executions.get_mut(&id) {
            None => return Cancel::Unknown,
            Some(ExecutionState::Running(run)) => {
                run.cancelled.cancel(reason);
                return Cancel::Requested;
            }
            Some(ExecutionState::Claimed { pending_cancel, .. }) => {
                pending_cancel.get_or_insert_with(|| reason.to_owned());
                return Cancel::Requested;
            }
            Some(_) => {}
        }
        let claimed = ExecutionState::claimed(false, Some(reason.to_owned()));
        match self.set(id, claimed) {
            Some(ExecutionState::Queued(mut queued)) => {
                self.backlog.remove(id);
                queued.end_wait(queued.reason(), clock, &self.waits);
                Cancel::Claimed(queued)
            }
            Some(ExecutionState::WaitingForPermit(wait)) => {
                let PermitWait { group: key, mut queued } = *wait;
                let mut holder = None;
                if let Some(group) = self.groups.get_mut(&key) {
                    group.waiting.retain(|other| other.id != id);
                    holder = group.holders.first().copied();
                }
                queued.end_wait(DelayReason::Permit { key: key.key, holder }, clock, &self.waits);
                Cancel::Claimed(queued)
            }
            Some(ExecutionState::Suspended(suspended)) => {
                Cancel::Claimed(suspended.into_queued(clock.monotonic_now()))
            }
            Some(ExecutionState::Paused { queued, .. }) => Cancel::Claimed(*queued),
            _ => Cancel::Unknown,
        }
    }

    /// Claims a suspended, paused or queued execution. A queued one keeps its position in the backlog, a paused one goes there.
    pub(super) fn claim(&mut self, id: ExecutionId) -> Claim {
        let is_in_backlog = match self.executions.get(&id) {
            Some(ExecutionState::Running(run)) => return Claim::Running(run.clone()),
            Some(ExecutionState::Queued(_)) => true,
            Some(ExecutionState::Suspended(_) | ExecutionState::Paused { .. }) => false,
            _ => return Claim::Unavailable,
        };
        match self.set(id, ExecutionState::claimed(is_in_backlog, None)) {
            Some(ExecutionState::Queued(queued)) => Claim::Queued(queued),
            Some(ExecutionState::Suspended(suspended)) => Claim::Suspended(suspended),
            Some(ExecutionState::Paused { queued, .. }) => Claim::Queued(*queued),
            _ => Claim::Unavailable,
        }
    }

    /// Releases a claim. Returns the reason of a cancellation that was requested meanwhile.
    pub(super) fn release(
        &mut self,
        id: ExecutionId,
        state: ExecutionState,
        now: MonotonicTime,
    ) -> Option<String> {
        let Some(ExecutionState::Claimed { is_in_backlog, pending_cancel, is_woken, .. }) =
            self.executions.get_mut(&id)
        else {
            return None;
        };
        let (is_in_backlog, mut pending_cancel) = (*is_in_backlog, pending_cancel.take());
        let state = match state {
            ExecutionState::Suspended(suspended) if *is_woken => {
                ExecutionState::Queued(suspended.into_queued(now))
            }
            // It is cancelled when it is repeated.
            ExecutionState::Paused { until, mut queued } => {
                queued.cancel = pending_cancel.take();
                ExecutionState::Paused { until, queued }
            }
            state => state,
        };
        if let ExecutionState::Queued(queued) = &state
            && !is_in_backlog
        {
            self.backlog.push_back(queued.lane(), id);
        }
        self.set(id, state);
        pending_cancel
    }

    /// Notes an event of the history for an execution that is paused or waits for a slot or a permit. Returns the event for any
    /// other.
    pub(super) fn note(&mut self, id: ExecutionId, event: Event) -> Option<Event> {
        match self.executions.get_mut(&id) {
            Some(ExecutionState::Queued(queued)) => queued.notes.push(event),
            Some(ExecutionState::WaitingForPermit(wait)) => wait.queued.notes.push(event),
            Some(ExecutionState::Paused { queued, .. }) => queued.notes.push(event),
            _ => return Some(event),
        }
        None
    }

    /// Moves a suspended or paused execution to the backlog. Returns false if it is neither. A claimed execution
    /// moves when it is released.
    pub(super) fn wake(&mut self, id: ExecutionId, now: MonotonicTime) -> bool {
        match self.executions.get_mut(&id) {
            Some(ExecutionState::Suspended(_) | ExecutionState::Paused { .. }) => {}
            Some(ExecutionState::Claimed { is_woken, .. }) => {
                *is_woken = true;
                return false;
            }
            _ => return false,
        }
        match self.take(id) {
            Some(ExecutionState::Suspended(suspended)) => self.enqueue(id, suspended.into_queued(now)),
            Some(ExecutionState::Paused { queued, .. }) => self.enqueue(id, Queued { since: now, ..*queued }),
            _ => {}
        }
        true
    }

    /// When the first suspended execution wakes by the wall clock, and by the monotonic one.
    pub(super) fn next_wake(&self) -> Wake {
        Wake {
            at: self.wall_timers.first().map(|(at, _)| *at),
            after: self.timers.first().map(|(after, _)| *after),
        }
    }

    /// Moves every suspended or paused execution to the backlog that is due.
    pub(super) fn wake_due(&mut self, now: Timestamp, monotonic_now: MonotonicTime) {
        while let Some((_, id)) = self.wall_timers.first().copied().filter(|(at, _)| *at <= now) {
            self.wall_timers.pop_first();
            self.wake(id, monotonic_now);
        }
        while let Some((_, id)) = self.timers.first().copied().filter(|(after, _)| *after <= monotonic_now) {
            self.timers.pop_first();
            self.wake(id, monotonic_now);
        }
    }

    /// Counts an execution that a schedule started.
    pub(super) fn count_scheduled(&mut self, trigger: &TriggerKey, origin: &Origin) {
        if matches!(origin, Origin::Schedule { .. }) {
            *self.scheduled.entry(trigger.clone()).or_default() += 1;
        }
    }

    /// Counts the end of an execution that a schedule started.
    pub(super) fn uncount_scheduled(&mut self, trigger: &TriggerKey, origin: &Origin) {
        if matches!(origin, Origin::Schedule { .. })
            && let Some(count) = self.scheduled.get_mut(trigger)
        {
            *count = count.saturating_sub(1);
        }
    }

    /// True if an execution that the schedule started has not ended.
    pub(super) fn schedule_is_busy(&self, trigger: &TriggerKey) -> bool {
        self.scheduled.get(trigger).is_some_and(|count| *count > 0)
    }
}
