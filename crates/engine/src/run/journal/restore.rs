//! From the stored events of an execution back to where it stands.

use std::sync::PoisonError;

use model::automation::Automation;
use model::execution::{Event, ExecutionId, Waiting};

use super::pauses::Replayed;
use super::retries::{Inside, Tries};
use super::transit::Transit;
use super::{Journal, State, Surroundings};

/// Where an execution was before it is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CameFrom {
    /// In a process that ended while it had the execution, so that a step may have been interrupted.
    AnotherProcess,
    /// In the backlog of this one.
    ThisProcess,
    /// At rest: nothing was under way.
    Rest,
}

impl Journal {
    /// The log of an execution from its stored events. `came_from` says where it was before.
    pub(crate) fn restore(
        id: ExecutionId,
        automation: &Automation,
        events: &[Event],
        came_from: CameFrom,
        around: Surroundings,
    ) -> Self {
        let mut journal = Self::new(id, automation, around);
        journal.remembers = true;
        journal.resumed = match came_from {
            // With nothing but *started* it may have been in its first step all the same: the begin of a step is not
            // committed for its own sake.
            CameFrom::AnotherProcess => true,
            CameFrom::ThisProcess => events.len() > 1,
            CameFrom::Rest => false,
        };
        *journal.transit.get_mut() = Transit::after(u32::try_from(events.len()).unwrap_or(u32::MAX));
        let state = journal.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut replay =
            Replay { automation, ordered: journal.ordered, inside: None, pauses: Replayed::default() };
        for event in events {
            replay.event(state, event);
        }
        replay.pauses.into(&mut state.pauses);
        journal
    }
}

struct Replay<'a> {
    automation: &'a Automation,
    ordered: bool,
    inside: Option<Inside>,
    pauses: Replayed,
}

impl Replay<'_> {
    fn event(&mut self, state: &mut State, event: &Event) {
        match event {
            Event::Started { .. } => {}
            Event::Resumed { .. } => state.interruptions += 1,
            Event::StepStarted { step, .. } => {
                state.interrupted.insert(step.clone());
            }
            Event::StepDated { at, step, state: read } => {
                state.dated.insert(step.clone(), (*at, read.clone()));
            }
            Event::StepRetry { step, attempt, next_at, .. } => {
                state.interrupted.remove(step);
                state.tries.insert(step.clone(), Tries { failed: *attempt, next_at: Some(*next_at) });
                state.interruptions = 0;
                let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
                state.forget_failures_inside(step, inside);
            }
            Event::StepFailed { at, step, error } => {
                state.ended(step, *at);
                state.failing.insert(step.clone(), error.clone());
                self.abandon(state, step, *at);
            }
            Event::StepFinished { at, step, outcome, .. } => {
                state.ended(step, *at);
                state.failing.remove(step);
                if self.ordered {
                    let place = state.order.len() as u64;
                    state.order.insert(step.clone(), place);
                }
                state.finished.insert(step.clone(), outcome.clone());
                self.abandon(state, step, *at);
            }
            Event::Waiting { at, step, until, limit, on } => {
                let waiting = Waiting { since: *at, until: *until, on: on.clone() };
                self.pauses.begins(step);
                state.pauses.begin(step, waiting, *limit);
            }
            Event::Signalled { step, signal, .. } => self.pauses.came(step, signal),
            Event::Responded { response, .. } => state.response = Some(response.clone()),
            Event::Failing { error, .. } => state.closing = Some(error.clone()),
            Event::Cancelling { reason, .. } => state.cancelling = Some(reason.clone()),
            Event::Retried { attempt, next_at, .. } => {
                state.retry(*attempt, *next_at);
                state.interruptions = 0;
            }
            Event::Finished { outcome, .. } => state.outcome = Some(outcome.clone()),
        }
    }

    /// What paused inside a step that has ended will not go on.
    fn abandon(&mut self, state: &mut State, step: &str, at: jiff::Timestamp) {
        if state.pauses.is_empty() {
            return;
        }
        let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
        state.pauses.end_all(inside.of(step), at);
    }
}

impl State {
    fn ended(&mut self, step: &str, at: jiff::Timestamp) {
        self.tries.remove(step);
        self.interrupted.remove(step);
        self.pauses.end(step, at);
        self.interruptions = 0;
    }
}
