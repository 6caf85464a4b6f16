//! The permits of concurrency groups: the executions that hold or await one, and the grants when one is free or the limit changes.

use std::collections::VecDeque;

use model::automation::AutomationId;
use model::execution::{DelayReason, ExecutionId};

use super::{ExecutionState, ExecutionTable, GroupKey, PermitWait, Recovering};
use crate::clock::Clock;

/// The executions that hold a permit of a concurrency group, and its queue, in order. No execution waits while a permit is
/// free: [`ExecutionTable::grant_permits`] keeps that rule whenever a permit is released or the limit changes.
#[derive(Default)]
pub(in crate::admission) struct ConcurrencyGroup {
    /// The number of permits, as the definition in force has it, if it is literal. After a change there may be more holders, until they
    /// have ended.
    pub(in crate::admission) limit: usize,
    pub(in crate::admission) holders: Vec<ExecutionId>,
    pub(in crate::admission) waiting: VecDeque<PermitWaiter>,
}

/// An execution in the queue of a group.
pub(in crate::admission) struct PermitWaiter {
    pub(in crate::admission) id: ExecutionId,
    /// The limit that it computed for itself; `None` for that of the group.
    pub(in crate::admission) limit: Option<usize>,
}

impl ConcurrencyGroup {
    /// The executions that have to end before an execution that joins the queue now with this limit gets a permit, in the order of
    /// their acceptance.
    pub(in crate::admission) fn in_the_way(&self, limit: usize) -> Vec<ExecutionId> {
        let excess = (self.holders.len() + self.waiting.len() + 1).saturating_sub(limit);
        let waiting = self.waiting.iter().map(|waiter| &waiter.id);
        self.holders.iter().chain(waiting).take(excess).copied().collect()
    }

    /// Takes the first execution of the queue if there is a permit for it.
    fn pop_free(&mut self) -> Option<ExecutionId> {
        let limit = self.waiting.front()?.limit.unwrap_or(self.limit);
        let next = self.waiting.pop_front_if(|_| self.holders.len() < limit)?;
        Some(next.id)
    }
}

impl ExecutionTable {
    /// Releases the permit of an execution, and gives the free permits of its group to its queue.
    pub(in crate::admission) fn release_permit(
        &mut self,
        key: &GroupKey,
        id: ExecutionId,
        clock: &dyn Clock,
    ) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.holders.retain(|holder| *holder != id);
        self.grant_permits(key, Some(id), clock);
    }

    /// Sets the limits of the groups in which executions wait, by the definitions in force, and grants the permits that are free now.
    /// `limit` returns `None` for an automation that is not in force or computes its limit: its executions keep the limit that they had.
    pub(in crate::admission) fn set_limits(
        &mut self,
        limit: impl Fn(&AutomationId) -> Option<usize>,
        clock: &dyn Clock,
    ) {
        let mut changed = Vec::new();
        for (key, group) in &mut self.groups {
            let Some(limit) = limit(&key.automation) else { continue };
            let computed = group.waiting.iter_mut().filter_map(|waiter| waiter.limit.take()).count();
            if limit != group.limit || computed > 0 {
                group.limit = limit;
                changed.push(key.clone());
            }
        }
        for key in changed {
            self.grant_permits(&key, None, clock);
        }
    }

    /// Gives the free permits of a group to the first that wait for them; `released_by` is the execution that had one of them.
    pub(in crate::admission) fn grant_permits(
        &mut self,
        key: &GroupKey,
        released_by: Option<ExecutionId>,
        clock: &dyn Clock,
    ) {
        while let Some(group) = self.groups.get_mut(key) {
            let Some(next) = group.pop_free() else { break };
            // It holds the permit from now on, before it is read back.
            group.holders.push(next);
            let holder =
                released_by.or_else(|| group.holders.first().copied().filter(|first| *first != next));
            if let Some(ExecutionState::WaitingForPermit(wait)) = self.take(next) {
                let PermitWait { group, mut queued } = *wait;
                queued.end_wait(DelayReason::Permit { key: group.key, holder }, clock, &self.waits);
                self.enqueue(next, queued);
            }
        }
        if self.groups.get(key).is_some_and(|group| group.holders.is_empty() && group.waiting.is_empty()) {
            self.groups.remove(key);
        }
    }

    /// Removes an execution that cannot be read back or has ended meanwhile, with the permit that it holds.
    pub(in crate::admission) fn give_up(&mut self, id: ExecutionId, clock: &dyn Clock) {
        self.remove(id);
        let is_in =
            |recovering: &Recovering| recovering.begun.contains(&id) || recovering.queued.contains(&id);
        let recovered = self.recovering.iter().find(|(_, recovering)| is_in(recovering));
        if let Some(automation) = recovered.map(|(automation, _)| automation.clone()) {
            self.take_recovered(&automation, id);
        }
        let held = self.groups.iter().find(|(_, group)| group.holders.contains(&id));
        if let Some(key) = held.map(|(key, _)| key.clone()) {
            self.release_permit(&key, id, clock);
        }
    }
}
