//! Dispatches the verbs of steps. To add one: a variant of `model::Verb`, and an arm here; longer implementations have
//! their own file next to this one.

use std::sync::Arc;

use expression::template::Template;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{FailStep, Step, SwitchCases, SwitchStep, Verb};
use value::{Map, Value};

use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};

/// Maximum memory of all variables of an execution, in units of the largest result.
const HELD_RESULTS: usize = 4;
/// Variables below this size in bytes are not counted.
const SMALL_VARIABLE: usize = 4096;

impl Run {
    /// Runs one attempt of a step.
    pub(super) async fn verb(
        &self,
        step: &Step,
        key: &str,
        attempt: u32,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        match &step.verb {
            // Boxed, so that the future of a small step stays small.
            Verb::Action(call) => Box::pin(self.action(step, call, key, attempt, scope, frame)).await,
            Verb::Code(code) => match self.code_from_pipeline(step, code, key, scope).transpose()? {
                Some(value) => Ok(value),
                None => Box::pin(self.code(step, code, key, scope, frame)).await,
            },
            Verb::Set(values) => self.set(values, scope, frame).await,
            Verb::If(branch) => {
                let taken = self.condition_holds(&branch.condition, scope, "if", frame).await?;
                match (taken, &branch.otherwise) {
                    (true, _) => self.block(&branch.then, scope, frame).await,
                    (false, Some(otherwise)) => self.block(otherwise, scope, frame).await,
                    (false, None) => Ok(Value::Null),
                }
            }
            Verb::Switch(switch) => self.switch(switch, scope, frame).await,
            Verb::ForEach(each) => self.for_each(each, key, scope, frame).await,
            Verb::Repeat(repeat) => self.repeat(step, repeat, scope, frame).await,
            Verb::Parallel(parallel) => match parallel.enough {
                Some(enough) => Box::pin(self.race(step, parallel, enough, key, scope, frame)).await,
                None => self.parallel(&parallel.branches, key, scope, frame).await,
            },
            Verb::Group(block) => self.block(block, scope, frame).await,
            Verb::Call(call) => Box::pin(self.call(step, call, key, attempt, scope, frame)).await,
            Verb::Wait(wait) => self.wait(wait, key, scope, frame).await,
            Verb::WaitFor(wait) => self.wait_for(step, wait, key, scope, frame).await,
            Verb::Respond(respond) => {
                Box::pin(self.decide_response(respond, scope, frame)).await.map(|()| Value::Null)
            }
            Verb::Break => Err(Exit::Break),
            Verb::Continue { result } => {
                let result = self.evaluate(result, scope, "continue", frame).await?;
                Err(Exit::Continue(self.within_limit(self.journal.redact_value(result))?))
            }
            Verb::Stop { result, respond } => {
                let result = self.evaluate(result, scope, "stop", frame).await?;
                if let Some(respond) = respond {
                    Box::pin(self.decide_response(respond, scope, frame)).await?;
                }
                Err(Exit::Stop(result))
            }
            Verb::Fail(fail) => Err(Exit::Failed(Box::pin(self.fail(fail, scope, frame)).await?)),
        }
    }

    /// Returns the effect of repeating the step.
    pub(super) fn effect(&self, step: &Step) -> Effect {
        match &step.verb {
            Verb::Action(call) => self.action_effect(call),
            // A received signal or an elapsed time limit must not be decided again.
            Verb::Call(_) | Verb::Wait(_) | Verb::WaitFor(_) => Effect::Write,
            // The inner steps of a block record their own effects.
            Verb::If(_)
            | Verb::Switch(_)
            | Verb::ForEach(_)
            | Verb::Repeat(_)
            | Verb::Parallel(_)
            | Verb::Group(_) => Effect::Pure,
            // Code reaches nothing outside its run: a repetition has no effect.
            Verb::Code(_) => Effect::Pure,
            // The result depends on values in the log only.
            Verb::Set(_)
            | Verb::Respond(_)
            | Verb::Break
            | Verb::Continue { .. }
            | Verb::Stop { .. }
            | Verb::Fail(_) => Effect::Pure,
        }
    }

    async fn set(
        &self,
        values: &[(Arc<str>, Template)],
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let mut evaluated = Map::with_capacity(values.len());
        for (name, template) in values {
            // Masked before other steps read it: after a restart the value comes from the log.
            let value = self.journal.redact_value(self.evaluate(template, scope, name, frame).await?);
            self.hold(name, template, &value, scope)?;
            evaluated.insert(name.clone(), value);
        }
        let evaluated = Arc::new(evaluated);
        let result = self.within_limit(Value::Map(evaluated.clone()))?;
        scope.set_vars(&evaluated);
        Ok(result)
    }

    /// Rejects a variable if the variables of the execution would use too much memory.
    fn hold(&self, name: &str, template: &Template, value: &Value, scope: &mut Scope) -> Result<(), Exit> {
        let limit = self.context.settings.limits.result_bytes.saturating_mul(HELD_RESULTS);
        // A plain reference shares its value and uses no further memory.
        let is_shared = match template {
            Template::Literal(_) => true,
            Template::Expression(expression) => expression.direct_path().is_some(),
            _ => false,
        };
        let bytes = if is_shared { 0 } else { value.estimated_size(limit) };
        let bytes = if bytes < SMALL_VARIABLE { 0 } else { bytes };
        if scope.hold(name, bytes) <= limit {
            return Ok(());
        }
        let limit = text::units::format_size(u64::try_from(limit).unwrap_or(u64::MAX));
        let message = format!("with `{name}` the variables of the execution take more than {limit}");
        Err(failed(ActionError::new(ErrorKind::Limit, message)))
    }

    /// Builds the error of `fail`, and decides its response if the caller has none yet.
    async fn fail(&self, fail: &FailStep, scope: &mut Scope, frame: &Frame) -> Result<ActionError, Exit> {
        let message = self.evaluate(&fail.message, scope, "fail", frame).await?;
        let mut error = explicit_failure(&message, scope);
        if let Some(kind) = &fail.kind {
            error.kind = kind.clone();
        }
        if let Some(status) = &fail.status {
            let status = self.evaluate(status, scope, "fail.status", frame).await?;
            let number = status.as_i64().and_then(|status| u16::try_from(status).ok());
            error.status = Some(number.filter(|status| (100..=599).contains(status)).ok_or_else(|| {
                let message =
                    format!("fail.status: expected a number from 100 to 599, found {}", status.to_text());
                failed(ActionError::new(ErrorKind::Input, message))
            })?);
        }
        if let Some(code) = &fail.code {
            let code = self.evaluate(code, scope, "fail.code", frame).await?;
            error.code = (!code.is_null()).then(|| code.to_text());
        }
        if let Some(data) = &fail.data {
            let data = self.evaluate(data, scope, "fail.data", frame).await?;
            if data.estimated_size(FailStep::MAX_DATA) > FailStep::MAX_DATA {
                let limit = text::units::format_size(FailStep::MAX_DATA as u64);
                let message = format!("fail.data: the data of an error are larger than {limit}");
                return Err(failed(ActionError::new(ErrorKind::Limit, message)));
            }
            error.data = Some(data);
        }
        // Another attempt, or a repetition after a crash, fails in the same way and answers no second time.
        if let Some(respond) = fail.respond.as_ref().filter(|_| self.journal.response().is_none()) {
            self.decide_response(respond, scope, frame).await?;
        }
        Ok(error)
    }

    async fn switch(&self, switch: &SwitchStep, scope: &mut Scope, frame: &Frame) -> Result<Value, Exit> {
        let case = match &switch.cases {
            SwitchCases::Values { value, cases } => {
                let value = self.evaluate_expression(value, scope, "switch", frame).await?;
                let text = match &value {
                    Value::List(_) | Value::Map(_) | Value::File(_) => None,
                    Value::Null => Some("null".to_owned()),
                    scalar => Some(scalar.to_text()),
                };
                cases.iter().find(|(name, _)| Some(&name.name) == text.as_ref()).map(|(_, block)| block)
            }
            SwitchCases::Conditions(cases) => {
                let mut taken = None;
                for case in cases {
                    if self.condition_holds(&case.condition, scope, "if", frame).await? {
                        taken = Some(&case.then);
                        break;
                    }
                }
                taken
            }
        };
        match case.or(switch.default.as_ref()) {
            Some(block) => self.block(block, scope, frame).await,
            None => Ok(Value::Null),
        }
    }
}

/// Builds the error of `fail`: a passed error as it is, or one with the given message. While an error is handled, the
/// message replaces its message, and its other fields stay.
fn explicit_failure(value: &Value, scope: &Scope) -> ActionError {
    if let Some(error) = ActionError::from_value(value) {
        return error;
    }
    let handled = scope.root().get("error").and_then(|error| ActionError::from_value(&error));
    let mut error = handled.unwrap_or_else(|| ActionError::new(ErrorKind::Failed, String::new()));
    error.message = value.to_text();
    error
}

pub(super) fn failed(error: ActionError) -> Exit {
    Exit::Failed(error)
}
