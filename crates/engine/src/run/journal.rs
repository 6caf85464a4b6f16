//! The log of one live execution: what has ended, what is not yet committed, and how it becomes so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use model::action::ActionError;
use model::automation::Automation;
use model::execution::{Event, ExecutionId, LogLevel, LogLine, Outcome, Status, StepOutcome};
use model::payload::HttpResponse;
use store::{Append, Store};
use tokio::sync::broadcast;

use super::Exit;
use crate::clock::Clock;
use crate::engine::Notice;

/// Events or log lines that may wait for a commit before one is made for their sake.
const HEAVY: usize = 256;

/// The log of one live execution.
pub(crate) struct Journal {
    id: ExecutionId,
    automation: model::AutomationId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notices: broadcast::Sender<Notice>,
    resumed: bool,
    /// Whether what has ended may be asked for again: after a restart, or where a list or the whole execution is
    /// tried again. Otherwise results are not kept beside the scope, which matters in long loops.
    remembers: bool,
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
    pending: Vec<Event>,
    logs: Vec<LogLine>,
    /// Results of outside effects that were recorded, and those of them that are committed.
    effects: u64,
    response: Option<HttpResponse>,
    /// Why somebody ended it, once that is recorded.
    cancelling: Option<String>,
    outcome: Option<Outcome>,
    attempt: u32,
    retry_at: Option<Timestamp>,
    interruptions: u32,
}

/// The tries of a step that has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    /// How many have failed.
    pub(crate) failed: u32,
    /// When the next begins, if one was due when the process stopped.
    pub(crate) next_at: Option<Timestamp>,
}

struct Transit {
    next: u32,
    committed_effects: u64,
    under_way: Option<UnderWay>,
    lost: Option<Arc<store::Error>>,
}

struct UnderWay {
    events: u32,
    effects: u64,
    status: Status,
    /// What whoever watches is told; copied only where somebody does.
    told: Option<(Vec<Event>, Vec<LogLine>)>,
    append: BoxFuture<'static, Result<(), store::Error>>,
}

/// What a journal needs from around it.
pub(crate) struct Surroundings {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) notices: broadcast::Sender<Notice>,
}

impl Journal {
    /// The log of an execution that was just accepted: its *started* event is committed, nothing else happened.
    pub(crate) fn new(id: ExecutionId, automation: &Automation, around: Surroundings) -> Self {
        Self {
            id,
            remembers: tries_lists_again(automation),
            automation: automation.id.clone(),
            store: around.store,
            clock: around.clock,
            notices: around.notices,
            resumed: false,
            state: Mutex::new(State { attempt: 1, ..State::default() }),
            transit: tokio::sync::Mutex::new(Transit {
                next: 1,
                committed_effects: 0,
                under_way: None,
                lost: None,
            }),
        }
    }

    /// The log of an execution from its stored events. `earlier` says that another process accepted it.
    pub(crate) fn restore(
        id: ExecutionId,
        automation: &Automation,
        events: &[Event],
        earlier: bool,
        around: Surroundings,
    ) -> Self {
        let mut journal = Self::new(id, automation, around);
        journal.remembers = true;
        // With nothing but *started* it may have been in its first step all the same, if another process had it: the
        // begin of a step is not committed for its own sake. It counts once it is carried on, not while it waits.
        journal.resumed = events.len() > 1 || earlier;
        journal.transit.get_mut().next = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let state = journal.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut inside = None;
        for event in events {
            match event {
                Event::Started { .. } => {}
                Event::Resumed { .. } => state.interruptions += 1,
                Event::StepStarted { .. } => {}
                Event::StepRetry { step, attempt, next_at, .. } => {
                    state.tries.insert(step.clone(), Tries { failed: *attempt, next_at: Some(*next_at) });
                    state.interruptions = 0;
                    let inside = inside.get_or_insert_with(|| steps_inside(automation));
                    state.forget_failures_inside(step, inside);
                }
                Event::StepFailed { step, error, .. } => {
                    state.tries.remove(step);
                    state.failing.insert(step.clone(), error.clone());
                    state.interruptions = 0;
                }
                Event::StepFinished { step, outcome, .. } => {
                    state.tries.remove(step);
                    state.failing.remove(step);
                    state.finished.insert(step.clone(), outcome.clone());
                    state.interruptions = 0;
                }
                Event::Responded { response, .. } => state.response = Some(response.clone()),
                Event::Cancelling { reason, .. } => state.cancelling = Some(reason.clone()),
                Event::Retried { attempt, next_at, .. } => {
                    state.retry(*attempt, *next_at);
                    state.interruptions = 0;
                }
                Event::Finished { outcome, .. } => state.outcome = Some(outcome.clone()),
            }
        }
        journal
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.id
    }

    pub(crate) fn resumed(&self) -> bool {
        self.resumed
    }

    pub(crate) fn interruptions(&self) -> u32 {
        self.state().interruptions
    }

    /// Whether it waits for a try that begins after `now`, so that a stop interrupts no step.
    pub(crate) fn waits_beyond(&self, now: Timestamp) -> bool {
        let state = self.state();
        let tries = state.tries.values().map(|tries| tries.next_at);
        tries.chain([state.retry_at]).flatten().any(|at| at > now)
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.state().attempt
    }

    pub(crate) fn retry_at(&self) -> Option<Timestamp> {
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

    /// The tries that the step has behind it.
    pub(crate) fn tries(&self, step: &str) -> Tries {
        if !self.remembers {
            return Tries::default();
        }
        self.state().tries.get(step).copied().unwrap_or_default()
    }

    /// Records an event; it is committed with the next commit.
    pub(crate) fn push(&self, event: Event) {
        self.state().pending.push(event);
    }

    /// Records the begin of a try with an outside effect, and tells whoever watches at once.
    pub(crate) fn step_started(&self, step: &str, attempt: u32) {
        let event = Event::StepStarted { at: self.clock.now(), step: step.to_owned(), attempt };
        if self.notices.receiver_count() > 0 {
            self.tell(Status::Running, vec![event.clone()], Vec::new());
        }
        self.push(event);
    }

    /// Why the step failed for good, if its `onError` list has begun and not ended.
    pub(crate) fn failing(&self, step: &str) -> Option<ActionError> {
        if !self.remembers {
            return None;
        }
        self.state().failing.get(step).cloned()
    }

    /// Records that a step failed for good, before its `onError` list begins: what that list does depends on it.
    pub(crate) fn step_failed(&self, step: &str, error: &ActionError, effect: bool) {
        let mut state = self.state();
        state.effects += u64::from(effect);
        state.tries.remove(step);
        state.failing.insert(step.to_owned(), error.clone());
        let event = Event::StepFailed { at: self.clock.now(), step: step.to_owned(), error: error.clone() };
        state.pending.push(event);
    }

    /// Records the end of a step. `effect` says that doing it again could change something outside.
    pub(crate) fn step_finished(&self, step: &str, took_us: u64, outcome: StepOutcome, effect: bool) {
        let mut state = self.state();
        state.effects += u64::from(effect);
        state.tries.remove(step);
        state.failing.remove(step);
        if self.remembers {
            state.finished.insert(step.to_owned(), outcome.clone());
        }
        state.pending.push(Event::StepFinished {
            at: self.clock.now(),
            step: step.to_owned(),
            took_us,
            outcome,
        });
    }

    /// Records that a try failed and another follows. Failures inside a block are forgotten with it.
    pub(crate) fn step_retry(&self, automation: &Automation, step: &str, event: Event) {
        let Event::StepRetry { attempt, .. } = event else { return };
        let mut state = self.state();
        state.tries.insert(step.to_owned(), Tries { failed: attempt, next_at: None });
        if !state.finished.is_empty() {
            state.forget_failures_inside(step, &steps_inside(automation));
        }
        state.pending.push(event);
    }

    /// Records that the whole execution is tried again: what succeeded stays, what failed is forgotten.
    pub(crate) fn retry_execution(&self, event: Event) {
        let mut state = self.state();
        if let Event::Retried { attempt, next_at, .. } = event {
            state.retry(attempt, next_at);
        }
        state.pending.push(event);
    }

    pub(crate) fn respond(&self, response: HttpResponse) {
        let mut state = self.state();
        state.response = Some(response.clone());
        state.pending.push(Event::Responded { at: self.clock.now(), response });
    }

    pub(crate) fn finish(&self, event: Event) {
        let mut state = self.state();
        if let Event::Finished { outcome, .. } = &event {
            state.outcome = Some(outcome.clone());
        }
        state.pending.push(event);
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
            state.pending.push(Event::Cancelling { at: self.clock.now(), reason: reason.to_owned() });
        }
    }

    /// Leaves a line for people.
    pub(crate) fn log(&self, level: LogLevel, step: Option<&str>, message: &str) {
        let line = LogLine::new(self.clock.now(), level, step.map(str::to_owned), message);
        self.state().logs.push(line);
    }

    /// Whether so much waits that it should be committed for its own sake.
    pub(crate) fn is_heavy(&self) -> bool {
        let state = self.state();
        state.pending.len() >= HEAVY || state.logs.len() >= HEAVY
    }

    /// Comes back when every recorded effect is committed.
    pub(crate) async fn barrier(&self) -> Result<(), Exit> {
        let recorded = self.state().effects;
        if recorded == 0 {
            return Ok(());
        }
        let committed = {
            let transit = self.transit.lock().await;
            transit.committed_effects
        };
        if committed < recorded { self.commit().await } else { Ok(()) }
    }

    /// Comes back when everything recorded so far is committed.
    pub(crate) async fn commit(&self) -> Result<(), Exit> {
        let mut transit = self.transit.lock().await;
        transit.arrive(self).await?;
        let (events, logs, effects, status) = {
            let mut state = self.state();
            if state.pending.is_empty() && state.logs.is_empty() {
                return Ok(());
            }
            let status = state.outcome.as_ref().map_or(Status::Running, Outcome::status);
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.logs), state.effects, status)
        };
        let told = (self.notices.receiver_count() > 0).then(|| (events.clone(), logs.clone()));
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let append = Append { events, logs, ..Append::new(self.id, transit.next, status) };
        let store = self.store.clone();
        let append = Box::pin(async move { store.append(append).await });
        transit.under_way = Some(UnderWay { events: count, effects, status, told, append });
        transit.arrive(self).await
    }

    fn tell(&self, status: Status, events: Vec<Event>, logs: Vec<LogLine>) {
        if self.notices.receiver_count() > 0 {
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

impl Transit {
    /// Waits for the append that is under way, if one is.
    async fn arrive(&mut self, journal: &Journal) -> Result<(), Exit> {
        if let Some(error) = &self.lost {
            return Err(Exit::Lost(error.clone()));
        }
        let Some(under_way) = &mut self.under_way else { return Ok(()) };
        let result = (&mut under_way.append).await;
        let Some(under_way) = self.under_way.take() else { return Ok(()) };
        match result {
            Ok(()) => {
                self.next += under_way.events;
                self.committed_effects = under_way.effects;
                // Who came to watch while the commit was under way has read the store without it, and is told at
                // least that something happened.
                let (events, logs) = under_way.told.unwrap_or_default();
                journal.tell(under_way.status, events, logs);
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(error);
                self.lost = Some(error.clone());
                Err(Exit::Lost(error))
            }
        }
    }
}

impl State {
    fn retry(&mut self, attempt: u32, next_at: Timestamp) {
        self.attempt = attempt + 1;
        self.retry_at = Some(next_at);
        self.tries.clear();
        self.failing.clear();
        self.finished.retain(|_, outcome| !matches!(outcome, StepOutcome::Failed { handled: None, .. }));
    }

    fn forget_failures_inside(&mut self, step: &str, inside: &HashMap<String, HashSet<String>>) {
        let (id, turns) = split_turns(step);
        let Some(inner) = inside.get(id) else { return };
        self.finished.retain(|key, outcome| {
            let (key_id, key_turns) = split_turns(key);
            let failed = matches!(outcome, StepOutcome::Failed { handled: None, .. });
            !(failed && inner.contains(key_id) && key_turns.starts_with(turns))
        });
    }
}

/// `copy[2][0]` is the step `copy` in the turns `[2][0]`.
fn split_turns(key: &str) -> (&str, &str) {
    key.split_at(key.find('[').unwrap_or(key.len()))
}

/// Whether the whole execution, or a step that holds others, may be tried again.
fn tries_lists_again(automation: &Automation) -> bool {
    let mut again = automation.retry.max > 0;
    automation.walk(&mut |step| again |= step.retry.max > 0 && !step.verb.lists().is_empty());
    again
}

/// For each step that holds others, the ids of all of those.
fn steps_inside(automation: &Automation) -> HashMap<String, HashSet<String>> {
    let mut found = HashMap::new();
    automation.walk(&mut |step| {
        let mut inner = HashSet::new();
        for list in step.verb.lists() {
            list.block.walk(&mut |step| {
                inner.insert(step.id.to_string());
            });
        }
        if !inner.is_empty() {
            found.insert(step.id.to_string(), inner);
        }
    });
    found
}
