//! The events that steps send to triggers: each is written with the end of its step.

use model::execution::StepOutcome;
use store::OutboxRow;

use super::Journal;

/// The number of events, and their bytes, from which they are committed for their own sake.
const HEAVY: usize = 64;
const HEAVY_BYTES: usize = 1 << 20;

/// The events of an execution that are not committed.
#[derive(Default)]
pub(super) struct SentEvents {
    /// The events of steps that have not ended, by step.
    open: Vec<(String, OutboxRow)>,
    /// The events of the next commit.
    next: Vec<OutboxRow>,
}

impl SentEvents {
    /// Adds the event of a step to the next commit if the step has succeeded.
    pub(super) fn step_ended(&mut self, step: &str, outcome: &StepOutcome) {
        // Most executions send none.
        if let Some(index) = self.open.iter().position(|(sender, _)| sender == step) {
            let (_, row) = self.open.swap_remove(index);
            if matches!(outcome, StepOutcome::Succeeded { .. }) {
                self.add(row);
            }
        }
    }

    /// Adds an event to the next commit.
    pub(super) fn add(&mut self, row: OutboxRow) {
        self.next.push(row);
    }

    /// Discards the event of a step that has failed.
    pub(super) fn discard(&mut self, step: &str) {
        self.open.retain(|(sender, _)| sender != step);
    }

    /// Takes the events of the next commit.
    pub(super) fn take(&mut self) -> Vec<OutboxRow> {
        std::mem::take(&mut self.next)
    }

    /// True if they should be committed now.
    pub(super) fn is_heavy(&self) -> bool {
        self.next.len() >= HEAVY || (!self.next.is_empty() && OutboxRow::bytes(&self.next) >= HEAVY_BYTES)
    }
}

impl Journal {
    /// Adds events of the engine to the next commit, which has the end of the execution.
    pub(crate) fn send_with_end(&self, rows: Vec<OutboxRow>) {
        if !rows.is_empty() {
            self.state().events.next.extend(rows);
        }
    }

    /// Adds an event that a step sends. It is written with the end of the step, if the step succeeds.
    pub(crate) fn send_event(&self, step: &str, row: OutboxRow) {
        let mut state = self.state();
        state.events.discard(step);
        state.events.open.push((step.to_owned(), row));
    }
}
