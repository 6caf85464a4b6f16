//! An execution's place among others: behind the gate of its concurrency key, and given back however it ends.

use std::collections::VecDeque;
use std::sync::Arc;

use model::automation::{AutomationId, Concurrency, ConcurrencyPolicy, Overlap, Trigger};
use model::execution::{ExecutionId, Origin, Outcome};

use super::Queued;
use crate::context::Runtime;
use crate::run::{Carried, Rest, Run};

/// The executions of one concurrency key. Derived from live executions, so a slot cannot leak.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) holders: Vec<ExecutionId>,
    pub(super) waiting: VecDeque<Queued>,
}

impl Gate {
    /// Whether an execution waits for its turn here.
    pub(super) fn has_waiting(&self, id: ExecutionId) -> bool {
        self.waiting.iter().any(|waiting| waiting.id == id)
    }
}

/// Sees to it that an execution's place is given back however its task ends.
pub(super) struct Place {
    services: Arc<Runtime>,
    run: Arc<Run>,
    gated: Option<(AutomationId, String)>,
    /// It has not ended, but waits: for its turn among others of its key, or at rest.
    waits: Option<Waits>,
    /// It goes on in another process.
    is_left: bool,
    /// It was to end when it was carried on.
    knows_its_end: bool,
}

/// What an execution waits for that is not in memory.
enum Waits {
    /// Behind all that waits for a slot.
    Slot,
    Turn,
    Rest(Rest),
}

impl Place {
    pub(super) fn new(services: Arc<Runtime>, run: Arc<Run>) -> Self {
        Self { services, run, gated: None, waits: None, is_left: false, knows_its_end: false }
    }

    /// Carries the execution on to its end, or to where nothing but pauses is left of it.
    pub(super) async fn carry_on(&mut self) {
        self.knows_its_end = self.run.cancelled.token.is_cancelled();
        match self.run.execute(self.gated.is_some()).await {
            Carried::Ended => {}
            Carried::Rests(rest) => self.waits = Some(Waits::Rest(rest)),
            Carried::Left => self.is_left = true,
        }
    }

    /// Takes a place at the gate of its concurrency key, if it has one. False if it has to wait.
    pub(super) fn enter(&mut self) -> bool {
        let (id, automation) = (self.run.journal.id(), &self.run.deployed.automation.id);
        let comes_late = self.services.intake.state().comes_late(automation, id);
        let Some(Concurrency { limit, key, policy }) = self.concurrency() else { return true };
        if comes_late && !self.run.cancelled.token.is_cancelled() {
            // One of those that were accepted before the process began may have had the place.
            self.waits = Some(Waits::Slot);
            return false;
        }
        let key = match key.map(|template| self.run.concurrency_key(&template)) {
            None => String::new(),
            Some(Ok(key)) => key,
            // Evaluated again where the failure is recorded.
            Some(Err(_)) => return true,
        };
        let name = (self.run.deployed.automation.id.clone(), key);
        let mut state = self.services.intake.state();
        let gate = state.gates.entry(name.clone()).or_default();
        if gate.holders.contains(&id) {
            // It has kept its place while it rested, or was given one.
            self.gated = Some(name);
            return true;
        }
        if gate.holders.len() >= limit as usize {
            if self.run.cancelled.token.is_cancelled() {
                // It only ends, and has no place that another could get of it.
                return true;
            }
            match policy {
                ConcurrencyPolicy::Skip => {
                    drop(state);
                    self.run
                        .cancelled
                        .cancel("skipped: as many executions as `concurrency.limit` allows were running");
                    return true;
                }
                ConcurrencyPolicy::Queue | ConcurrencyPolicy::CancelRunning => {
                    gate.waiting.push_back(Queued::new(id, self.run.journal.ahead()));
                    let oldest = gate.holders.first().copied();
                    drop(state);
                    if let Some(oldest) = oldest.filter(|_| policy == ConcurrencyPolicy::CancelRunning) {
                        let reason = "cancelled for a newer execution, as `concurrency.policy` says";
                        self.services.intake.cancel(&self.services, oldest, reason);
                    }
                    self.waits = Some(Waits::Turn);
                    return false;
                }
            }
        }
        gate.holders.push(id);
        self.gated = Some(name);
        true
    }

    /// The Automation's own rule, or the one that `overlap: queue` of its schedule makes.
    fn concurrency(&self) -> Option<Concurrency> {
        let automation = &self.run.deployed.automation;
        if let Some(own) = &automation.concurrency {
            return Some(own.clone());
        }
        let queues =
            matches!(&automation.trigger, Trigger::Schedule(schedule) if schedule.overlap == Overlap::Queue);
        let scheduled = matches!(self.run.origin, Origin::Schedule { .. });
        (queues && scheduled).then_some(Concurrency { limit: 1, key: None, policy: ConcurrencyPolicy::Queue })
    }
}

impl super::Intake {
    /// Gives back the place of an execution that cannot be read back, or has ended meanwhile.
    pub(super) fn give_up_place(&self, id: ExecutionId) {
        let mut state = self.state();
        state.out_of_hand(id);
        for before in state.before.values_mut() {
            before.remove(&id);
        }
        let held = state.gates.iter().find(|(_, gate)| gate.holders.contains(&id));
        if let Some(name) = held.map(|(name, _)| name.clone()) {
            state.leave_gate(&name, id);
            drop(state);
            self.wake.notify_one();
        }
    }
}

impl super::State {
    /// An execution comes to the gate of its Automation. True where others of another process have not come yet that
    /// were accepted before it.
    fn comes_late(&mut self, automation: &AutomationId, id: ExecutionId) -> bool {
        let Some(before) = self.before.get_mut(automation) else { return false };
        let is_one_of_them = before.remove(&id);
        if before.is_empty() {
            self.before.remove(automation);
            return false;
        }
        !is_one_of_them
    }

    /// Gives the place of an execution to the next one that waits for it.
    fn leave_gate(&mut self, name: &(AutomationId, String), id: ExecutionId) {
        let Some(gate) = self.gates.get_mut(name) else { return };
        gate.holders.retain(|holder| *holder != id);
        let next = gate.waiting.pop_front();
        // The place is the next one's from now on, whoever comes before it is read back.
        gate.holders.extend(next.map(|next| next.id));
        if gate.holders.is_empty() && gate.waiting.is_empty() {
            self.gates.remove(name);
        }
        self.backlog.extend(next);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let id = self.run.journal.id();
        let intake = &self.services.intake;
        let mut state = intake.state();
        if state.live.get(&id).is_some_and(|live| Arc::ptr_eq(live, &self.run)) {
            // Where it waits, its turn may have come again before.
            state.live.remove(&id);
        }
        if let Some(waits) = self.waits.take() {
            if self.run.progress.receiver_count() > 0 {
                // Whoever waits for it goes on waiting, on the channel that it will have when it goes on.
                self.run.progressed(|progress| progress.rests = true);
                state.awaited.insert(id, self.run.progress.clone());
            }
            // With what goes before, so that whoever looks for it finds it in one place or the other.
            let mut children = Vec::new();
            match waits {
                Waits::Slot => state.backlog.push_back(Queued::new(id, self.run.journal.ahead())),
                Waits::Turn => {}
                Waits::Rest(rest) => children = state.rests(id, rest),
            }
            drop(state);
            intake.wake.notify_one();
            intake.rest.notify_one();
            self.services.look_at_children(id, children);
            intake.moved.notify_waiters();
            if self.run.cancelled.token.is_cancelled() && !self.knows_its_end {
                // Somebody ended it on its way there. One that knew it rests in its closing steps.
                intake.cancel(&self.services, id, &self.run.cancelled.reason());
            }
            return;
        }
        if self.is_left {
            // Its place is still its own: nobody comes in between, nor is anybody told that it has ended.
            drop(state);
            intake.moved.notify_waiters();
            return;
        }
        if let Some(name) = self.gated.take() {
            state.leave_gate(&name, id);
        }
        let automation = &self.run.deployed.automation.id;
        if matches!(self.run.origin, Origin::Schedule { .. })
            && let Some(count) = state.scheduled.get_mut(automation)
        {
            *count = count.saturating_sub(1);
        }
        if let Origin::Call { execution, .. } = &self.run.origin {
            // Its caller may rest until it ends.
            state.rouse(*execution);
        }
        drop(state);
        intake.wake.notify_one();
        intake.moved.notify_waiters();
        match self.run.journal.outcome() {
            Some(Outcome::Failed { error } | Outcome::Stuck { error }) => {
                tracing::warn!(execution = %id, %automation, step = error.step, error = error.message, "execution failed");
            }
            Some(outcome) => {
                tracing::debug!(execution = %id, %automation, status = outcome.status().word(), "execution ended")
            }
            None => {}
        }
    }
}
