//! Rebuilds the state of an execution from its stored events.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::automation::{Automation, Verb, WaitStep};
use model::execution::{Event, ExecutionId, WaitReason};

use super::commit::CommitState;
use super::pauses::{Due, Replayed, StepWait, Times};
use super::retries::{Inside, Tries};
use super::{Journal, JournalContext, SnapshotState, State, StepStart, retries_lists, snapshot};
use crate::clock::MonotonicTime;

/// Smallest backward change of the wall clock that is taken into account.
const MIN_CLOCK_STEP: Duration = Duration::from_secs(1);

/// State of an execution before it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplaySource {
    /// In memory of a process that has ended, so a step may have been interrupted.
    AnotherProcess,
    /// In the backlog of this process.
    ThisProcess,
    /// Suspended: no step was running.
    Suspended,
}

/// The part of an execution's log from which its journal is restored.
pub(crate) struct StoredLog<'log> {
    /// The events after the snapshot, or all.
    pub(crate) events: &'log [Event],
    /// The state before these events; `None` if they are all.
    pub(crate) snapshot: Option<SnapshotState>,
    /// The number of all stored events.
    pub(crate) count: u32,
}

impl Journal {
    /// Rebuilds the journal from stored events, which follow the snapshot if there is one. `source` is the earlier state;
    /// `ahead` is the wall-clock offset when the last event was recorded.
    pub(crate) fn restore(
        id: ExecutionId,
        automation: &Automation,
        log: StoredLog<'_>,
        (source, ahead): (ReplaySource, SignedDuration),
        around: JournalContext,
    ) -> Box<Self> {
        let (now, clock) = (around.clock.monotonic_now(), around.clock.clone());
        let StoredLog { events, snapshot, count } = log;
        let snapshot_at = snapshot.as_ref().map(SnapshotState::at);
        let ahead = ahead.saturating_add(clock_set_back_by(events, snapshot_at, ahead, now));
        let mut scale = ClockScale::new(events, ahead);
        let first = events.first().map_or(Timestamp::MAX, Event::at);
        let started_at = snapshot.as_ref().map_or(first, SnapshotState::accepted_at);
        let mut journal = Self::new(id, automation, (started_at, ahead), around);
        journal.accepted_at = scale.steady(started_at);
        journal.keeps_outcomes = true;
        journal.resumed = match source {
            // An execution with only *started* may have been in its first step: the start of a step is not committed on
            // its own.
            ReplaySource::AnotherProcess => true,
            ReplaySource::ThisProcess => snapshot_at.is_some() || !is_unstarted(events),
            ReplaySource::Suspended => false,
        };
        *journal.transit.get_mut() = CommitState::after(count);
        let may_snapshot = !retries_lists(automation) && !journal.keeps_order;
        *journal.snapshot_due.get_mut() = may_snapshot && snapshot::is_due(events);
        let state = journal.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut replay =
            Replay { automation, ordered: journal.keeps_order, inside: None, pauses: Replayed::default() };
        if let Some(snapshot) = snapshot {
            snapshot.restore(state, |at| scale.steady(at));
        }
        if journal.keeps_order {
            state.kept = kept_steps(events);
        }
        for event in events {
            scale.passes(event);
            replay.event(state, event, &scale);
        }
        replay.pauses.into(&mut state.pauses);
        // Recorded at once, so that the next replay finds the clock change in the log.
        state.notice_steps(&*clock);
        journal
    }
}

/// The events with which the execution was accepted: *started*, and the events that a replay keeps of another execution.
fn accepted_events(events: &[Event]) -> usize {
    match events.first() {
        Some(Event::Started { origin, .. }) => (1 + origin.kept_events() as usize).min(events.len()),
        _ => 0,
    }
}

/// True if the log has nothing but the acceptance, and possibly an initial error.
fn is_unstarted(events: &[Event]) -> bool {
    matches!(events[accepted_events(events)..], [] | [Event::Failing { .. }]) && !events.is_empty()
}

/// The steps whose outcomes a replay keeps of another execution.
fn kept_steps(events: &[Event]) -> HashSet<String> {
    let kept = events[..accepted_events(events)].iter().filter_map(|event| match event {
        Event::StepFinished { step, .. } => Some(step.clone()),
        _ => None,
    });
    kept.collect()
}

/// Converts the times in a log to the monotonic clock of this process.
struct ClockScale {
    /// Wall-clock offset when the current event was recorded.
    ahead: SignedDuration,
}

impl ClockScale {
    /// Creates the scale of a log whose last event was recorded with the offset `ahead`.
    fn new(events: &[Event], ahead: SignedDuration) -> Self {
        let set =
            events.iter().map(recorded_change).fold(SignedDuration::ZERO, SignedDuration::saturating_add);
        Self { ahead: ahead.saturating_sub(set) }
    }

    fn passes(&mut self, event: &Event) {
        self.ahead = self.ahead.saturating_add(recorded_change(event));
    }

    fn steady(&self, at: Timestamp) -> MonotonicTime {
        MonotonicTime::from_wall(at, self.ahead)
    }
}

/// Minimum by which the wall clock was set back while no process ran: otherwise past events would lie in the future.
fn clock_set_back_by(
    events: &[Event],
    snapshot_at: Option<Timestamp>,
    ahead: SignedDuration,
    now: MonotonicTime,
) -> SignedDuration {
    let mut scale = ClockScale::new(events, ahead);
    let snapshot_at = snapshot_at.map(|at| scale.steady(at));
    let instants = events.iter().map(|event| {
        scale.passes(event);
        // The date of a loop iteration is the end of a delay, which may lie in the future.
        let lies_ahead = matches!(event, Event::StepContextRecorded { step, .. } if step.contains('#'));
        // A note may be recorded some time after its instant, when the wall clock has been set again.
        if lies_ahead || event.is_informational() { now } else { scale.steady(event.at()) }
    });
    let behind =
        snapshot_at.into_iter().chain(instants).max().map_or(Duration::ZERO, |newest| newest.since(now));
    if behind < MIN_CLOCK_STEP {
        // Clocks of two processes differ slightly.
        return SignedDuration::ZERO;
    }
    SignedDuration::try_from(behind).unwrap_or(SignedDuration::ZERO)
}

/// Clock change recorded by an event.
fn recorded_change(event: &Event) -> SignedDuration {
    match event {
        Event::ClockChanged { by_ms, .. } => SignedDuration::from_millis(*by_ms),
        _ => SignedDuration::ZERO,
    }
}

/// Returns true if a waiting step uses the wall clock: `wait: {until: …}`.
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
    fn event(&mut self, state: &mut State, event: &Event, scale: &ClockScale) {
        match event {
            Event::Started { .. }
            | Event::StepCalled { .. }
            | Event::ClockChanged { .. }
            | Event::Waited { .. }
            | Event::Answered { .. } => {}
            Event::Resumed { waited, .. } => state.interruptions += u32::from(!waited),
            Event::StepStarted { step, .. } => {
                state.interrupted.insert(step.clone());
            }
            Event::StepContextRecorded { at, step, state: read } => {
                let start = StepStart { at: *at, steady: scale.steady(*at), read: read.clone() };
                state.step_starts.insert(step.clone(), start);
            }
            Event::StepRetry { at, step, attempt, next_at, error } => {
                let at = scale.steady(*at);
                state.replay_failure(step, *attempt, error);
                state.interrupted.remove(step);
                state.pauses.end(step, at);
                self.abandon(state, step, at);
                let tries = Tries { failed: *attempt, next_at: Some(scale.steady(*next_at)) };
                state.tries.insert(step.clone(), tries);
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
                let waiting = StepWait { since: *at, until: *until, on: on.clone() };
                self.pauses.begins(step);
                let due = until.map(|until| match on {
                    WaitReason::Time if waits_for_the_clock(self.automation, step) => Due::At(until),
                    _ => Due::After(scale.steady(until)),
                });
                let limit = limit.map(|limit| scale.steady(limit));
                let times = Times { since: scale.steady(*at), due, limit, stays_in_memory: false };
                state.wait_begins(step, waiting, times);
            }
            Event::Signalled { step, signal, .. } => self.pauses.add_signal(step, signal),
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

    /// Ends the waits inside a finished step.
    fn abandon(&mut self, state: &mut State, step: &str, at: MonotonicTime) {
        if state.pauses.is_empty() {
            return;
        }
        let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
        state.pauses.end_all(inside.contains_step(step), at);
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
