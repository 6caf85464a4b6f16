//! An execution's place among others: behind the gate of its concurrency key, and given back however it ends.

use std::collections::VecDeque;
use std::sync::Arc;

use model::automation::{AutomationId, Concurrency, ConcurrencyPolicy, Overlap, Trigger};
use model::execution::{ExecutionId, Origin, Outcome};

use super::Queued;
use crate::run::{Carried, Rest, Run};
use crate::services::Services;

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
    services: Arc<Services>,
    run: Arc<Run>,
    gated: Option<(AutomationId, String)>,
    /// It has not ended, but waits: for its turn among others of its key, or at rest.
    waits: Option<Waits>,
}

/// What an execution waits for that is not in memory.
enum Waits {
    Turn,
    Rest(Rest),
}

impl Place {
    pub(super) fn new(services: Arc<Services>, run: Arc<Run>) -> Self {
        Self { services, run, gated: None, waits: None }
    }

    /// Carries the execution on to its end, or to where nothing but pauses is left of it.
    pub(super) async fn carry_on(&mut self) {
        if let Carried::Rests(rest) = self.run.execute(self.gated.is_some()).await {
            self.waits = Some(Waits::Rest(rest));
        }
    }

    /// Takes a place at the gate of its concurrency key, if it has one. False if it has to wait.
    pub(super) fn enter(&mut self) -> bool {
        let Some(Concurrency { limit, key, policy }) = self.concurrency() else { return true };
        let key = match key.map(|template| self.run.concurrency_key(&template)) {
            None => String::new(),
            Some(Ok(key)) => key,
            // Evaluated again where the failure is recorded.
            Some(Err(_)) => return true,
        };
        let id = self.run.journal.id();
        let name = (self.run.deployed.automation.id.clone(), key);
        let mut state = self.services.intake.state();
        let gate = state.gates.entry(name.clone()).or_default();
        if gate.holders.contains(&id) {
            // It has kept its place while it rested, or was given one.
            self.gated = Some(name);
            return true;
        }
        if gate.holders.len() >= limit as usize && !self.run.cancelled.token.is_cancelled() {
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
        let held = state.gates.iter().find(|(_, gate)| gate.holders.contains(&id));
        if let Some(name) = held.map(|(name, _)| name.clone()) {
            state.leave_gate(&name, id);
            drop(state);
            self.wake.notify_one();
        }
    }
}

impl super::State {
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
        state.live.remove(&id);
        if let Some(waits) = self.waits.take() {
            if self.run.progress.receiver_count() > 0 {
                // Whoever waits for it goes on waiting, on the channel that it will have when it goes on.
                self.run.progress.send_modify(|progress| progress.rests = true);
                state.awaited.insert(id, self.run.progress.clone());
            }
            drop(state);
            match waits {
                Waits::Turn => {}
                Waits::Rest(rest) => self.services.lay_to_rest(id, rest),
            }
            intake.moved.notify_waiters();
            if self.run.cancelled.token.is_cancelled() {
                // Somebody ended it on its way there.
                intake.cancel(&self.services, id, &self.run.cancelled.reason());
            }
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
