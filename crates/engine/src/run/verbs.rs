//! What each verb does. To add one: a variant of `model::Verb`, and an arm here; what takes more than a few lines has a
//! file of its own beside this one.

use std::sync::Arc;

use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{Step, SwitchStep, Verb};
use model::template::Template;
use model::value::{Map, Value};

use super::scope::Scope;
use super::step::Context;
use super::{Exit, Run, expression_error};

impl Run {
    /// One try of a step.
    pub(super) async fn verb(
        &self,
        step: &Step,
        key: &str,
        attempt: u32,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        match &step.verb {
            // What is large is apart, so that a small step moves little.
            Verb::Action(call) => Box::pin(self.action(step, call, key, attempt, scope, context)).await,
            Verb::Code(code) => match self.code_ahead(step, code, key, scope).transpose()? {
                Some((value, None)) => Ok(value),
                Some((value, Some(response))) => {
                    Box::pin(self.answer_of_code(response)).await.map(|()| value)
                }
                None => Box::pin(self.code(step, code, key, scope, context)).await,
            },
            Verb::Set(values) => self.set(values, scope),
            Verb::If(branch) => {
                let taken = holds(&branch.condition, scope)?;
                match (taken, &branch.otherwise) {
                    (true, _) => self.block(&branch.then, scope, context).await,
                    (false, Some(otherwise)) => self.block(otherwise, scope, context).await,
                    (false, None) => Ok(Value::Null),
                }
            }
            Verb::Switch(switch) => self.switch(switch, scope, context).await,
            Verb::ForEach(each) => self.for_each(each, scope, context).await,
            Verb::Repeat(repeat) => self.repeat(step, repeat, scope, context).await,
            Verb::Parallel(branches) => self.parallel(branches, scope, context).await,
            Verb::Group(block) => self.block(block, scope, context).await,
            Verb::Call(call) => Box::pin(self.call(step, call, key, attempt, scope, context)).await,
            Verb::Wait(wait) => self.wait(wait, key, scope, context).await,
            Verb::WaitFor(wait) => self.wait_for(step, wait, key, scope, context).await,
            Verb::Respond(respond) => self.respond(respond, scope).await,
            Verb::Break => Err(Exit::Break),
            Verb::Continue => Err(Exit::Continue),
            Verb::Stop { result } => Err(Exit::Stop(evaluate(result, scope, "stop")?)),
            Verb::Fail { message } => {
                let message = evaluate(message, scope, "fail")?.to_text();
                Err(Exit::Failed(ActionError::new(ErrorKind::Failed, message)))
            }
        }
    }

    /// What doing the step again could do to the world.
    pub(super) fn effect(&self, step: &Step) -> Effect {
        match &step.verb {
            Verb::Action(call) => self.action_effect(call),
            // What came, and that nothing came in time, is so for good.
            Verb::Call(_) | Verb::Wait(_) | Verb::WaitFor(_) => Effect::Write,
            // What a block does outside, its own steps have recorded.
            _ => Effect::Pure,
        }
    }

    fn set(&self, values: &[(Arc<str>, Template)], scope: &mut Scope) -> Result<Value, Exit> {
        let mut evaluated = Map::with_capacity(values.len());
        for (name, template) in values {
            // Hidden before anybody reads it: what is read after a restart comes from the log.
            let value = self.journal.hidden(evaluate(template, scope, name)?);
            evaluated.insert(name.clone(), value);
        }
        scope.set_vars(&evaluated);
        Ok(Value::from(evaluated))
    }

    async fn switch(&self, switch: &SwitchStep, scope: &mut Scope, context: &Context) -> Result<Value, Exit> {
        let value = scope.evaluate_expression(&switch.value);
        let value = value.map_err(|error| failed(expression_error(&error, "switch")))?;
        let text = match &value {
            Value::List(_) | Value::Map(_) | Value::File(_) => None,
            Value::Null => Some("null".to_owned()),
            scalar => Some(scalar.to_text()),
        };
        let case = switch.cases.iter().find(|(name, _)| Some(&name.name) == text.as_ref());
        match case.map(|(_, block)| block).or(switch.default.as_ref()) {
            Some(block) => self.block(block, scope, context).await,
            None => Ok(Value::Null),
        }
    }
}

fn holds(condition: &model::Expression, scope: &Scope) -> Result<bool, Exit> {
    scope.holds(condition).map_err(|error| failed(expression_error(&error, "if")))
}

pub(super) fn evaluate(template: &Template, scope: &Scope, place: &str) -> Result<Value, Exit> {
    scope.evaluate(template).map_err(|error| failed(expression_error(&error, place)))
}

pub(super) fn failed(error: ActionError) -> Exit {
    Exit::Failed(error)
}
