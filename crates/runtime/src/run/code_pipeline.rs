//! Speculative execution of code steps. Consecutive code steps are sent to a worker together, and each result is passed
//! to the next step there. The walk takes each result when it reaches the step; if it takes another path, the rest is
//! dropped. Code has no effect, so only worker time is lost.

use std::sync::Arc;
use std::time::Duration;

use model::automation::Step;
use script::{
    Call, Context as CodeContext, Error, Kind, Module, ModuleInfo, Outcome, Sequence, SequenceCall,
};
use value::{Map, Value};

use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::clock::MonotonicTime;
use crate::native::CodeState;
use catalog::{AnalysisResult, Workers};
use catalog::{CodePlan, Loop};

/// The bytes of external files that one run of code can read.
const MAX_FILES: usize = 6 << 20;
/// Default time limit of code without a `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a code call.
pub(super) type CodeResult = Result<Outcome, Error>;

/// Code calls that run ahead of the walk.
pub(crate) struct CodePipeline {
    runs: Sequence,
    /// The steps of these calls, the next one last.
    steps: Vec<Arc<str>>,
    began: MonotonicTime,
}

/// A prepared code call.
struct PreparedCall<'plan> {
    id: &'plan Arc<str>,
    module: &'plan Module,
    results: Value,
    /// Names under which the results of earlier calls are inserted into `results`, with the indices of those calls.
    earlier: Vec<(Arc<str>, usize)>,
    deadline: Duration,
}

impl Run {
    /// Returns the result of a step's code if it has already arrived. Does not wait.
    pub(super) fn take_if_arrived(&self, step: &Step, scope: &mut Scope) -> Option<CodeResult> {
        let mut pipeline =
            scope.pipeline.take_if(|pipeline| pipeline.steps.last().is_some_and(|next| *next == step.id))?;
        match pipeline.runs.arrived() {
            Some(ran) => self.advance_pipeline(pipeline, ran.transpose(), scope),
            None => {
                scope.pipeline = Some(pipeline);
                None
            }
        }
    }

    /// Returns the result of a step's code if it was sent ahead.
    pub(super) async fn next_from_pipeline(
        &self,
        step: &Step,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Option<CodeResult>, Exit> {
        let Some(mut pipeline) = scope.pipeline.take() else { return Ok(None) };
        if pipeline.steps.last().is_none_or(|next| *next != step.id) {
            return Ok(None);
        }
        let _computing = self.activity.compute();
        let next = async { Ok(pipeline.runs.next().await) };
        let ran = self.bounded(step, frame, next).await?.map_err(failed)?.transpose();
        Ok(self.advance_pipeline(pipeline, ran, scope))
    }

    /// Keeps the remaining calls for the next step if this one has a result.
    fn advance_pipeline(
        &self,
        mut pipeline: CodePipeline,
        ran: Option<CodeResult>,
        scope: &mut Scope,
    ) -> Option<CodeResult> {
        if let Some(Ok(outcome)) = &ran {
            // Limited to the elapsed time on the clock: in a test it stands still.
            let passed = self.context.clock.monotonic_now().since(pipeline.began);
            scope.pipelined_us = u64::try_from(outcome.took.min(passed).as_micros()).unwrap_or(u64::MAX);
            pipeline.steps.pop();
            scope.pipeline = Some(pipeline);
        }
        ran
    }

    /// Runs the code of a step and sends the code of the following steps ahead where possible.
    pub(super) async fn run_code(
        &self,
        step: &Step,
        (plan, module): (&CodePlan, &Module),
        facts: &ModuleInfo,
        state: &CodeState,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<CodeResult, Exit> {
        let (began, (end, _)) = (self.context.clock.monotonic_now(), self.deadline(frame));
        let left = end.since(began);
        let (results, _) = step_results(scope, plan, frame, facts, &[]);
        let own = frame.timeout(step).unwrap_or(DEFAULT_TIMEOUT);
        let deadline = own.min(left).max(Duration::from_millis(1));
        let mut parts = vec![PreparedCall { id: &step.id, module, results, earlier: Vec::new(), deadline }];
        let config_vars = scope.root().get("configVars").unwrap_or_default();
        // Code that writes state needs a commit before the next step runs.
        if facts.state.is_empty() {
            self.add_followers(&mut parts, plan, left, &config_vars, scope, frame);
        }
        // Each message has the files that code can read, which are loaded while it is made.
        let files = parts.iter().map(|part| part.results.external_bytes().min(MAX_FILES)).sum::<usize>();
        let _memory = self.reserve_to_load(files.saturating_mul(2), &step.id, frame).await?;
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
            SequenceCall { call, earlier: &part.earlier }
        });
        let members: Vec<SequenceCall<'_>> = members.collect();
        let _computing = self.activity.compute();
        let run = async { Ok(Workers::shared().pool().run_sequence(&members).await) };
        let ran = self.bounded(step, frame, run).await?.map_err(failed)?;
        Ok(ran.map(|(outcome, runs)| {
            if runs.left() > 0 {
                let steps = parts[1..=runs.left()].iter().rev().map(|part| part.id.clone()).collect();
                scope.pipeline = Some(CodePipeline { runs, steps, began });
            }
            outcome
        }))
    }

    /// Adds the code of the following steps, up to the first one whose input is not yet known.
    fn add_followers<'plan>(
        &'plan self,
        parts: &mut Vec<PreparedCall<'plan>>,
        plan: &'plan CodePlan,
        left: Duration,
        config_vars: &Value,
        scope: &Scope,
        frame: &Frame,
    ) {
        let common = config_vars.estimated_size(Sequence::MAX_BYTES);
        let weigh = |results: &Value| common.saturating_add(results.estimated_size(Sequence::MAX_BYTES));
        let mut weight = weigh(&parts[0].results);
        let mut before: Vec<Arc<str>> = vec![parts[0].id.clone()];
        for id in plan.followers().iter().take(Sequence::MAX_CALLS - 1) {
            let Some((plan, module, verdict)) = self.analysed_code(id) else { return };
            let Ok(facts) = verdict.as_ref() else { return };
            let deadline = plan.timeout.unwrap_or(DEFAULT_TIMEOUT);
            // Each step keeps its own time limit, whenever its code starts.
            let has_time = left >= deadline + Workers::shared().pool().together();
            if !facts.state.is_empty() || !has_time {
                return;
            }
            let (results, earlier) = step_results(scope, plan, frame, facts, &before);
            weight = weight.saturating_add(weigh(&results));
            // Results are masked before other steps read them, and a worker does not know the secrets.
            let may_read = earlier.is_empty() || self.journal.needs_no_redaction();
            if weight > Sequence::MAX_BYTES || !may_read {
                return;
            }
            before.push(id.clone());
            parts.push(PreparedCall { id, module, results, earlier, deadline });
        }
    }

    /// Returns the code of a step if its module has already been analysed.
    fn analysed_code(&self, id: &str) -> Option<(&CodePlan, &Module, Arc<AnalysisResult>)> {
        let plan = self.deployment.plan.code().step(id)?;
        let module = plan.module.as_ref()?;
        Some((plan, module, Workers::shared().cached(module)?))
    }
}

/// Builds `stepResults`: the results of earlier steps, the trigger under `trigger`, and the item of each surrounding
/// loop under the loop's id. Reduced to the paths that the code reads, if they are known. Earlier steps of the same
/// batch have only their keys; they are also returned with their indices in the batch.
fn step_results(
    scope: &Scope,
    plan: &CodePlan,
    frame: &Frame,
    facts: &ModuleInfo,
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
    let around = plan.loops.iter().zip(frame.indices()).map(turn).chain([trigger]);
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
            kept.insert(id.as_str(), project(&value, &subpaths(&paths, id)));
        }
    }
    (Value::from(kept), earlier)
}

/// Returns the remainders of the paths that start with a name.
fn subpaths<'paths>(paths: &[&'paths [String]], name: &str) -> Vec<&'paths [String]> {
    let inside = paths.iter().filter(|path| path.first().is_some_and(|first| first == name));
    inside.map(|path| &path[1..]).collect()
}

/// Returns the part of a path that goes through data, up to the first method or property that every object has.
fn data(path: &[String]) -> &[String] {
    const METHODS: [&str; 6] =
        ["hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"];
    let end = path.iter().position(|name| METHODS.contains(&name.as_str())).unwrap_or(path.len());
    &path[..end]
}

/// Copies a value with only the map entries that these paths need.
fn project(value: &Value, paths: &[&[String]]) -> Value {
    let Value::Map(map) = value else { return value.clone() };
    if paths.iter().any(|path| path.is_empty()) {
        return value.clone();
    }
    let mut kept = Map::new();
    for (name, inner) in map.iter() {
        let below = subpaths(paths, name);
        if !below.is_empty() {
            kept.insert(name.clone(), project(inner, &below));
        }
    }
    Value::from(kept)
}
