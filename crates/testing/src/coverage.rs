//! Coverage of automations by tests: steps and branches reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::automation::{Automation, BlockKind, OnError, OnTimeout, Step, TriggerId, Verb};
use model::execution::{Event, StepOutcome, split_key};
use text::diagnostic::Span;

use crate::observed::ObservedSteps;
use crate::test_run::TestTrace;

/// Coverage of one automation.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Covered automation.
    pub automation: Arc<Automation>,
    /// All coverage goals in reading order, with their hits.
    pub goals: Vec<Goal>,
}

/// Step or branch that a test can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Step of the goal; `None` for a goal of the whole automation.
    pub step: Option<Arc<str>>,
    /// Position of the step, or of the trigger.
    pub span: Span,
    /// Kind of the goal.
    pub kind: GoalKind,
    /// Number of tests, or executions within a test, that reached it.
    pub hits: u64,
}

/// Kind of a coverage goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalKind {
    /// The step ran.
    Step,
    /// A branch was taken: `then`, `else`, a case, `skipped`, `onError`, `no iteration`, …
    Branch(String),
}

impl Coverage {
    /// Creates the coverage of an automation with no goal reached.
    #[must_use]
    pub fn empty(automation: &Arc<Automation>) -> Self {
        let mut goals = Vec::new();
        for trigger in automation.triggers.iter().filter(|trigger| trigger.condition.is_some()) {
            for branch in ["started", "filtered"] {
                goals.push(goal(None, trigger.span, trigger_branch(&trigger.id, branch)));
            }
        }
        automation.walk(&mut |step| {
            goals.push(goal(Some(step), step.span, GoalKind::Step));
            goals.extend(
                branches(step)
                    .into_iter()
                    .map(|branch| goal(Some(step), step.span, GoalKind::Branch(branch))),
            );
        });
        Self { automation: automation.clone(), goals }
    }

    /// Adds the hits of another test of the same automation.
    pub fn add(&mut self, other: &Self) {
        for (goal, more) in self.goals.iter_mut().zip(&other.goals) {
            goal.hits += more.hits;
        }
    }

    /// Returns the number of steps, and of reached steps.
    #[must_use]
    pub fn steps(&self) -> (usize, usize) {
        self.count(|kind| matches!(kind, GoalKind::Step))
    }

    /// Returns the number of branches, and of taken branches.
    #[must_use]
    pub fn branches(&self) -> (usize, usize) {
        self.count(|kind| matches!(kind, GoalKind::Branch(_)))
    }

    fn count(&self, of: impl Fn(&GoalKind) -> bool) -> (usize, usize) {
        let of: Vec<&Goal> = self.goals.iter().filter(|goal| of(&goal.kind)).collect();
        (of.len(), of.iter().filter(|goal| goal.hits > 0).count())
    }

    fn reach(&mut self, step: Option<&str>, kind: &GoalKind) {
        let found = self.goals.iter_mut().find(|goal| goal.step.as_deref() == step && goal.kind == *kind);
        if let Some(goal) = found {
            goal.hits += 1;
        }
    }

    fn take_branch(&mut self, step: &str, branch: &str) {
        self.reach(Some(step), &GoalKind::Branch(branch.to_owned()));
    }
}

fn goal(step: Option<&Step>, span: Span, kind: GoalKind) -> Goal {
    Goal { step: step.map(|step| step.id.clone()), span, kind, hits: 0 }
}

/// A branch of the condition of a trigger.
fn trigger_branch(trigger: &TriggerId, branch: &str) -> GoalKind {
    GoalKind::Branch(match trigger.is_main() {
        true => branch.to_owned(),
        false => format!("{trigger}: {branch}"),
    })
}

/// Returns the branches of a step, beside running it.
fn branches(step: &Step) -> Vec<String> {
    let mut branches = Vec::new();
    if step.guard.is_some() {
        branches.push("skipped".to_owned());
    }
    let lists = step.verb.nested_blocks();
    let cases = || lists.iter().filter(|list| matches!(list.kind, BlockKind::Case { .. }));
    branches.extend(cases().filter_map(|list| list.name).map(str::to_owned));
    if cases().next().is_some() && !step.verb.covers_every_case() {
        branches.push(no_case_branch(&step.verb).to_owned());
    }
    if let Verb::ForEach(each) = &step.verb {
        match each.items.literal().and_then(|items| items.as_list()) {
            // A literal list always has the same length.
            Some(_) => {}
            None => branches.extend(ITERATION_BRANCHES.map(str::to_owned)),
        }
    }
    if let Verb::WaitFor(wait) = &step.verb
        && (step.timeout.is_some() || wait.until.is_some())
        && wait.on_timeout == OnTimeout::Continue
    {
        branches.push(TIMED_OUT.to_owned());
    }
    match step.on_error {
        OnError::Fail => {}
        OnError::Continue | OnError::Steps(_) => branches.push("onError".to_owned()),
    }
    branches
}

/// Branch of a `waitFor` that times out and continues.
const TIMED_OUT: &str = "time is up";
/// Branches by the number of a loop's iterations.
const ITERATION_BRANCHES: [&str; 3] = ["no iteration", "one iteration", "several iterations"];

/// Returns the branch name for a step that takes none of its cases.
fn no_case_branch(verb: &Verb) -> &'static str {
    if matches!(verb, Verb::If(_)) { "no else" } else { "no case" }
}

/// Computes the coverage of a test's executions.
pub(super) fn from_trace(trace: &TestTrace) -> Vec<Coverage> {
    let mut found: BTreeMap<String, Coverage> = BTreeMap::new();
    for execution in &trace.executions {
        let automation = &execution.deployment.automation;
        let coverage = found.entry(automation.id.to_string()).or_insert_with(|| Coverage::empty(automation));
        if let Some(Event::Started { trigger, .. }) = execution.events.first() {
            coverage.reach(None, &trigger_branch(trigger, "started"));
        }
        mark(coverage, &execution.events);
    }
    found.into_values().collect()
}

/// Computes the coverage of a test in which the trigger's condition rejected the start.
pub(super) fn filtered(automation: &Arc<Automation>, trigger: &TriggerId) -> Coverage {
    let mut coverage = Coverage::empty(automation);
    coverage.reach(None, &trigger_branch(trigger, "filtered"));
    coverage
}

fn mark(coverage: &mut Coverage, events: &[Event]) {
    let observed = ObservedSteps::from_events(events);
    let automation = coverage.automation.clone();
    automation.walk(&mut |step| {
        for key in observed.keys_of(&step.id) {
            let Some(found) = observed.step(key) else { continue };
            let turns = split_key(key).1;
            if found.skips > 0 {
                coverage.take_branch(&step.id, "skipped");
            }
            // A step still running when the execution ends has started nevertheless.
            if found.runs + found.retries + found.failures > 0 || found.outcome.is_none() {
                coverage.reach(Some(&step.id), &GoalKind::Step);
            }
            if found.failures > 0 {
                coverage.take_branch(&step.id, "onError");
            }
            if found.runs == 0 {
                continue;
            }
            mark_lists(coverage, step, &observed, turns, found.outcome);
        }
    });
}

/// Marks the branches taken inside a step that ran.
fn mark_lists(
    coverage: &mut Coverage,
    step: &Step,
    observed: &ObservedSteps<'_>,
    turns: &str,
    outcome: Option<&StepOutcome>,
) {
    if let Some(branch) = observed.branch(step, turns) {
        let failed = matches!(outcome, Some(StepOutcome::Failed { .. }));
        match branch.as_str() {
            // A condition that failed to evaluate took no branch.
            "none" if failed => {}
            "none" => coverage.take_branch(&step.id, no_case_branch(&step.verb)),
            taken => coverage.take_branch(&step.id, taken),
        }
    }
    if let (Verb::WaitFor(_), Some(StepOutcome::Succeeded { result })) = (&step.verb, outcome)
        && result.is_null()
    {
        coverage.take_branch(&step.id, TIMED_OUT);
    }
    if let Some(turns) = observed.turns(step, turns) {
        let failed = matches!(outcome, Some(StepOutcome::Failed { .. }));
        match turns {
            0 if failed => {}
            turns => coverage.take_branch(&step.id, ITERATION_BRANCHES[turns.min(2)]),
        }
    }
}
