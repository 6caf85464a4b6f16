//! Queued executions that this node gives to another one, which has free slots.

use std::collections::HashSet;

use model::execution::{ExecutionId, Origin};

use super::Admission;
use super::table::Queued;

/// Executions that leave. Each is in the table until the store has said which node has it.
pub(crate) struct Leaving(Vec<(ExecutionId, Queued)>);

impl Leaving {
    pub(crate) fn ids(&self) -> Vec<ExecutionId> {
        self.0.iter().map(|(id, _)| *id).collect()
    }
}

impl Admission {
    /// The number of queued executions that another node may run as well.
    pub(crate) fn movable_count(&self) -> usize {
        self.table().movable_count()
    }

    /// The number of slots that no execution uses or waits for.
    pub(crate) fn free_slots(&self) -> usize {
        self.slots.available_permits().saturating_sub(self.waiting_for_slot())
    }

    /// Claims executions of the backlog that another node may run as well, the oldest first.
    pub(crate) fn begin_leaving(&self, most: usize) -> Leaving {
        Leaving(self.table().begin_leaving(most))
    }

    /// Removes the executions that have left, and returns the others to the front of the backlog. Returns the executions whose
    /// cancellation was requested meanwhile, with the reasons.
    pub(crate) fn end_leaving(
        &self,
        leaving: Leaving,
        kept: &HashSet<ExecutionId>,
    ) -> Vec<(ExecutionId, String)> {
        let mut table = self.table();
        let end = |(id, queued): (ExecutionId, Queued)| {
            let queued = kept.contains(&id).then_some(queued);
            table.end_leaving(id, queued).map(|reason| (id, reason))
        };
        // The first goes to the front last.
        let cancelled = leaving.0.into_iter().rev().filter_map(end).collect();
        drop(table);
        self.wake_dispatchers();
        self.moved.notify_waiters();
        cancelled
    }

    /// True if the execution is moving to another node.
    pub(crate) fn is_leaving(&self, id: ExecutionId) -> bool {
        self.table().is_leaving(id)
    }
}

impl Queued {
    /// Marks it as movable to another node if it has not started and is not gated. Scheduled executions stay, since the node of
    /// the schedule counts them.
    pub(super) fn movable(self, origin: &Origin, stays: bool) -> Self {
        Self { is_movable: !stays && !matches!(origin, Origin::Schedule { .. }), ..self }
    }
}
