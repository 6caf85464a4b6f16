//! What each verb does. To add one: a variant of `model::Verb`, and an arm here.

use std::sync::Arc;

use futures_util::FutureExt as _;
use model::action::{ActionError, ErrorKind};
use model::automation::{Block, ForEachStep, RespondBody, RespondStep, Step, Verb};
use model::template::Template;
use model::value::{Map, Value};
use trigger::response::{Body, Parts};

use super::block::Side;
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
            Verb::Action(call) => self.action(step, call, key, attempt, scope, context).await,
            Verb::Set(values) => set(values, scope),
            Verb::If(branch) => {
                let taken = holds(&branch.condition, scope)?;
                match (taken, &branch.otherwise) {
                    (true, _) => self.block(&branch.then, scope, context).await,
                    (false, Some(otherwise)) => self.block(otherwise, scope, context).await,
                    (false, None) => Ok(Value::Null),
                }
            }
            Verb::ForEach(each) => self.for_each(each, scope, context).await,
            Verb::Parallel(branches) => self.parallel(branches, scope, context).await,
            Verb::Respond(respond) => self.respond(respond, scope).await,
            Verb::Stop { result } => Err(Exit::Stop(evaluate(result, scope, "stop")?)),
            Verb::Fail { message } => {
                let message = evaluate(message, scope, "fail")?.to_text();
                Err(Exit::Failed(ActionError::new(ErrorKind::Failed, message)))
            }
        }
    }

    /// Whether doing the step again could change something outside.
    pub(super) fn has_effect(&self, step: &Step) -> bool {
        match &step.verb {
            Verb::Action(call) => self.action_effect(&call.action.name) != model::Effect::Pure,
            // What a block does outside, its own steps have recorded.
            _ => false,
        }
    }

    async fn for_each(
        &self,
        each: &ForEachStep,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let items = evaluate(&each.items, scope, "forEach")?;
        let Some(items) = items.as_list() else {
            let message = format!("`forEach` needs a list, found {}", items.kind());
            return Err(failed(ActionError::new(ErrorKind::Input, message)));
        };
        let limit = self.services.settings.limits.loop_turns;
        if items.len() > limit {
            let message =
                format!("`forEach` over {} items is beyond the limit of {limit} turns", items.len());
            return Err(failed(ActionError::new(ErrorKind::Limit, message)));
        }
        if each.concurrency <= 1 {
            return self.for_each_in_turn(each, items, scope, context).await;
        }
        let mut results: Vec<Option<(Scope, Value)>> =
            std::iter::repeat_with(|| None).take(items.len()).collect();
        let mut running = Side::new();
        let mut upcoming = items.iter().enumerate();
        loop {
            while running.len() < each.concurrency as usize && !running.parked() {
                let Some((index, item)) = upcoming.next() else { break };
                let mut branch = scope.fork();
                bind_item(&mut branch, each, index, item);
                let context = context.turn(index);
                running.push(
                    async move {
                        let value = self.turn(each, &mut branch, &context).await?;
                        // As in a graph: the other turns may take as long as they like.
                        self.journal.barrier().await?;
                        Ok((index, branch, value))
                    }
                    .boxed(),
                );
            }
            let Some((index, branch, value)) = running.next().await? else { break };
            results[index] = Some((branch, value));
        }
        let mut values = Vec::with_capacity(results.len());
        for (branch, value) in results.into_iter().flatten() {
            scope.merge(branch);
            values.push(value);
        }
        Ok(Value::from(values))
    }

    /// Turn after turn, so that what one names the next can read.
    async fn for_each_in_turn(
        &self,
        each: &ForEachStep,
        items: &[Value],
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let outer =
            [each.item.as_ref(), "item", "index"].map(|name| (name.to_owned(), scope.root().get(name)));
        let mut values = Vec::with_capacity(items.len().min(1024));
        let mut result = Ok(());
        for (index, item) in items.iter().enumerate() {
            bind_item(scope, each, index, item);
            match self.turn(each, scope, &context.turn(index)).await {
                Ok(value) => values.push(value),
                Err(exit) => {
                    result = Err(exit);
                    break;
                }
            }
        }
        for (name, value) in outer {
            match value {
                Some(value) => scope.bind(&name, value),
                None => scope.unbind(&name),
            }
        }
        result.map(|()| Value::from(values))
    }

    async fn turn(&self, each: &ForEachStep, scope: &mut Scope, context: &Context) -> Result<Value, Exit> {
        match self.block(&each.steps, scope, context).await {
            Err(Exit::Failed(error)) if !each.fail_fast => {
                Ok(Value::from(Map::from_iter([("error", error.to_value())])))
            }
            result => result,
        }
    }

    async fn parallel(
        &self,
        branches: &[(Arc<str>, Block)],
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let mut running = Side::new();
        for (index, (_, block)) in branches.iter().enumerate() {
            let mut branch = scope.fork();
            running.push(
                async move {
                    let value = self.block(block, &mut branch, context).await?;
                    // As in a graph: the other branches may take as long as they like.
                    self.journal.barrier().await?;
                    Ok((index, branch, value))
                }
                .boxed(),
            );
        }
        let mut ended: Vec<Option<(Scope, Value)>> =
            std::iter::repeat_with(|| None).take(branches.len()).collect();
        while let Some((index, branch, value)) = running.next().await? {
            ended[index] = Some((branch, value));
        }
        let mut results = Map::with_capacity(branches.len());
        for ((name, _), (branch, value)) in branches.iter().zip(ended.into_iter().flatten()) {
            scope.merge(branch);
            results.insert(name.clone(), value);
        }
        Ok(Value::from(results))
    }

    /// Decides the caller's answer. It is sent once it is committed; what comes after goes on.
    async fn respond(&self, respond: &RespondStep, scope: &Scope) -> Result<Value, Exit> {
        if self.journal.response().is_some() {
            let message = "the caller has been answered already; only one `respond` may run";
            return Err(failed(ActionError::new(ErrorKind::Failed, message)));
        }
        let status = evaluate(&respond.status, scope, "respond.status")?;
        let content_type = respond.content_type.as_ref();
        let content_type =
            content_type.map(|template| evaluate(template, scope, "respond.contentType")).transpose()?;
        let headers = evaluate(&respond.headers, scope, "respond.headers")?;
        let body = match &respond.body {
            RespondBody::Empty => Body::Empty,
            RespondBody::Body(template) => Body::Any(evaluate(template, scope, "respond.body")?),
            RespondBody::Json(template) => Body::Json(evaluate(template, scope, "respond.json")?),
            RespondBody::File(template) => Body::File(evaluate(template, scope, "respond.file")?),
        };
        let parts = Parts { status, content_type: content_type.unwrap_or_default(), headers, body };
        let response = trigger::response::respond(&parts, &self.journal.id()).map_err(|error| {
            failed(ActionError::new(ErrorKind::Input, format!("respond.{}: {error}", error.part)))
        })?;
        self.journal.respond(response.clone());
        self.journal.commit().await?;
        self.progress.send_modify(|progress| progress.response = Some(response));
        Ok(Value::Null)
    }
}

fn set(values: &[(Arc<str>, Template)], scope: &mut Scope) -> Result<Value, Exit> {
    let mut evaluated = Map::with_capacity(values.len());
    for (name, template) in values {
        evaluated.insert(name.clone(), evaluate(template, scope, name)?);
    }
    scope.set_vars(&evaluated);
    Ok(Value::from(evaluated))
}

fn bind_item(scope: &mut Scope, each: &ForEachStep, index: usize, item: &Value) {
    scope.bind(&each.item, item.clone());
    if each.item.as_ref() != "item" {
        scope.bind("item", item.clone());
    }
    scope.bind("index", Value::from(index));
}

fn holds(condition: &model::Expression, scope: &Scope) -> Result<bool, Exit> {
    condition.holds(scope.root()).map_err(|error| failed(expression_error(&error, "if")))
}

pub(super) fn evaluate(template: &Template, scope: &Scope, place: &str) -> Result<Value, Exit> {
    template.evaluate(scope.root()).map_err(|error| failed(expression_error(&error, place)))
}

pub(super) fn failed(error: ActionError) -> Exit {
    Exit::Failed(error)
}
