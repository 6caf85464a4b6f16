//! One step: its guard, its tries, and what follows when it fails for good.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{Block, OnError, OnInterrupt, Runs, Step, Verb};
use model::execution::{Event, StepOutcome};
use model::expression::EvalClock;
use model::value::Value;

use super::moment::StepMoment;
use super::scope::Scope;
use super::{Exit, Run, journal};
use crate::clock::Steady;
use crate::plan::Reads;

/// Where in the execution a step stands.
#[derive(Clone)]
pub(crate) struct Context {
    /// The turns of the loops around it, as they are written behind its id: `[2][0]`.
    turns: Arc<str>,
    /// When the time limit of the whole is up, the time of pauses left out.
    pub(super) end: Steady,
    /// When the nearest time limit of a step around is up, and the depth at which it was set.
    pub(super) deadline: Option<(Steady, u32)>,
    depth: u32,
    /// Whether the execution's end is behind it, so that a cancellation no longer counts.
    pub(super) closing: bool,
}

impl Context {
    pub(super) fn new(end: Steady) -> Self {
        Self { turns: "".into(), end, deadline: None, depth: 0, closing: false }
    }

    pub(super) fn closing(end: Steady) -> Self {
        Self { closing: true, ..Self::new(end) }
    }

    /// The same, in the turns of another place.
    pub(super) fn in_turns_of(&self, other: &Self) -> Self {
        Self { turns: other.turns.clone(), ..self.clone() }
    }

    /// One turn of a loop further in.
    pub(super) fn turn(&self, index: usize) -> Self {
        Self { turns: format!("{}[{index}]", self.turns).into(), ..self.clone() }
    }

    /// The numbers of the turns around, from the outside in.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> {
        self.turns.split(['[', ']']).filter_map(|part| part.parse().ok())
    }

    /// One step further in, with that step's own deadline if it is nearer.
    fn inner(&self, now: Steady, timeout: Option<Duration>) -> Self {
        let depth = self.depth + 1;
        let own = timeout.map(|timeout| (now.after(timeout), depth));
        let nearer = |own: &(Steady, u32)| self.deadline.is_none_or(|(outer, _)| own.0 < outer);
        let deadline = own.filter(nearer).or(self.deadline);
        Self { depth, deadline, ..self.clone() }
    }

    /// The step's id with the turns around it.
    pub(super) fn key(&self, id: &str) -> String {
        [id, &self.turns].concat()
    }
}

impl Run {
    /// Runs a step, or takes over how it ended before.
    pub(super) async fn step(
        &self,
        step: &Step,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let key = context.key(&step.id);
        if let Some(outcome) = self.journal.finished(&key) {
            return self.replay(step, outcome, scope, context);
        }
        if let Some(error) = self.journal.closing().filter(|_| !context.closing) {
            // The end has begun: what had ended is only taken over for what undoes and closes.
            return Err(Exit::Failed(error));
        }
        let began = self.may_go_on(context)?;
        self.take_turns().await?;
        let reads = self.deployed.plan.reads(&step.id);
        let outer = match reads {
            Some(_) => Some(self.prepare(reads, &key, self.services.clock.now(), scope).await?),
            None => None,
        };
        let result = self.begin(step, &key, began, scope, context).await;
        if let Some(outer) = outer {
            scope.set_moment(outer);
        }
        result
    }

    /// Puts in place what a step reads beside the results of others, and gives the moment that was there.
    pub(super) async fn prepare(
        &self,
        reads: Option<&Reads>,
        key: &str,
        began: Timestamp,
        scope: &mut Scope,
    ) -> Result<Option<Arc<dyn EvalClock>>, Exit> {
        let Some(reads) = reads else { return Ok(scope.set_moment(None)) };
        let at = self.journal.dated(key).map_or(began, |(at, _)| at);
        if !reads.state.is_empty() {
            let state = match self.journal.state_read(key) {
                Some(state) => state,
                None => self.read_state(&reads.state).await?,
            };
            self.journal.date(key, at, Some(&state));
            scope.bind("state", state);
        }
        if !reads.moment {
            return Ok(scope.set_moment(None));
        }
        if reads.clock {
            self.journal.date(key, at, None);
        }
        let moment = StepMoment::new(self.services.secret.clone(), self.journal.id(), key, at);
        Ok(scope.set_moment(Some(moment)))
    }

    async fn begin(
        &self,
        step: &Step,
        key: &str,
        began: Steady,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        if let Some(error) = self.journal.failing(key) {
            return self.failed(step, key, error, 0, scope, context).await;
        }
        if let Some(guard) = &step.guard {
            match self.condition_holds(guard, scope, "if", context).await {
                Ok(true) => {}
                Ok(false) => {
                    self.journal.step_finished(key, 0, StepOutcome::Skipped, Effect::Pure);
                    self.set_step(scope, step, key, Value::Null, None);
                    return Ok(Value::Null);
                }
                Err(Exit::Failed(error)) => {
                    return self.failed(step, key, error, 0, scope, context).await;
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
            return self.failed(step, key, error, 0, scope, context).await;
        }
        let tried = self.tries(step, key, began, scope, context).await?;
        let took = self.took_us(began).max(std::mem::take(&mut scope.ran_ahead_us));
        let error = match tried {
            Ok(result) => {
                let result = self.journal.hidden(result);
                let outcome = StepOutcome::Succeeded { result: result.clone() };
                self.journal.step_finished(key, took, outcome, self.effect(step));
                self.note_call(step);
                self.set_step(scope, step, key, result.clone(), None);
                self.note_undo(step, key, scope, context);
                self.keep_journal_light().await?;
                return Ok(result);
            }
            Err(error) => error,
        };
        self.failed(step, key, error, took, scope, context).await
    }

    /// Tries a step until it succeeds or its policy gives up.
    async fn tries(
        &self,
        step: &Step,
        key: &str,
        mut began: Steady,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Result<Value, ActionError>, Exit> {
        let mut tries = self.journal.tries(key);
        if let Some(next_at) = tries.next_at {
            self.pause_before_try(key, next_at, Some(context)).await?;
            began = self.services.clock.steady_now();
        }
        if self.journal.was_interrupted(key) && self.effect(step) == Effect::Write && is_call(step) {
            self.journal.attempt_interrupted(key, tries.failed + 1);
        }
        loop {
            if step.timeout.is_some() && spans_pauses(step) {
                // A pause inside may outlive this process, the time limit of the try must not begin anew after it.
                began = self.journal.dated(key).map_or(began, |(_, steady)| steady.min(began));
                self.journal.date(key, began.shown(self.services.clock.ahead()), None);
            }
            let inner = context.inner(began, step.timeout);
            let error = match self.verb(step, key, tries.failed + 1, scope, &inner).await {
                Ok(result) => return Ok(Ok(result)),
                Err(Exit::Failed(error)) => error,
                Err(Exit::Expired(depth)) if depth == inner.depth => {
                    let limit = model::units::format_duration(step.timeout.unwrap_or_default());
                    let message = format!("step `{}` took longer than its timeout of {limit}", step.id);
                    let mut error = ActionError::new(ErrorKind::Timeout, message);
                    error.outcome_unknown = is_call(step) && self.effect(step) == Effect::Write;
                    error
                }
                Err(exit) => {
                    if let Some(outcome) = exit.leaves() {
                        self.abandon_inside(step, key);
                        self.journal.step_finished(key, self.took_us(began), outcome, Effect::Pure);
                    }
                    return Err(exit);
                }
            };
            self.abandon_inside(step, key);
            let failed = tries.failed + 1;
            let error = self.journal.attempt_failed(key, failed, error);
            let delay = step.retry.as_ref().and_then(|policy| policy.next_delay(failed, &error));
            let Some(delay) = delay else { return Ok(Err(error)) };
            let at = self.services.clock.now();
            let next_at = at.checked_add(delay).unwrap_or(Timestamp::MAX);
            let due = self.services.clock.steady_now().after(delay);
            self.journal.step_retry(
                &self.deployed.automation,
                key,
                Event::StepRetry { at, step: key.to_owned(), attempt: failed, error, next_at },
                due,
            );
            // The wait may be long: what is known must not be lost over it, and the count must survive a crash.
            self.journal.commit().await?;
            self.pause_before_try(key, due, Some(context)).await?;
            began = self.services.clock.steady_now();
            tries.failed = failed;
        }
    }

    /// Has the end of a call committed in the background.
    fn note_call(&self, step: &Step) {
        if let Verb::Action(call) = &step.verb {
            self.journal.call_ended(self.action_effect(call));
        }
    }

    /// What follows when a step failed for good.
    async fn failed(
        &self,
        step: &Step,
        key: &str,
        error: ActionError,
        took_us: u64,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let mut error = self.journal.hidden_error(error);
        error.step.get_or_insert_with(|| step.id.to_string());
        let known = self.journal.failing(key).is_some();
        let effect = if known { Effect::Pure } else { self.effect(step) };
        let handled = match &step.on_error {
            OnError::Fail => None,
            OnError::Continue => Some(Value::Null),
            OnError::Steps(block) => {
                if self.journal.failing(key).is_none() {
                    self.journal.step_failed(key, &error, effect);
                    self.note_call(step);
                }
                let mut inner = scope.fork();
                inner.bind("error", error.to_value());
                match self.block(block, &mut inner, context).await {
                    Ok(result) => {
                        scope.merge(inner);
                        Some(result)
                    }
                    Err(Exit::Failed(inner_error)) => {
                        error = inner_error;
                        None
                    }
                    Err(exit) => {
                        // A list that leads out of the step ends it; one that is to go on later does not.
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
            self.note_call(step);
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

    /// Takes over how a step ended before, with what the steps inside it left.
    fn replay(
        &self,
        step: &Step,
        outcome: StepOutcome,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        self.replay_inside(step, scope, context);
        let key = &context.key(&step.id);
        match outcome {
            StepOutcome::Succeeded { result } => {
                if let (Verb::Set(_), Value::Map(values)) = (&step.verb, &result) {
                    scope.set_vars(values);
                }
                self.set_step(scope, step, key, result.clone(), None);
                self.note_undo(step, key, scope, context);
                Ok(result)
            }
            StepOutcome::Left { by, result } => Err(Exit::left(by, result)),
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

    /// Sets again what the steps inside a finished one had set, loops turn by turn.
    fn replay_inside(&self, step: &Step, scope: &mut Scope, context: &Context) {
        for list in step.verb.lists() {
            if !matches!(list.runs, Runs::Turns { .. }) {
                self.replay_block(list.block, scope, context);
                continue;
            }
            let items = self.items_again(step, scope);
            for index in 0..self.services.settings.limits.loop_turns {
                if let (Verb::ForEach(each), Some(items)) = (&step.verb, &items)
                    && let Some(item) = items.get(index)
                {
                    super::loops::bind_item(scope, each, index, item);
                }
                if !self.replay_block(list.block, scope, &context.turn(index)) {
                    break;
                }
            }
        }
        if let OnError::Steps(block) = &step.on_error {
            self.replay_block(block, scope, context);
        }
    }

    /// The items of a loop that has ended, where undoing what is inside it may read them.
    fn items_again(&self, step: &Step, scope: &Scope) -> Option<Vec<Value>> {
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

    /// Replays what is recorded of a list of steps; false if nothing is.
    fn replay_block(&self, block: &Block, scope: &mut Scope, context: &Context) -> bool {
        let mut any = false;
        for inner in &block.steps {
            if let Some(outcome) = self.journal.finished(&context.key(&inner.id)) {
                any = true;
                // What it ended is behind us.
                let _ = self.replay(inner, outcome, scope, context);
            }
        }
        any
    }

    /// Whether the next step may begin, and that it does so now: a look at the clock costs as much as a small step.
    fn may_go_on(&self, context: &Context) -> Result<Steady, Exit> {
        if self.services.closing.is_cancelled() {
            return Err(Exit::Parked);
        }
        if self.cancelled.token.is_cancelled() && !context.closing {
            return Err(Exit::Cancelled);
        }
        let now = self.services.clock.steady_now();
        if now >= context.end || context.deadline.is_some_and(|(at, _)| now >= at) {
            let (at, depth) = self.deadline(context);
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
        if self.deployed.plan.is_read(&step.id) {
            let waits = matches!(step.verb, Verb::WaitFor(_));
            scope.set_step(&step.id, results, error, waits.then(|| self.journal.timed_out(key)));
        }
    }

    async fn keep_journal_light(&self) -> Result<(), Exit> {
        if self.journal.wants_commit() { self.journal.commit().await } else { Ok(()) }
    }

    /// Ends what pauses in a step of which a try has failed: another try pauses anew.
    fn abandon_inside(&self, step: &Step, key: &str) {
        if step.verb.lists().is_empty() {
            self.abandon(|other| other == key);
        } else {
            let inside = journal::Inside::of_all(&self.deployed.automation);
            self.abandon(inside.of(key));
        }
    }

    fn took_us(&self, began: Steady) -> u64 {
        let took = self.services.clock.steady_now().since(began);
        u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
    }
}

/// True if the step calls an action.
fn is_call(step: &Step) -> bool {
    matches!(step.verb, Verb::Action(_))
}

/// Whether a try of the step may go on over a pause that outlives the process.
fn spans_pauses(step: &Step) -> bool {
    matches!(step.verb, Verb::Wait(_) | Verb::Call(_)) || !step.verb.lists().is_empty()
}
