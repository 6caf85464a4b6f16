//! `code`: one run of an author's JavaScript.

use std::sync::Arc;
use std::time::Duration;

use model::action::{ActionError, CodePlace, ErrorKind};
use model::automation::{Automation, Code, Step};
use model::execution::LogLevel;
use model::value::{Map, Value};
use script::{Call, Context as CodeContext, Facts, Kind, Level, LogLine, Module, Outcome, Shape};

use super::scope::Scope;
use super::step::Context;
use super::verbs::failed;
use super::{Exit, Run};
use crate::code::{Verdict, Workers};
use crate::plan::{CodePlan, Loop};

/// How long code may take where its step has no `timeout`.
const USUAL_TIME: Duration = Duration::from_secs(10);

impl Run {
    pub(super) async fn code(
        &self,
        step: &Step,
        code: &Code,
        key: &str,
        scope: &Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let plan = self.deployed.plan.code().step(&step.id);
        let Some((plan, module)) = plan.and_then(|plan| Some((plan, plan.module.as_ref()?))) else {
            return Err(failed(ActionError::new(ErrorKind::Input, "the file of the code is not there")));
        };
        // In a test the clock stands still meanwhile.
        let _busy = self.services.doubles.as_ref().map(|doubles| doubles.elsewhere());
        let verdict = self.facts(module).await?;
        let facts = verdict.as_ref().as_ref().map_err(|errors| {
            let message = errors.first().map_or_else(String::new, ToString::to_string);
            failed(ActionError::new(ErrorKind::Input, message))
        })?;
        let state = self.code_state(facts).await?;
        let results = step_results(scope, plan, context, facts);
        let config_vars = scope.root().get("configVars").unwrap_or_default();
        let (id, started_at) = (self.journal.id().to_string(), self.started_at.to_string());
        let call = Call {
            module,
            kind: Kind::Step,
            context: CodeContext {
                config_vars: &config_vars,
                execution_id: &id,
                step_id: Some(&step.id),
                started_at: &started_at,
                state: state.values(),
            },
            argument: &results,
            deadline: self.time_for(step, context),
        };
        let run = async { Ok(Workers::shared().pool().run(call).await) };
        let outcome = match self.bounded(step, context, run).await? {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                self.code_log(key, error.logs());
                return Err(failed(to_action_error(&error, code, &self.deployed.automation)));
            }
            Err(error) => return Err(failed(error)),
        };
        self.code_log(key, &outcome.logs);
        self.finish_code(plan, key, outcome, state).await
    }

    /// What a module is made of.
    async fn facts(&self, module: &Module) -> Result<Arc<Verdict>, Exit> {
        let known = Workers::shared().facts(module).await;
        known.map_err(|error| failed(ActionError::new(ErrorKind::Internal, error.to_string())))
    }

    /// Takes over what the code gave: its result, what it wrote to the state, the answer to the caller.
    async fn finish_code(
        &self,
        plan: &CodePlan,
        key: &str,
        outcome: Outcome,
        state: crate::native::CodeState,
    ) -> Result<Value, Exit> {
        if outcome.shape == Shape::Nothing {
            self.journal.log(LogLevel::Warn, Some(key), "the code returned nothing, so its result is null");
        }
        let value = self.within_limit(outcome.value)?;
        self.write_code_state(state, &outcome.state)?;
        let is_answer = plan.answers && outcome.shape == Shape::Response && self.journal.response().is_none();
        if is_answer {
            let response = trigger::response::of_code(&value, &self.journal.id()).map_err(|error| {
                let message = format!("the code's answer: {error}");
                failed(ActionError::new(ErrorKind::Input, message))
            })?;
            let response = self.journal.hidden_response(response);
            self.journal.respond(response.clone());
            self.journal.commit().await?;
            self.progress.send_modify(|progress| progress.response = Some(response));
        }
        Ok(value)
    }

    /// The time that the code has: its step's, but no more than is left to what is around it.
    fn time_for(&self, step: &Step, context: &Context) -> Duration {
        let own = step.timeout.unwrap_or(USUAL_TIME);
        let (end, _) = self.deadline(context);
        let left = end.since(self.services.clock.steady_now());
        own.min(left).max(Duration::from_millis(1))
    }

    fn code_log(&self, key: &str, lines: &[LogLine]) {
        for line in lines {
            self.journal.log(level(line.level), Some(key), &line.message);
        }
    }
}

pub(crate) fn level(level: Level) -> LogLevel {
    match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

/// What failed, with its place in the author's file and the line that stands there.
pub(crate) fn to_action_error(error: &script::Error, code: &Code, automation: &Automation) -> ActionError {
    let kind = match error {
        script::Error::Thrown(_) => ErrorKind::Failed,
        script::Error::Overrun { .. } | script::Error::Waited { .. } => ErrorKind::Timeout,
        script::Error::OutOfMemory { .. } | script::Error::TooLarge { .. } | script::Error::Busy { .. } => {
            ErrorKind::Limit
        }
        script::Error::Worker { .. } | script::Error::Start(_) => ErrorKind::Internal,
    };
    let mut told = ActionError::new(kind, error.to_string());
    let Some(at) = error.at() else { return told };
    let (line, column) = (at.line as usize, at.column as usize);
    let (source, span) = code.place(automation, line, column);
    let place = source.place(span.start as usize);
    let text = code.text(automation).and_then(|text| text.lines().nth(line.saturating_sub(1)));
    told.place = Some(Box::new(CodePlace {
        file: source.path().to_owned(),
        line: place.line,
        column: place.column,
        text: shorten(text.unwrap_or_default().trim()),
    }));
    told
}

fn shorten(line: &str) -> String {
    const MOST: usize = 120;
    if line.chars().count() <= MOST {
        line.to_owned()
    } else {
        line.chars().take(MOST).chain(['…']).collect()
    }
}

/// `stepResults`: what the steps before gave, the trigger under `trigger`, the turn of each loop around under the loop's
/// id. Only what the code reads is in it, where that can be told.
fn step_results(scope: &Scope, plan: &CodePlan, context: &Context, facts: &Facts) -> Value {
    let root = scope.root();
    let steps = root.get("steps");
    let turn = |(Loop { id, item }, index): (&Loop, u64)| {
        let item = item.as_ref().and_then(|name| root.get(name)).unwrap_or_default();
        let turn = Map::from_iter([("currentItem", item), ("index", Value::from(index))]);
        (id.clone(), Value::from(turn))
    };
    let trigger = (Arc::from("trigger"), root.get("trigger").unwrap_or_default());
    let around = plan.loops.iter().zip(context.indices()).map(turn).chain([trigger]);
    let around: Vec<(Arc<str>, Value)> = around.collect();
    let paths: Vec<&[String]> = facts.references.iter().map(|reference| data(&reference.path)).collect();
    if facts.whole || paths.iter().any(|path| path.is_empty()) {
        let mut all = steps.and_then(|steps| steps.as_map().cloned()).unwrap_or_default();
        around.into_iter().for_each(|(id, value)| drop(all.insert(id, value)));
        return Value::from(all);
    }
    let mut kept = Map::new();
    for id in paths.iter().filter_map(|path| path.first()) {
        let turn = around.iter().rev().find(|(own, _)| **own == **id).map(|(_, value)| value.clone());
        let found = turn.or_else(|| steps.as_ref()?.get(id));
        if let Some(value) = found.filter(|_| !kept.contains_key(id)) {
            kept.insert(id.as_str(), only(&value, &below(&paths, id)));
        }
    }
    Value::from(kept)
}

/// What these paths lead to below a name.
fn below<'paths>(paths: &[&'paths [String]], name: &str) -> Vec<&'paths [String]> {
    let inside = paths.iter().filter(|path| path.first().is_some_and(|first| first == name));
    inside.map(|path| &path[1..]).collect()
}

/// A path as far as it leads through data: what every object can do is asked of the object as a whole.
fn data(path: &[String]) -> &[String] {
    const METHODS: [&str; 6] =
        ["hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"];
    let end = path.iter().position(|name| METHODS.contains(&name.as_str())).unwrap_or(path.len());
    &path[..end]
}

/// A value with nothing in its maps but what these paths lead to or through.
fn only(value: &Value, paths: &[&[String]]) -> Value {
    let Value::Map(map) = value else { return value.clone() };
    if paths.iter().any(|path| path.is_empty()) {
        return value.clone();
    }
    let mut kept = Map::new();
    for (name, inner) in map.iter() {
        let below = below(paths, name);
        if !below.is_empty() {
            kept.insert(name.clone(), only(inner, &below));
        }
    }
    Value::from(kept)
}
