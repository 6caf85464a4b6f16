//! From an accepted start to a running execution: durable first, then a slot, in order, within limits.

mod accept;
mod admit;
mod adopt;
mod backlog;
mod batch;
mod concurrency;
mod event_delivery;
mod handover;
mod recovery;
mod requests;
mod signal;
mod suspend;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::SignedDuration;
use model::automation::TriggerKey;
use model::execution::{Event, ExecutionId, Status};
use store::ExecutionRow;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, watch};

pub(crate) use adopt::Handed;
use backlog::Lane;
pub use batch::NewStart;
pub use signal::Answer;
use table::{Cancel, ExecutionTable};

use crate::answers::AnswerLog;
use crate::api::Progress;
use crate::api::QueueStatus;
use crate::connections::Connections;
use crate::context::Context;
use crate::ids::Ids;
use crate::memory::Share;
use crate::peers::{Letters, Shards};
use crate::recent_events::RecentEvents;
use crate::records::Records;
use catalog::Catalog;

/// The executions of this process that are accepted and have not ended, and the slots in which they run.
pub struct Admission {
    /// The services that all components use.
    pub context: Arc<Context>,
    connections: Arc<Connections>,
    /// The stored executions and their definitions.
    pub records: Arc<Records>,
    shards: Arc<Shards>,
    letters: Arc<Letters>,
    events: Arc<RecentEvents>,
    /// The ids of executions.
    pub ids: Arc<Ids>,
    /// The latest answers of people.
    pub answers: AnswerLog,
    slots: Arc<Semaphore>,
    table: Mutex<ExecutionTable>,
    /// Notified when an execution has joined the backlog.
    pub(crate) joined: Notify,
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

impl Admission {
    pub(crate) fn new(
        connections: Arc<Connections>,
        records: Arc<Records>,
        shards: Arc<Shards>,
        letters: Arc<Letters>,
    ) -> Self {
        let context = records.context.clone();
        let slots = context.settings.limits.in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let ids = Arc::new(Ids::new(context.doubles.as_ref().and_then(|doubles| doubles.first_id_bits())));
        Self {
            connections,
            records,
            shards,
            letters,
            events: Arc::new(RecentEvents::new(context.clone(), ids.clone())),
            ids,
            answers: AnswerLog::default(),
            slots: Arc::new(Semaphore::new(slots)),
            table: Mutex::new(ExecutionTable::new(context.metrics.queue_waits.clone())),
            joined: Notify::new(),
            wake: Notify::new(),
            wake_large: Notify::new(),
            rest: Notify::new(),
            moved: Notify::new(),
            initial_wall_offset: context.clock.wall_offset(),
            context,
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
    pub fn place(&self, id: ExecutionId) -> Option<QueueStatus> {
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
    pub(crate) fn follow_limits(&self, catalog: &Catalog) {
        self.table()
            .set_limits(|automation| concurrency::limit_in_force(catalog, automation), &*self.context.clock);
        self.wake_dispatchers();
    }

    /// Tells the tasks that dispatch that the backlog may have an execution for them.
    fn wake_dispatchers(&self) {
        self.wake.notify_one();
        self.wake_large.notify_one();
    }

    /// True if an execution that the schedule started has not ended.
    pub fn schedule_is_busy(&self, trigger: &TriggerKey) -> bool {
        self.table().schedule_is_busy(trigger)
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
    pub(crate) fn cancel_here(self: &Arc<Self>, id: ExecutionId, reason: &str) -> bool {
        let cancel = self.table().cancel(id, reason, &*self.context.clock);
        match cancel {
            Cancel::Unknown => false,
            Cancel::Requested => true,
            Cancel::Claimed(queued) => {
                // It runs without a slot, since it ends at once.
                self.context.tracker.spawn(self.clone().load_and_run(id, queued, None, Share::default()));
                true
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, ExecutionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission {
    /// Records the response that the caller of an execution got, if no other event implies it. It is committed with the next
    /// events, or at once for a suspended execution.
    pub fn record_answer(self: &Arc<Self>, id: ExecutionId, status: u16) {
        self.record_event(id, Event::Answered { at: self.context.clock.now(), status });
    }

    /// Records an event that explains the history.
    pub(crate) fn record_event(self: &Arc<Self>, id: ExecutionId, event: Event) {
        let mut table = self.table();
        if let Some(run) = table.run(id) {
            return run.journal.note(event);
        }
        let left = table.note(id, event);
        drop(table);
        if let Some(event) = left {
            let admission = self.clone();
            self.context.tracker.spawn(async move { admission.record_suspended(id, event).await });
        }
    }
}
