//! Rebuilds the state of an execution from its stored events.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::action::ErrorKind;
use model::automation::{Automation, Verb, WaitStep};
use model::execution::{CallRecord, Event, ExecutionId, StepOutcome, WaitReason};

use super::closing::Traits;
use super::commit::CommitState;
use super::pauses::{Due, Replayed, StepWait, Times};
use super::retries::{Inside, split_turns};
use super::{Journal, JournalContext, SnapshotState, State, StepStart, snapshot};
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
        let may_snapshot = !journal.traits.retries_lists && !journal.traits.has_undo;
        *journal.snapshot_due.get_mut() = may_snapshot && snapshot::is_due(events);
        let state = journal.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut replay = Replay {
            automation,
            traits: &journal.traits,
            inside: None,
            pauses: Replayed::default(),
            children: Children::default(),
        };
        if let Some(snapshot) = snapshot {
            snapshot.restore(state, |at| scale.steady(at));
        }
        if journal.traits.has_undo {
            state.kept = kept_steps(events);
        }
        for event in events {
            scale.passes(event);
            replay.event(state, event, &scale);
        }
        replay.pauses.into(&mut state.pauses);
        state.cut_children = replay.children.into_cut();
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
        found |= known.id.as_ref() == id
            && match &known.verb {
                Verb::Wait(WaitStep::Until(_)) => true,
                Verb::WaitFor(wait) => wait.until.is_some(),
                _ => false,
            };
    });
    found
}

struct Replay<'a> {
    automation: &'a Automation,
    traits: &'a Traits,
    inside: Option<Inside>,
    pauses: Replayed,
    children: Children,
}

impl Replay<'_> {
    fn event(&mut self, state: &mut State, event: &Event, scale: &ClockScale) {
        match event {
            Event::Started { .. }
            | Event::StepCalled { call: CallRecord::Request { .. }, .. }
            | Event::ClockChanged { .. }
            | Event::Waited { .. }
            | Event::Answered { .. } => {}
            Event::Resumed { waited, .. } => state.interruptions += u32::from(!waited),
            Event::StepStarted { step, .. } => {
                state.interrupted.insert(step.clone());
            }
            Event::StepCalled { step, call: CallRecord::Execution { id }, .. } => {
                self.children.called(self.automation, step, *id);
            }
            Event::StepContextRecorded { step, .. } if step.ends_with(Event::BEGUN) => {
                state.begin(step.trim_end_matches(Event::BEGUN), self.traits);
            }
            Event::StepContextRecorded { at, step, state: data } if step.ends_with(Event::CHECKPOINT) => {
                state.reach(step.trim_end_matches(Event::CHECKPOINT), data.clone(), scale.steady(*at));
            }
            Event::StepContextRecorded { at, step, state: read } => {
                let start = StepStart { at: *at, steady: scale.steady(*at), read: read.clone() };
                state.step_starts.insert(step.clone(), start);
            }
            Event::StepRetry { .. }
            | Event::StepClosing { .. }
            | Event::StepFailed { .. }
            | Event::StepFinished { .. } => self.end_event(state, event, scale),
            Event::Waiting { at, step, until, limit, on } => {
                let waiting = StepWait { since: *at, until: *until, on: on.clone() };
                self.pauses.begins(step);
                let due = until.map(|until| match on {
                    WaitReason::Time | WaitReason::Event { .. } | WaitReason::Approval { .. }
                        if waits_for_the_clock(self.automation, step) =>
                    {
                        Due::At(until)
                    }
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
                self.end_main(state, scale.steady(*at));
            }
            Event::Cancelling { at, reason } => {
                state.cancelling = Some(reason.clone());
                self.end_main(state, scale.steady(*at));
            }
            Event::Retried { attempt, next_at, .. } => {
                state.retry(*attempt, scale.steady(*next_at));
                state.interruptions = 0;
                self.children.cut(|_| true);
            }
            Event::Finished { outcome, .. } => state.outcome = Some(outcome.clone()),
        }
    }

    /// Applies the end of a step, or of one of its attempts.
    fn end_event(&mut self, state: &mut State, event: &Event, scale: &ClockScale) {
        match event {
            Event::StepRetry { at, step, attempt, next_at, error, policy } => {
                let at = scale.steady(*at);
                state.replay_failure(step, *attempt, error);
                state.interrupted.remove(step);
                state.pauses.end(step, at);
                self.abandon(state, step, at);
                let tries = state.tries.entry(step.clone()).or_default();
                tries.add(*attempt, *policy, scale.steady(*next_at));
                state.interruptions = 0;
                let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
                state.forget_failures_inside(step, inside);
                self.children_end(step, error.kind == ErrorKind::Timeout);
            }
            Event::StepClosing { at, step, outcome } => {
                if !state.closes(step, outcome) {
                    return;
                }
                let at = scale.steady(*at);
                state.interrupted.remove(step);
                state.pauses.end(step, at);
                state.interruptions = 0;
                self.abandon(state, step, at);
                self.children_end(step, was_cut(outcome));
            }
            Event::StepFailed { at, step, error } => {
                let at = scale.steady(*at);
                state.replay_last_failure(step, error);
                state.ended(step, at);
                state.failing.insert(step.clone(), error.clone());
                self.abandon(state, step, at);
                self.children_end(step, error.kind == ErrorKind::Timeout);
            }
            Event::StepFinished { at, step, outcome, .. } => {
                let at = scale.steady(*at);
                state.replay_end(step, outcome);
                state.ended(step, at);
                state.failing.remove(step);
                state.note_finish_order(step, self.traits.has_undo);
                state.close_ended(step);
                self.children_end(step, was_cut(outcome));
                state.finished.insert(step.clone(), outcome.clone());
                self.abandon(state, step, at);
            }
            _ => {}
        }
    }

    /// Ends the waits of all steps but those in a `finally`: nothing but closing steps runs from now on.
    fn end_main(&mut self, state: &mut State, at: MonotonicTime) {
        state.pauses.end_all(|step| !self.traits.is_in_finally(step), at);
        self.children.cut(|step| !self.traits.is_in_finally(step));
    }

    /// Ends the calls of a step, or of one of its attempts, that has ended. `is_cut` is true if a call has not waited for its child.
    fn children_end(&mut self, step: &str, is_cut: bool) {
        if self.children.open.is_empty() {
            return;
        }
        if !is_cut {
            self.children.open.remove(step);
        }
        let inside = self.inside.get_or_insert_with(|| Inside::of_all(self.automation));
        let is_inside = inside.contains_step(step);
        self.children.cut(|key| key == step || is_inside(key));
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

/// The child executions that calls wait for. One whose call was cut off is cancelled, and a crash may have lost that.
#[derive(Default)]
struct Children {
    open: HashMap<String, ExecutionId>,
    cut: Vec<ExecutionId>,
}

impl Children {
    /// The maximum number of cut children whose cancellation is repeated.
    const MAX: usize = 100;

    /// A `call` has started an execution that it waits for.
    fn called(&mut self, automation: &Automation, step: &str, id: ExecutionId) {
        let mut waits = false;
        automation.walk(&mut |known| {
            waits |= *known.id == *split_turns(step).0
                && matches!(&known.verb, Verb::Call(call) if !call.detached);
        });
        if waits {
            self.open.insert(step.to_owned(), id);
        }
    }

    fn cut(&mut self, is_cut: impl Fn(&str) -> bool) {
        self.cut.extend(self.open.extract_if(|step, _| is_cut(step)).map(|(_, id)| id));
    }

    fn into_cut(mut self) -> Vec<ExecutionId> {
        self.cut.split_off(self.cut.len().saturating_sub(Self::MAX))
    }
}

/// True if a timeout or the end of a step around it cut a step off.
fn was_cut(outcome: &StepOutcome) -> bool {
    match outcome {
        StepOutcome::Failed { error, .. } => error.kind == ErrorKind::Timeout,
        StepOutcome::Jumped { by, .. } => by.cuts(),
        StepOutcome::Succeeded { .. } | StepOutcome::Skipped => false,
    }
}

impl State {
    fn ended(&mut self, step: &str, at: MonotonicTime) {
        self.tries.remove(step);
        self.interrupted.remove(step);
        self.forget_checkpoint(step);
        self.pauses.end(step, at);
        self.interruptions = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::execution::Origin;
    use model::{ActionError, Payload};
    use store::Memory;
    use text::diagnostic::Source;
    use tokio::sync::broadcast;
    use tokio_util::sync::CancellationToken;
    use value::{Map, Value};

    use super::*;
    use crate::clock::{Clock, ManualClock};

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn called(step: &str, id: ExecutionId) -> Event {
        Event::StepCalled { at: AT, step: step.to_owned(), call: CallRecord::Execution { id } }
    }

    fn finished(step: &str, outcome: StepOutcome) -> Event {
        Event::StepFinished { at: AT, step: step.to_owned(), took_us: 0, outcome }
    }

    fn succeeded(step: &str) -> Event {
        finished(step, StepOutcome::Succeeded { result: Value::Null })
    }

    /// The journal of an execution that was accepted, and then had these events.
    fn restored(steps: &str, mut events: Vec<Event>) -> Box<Journal> {
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}");
        let source = Source::new("automations/x.yaml", &*text);
        let automation = language::load::automation(Arc::new(source), "x").value.expect("it loads");
        let clock = ManualClock::new(AT);
        let started = Event::Started {
            at: AT,
            automation: automation.id.clone(),
            definition: automation.definition,
            origin: Origin::Manual,
            payload: Payload::manual(Map::new()).into(),
            trigger: model::automation::TriggerId::MAIN,
            inputs: None,
        };
        events.insert(0, started);
        let around = JournalContext {
            store: Memory::default().open(),
            closing: CancellationToken::new(),
            clock: Arc::new(clock.clone()),
            notices: broadcast::channel(1).0,
            redactor: value::redact::Redactor::default(),
            outbox: Arc::default(),
        };
        let count = u32::try_from(events.len()).expect("a few");
        let log = StoredLog { events: &events, snapshot: None, count };
        let source = (ReplaySource::AnotherProcess, clock.wall_offset());
        Journal::restore(ExecutionId::new(AT, [0; 10]), &automation, log, source, around)
    }

    #[test]
    fn the_children_of_calls_that_were_cut_off_are_cancelled_again_and_no_others() {
        let steps = "  - id: all\n    enough: 1\n    parallel:\n      a: [{id: slow, call: other}]\n      b: [{id: fast, call: other}]\n  - {id: free, call: other, async: true}\n  - {id: late, call: other, timeout: 1m, onError: continue}\n  - {id: held, call: other}\n";
        let [slow, fast, free, late, held] = [1, 2, 3, 4, 5].map(|byte| ExecutionId::new(AT, [byte; 10]));
        let timeout = ActionError::new(ErrorKind::Timeout, "too late");
        let mut events = vec![
            called("slow", slow),
            called("fast", fast),
            succeeded("fast"),
            succeeded("all"),
            called("free", free),
            succeeded("free"),
            called("late", late),
            finished("late", StepOutcome::Failed { error: timeout, handled: Some(Value::Null) }),
            called("held", held),
        ];
        assert_eq!(restored(steps, events.clone()).take_cut_children(), [slow, late]);
        events.push(Event::Cancelling { at: AT, reason: "enough".to_owned() });
        assert_eq!(restored(steps, events.clone()).take_cut_children(), [slow, late, held]);
        events.truncate(3);
        assert!(restored(steps, events).take_cut_children().is_empty(), "`all` goes on");
    }

    #[test]
    fn a_step_is_open_from_its_begin_to_the_end_of_its_finally() {
        let steps = "  - id: g\n    steps: [{id: a, set: {x: 1}}]\n    finally: [{id: f, set: {x: 2}}]\n";
        let begun = Event::StepContextRecorded { at: AT, step: "g#begun".to_owned(), state: Value::Null };
        let outcome = StepOutcome::Succeeded { result: Value::Null };
        let closing = Event::StepClosing { at: AT, step: "g".to_owned(), outcome: outcome.clone() };
        let journal = restored(steps, vec![begun.clone()]);
        assert!(journal.is_open("g") && journal.closing_outcome("g").is_none());
        let journal = restored(steps, vec![begun.clone(), closing.clone()]);
        assert_eq!((journal.is_open("g"), journal.closing_outcome("g")), (true, Some(outcome)));
        let journal = restored(steps, vec![begun, closing, succeeded("g")]);
        assert!(!journal.is_open("g") && journal.has_begun("g"));
    }
}
