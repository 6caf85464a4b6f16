//! What tests reach of an Automation: its steps, and the ways that lead through it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::automation::{Automation, OnError, OnTimeout, Runs, Step, Verb};
use model::diagnostic::Span;
use model::execution::{Event, StepOutcome};

use crate::play::Played;
use crate::seen::{Seen, split};

/// What was reached of an Automation, and what could be.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// The Automation.
    pub automation: Arc<Automation>,
    /// Everything there is to reach, in reading order, and how often it was.
    pub goals: Vec<Goal>,
}

/// Something that a test can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The step that it is of; `None` for what is of the whole Automation.
    pub step: Option<Arc<str>>,
    /// Where that stands.
    pub span: Span,
    /// What it is.
    pub kind: GoalKind,
    /// How many tests, or executions of a test, reached it.
    pub hits: u64,
}

/// What can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalKind {
    /// The step itself.
    Step,
    /// A way: `then`, `else`, a case, `skipped`, `onError`, `no turn`, …
    Way(String),
}

impl Coverage {
    /// What there is to reach of an Automation, nothing of it reached.
    #[must_use]
    pub fn empty(automation: &Arc<Automation>) -> Self {
        let mut goals = Vec::new();
        if automation.trigger_if.is_some() {
            for way in ["started", "filtered"] {
                goals.push(goal(None, automation.trigger_span, GoalKind::Way(way.to_owned())));
            }
        }
        automation.walk(&mut |step| {
            goals.push(goal(Some(step), step.span, GoalKind::Step));
            goals.extend(ways(step).into_iter().map(|way| goal(Some(step), step.span, GoalKind::Way(way))));
        });
        Self { automation: automation.clone(), goals }
    }

    /// Adds what another test reached of the same Automation.
    pub fn add(&mut self, other: &Self) {
        for (goal, more) in self.goals.iter_mut().zip(&other.goals) {
            goal.hits += more.hits;
        }
    }

    /// How many steps there are, and how many were reached.
    #[must_use]
    pub fn steps(&self) -> (usize, usize) {
        self.count(|kind| matches!(kind, GoalKind::Step))
    }

    /// How many ways there are, and how many were taken.
    #[must_use]
    pub fn ways(&self) -> (usize, usize) {
        self.count(|kind| matches!(kind, GoalKind::Way(_)))
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

    fn way(&mut self, step: &str, way: &str) {
        self.reach(Some(step), &GoalKind::Way(way.to_owned()));
    }
}

fn goal(step: Option<&Step>, span: Span, kind: GoalKind) -> Goal {
    Goal { step: step.map(|step| step.id.clone()), span, kind, hits: 0 }
}

/// The ways through a step, beside that it runs.
fn ways(step: &Step) -> Vec<String> {
    let mut ways = Vec::new();
    if step.guard.is_some() {
        ways.push("skipped".to_owned());
    }
    let lists = step.verb.lists();
    let cases = || lists.iter().filter(|list| matches!(list.runs, Runs::Case { .. }));
    ways.extend(cases().filter_map(|list| list.name).map(str::to_owned));
    if cases().next().is_some() && !step.verb.covers_every_case() {
        ways.push(otherwise(&step.verb).to_owned());
    }
    if let Verb::ForEach(each) = &step.verb {
        match each.items.literal().and_then(|items| items.as_list()) {
            // Written out, it always has as many.
            Some(_) => {}
            None => ways.extend(TURNS.map(str::to_owned)),
        }
    }
    if let Verb::WaitFor(wait) = &step.verb
        && step.timeout.is_some()
        && wait.on_timeout == OnTimeout::Continue
    {
        ways.push(TIME_IS_UP.to_owned());
    }
    match step.on_error {
        OnError::Fail => {}
        OnError::Continue | OnError::Steps(_) => ways.push("onError".to_owned()),
    }
    ways
}

/// A pause that is not let through before its time is up, and goes on.
const TIME_IS_UP: &str = "time is up";
/// How many turns a loop makes.
const TURNS: [&str; 3] = ["no iteration", "one iteration", "several iterations"];

/// What a step that branches without covering every case is said to do otherwise.
fn otherwise(verb: &Verb) -> &'static str {
    if matches!(verb, Verb::If(_)) { "no else" } else { "no case" }
}

/// What the executions of a test reached.
pub(super) fn of(played: &Played) -> Vec<Coverage> {
    let mut found: BTreeMap<String, Coverage> = BTreeMap::new();
    for execution in &played.executions {
        let automation = &execution.deployed.automation;
        let coverage = found.entry(automation.id.to_string()).or_insert_with(|| Coverage::empty(automation));
        coverage.reach(None, &GoalKind::Way("started".to_owned()));
        mark(coverage, &execution.events);
    }
    found.into_values().collect()
}

/// What a test reached that started nothing since the trigger's condition did not hold.
pub(super) fn filtered(automation: &Arc<Automation>) -> Coverage {
    let mut coverage = Coverage::empty(automation);
    coverage.reach(None, &GoalKind::Way("filtered".to_owned()));
    coverage
}

fn mark(coverage: &mut Coverage, events: &[Event]) {
    let seen = Seen::of(events);
    let automation = coverage.automation.clone();
    automation.walk(&mut |step| {
        for key in seen.keys_of(&step.id) {
            let Some(found) = seen.step(key) else { continue };
            let turns = split(key).1;
            if found.skips > 0 {
                coverage.way(&step.id, "skipped");
            }
            // One that is under way when the execution ends has begun all the same.
            if found.runs + found.retries + found.failures > 0 || found.outcome.is_none() {
                coverage.reach(Some(&step.id), &GoalKind::Step);
            }
            if found.failures > 0 {
                coverage.way(&step.id, "onError");
            }
            if found.runs == 0 {
                continue;
            }
            mark_lists(coverage, step, &seen, turns, found.outcome);
        }
    });
}

/// The ways that were taken inside a step that ran.
fn mark_lists(
    coverage: &mut Coverage,
    step: &Step,
    seen: &Seen<'_>,
    turns: &str,
    outcome: Option<&StepOutcome>,
) {
    if let Some(branch) = seen.branch(step, turns) {
        let failed = matches!(outcome, Some(StepOutcome::Failed { .. }));
        match branch.as_str() {
            // Where its condition had no value it took none of them.
            "none" if failed => {}
            "none" => coverage.way(&step.id, otherwise(&step.verb)),
            taken => coverage.way(&step.id, taken),
        }
    }
    if let (Verb::WaitFor(_), Some(StepOutcome::Succeeded { result })) = (&step.verb, outcome)
        && result.is_null()
    {
        coverage.way(&step.id, TIME_IS_UP);
    }
    if let Some(turns) = seen.turns(step, turns) {
        let failed = matches!(outcome, Some(StepOutcome::Failed { .. }));
        match turns {
            0 if failed => {}
            turns => coverage.way(&step.id, TURNS[turns.min(2)]),
        }
    }
}
