//! Takes over the recorded outcomes of steps: after a restart, and for the undo lists of steps that were cut off.

use model::automation::{Block, BlockKind, OnError, Step, Verb};
use model::execution::StepOutcome;
use value::Value;

use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};

impl Run {
    /// Takes over the recorded outcome of a step, with the results of its inner steps.
    pub(super) fn replay(
        &self,
        step: &Step,
        outcome: StepOutcome,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        self.replay_inside(step, scope, frame);
        if let (Verb::Set(_), StepOutcome::Succeeded { result: Value::Map(values) }) = (&step.verb, &outcome)
        {
            scope.set_vars(values);
        }
        self.apply(step, &frame.key(&step.id), outcome, scope, frame)
    }

    /// Applies the outcome of a step to the variables.
    pub(super) fn apply(
        &self,
        step: &Step,
        key: &str,
        outcome: StepOutcome,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let succeeded = matches!(outcome, StepOutcome::Succeeded { .. });
        let result = match outcome {
            StepOutcome::Succeeded { result } => {
                self.set_step(scope, step, key, result.clone(), None, true);
                Ok(result)
            }
            StepOutcome::Jumped { by, result } => {
                self.clear_step(scope, step, key);
                Err(Exit::left(by, result))
            }
            StepOutcome::Skipped => {
                self.set_step(scope, step, key, Value::Null, None, false);
                Ok(Value::Null)
            }
            StepOutcome::Failed { error, handled: Some(result) } => {
                self.set_step(scope, step, key, result.clone(), Some(&error), false);
                Ok(result)
            }
            StepOutcome::Failed { error, handled: None } => {
                self.clear_step(scope, step, key);
                Err(Exit::Failed(error))
            }
        };
        self.record_undo(step, key, scope, frame, succeeded);
        result
    }

    /// Restores the results of steps inside a step, loops iteration by iteration. Returns true if something is recorded of them.
    pub(super) fn replay_inside(&self, step: &Step, scope: &mut Scope, frame: &Frame) -> bool {
        let mut any = false;
        for list in step.verb.nested_blocks() {
            match list.kind {
                BlockKind::Loop { .. } => {}
                BlockKind::Parallel { may_be_cut: true } => {
                    // Its variables stayed inside it.
                    any |= self.replay_block(list.block, &mut scope.fork(), frame);
                    continue;
                }
                _ => {
                    any |= self.replay_block(list.block, scope, frame);
                    continue;
                }
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
                let is_recorded = self.replay_block(list.block, scope, &frame.turn(index));
                any |= is_recorded;
                // Of iterations side by side, an earlier one may have come less far.
                if !is_recorded && items.as_ref().is_none_or(|items| index + 1 >= items.len()) {
                    break;
                }
            }
        }
        if let OnError::Steps(block) = &step.on_error {
            any |= self.replay_block(block, scope, frame);
        }
        any
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
    pub(super) fn replay_block(&self, block: &Block, scope: &mut Scope, frame: &Frame) -> bool {
        let mut any = false;
        for inner in &block.steps {
            let key = frame.key(&inner.id);
            if let Some(outcome) = self.journal.finished(&key) {
                any = true;
                // An exit taken by the recorded steps has already had its effect.
                let _ = self.replay(inner, outcome, scope, frame);
            } else if self.journal.is_ordered() {
                // A step that was cut off is undone if it has begun, and so are the steps that have ended inside it.
                any |= self.journal.has_begun(&key);
                self.record_undo(inner, &key, scope, frame, false);
                any |= self.replay_inside(inner, scope, frame);
            }
        }
        any
    }
}
