//! The backlog: the executions that wait to come into memory, in two queues or held.

use std::collections::VecDeque;

use model::automation::AutomationId;
use model::execution::ExecutionId;

/// The queue in which an execution waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// For a slot.
    Slot,
    /// For memory for the large data of its trigger, and then for a slot. Others do not wait behind it.
    Memory,
}

/// The executions of both queues, in order, and the held ones. An execution is in one of them at most.
#[derive(Default)]
pub(super) struct Backlog {
    slot: VecDeque<ExecutionId>,
    memory: VecDeque<ExecutionId>,
    /// Executions that are not dispatched until recovered ones of their automation have requested their permits.
    held: Vec<(AutomationId, ExecutionId)>,
}

impl Backlog {
    fn queue(&mut self, lane: Lane) -> &mut VecDeque<ExecutionId> {
        match lane {
            Lane::Slot => &mut self.slot,
            Lane::Memory => &mut self.memory,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slot.len() + self.memory.len() + self.held.len()
    }

    /// The number of executions in a queue.
    pub(super) fn len_of(&self, lane: Lane) -> usize {
        match lane {
            Lane::Slot => self.slot.len(),
            Lane::Memory => self.memory.len(),
        }
    }

    pub(super) fn push_back(&mut self, lane: Lane, id: ExecutionId) {
        self.queue(lane).push_back(id);
    }

    pub(super) fn push_front(&mut self, lane: Lane, id: ExecutionId) {
        self.queue(lane).push_front(id);
    }

    pub(super) fn first(&self, lane: Lane) -> Option<ExecutionId> {
        match lane {
            Lane::Slot => self.slot.front().copied(),
            Lane::Memory => self.memory.front().copied(),
        }
    }

    pub(super) fn pop(&mut self, lane: Lane) -> Option<ExecutionId> {
        self.queue(lane).pop_front()
    }

    pub(super) fn remove(&mut self, id: ExecutionId) {
        self.slot.retain(|other| *other != id);
        self.memory.retain(|other| *other != id);
        self.held.retain(|(_, other)| *other != id);
    }

    /// Takes an execution out of its queue until [`Self::release`].
    pub(super) fn hold(&mut self, automation: &AutomationId, id: ExecutionId) {
        self.remove(id);
        self.held.push((automation.clone(), id));
    }

    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn is_held(&self, id: ExecutionId) -> bool {
        self.held.iter().any(|(_, held)| *held == id)
    }

    /// Takes the held executions of an automation, in order. They join their queues again.
    pub(super) fn release(&mut self, automation: &AutomationId) -> Vec<ExecutionId> {
        self.held.extract_if(.., |(held, _)| held == automation).map(|(_, id)| id).collect()
    }

    pub(super) fn is_in(&self, lane: Lane, id: ExecutionId) -> bool {
        match lane {
            Lane::Slot => self.slot.contains(&id),
            Lane::Memory => self.memory.contains(&id),
        }
    }

    /// The number of executions before this one in its queue; `None` if it is in none.
    pub(super) fn position(&self, id: ExecutionId) -> Option<usize> {
        let position = |queue: &VecDeque<ExecutionId>| queue.iter().position(|queued| *queued == id);
        let held = || self.held.iter().position(|(_, held)| *held == id);
        position(&self.slot).or_else(|| position(&self.memory)).or_else(held)
    }
}
