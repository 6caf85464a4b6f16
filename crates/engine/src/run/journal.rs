//! The log of one live execution: what has ended, what is not yet committed, and how it becomes so.

mod acceptance;
mod background;
mod hiding;
mod pauses;
mod restore;
mod retries;
mod transit;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use model::action::{ActionError, Effect};
use model::automation::Automation;
use model::execution::{CallRecord, Event, ExecutionId, LogLevel, LogLine, Outcome, Status, StepOutcome};
use model::payload::HttpResponse;
use model::redact::{Limit, Redactor};
use model::value::Value;
use store::{StateWrite, Store};
use tokio::sync::{OwnedMutexGuard, broadcast};
use tokio_util::sync::CancellationToken;

pub(crate) use acceptance::PendingAcceptance;
use pauses::Pauses;
pub(crate) use pauses::{Due, Rest, Taken, Times, Wake};
pub(crate) use restore::CameFrom;
use retries::Lost;
pub(crate) use retries::{Inside, Tries};
use transit::Transit;

use crate::clock::{Clock, Steady};
use crate::told::Notice;

/// Events or log lines that may wait for a commit before one is made for their sake.
const HEAVY: usize = 256;

/// The log of one live execution.
pub(crate) struct Journal {
    id: ExecutionId,
    automation: model::AutomationId,
    store: Arc<dyn Store>,
    /// Cancelled once the engine stops.
    closing: CancellationToken,
    clock: Arc<dyn Clock>,
    notices: broadcast::Sender<Notice>,
    resumed: bool,
    /// When it was accepted.
    began: Steady,
    /// Whether the order in which steps ended matters: where one has an `undo`.
    ordered: bool,
    /// Whether what has ended may be asked for again: after a restart, or where a list or the whole execution is
    /// tried again. Otherwise results are not kept beside the scope, which matters in long loops.
    remembers: bool,
    redactor: Redactor,
    /// Whether the execution has read a secret, so that there is something to hide.
    reads_secrets: AtomicBool,
    /// Whether nothing of it is in the store yet.
    unaccepted: AtomicBool,
    /// Whether the end of a step, or of a try, was committed since it was read back after a crash.
    passed: AtomicBool,
    state: Mutex<State>,
    /// One append at a time, in order. Holds the append that is under way, so that a branch that is dropped while
    /// it waits does not leave its outcome unknown: the next one waits for it first.
    transit: tokio::sync::Mutex<Transit>,
}

#[derive(Default)]
struct State {
    finished: HashMap<String, StepOutcome>,
    tries: HashMap<String, Tries>,
    /// Steps that failed for good and whose `onError` list has not ended.
    failing: HashMap<String, ActionError>,
    /// Steps of which a try had begun, and not ended, when the process stopped.
    interrupted: HashSet<String>,
    /// Attempts that may have had their effect although they failed, by step. An entry is removed when its step succeeds or its
    /// failure is handled, so there are no more than steps that are yet to be tried again.
    lost: HashMap<String, Lost>,
    /// When steps began whose begin is part of what they do, and what they read of the state.
    dated: HashMap<String, Dated>,
    /// In which place steps ended, where that matters.
    order: HashMap<String, u64>,
    pauses: Pauses,
    /// The ids of the signals with which waits ended, by the id of their step.
    let_through: HashMap<String, HashSet<String>>,
    /// The steps whose wait ended because its time was up.
    timed_out: HashSet<String>,
    pending: Vec<Event>,
    /// How many of the pending events are notes, which are committed with other events and never by themselves.
    notes: usize,
    /// What the next commit writes into the state of Automations, and the locks that it holds until then.
    writes: Vec<StateWrite>,
    locks: Vec<OwnedMutexGuard<()>>,
    logs: Vec<Line>,
    /// How many results of outside effects were recorded, how many of them when the last one came that changed
    /// something, and how many are committed.
    effects: u64,
    changes: u64,
    committed: u64,
    /// The most that calls did to the world which have ended since the last commit began.
    ended_calls: Effect,
    response: Option<HttpResponse>,
    /// Why it failed for good, once its closing steps begin.
    closing: Option<ActionError>,
    /// Why somebody ended it, once that is recorded.
    cancelling: Option<String>,
    outcome: Option<Outcome>,
    attempt: u32,
    retry_at: Option<Steady>,
    interruptions: u32,
    /// How far the clock was ahead of the steady scale when the last event was recorded.
    ahead: SignedDuration,
}

/// When a step began, and what it read of the state.
struct Dated {
    at: Timestamp,
    steady: Steady,
    read: Value,
}

/// A line for people that is not committed yet.
struct Line {
    line: LogLine,
    /// Whether it is there to show credentials, so that none is hidden in it.
    shows_credentials: bool,
}

/// What a journal needs from around it.
pub(crate) struct Surroundings {
    pub(crate) store: Arc<dyn Store>,
    /// Cancelled once the engine stops.
    pub(crate) closing: CancellationToken,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) notices: broadcast::Sender<Notice>,
    pub(crate) redactor: Redactor,
}

impl Journal {
    /// The log of an execution that was just accepted: its *started* event is committed, nothing else happened.
    /// It was accepted at `at`, while the clock was so far `ahead`.
    pub(crate) fn new(
        id: ExecutionId,
        automation: &Automation,
        (at, ahead): (Timestamp, SignedDuration),
        around: Surroundings,
    ) -> Self {
        Self {
            id,
            began: Steady::of(at, ahead),
            remembers: tries_lists_again(automation),
            automation: automation.id.clone(),
            store: around.store,
            closing: around.closing,
            clock: around.clock,
            notices: around.notices,
            resumed: false,
            ordered: has_undo(automation),
            redactor: around.redactor,
            reads_secrets: AtomicBool::new(false),
            unaccepted: AtomicBool::new(false),
            passed: AtomicBool::new(false),
            state: Mutex::new(State { attempt: 1, ahead, ..State::default() }),
            transit: tokio::sync::Mutex::new(Transit::after(1)),
        }
    }

    /// The same of one that is to be accepted: that happens with its first commit, together with what it has done by
    /// then, which is before it does anything that can be noticed outside.
    pub(crate) fn to_accept(
        id: ExecutionId,
        automation: &Automation,
        accepted_at: (Timestamp, SignedDuration),
        around: Surroundings,
        acceptance: PendingAcceptance,
    ) -> Self {
        let mut journal = Self::new(id, automation, accepted_at, around);
        *journal.transit.get_mut() = Transit::before(acceptance);
        *journal.unaccepted.get_mut() = true;
        journal
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.id
    }

    /// It was refused: what it did does not count.
    fn was_refused(&self) {
        self.state().outcome = None;
    }

    pub(crate) fn resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the step that a crash interrupted is behind it.
    pub(crate) fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    /// When it was accepted.
    pub(crate) fn began(&self) -> Steady {
        self.began
    }

    /// How far the clock was ahead of the steady scale when the last event was recorded.
    pub(crate) fn ahead(&self) -> SignedDuration {
        self.state().ahead
    }

    pub(crate) fn interruptions(&self) -> u32 {
        self.state().interruptions
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.state().attempt
    }

    /// When the whole execution is tried again, or began to be.
    pub(crate) fn retry_at(&self) -> Option<Steady> {
        self.state().retry_at
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state().outcome.clone()
    }

    pub(crate) fn response(&self) -> Option<HttpResponse> {
        self.state().response.clone()
    }

    /// How the step ended, if it did.
    pub(crate) fn finished(&self, step: &str) -> Option<StepOutcome> {
        if !self.remembers {
            return None;
        }
        self.state().finished.get(step).cloned()
    }

    /// Records an event; it is committed with the next commit.
    pub(crate) fn push(&self, event: Event) {
        self.state().record(&*self.clock, event);
    }

    /// Records an event that explains the history and that nothing depends on. It makes no commit of its own, and is lost
    /// with the process if no other event follows.
    pub(crate) fn note(&self, event: Event) {
        let mut state = self.state();
        if state.outcome.is_none() {
            state.pending.push(event);
            state.notes += 1;
        }
    }

    /// Takes the notes that are not committed out of the log of an execution that leaves memory.
    pub(crate) fn take_notes(&self) -> Vec<Event> {
        let mut state = self.state();
        if std::mem::take(&mut state.notes) == 0 {
            return Vec::new();
        }
        state.pending.extract_if(.., |event| event.is_note()).collect()
    }

    /// Records the begin of a try with an outside effect, and tells whoever watches at once.
    pub(crate) fn step_started(&self, step: &str, attempt: u32) {
        let event = Event::StepStarted { at: self.clock.now(), step: step.to_owned(), attempt };
        if self.is_watched() {
            self.tell(Status::Running, vec![event.clone()], Vec::new());
        }
        self.push(event);
    }

    /// Records a call that the step made. It is committed with what follows.
    pub(crate) fn step_called(&self, step: &str, call: CallRecord) {
        self.push(Event::StepCalled { at: self.clock.now(), step: step.to_owned(), call });
    }

    /// Whether a try of the step was under way when the process before this one stopped.
    pub(crate) fn was_interrupted(&self, step: &str) -> bool {
        self.resumed && self.state().interrupted.contains(step)
    }

    /// When the step began, where that was recorded.
    pub(crate) fn dated(&self, step: &str) -> Option<(Timestamp, Steady)> {
        self.state().dated.get(step).map(|dated| (dated.at, dated.steady))
    }

    /// What the step read of the state, where that was recorded.
    pub(crate) fn state_read(&self, step: &str) -> Option<Value> {
        self.state().dated.get(step).map(|dated| dated.read.clone()).filter(|state| !state.is_null())
    }

    /// Records that a step began at `at` and what it read of the state, before anything that depends on it happens
    /// outside.
    pub(crate) fn date(&self, step: &str, at: Timestamp, read: Option<&Value>) {
        let mut state = self.state();
        let known = state.dated.get(step).is_some_and(|known| read.is_none() || !known.read.is_null());
        if known {
            return;
        }
        let read = read.cloned().unwrap_or_default();
        let steady = Steady::of(at, self.clock.ahead());
        state.dated.insert(step.to_owned(), Dated { at, steady, read: read.clone() });
        state.note(Effect::Write);
        state.record(&*self.clock, Event::StepDated { at, step: step.to_owned(), state: read });
    }

    /// Whether the places are kept in which steps end, since one may have to be undone.
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// In which place among all steps the step ended, where that is kept.
    pub(crate) fn place(&self, step: &str) -> u64 {
        self.state().order.get(step).copied().unwrap_or(u64::MAX)
    }

    /// Why the step failed for good, if its `onError` list has begun and not ended.
    pub(crate) fn failing(&self, step: &str) -> Option<ActionError> {
        if !self.remembers {
            return None;
        }
        self.state().failing.get(step).cloned()
    }

    /// Records that a step failed for good, before its `onError` list begins: what that list does depends on it.
    pub(crate) fn step_failed(&self, step: &str, error: &ActionError, effect: Effect) {
        let mut state = self.state();
        state.note(effect);
        state.leave(step);
        let now = self.clock.now();
        self.end_pause(&mut state, step);
        state.failing.insert(step.to_owned(), error.clone());
        let event = Event::StepFailed { at: now, step: step.to_owned(), error: error.clone() };
        state.record(&*self.clock, event);
    }

    /// Records the end of a step that had such an effect.
    pub(crate) fn step_finished(&self, step: &str, took_us: u64, outcome: StepOutcome, effect: Effect) {
        let mut state = self.state();
        state.note(effect);
        state.leave(step);
        if !state.failing.is_empty() {
            state.failing.remove(step);
        }
        state.settle(step, &outcome);
        let now = self.clock.now();
        self.end_pause(&mut state, step);
        if self.ordered {
            let place = state.order.len() as u64;
            state.order.insert(step.to_owned(), place);
        }
        if self.remembers {
            state.finished.insert(step.to_owned(), outcome.clone());
        }
        state.record(&*self.clock, Event::StepFinished { at: now, step: step.to_owned(), took_us, outcome });
    }

    /// Notes that a call with such an effect has ended and is recorded, so that its end is committed in the background.
    pub(crate) fn call_ended(&self, effect: Effect) {
        let mut state = self.state();
        state.ended_calls = state.ended_calls.max(effect);
    }

    /// The most that anything has done to the world whose result is recorded and not committed.
    pub(crate) fn uncommitted(&self) -> Effect {
        let state = self.state();
        if state.committed < state.changes {
            Effect::Write
        } else if state.committed < state.effects {
            Effect::Read
        } else {
            Effect::Pure
        }
    }

    /// Has the next commit write into the state of Automations, together with what is recorded. Nobody else writes what
    /// the lock guards before that.
    pub(crate) fn write_state(&self, write: StateWrite, lock: OwnedMutexGuard<()>) {
        let mut state = self.state();
        state.writes.push(write);
        state.locks.push(lock);
    }

    /// Ends the pause of a step, if it pauses: most do not, and a look at the clock costs as much as a small step.
    fn end_pause(&self, state: &mut State, step: &str) {
        if !state.pauses.is_empty() {
            state.pauses.end(step, self.clock.steady_now());
        }
    }

    pub(crate) fn respond(&self, response: HttpResponse) {
        let mut state = self.state();
        state.response = Some(response.clone());
        state.record(&*self.clock, Event::Responded { at: self.clock.now(), response });
    }

    pub(crate) fn finish(&self, event: Event) {
        let mut state = self.state();
        if let Event::Finished { outcome, .. } = &event {
            state.outcome = Some(outcome.clone());
        }
        state.record(&*self.clock, event);
    }

    /// Why the execution failed for good, once its closing steps have begun.
    pub(crate) fn closing(&self) -> Option<ActionError> {
        self.state().closing.clone()
    }

    /// Records that the execution failed for good, before its closing steps begin: what they do goes by that.
    pub(crate) fn close(&self, error: &ActionError) {
        let mut state = self.state();
        if state.closing.is_none() {
            state.closing = Some(error.clone());
            state.note(Effect::Write);
            state.record(&*self.clock, Event::Failing { at: self.clock.now(), error: error.clone() });
        }
    }

    /// Why somebody ended the execution, once that is recorded.
    pub(crate) fn cancelling(&self) -> Option<String> {
        self.state().cancelling.clone()
    }

    /// Records that somebody ended the execution, before its closing steps begin.
    pub(crate) fn cancel(&self, reason: &str) {
        let mut state = self.state();
        if state.cancelling.is_none() {
            state.cancelling = Some(reason.to_owned());
            state.record(&*self.clock, Event::Cancelling { at: self.clock.now(), reason: reason.to_owned() });
        }
    }

    /// Leaves a line for people.
    pub(crate) fn log(&self, level: LogLevel, step: Option<&str>, message: &str) {
        self.leave(level, step, message, false);
    }

    /// Leaves a line with which a step shows its credentials, as its author and the settings allow.
    pub(crate) fn log_credentials(&self, level: LogLevel, step: Option<&str>, message: &str) {
        self.leave(level, step, message, true);
    }

    fn leave(&self, level: LogLevel, step: Option<&str>, message: &str, shows_credentials: bool) {
        let message = if shows_credentials {
            Cow::Borrowed(message)
        } else {
            self.redactor.excerpt(message, Limit::Chars(LogLine::MAX_CHARS))
        };
        let line = LogLine::new(self.clock.now(), level, step.map(str::to_owned), &message);
        self.state().logs.push(Line { line, shows_credentials });
    }

    /// Whether what waits should be committed for its own sake: there is much of it, or others wait for a lock until then.
    pub(crate) fn wants_commit(&self) -> bool {
        let state = self.state();
        state.pending.len() >= HEAVY || state.logs.len() >= HEAVY || !state.writes.is_empty()
    }

    fn is_watched(&self) -> bool {
        self.notices.receiver_count() > 0
    }

    fn tell(&self, status: Status, events: Vec<Event>, logs: Vec<LogLine>) {
        if self.is_watched() {
            // Nobody may listen any more, which is no loss.
            let _ = self.notices.send(Notice::ExecutionEvents {
                id: self.id,
                automation: self.automation.clone(),
                status,
                events: Arc::new(events),
                logs: Arc::new(logs),
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// True if an event is recorded that is worth a commit.
    fn has_events(&self) -> bool {
        self.pending.len() > self.notes
    }

    /// Takes the events of the next commit.
    fn take_events(&mut self) -> Vec<Event> {
        self.notes = 0;
        std::mem::take(&mut self.pending)
    }

    /// Counts what is recorded as the result of such an effect.
    fn note(&mut self, effect: Effect) {
        if effect != Effect::Pure {
            self.effects += 1;
        }
        if effect == Effect::Write {
            self.changes = self.effects;
        }
    }

    /// Forgets the tries of a step. Most have none, and looking for them costs more than to see that there are none.
    fn leave(&mut self, step: &str) {
        if !self.tries.is_empty() {
            self.tries.remove(step);
        }
        if !self.interrupted.is_empty() {
            self.interrupted.remove(step);
        }
    }

    /// Takes an event that is committed with the next commit. Where the clock was set since the one before, that stands
    /// before it: so what lasts a certain time can be told from the log whatever the clock does.
    fn record(&mut self, clock: &dyn Clock, event: Event) {
        self.notice_steps(clock);
        self.pending.push(event);
    }

    fn notice_steps(&mut self, clock: &dyn Clock) {
        let ahead = clock.ahead();
        if ahead != self.ahead {
            let by = ahead.saturating_sub(self.ahead);
            self.ahead = ahead;
            let by_ms = i64::try_from(by.as_millis()).unwrap_or_default();
            self.pending.push(Event::ClockSet { at: clock.now(), by_ms });
        }
    }
}

/// Whether the whole execution, or a step that holds others, may be tried again.
fn tries_lists_again(automation: &Automation) -> bool {
    let mut again = automation.retry.max > 0;
    automation.walk(&mut |step| {
        again |= step.retry.as_ref().is_some_and(|retry| retry.max > 0) && !step.verb.lists().is_empty()
    });
    again
}

/// Whether a step may have to be undone.
fn has_undo(automation: &Automation) -> bool {
    let mut found = false;
    automation.walk(&mut |step| found |= step.undo.is_some());
    found
}
