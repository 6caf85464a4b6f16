//! Suspended executions: nothing but pauses is left of them, so they hold no slot and no memory until a pause ends.

use std::sync::Arc;
use std::time::Duration;

use model::execution::{Event, ExecutionId, Outcome, Status};
use store::{Append, ExecutionFilter, News, NodeId, Page};

use super::Admission;
use super::table::{Claim, ExecutionState, Queued, Suspended};
use crate::api::EngineEvent;
use crate::clock::MonotonicTime;
use crate::error::Error;
use crate::run::{ReplaySource, Wake};
use crate::timer::{until, until_monotonic};

/// The page size when suspended executions are read at startup.
const PAGE: u32 = 1000;
/// The maximum time that a caller waits for an execution that is being loaded or suspended, and the interval of its checks.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Admission {
    /// Wakes a suspended execution if a child that it waits for has ended while it was being suspended.
    pub(super) fn check_children(self: &Arc<Self>, id: ExecutionId, children: Vec<ExecutionId>) {
        if !children.is_empty() {
            let admission = self.clone();
            self.context.tracker.spawn(async move { admission.check_each_child(id, children).await });
        }
    }

    async fn check_each_child(&self, id: ExecutionId, children: Vec<ExecutionId>) {
        for child in children {
            let has_ended = match self.context.store.execution(child).await {
                // It may end between the two questions.
                Ok(Some(row)) if !row.status.is_terminal() => !self.watch_elsewhere(child).await,
                Ok(_) => true,
                Err(error) => {
                    tracing::error!(%id, %child, %error, "cannot read whether a called execution has ended");
                    false
                }
            };
            if has_ended {
                if self.table().wake(id, self.context.clock.monotonic_now()) {
                    self.wake_dispatchers();
                }
                return;
            }
        }
    }

    /// Wakes suspended executions when their timers are due, until the engine stops.
    pub(crate) async fn run_wake_timers(self: Arc<Self>) {
        loop {
            let Wake { at, after } = self.table().next_wake();
            tokio::select! {
                biased;
                () = self.context.closing.cancelled() => return,
                () = self.rest.notified() => {}
                () = until(&*self.context.clock, at) => self.wake_all_due(),
                () = until_monotonic(&*self.context.clock, after) => self.wake_all_due(),
            }
        }
    }

    fn wake_all_due(&self) {
        let (now, monotonic_now) = (self.context.clock.now(), self.context.clock.monotonic_now());
        self.table().wake_due(now, monotonic_now);
        self.wake_dispatchers();
    }

    /// Reads the suspended executions of the previous process.
    pub(super) async fn recover_suspended(&self) -> Result<usize, Error> {
        let set_back = self.clock_was_set_back().await?;
        let mut after = None;
        let mut count = 0;
        loop {
            let page = self.context.store.list_suspended(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.execution);
            let mut table = self.table();
            let since = self.context.clock.monotonic_now();
            // Executions that hold a permit have been put into the backlog.
            for resting in page.iter().filter(|resting| !resting.keeps_permit) {
                let (id, wall_offset) = (resting.execution, self.initial_wall_offset);
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
        self.rest.notify_one();
        Ok(count)
    }

    /// Returns true if the wall clock was set back while no process ran, to before the newest execution. Then the stored wake
    /// times are unreliable, and each execution is loaded to work them out from its log. Events get later keys than that execution.
    async fn clock_was_set_back(&self) -> Result<bool, Error> {
        let newest = Page { before: None, limit: 1 };
        let newest = self.context.store.executions(&ExecutionFilter::default(), newest).await?;
        let Some(newest) = newest.first() else { return Ok(false) };
        self.events.continue_after(newest.id);
        Ok(newest.started_at > self.context.clock.now())
    }

    /// Waits for the end of an execution; `None` as soon as it is suspended or waits for a slot or a permit, or if another node
    /// has it.
    pub(crate) async fn outcome_unless_suspended(&self, id: ExecutionId) -> Result<Option<Outcome>, Error> {
        let give_up = self.context.clock.monotonic_now().after(PATIENCE);
        while self.context.clock.monotonic_now() < give_up {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let live = self.table().run(id).map(|run| run.progress.subscribe());
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
            let row = self.context.store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?;
            if row.status.is_terminal() {
                return self.ended(id).await.map(Some);
            }
            if self.table().is_parked(id) || self.elsewhere(id).await?.is_some() {
                break;
            }
            // It is being loaded or suspended.
            self.next_move(moved).await;
        }
        Ok(None)
    }

    /// Returns the node that has an execution, if that is another one.
    pub(crate) async fn elsewhere(&self, id: ExecutionId) -> Result<Option<NodeId>, Error> {
        let Some(own) = self.context.store.node() else { return Ok(None) };
        if self.has(id) {
            return Ok(None);
        }
        Ok(self.context.store.owner(id).await?.filter(|owner| *owner != own))
    }

    /// Asks the node that has an execution to tell when it has ended. Returns false if it has ended.
    pub(crate) async fn watch_elsewhere(&self, id: ExecutionId) -> bool {
        let Some(own) = self.context.store.node() else { return true };
        if self.has(id) {
            return true;
        }
        match self.context.store.owner(id).await {
            Ok(Some(owner)) if owner != own => {
                self.context.store.tell(Some(owner), News::Watch { execution: id, node: own });
                true
            }
            Ok(Some(_)) | Err(_) => true,
            // It has ended, or nobody has its shard at the moment.
            Ok(None) => {
                matches!(self.context.store.execution(id).await, Ok(Some(row)) if !row.status.is_terminal())
            }
        }
    }

    /// Waits until an execution, which this node waits for, moves here or ends elsewhere, or for a second at the latest. Returns at
    /// once if it has ended since the caller looked.
    pub async fn next_move_of(&self, id: ExecutionId, moved: impl Future<Output = ()>) {
        if self.watch_elsewhere(id).await {
            self.next_move(moved).await;
        }
    }

    /// Completes when an execution comes into memory or leaves it, or after a second at the latest.
    pub async fn next_move(&self, moved: impl Future<Output = ()>) {
        tokio::select! {
            () = moved => {}
            () = self.context.clock.sleep_for(CHECK_INTERVAL) => {}
        }
    }

    /// Completes when the engine stops and the execution is not in memory, so that it resumes at the next start.
    pub(crate) async fn wait_until_left(&self, id: ExecutionId) {
        self.context.closing.cancelled().await;
        loop {
            let moved = self.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if !self.is_live(id) {
                return;
            }
            moved.await;
        }
    }

    /// Appends an event to the log of a suspended execution, which stays suspended. An execution that has ended meanwhile
    /// is left unchanged. If it is being loaded, the event is committed with its next events.
    pub(super) async fn record_suspended(self: Arc<Self>, id: ExecutionId, event: Event) {
        let give_up = self.context.clock.monotonic_now().after(PATIENCE);
        while self.context.clock.monotonic_now() < give_up && self.context.accepting() {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let claim = self.table().claim(id);
            match claim {
                Claim::Running(run) => return run.journal.note(event),
                Claim::Queued(mut queued) => {
                    queued.notes.push(event);
                    return self.release(id, ExecutionState::Queued(queued));
                }
                Claim::Suspended(suspended) => {
                    if let Err(error) = self.append_suspended(id, &suspended, event).await {
                        self.context.lost(&error);
                    }
                    return self.release(id, ExecutionState::Suspended(suspended));
                }
                Claim::Unavailable => {}
            }
            if let Ok(Some(owner)) = self.elsewhere(id).await {
                if let Err(error) = self.letters.note_elsewhere(owner, id, event).await {
                    tracing::warn!(%id, %error, "an event could not be recorded by the daemon that has the execution");
                }
                return;
            }
            match self.context.store.execution(id).await {
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
        let Some(row) = self.context.store.execution(id).await? else { return Ok(()) };
        let append = Append {
            events: vec![event],
            keeps_permit: suspended.keeps_permit,
            ..Append::new(id, row.events, Status::Waiting)
        };
        self.context.store.append(&append).await?;
        if self.context.notices.receiver_count() > 0 {
            let _ = self.context.notices.send(EngineEvent::ExecutionEvents {
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
        let pending_cancel = self.table().release(id, state, self.context.clock.monotonic_now());
        self.rest.notify_one();
        self.wake_dispatchers();
        self.moved.notify_waiters();
        if let Some(reason) = pending_cancel {
            self.cancel_here(id, &reason);
        }
    }

    /// The outcome of an execution that has ended.
    async fn ended(&self, id: ExecutionId) -> Result<Outcome, Error> {
        let (events, _memory) = self.context.load_events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        match events.into_iter().next_back() {
            Some(Event::Finished { outcome, .. }) => Ok(outcome),
            _ => Err(Error::NoSuchExecution(id)),
        }
    }
}
