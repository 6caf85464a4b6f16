//! Runs a step: its condition, its attempts, and the handling of a permanent failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use expression::EvalClock;
use jiff::Timestamp;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{OnError, OnInterrupt, Step, Verb};
use model::execution::{DelayReason, Event, StepOutcome, split_key};
use tokio_util::sync::CancellationToken;
use value::Value;

use super::determinism::StepClock;
use super::scope::Scope;
use super::settings::StepSettings;
use super::{Exit, Run, journal};
use crate::clock::{Clock, MonotonicTime};
use catalog::ReadSet;

/// Position of a step in the execution.
#[derive(Clone)]
pub(crate) struct Frame {
    /// Indices of the surrounding loops, as appended to the step's id: `[2][0]`.
    turns: Arc<str>,
    /// Time limit of the whole execution, without waiting times.
    pub(super) end: MonotonicTime,
    /// Nearest timeout of a surrounding step, and the depth of that step, if any.
    pub(super) deadline: Option<(MonotonicTime, u32)>,
    pub(super) depth: u32,
    /// True in the closing steps, where a cancellation no longer counts.
    pub(super) closing: bool,
    /// The time that the step has waited for commits, which does not count as its work.
    pub(super) commit_wait: CommitWait,
    /// The computed settings of the innermost step that has any.
    settings: Option<Arc<StepSettings>>,
    /// Cancelled when the lists side by side around the step are cut off. `None` if the automation has no step with a `finally`: then
    /// such lists are dropped.
    pub(super) cut: Option<CancellationToken>,
}

/// The end of a step, before its `finally`.
struct Ended {
    outcome: StepOutcome,
    /// The time that the last try worked, in microseconds.
    took_us: u64,
    /// The effect of a repetition, as far as no event before has recorded it.
    effect: Effect,
}

impl Ended {
    fn new(outcome: StepOutcome, took_us: u64, effect: Effect) -> Self {
        Self { outcome, took_us, effect }
    }
}

impl Frame {
    pub(super) fn new(end: MonotonicTime) -> Self {
        Self {
            turns: "".into(),
            end,
            deadline: None,
            depth: 0,
            closing: false,
            commit_wait: CommitWait::default(),
            settings: None,
            cut: None,
        }
    }

    pub(super) fn closing(end: MonotonicTime) -> Self {
        Self { closing: true, ..Self::new(end) }
    }

    /// Copies this frame with the loop indices of another one.
    pub(super) fn in_turns_of(&self, other: &Self) -> Self {
        Self { turns: other.turns.clone(), ..self.clone() }
    }

    /// Enters an iteration of a loop.
    pub(super) fn turn(&self, index: usize) -> Self {
        Self { turns: format!("{}[{index}]", self.turns).into(), ..self.clone() }
    }

    /// Indices of the surrounding loops, outermost first.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> {
        self.turns.split(['[', ']']).filter_map(|part| part.parse().ok())
    }

    /// Enters a step and applies its time limit if it is nearer.
    pub(super) fn inner(&self, now: MonotonicTime, timeout: Option<Duration>) -> Self {
        let depth = self.depth + 1;
        let own = timeout.map(|timeout| (now.after(timeout), depth));
        let nearer = |own: &(MonotonicTime, u32)| self.deadline.is_none_or(|(outer, _)| own.0 < outer);
        let deadline = own.filter(nearer).or(self.deadline);
        Self { depth, deadline, ..self.clone() }
    }

    /// The computed settings of the step.
    pub(super) fn settings(&self) -> Option<&StepSettings> {
        self.settings.as_deref()
    }

    /// Enters lists side by side that can be cut off.
    pub(super) fn cuttable(&self) -> Self {
        let cut = self.cut.as_ref().map_or_else(CancellationToken::new, CancellationToken::child_token);
        Self { cut: Some(cut), ..self.clone() }
    }

    /// True if a step is in the iterations of this frame, by its key.
    pub(super) fn is_around(&self, key: &str) -> bool {
        split_key(key).1.starts_with(&*self.turns)
    }

    /// Returns the step's id with its loop indices.
    pub(super) fn key(&self, id: &str) -> String {
        [id, &self.turns].concat()
    }
}

impl Run {
    /// Runs a step, or takes over its recorded outcome.
    pub(super) async fn step(&self, step: &Step, scope: &mut Scope, frame: &Frame) -> Result<Value, Exit> {
        let key = frame.key(&step.id);
        if let Some(outcome) = self.journal.finished(&key) {
            return self.replay(step, outcome, scope, frame);
        }
        if let Some(error) = self.journal.closing().filter(|_| !frame.closing) {
            // The execution is closing: recorded outcomes are used only for undoing and closing.
            return Err(Exit::Failed(error));
        }
        if self.journal.is_snapshot_due() && step.verb.nested_blocks().is_empty() {
            self.journal.mark_replayed();
        }
        let began = match self.check_may_start(frame) {
            Err(exit) if !self.must_close(step, &key, &exit) => {
                return self.cut(step, &key, exit).map(|_| Value::Null);
            }
            began => began,
        };
        self.yield_if_due().await?;
        let reads = self.deployment.plan.reads(&step.id);
        let outer = match reads {
            Some(_) => Some(self.prepare(reads, &key, self.context.clock.now(), scope).await?),
            None => None,
        };
        let result = self.begin(step, &key, began, scope, frame).await;
        if let Some(outer) = outer {
            scope.set_moment(outer);
        }
        result
    }

    /// Sets the variables that a step reads in addition to results, and returns the previous clock.
    pub(super) async fn prepare(
        &self,
        reads: Option<&ReadSet>,
        key: &str,
        began: Timestamp,
        scope: &mut Scope,
    ) -> Result<Option<Arc<dyn EvalClock>>, Exit> {
        let Some(reads) = reads else { return Ok(scope.set_moment(None)) };
        let recorded = self.context.doubles.as_ref().and_then(|doubles| doubles.recorded_start(key));
        let began = recorded.as_ref().map_or(began, |(at, _)| *at);
        let at = self.journal.started_at(key).map_or(began, |(at, _)| at);
        if !reads.state.is_empty() {
            let recorded = recorded.map(|(_, state)| state).filter(|state| !state.is_null());
            let state = match self.journal.state_read(key).or(recorded) {
                Some(state) => state,
                None => self.read_state(&reads.state).await?,
            };
            self.journal.record_start(key, at, Some(&state));
            scope.bind("state", state);
        }
        if !reads.is_nondeterministic {
            return Ok(scope.set_moment(None));
        }
        if reads.reads_clock {
            self.journal.record_start(key, at, None);
        }
        let moment = StepClock::new(self.context.secret.clone(), self.journal.id(), key, at);
        Ok(scope.set_moment(Some(moment)))
    }

    async fn begin(
        &self,
        step: &Step,
        key: &str,
        began: Result<MonotonicTime, Exit>,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let ended = match (self.journal.closing_outcome(key), began) {
            (Some(outcome), _) => Ended { outcome, took_us: 0, effect: Effect::Pure },
            (None, Err(exit)) if step.verb.nested_blocks().is_empty() => self.cut(step, key, exit)?,
            (None, began) => {
                let began = began.unwrap_or_else(|_| self.context.clock.monotonic_now());
                match self.run(step, key, began, scope, frame).await {
                    Err(exit) => self.cut(step, key, exit)?,
                    Ok(ended) => ended,
                }
            }
        };
        let outcome = match &step.finally {
            Some(_) => Box::pin(self.run_step_finally(step, key, ended.outcome, scope, frame)).await?,
            None => ended.outcome,
        };
        self.journal.step_finished(key, ended.took_us, outcome.clone(), ended.effect);
        if ended.effect != Effect::Pure {
            self.mark_call_ended(step);
        }
        let result = self.apply(step, key, outcome, scope, frame);
        if scope.is_response_due {
            Box::pin(self.send_due_response(key, scope, frame)).await?;
        }
        if result.is_ok() {
            self.keep_journal_light().await?;
        }
        result
    }

    /// Runs a step that has not ended to its outcome, as far as `finally`.
    async fn run(
        &self,
        step: &Step,
        key: &str,
        began: MonotonicTime,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Ended, Exit> {
        if let Some(error) = self.journal.failing(key) {
            return Box::pin(self.failed(step, key, error, 0, scope, frame)).await;
        }
        if let Some(guard) = &step.guard {
            match self.condition_holds(guard, scope, "if", frame).await {
                Ok(true) => {}
                Ok(false) => return Ok(Ended::new(StepOutcome::Skipped, 0, Effect::Pure)),
                Err(Exit::Failed(error)) => {
                    return Box::pin(self.failed(step, key, error, 0, scope, frame)).await;
                }
                Err(exit) => return Err(exit),
            }
        }
        if step.on_interrupt == OnInterrupt::Fail && self.journal.was_interrupted(key) {
            let message = format!(
                "the daemon stopped while step `{}` ran; whether it did its work is not known, and `onInterrupt: fail` forbids to begin it again",
                step.id
            );
            let error = ActionError::new(ErrorKind::Interrupted, message);
            return Box::pin(self.failed(step, key, error, 0, scope, frame)).await;
        }
        let with_settings;
        let frame = match self.settings(step, scope, frame).await {
            Ok(None) => frame,
            Ok(Some(settings)) => {
                with_settings = Frame { settings: Some(Arc::new(settings)), ..frame.clone() };
                &with_settings
            }
            Err(Exit::Failed(error)) => {
                return Box::pin(self.failed(step, key, error, 0, scope, frame)).await;
            }
            Err(exit) => return Err(exit),
        };
        if step.records_begin() {
            self.journal.begin(key);
            self.record_undo(step, key, scope, frame, false);
        }
        let tried = self.run_attempts(step, key, began, scope, frame).await?;
        let took = tried.took_us.max(std::mem::take(&mut scope.pipelined_us));
        match tried.result {
            Ok(result) => {
                let result = self.journal.redact_value(result);
                Ok(Ended::new(StepOutcome::Succeeded { result }, took, self.effect(step)))
            }
            Err(Exit::Failed(error)) => Box::pin(self.failed(step, key, error, took, scope, frame)).await,
            Err(exit) => Ok(Ended { took_us: took, ..self.cut(step, key, exit)? }),
        }
    }

    /// The end of a step that an exit leads out of. Returns the exit if the step goes on later, or if it was cut off and has no `finally`
    /// to run.
    fn cut(&self, step: &Step, key: &str, exit: Exit) -> Result<Ended, Exit> {
        match self.outcome_of_exit(&exit).filter(|_| !matches!(exit, Exit::Failed(_))) {
            Some(StepOutcome::Jumped { by, .. }) if by.cuts() && !self.journal.is_open(key) => {
                if self.journal.closes_steps() {
                    // The execution may pause for the `finally` of others, and nothing must wake it for this step.
                    self.abandon_inside(step, key);
                }
                Err(exit)
            }
            Some(outcome) => {
                self.abandon_inside(step, key);
                Ok(Ended::new(outcome, 0, Effect::Pure))
            }
            None => Err(exit),
        }
    }

    /// The outcome of what an exit leads out of; `None` if it goes on later.
    pub(super) fn outcome_of_exit(&self, exit: &Exit) -> Option<StepOutcome> {
        if let Exit::Failed(error) = exit {
            return Some(StepOutcome::Failed { error: error.clone(), handled: None });
        }
        exit.leaves(|| {
            if self.cancelled.token.is_cancelled() {
                return self.journal.cancelling().unwrap_or_else(|| self.cancelled.reason());
            }
            "cut off: the step around it ended or failed before it".to_owned()
        })
    }

    /// Marks the end of a call for the background commit.
    fn mark_call_ended(&self, step: &Step) {
        if let Verb::Action(call) = &step.verb {
            self.journal.call_ended(self.action_effect(call));
        }
    }

    /// Handles the permanent failure of a step. Call it on the heap, so that the future of every step has no room for it.
    async fn failed(
        &self,
        step: &Step,
        key: &str,
        error: ActionError,
        took_us: u64,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Ended, Exit> {
        let mut error = self.journal.redact_error(error);
        error.step.get_or_insert_with(|| step.id.to_string());
        let is_known = self.journal.failing(key).is_some();
        let handled = match &step.on_error {
            OnError::Fail => None,
            OnError::Continue => Some(Value::Null),
            OnError::Steps(block) => {
                if !is_known {
                    self.journal.step_failed(key, &error, self.effect(step));
                    self.mark_call_ended(step);
                    self.send_due_response(key, scope, frame).await?;
                }
                self.clear_step(scope, step, key);
                let mut inner = scope.fork();
                inner.bind("error", error.to_value());
                self.apply_successes(&mut inner, frame);
                match self.block(block, &mut inner, frame).await {
                    Ok(result) => {
                        scope.merge(inner);
                        Some(result)
                    }
                    Err(Exit::Failed(inner_error)) => {
                        error = inner_error;
                        None
                    }
                    // If the list leaves the step, the step ends. A suspended list continues later.
                    Err(exit) => return Ok(Ended { took_us, ..self.cut(step, key, exit)? }),
                }
            }
        };
        let is_recorded = matches!(step.on_error, OnError::Steps(_));
        let effect = if is_recorded { Effect::Pure } else { self.effect(step) };
        Ok(Ended::new(StepOutcome::Failed { error, handled }, took_us, effect))
    }

    /// True if a step that must not start has to go on nevertheless: it, or a step inside it, has begun and has a `finally`.
    fn must_close(&self, step: &Step, key: &str, exit: &Exit) -> bool {
        let turns = &key[step.id.len()..];
        !exit.is_immediate()
            && self.journal.any_open(|open| {
                let (id, open_turns) = split_key(open);
                open_turns.starts_with(turns) && step.contains(id)
            })
    }

    /// True if the execution was cancelled, and the steps in this frame with it.
    pub(super) fn is_cancelled(&self, frame: &Frame) -> bool {
        !frame.closing && self.cancelled.token.is_cancelled()
    }

    /// Checks if the next step may start, and returns the start time: reading the clock costs as much as a small step.
    pub(super) fn check_may_start(&self, frame: &Frame) -> Result<MonotonicTime, Exit> {
        if self.context.closing.is_cancelled() {
            return Err(Exit::ShuttingDown);
        }
        if self.is_cancelled(frame) || frame.cut.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(Exit::Cancelled);
        }
        let now = self.context.clock.monotonic_now();
        if now >= frame.end || frame.deadline.is_some_and(|(at, _)| now >= at) {
            let (at, depth) = self.deadline(frame);
            if now >= at {
                return Err(Exit::Expired(depth));
            }
        }
        Ok(now)
    }

    /// Sets `steps.<id>`, unless nothing reads it.
    pub(super) fn set_step(
        &self,
        scope: &mut Scope,
        step: &Step,
        key: &str,
        results: Value,
        error: Option<&ActionError>,
        succeeded: bool,
    ) {
        if self.deployment.plan.is_result_read(&step.id) {
            let waits = matches!(step.verb, Verb::WaitFor(_));
            let timed_out = waits.then(|| self.journal.timed_out(key));
            let ok = succeeded && timed_out != Some(true);
            self.note_success(step, key, ok);
            let is_large = scope.set_step(&step.id, results, error, ok, timed_out);
            if is_large {
                // A result from the log has no memory yet.
                let held = scope.held().saturating_add(self.trigger_memory);
                self.context.memory.resize_at_once(&self.memory, held);
            }
        }
    }

    /// Takes the results of a step that did not succeed out of `steps.<id>`, if `steps.<id>.ok` is read.
    pub(super) fn clear_step(&self, scope: &mut Scope, step: &Step, key: &str) {
        if self.deployment.plan.is_success_read(&step.id) {
            self.note_success(step, key, false);
            scope.clear_step(&step.id);
        }
    }

    /// Notes the end of a step for the closing lists, which do not have the variables of the branches that a failure cut off.
    fn note_success(&self, step: &Step, key: &str, ok: bool) {
        if self.deployment.plan.is_success_read(&step.id) {
            let mut successes = self.successes.lock().unwrap_or_else(PoisonError::into_inner);
            successes.insert(step.id.clone(), (key[step.id.len()..].to_owned(), ok));
        }
    }

    /// Sets `steps.<id>.ok` of the steps that ended last in the iterations of a list that runs after a failure.
    pub(super) fn apply_successes(&self, scope: &mut Scope, frame: &Frame) {
        let successes = self.successes.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, (_, ok)) in successes.iter().filter(|(_, (turns, _))| turns.starts_with(&*frame.turns)) {
            scope.set_success(id, *ok);
        }
    }

    async fn keep_journal_light(&self) -> Result<(), Exit> {
        if self.journal.wants_commit() { self.journal.commit().await } else { Ok(()) }
    }

    /// Ends the waits inside a step whose attempt failed: another attempt starts its own waits.
    pub(super) fn abandon_inside(&self, step: &Step, key: &str) {
        if step.verb.nested_blocks().is_empty() {
            self.abandon(|other| other == key);
        } else {
            let inside = journal::Inside::of_all(&self.deployment.automation);
            self.abandon(inside.contains_step(key));
        }
    }

    /// The time that a try has worked so far, in microseconds: without its waits for commits.
    pub(super) fn work_us(&self, began: MonotonicTime, frame: &Frame) -> u64 {
        let took = self.context.clock.monotonic_now().since(began);
        u64::try_from(took.as_micros()).unwrap_or(u64::MAX).saturating_sub(frame.commit_wait.us())
    }

    /// Waits for a commit that a step depends on. The time does not count as work of the step, and is recorded if it is
    /// long.
    pub(super) async fn await_commit(
        &self,
        key: &str,
        frame: &Frame,
        commit: impl Future<Output = Result<(), Exit>>,
    ) -> Result<(), Exit> {
        let waited = frame.commit_wait.measure(&*self.context.clock, commit).await?;
        self.note_wait(Some(key), DelayReason::Commit, waited);
        Ok(())
    }

    /// Notes in the history that the execution, or one of its steps, has waited for something, if it was long.
    pub(super) fn note_wait(&self, key: Option<&str>, reason: DelayReason, waited: Duration) {
        if waited >= Event::MIN_WAITED {
            let (at, step) = (self.context.clock.now(), key.map(str::to_owned));
            let ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            self.journal.note(Event::Waited { at, step, reason, ms });
        }
    }
}

/// The time that one try of a step has waited for commits. Each frame that is derived from another begins at zero, so
/// that the waits of the steps in a list are counted for those steps alone.
#[derive(Debug, Default)]
pub(super) struct CommitWait(AtomicU64);

impl Clone for CommitWait {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl CommitWait {
    /// Waits for a commit, and returns the time that it took.
    pub(super) async fn measure(
        &self,
        clock: &dyn Clock,
        commit: impl Future<Output = Result<(), Exit>>,
    ) -> Result<Duration, Exit> {
        let began = clock.monotonic_now();
        let result = commit.await;
        let waited = clock.monotonic_now().since(began);
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(us, Ordering::Relaxed);
        result.map(|()| waited)
    }

    fn us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
