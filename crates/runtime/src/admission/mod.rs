//! From an accepted start to a running execution: durable first, then a slot, in order, within limits.

mod accept;
mod adopt;
mod backlog;
mod concurrency;
mod definition;
mod event_delivery;
mod handover;
mod recent_events;
mod recovery;
mod signal;
mod suspend;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use model::automation::{AutomationId, DefinitionHash};
use model::execution::{Event, ExecutionId, Status};
use store::ExecutionRow;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, watch};

pub(crate) use accept::Slot;
pub use accept::{AcceptOptions, Acceptance};
pub(crate) use adopt::Handed;
use backlog::Lane;
pub(crate) use definition::StoredDefinitions;
pub use definition::{Version, read_definition};
pub use event_delivery::SentEvent;
use recent_events::EventKeys;
pub(crate) use recent_events::first_event_key;
pub use signal::{Answer, SignalError};
use table::{Cancel, ExecutionTable};

use crate::api::QueueStatus;
use crate::clock::Clock;
use crate::context::Runtime;
use crate::memory::Share;
use crate::metrics::QueueWaits;
use crate::random::RandomPool;
use crate::run::Progress;
use catalog::{Catalog, Deployment};

/// The executions of this process that are accepted and have not ended, and the slots in which they run.
pub struct Admission {
    slots: Arc<Semaphore>,
    table: Mutex<ExecutionTable>,
    ids: Mutex<IdSequence>,
    /// The keys of the events that this process retains.
    event_keys: EventKeys,
    /// The definitions that are stored.
    pub(crate) definitions: Arc<StoredDefinitions>,
    /// Compiled definitions that are no longer in force and on which executions still run.
    old: Mutex<HashMap<DefinitionHash, Arc<Deployment>>>,
    /// Notified when the backlog may have an execution to dispatch, one for each queue.
    wake: Notify,
    wake_large: Notify,
    /// Notified when the next instant at which a suspended execution wakes may have changed.
    rest: Notify,
    /// Notified when an execution comes into memory or leaves it.
    moved: Notify,
    /// The wall-clock offset at startup, used to interpret timestamps that earlier processes recorded.
    initial_wall_offset: SignedDuration,
}

/// The part of execution ids that orders the ids of one millisecond.
#[derive(Default)]
struct IdSequence {
    /// The millisecond of the last id, and the number of ids before it in that millisecond.
    last_millisecond: i64,
    sequence: u16,
    random: RandomPool,
    /// The bits behind the sequence in a simulation, which are counted up; `None` for random ones.
    counted: Option<u64>,
}

impl Admission {
    pub(crate) fn new(
        in_flight: usize,
        initial_wall_offset: SignedDuration,
        queue_waits: Arc<QueueWaits>,
        first_id_bits: Option<u64>,
    ) -> Self {
        let ids = IdSequence { counted: first_id_bits, ..IdSequence::default() };
        let slots = Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            slots,
            table: Mutex::new(ExecutionTable::new(queue_waits)),
            ids: Mutex::new(ids),
            event_keys: EventKeys::default(),
            definitions: Arc::default(),
            old: Mutex::default(),
            wake: Notify::new(),
            wake_large: Notify::new(),
            rest: Notify::new(),
            moved: Notify::new(),
            initial_wall_offset,
        }
    }

    /// The number of executions in memory.
    pub fn in_flight(&self) -> usize {
        self.table().running_count()
    }

    /// The number of suspended executions.
    pub fn suspended_count(&self) -> usize {
        self.table().suspended_count()
    }

    /// The number of executions that wait for a permit of their concurrency group.
    pub fn waiting_for_permit(&self) -> usize {
        self.table().waiting_for_permit_count()
    }

    /// The queue position or concurrency wait of an execution; `None` if it runs or is suspended.
    pub fn queue_status(&self, id: ExecutionId) -> Option<QueueStatus> {
        self.table().queue_status(id)
    }

    /// Returns the status of a stored row, corrected by the table of this process. A row says running from acceptance on, even
    /// while the execution waits for a slot, for memory, or (unless other nodes read it) for a permit; else it says queued until
    /// the first commit of its run.
    pub fn shown_status(&self, row: &ExecutionRow) -> Status {
        let table = self.table();
        match row.status {
            Status::Running if table.is_queued(row.id) => Status::Queued,
            Status::Queued if table.run(row.id).is_some() => Status::Running,
            status => status,
        }
    }

    /// The number of executions that wait for memory or a slot.
    pub fn queued(&self) -> usize {
        self.table().backlog_len()
    }

    /// The number of executions that wait for a slot and for nothing else.
    pub fn waiting_for_slot(&self) -> usize {
        self.table().waiting_count(Lane::Slot)
    }

    /// The number of executions that wait for memory for the large data of their triggers.
    pub fn waiting_for_memory(&self) -> usize {
        self.table().waiting_count(Lane::Memory)
    }

    /// Applies the limits of the definitions in force to the executions that wait for a permit.
    pub(crate) fn follow_limits(&self, catalog: &Catalog, clock: &dyn Clock) {
        self.table().set_limits(|automation| concurrency::limit_in_force(catalog, automation), clock);
        self.wake_dispatchers();
    }

    /// Tells the tasks that dispatch that the backlog may have an execution for them.
    fn wake_dispatchers(&self) {
        self.wake.notify_one();
        self.wake_large.notify_one();
    }

    /// True if an execution that the automation's schedule started has not ended.
    pub fn schedule_is_busy(&self, automation: &AutomationId) -> bool {
        self.table().schedule_is_busy(automation)
    }

    /// Completes when an execution comes into memory or leaves it.
    pub fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// True if the execution is in memory.
    pub fn is_live(&self, id: ExecutionId) -> bool {
        self.table().run(id).is_some()
    }

    /// Subscribes to the progress of an execution that has not ended; `None` if it is claimed or not in this process.
    pub fn watch(&self, id: ExecutionId) -> Option<watch::Receiver<Progress>> {
        self.table().watch(id)
    }

    /// Asks an execution to end. Returns false if this process does not have it.
    pub(crate) fn cancel(&self, runtime: &Arc<Runtime>, id: ExecutionId, reason: &str) -> bool {
        let cancel = self.table().cancel(id, reason, &*runtime.clock);
        match cancel {
            Cancel::Unknown => false,
            Cancel::Requested => true,
            Cancel::Claimed(queued) => {
                // It runs without a slot, since it ends at once.
                runtime.tracker.spawn(runtime.clone().load_and_run(id, queued, None, Share::default()));
                true
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, ExecutionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn old(&self) -> MutexGuard<'_, HashMap<DefinitionHash, Arc<Deployment>>> {
        self.old.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the id of an execution that is accepted now. Ids of one millisecond differ by a count in the bits behind
    /// the time (RFC 9562, 6.2), so that they sort in the order of acceptance.
    pub fn next_id(&self, now: Timestamp) -> ExecutionId {
        let millisecond = now.as_millisecond();
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bits = ids.random.next::<10>();
        ids.sequence = if ids.last_millisecond == millisecond { ids.sequence.wrapping_add(1) } else { 0 };
        ids.last_millisecond = millisecond;
        bits[..2].copy_from_slice(&(ids.sequence & 0x0fff).to_be_bytes());
        if let Some(counted) = &mut ids.counted {
            *counted += 1;
            bits[2..].copy_from_slice(&counted.to_be_bytes());
        }
        ExecutionId::new(now, bits)
    }
}

impl Runtime {
    /// Records the response that the caller of an execution got, if no other event implies it. It is committed with the next
    /// events, or at once for a suspended execution.
    pub fn record_answer(self: &Arc<Self>, id: ExecutionId, status: u16) {
        self.record_event(id, Event::Answered { at: self.clock.now(), status });
    }

    /// Records an event that explains the history.
    pub(crate) fn record_event(self: &Arc<Self>, id: ExecutionId, event: Event) {
        let mut table = self.admission.table();
        if let Some(run) = table.run(id) {
            return run.journal.note(event);
        }
        let left = table.note(id, event);
        drop(table);
        if let Some(event) = left {
            let runtime = self.clone();
            self.tracker.spawn(async move { runtime.record_suspended(id, event).await });
        }
    }
}
