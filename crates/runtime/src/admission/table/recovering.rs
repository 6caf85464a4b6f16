//! Executions from before a restart, which request their permits before newer ones.

use std::collections::HashSet;

use model::automation::AutomationId;
use model::execution::ExecutionId;

use super::{ExecutionState, ExecutionTable};
use crate::admission::backlog::Lane;

/// The recovered executions that request their permits before an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) enum Ahead {
    Nobody,
    /// Begun ones, since it was recovered too.
    Begun,
    /// All, since it is newer.
    All,
}

/// The executions of an automation from before the restart that have not requested their permit yet.
#[derive(Default)]
pub(super) struct Recovering {
    /// Begun ones, which may hold a permit: all others wait for them.
    pub(super) begun: HashSet<ExecutionId>,
    /// Others: newer ones wait for them.
    pub(super) queued: HashSet<ExecutionId>,
}

impl Recovering {
    fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.queued.is_empty()
    }
}

impl ExecutionTable {
    /// Notes an execution from before the restart, behind which newer ones of its automation wait for their permits; if it had begun,
    /// also those from before the restart that had not.
    pub(in crate::admission) fn recover_first(
        &mut self,
        automation: &AutomationId,
        id: ExecutionId,
        has_begun: bool,
    ) {
        let recovering = self.recovering.entry(automation.clone()).or_default();
        if has_begun {
            recovering.begun.insert(id)
        } else {
            recovering.queued.insert(id)
        };
    }

    /// Removes an execution that requests its permit from the recovered ones. Returns which of these request theirs before it.
    pub(in crate::admission) fn take_recovered(
        &mut self,
        automation: &AutomationId,
        id: ExecutionId,
    ) -> Ahead {
        let Some(recovering) = self.recovering.get_mut(automation) else { return Ahead::Nobody };
        let (had_begun, was_queued) = (recovering.begun.remove(&id), recovering.queued.remove(&id));
        let (no_begun, is_over) = (recovering.begun.is_empty(), recovering.is_empty());
        if is_over {
            self.recovering.remove(automation);
        }
        if is_over || (had_begun && no_begun) {
            self.release_held(automation);
        }
        if is_over || had_begun || (was_queued && no_begun) {
            Ahead::Nobody
        } else if was_queued {
            Ahead::Begun
        } else {
            Ahead::All
        }
    }

    /// Keeps a queued execution from being dispatched until the recovered ones ahead of it have requested their permits, unless one of
    /// these waits in the backlog itself: then it comes after that one. It would be read back in vain again and again.
    pub(in crate::admission) fn hold(&mut self, automation: &AutomationId, id: ExecutionId, ahead: Ahead) {
        if ahead == Ahead::Begun {
            self.recover_first(automation, id, false);
        }
        let is_dispatched_before = |other: &ExecutionId| {
            matches!(self.executions.get(other), Some(ExecutionState::Queued(_)))
                && !self.backlog.is_held(*other)
        };
        if !self.ahead(automation, ahead).any(is_dispatched_before) {
            self.backlog.hold(automation, id);
        }
    }

    /// True if recovered executions that are ahead have not requested their permits.
    pub(in crate::admission) fn has_ahead(&self, automation: &AutomationId, ahead: Ahead) -> bool {
        self.ahead(automation, ahead).next().is_some()
    }

    fn ahead(&self, automation: &AutomationId, ahead: Ahead) -> impl Iterator<Item = &ExecutionId> {
        let recovering = self.recovering.get(automation).filter(|_| ahead != Ahead::Nobody);
        let queued = recovering.filter(|_| ahead == Ahead::All).map(|recovering| &recovering.queued);
        recovering.into_iter().flat_map(|recovering| &recovering.begun).chain(queued.into_iter().flatten())
    }

    /// True if executions are held.
    pub(in crate::admission) fn has_held(&self) -> bool {
        self.backlog.has_held()
    }

    /// Lets the held executions of an automation be dispatched, in their order: before the ones that have joined the backlog since, which
    /// are younger.
    fn release_held(&mut self, automation: &AutomationId) {
        for id in self.backlog.release(automation).into_iter().rev() {
            let lane = match self.executions.get(&id) {
                Some(ExecutionState::Queued(queued)) => queued.lane(),
                _ => Lane::Slot,
            };
            self.backlog.push_front(lane, id);
        }
    }
}
