//! Suspended executions: nothing but pauses is left of them, so they hold no slot and no memory until a pause ends.

use std::sync::Arc;
use std::time::Duration;

use model::execution::{Event, ExecutionId, Outcome, Status};
use store::{Append, ExecutionFilter, Page};

use super::table::{Claim, ExecutionState, Queued, Suspended};
use crate::api::EngineEvent;
use crate::clock::MonotonicTime;
use crate::context::Runtime;
use crate::error::Error;
use crate::run::{ReplaySource, Wake};
use crate::timer::{until, until_monotonic};

/// The page size when suspended executions are read at startup.
const PAGE: u32 = 1000;
/// The maximum time that a caller waits for an execution that is being loaded or suspended, and the interval of its checks.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Runtime {
    /// Wakes a suspended execution if a child that it waits for has ended while it was being suspended.
    pub(super) fn check_children(self: &Arc<Self>, id: ExecutionId, children: Vec<ExecutionId>) {
        if !children.is_empty() {
            let runtime = self.clone();
            self.tracker.spawn(async move { runtime.check_each_child(id, children).await });
        }
    }

    async fn check_each_child(&self, id: ExecutionId, children: Vec<ExecutionId>) {
        for child in children {
            let has_ended = match self.store.execution(child).await {
                // It may end between the two questions.
                Ok(Some(row)) if !row.status.is_terminal() => !self.watch_elsewhere(child).await,
                Ok(_) => true,
                Err(error) => {
                    tracing::error!(%id, %child, %error, "cannot read whether a called execution has ended");
                    false
                }
            };
            if has_ended {
                if self.admission.table().wake(id, self.clock.monotonic_now()) {
                    self.admission.wake_dispatchers();
                }
                return;
            }
        }
    }

    /// Wakes suspended executions when their timers are due, until the engine stops.
    pub(crate) async fn run_wake_timers(self: Arc<Self>) {
        loop {
            let Wake { at, after } = self.admission.table().next_wake();
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = self.admission.rest.notified() => {}
                () = until(&*self.clock, at) => self.wake_all_due(),
                () = until_monotonic(&*self.clock, after) => self.wake_all_due(),
            }
        }
    }

    fn wake_all_due(&self) {
        let (now, monotonic_now) = (self.clock.now(), self.clock.monotonic_now());
        self.admission.table().wake_due(now, monotonic_now);
        self.admission.wake_dispatchers();
    }

    /// Reads the suspended executions of the previous process.
    pub(super) async fn recover_suspended(&self) -> Result<usize, Error> {
        let set_back = self.clock_was_set_back().await?;
        let mut after = None;
        let mut count = 0;
        loop {
            let page = self.store.list_suspended(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.execution);
            let mut table = self.admission.table();
            let since = self.clock.monotonic_now();
            // Executions that hold a permit have been put into the backlog.
            for resting in page.iter().filter(|resting| !resting.keeps_permit) {
                let (id, wall_offset) = (resting.execution, self.admission.initial_wall_offset);
                if set_back {
                    let queued =
                        Queued { source: ReplaySource::Suspended, ..Queued::new(wall_offset, since) };
                    table.enqueue(id, queued);
                } else {
                    // Only the log shows if the time is a duration or an instant: its timer is corrected when it wakes.
                    let after = resting.wake_at.map(|at| MonotonicTime::from_wall(at, wall_offset));
                    let wake = Wake { at: resting.wake_at, after };
                    table.suspend(id, Suspended { wake, wall_offset, keeps_permit: false });
                }
                count += 1;
            }
        }
        self.admission.rest.notify_one();
        Ok(count)
    }

    /// Returns true if the wall clock was set back while no process ran, to before the newest execution. Then the stored wake
    /// times are unreliable, and each execution is loaded to work them out from its log. Events get later keys than that execution.
    async fn clock_was_set_back(&self) -> Result<bool, Error> {
        let newest = Page { before: None, limit: 1 };
        let newest = self.store.executions(&ExecutionFilter::default(), newest).await?;
        let Some(newest) = newest.first() else { return Ok(false) };
        self.admission.event_keys.continue_after(newest.id);
        Ok(newest.started_at > self.clock.now())
    }

    /// Waits for the end of an execution; `None` as soon as it is suspended or waits for a slot or a permit, or if another node
    /// has it.
    pub(crate) async fn outcome_unless_suspended(&self, id: ExecutionId) -> Result<Option<Outcome>, Error> {
        let give_up = self.clock.monotonic_now().after(PATIENCE);
        while self.clock.monotonic_now() < give_up {
            let moved = self.admission.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let live = self.admission.table().run(id).map(|run| run.progress.subscribe());
            if let Some(mut progress) = live {
                let there = progress.wait_for(|progress| {
                    progress.outcome.is_some() || progress.is_left || progress.is_parked
                });
                match there.await {
                    Ok(progress) if progress.outcome.is_some() => return Ok(progress.outcome.clone()),
                    Ok(progress) if progress.is_left => return Err(Error::Closing),
                    _ => {}
                }
            }
            let row = self.store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?;
            if row.status.is_terminal() {
                return self.ended(id).await.map(Some);
            }
            if self.admission.table().is_parked(id) || self.elsewhere(id).await?.is_some() {
                break;
            }
            // It is being loaded or suspended.
            self.next_move(moved).await;
        }
        Ok(None)
    }

    /// Completes when an execution comes into memory or leaves it, or after a second at the latest.
    pub async fn next_move(&self, moved: impl Future<Output = ()>) {
        tokio::select! {
            () = moved => {}
            () = self.clock.sleep_for(CHECK_INTERVAL) => {}
        }
    }

    /// Completes when the engine stops and the execution is not in memory, so that it resumes at the next start.
    pub(crate) async fn wait_until_left(&self, id: ExecutionId) {
        self.closing.cancelled().await;
        loop {
            let moved = self.admission.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if !self.admission.is_live(id) {
                return;
            }
            moved.await;
        }
    }

    /// Appends an event to the log of a suspended execution, which stays suspended. An execution that has ended meanwhile
    /// is left unchanged; for one that is being loaded, the event is committed with its next events.
    pub(super) async fn record_suspended(self: Arc<Self>, id: ExecutionId, event: Event) {
        let give_up = self.clock.monotonic_now().after(PATIENCE);
        while self.clock.monotonic_now() < give_up && self.accepting() {
            let moved = self.admission.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let claim = self.admission.table().claim(id);
            match claim {
                Claim::Running(run) => return run.journal.note(event),
                Claim::Queued(mut queued) => {
                    queued.notes.push(event);
                    return self.release(id, ExecutionState::Queued(queued));
                }
                Claim::Suspended(suspended) => {
                    if let Err(error) = self.append_suspended(id, &suspended, event).await {
                        self.lost(&error);
                    }
                    return self.release(id, ExecutionState::Suspended(suspended));
                }
                Claim::Unavailable => {}
            }
            if let Ok(Some(owner)) = self.elsewhere(id).await {
                if let Err(error) = self.note_elsewhere(owner, id, event).await {
                    tracing::warn!(%id, %error, "an event could not be recorded by the daemon that has the execution");
                }
                return;
            }
            match self.store.execution(id).await {
                Ok(Some(row)) if !row.status.is_terminal() => self.next_move(moved).await,
                _ => return,
            }
        }
    }

    async fn append_suspended(
        &self,
        id: ExecutionId,
        suspended: &Suspended,
        event: Event,
    ) -> Result<(), store::Error> {
        let Some(row) = self.store.execution(id).await? else { return Ok(()) };
        let append = Append {
            events: vec![event],
            keeps_permit: suspended.keeps_permit,
            ..Append::new(id, row.events, Status::Waiting)
        };
        self.store.append(&append).await?;
        if self.notices.receiver_count() > 0 {
            let _ = self.notices.send(EngineEvent::ExecutionEvents {
                id,
                automation: row.automation,
                status: Status::Waiting,
                events: Arc::new(append.events),
                logs: Arc::default(),
            });
        }
        Ok(())
    }

    /// Releases a claimed execution, and cancels it if that was requested meanwhile.
    pub(super) fn release(self: &Arc<Self>, id: ExecutionId, state: ExecutionState) {
        let pending_cancel = self.admission.table().release(id, state, self.clock.monotonic_now());
        self.admission.rest.notify_one();
        self.admission.wake_dispatchers();
        self.admission.moved.notify_waiters();
        if let Some(reason) = pending_cancel {
            self.admission.cancel(self, id, &reason);
        }
    }

    /// The outcome of an execution that has ended.
    async fn ended(&self, id: ExecutionId) -> Result<Outcome, Error> {
        let (events, _memory) = self.load_events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        match events.into_iter().next_back() {
            Some(Event::Finished { outcome, .. }) => Ok(outcome),
            _ => Err(Error::NoSuchExecution(id)),
        }
    }
}
