//! Runs a step: its condition, its attempts, and the handling of a permanent failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use expression::EvalClock;
use jiff::Timestamp;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{Block, BlockKind, OnError, OnInterrupt, Step, Verb};
use model::execution::{DelayReason, Event, StepOutcome};
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
    depth: u32,
    /// True in the closing steps, where a cancellation no longer counts.
    pub(super) closing: bool,
    /// The time that the step has waited for commits, which does not count as its work.
    pub(super) commit_wait: CommitWait,
    /// The computed settings of the innermost step that has any.
    settings: Option<Arc<StepSettings>>,
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
    fn inner(&self, now: MonotonicTime, timeout: Option<Duration>) -> Self {
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
        let began = self.check_may_start(frame)?;
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
        began: MonotonicTime,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        if let Some(error) = self.journal.failing(key) {
            return self.failed(step, key, error, 0, scope, frame).await;
        }
        if let Some(guard) = &step.guard {
            match self.condition_holds(guard, scope, "if", frame).await {
                Ok(true) => {}
                Ok(false) => {
                    self.journal.step_finished(key, 0, StepOutcome::Skipped, Effect::Pure);
                    self.set_step(scope, step, key, Value::Null, None);
                    return Ok(Value::Null);
                }
                Err(Exit::Failed(error)) => {
                    return self.failed(step, key, error, 0, scope, frame).await;
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
            return self.failed(step, key, error, 0, scope, frame).await;
        }
        let with_settings;
        let frame = match self.settings(step, scope, frame).await {
            Ok(None) => frame,
            Ok(Some(settings)) => {
                with_settings = Frame { settings: Some(Arc::new(settings)), ..frame.clone() };
                &with_settings
            }
            Err(Exit::Failed(error)) => return self.failed(step, key, error, 0, scope, frame).await,
            Err(exit) => return Err(exit),
        };
        let tried = self.run_attempts(step, key, began, scope, frame).await?;
        let took = tried.took_us.max(std::mem::take(&mut scope.pipelined_us));
        let error = match tried.result {
            Ok(result) => {
                let result = self.journal.redact_value(result);
                let outcome = StepOutcome::Succeeded { result: result.clone() };
                self.journal.step_finished(key, took, outcome, self.effect(step));
                self.mark_call_ended(step);
                self.set_step(scope, step, key, result.clone(), None);
                self.record_undo(step, key, scope, frame);
                self.keep_journal_light().await?;
                return Ok(result);
            }
            Err(error) => error,
        };
        self.failed(step, key, error, took, scope, frame).await
    }

    /// Runs attempts until one succeeds or the retry policy gives up.
    async fn run_attempts(
        &self,
        step: &Step,
        key: &str,
        mut began: MonotonicTime,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Tried, Exit> {
        let mut tries = self.journal.tries(key);
        if let Some(next_at) = tries.next_at {
            self.pause_before_try(key, next_at, Some(frame)).await?;
            began = self.context.clock.monotonic_now();
        }
        if self.journal.was_interrupted(key) && self.effect(step) == Effect::Write && is_call(step) {
            self.journal.attempt_interrupted(key, tries.failed + 1);
        }
        loop {
            if step.timeout.is_some() && spans_pauses(step) {
                // An inner wait may outlive this process, and the attempt's time limit must continue after a restart.
                began = self.journal.started_at(key).map_or(began, |(_, steady)| steady.min(began));
                self.journal.record_start(key, began.to_wall(self.context.clock.wall_offset()), None);
            }
            let inner = frame.inner(began, frame.timeout(step));
            let done = self.verb(step, key, tries.failed + 1, scope, &inner).await;
            let took_us = self.work_us(began, &inner);
            self.count_attempt(step, &done, took_us.max(scope.pipelined_us));
            let error = match done {
                Ok(result) => return Ok(Tried { result: Ok(result), took_us }),
                Err(Exit::Failed(error)) => error,
                Err(Exit::Expired(depth)) if depth == inner.depth => {
                    let limit = text::units::format_duration(frame.timeout(step).unwrap_or_default());
                    let message = format!("step `{}` took longer than its timeout of {limit}", step.id);
                    let mut error = ActionError::new(ErrorKind::Timeout, message);
                    error.outcome_unknown = is_call(step) && self.effect(step) == Effect::Write;
                    error
                }
                Err(exit) => {
                    if let Some(outcome) = exit.leaves() {
                        self.abandon_inside(step, key);
                        self.journal.step_finished(key, took_us, outcome, Effect::Pure);
                    }
                    if matches!(&step.verb, Verb::Stop { respond: Some(_), .. })
                        && self.journal.response().is_some()
                    {
                        // One commit records the response and the end of its step: a repetition would answer twice.
                        self.send_response(key, &inner).await?;
                    }
                    return Err(exit);
                }
            };
            self.abandon_inside(step, key);
            let failed = tries.failed + 1;
            let error = self.journal.attempt_failed(key, failed, error);
            let delay = frame.retry(step).and_then(|policy| policy.next_delay(failed, &error));
            let Some(delay) = delay else { return Ok(Tried { result: Err(error), took_us }) };
            let at = self.context.clock.now();
            let next_at = at.checked_add(delay).unwrap_or(Timestamp::MAX);
            let due = self.context.clock.monotonic_now().after(delay);
            self.journal.step_retry(
                &self.deployment.automation,
                key,
                Event::StepRetry { at, step: key.to_owned(), attempt: failed, error, next_at },
                due,
            );
            // The delay may be long, so the results and the attempt count are committed first.
            self.await_commit(key, &inner, self.journal.commit()).await?;
            self.pause_before_try(key, due, Some(frame)).await?;
            began = self.context.clock.monotonic_now();
            tries.failed = failed;
        }
    }

    /// Counts an attempt of an action or of code that has come to an end.
    fn count_attempt(&self, step: &Step, done: &Result<Value, Exit>, took_us: u64) {
        let action = match &step.verb {
            Verb::Action(call) => call.action.name.as_str(),
            Verb::Code(_) => crate::metrics::CODE_BLOCKS,
            _ => return,
        };
        let failed = match done {
            Ok(_) => false,
            Err(Exit::Failed(_) | Exit::Expired(_)) => true,
            Err(_) => return,
        };
        self.context.metrics.count_attempt(action, took_us, failed);
    }

    /// Marks the end of a call for the background commit.
    fn mark_call_ended(&self, step: &Step) {
        if let Verb::Action(call) = &step.verb {
            self.journal.call_ended(self.action_effect(call));
        }
    }

    /// Handles the permanent failure of a step.
    async fn failed(
        &self,
        step: &Step,
        key: &str,
        error: ActionError,
        took_us: u64,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let mut error = self.journal.redact_error(error);
        error.step.get_or_insert_with(|| step.id.to_string());
        let known = self.journal.failing(key).is_some();
        let effect = if known { Effect::Pure } else { self.effect(step) };
        let handled = match &step.on_error {
            OnError::Fail => None,
            OnError::Continue => Some(Value::Null),
            OnError::Steps(block) => {
                if self.journal.failing(key).is_none() {
                    self.journal.step_failed(key, &error, effect);
                    self.mark_call_ended(step);
                }
                let mut inner = scope.fork();
                inner.bind("error", error.to_value());
                match self.block(block, &mut inner, frame).await {
                    Ok(result) => {
                        scope.merge(inner);
                        Some(result)
                    }
                    Err(Exit::Failed(inner_error)) => {
                        error = inner_error;
                        None
                    }
                    Err(exit) => {
                        // If the list leaves the step, the step ends. A suspended list continues later.
                        if let Some(outcome) = exit.leaves() {
                            self.journal.step_finished(key, took_us, outcome, Effect::Pure);
                        }
                        return Err(exit);
                    }
                }
            }
        };
        let outcome = StepOutcome::Failed { error: error.clone(), handled: handled.clone() };
        self.journal.step_finished(key, took_us, outcome, effect);
        if !known {
            self.mark_call_ended(step);
        }
        match handled {
            Some(result) => {
                self.set_step(scope, step, key, result.clone(), Some(&error));
                self.keep_journal_light().await?;
                Ok(result)
            }
            None => Err(Exit::Failed(error)),
        }
    }

    /// Applies the recorded outcome of a step, with the results of its inner steps.
    fn replay(
        &self,
        step: &Step,
        outcome: StepOutcome,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        self.replay_inside(step, scope, frame);
        let key = &frame.key(&step.id);
        match outcome {
            StepOutcome::Succeeded { result } => {
                if let (Verb::Set(_), Value::Map(values)) = (&step.verb, &result) {
                    scope.set_vars(values);
                }
                self.set_step(scope, step, key, result.clone(), None);
                self.record_undo(step, key, scope, frame);
                Ok(result)
            }
            StepOutcome::Jumped { by, result } => Err(Exit::left(by, result)),
            StepOutcome::Skipped => {
                self.set_step(scope, step, key, Value::Null, None);
                Ok(Value::Null)
            }
            StepOutcome::Failed { error, handled: Some(result) } => {
                self.set_step(scope, step, key, result.clone(), Some(&error));
                Ok(result)
            }
            StepOutcome::Failed { error, handled: None } => Err(Exit::Failed(error)),
        }
    }

    /// Restores the results of steps inside a finished one, loops iteration by iteration.
    fn replay_inside(&self, step: &Step, scope: &mut Scope, frame: &Frame) {
        for list in step.verb.nested_blocks() {
            if !matches!(list.kind, BlockKind::Loop { .. }) {
                self.replay_block(list.block, scope, frame);
                continue;
            }
            let items = self.recompute_items(step, scope);
            let position = self.journal.loop_position(&frame.key(&step.id));
            if let Some(position) = &position {
                scope.restore(position);
            }
            for index in position.map_or(0, |position| position.turn)..self.context.settings.limits.loop_turns
            {
                if let (Verb::ForEach(each), Some(items)) = (&step.verb, &items)
                    && let Some(item) = items.get(index)
                {
                    super::loops::bind_item(scope, each, index, item);
                }
                if !self.replay_block(list.block, scope, &frame.turn(index)) {
                    break;
                }
            }
        }
        if let OnError::Steps(block) = &step.on_error {
            self.replay_block(block, scope, frame);
        }
    }

    /// Recomputes the items of a finished loop for the undo lists inside it.
    fn recompute_items(&self, step: &Step, scope: &Scope) -> Option<Vec<Value>> {
        let Verb::ForEach(each) = &step.verb else { return None };
        if !self.journal.is_ordered() {
            return None;
        }
        let (names, moment) = scope.names();
        let items =
            crate::evaluator::blocking(|budget| each.items.evaluate_with_clock(names, moment, budget))
                .ok()?;
        items.as_list().map(<[Value]>::to_vec)
    }

    /// Replays a list of steps. Returns false if nothing is recorded.
    fn replay_block(&self, block: &Block, scope: &mut Scope, frame: &Frame) -> bool {
        let mut any = false;
        for inner in &block.steps {
            if let Some(outcome) = self.journal.finished(&frame.key(&inner.id)) {
                any = true;
                // An exit taken by the recorded steps has already had its effect.
                let _ = self.replay(inner, outcome, scope, frame);
            }
        }
        any
    }

    /// Checks if the next step may start, and returns the start time: reading the clock costs as much as a small step.
    fn check_may_start(&self, frame: &Frame) -> Result<MonotonicTime, Exit> {
        if self.context.closing.is_cancelled() {
            return Err(Exit::ShuttingDown);
        }
        if self.cancelled.token.is_cancelled() && !frame.closing {
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
    fn set_step(
        &self,
        scope: &mut Scope,
        step: &Step,
        key: &str,
        results: Value,
        error: Option<&ActionError>,
    ) {
        if self.deployment.plan.is_result_read(&step.id) {
            let waits = matches!(step.verb, Verb::WaitFor(_));
            let is_large =
                scope.set_step(&step.id, results, error, waits.then(|| self.journal.timed_out(key)));
            if is_large {
                // A result from the log has no memory yet.
                let held = scope.held().saturating_add(self.trigger_memory);
                self.context.memory.resize_at_once(&self.memory, held);
            }
        }
    }

    async fn keep_journal_light(&self) -> Result<(), Exit> {
        if self.journal.wants_commit() { self.journal.commit().await } else { Ok(()) }
    }

    /// Ends the waits inside a step whose attempt failed: another attempt starts its own waits.
    fn abandon_inside(&self, step: &Step, key: &str) {
        if step.verb.nested_blocks().is_empty() {
            self.abandon(|other| other == key);
        } else {
            let inside = journal::Inside::of_all(&self.deployment.automation);
            self.abandon(inside.contains_step(key));
        }
    }

    /// The time that a try has worked so far, in microseconds: without its waits for commits.
    fn work_us(&self, began: MonotonicTime, frame: &Frame) -> u64 {
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

/// The end of the last try of a step.
struct Tried {
    result: Result<Value, ActionError>,
    /// The time that the try worked, in microseconds.
    took_us: u64,
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

/// Returns true if the step calls an action.
fn is_call(step: &Step) -> bool {
    matches!(step.verb, Verb::Action(_))
}

/// Returns true if an attempt of the step may contain a wait that outlives the process.
fn spans_pauses(step: &Step) -> bool {
    matches!(step.verb, Verb::Wait(_) | Verb::Call(_)) || !step.verb.nested_blocks().is_empty()
}
