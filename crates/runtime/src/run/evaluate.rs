//! Evaluates the expressions of steps: inline if they are short, else on another thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use expression::template::Template;
use expression::{EvalClock, EvaluationError, Expression};
use model::action::{ActionError, ActionSpec, ErrorKind};
use model::automation::SpannedName;
use model::execution::Origin;
use value::{Budget, Map, Value};

use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::evaluator::{Inline, evaluate_url, inline};
use crate::inputs::is_address;

/// Work of a pure step without its expressions, in the units of a [`Budget`].
const STEP_WORK: u64 = 500;
/// Work after which the task yields to others: about ten milliseconds.
const YIELD_WORK: u64 = 2_000_000;

/// A function that evaluates a `T` with the variables in scope.
type EvalFn<T> = fn(&T, &Value, Option<&Arc<dyn EvalClock>>, &Budget) -> Result<Value, EvaluationError>;

impl Run {
    /// Evaluates a template. `place` names it in errors.
    pub(super) async fn evaluate(
        &self,
        template: &Template,
        scope: &Scope,
        place: &str,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let value = self.evaluate_by(template, Template::evaluate_with_clock, scope, frame).await?;
        value.map_err(|error| failed(expression_error(&error, place)))
    }

    /// Evaluates an expression like [`Run::evaluate`].
    pub(super) async fn evaluate_expression(
        &self,
        expression: &Expression,
        scope: &Scope,
        place: &str,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let value = self.evaluate_by(expression, Expression::evaluate_with_clock, scope, frame).await?;
        value.map_err(|error| failed(expression_error(&error, place)))
    }

    async fn evaluate_by<T: Clone + Send + 'static>(
        &self,
        evaluated: &T,
        way: EvalFn<T>,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Result<Value, EvaluationError>, Exit> {
        let (root, moment) = scope.names();
        let value = match inline(moment, |budget| way(evaluated, root, moment, budget)) {
            Inline::Done(value, work) => {
                self.count_work(work);
                value
            }
            Inline::TooShort => {
                let (evaluated, root, moment) = (evaluated.clone(), root.clone(), moment.cloned());
                let long = move |budget: &Budget| way(&evaluated, &root, moment.as_ref(), budget);
                Box::pin(self.evaluate_long(frame, scope.held(), long)).await?
            }
        };
        self.context.evaluator.counters.note(&value);
        Ok(value)
    }

    /// Evaluates inputs by name. `spec` declares them; `None` for the inputs of another Automation.
    pub(super) async fn evaluate_inputs(
        &self,
        with: &[(SpannedName, Template)],
        spec: Option<&ActionSpec>,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Map, Exit> {
        let mut inputs = Map::with_capacity(with.len());
        for (name, template) in with {
            let is_address = spec.is_some_and(|spec| is_address(spec, &name.name, template));
            let way: EvalFn<Template> = if is_address { evaluate_url } else { Template::evaluate_with_clock };
            let value = self.evaluate_by(template, way, scope, frame).await?;
            let value =
                value.map_err(|error| failed(expression_error(&error, &format!("input `{}`", name.name))))?;
            inputs.insert(name.name.as_str(), value);
        }
        Ok(inputs)
    }

    /// Evaluates a condition like [`Run::evaluate`].
    pub(super) async fn condition_holds(
        &self,
        condition: &Expression,
        scope: &Scope,
        place: &str,
        frame: &Frame,
    ) -> Result<bool, Exit> {
        self.evaluate_expression(condition, scope, place, frame).await.map(|value| value.is_truthy())
    }

    /// Evaluates on another thread until a deadline, a cancellation or the end of the daemon's grace period.
    ///
    /// Reserves memory for the largest possible result first, in addition to the `held` bytes of the execution's
    /// variables and its trigger.
    async fn evaluate_long(
        &self,
        frame: &Frame,
        held: usize,
        work: impl FnOnce(&Budget) -> Result<Value, EvaluationError> + Send + 'static,
    ) -> Result<Result<Value, EvaluationError>, Exit> {
        // Committed first, as before code: the caller of an asynchronous webhook does not wait for the evaluation.
        frame.commit_wait.measure(&*self.context.clock, self.journal.commit()).await?;
        let largest = self.context.settings.limits.result_bytes;
        let held = held.saturating_add(self.trigger_memory);
        self.reserve_memory(frame, held.saturating_add(largest)).await?;
        let value = self.evaluate_elsewhere(frame, work).await?;
        let bytes = value.as_ref().map_or(0, |value| value.estimated_size(largest));
        self.context.memory.resize_at_once(&self.memory, held.saturating_add(bytes));
        Ok(value)
    }

    /// Waits until the execution may use this many bytes for large values. If another execution waits for this one, it
    /// does not wait.
    async fn reserve_memory(&self, frame: &Frame, bytes: usize) -> Result<(), Exit> {
        let memory = &self.context.memory;
        if matches!(self.origin, Origin::Call { .. }) {
            memory.resize_at_once(&self.memory, bytes);
            return Ok(());
        }
        tokio::select! {
            biased;
            () = memory.resize(&self.memory, bytes) => Ok(()),
            exit = self.interruption(frame) => Err(exit),
        }
    }

    async fn evaluate_elsewhere<T: Send + 'static>(
        &self,
        frame: &Frame,
        work: impl FnOnce(&Budget) -> Result<T, EvaluationError> + Send + 'static,
    ) -> Result<Result<T, EvaluationError>, Exit> {
        if self.observation.is_some() {
            // The crash record names an execution only while a thread polls it. So an interrupted execution evaluates
            // on its own thread.
            return Ok(crate::evaluator::in_place(work));
        }
        // The test clock stands still meanwhile.
        let _elsewhere = self.context.doubles.as_ref().map(|doubles| doubles.track_offloaded_work());
        tokio::select! {
            biased;
            value = self.context.evaluator.long(work) => Ok(value),
            exit = self.interruption(frame) => Err(exit),
        }
    }

    /// Completes with the reason when the step must stop: a cancellation, a deadline, or the end of the daemon's grace
    /// period.
    pub(super) async fn interruption(&self, frame: &Frame) -> Exit {
        tokio::select! {
            biased;
            () = self.cancellation(Some(frame)) => Exit::Cancelled,
            () = self.context.abort.cancelled() => Exit::ShuttingDown,
            exit = self.expiry(Some(frame)) => exit,
        }
    }

    /// Yields to other tasks after a few milliseconds of pure steps. Commits an execution that is not accepted yet, so
    /// that the caller of an asynchronous webhook does not wait for its steps.
    pub(super) async fn yield_if_due(&self) -> Result<(), Exit> {
        if self.count_work(STEP_WORK) < YIELD_WORK {
            return Ok(());
        }
        self.stretch.store(0, Ordering::Relaxed);
        self.journal.commit().await?;
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Counts work on a runtime thread and returns the total since the last yield.
    fn count_work(&self, units: u64) -> u64 {
        self.stretch.fetch_add(units, Ordering::Relaxed) + units
    }
}

/// Converts an evaluation error to a step error.
pub fn expression_error(error: &EvaluationError, place: &str) -> ActionError {
    let kind = if error.exceeded.is_some() { ErrorKind::Limit } else { ErrorKind::Expression };
    ActionError::new(kind, format!("{place}: {error}"))
}
