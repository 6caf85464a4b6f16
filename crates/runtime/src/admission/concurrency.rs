//! The end of a run: an execution leaves memory with a disposition, and gives up the permit of its concurrency group.

use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use expression::Template;
use model::automation::{
    Automation, AutomationId, Concurrency, ConcurrencyPolicy, DeclaredTrigger, Overlap, Setting, Trigger,
    TriggerId,
};
use model::execution::{ExecutionId, Origin, Outcome, Status};
use value::Value;

use super::Admission;
use super::table::{
    Ahead, ExecutionState, ExecutionTable, GroupKey, PermitWait, PermitWaiter, Queued, Suspended,
};
use crate::run::{Disposition, PermitRequest, ReplaySource, Run, Suspension};

/// An execution that this process runs, from its registration in the [table](ExecutionTable) to its end there.
///
/// Each run ends in [`RunGuard::end`] or in [`RunGuard::acquire_permit`]. A guard that is dropped before that belongs to a
/// run that panicked or whose task was aborted: the execution leaves memory, and the next start of the daemon runs it again.
pub(super) struct RunGuard {
    admission: Arc<Admission>,
    run: Arc<Run>,
    /// The group whose permit the execution holds.
    permit: Option<GroupKey>,
    /// The executions recovered from before the restart that ask for their permits before this one.
    ahead: Ahead,
    /// True if it had begun when it was read back.
    has_begun: bool,
    /// True if the execution was cancelled before it was driven, so that the run has seen it.
    was_cancelled: bool,
    /// True once the execution has left the state `Running`.
    has_ended: bool,
}

impl RunGuard {
    pub(super) fn new(admission: Arc<Admission>, run: Arc<Run>, ahead: Ahead, has_begun: bool) -> Self {
        Self { admission, run, permit: None, ahead, has_begun, was_cancelled: false, has_ended: false }
    }

    pub(super) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Runs the execution until it ends, is suspended, or this process can do no more for it.
    pub(super) async fn drive(&mut self) -> Disposition {
        self.was_cancelled = self.is_cancelled();
        self.run.execute(self.permit.is_some()).await
    }

    /// Acquires a permit of the execution's concurrency group, if its automation limits concurrency. Returns false if the
    /// execution has to wait: then it has left memory.
    pub(super) fn acquire_permit(&mut self) -> bool {
        let Some(concurrency) =
            concurrency(&self.run.deployment.automation, &self.run.origin, &self.run.by.trigger)
        else {
            return true;
        };
        let policy = concurrency.policy;
        let (id, admission) = (self.run.journal.id(), self.admission.clone());
        if self.ahead != Ahead::Nobody && self.waits_behind_recovered() {
            return false;
        }
        let automation = &self.run.deployment.automation.id;
        // If it fails, the run evaluates it again and records the failure.
        let Ok(PermitRequest { key, limit }) = self.run.permit_request(&concurrency) else { return true };
        let in_force = limit_in_force(&admission.context.catalog.load(), automation);
        let computed = concurrency.limit.literal().is_none() && in_force.is_none();
        let limit = in_force.unwrap_or(limit as usize);
        let key = GroupKey { automation: automation.clone(), key };
        let mut table = admission.table();
        let group = table.groups.entry(key.clone()).or_default();
        if !computed {
            group.limit = limit;
        }
        if group.holders.contains(&id) {
            // It has kept its permit while it was suspended, or was given one while it waited.
            self.permit = Some(key);
            drop(table);
            self.publish_status(Status::Running);
            return true;
        }
        let is_cancelled = self.is_cancelled();
        // A cancelled execution that had begun counts until its end is stored, even beyond the limit: a crash before that may lose the
        // cancellation, and then it goes on.
        let counts = is_cancelled && self.has_begun;
        if counts || (group.holders.len() < limit && group.waiting.is_empty()) {
            group.holders.push(id);
            self.permit = Some(key);
            return true;
        }
        if is_cancelled {
            // It only ends, and needs no permit for that.
            return true;
        }
        if policy == ConcurrencyPolicy::Skip {
            drop(table);
            let reason = "skipped: as many executions as `concurrency.limit` allows were running";
            self.run.cancelled.cancel(reason);
            return true;
        }
        // With other policies nothing is cancelled, and thousands may wait.
        let cancels = policy == ConcurrencyPolicy::CancelRunning;
        let in_the_way = if cancels { group.in_the_way(limit) } else { Vec::new() };
        group.waiting.push_back(PermitWaiter { id, limit: computed.then_some(limit) });
        let queued = self.queued();
        let wait = PermitWait { group: key.clone(), queued };
        self.park(&mut table, ExecutionState::WaitingForPermit(Box::new(wait)));
        // The limit may have become larger just before.
        table.grant_permits(&key, None, &*admission.context.clock);
        drop(table);
        self.announce();
        self.publish_status(Status::Queued);
        let reason = "cancelled for a newer execution, as `concurrency.policy` says";
        for older in in_the_way {
            admission.cancel_here(older, reason);
        }
        false
    }

    /// Leaves memory if recovered executions have to request their permits before this one, since they may hold them. Returns false if
    /// it does not wait for them.
    fn waits_behind_recovered(&mut self) -> bool {
        let (admission, run) = (self.admission.clone(), self.run.clone());
        let (id, automation) = (run.journal.id(), &run.deployment.automation.id);
        let mut table = admission.table();
        if self.is_cancelled() || !table.has_ahead(automation, self.ahead) {
            return false;
        }
        let queued = self.queued();
        self.park(&mut table, ExecutionState::Queued(queued));
        table.hold(automation, id, self.ahead);
        drop(table);
        self.announce();
        self.publish_status(Status::Queued);
        true
    }

    /// Stores whether the execution waits for its permit, so that other nodes show what this one knows. No run waits for this: a commit
    /// of the run that comes before it counts instead.
    fn publish_status(&self, status: Status) {
        let admission = self.admission.clone();
        if admission.context.store.node().is_none() {
            return;
        }
        let Some(append) = self.run.journal.status_alone(status) else { return };
        self.admission.context.tracker.spawn(async move {
            if let Err(error) = admission.context.store.append(&append).await {
                tracing::debug!(execution = %append.execution, %error, "other daemons do not show whether it waits");
            }
        });
    }

    /// Reserves memory for the data of the trigger, if they are large. Returns false if the execution has to wait for it: then it
    /// has left memory, with the permit that it holds.
    pub(super) fn acquire_memory(&mut self) -> bool {
        let (run, admission) = (self.run.clone(), self.admission.clone());
        if run.trigger_memory == 0
            || run.memory.is_reserved()
            || self.is_cancelled()
            || admission.context.memory.try_reserve(&run.memory, run.trigger_memory)
        {
            return true;
        }
        let queued = self.queued();
        let mut table = admission.table();
        self.park(&mut table, ExecutionState::Queued(queued));
        drop(table);
        self.announce();
        false
    }

    /// Ends the run. The execution leaves memory.
    pub(super) fn end(mut self, disposition: Disposition) {
        if !matches!(disposition, Disposition::Refused(_)) {
            self.admission.context.refused_writes.forget(self.run.journal.id());
        }
        match disposition {
            Disposition::Finished => self.finish(),
            Disposition::Suspended(rest) => self.suspend(rest),
            Disposition::Refused(pause) => self.repeat(pause),
            // The execution keeps its permit, so that no other gets in between; waiters are not told of an end.
            Disposition::NotAccepted | Disposition::StoreFailed | Disposition::ShuttingDown => {
                self.has_ended = true;
                let mut table = self.admission.table();
                table.remove(self.run.journal.id());
                if matches!(disposition, Disposition::NotAccepted) {
                    table.uncount_scheduled(&self.run.trigger_key(), &self.run.origin);
                }
                drop(table);
                self.admission.moved.notify_waiters();
            }
        }
    }

    /// Moves the execution out of memory for a pause. Then it is read back, and repeats what was not recorded, as after a crash. It
    /// keeps its permit.
    fn repeat(&mut self, pause: Duration) {
        let cancel = self.is_cancelled().then(|| self.run.cancelled.reason());
        let queued = Queued { source: ReplaySource::AnotherProcess, cancel, ..self.queued() };
        let until = self.admission.context.clock.monotonic_now().after(pause);
        let admission = &self.admission.clone();
        let mut table = admission.table();
        self.park(&mut table, ExecutionState::Paused { until, queued: Box::new(queued) });
        drop(table);
        self.announce();
    }

    fn is_cancelled(&self) -> bool {
        self.run.cancelled.token.is_cancelled()
    }

    /// The execution as it is read back when its wait is over, with the notes that were not committed.
    fn queued(&self) -> Queued {
        let journal = &self.run.journal;
        let mut queued = Queued::new(journal.wall_offset(), self.admission.context.clock.monotonic_now());
        queued.notes = journal.take_notes();
        queued.memory = self.run.trigger_memory;
        queued
    }

    /// Moves the execution out of memory. Callers that wait for it continue to wait for its next run.
    fn park(&mut self, table: &mut ExecutionTable, state: ExecutionState) {
        self.has_ended = true;
        let is_watched = self.run.progress.receiver_count() > 0;
        if is_watched {
            self.run.progressed(|progress| progress.is_parked = true);
        }
        let watchers = is_watched.then(|| self.run.progress.clone());
        table.park(self.run.journal.id(), state, watchers);
    }

    /// Tells the tasks that dispatch, wake and wait for executions of a new state.
    fn announce(&self) {
        self.admission.wake_dispatchers();
        self.admission.rest.notify_one();
        self.admission.moved.notify_waiters();
    }

    fn suspend(&mut self, rest: Suspension) {
        let Suspension { wake, wall_offset, awake, children, keeps_permit } = rest;
        let (id, admission) = (self.run.journal.id(), self.admission.clone());
        let mut notes = self.run.journal.take_notes();
        let (state, children) = if awake {
            // The signal that it waits for came while it was being suspended.
            let mut queued = Queued::new(wall_offset, admission.context.clock.monotonic_now());
            queued.source = ReplaySource::Suspended;
            queued.notes = std::mem::take(&mut notes);
            (ExecutionState::Queued(queued), Vec::new())
        } else {
            (ExecutionState::Suspended(Suspended { wake, wall_offset, keeps_permit }), children)
        };
        let mut table = admission.table();
        self.park(&mut table, state);
        // Cancelled while suspending: cancel again, unless the run has already seen it and waits in its closing steps.
        let is_cancelled = self.is_cancelled() && !self.was_cancelled;
        drop(table);
        admission.check_children(id, children);
        self.announce();
        // Notes that came while it was being suspended.
        for note in notes {
            admission.context.tracker.spawn(admission.clone().record_suspended(id, note));
        }
        if is_cancelled {
            admission.cancel_here(id, &self.run.cancelled.reason());
        }
    }

    /// Removes the execution and gives its permit to the next one.
    fn finish(&mut self) {
        self.has_ended = true;
        let (id, admission) = (self.run.journal.id(), &self.admission);
        let mut table = admission.table();
        table.remove(id);
        if let Some(key) = self.permit.take() {
            table.release_permit(&key, id, &*self.admission.context.clock);
        }
        table.uncount_scheduled(&self.run.trigger_key(), &self.run.origin);
        if let Origin::Call { execution, .. } = &self.run.origin {
            // Its caller may be suspended until it ends.
            table.wake(*execution, self.admission.context.clock.monotonic_now());
        }
        drop(table);
        admission.wake_dispatchers();
        admission.moved.notify_waiters();
        self.report_outcome(id);
    }

    /// Counts the outcome, and logs it.
    fn report_outcome(&self, id: ExecutionId) {
        let automation = &self.run.deployment.automation.id;
        let outcome = self.run.journal.outcome();
        if let Some(outcome) = &outcome {
            self.admission.context.metrics.count_ended(outcome.status());
        }
        match outcome {
            Some(Outcome::Failed { error } | Outcome::Stuck { error }) => {
                tracing::warn!(execution = %id, %automation, step = error.step, error = error.message, "execution failed");
            }
            Some(outcome) => {
                tracing::debug!(execution = %id, %automation, status = outcome.status().as_str(), "execution ended")
            }
            None => {}
        }
    }
}

/// Returns the limit of an execution: of the automation, or implied by `overlap: queue` of its schedule, where the executions of
/// each trigger are a group.
pub(super) fn concurrency(
    automation: &Automation,
    origin: &Origin,
    trigger: &TriggerId,
) -> Option<Concurrency> {
    if let Some(own) = &automation.concurrency {
        return Some(own.clone());
    }
    let key = (!trigger.is_main()).then(|| Template::Literal(Value::from(trigger.as_str())));
    needs_permit(automation, origin, trigger).then_some(Concurrency {
        limit: Setting::Literal(1),
        key,
        policy: ConcurrencyPolicy::Queue,
    })
}

/// True if an execution has a [`concurrency`] limit.
pub(super) fn needs_permit(automation: &Automation, origin: &Origin, trigger: &TriggerId) -> bool {
    automation.concurrency.is_some() || overlap(automation, origin, trigger) == Some(Overlap::Queue)
}

/// How the instants of the schedule overlap that started an execution; `None` for another start.
fn overlap(automation: &Automation, origin: &Origin, trigger: &TriggerId) -> Option<Overlap> {
    match &automation.trigger(trigger)?.on {
        Trigger::Schedule(schedule) if matches!(origin, Origin::Schedule { .. }) => Some(schedule.overlap),
        _ => None,
    }
}

/// The limit that the definition in force sets, for executions of all its versions: `usize::MAX` if it sets none. `None` if the
/// automation is not in force, or if its limit is computed: then that of the asking execution counts.
pub(super) fn limit_in_force(catalog: &Catalog, automation: &AutomationId) -> Option<usize> {
    let automation = &catalog.get(automation)?.automation;
    let queues = |trigger: &DeclaredTrigger| matches!(&trigger.on, Trigger::Schedule(schedule) if schedule.overlap == Overlap::Queue);
    match &automation.concurrency {
        Some(own) => own.limit.literal().map(|limit| limit as usize),
        None if automation.triggers.iter().any(queues) => Some(1),
        None => Some(usize::MAX),
    }
}

/// True if an execution may have to wait for others of its automation, or be passed over for them. All of these are on one node.
pub(super) fn is_gated(automation: &Automation, origin: &Origin, trigger: &TriggerId) -> bool {
    let excludes = overlap(automation, origin, trigger).is_some_and(|overlap| overlap != Overlap::Allow);
    automation.concurrency.is_some() || excludes
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if std::thread::panicking() {
            let id = self.run.journal.id();
            tracing::error!(execution = %id, "an execution panicked; the next start of the daemon runs it again");
        }
        self.finish();
    }
}
