//! The journal of an execution in memory: its recorded state, the events that are not committed yet, and their commit.

mod acceptance;
mod accepted_events;
mod background;
mod checkpoints;
mod closing;
mod commit;
mod pauses;
mod redaction;
mod replay;
mod retries;
mod sent_events;
mod snapshot;
mod starts;
mod watermark;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use model::action::{ActionError, Effect};
use model::automation::Automation;
use model::execution::{Event, ExecutionId, Outcome, Status, StepOutcome};
use model::payload::HttpResponse;
use model::{LogLevel, LogLine};
use store::{AcceptOutcome, StateWrite, Store};
use tokio::sync::{SetOnce, broadcast};
use tokio_util::sync::CancellationToken;
use value::redact::{LengthLimit, Redactor};

pub(crate) use acceptance::PendingAcceptance;
use accepted_events::AcceptedEvents;
pub(crate) use checkpoints::Checkpoint;
use closing::{Begun, Traits};
use commit::{AcceptResult, CommitState};
use pauses::Pauses;
pub(crate) use pauses::{Due, StepWait, Suspension, Taken, Times, Wake};
pub(crate) use replay::{ReplaySource, StoredLog};
use retries::UnknownAttempt;
pub(crate) use retries::{Inside, Tries};
use sent_events::SentEvents;
use snapshot::Loops;
pub(crate) use snapshot::{LoopPosition, SnapshotState};
use starts::StepStart;
use watermark::Watermark;

use crate::api::EngineEvent;
use crate::clock::{Clock, MonotonicTime};
use crate::context::Context;
use crate::locks::StoreLock;
use crate::observer::Observed;
use crate::outbox::Outbox;
use crate::run::Exit;

/// The number of pending events or log lines from which they are committed for their own sake.
const HEAVY: usize = 256;

/// The journal of one execution in memory. It has some 2 KiB, so it is built in its place on the heap.
pub(crate) struct Journal {
    id: ExecutionId,
    automation: model::AutomationId,
    store: Arc<dyn Store>,
    /// Cancelled when the engine stops.
    closing: CancellationToken,
    clock: Arc<dyn Clock>,
    notices: broadcast::Sender<EngineEvent>,
    /// True if a restart interrupted the execution.
    resumed: bool,
    /// The instant of acceptance.
    accepted_at: MonotonicTime,
    /// The requirements of the automation's steps. The order in which steps ended is kept if a step has an `undo`.
    traits: Traits,
    /// True if the outcomes of ended steps are kept: after a restart, or if a list or the whole execution may be retried.
    /// Otherwise only the scope keeps results, which saves memory in long loops.
    keeps_outcomes: bool,
    redactor: Redactor,
    outbox: Arc<Outbox>,
    /// The exporter of its traces and logs; `None` without a collector.
    observed: Option<Observed>,
    /// True if the execution has read a secret, so that its events have to be redacted.
    reads_secrets: AtomicBool,
    /// The result of the acceptance, once it is written.
    verdict: SetOnce<AcceptResult>,
    /// True once the end of a step or a try is committed after a crash.
    passed: AtomicBool,
    /// True if the log has become long since the last snapshot.
    snapshot_due: AtomicBool,
    /// True once the walk has passed the recorded steps.
    replayed: AtomicBool,
    /// True while the store refuses a write, which is sent again.
    is_refused: AtomicBool,
    /// True until the first write, if the store refused the last one of an earlier run: the execution leaves memory as soon as it
    /// refuses another.
    leaves_at_refusal: AtomicBool,
    state: Mutex<State>,
    /// The write position: one write at a time, in order. It owns the write in flight, so that its result is not lost when the
    /// branch that waits for it is dropped: the next branch waits for it first.
    transit: tokio::sync::Mutex<CommitState>,
}

#[derive(Default)]
struct State {
    finished: HashMap<String, StepOutcome>,
    tries: HashMap<String, Tries>,
    /// The errors of failed steps whose `onError` list has not ended.
    failing: HashMap<String, ActionError>,
    /// Steps with a try that had started and not ended when the process stopped.
    interrupted: HashSet<String>,
    /// Failed attempts that may have had their effect, by step. An entry is removed when its step succeeds or its failure is
    /// handled.
    lost: HashMap<String, UnknownAttempt>,
    /// The recorded start of steps that read the clock or the state, and the state that they read.
    step_starts: HashMap<String, StepStart>,
    /// How far the calls in progress have come, by step.
    checkpoints: HashMap<String, Checkpoint>,
    /// The steps whose work has begun anew, and how many times: kept over retries of all kinds.
    begun_anew: HashMap<String, u32>,
    /// The order in which steps began or ended last, if it is kept, and its next position.
    order: HashMap<String, u64>,
    next_position: u64,
    begun: Begun,
    /// True if the execution goes on at once after its suspension.
    wakes_at_once: bool,
    /// The child executions that were cut off with their calls, as the log shows them; the last ones of many.
    cut_children: Vec<ExecutionId>,
    /// The steps that ended in the replayed execution and not in this one, if the order is kept.
    kept: HashSet<String>,
    pauses: Pauses,
    loops: Loops,
    /// The events that ended waits, by the id of the step.
    accepted_events: HashMap<String, AcceptedEvents>,
    /// The steps whose wait timed out.
    timed_out: HashSet<String>,
    pending: Vec<Event>,
    /// The number of notes among the pending events. Notes are committed with other events, never by themselves.
    notes: usize,
    /// The writes of the next commit to the state of automations, and the locks that are held until it is done.
    writes: Vec<StateWrite>,
    locks: Vec<StoreLock>,
    events: SentEvents,
    logs: Vec<Line>,
    watermark: Watermark,
    /// The error of a write that has failed, after which nothing is written.
    failed_write: Option<Arc<store::Error>>,
    response: Option<HttpResponse>,
    /// The final error, once the finally steps have started.
    closing: Option<ActionError>,
    /// The reason of the cancellation, once it is recorded.
    cancelling: Option<String>,
    outcome: Option<Outcome>,
    attempt: u32,
    retry_at: Option<MonotonicTime>,
    interruptions: u32,
    /// The wall offset when the last event was recorded.
    wall_offset: SignedDuration,
}

/// A log line that is not committed yet.
struct Line {
    line: LogLine,
    /// True if the line is meant to show credentials, so that it is not redacted.
    shows_credentials: bool,
}

/// The services that a journal needs.
pub(crate) struct JournalContext {
    pub(crate) store: Arc<dyn Store>,
    /// Cancelled when the engine stops.
    pub(crate) closing: CancellationToken,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) notices: broadcast::Sender<EngineEvent>,
    pub(crate) redactor: Redactor,
    pub(crate) outbox: Arc<Outbox>,
}

impl From<&Context> for JournalContext {
    fn from(context: &Context) -> Self {
        Self {
            store: context.store.clone(),
            closing: context.closing.clone(),
            clock: context.clock.clone(),
            notices: context.notices.clone(),
            redactor: context.settings.redactor.clone(),
            outbox: context.outbox.clone(),
        }
    }
}

impl Journal {
    /// The journal of an execution that was accepted at `at`, with the wall offset `wall_offset`: its *started* event is committed.
    pub(crate) fn new(
        id: ExecutionId,
        automation: &Automation,
        (at, wall_offset): (Timestamp, SignedDuration),
        around: JournalContext,
    ) -> Box<Self> {
        let traits = Traits::of(automation);
        Box::new(Self {
            id,
            accepted_at: MonotonicTime::from_wall(at, wall_offset),
            keeps_outcomes: traits.retries_lists,
            automation: automation.id.clone(),
            store: around.store,
            closing: around.closing,
            clock: around.clock,
            notices: around.notices,
            resumed: false,
            traits,
            redactor: around.redactor,
            outbox: around.outbox,
            observed: None,
            reads_secrets: AtomicBool::new(false),
            verdict: SetOnce::new_with(Some(Ok(AcceptOutcome::New))),
            passed: AtomicBool::new(false),
            snapshot_due: AtomicBool::new(false),
            replayed: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            leaves_at_refusal: AtomicBool::new(false),
            state: Mutex::new(State { attempt: 1, wall_offset, ..State::default() }),
            transit: tokio::sync::Mutex::new(CommitState::after(1)),
        })
    }

    /// The journal of an execution that is not stored yet. Its first commit writes `acceptance` together with the events until
    /// then, before the execution has any outside effect.
    pub(crate) fn to_accept(
        id: ExecutionId,
        automation: &Automation,
        accepted_at: (Timestamp, SignedDuration),
        around: JournalContext,
        acceptance: PendingAcceptance,
    ) -> Box<Self> {
        let mut journal = Self::new(id, automation, accepted_at, around);
        *journal.transit.get_mut() = CommitState::before(acceptance);
        journal.verdict = SetOnce::new();
        journal
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.id
    }

    /// Exports the log lines from now on.
    pub(crate) fn observe(&mut self, observed: Observed) {
        self.observed = Some(observed);
    }

    pub(crate) fn observed(&self) -> Option<&Observed> {
        self.observed.as_ref()
    }

    /// Discards the outcome of an execution that was not accepted.
    fn discard_outcome(&self) {
        self.state().outcome = None;
    }

    /// True once the execution is in the store.
    fn is_stored(&self) -> bool {
        matches!(self.verdict.get(), Some(Ok(AcceptOutcome::New)))
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// True once the execution has passed the step that a crash interrupted.
    pub(crate) fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    /// The instant of acceptance.
    pub(crate) fn accepted_at(&self) -> MonotonicTime {
        self.accepted_at
    }

    /// The wall offset when the last event was recorded.
    pub(crate) fn wall_offset(&self) -> SignedDuration {
        self.state().wall_offset
    }

    pub(crate) fn interruptions(&self) -> u32 {
        self.state().interruptions
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.state().attempt
    }

    /// The start of the present or next try of the whole execution, after the first.
    pub(crate) fn retry_at(&self) -> Option<MonotonicTime> {
        self.state().retry_at
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state().outcome.clone()
    }

    pub(crate) fn response(&self) -> Option<HttpResponse> {
        self.state().response.clone()
    }

    /// The outcome of a step that has ended, if outcomes are kept.
    pub(crate) fn finished(&self, step: &str) -> Option<StepOutcome> {
        if !self.keeps_outcomes {
            return None;
        }
        self.state().finished.get(step).cloned()
    }

    /// Records an event. It is written by the next commit.
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
        state.pending.extract_if(.., |event| event.is_informational()).collect()
    }

    /// True if the order in which steps end is kept, since one may have to be undone.
    pub(crate) fn is_ordered(&self) -> bool {
        self.traits.has_undo
    }

    /// True if the outcomes of ended steps are kept.
    pub(crate) fn keeps_outcomes(&self) -> bool {
        self.keeps_outcomes
    }

    /// The position of the step in the order in which steps ended, if it is kept.
    pub(crate) fn finish_order(&self, step: &str) -> u64 {
        self.state().order.get(step).copied().unwrap_or(u64::MAX)
    }

    /// True if the step ended in the execution that this one replays. Only what ended in this execution is undone.
    pub(crate) fn is_kept(&self, step: &str) -> bool {
        self.state().kept.contains(step)
    }

    /// The error of the step, if its `onError` list has started and not ended.
    pub(crate) fn failing(&self, step: &str) -> Option<ActionError> {
        if !self.keeps_outcomes {
            return None;
        }
        self.state().failing.get(step).cloned()
    }

    /// Records the final failure of a step, before its `onError` list starts.
    pub(crate) fn step_failed(&self, step: &str, error: &ActionError, effect: Effect) {
        let mut state = self.state();
        state.watermark.record(effect);
        state.forget_attempts(step);
        state.events.discard(step);
        let now = self.clock.now();
        self.end_pause(&mut state, step);
        state.failing.insert(step.to_owned(), error.clone());
        let event = Event::StepFailed { at: now, step: step.to_owned(), error: error.clone() };
        state.record(&*self.clock, event);
    }

    /// Records the end of a step with its effect.
    pub(crate) fn step_finished(&self, step: &str, took_us: u64, outcome: StepOutcome, effect: Effect) {
        let mut state = self.state();
        state.watermark.record(effect);
        state.forget_attempts(step);
        if !state.failing.is_empty() {
            state.failing.remove(step);
        }
        state.settle(step, &outcome);
        state.events.step_ended(step, &outcome);
        let now = self.clock.now();
        self.end_pause(&mut state, step);
        state.note_finish_order(step, self.traits.has_undo);
        state.close_ended(step);
        if self.keeps_outcomes {
            state.finished.insert(step.to_owned(), outcome.clone());
        }
        state.record(&*self.clock, Event::StepFinished { at: now, step: step.to_owned(), took_us, outcome });
    }

    /// Notes that a call has ended, so that its recorded result is committed in the background.
    pub(crate) fn call_ended(&self, effect: Effect) {
        self.state().watermark.call_ended(effect);
    }

    /// Notes that a call begins that may not be repeated.
    pub(crate) fn call_begins(&self, step: &str) -> Result<(), Exit> {
        let mut state = self.state();
        state.check_writes()?;
        state.watermark.call_begins(step);
        Ok(())
    }

    /// Gives up the write that the store has refused, unless a call may have had an effect that the store does not have: a repetition
    /// of the execution would repeat it. Returns true if it is given up.
    fn fails_without_loss(&self, error: &store::Error) -> bool {
        let mut state = self.state();
        let is_safe = !state.watermark.has_unstored_call();
        if is_safe {
            state.failed_write = Some(Arc::new(error.clone()));
        }
        is_safe
    }

    /// True while the store refuses a write of the execution.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Lets the execution leave memory as soon as the store refuses its first write.
    pub(crate) fn leave_at_refusal(&self) {
        self.leaves_at_refusal.store(true, Ordering::Relaxed);
    }

    /// The strongest effect whose result is recorded and not committed.
    pub(crate) fn uncommitted(&self) -> Effect {
        self.state().watermark.uncommitted()
    }

    /// Adds a write to the state of automations to the next commit. The lock is held until that commit is done.
    pub(crate) fn write_state(&self, write: StateWrite, lock: StoreLock) {
        let mut state = self.state();
        state.writes.push(write);
        state.locks.push(lock);
    }

    /// Ends the pause of a step, if it pauses. The clock is read only then, since that costs as much as a small step.
    fn end_pause(&self, state: &mut State, step: &str) {
        if !state.pauses.is_empty() {
            state.pauses.end(step, self.clock.monotonic_now());
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
            state.delete_snapshot();
        }
        state.record(&*self.clock, event);
    }

    /// The final error of the execution, once its closing steps have started.
    pub(crate) fn closing(&self) -> Option<ActionError> {
        self.state().closing.clone()
    }

    /// Records the final failure of the execution, before its closing steps start.
    pub(crate) fn close(&self, error: &ActionError) {
        let mut state = self.state();
        if state.closing.is_none() {
            state.closing = Some(error.clone());
            state.watermark.record(Effect::Write);
            state.record(&*self.clock, Event::Failing { at: self.clock.now(), error: error.clone() });
        }
    }

    /// The reason of the cancellation, once it is recorded.
    pub(crate) fn cancelling(&self) -> Option<String> {
        self.state().cancelling.clone()
    }

    /// Records the cancellation of the execution, before its closing steps start.
    pub(crate) fn cancel(&self, reason: &str) {
        let mut state = self.state();
        if state.cancelling.is_none() {
            state.cancelling = Some(reason.to_owned());
            state.record(&*self.clock, Event::Cancelling { at: self.clock.now(), reason: reason.to_owned() });
        }
    }

    /// Adds a log line.
    pub(crate) fn log(&self, level: LogLevel, step: Option<&str>, message: &str) {
        self.add_line(level, step, message, false);
    }

    /// Adds a log line with which a step shows its credentials, as its author and the settings allow.
    pub(crate) fn log_credentials(&self, level: LogLevel, step: Option<&str>, message: &str) {
        self.add_line(level, step, message, true);
    }

    fn add_line(&self, level: LogLevel, step: Option<&str>, message: &str, shows_credentials: bool) {
        let message = if shows_credentials {
            Cow::Borrowed(message)
        } else {
            self.redactor.redact_excerpt(message, LengthLimit::Chars(LogLine::MAX_CHARS))
        };
        let line = LogLine::new(self.clock.now(), level, step.map(str::to_owned), &message);
        self.state().logs.push(Line { line, shows_credentials });
    }

    /// True if the pending events should be committed now: there are many, or other executions wait for a lock.
    pub(crate) fn wants_commit(&self) -> bool {
        let state = self.state();
        state.pending.len() >= HEAVY
            || state.logs.len() >= HEAVY
            || !state.writes.is_empty()
            || state.events.is_heavy()
    }

    fn is_watched(&self) -> bool {
        self.notices.receiver_count() > 0
    }

    fn publish(&self, status: Status, events: Vec<Event>, logs: Vec<LogLine>) {
        if self.is_watched() {
            // The last subscriber may have gone meanwhile.
            let _ = self.notices.send(EngineEvent::ExecutionEvents {
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

    /// Notes the position of a step that begins or ends, if the order is kept.
    fn note_finish_order(&mut self, step: &str, keeps_order: bool) {
        if keeps_order {
            self.order.insert(step.to_owned(), self.next_position);
            self.next_position += 1;
        }
    }

    /// Returns the error of a write that has failed.
    fn check_writes(&self) -> Result<(), Exit> {
        self.failed_write.clone().map_or(Ok(()), |error| Err(Exit::StoreFailed(error)))
    }

    /// Forgets the attempts of a step. Most steps have none, and the check for an empty map is cheaper than a look-up.
    fn forget_attempts(&mut self, step: &str) {
        if !self.tries.is_empty() {
            self.tries.remove(step);
        }
        if !self.interrupted.is_empty() {
            self.interrupted.remove(step);
        }
        self.forget_checkpoint(step);
        self.watermark.call_recorded(step);
    }

    /// Adds an event to the next commit, after a `clockSet` event if the wall clock was set since the last one: so durations
    /// can be derived from the log.
    fn record(&mut self, clock: &dyn Clock, event: Event) {
        self.notice_steps(clock);
        self.pending.push(event);
    }

    fn notice_steps(&mut self, clock: &dyn Clock) {
        let wall_offset = clock.wall_offset();
        if wall_offset != self.wall_offset {
            let by = wall_offset.saturating_sub(self.wall_offset);
            self.wall_offset = wall_offset;
            let by_ms = i64::try_from(by.as_millis()).unwrap_or_default();
            self.pending.push(Event::ClockChanged { at: clock.now(), by_ms });
        }
    }
}
