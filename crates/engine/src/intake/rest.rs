//! Executions at rest: nothing but pauses is left of them, so they hold neither a slot nor memory until one ends.

use std::sync::Arc;
use std::time::Duration;

use model::execution::{ExecutionId, Outcome};
use store::{ExecutionFilter, Page};

use super::{Queued, Sleeper, State};
use crate::Error;
use crate::clock::Steady;
use crate::run::{Rest, Wake};
use crate::services::Services;
use crate::timer::{until, until_steady};

/// Resting executions that are read at one time when the engine starts.
const PAGE: u32 = 1000;
/// How long an execution is looked for that is on its way into memory or to rest, and how often at least.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn lay_to_rest(&mut self, id: ExecutionId, sleeper: Sleeper) {
        self.resting.insert(id, sleeper);
        self.calendar.extend(sleeper.wake.at.map(|at| (at, id)));
        self.alarms.extend(sleeper.wake.after.map(|after| (after, id)));
    }

    /// Takes an execution that rests, if it does: whoever gets it sees to it that it goes on.
    pub(super) fn take_resting(&mut self, id: ExecutionId) -> Option<Queued> {
        let Sleeper { wake, ahead } = self.resting.remove(&id)?;
        if let Some(at) = wake.at {
            self.calendar.remove(&(at, id));
        }
        if let Some(after) = wake.after {
            self.alarms.remove(&(after, id));
        }
        Some(Queued::from_rest(id, ahead))
    }

    /// Lays an execution to rest of which nothing but pauses is left, or has it go on if what it waits for came on its way
    /// there. Gives the executions for whose end it rests.
    pub(super) fn rests(&mut self, id: ExecutionId, rest: Rest) -> Vec<ExecutionId> {
        if rest.awake {
            self.backlog.push_back(Queued::from_rest(id, rest.ahead));
            return Vec::new();
        }
        self.lay_to_rest(id, Sleeper { wake: rest.wake, ahead: rest.ahead });
        rest.children
    }

    /// Has an execution that rests go on in its turn.
    pub(super) fn rouse(&mut self, id: ExecutionId) -> bool {
        let queued = self.take_resting(id);
        self.backlog.extend(queued);
        queued.is_some()
    }
}

impl Services {
    /// Looks whether one of those that an execution at rest waits for has ended before it could be found there.
    pub(super) fn look_at_children(self: &Arc<Self>, id: ExecutionId, children: Vec<ExecutionId>) {
        if !children.is_empty() {
            let services = self.clone();
            self.tracker.spawn(async move { services.look_at_each(id, children).await });
        }
    }

    async fn look_at_each(&self, id: ExecutionId, children: Vec<ExecutionId>) {
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
            let (at, after) = {
                let state = self.intake.state();
                (state.calendar.first().map(|(at, _)| *at), state.alarms.first().map(|(after, _)| *after))
            };
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = self.intake.rest.notified() => {}
                () = until(&*self.clock, at) => self.rouse_all_due(),
                () = until_steady(&*self.clock, after) => self.rouse_all_due(),
            }
        }
    }

    fn rouse_all_due(&self) {
        let (now, steady_now) = (self.clock.now(), self.clock.steady_now());
        let mut state = self.intake.state();
        while let Some((_, id)) = state.calendar.first().copied().filter(|(at, _)| *at <= now) {
            state.calendar.pop_first();
            state.rouse(id);
        }
        while let Some((_, id)) = state.alarms.first().copied().filter(|(after, _)| *after <= steady_now) {
            state.alarms.pop_first();
            state.rouse(id);
        }
        drop(state);
        self.intake.wake.notify_one();
    }

    /// Lays to rest what rested when the process before this one ended.
    pub(super) async fn read_back_resting(&self) -> Result<usize, Error> {
        let set_back = self.was_set_back().await?;
        let mut after = None;
        let mut count = 0;
        loop {
            let page = self.store.list_suspended(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.execution);
            let mut state = self.intake.state();
            // Those that hold a place among others have been put into the backlog.
            for resting in page.iter().filter(|resting| !resting.keeps_permit) {
                let (id, ahead) = (resting.execution, self.intake.first_ahead);
                if set_back {
                    state.backlog.push_back(Queued::from_rest(id, ahead));
                } else {
                    // Which of the scales the instant is on, its log knows: on waking up it is armed by that.
                    let after = resting.wake_at.map(|at| Steady::of(at, ahead));
                    state.lay_to_rest(id, Sleeper { wake: Wake { at: resting.wake_at, after }, ahead });
                }
                count += 1;
            }
        }
        self.intake.rest.notify_one();
        Ok(count)
    }

    /// Whether the clock was set back while no process saw it, behind what happened before: then the instants that are
    /// stored for those at rest say little, and each has to look at its log for how long it is to last.
    async fn was_set_back(&self) -> Result<bool, Error> {
        let newest = Page { before: None, limit: 1 };
        let newest = self.store.executions(&ExecutionFilter::default(), newest).await?;
        Ok(newest.first().is_some_and(|row| row.started_at > self.clock.now()))
    }

    /// Waits for the end of an execution, but not while it rests or waits its turn: then `None`.
    pub(crate) async fn outcome_or_rest(&self, id: ExecutionId) -> Result<Option<Outcome>, Error> {
        let give_up = self.clock.steady_now().after(PATIENCE);
        while self.clock.steady_now() < give_up {
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
        tokio::select! {
            () = moved => {}
            () = self.clock.sleep_for(LOOK_AGAIN) => {}
        }
    }

    /// Comes back once the engine stops and does not have the execution in memory: it goes on at the next start.
    pub(crate) async fn left_behind(&self, id: ExecutionId) {
        self.closing.cancelled().await;
        loop {
            let moved = self.intake.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if !self.intake.is_live(id) {
                return;
            }
            moved.await;
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
            || state.gates.values().any(|gate| gate.has_waiting(id))
    }
}
