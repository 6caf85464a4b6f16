//! Recovery: accepted executions that are not in memory are read from the store when they are dispatched.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use model::Backoff;
use model::execution::{ExecutionId, History, Origin, Status};
use model::payload::Payload;
use store::{ExecutionRow, ReplayLog};
use tokio::sync::OwnedSemaphorePermit;
use value::Value;

use super::Admission;
use super::accept::RunParts;
use super::backlog::Lane;
use super::suspend::CHECK_INTERVAL;
use super::table::{ExecutionState, Queued};
use crate::api::StartedBy;
use crate::error::Error;
use crate::memory::{SMALL_BODY, Share, trigger_memory};
use crate::run::{Exit, Journal, JournalContext, ReplaySource, SnapshotState, StoredLog, reason_of_cut_call};
use catalog::Catalog;

/// The page size when unfinished executions are read at startup.
const PAGE: u32 = 5000;
/// The pauses before an execution is loaded again that the store could not read.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

impl Admission {
    /// Loads a claimed execution and runs it on.
    pub(crate) async fn load_and_run(
        self: Arc<Self>,
        id: ExecutionId,
        queued: Queued,
        permit: Option<OwnedSemaphorePermit>,
        memory: Share,
    ) {
        match self.load_when_readable(id, &queued).await {
            Ok(Some(live)) => {
                queued.notes.iter().for_each(|note| live.journal.note(note.clone()));
                if self.context.refused_writes.has(id) {
                    live.journal.leave_at_refusal();
                }
                if queued.source == ReplaySource::Suspended {
                    live.journal.resume();
                    if let Err(error) = self.committed(&live.journal).await {
                        return self.end_refused(id, queued, &error);
                    }
                }
                self.spawn(self.register(RunParts { memory, ..live }), permit);
            }
            Ok(None) => self.give_up(id),
            Err(error) => {
                self.give_up(id);
                tracing::error!(%id, %error, "an accepted execution cannot be read back; it is left as it is")
            }
        }
    }

    /// Loads an execution, and retries with growing pauses if the store cannot be read at the moment.
    async fn load_when_readable(&self, id: ExecutionId, queued: &Queued) -> Result<Option<RunParts>, Error> {
        let mut pauses = PAUSES;
        loop {
            let loaded = match queued.is_small {
                true => self.load(id, queued.source, queued.wall_offset).await,
                false => self.load_large(id, queued.source, queued.wall_offset).await,
            };
            match loaded {
                Err(Error::Store(error)) if error.may_pass() && self.context.accepting() => {
                    if pauses.is_fresh() {
                        tracing::warn!(%id, %error, "an accepted execution cannot be read back now; the read is retried");
                    }
                }
                loaded => return loaded,
            }
            self.context.closing.run_until_cancelled(self.context.clock.sleep_for(pauses.pause())).await;
        }
    }

    /// Pauses an execution whose end of the suspension the store has refused. If the store has failed or the engine stops, the next
    /// start finds it suspended.
    fn end_refused(self: &Arc<Self>, id: ExecutionId, queued: Queued, error: &Error) {
        let pause = match error {
            Error::Store(error) => self.context.pause_after_refusal(id, error),
            _ => None,
        };
        let Some(pause) = pause else { return self.table().remove(id) };
        let until = self.context.clock.monotonic_now().after(pause);
        self.release(id, ExecutionState::Paused { until, queued: Box::new(queued) });
    }

    fn give_up(&self, id: ExecutionId) {
        self.table().give_up(id, &*self.context.clock);
        self.context.refused_writes.forget(id);
        self.wake_dispatchers();
        self.context.isolation.clear_suspect(id);
    }

    /// Commits the journal of an execution that does not run. A failure of the store stops the engine, since no run would
    /// report it and waiting callers would wait forever.
    pub(super) async fn committed(&self, journal: &Journal) -> Result<(), Error> {
        journal.commit().await.map_err(|exit| match exit {
            Exit::StoreFailed(error) => {
                self.context.lost(&error);
                Error::Store(Arc::unwrap_or_clone(error))
            }
            _ => Error::Closing,
        })
    }

    /// Loads an execution within a reservation for its events; `None` if it has ended.
    pub(super) async fn load_large(
        &self,
        id: ExecutionId,
        source: ReplaySource,
        wall_offset: SignedDuration,
    ) -> Result<Option<RunParts>, Error> {
        let _memory = self.context.reserve_to_load_events(id).await?;
        self.load(id, source, wall_offset).await
    }

    /// Loads an execution; `None` if it has ended. The caller has reserved memory for its events, which are needed until the journal has
    /// their values.
    pub(super) async fn load(
        &self,
        id: ExecutionId,
        mut source: ReplaySource,
        wall_offset: SignedDuration,
    ) -> Result<Option<RunParts>, Error> {
        if source == ReplaySource::ThisProcess && self.context.isolation.is_suspect(id) {
            // It has waited here since it was interrupted, and has not run.
            source = ReplaySource::AnotherProcess;
        }
        let log = self.context.store.replay_log(id).await?;
        let Some(ReplayLog { snapshot, mut events, mut count }) = log else { return Ok(None) };
        let stored = snapshot.as_ref();
        let snapshot = stored.and_then(SnapshotState::read);
        if stored.is_some() && snapshot.is_none() {
            // Another version of the engine wrote it.
            let all = self.context.store.events(id).await?;
            let Some(all) = all else { return Ok(None) };
            count = u32::try_from(all.len()).unwrap_or(u32::MAX);
            events = all;
        }
        let checked = History::checked(&events);
        let (history, start) = checked.map_err(|error| Error::Input(format!("execution {id}: {error}")))?;
        if history.outcome.is_some() {
            return Ok(None);
        }
        let deployment = self.records.deployment(start.automation, start.definition).await?;
        let is_new = count == 1;
        let after_snapshot = usize::from(snapshot.is_some());
        let log = StoredLog { events: &events[after_snapshot..], snapshot, count };
        let journal = Journal::restore(
            id,
            &deployment.automation,
            log,
            (source, wall_offset),
            JournalContext::from(&*self.context),
        );
        if is_new {
            // It has only been accepted so far.
            super::accept::log_trigger_code(&journal, start.payload);
        }
        let payload = start.payload.clone();
        let results = parse_stored_body(&payload).await;
        let by = StartedBy { trigger: start.trigger.clone(), inputs: start.inputs.cloned() };
        let trigger_memory = trigger_memory(&payload, &by, results.as_ref());
        Ok(Some(RunParts {
            deployment,
            journal,
            payload,
            started_at: start.at,
            origin: start.origin.clone(),
            by,
            trigger_memory,
            results,
            memory: Share::default(),
            has_begun: count > 1 + start.origin.kept_events(),
            cancel: self.reason_of_caller(start.origin).await?,
        }))
    }

    /// The reason to cancel an execution that its caller awaited and that has outlived it: a crash right after the end of the caller
    /// loses the cancellation of its calls.
    async fn reason_of_caller(&self, origin: &Origin) -> Result<Option<String>, Error> {
        let Origin::Call { execution, awaited: true, .. } = origin else { return Ok(None) };
        let caller = self.context.store.execution(*execution).await?;
        let has_ended = caller.is_some_and(|row| row.status.is_terminal());
        Ok(has_ended.then(|| reason_of_cut_call(*execution)))
    }

    /// Recovers every unfinished execution: suspended ones are registered as such, all others join the backlog, oldest first.
    pub async fn recover_unfinished(&self) -> Result<usize, Error> {
        let mut after = None;
        let mut count = 0;
        // Executions that had started come first: one of them may hold a permit that another waits for.
        let mut begun = Vec::new();
        // Suspects, which may crash the process, come after them, so that the others run by then.
        let mut suspects = Vec::new();
        loop {
            let page = self.context.store.unfinished(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            count += page.len();
            let catalog = self.context.catalog.load();
            let mut table = self.table();
            let since = self.context.clock.monotonic_now();
            for row in page {
                table.count_scheduled(&row.trigger_key(), &row.origin);
                let is_gated = may_hold_permit(&catalog, &row);
                if is_gated {
                    table.recover_first(&row.automation, row.id, has_begun(&row));
                }
                let source = match row.status {
                    // It holds a permit, or waits for a child that may have ended since.
                    Status::Waiting => ReplaySource::Suspended,
                    _ => ReplaySource::AnotherProcess,
                };
                let queued = Queued { source, ..Queued::new(self.initial_wall_offset, since) };
                if source == ReplaySource::AnotherProcess && self.context.isolation.is_suspect(row.id) {
                    suspects.push((row.id, queued));
                } else if has_begun(&row) {
                    begun.push((row.id, queued));
                } else {
                    let stays = is_gated || row.status != Status::Queued;
                    table.enqueue(row.id, queued.movable(&row.origin, stays));
                }
            }
        }
        self.context.isolation.retain_suspects(|id| suspects.iter().any(|(suspect, _)| *suspect == id));
        begun.append(&mut suspects);
        for (id, queued) in begun.into_iter().rev() {
            self.table().enqueue_first(id, queued);
        }
        count += self.recover_suspended().await?;
        if count > 0 {
            self.wake_dispatchers();
        }
        Ok(count)
    }

    /// Gives free slots to the executions of the backlog that wait for nothing else, in order, until the engine stops.
    pub(crate) async fn dispatch(self: Arc<Self>) {
        loop {
            let permit = tokio::select! {
                biased;
                () = self.context.closing.cancelled() => return,
                permit = self.next_slot() => permit,
            };
            let Some(permit) = permit else { return };
            if !self.context.accepting() {
                // The store has failed: an execution that started now could not be recorded.
                return;
            }
            let next = self.table().claim_next(Lane::Slot, &*self.context.clock);
            if let Some((id, queued)) = next {
                let source = queued.source;
                let running = self.context.tracker.spawn(self.clone().load_and_run(
                    id,
                    queued,
                    Some(permit),
                    Share::default(),
                ));
                if source != ReplaySource::ThisProcess {
                    // One after the other, so that recovered executions request their permits in order. An execution that the
                    // store blocks does not delay the others.
                    tokio::select! {
                        _ = running => {}
                        () = self.context.clock.sleep_for(CHECK_INTERVAL) => {}
                    }
                }
            }
        }
    }

    /// Gives memory and slots to the executions of the backlog with large trigger data, one after the other, until the engine
    /// stops.
    pub(crate) async fn dispatch_large(self: Arc<Self>) {
        while let Some(Some((memory, permit))) =
            self.context.closing.run_until_cancelled(self.next_memory()).await
        {
            if !self.context.accepting() {
                return;
            }
            let next = self.table().claim_next(Lane::Memory, &*self.context.clock);
            if let Some((id, queued)) = next {
                // Another one than the memory is for, if that one was cancelled meanwhile.
                self.context.memory.resize_at_once(&memory, queued.memory);
                self.clone().load_and_run(id, queued, Some(permit), memory).await;
            }
        }
    }

    /// Waits for an execution that waits for memory, for the memory that it needs, and for a slot.
    async fn next_memory(&self) -> Option<(Share, OwnedSemaphorePermit)> {
        loop {
            let bytes = self.table().next(Lane::Memory).map(|queued| queued.memory);
            if let Some(bytes) = bytes {
                let memory = Share::default();
                self.context.memory.reserve(&memory, bytes).await;
                let permit = self.slots.clone().acquire_owned().await.ok()?;
                return Some((memory, permit));
            }
            self.wake_large.notified().await;
        }
    }

    async fn next_slot(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if self.table().next(Lane::Slot).is_some() {
                return self.slots.clone().acquire_owned().await.ok();
            }
            self.wake.notified().await;
        }
    }
}

/// Returns true if an execution has events of its own after its start.
pub(super) fn has_begun(row: &ExecutionRow) -> bool {
    row.events > 1 + row.origin.kept_events()
}

/// True if an execution that another process had may hold a permit of its concurrency group, or be the first to ask for one.
pub(super) fn may_hold_permit(catalog: &Catalog, row: &ExecutionRow) -> bool {
    let known = catalog.get(&row.automation).map(|found| &found.automation);
    let known = known.filter(|automation| automation.definition == row.definition);
    known.is_none_or(|automation| automation.concurrency.is_some())
}

/// Parses `trigger.results` of a payload whose body is on disk or large, on a thread that may block. `None` for any other payload, and
/// if it fails: then it is parsed when the first step begins, which reports the error.
async fn parse_stored_body(payload: &Payload) -> Option<Value> {
    let Payload::Webhook(request) = payload else { return None };
    if !request.body.data.is_external() && request.body.data.len() < SMALL_BODY {
        return None;
    }
    let payload = payload.clone();
    tokio::task::spawn_blocking(move || trigger::results(&payload).ok()).await.ok().flatten()
}
