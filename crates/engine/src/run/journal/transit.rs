//! How what is recorded becomes durable.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::execution::{Event, LogLine, Outcome, Status};
use store::{Append, Store};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::Journal;
use crate::clock::Clock;
use crate::run::Exit;

/// How long an append waits at first, and at the longest, before it asks a full store again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How far the log has come in the store.
pub(super) struct Transit {
    next: u32,
    committed_effects: u64,
    under_way: Option<UnderWay>,
    lost: Option<Arc<store::Error>>,
}

/// An append that the store has not answered yet.
struct UnderWay {
    events: u32,
    effects: u64,
    status: Status,
    /// What whoever watches is told; copied only where somebody does.
    told: Option<(Vec<Event>, Vec<LogLine>)>,
    /// Held until what was written under them is there to read.
    _locks: Vec<OwnedMutexGuard<()>>,
    append: BoxFuture<'static, Result<(), store::Error>>,
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
    /// Comes back when every recorded effect is committed.
    pub(crate) async fn barrier(&self) -> Result<(), Exit> {
        let recorded = self.state().effects;
        if recorded == 0 {
            return Ok(());
        }
        let committed = {
            let transit = self.transit.lock().await;
            transit.committed_effects
        };
        if committed < recorded { self.commit().await } else { Ok(()) }
    }

    /// Comes back when everything recorded so far is committed.
    pub(crate) async fn commit(&self) -> Result<(), Exit> {
        let mut transit = self.transit.lock().await;
        transit.arrive(self).await?;
        let (mut append, effects, locks) = {
            let mut state = self.state();
            let nothing = state.pending.is_empty() && state.logs.is_empty() && state.writes.is_empty();
            if nothing && !state.pauses.is_changed() {
                return Ok(());
            }
            let rests = if state.pauses.rests() { Status::Waiting } else { Status::Running };
            let append = Append {
                execution: self.id,
                first: transit.next,
                status: state.outcome.as_ref().map_or(rests, Outcome::status),
                waits: state.waits(),
                holds: state.pauses.holds(),
                events: std::mem::take(&mut state.pending),
                logs: self.hidden_lines(std::mem::take(&mut state.logs)),
                state: std::mem::take(&mut state.writes),
            };
            (append, state.effects, std::mem::take(&mut state.locks))
        };
        self.hide(&mut append);
        let told = (self.notices.receiver_count() > 0).then(|| (append.events.clone(), append.logs.clone()));
        let (count, status) = (u32::try_from(append.events.len()).unwrap_or(u32::MAX), append.status);
        let (store, clock, closing) = (self.store.clone(), self.clock.clone(), self.closing.clone());
        let append = Box::pin(async move { once_there_is_room(&*store, append, &*clock, &closing).await });
        transit.under_way = Some(UnderWay { events: count, effects, status, told, _locks: locks, append });
        transit.arrive(self).await
    }
}

impl Transit {
    /// Of a log of which so many events are stored.
    pub(super) fn after(events: u32) -> Self {
        Self { next: events, committed_effects: 0, under_way: None, lost: None }
    }

    /// Waits for the append that is under way, if one is.
    async fn arrive(&mut self, journal: &Journal) -> Result<(), Exit> {
        if let Some(error) = &self.lost {
            return Err(Exit::Lost(error.clone()));
        }
        let Some(under_way) = &mut self.under_way else { return Ok(()) };
        let result = (&mut under_way.append).await;
        let Some(under_way) = self.under_way.take() else { return Ok(()) };
        match result {
            Ok(()) => {
                self.next += under_way.events;
                self.committed_effects = under_way.effects;
                // Who came to watch while the commit was under way has read the store without it, and is told at
                // least that something happened.
                let (events, logs) = under_way.told.unwrap_or_default();
                journal.tell(under_way.status, events, logs);
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(error);
                self.lost = Some(error.clone());
                Err(Exit::Lost(error))
            }
        }
    }
}
