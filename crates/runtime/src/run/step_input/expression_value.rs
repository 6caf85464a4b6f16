//! Evaluates an expression with the values of a recorded execution, for editors: the value that it has where a step begins.

use expression::Expression;
use model::action::ActionError;
use model::execution::Event;
use store::ExecutionRow;
use text::diagnostic::Span;
use value::{Budget, Value};

use super::super::evaluate::expression_error;
use super::replay::Replay;
use super::{Began, Derivation, began};
use crate::records::Records;

/// The value of an expression in a recorded execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpressionValue {
    /// The value, with secrets masked, or the error of the evaluation.
    pub value: Result<Value, ActionError>,
    /// The step at whose beginning the value is read, with the index of each iteration around it; `None` for the end of the
    /// execution, if the step did not run in it.
    pub step: Option<String>,
}

impl Records {
    /// Evaluates an expression with the values that its execution had where the step `step` began: in its last iteration, and at
    /// the end of the execution if the step did not run. `None` if the version that ran is no longer known, or if `expression`
    /// does not compile.
    pub async fn expression_value(
        &self,
        row: &ExecutionRow,
        events: Vec<Event>,
        step: Option<&str>,
        expression: &str,
    ) -> Option<ExpressionValue> {
        let expression = Expression::compile(expression, Span::default()).ok()?;
        let deployment = self.deployment(&row.automation, row.definition).await.ok()?;
        let context = self.context.clone();
        let key = step.and_then(|step| last_key(&events, step)).map(str::to_owned);
        let id = row.id;
        let work = move |budget: &Budget| {
            let derivation = Derivation { context: &context, deployment: &deployment, id, events: &events };
            let began = key.as_deref().and_then(|key| Some((key, began(&events, key, None)?)));
            let value =
                derivation.value(&expression, began.as_ref().map(|(key, began)| (*key, began)), budget);
            ExpressionValue { value, step: began.map(|(key, _)| key.to_owned()) }
        };
        Some(self.context.evaluator.long(work).await)
    }
}

/// The key of the last started iteration of a step.
fn last_key<'e>(events: &'e [Event], id: &str) -> Option<&'e str> {
    events.iter().rev().find_map(|event| match event {
        Event::StepStarted { step, .. } | Event::StepFinished { step, .. } | Event::Waiting { step, .. }
            if step.split('[').next() == Some(id) =>
        {
            Some(step.as_str())
        }
        _ => None,
    })
}

impl Derivation<'_> {
    fn value(
        &self,
        expression: &Expression,
        at: Option<(&str, &Began)>,
        budget: &Budget,
    ) -> Result<Value, ActionError> {
        let mut known = None;
        if let Some((key, _)) = at {
            self.deployment.automation.walk(&mut |step| {
                if key.split('[').next() == Some(&*step.id) {
                    known = Some(step);
                }
            });
        }
        let redactor = &self.context.settings.redactor;
        let mut scope = match (known, at) {
            (Some(step), Some((key, began))) => {
                let replay = Replay::new(self.context, self.deployment, self.id, &self.events[..began.index]);
                let mut scope = replay.with_all_results().scope_at(step, key, budget)?;
                let state = self.events.iter().find_map(|event| match event {
                    Event::StepContextRecorded { step, state, .. } if step == key => Some(state),
                    _ => None,
                });
                if let Some(state) = state.filter(|state| !state.is_null()) {
                    scope.bind("state", state.clone());
                }
                scope
            }
            _ => {
                let replay = Replay::new(self.context, self.deployment, self.id, self.events);
                replay.with_all_results().scope_at_end()?
            }
        };
        scope.mask(&self.context.resume_tokens());
        let (root, clock) = scope.names();
        let value = expression.evaluate_with_clock(root, clock, budget);
        value
            .map(|value| redactor.redact_value(value))
            .map_err(|error| expression_error(&error, "this").redacted(redactor))
    }
}
