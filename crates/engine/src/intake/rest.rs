//! Executions at rest: nothing but pauses is left of them, so they hold neither a slot nor memory until one ends.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::execution::{ExecutionId, Outcome};

use super::{Queued, State};
use crate::Error;
use crate::run::{CameFrom, Rest};
use crate::services::Services;
use crate::timer::until;

/// Resting executions that are read at one time when the engine starts.
const PAGE: u32 = 1000;
/// How long an execution is looked for that is on its way into memory or to rest, and how often at least.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn lay_to_rest(&mut self, id: ExecutionId, wake_at: Option<Timestamp>) {
        self.resting.insert(id, wake_at);
        self.alarms.extend(wake_at.map(|at| (at, id)));
    }

    /// Takes an execution that rests, if it does: whoever gets it sees to it that it goes on.
    pub(super) fn take_resting(&mut self, id: ExecutionId) -> Option<Queued> {
        let wake_at = self.resting.remove(&id)?;
        if let Some(at) = wake_at {
            self.alarms.remove(&(at, id));
        }
        Some(Queued { id, came_from: CameFrom::Rest })
    }

    /// Has an execution that rests go on in its turn.
    pub(super) fn rouse(&mut self, id: ExecutionId) -> bool {
        let queued = self.take_resting(id);
        self.backlog.extend(queued);
        queued.is_some()
    }
}

impl Services {
    /// Lays an execution to rest of which nothing but pauses is left.
    pub(super) fn lay_to_rest(self: &Arc<Self>, id: ExecutionId, rest: Rest) {
        let mut state = self.intake.state();
        if rest.awake {
            // What it waits for came while it was on its way to rest.
            state.backlog.push_back(Queued { id, came_from: CameFrom::Rest });
            drop(state);
            self.intake.wake.notify_one();
            return;
        }
        state.lay_to_rest(id, rest.wake_at);
        drop(state);
        self.intake.rest.notify_one();
        if !rest.children.is_empty() {
            // One of them may have ended before this one could be found at rest.
            let services = self.clone();
            self.tracker.spawn(async move { services.look_at_children(id, rest.children).await });
        }
    }

    async fn look_at_children(&self, id: ExecutionId, children: Vec<ExecutionId>) {
        for child in children {
            match self.store.execution(child).await {
                Ok(Some(row)) if !row.status.is_terminal() => {}
                Ok(_) => {
                    if self.intake.state().rouse(id) {
                        self.intake.wake.notify_one();
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(%id, %child, %error, "whether a called execution has ended cannot be read")
                }
            }
        }
    }

    /// Has executions go on when the time has come that they wait for, until the engine stops.
    pub(crate) async fn wake_in_time(self: Arc<Self>) {
        loop {
            let next = self.intake.state().alarms.first().map(|(at, _)| *at);
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = self.intake.rest.notified() => {}
                () = until(&*self.clock, next) => self.rouse_all_due(),
            }
        }
    }

    fn rouse_all_due(&self) {
        let now = self.clock.now();
        let mut state = self.intake.state();
        while let Some((at, id)) = state.alarms.first().copied() {
            if at > now {
                break;
            }
            state.alarms.pop_first();
            state.rouse(id);
        }
        drop(state);
        self.intake.wake.notify_one();
    }

    /// Lays to rest what rested when the process before this one ended.
    pub(super) async fn read_back_resting(&self) -> Result<usize, Error> {
        let mut after = None;
        let mut count = 0;
        loop {
            let page = self.store.resting(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.execution);
            let mut state = self.intake.state();
            // Those that hold a place among others have been put into the backlog.
            for resting in page.iter().filter(|resting| !resting.holds) {
                state.lay_to_rest(resting.execution, resting.wake_at);
                count += 1;
            }
        }
        self.intake.rest.notify_one();
        Ok(count)
    }

    /// Waits for the end of an execution, but not while it rests or waits its turn: then `None`.
    pub(crate) async fn outcome_or_rest(&self, id: ExecutionId) -> Result<Option<Outcome>, Error> {
        let give_up = self.clock.now().checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
        while self.clock.now() < give_up {
            let moved = self.intake.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let live = self.intake.state().live.get(&id).map(|run| run.progress.subscribe());
            if let Some(mut progress) = live {
                let there = progress
                    .wait_for(|progress| progress.outcome.is_some() || progress.parked || progress.rests);
                match there.await {
                    Ok(progress) if progress.outcome.is_some() => return Ok(progress.outcome.clone()),
                    Ok(progress) if progress.parked => return Err(Error::Closing),
                    _ => {}
                }
            }
            let row = self.store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?;
            if row.status.is_terminal() {
                return self.ended(id).await.map(Some);
            }
            if self.intake.is_away(id) {
                break;
            }
            // It is on its way into memory, or to rest.
            self.after_a_move(moved).await;
        }
        Ok(None)
    }

    /// Comes back when an execution came into memory or left it, or after a second at the latest.
    pub(crate) async fn after_a_move(&self, moved: impl Future<Output = ()>) {
        let latest = self.clock.now().checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        tokio::select! {
            () = moved => {}
            () = self.clock.sleep_until(latest) => {}
        }
    }

    /// How an execution that has ended did.
    async fn ended(&self, id: ExecutionId) -> Result<Outcome, Error> {
        let events = self.store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        match events.into_iter().next_back() {
            Some(model::Event::Finished { outcome, .. }) => Ok(outcome),
            _ => Err(Error::NoSuchExecution(id)),
        }
    }
}

impl super::Intake {
    /// Whether an execution rests, or waits for a slot or its turn.
    fn is_away(&self, id: ExecutionId) -> bool {
        let state = self.state();
        state.resting.contains_key(&id)
            || state.backlog.iter().any(|queued| queued.id == id)
            || state.gates.values().any(|gate| gate.waiting.contains(&id))
    }
}
