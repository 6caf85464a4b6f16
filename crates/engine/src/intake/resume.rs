//! The way back: accepted executions that this process does not hold in memory, read from the store when their
//! turn comes.

use std::sync::Arc;

use model::automation::{AutomationId, DefinitionHash};
use model::execution::Status;
use model::payload::Payload;
use model::value::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::Queued;
use super::accept::Live;
use crate::Error;
use crate::catalog::Deployed;
use crate::run::{CameFrom, Exit, Journal};
use crate::services::Services;

/// Compiled definitions that are no longer in force but still run, at most.
const OLD_DEFINITIONS: usize = 256;
/// Unfinished executions that are read at one time when the engine starts.
const PAGE: u32 = 5000;

impl Services {
    /// Reads back an accepted execution that is in hand, and runs it on from where it stands.
    pub(crate) async fn load_and_run(self: Arc<Self>, queued: Queued, permit: Option<OwnedSemaphorePermit>) {
        let id = queued.id;
        match self.load(queued).await {
            Ok(Some(live)) => {
                if queued.came_from == CameFrom::Rest {
                    live.journal.wake();
                    if self.committed(&live.journal).await.is_err() {
                        // The next start finds it at rest.
                        self.intake.state().out_of_hand(id);
                        return;
                    }
                }
                self.spawn(self.live(live), permit);
            }
            Ok(None) => {
                self.intake.give_up_place(id);
                self.isolation.acquit(id);
            }
            Err(message) => {
                self.intake.give_up_place(id);
                self.isolation.acquit(id);
                tracing::error!(%id, message, "an accepted execution cannot be read back; it is left as it is")
            }
        }
    }

    /// Commits what is recorded of an execution that nobody carries on. Where the store failed, the engine takes note:
    /// nobody else would, and what waits would wait for ever.
    pub(super) async fn committed(&self, journal: &Journal) -> Result<(), Error> {
        journal.commit().await.map_err(|exit| {
            if let Exit::Lost(error) = exit {
                self.lost(&error);
            }
            Error::Closing
        })
    }

    /// Reads an execution back; nothing if it has ended.
    pub(super) async fn load(&self, queued: Queued) -> Result<Option<Live>, String> {
        let Queued { id, mut came_from, ahead, .. } = queued;
        if came_from == CameFrom::ThisProcess && self.isolation.is_suspect(id) {
            // It has waited for its turn here, and not gone on since it was interrupted.
            came_from = CameFrom::AnotherProcess;
        }
        let events = self.store.events(id).await.map_err(|error| error.to_string())?;
        let Some(events) = events else { return Ok(None) };
        let execution = crate::run::folded(id, &events)?;
        if execution.outcome.is_some() {
            return Ok(None);
        }
        let deployed = self.deployed(&execution.automation, execution.definition).await?;
        let journal =
            Journal::restore(id, &deployed.automation, &events, (came_from, ahead), self.surroundings());
        if events.len() == 1 {
            // It has only been accepted so far.
            super::accept::log_decided(&journal, &execution.payload);
        }
        let results = read_apart(&execution.payload).await;
        Ok(Some(Live {
            deployed,
            journal,
            payload: execution.payload,
            started_at: execution.started_at,
            origin: execution.origin,
            results,
        }))
    }

    /// The definition with this hash, in force or kept.
    pub(crate) async fn deployed(
        &self,
        id: &AutomationId,
        hash: DefinitionHash,
    ) -> Result<Arc<Deployed>, String> {
        let catalog = self.catalog.load_full();
        if let Some(found) = catalog.get(id).filter(|found| found.automation.definition == hash) {
            return Ok(found.clone());
        }
        if let Some(found) = self.intake.state().old.get(&hash) {
            return Ok(found.clone());
        }
        let kept = self.store.definition(hash).await.map_err(|error| error.to_string())?;
        let kept = kept.ok_or_else(|| format!("its definition {hash} is not in the store"))?;
        let loaded = super::definition::unpack(kept);
        let automation = loaded.value.ok_or_else(|| {
            format!(
                "its definition does not load with this version of Cogwork:\n{}",
                loaded.report.render(false)
            )
        })?;
        let deployed = Arc::new(Deployed::old(Arc::new(automation), loaded.report));
        let mut state = self.intake.state();
        if state.old.len() >= OLD_DEFINITIONS {
            state.old.clear();
        }
        state.old.insert(hash, deployed.clone());
        Ok(deployed)
    }

    /// Puts every execution that has not ended into the backlog, oldest first, and lays those to rest that pause.
    pub(crate) async fn read_back(&self) -> Result<usize, Error> {
        let mut after = None;
        let mut count = 0;
        // Those that had begun go on first: one of them may have a place that another waits for.
        let mut begun = Vec::new();
        // Those that may end the process come after them, so that the others are on their way by then.
        let mut suspects = Vec::new();
        loop {
            let page = self.store.unfinished(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            count += page.len();
            let catalog = self.catalog.load();
            let mut state = self.intake.state();
            for row in page {
                state.count_scheduled(&row.automation, &row.origin);
                let known = catalog.get(&row.automation).map(|found| &found.automation);
                let known = known.filter(|automation| automation.definition == row.definition);
                if known.is_none_or(|automation| automation.concurrency.is_some()) {
                    state.before.entry(row.automation.clone()).or_default().insert(row.id);
                }
                let came_from = match row.status {
                    // It keeps a place among others, or waits for the end of another that may have ended since.
                    Status::Waiting => CameFrom::Rest,
                    _ => CameFrom::AnotherProcess,
                };
                let queued = Queued { came_from, ..Queued::new(row.id, self.intake.first_ahead) };
                if came_from == CameFrom::AnotherProcess && self.isolation.is_suspect(row.id) {
                    suspects.push(queued);
                } else if row.events > 1 {
                    begun.push(queued);
                } else {
                    state.backlog.push_back(queued);
                }
            }
        }
        self.isolation.acquit_all_but(|id| suspects.iter().any(|queued| queued.id == id));
        begun.append(&mut suspects);
        begun.into_iter().rev().for_each(|queued| self.intake.state().backlog.push_front(queued));
        count += self.read_back_resting().await?;
        if count > 0 {
            self.intake.wake.notify_one();
        }
        Ok(count)
    }

    /// Gives free slots to what waits, in order, until the engine stops.
    pub(crate) async fn dispatch(self: Arc<Self>) {
        loop {
            let permit = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                permit = self.next_slot() => permit,
            };
            let Some(permit) = permit else { return };
            if !self.accepting() {
                // Where the store is lost, what begins now could leave nothing behind.
                return;
            }
            let next = self.intake.state().next_in_line();
            if let Some(queued) = next {
                let running = self.clone().load_and_run(queued, Some(permit));
                if queued.came_from == CameFrom::ThisProcess {
                    self.tracker.spawn(running);
                } else {
                    // One after the other: those of another process come to their concurrency keys in their order.
                    running.await;
                }
            }
        }
    }

    async fn next_slot(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if self.intake.state().has_next_in_line() {
                return self.intake.slots.clone().acquire_owned().await.ok();
            }
            self.intake.wake.notified().await;
        }
    }
}

/// What steps read of a payload whose body is kept outside of memory: it is read from disk, where nobody waits for it. Of any other
/// it is read when the first step begins; so it is where this fails, which says why.
async fn read_apart(payload: &Payload) -> Option<Value> {
    let Payload::Webhook(request) = payload else { return None };
    if !request.body.data.is_external() {
        return None;
    }
    let payload = payload.clone();
    tokio::task::spawn_blocking(move || trigger::results(&payload).ok()).await.ok().flatten()
}
