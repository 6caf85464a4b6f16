//! Rebuilds the variables of a step from the log, as the walk had them when the step began.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::Deployment;
use expression::EvalClock;
use model::action::{ActionError, ErrorKind};
use model::automation::{Block, BlockKind, Handler, OnError, Step, Verb};
use model::execution::{Event, ExecutionId, History, Jump, Outcome, StepOutcome};
use value::{Budget, Value};

use super::super::determinism::StepClock;
use super::super::evaluate::expression_error;
use super::super::loops::bind_item;
use super::super::scope::{ExecutionFacts, Scope, StartData};
use crate::context::Context;

/// The events before the beginning of a step.
pub(super) struct Replay<'a> {
    context: &'a Context,
    deployment: &'a Deployment,
    id: ExecutionId,
    events: &'a [Event],
    history: History<'a>,
    /// The steps with a wait that timed out.
    timed_out: HashSet<&'a str>,
    /// True to bind the results that no expression of the version reads too.
    all_results: bool,
}

/// One list on the way to a step.
struct Hop<'a> {
    block: &'a Block,
    index: usize,
    entry: Entry<'a>,
}

/// The way from a step of a list to the next list, or the end of the way.
enum Entry<'a> {
    Here,
    Nested(BlockKind<'a>),
    Handler(Handler),
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        context: &'a Context,
        deployment: &'a Deployment,
        id: ExecutionId,
        events: &'a [Event],
    ) -> Self {
        let history = History::new(events);
        let timed_out = history.ended_waits().filter(|(_, end)| end.timed_out);
        let timed_out = timed_out.filter_map(|(wait, _)| wait.step).collect();
        Self { context, deployment, id, events, history, timed_out, all_results: false }
    }

    /// Binds the results that no expression of the version that ran reads too.
    pub(super) fn with_all_results(self) -> Self {
        Self { all_results: true, ..self }
    }

    /// The variables after the last event.
    pub(super) fn scope_at_end(&self) -> Result<Scope, ActionError> {
        let mut scope = self.at_start()?;
        self.apply(&self.deployment.automation.steps, None, "", &mut scope);
        Ok(scope)
    }

    /// The variables of a step when it began. `key` has the index of each iteration around it.
    pub(super) fn scope_at(&self, step: &Step, key: &str, budget: &Budget) -> Result<Scope, ActionError> {
        let automation = &self.deployment.automation;
        let mut scope = self.at_start()?;
        let turns: Vec<usize> = key.split(['[', ']']).skip(1).filter_map(|part| part.parse().ok()).collect();
        let lists = [Some(&automation.steps), automation.on_error.as_ref(), automation.finally.as_ref()];
        for (number, block) in lists.iter().copied().enumerate() {
            let Some(block) = block else { continue };
            let mut way = Vec::new();
            if !find(block, &step.id, &mut way) {
                continue;
            }
            if number > 0 {
                // Closing steps read what the others have left, and the error.
                self.apply(&automation.steps, None, "", &mut scope);
                if let Some(error) = self.history.closing {
                    scope.bind("error", error.to_value());
                }
                if number == lists.len() - 1 {
                    let outcome = self.outcome_at_end(&scope, budget)?;
                    scope.bind("outcome", outcome.to_value());
                }
            }
            self.follow(&way, &turns, &mut scope, budget)?;
            break;
        }
        Ok(scope)
    }

    /// The reason of the recorded cancellation.
    fn cancel_reason(&self) -> Option<&'a str> {
        self.events.iter().find_map(|event| match event {
            Event::Cancelling { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
    }

    /// The outcome of the execution as its `finally` read it.
    fn outcome_at_end(&self, scope: &Scope, budget: &Budget) -> Result<Outcome, ActionError> {
        if let Some(error) = self.history.closing {
            return Ok(Outcome::Failed { error: error.clone() });
        }
        if let Some(reason) = self.cancel_reason() {
            return Ok(Outcome::Cancelled { reason: reason.to_owned() });
        }
        let stopped = self.events.iter().rev().find_map(|event| match event {
            Event::StepFinished { outcome: StepOutcome::Jumped { by: Jump::Stop, result }, .. } => {
                Some(Outcome::Succeeded { result: result.clone() }).filter(|_| !result.is_null())
            }
            _ => None,
        });
        let automation = &self.deployment.automation;
        let last = || match automation.steps.steps.last().and_then(|step| self.outcome(&step.id)) {
            Some(StepOutcome::Succeeded { result } | StepOutcome::Failed { handled: Some(result), .. }) => {
                result.clone()
            }
            _ => Value::Null,
        };
        let result = match (&automation.outputs, stopped) {
            (_, Some(outcome)) => return Ok(outcome),
            (None, None) => last(),
            (Some(outputs), None) => {
                let result =
                    outputs.evaluate_with_clock(scope.root(), self.clock("outputs").as_ref(), budget);
                result.map_err(|error| expression_error(&error, "outputs"))?
            }
        };
        Ok(Outcome::Succeeded { result })
    }

    fn at_start(&self) -> Result<Scope, ActionError> {
        let automation = &self.deployment.automation;
        let config_vars = self.context.secrets.shown_config_vars(automation)?;
        let Some(start) = self.history.start else { return Ok(Scope::from_root(Value::Null)) };
        let attempt = self.history.attempt;
        let facts = ExecutionFacts { id: self.id, started_at: start.at, attempt, is_derived: true };
        let data = StartData {
            payload: start.payload,
            results: None,
            trigger: start.trigger,
            inputs: start.inputs.map(AsRef::as_ref),
        };
        Scope::at_start(self.context, self.deployment, data, config_vars, &facts)
    }

    /// Applies, list by list, the steps that had finished, on the way to the step.
    fn follow(
        &self,
        way: &[Hop<'a>],
        turns: &[usize],
        scope: &mut Scope,
        budget: &Budget,
    ) -> Result<(), ActionError> {
        let (mut suffix, mut turns) = (String::new(), turns.iter());
        for hop in way {
            let step = &hop.block.steps[hop.index];
            self.apply(hop.block, Some(hop.index), &suffix, scope);
            match &hop.entry {
                Entry::Here
                | Entry::Nested(BlockKind::Case { .. } | BlockKind::Sequence | BlockKind::Parallel { .. }) => {
                }
                Entry::Nested(BlockKind::Loop { in_order, .. }) => {
                    let turn = turns.next().copied().unwrap_or_default();
                    self.enter_loop(step, *in_order, turn, &suffix, scope, budget)?;
                    suffix.push_str(&format!("[{turn}]"));
                }
                Entry::Handler(Handler::OnError) => {
                    self.apply_inside(step, &suffix, scope);
                    let key = [&step.id, suffix.as_str()].concat();
                    if let Some(error) = self.failure(&key) {
                        scope.bind("error", error.to_value());
                    }
                }
                Entry::Handler(Handler::Finally) => {
                    self.apply_inside(step, &suffix, scope);
                    let key = [&step.id, suffix.as_str()].concat();
                    let outcome = self.events.iter().rev().find_map(|event| match event {
                        Event::StepClosing { step, outcome, .. } if *step == key => Some(outcome.to_value()),
                        _ => None,
                    });
                    if let Some(outcome) = outcome {
                        scope.bind("outcome", outcome);
                    }
                }
                Entry::Handler(Handler::Undo) => {
                    let key = [&step.id, suffix.as_str()].concat();
                    self.replay(step, &key, &suffix, scope);
                    let error = self.history.closing.cloned().or_else(|| {
                        let reason = self.cancel_reason()?;
                        Some(ActionError::new(ErrorKind::Cancelled, reason))
                    });
                    if let Some(error) = error {
                        scope.bind("error", error.to_value());
                    }
                }
            }
        }
        Ok(())
    }

    /// The error that the `onError` steps of a step read.
    fn failure(&self, key: &str) -> Option<&'a ActionError> {
        self.history.step(key)?.failure
    }

    /// Binds the item and the index of an iteration, after the earlier iterations if they ran in order.
    fn enter_loop(
        &self,
        step: &Step,
        in_order: bool,
        turn: usize,
        suffix: &str,
        scope: &mut Scope,
        budget: &Budget,
    ) -> Result<(), ActionError> {
        let item = match &step.verb {
            Verb::ForEach(each) => {
                let key = [&step.id, suffix].concat();
                let clock = self.clock(&key);
                let (root, _) = scope.names();
                let items = each.items.evaluate_with_clock(root, clock.as_ref(), budget);
                let items = items.map_err(|error| expression_error(&error, "forEach"))?;
                items.as_list().and_then(|items| items.get(turn)).cloned()
            }
            _ => None,
        };
        let blocks = step.verb.nested_blocks();
        if in_order && let Some(list) = blocks.first() {
            for earlier in 0..turn {
                self.apply(list.block, None, &format!("{suffix}[{earlier}]"), scope);
            }
        }
        match (&step.verb, item) {
            (Verb::ForEach(each), Some(item)) => bind_item(scope, each, turn, &item),
            _ => scope.bind("index", Value::from(turn)),
        }
        Ok(())
    }

    /// The clock and randomness of a step, from its record.
    fn clock(&self, key: &str) -> Option<Arc<dyn EvalClock>> {
        let at = self.events.iter().find_map(|event| match event {
            Event::StepContextRecorded { at, step, .. } if step == key => Some(*at),
            _ => None,
        })?;
        Some(StepClock::new(self.context.secret.clone(), self.id, key, at))
    }

    /// Applies the finished steps of a list in the order of their ends: those before `index` in a plain sequence, all others
    /// than `index` in a list with `needs`, all of them if there is no index.
    fn apply(&self, block: &Block, index: Option<usize>, suffix: &str, scope: &mut Scope) {
        let is_chain = self.deployment.plan.block(block).is_none_or(catalog::BlockGraph::is_chain);
        let mut ended: Vec<(usize, &Step, String)> = block
            .steps
            .iter()
            .enumerate()
            .filter(|(place, _)| {
                index.is_none_or(|index| if is_chain { *place < index } else { *place != index })
            })
            .filter_map(|(_, step)| {
                let key = [&step.id, suffix].concat();
                Some((self.history.step(&key)?.outcome_event?, step, key))
            })
            .collect();
        ended.sort_by_key(|(at, ..)| *at);
        for (_, step, key) in ended {
            self.replay(step, &key, suffix, scope);
        }
    }

    fn outcome(&self, key: &str) -> Option<&'a StepOutcome> {
        self.history.step(key)?.outcome
    }

    /// Applies one finished step, with the steps inside it.
    fn replay(&self, step: &Step, key: &str, suffix: &str, scope: &mut Scope) {
        self.apply_inside(step, suffix, scope);
        let Some(outcome) = self.outcome(key) else { return };
        match outcome {
            StepOutcome::Succeeded { result } => {
                if let (Verb::Set(_), Value::Map(values)) = (&step.verb, result) {
                    scope.set_vars(values);
                }
                self.set_step(step, key, (result.clone(), true), None, scope);
            }
            StepOutcome::Skipped => self.set_step(step, key, (Value::Null, false), None, scope),
            StepOutcome::Failed { error, handled: Some(result) } => {
                self.set_step(step, key, (result.clone(), false), Some(error), scope);
            }
            StepOutcome::Failed { handled: None, .. } | StepOutcome::Jumped { .. } => {
                if self.deployment.plan.is_success_read(&step.id) {
                    scope.clear_step(&step.id);
                }
            }
        }
    }

    /// Applies the finished steps inside a step, loops iteration by iteration.
    fn apply_inside(&self, step: &Step, suffix: &str, scope: &mut Scope) {
        for list in step.verb.nested_blocks() {
            if matches!(list.kind, BlockKind::Parallel { may_be_cut: true }) {
                continue;
            }
            if !matches!(list.kind, BlockKind::Loop { .. }) {
                self.apply(list.block, None, suffix, scope);
                continue;
            }
            for turn in 0..self.context.settings.limits.loop_turns {
                let inner = format!("{suffix}[{turn}]");
                let mut inside = list.block.steps.iter();
                if !inside.any(|step| self.outcome(&[&step.id, inner.as_str()].concat()).is_some()) {
                    break;
                }
                self.apply(list.block, None, &inner, scope);
            }
        }
        if let OnError::Steps(block) = &step.on_error {
            self.apply(block, None, suffix, scope);
        }
    }

    fn set_step(
        &self,
        step: &Step,
        key: &str,
        (result, succeeded): (Value, bool),
        error: Option<&ActionError>,
        scope: &mut Scope,
    ) {
        if self.all_results || self.deployment.plan.is_result_read(&step.id) {
            let waits = matches!(step.verb, Verb::WaitFor(_));
            let timed_out = waits.then(|| self.timed_out.contains(key));
            scope.set_step(&step.id, result, error, succeeded && timed_out != Some(true), timed_out);
        }
    }
}

/// Finds the way from a list to a step. `way` has the lists on it if there is one.
fn find<'a>(block: &'a Block, id: &str, way: &mut Vec<Hop<'a>>) -> bool {
    for (index, step) in block.steps.iter().enumerate() {
        if *step.id == *id {
            way.push(Hop { block, index, entry: Entry::Here });
            return true;
        }
        let nested = step.verb.nested_blocks().into_iter().map(|list| (list.block, Entry::Nested(list.kind)));
        let handlers = step.handlers().map(|(handler, block)| (block, Entry::Handler(handler)));
        for (inner, entry) in nested.chain(handlers) {
            way.push(Hop { block, index, entry });
            if find(inner, id, way) {
                return true;
            }
            way.pop();
        }
    }
    false
}
