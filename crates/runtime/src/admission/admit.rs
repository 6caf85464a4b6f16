//! The order of the first write, the slot and the run of a start: a pure function.

/// The order of the first write, the slot and the run of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admit {
    /// It runs, and its start is stored together with the results of its first steps.
    RunFirst,
    /// Its start is stored, then it runs.
    StoreThenRun,
    /// Its start is stored, then it joins the backlog of the node that owns it.
    StoreThenQueue,
}

/// The node that orders an execution among the others of its automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// No order: it runs where it was accepted.
    Open,
    /// This node.
    Here,
    /// Another node, which owns the shard of the automation.
    Elsewhere,
}

/// The facts that decide about an execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// True if it has a slot, of its own or of its caller.
    pub(super) has_slot: bool,
    /// True if it begins with events, which it reads back from the store.
    pub(super) has_events: bool,
    /// True if it needs a permit of its concurrency group.
    pub(super) needs_permit: bool,
    pub(super) gate: Gate,
    /// True if no other node shares the store.
    pub(super) is_alone: bool,
}

impl Admit {
    pub(super) fn decide(facts: Facts) -> Self {
        let Facts { has_slot, has_events, needs_permit, gate, is_alone } = facts;
        if !has_slot || has_events || gate == Gate::Elsewhere {
            return Self::StoreThenQueue;
        }
        // While it waits for its permit, or if its shard moves, it has to be in the store.
        if needs_permit || (gate == Gate::Here && !is_alone) {
            return Self::StoreThenRun;
        }
        Self::RunFirst
    }

    /// True if it needs memory for the large data of its trigger at once. An execution that is stored first can wait for it
    /// later, unless its caller waits for its end.
    pub(super) fn needs_memory(self, at_once: bool) -> bool {
        match self {
            Self::RunFirst => true,
            Self::StoreThenRun => at_once,
            Self::StoreThenQueue => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Admit::{RunFirst, StoreThenQueue, StoreThenRun};
    use super::Gate::{Elsewhere, Here, Open};
    use super::*;

    #[test]
    fn an_execution_runs_before_it_is_stored_only_if_nothing_can_take_it_away() {
        // needs_permit, gate, is_alone, and the decision for an execution with a slot and without events
        let table = [
            (false, Open, true, RunFirst),
            (false, Open, false, RunFirst),
            (false, Here, true, RunFirst),
            (false, Here, false, StoreThenRun),
            (true, Here, true, StoreThenRun),
            (true, Here, false, StoreThenRun),
            (false, Elsewhere, false, StoreThenQueue),
            (true, Elsewhere, false, StoreThenQueue),
        ];
        for (needs_permit, gate, is_alone, expected) in table {
            let facts = Facts { has_slot: true, has_events: false, needs_permit, gate, is_alone };
            assert_eq!(Admit::decide(facts), expected, "{facts:?}");
            for waits in [Facts { has_slot: false, ..facts }, Facts { has_events: true, ..facts }] {
                assert_eq!(Admit::decide(waits), StoreThenQueue, "{waits:?}");
            }
        }
    }

    #[test]
    fn only_an_execution_that_runs_before_its_caller_can_be_answered_needs_memory_at_once() {
        let table = [(RunFirst, true, true), (StoreThenRun, false, true), (StoreThenQueue, false, false)];
        for (admit, asynchronous, synchronous) in table {
            assert_eq!(
                (admit.needs_memory(false), admit.needs_memory(true)),
                (asynchronous, synchronous),
                "{admit:?}"
            );
        }
    }
}
