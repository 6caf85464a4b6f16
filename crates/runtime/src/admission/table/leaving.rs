//! Executions of the backlog that leave for another node.

use model::execution::ExecutionId;

use super::{ExecutionState, ExecutionTable, Queued};
use crate::admission::backlog::Lane;

/// Maximum number of executions of the backlog that are passed over for others that may leave.
const MAX_PASSED: usize = 10_000;

impl ExecutionTable {
    /// Claims executions of the backlog that another node may run as well, the oldest first.
    pub(in crate::admission) fn begin_leaving(&mut self, most: usize) -> Vec<(ExecutionId, Queued)> {
        let (mut passed, mut leaving) = (Vec::new(), Vec::new());
        while leaving.len() < most && self.movable > 0 && passed.len() < MAX_PASSED {
            let Some(id) = self.backlog.pop(Lane::Slot) else { break };
            let is_movable =
                |state: &ExecutionState| matches!(state, ExecutionState::Queued(queued) if queued.is_movable);
            if !self.executions.get(&id).is_some_and(is_movable) {
                passed.push(id);
                continue;
            }
            let claimed = ExecutionState::Claimed {
                is_in_backlog: false,
                pending_cancel: None,
                is_woken: false,
                is_leaving: true,
            };
            if let Some(ExecutionState::Queued(queued)) = self.set(id, claimed) {
                leaving.push((id, queued));
            }
        }
        passed.into_iter().rev().for_each(|id| self.backlog.push_front(Lane::Slot, id));
        leaving
    }

    /// Removes an execution that has left, or puts it back to the front of the backlog. Returns the reason of a cancellation that was
    /// requested meanwhile.
    pub(in crate::admission) fn end_leaving(
        &mut self,
        id: ExecutionId,
        kept: Option<Queued>,
    ) -> Option<String> {
        let Some(ExecutionState::Claimed { pending_cancel, is_leaving: true, .. }) =
            self.executions.get_mut(&id)
        else {
            return None;
        };
        let pending_cancel = pending_cancel.take();
        match kept {
            Some(queued) => self.enqueue_first(id, queued),
            None => self.remove(id),
        }
        pending_cancel
    }

    /// True if the execution is moving to another node.
    pub(in crate::admission) fn is_leaving(&self, id: ExecutionId) -> bool {
        matches!(self.executions.get(&id), Some(ExecutionState::Claimed { is_leaving: true, .. }))
    }
}
