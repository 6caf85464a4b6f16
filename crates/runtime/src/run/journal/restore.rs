//! From the stored events of an execution back to where it stands.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::automation::{Automation, Verb, WaitStep};
use model::execution::{Event, ExecutionId, WaitReason, Waiting};

use super::pauses::{Due, Replayed, Times};
use super::retries::{Inside, Tries};
use super::transit::CommitState;
use super::{Journal, JournalContext, State, StepStart};
use crate::clock::MonotonicTime;

/// What the clock must have been set back by to count.
const A_STEP: Duration = Duration::from_secs(1);

/// Where an execution was before it is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaySource {
    /// In a process that ended while it had the execution, so that a step may have been interrupted.
    AnotherProcess,
    /// In the backlog of this one.
    ThisProcess,
    /// At rest: nothing was under way.
    Suspended,
}

impl Journal {
    /// The log of an execution from its stored events. `source` says where it was before, and `ahead` how far the clock
    /// was ahead when the last of them was recorded.
    pub(crate) fn restore(
        id: ExecutionId,
        automation: &Automation,
        events: &[Event],
        (source, ahead): (ReplaySource, SignedDuration),
        around: JournalContext,
    ) -> Self {
        let (now, clock) = (around.clock.monotonic_now(), around.clock.clone());
        let ahead = ahead.saturating_add(set_back(events, ahead, now));
        let mut scale = Scale::of(events, ahead);
        let started_at = events.first().map_or(Timestamp::MAX, Event::at);
        let mut journal = Self::new(id, automation, (started_at, ahead), around);
        journal.accepted_at = scale.steady(started_at);
        journal.keeps_outcomes = true;
        journal.resumed = match source {
            // With nothing but *started* it may have been in its first step all the same: the begin of a step is not
            // committed for its own sake.
            ReplaySource::AnotherProcess => true,
            ReplaySource::ThisProcess => !matches!(events, [_] | [_, Event::Failing { .. }]),
            ReplaySource::Suspended => false,
        };
        *journal.transit.get_mut() = CommitState::after(u32::try_from(events.len()).unwrap_or(u32::MAX));
        let state = journal.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut replay =
            Replay { automation, ordered: journal.keeps_order, inside: None, pauses: Replayed::default() };
        for event in events {
            scale.passes(event);
            replay.event(state, event, &scale);
        }
        replay.pauses.into(&mut state.pauses);
        // At once, so that it is told from the log the next time, whenever that is.
        state.notice_steps(&*clock);
        journal
    }
}

/// What the instants of a log are on the steady scale of this process.
struct Scale {
    /// How far the clock was ahead of that scale when the event was recorded that is looked at.
    ahead: SignedDuration,
}

impl Scale {
    /// Of a log whose last event was recorded while the clock was so far `ahead`.
    fn of(events: &[Event], ahead: SignedDuration) -> Self {
        let set = events.iter().map(set_by).fold(SignedDuration::ZERO, SignedDuration::saturating_add);
        Self { ahead: ahead.saturating_sub(set) }
    }

    fn passes(&mut self, event: &Event) {
        self.ahead = self.ahead.saturating_add(set_by(event));
    }

    fn steady(&self, at: Timestamp) -> MonotonicTime {
        MonotonicTime::from_wall(at, self.ahead)
    }
}

/// By how much the clock was set back, at least, while no process saw it: what has happened lies ahead otherwise.
fn set_back(events: &[Event], ahead: SignedDuration, now: MonotonicTime) -> SignedDuration {
    let mut scale = Scale::of(events, ahead);
    let instants = events.iter().map(|event| {
        scale.passes(event);
        // What a loop keeps for one of its turns is the end of a pause, which may well lie ahead.
        let lies_ahead = matches!(event, Event::StepDated { step, .. } if step.contains('#'));
        // A note may be recorded some time after its instant, when the wall clock has been set again.
        if lies_ahead || event.is_note() { now } else { scale.steady(event.at()) }
    });
    let behind = instants.max().map_or(Duration::ZERO, |newest| newest.since(now));
    if behind < A_STEP {
        // The clocks of two processes are never quite the same.
        return SignedDuration::ZERO;
    }
    SignedDuration::try_from(behind).unwrap_or(SignedDuration::ZERO)
}

/// By how much an event says that the clock was set.
fn set_by(event: &Event) -> SignedDuration {
    match event {
        Event::ClockSet { by_ms, .. } => SignedDuration::from_millis(*by_ms),
        _ => SignedDuration::ZERO,
    }
}

/// Whether a step that pauses goes by the wall clock: `wait: {until: …}`.
fn waits_for_the_clock(automation: &Automation, step: &str) -> bool {
    let id = step.split(['[', '#']).next().unwrap_or_default();
    let mut found = false;
    automation.walk(&mut |known| {
        found |= known.id.as_ref() == id && matches!(known.verb, Verb::Wait(WaitStep::Until(_)));
    });
    found
}

struct Replay<'a> {
    automation: &'a Automation,
    ordered: bool,
    inside: Option<Inside>,
    pauses: Replayed,
}

impl Replay<'_> {
    fn event(&mut self, state: &mut State, event: &Event, scale: &Scale) {
        match event {
            Event::Started { .. }
            | Event::StepCalled { .. }
            | Event::ClockSet { .. }
            | Event::Waited { .. }
            | Event::Answered { .. } => {}
            Event::Resumed { waited, .. } => state.interruptions += u32::from(!waited),
            Event::StepStarted { step, .. } => {
                state.interrupted.insert(step.clone());
            }
            Event::StepDated { at, step, state: read } => {
                let start = StepStart { at: *at, steady: scale.steady(*at), read: read.clone() };
                state.step_starts.insert(step.clone(), start);
            }
            Event::StepRetry { at, step, attempt, next_at, error } => {
                let at = scale.steady(*at);
                state.replay_failure(step, *attempt, error);
                state.interrupted.remove(step);
                state.pauses.end(step, at);
                self.abandon(state, step, at);
                state
                    .tries
                    .insert(step.clone(), Tries { failed: *attempt, next_at: Some(scale.steady(*next_at)) });
                state.interruptions = 0;
                let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
                state.forget_failures_inside(step, inside);
            }
            Event::StepFailed { at, step, error } => {
                let at = scale.steady(*at);
                state.replay_last_failure(step, error);
                state.ended(step, at);
                state.failing.insert(step.clone(), error.clone());
                self.abandon(state, step, at);
            }
            Event::StepFinished { at, step, outcome, .. } => {
                let at = scale.steady(*at);
                state.replay_end(step, outcome);
                state.ended(step, at);
                state.failing.remove(step);
                state.note_finish_order(step, self.ordered);
                state.finished.insert(step.clone(), outcome.clone());
                self.abandon(state, step, at);
            }
            Event::Waiting { at, step, until, limit, on } => {
                let waiting = Waiting { since: *at, until: *until, on: on.clone() };
                self.pauses.begins(step);
                let due = until.map(|until| match on {
                    WaitReason::Time if waits_for_the_clock(self.automation, step) => Due::At(until),
                    _ => Due::After(scale.steady(until)),
                });
                let limit = limit.map(|limit| scale.steady(limit));
                state.pauses.begin(step, waiting, Times { since: scale.steady(*at), due, limit });
            }
            Event::Signalled { step, signal, .. } => self.pauses.came(step, signal),
            Event::WaitEnded { step, signal, .. } => state.wait_ended(step, signal.as_deref()),
            Event::Responded { response, .. } => state.response = Some(response.clone()),
            Event::Failing { at, error } => {
                state.closing = Some(error.clone());
                state.pauses.end_all(|_| true, scale.steady(*at));
            }
            Event::Cancelling { at, reason } => {
                state.cancelling = Some(reason.clone());
                state.pauses.end_all(|_| true, scale.steady(*at));
            }
            Event::Retried { attempt, next_at, .. } => {
                state.retry(*attempt, scale.steady(*next_at));
                state.interruptions = 0;
            }
            Event::Finished { outcome, .. } => state.outcome = Some(outcome.clone()),
        }
    }

    /// What paused inside a step that has ended will not go on.
    fn abandon(&mut self, state: &mut State, step: &str, at: MonotonicTime) {
        if state.pauses.is_empty() {
            return;
        }
        let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
        state.pauses.end_all(inside.of(step), at);
    }
}

impl State {
    fn ended(&mut self, step: &str, at: MonotonicTime) {
        self.tries.remove(step);
        self.interrupted.remove(step);
        self.pauses.end(step, at);
        self.interruptions = 0;
    }
}
