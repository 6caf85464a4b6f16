//! How what is recorded becomes durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::action::Effect;
use model::execution::{Event, LogLine, Outcome, Status};
use store::{AcceptOutcome, Append, InitialEvents, Store};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::Journal;
use crate::clock::Clock;
use crate::run::Exit;

/// How long an append waits at first, and at the longest, before it asks a full store again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long what was only read may wait for more to be committed with it. Longer than a commit takes on most disks, and
/// short beside a restart, after which it is read again.
pub(super) const MOMENT: Duration = Duration::from_millis(10);

/// Makes an execution durable, together with what has happened in it already.
pub(crate) type Accepting =
    Box<dyn FnOnce(InitialEvents) -> BoxFuture<'static, Result<AcceptOutcome, store::Error>> + Send>;

/// What became of the acceptance of an execution.
pub(crate) type Verdict = Result<AcceptOutcome, Arc<store::Error>>;

/// How far the log has come in the store.
pub(super) struct Transit {
    next: u32,
    /// How the execution is accepted, as long as nothing of it is written: its first steps may change nothing outside,
    /// and then they are written together with it.
    accepting: Option<Accepting>,
    verdict: Verdict,
    under_way: Option<UnderWay>,
    lost: Option<Arc<store::Error>>,
}

/// A write that the store has not answered yet.
struct UnderWay {
    events: u32,
    effects: u64,
    status: Status,
    /// Whether a step ends with it that a crash may have interrupted.
    passes: bool,
    /// What whoever watches is told; copied only where somebody does.
    told: Option<(Vec<Event>, Vec<LogLine>)>,
    /// Held until what was written under them is there to read.
    _locks: Vec<OwnedMutexGuard<()>>,
    write: BoxFuture<'static, Result<Written, store::Error>>,
}

/// What was written.
enum Written {
    Appended,
    Accepted(AcceptOutcome),
}

/// Whether an event ends a try of a step or of the execution, so that crashes before it no longer count.
fn ends_a_try(event: &Event) -> bool {
    matches!(
        event,
        Event::StepFinished { .. }
            | Event::StepFailed { .. }
            | Event::StepRetry { .. }
            | Event::Retried { .. }
            | Event::Finished { .. }
    )
}

/// Appends as soon as the store has room. What happened outside has happened: it is kept here, and nothing that
/// depends on it goes on. When the engine stops before there is room, it is done again at the next start.
async fn once_there_is_room(
    store: &dyn Store,
    append: Append,
    clock: &dyn Clock,
    closing: &CancellationToken,
) -> Result<(), store::Error> {
    let mut pause = FIRST_PAUSE;
    loop {
        match store.append(&append).await {
            Err(store::Error::Full) if !closing.is_cancelled() => {}
            result => return result,
        }
        closing.run_until_cancelled(clock.sleep_for(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Journal {
    /// Comes back when the execution is accepted and every recorded effect is committed: what happens outside from here
    /// on can be noticed.
    pub(crate) async fn before_effect(&self) -> Result<(), Exit> {
        if self.unaccepted.load(Ordering::Relaxed) {
            // Accepting and no more: of branches that begin side by side the second would commit that the first has begun,
            // the third that the second has, and each would wait for the disk behind the one before.
            self.transit.lock().await.accept(self).await?;
        }
        self.barrier().await
    }

    /// What became of its acceptance, which is begun now at the latest.
    pub(crate) async fn verdict(&self) -> Verdict {
        let mut transit = self.transit.lock().await;
        // That it fails is part of the verdict.
        let _ = transit.accept(self).await;
        transit.verdict.clone()
    }

    /// Comes back when every effect is committed that is recorded now.
    pub(crate) async fn barrier(&self) -> Result<(), Exit> {
        let recorded = {
            let state = self.state();
            if state.committed >= state.effects {
                return Ok(());
            }
            state.effects
        };
        // A commit that is under way may be enough.
        self.transit.lock().await.arrive(self).await?;
        if self.state().committed < recorded { self.commit().await } else { Ok(()) }
    }

    /// Commits what ways through the steps have left that have ended beside others: those may take as long as they
    /// like. `most` is the most that anything of it did to the world.
    pub(crate) async fn commit_beside(&self, most: Effect) -> Result<(), Exit> {
        if most != Effect::Write {
            // It may be read again: others that are about to end are worth a moment.
            self.clock.sleep_for(MOMENT).await;
        }
        self.barrier().await
    }

    /// Comes back when everything recorded so far is committed.
    pub(crate) async fn commit(&self) -> Result<(), Exit> {
        let mut transit = self.transit.lock().await;
        transit.accept(self).await?;
        transit.begin(self);
        transit.arrive(self).await
    }

    /// What has happened so far, to be written together with the acceptance, and the number of effects in it. Whatever
    /// pauses or writes state is written after it.
    fn already(&self) -> (InitialEvents, u64, Status) {
        let mut state = self.state();
        if state.pauses.is_changed() || !state.writes.is_empty() {
            return (InitialEvents::default(), 0, Status::Running);
        }
        let status = state.outcome.as_ref().map_or(Status::Running, Outcome::status);
        let (events, logs) = (std::mem::take(&mut state.pending), std::mem::take(&mut state.logs));
        state.ended_calls = Effect::Pure;
        let effects = state.effects;
        drop(state);
        let mut already = InitialEvents { events, logs: self.hidden_lines(logs) };
        self.hide_events(&mut already.events);
        (already, effects, status)
    }
}

impl Transit {
    /// Of a log of which so many events are stored.
    pub(super) fn after(events: u32) -> Self {
        let verdict = Ok(AcceptOutcome::New);
        Self { next: events, accepting: None, verdict, under_way: None, lost: None }
    }

    /// Of the log of an execution that is not accepted yet.
    pub(super) fn before(accepting: Accepting) -> Self {
        Self { accepting: Some(accepting), ..Self::after(1) }
    }

    /// Has the execution accepted, if it is not, and waits for the write that is under way.
    async fn accept(&mut self, journal: &Journal) -> Result<(), Exit> {
        if let Some(accepting) = self.accepting.take() {
            let (already, effects, status) = journal.already();
            let told = journal.is_watched().then(|| (already.events.clone(), already.logs.clone()));
            let events = u32::try_from(already.events.len()).unwrap_or(u32::MAX);
            let accepting = accepting(already);
            let write = Box::pin(async move { accepting.await.map(Written::Accepted) });
            let (passes, _locks) = (false, Vec::new());
            self.under_way = Some(UnderWay { events, effects, status, passes, told, _locks, write });
        }
        self.arrive(journal).await
    }

    /// Prepares the write of everything recorded so far, where there is any. The execution is accepted, and no write is under way.
    pub(super) fn begin(&mut self, journal: &Journal) {
        let (mut append, effects, locks) = {
            let mut state = journal.state();
            let nothing = state.pending.is_empty() && state.logs.is_empty() && state.writes.is_empty();
            if nothing && !state.pauses.is_changed() {
                return;
            }
            let rests = if state.pauses.rests() { Status::Waiting } else { Status::Running };
            state.ended_calls = Effect::Pure;
            let append = Append {
                execution: journal.id,
                first: self.next,
                status: state.outcome.as_ref().map_or(rests, Outcome::status),
                waits: state.waits(),
                keeps_permit: state.pauses.holds(),
                events: std::mem::take(&mut state.pending),
                logs: journal.hidden_lines(std::mem::take(&mut state.logs)),
                state: std::mem::take(&mut state.writes),
            };
            (append, state.effects, std::mem::take(&mut state.locks))
        };
        journal.hide(&mut append);
        let told = journal.is_watched().then(|| (append.events.clone(), append.logs.clone()));
        let passes = journal.resumed && append.events.iter().any(ends_a_try);
        let (count, status) = (u32::try_from(append.events.len()).unwrap_or(u32::MAX), append.status);
        let (store, clock, closing) = (journal.store.clone(), journal.clock.clone(), journal.closing.clone());
        let write = Box::pin(async move {
            once_there_is_room(&*store, append, &*clock, &closing).await.map(|()| Written::Appended)
        });
        self.under_way =
            Some(UnderWay { events: count, effects, status, passes, told, _locks: locks, write });
    }

    /// Whether a write is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Waits for the write that is under way, if one is.
    pub(super) async fn arrive(&mut self, journal: &Journal) -> Result<(), Exit> {
        if let Some(error) = &self.lost {
            return Err(Exit::Lost(error.clone()));
        }
        let Some(under_way) = &mut self.under_way else { return self.stands() };
        let result = (&mut under_way.write).await;
        let Some(under_way) = self.under_way.take() else { return Ok(()) };
        match result {
            Ok(Written::Accepted(accepted)) if accepted != AcceptOutcome::New => {
                self.verdict = Ok(accepted);
                journal.was_refused();
                self.stands()
            }
            Ok(written) => {
                if matches!(written, Written::Accepted(_)) {
                    journal.unaccepted.store(false, Ordering::Relaxed);
                }
                self.next += under_way.events;
                journal.state().committed = under_way.effects;
                if under_way.passes {
                    journal.passed.store(true, Ordering::Relaxed);
                }
                // Who came to watch while the commit was under way has read the store without it, and is told at
                // least that something happened.
                let (events, logs) = under_way.told.unwrap_or_default();
                journal.tell(under_way.status, events, logs);
                Ok(())
            }
            Err(error) if journal.unaccepted.load(Ordering::Relaxed) => {
                self.verdict = Err(Arc::new(error));
                journal.was_refused();
                self.stands()
            }
            Err(error) => {
                let error = Arc::new(error);
                self.lost = Some(error.clone());
                Err(Exit::Lost(error))
            }
        }
    }

    /// Whether the execution was not refused.
    fn stands(&self) -> Result<(), Exit> {
        match self.verdict {
            Ok(AcceptOutcome::New) => Ok(()),
            _ => Err(Exit::Refused),
        }
    }
}
