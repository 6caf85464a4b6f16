//! Code that runs ahead: steps of code that follow one another go to a worker together, which hands the result of each to
//! the next. The walk takes each result when it comes to the step, and what led elsewhere meanwhile drops the rest:
//! code has no effect, so nothing is lost but a worker.

use std::sync::Arc;
use std::time::Duration;

use model::automation::Step;
use model::value::{Map, Value};
use script::{Call, Context as CodeContext, Error, Facts, Kind, Member, Module, Outcome, Sequence};

use super::scope::Scope;
use super::step::Context;
use super::verbs::failed;
use super::{Exit, Run};
use crate::clock::Steady;
use crate::code::{Verdict, Workers};
use crate::native::CodeState;
use crate::plan::{CodePlan, Loop};

/// How long code may take where its step has no `timeout`.
const USUAL_TIME: Duration = Duration::from_secs(10);

/// What became of a run of code.
pub(super) type Ran = Result<Outcome, Error>;

/// Code that runs ahead of the walk.
pub(crate) struct Ahead {
    runs: Sequence,
    /// The steps that it runs for, the next one last.
    steps: Vec<Arc<str>>,
    began: Steady,
}

/// A run of code, before it is sent.
struct Part<'plan> {
    id: &'plan Arc<str>,
    module: &'plan Module,
    results: Value,
    /// Where results of the runs before it belong in `results`, with the places of those runs.
    earlier: Vec<(Arc<str>, usize)>,
    deadline: Duration,
}

impl Run {
    /// What the code of this step gave, if it has run ahead and that is here: nothing is waited for.
    pub(super) fn has_arrived(&self, step: &Step, scope: &mut Scope) -> Option<Ran> {
        let mut ahead =
            scope.ahead.take_if(|ahead| ahead.steps.last().is_some_and(|next| *next == step.id))?;
        match ahead.runs.arrived() {
            Some(ran) => self.goes_on(ahead, ran.transpose(), scope),
            None => {
                scope.ahead = Some(ahead);
                None
            }
        }
    }

    /// What the code of this step gave, if it has run ahead.
    pub(super) async fn ran_ahead(
        &self,
        step: &Step,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Option<Ran>, Exit> {
        let Some(mut ahead) = scope.ahead.take() else { return Ok(None) };
        if ahead.steps.last().is_none_or(|next| *next != step.id) {
            return Ok(None);
        }
        let _computing = self.activity.compute();
        let next = async { Ok(ahead.runs.next().await) };
        let ran = self.bounded(step, context, next).await?.map_err(failed)?.transpose();
        Ok(self.goes_on(ahead, ran, scope))
    }

    /// Keeps what has run ahead for the next step, if this one has a result.
    fn goes_on(&self, mut ahead: Ahead, ran: Option<Ran>, scope: &mut Scope) -> Option<Ran> {
        if let Some(Ok(outcome)) = &ran {
            // Its own time, but no more than has passed: in a test none does.
            let passed = self.services.clock.steady_now().since(ahead.began);
            scope.ran_ahead_us = u64::try_from(outcome.took.min(passed).as_micros()).unwrap_or(u64::MAX);
            ahead.steps.pop();
            scope.ahead = Some(ahead);
        }
        ran
    }

    /// Runs the code of a step, and has that of the steps behind it run ahead where nothing speaks against it.
    pub(super) async fn run_code(
        &self,
        step: &Step,
        (plan, module): (&CodePlan, &Module),
        facts: &Facts,
        state: &CodeState,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Ran, Exit> {
        let (began, (end, _)) = (self.services.clock.steady_now(), self.deadline(context));
        let left = end.since(began);
        let (results, _) = step_results(scope, plan, context, facts, &[]);
        let own = plan.timeout.unwrap_or(USUAL_TIME);
        let deadline = own.min(left).max(Duration::from_millis(1));
        let mut parts = vec![Part { id: &step.id, module, results, earlier: Vec::new(), deadline }];
        let config_vars = scope.root().get("configVars").unwrap_or_default();
        // Code that uses the state has what it writes committed before anything else happens.
        if facts.state.is_empty() {
            self.add_followers(&mut parts, plan, left, &config_vars, scope, context);
        }
        let (id, started_at) = (self.journal.id().to_string(), self.started_at.to_string());
        let members = parts.iter().map(|part| {
            let context = CodeContext {
                config_vars: &config_vars,
                execution_id: &id,
                step_id: Some(part.id),
                started_at: &started_at,
                state: state.values(),
            };
            let (module, argument, deadline) = (part.module, &part.results, part.deadline);
            let call = Call { module, kind: Kind::Step, context, argument, deadline };
            Member { call, earlier: &part.earlier }
        });
        let members: Vec<Member<'_>> = members.collect();
        let _computing = self.activity.compute();
        let run = async { Ok(Workers::shared().pool().run_sequence(&members).await) };
        let ran = self.bounded(step, context, run).await?.map_err(failed)?;
        Ok(ran.map(|(outcome, runs)| {
            if runs.left() > 0 {
                let steps = parts[1..=runs.left()].iter().rev().map(|part| part.id.clone()).collect();
                scope.ahead = Some(Ahead { runs, steps, began });
            }
            outcome
        }))
    }

    /// Adds the code of the steps that follow, as far as it is known now what it will be given.
    fn add_followers<'plan>(
        &'plan self,
        parts: &mut Vec<Part<'plan>>,
        plan: &'plan CodePlan,
        left: Duration,
        config_vars: &Value,
        scope: &Scope,
        context: &Context,
    ) {
        let common = config_vars.estimated_size(Sequence::MAX_BYTES);
        let weigh = |results: &Value| common.saturating_add(results.estimated_size(Sequence::MAX_BYTES));
        let mut weight = weigh(&parts[0].results);
        let mut before: Vec<Arc<str>> = vec![parts[0].id.clone()];
        for id in plan.followers().iter().take(Sequence::MAX_CALLS - 1) {
            let Some((plan, module, verdict)) = self.known_code(id) else { return };
            let Ok(facts) = verdict.as_ref() else { return };
            let deadline = plan.timeout.unwrap_or(USUAL_TIME);
            // Its time limit must be its own, whenever it is begun.
            let has_time = left >= deadline + Workers::shared().pool().together();
            if !facts.state.is_empty() || !has_time {
                return;
            }
            let (results, earlier) = step_results(scope, plan, context, facts, &before);
            weight = weight.saturating_add(weigh(&results));
            // Secrets are taken out of results before others read them, and a worker does not know what they are.
            let may_read = earlier.is_empty() || self.journal.has_nothing_to_hide();
            if weight > Sequence::MAX_BYTES || !may_read {
                return;
            }
            before.push(id.clone());
            parts.push(Part { id, module, results, earlier, deadline });
        }
    }

    /// The code of a step of which is known what it is made of.
    fn known_code(&self, id: &str) -> Option<(&CodePlan, &Module, Arc<Verdict>)> {
        let plan = self.deployed.plan.code().step(id)?;
        let module = plan.module.as_ref()?;
        Some((plan, module, Workers::shared().known(module)?))
    }
}

/// `stepResults`: what the steps before gave, the trigger under `trigger`, the turn of each loop around under the loop's
/// id. Only what the code reads is in it, where that can be told. Of the steps that run in the same sequence before it
/// only the keys are there, and given besides with their places in the sequence.
fn step_results(
    scope: &Scope,
    plan: &CodePlan,
    context: &Context,
    facts: &Facts,
    sequence: &[Arc<str>],
) -> (Value, Vec<(Arc<str>, usize)>) {
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
        sequence.iter().for_each(|id| drop(all.insert(id.clone(), Value::Null)));
        let hides = |id: &Arc<str>| around.iter().any(|(own, _)| own == id);
        let earlier = sequence.iter().enumerate().filter(|(_, id)| !hides(id));
        let earlier = earlier.map(|(place, id)| (id.clone(), place)).collect();
        around.iter().for_each(|(id, value)| drop(all.insert(id.clone(), value.clone())));
        return (Value::from(all), earlier);
    }
    let (mut kept, mut earlier) = (Map::new(), Vec::new());
    for id in paths.iter().filter_map(|path| path.first()) {
        let turn = around.iter().rev().find(|(own, _)| **own == **id).map(|(_, value)| value.clone());
        let place = sequence.iter().position(|own| **own == **id).filter(|_| turn.is_none());
        if let Some(place) = place {
            if !kept.contains_key(id) {
                kept.insert(id.as_str(), Value::Null);
                earlier.push((sequence[place].clone(), place));
            }
            continue;
        }
        let found = turn.or_else(|| steps.as_ref()?.get(id));
        if let Some(value) = found.filter(|_| !kept.contains_key(id)) {
            kept.insert(id.as_str(), only(&value, &below(&paths, id)));
        }
    }
    (Value::from(kept), earlier)
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
