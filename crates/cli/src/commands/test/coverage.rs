//! The coverage of the automations by all tests together.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testing::{Coverage, Goal, GoalKind, TestRunner};

use super::play::PlayedFile;
use crate::output::{self, BAD, GOOD, QUIET, STRONG, Table, WARN, paint};

/// The coverage of each automation that has tests or ran in one, by its id.
pub(super) fn measure(runner: &TestRunner, played: &[PlayedFile<'_>]) -> Vec<Coverage> {
    let mut found: BTreeMap<String, Coverage> = BTreeMap::new();
    for file in played {
        let tested =
            file.file.suite.as_ref().and_then(|suite| runner.catalog().find(&suite.automation.name).ok());
        if let Some(deployed) = tested {
            let id = deployed.automation.id.to_string();
            found.entry(id).or_insert_with(|| Coverage::empty(&deployed.automation));
        }
        for coverage in
            file.tests.iter().filter_map(|test| test.verdict.as_ref()).flat_map(|verdict| &verdict.coverage)
        {
            let id = coverage.automation.id.to_string();
            found.entry(id).or_insert_with(|| Coverage::empty(&coverage.automation)).add(coverage);
        }
    }
    found.into_values().collect()
}

/// Prints a table of the coverage, and below it the unreached steps and branches.
pub(super) fn show(coverage: &[Coverage]) -> anyhow::Result<()> {
    output::data("")?;
    let mut table = Table::new(&["AUTOMATION", "STEPS", "", "WAYS", ""]);
    for one in coverage {
        let [steps, steps_share] = share(one.steps());
        let [ways, ways_share] = share(one.branches());
        table.row([one.automation.id.to_string(), steps, steps_share, ways, ways_share]);
    }
    table.print()?;
    let missed: Vec<&Coverage> = coverage.iter().filter(|one| missed(one).next().is_some()).collect();
    if missed.is_empty() {
        return Ok(output::data(format_args!("\n{}", paint(GOOD, "every step and every way is reached")))?);
    }
    output::data(format_args!("\n{}", paint(STRONG, "not reached:")))?;
    for one in missed {
        let path = one.automation.source.path();
        for goal in self::missed(one) {
            let place = format!("{path}:{}", line(one, goal));
            let style = if goal.kind == GoalKind::Step { BAD } else { WARN };
            output::data(format_args!("  {}  {}", paint(QUIET, place), paint(style, what(goal))))?;
        }
    }
    Ok(())
}

/// True if every step and every branch was reached.
pub(super) fn is_complete(coverage: &Coverage) -> bool {
    coverage.goals.iter().all(|goal| goal.hits > 0)
}

/// The steps and branches that were not reached. The branches of an unreached step are left out.
fn missed(coverage: &Coverage) -> impl Iterator<Item = &Goal> {
    let unreached = |id: &str| {
        coverage
            .goals
            .iter()
            .any(|goal| goal.kind == GoalKind::Step && goal.hits == 0 && goal.step.as_deref() == Some(id))
    };
    coverage.goals.iter().filter(move |goal| {
        let of_unreached = goal.kind != GoalKind::Step && goal.step.as_deref().is_some_and(unreached);
        goal.hits == 0 && !of_unreached
    })
}

fn line(coverage: &Coverage, goal: &Goal) -> usize {
    coverage.automation.source.position(goal.span.start as usize).line
}

fn what(goal: &Goal) -> String {
    match (&goal.step, &goal.kind) {
        (Some(step), GoalKind::Step) => format!("step `{step}`"),
        (Some(step), GoalKind::Branch(way)) => format!("`{step}`: {way}"),
        (None, GoalKind::Branch(way)) => format!("the trigger: {way}"),
        (None, GoalKind::Step) => String::new(),
    }
}

fn share((all, reached): (usize, usize)) -> [String; 2] {
    let percent = match all {
        0 => "".to_owned(),
        // Rounded down, so that 100 means all.
        all => format!("{}%", reached * 100 / all),
    };
    [if all == 0 { "–".to_owned() } else { format!("{reached}/{all}") }, percent]
}

pub(super) fn to_json(coverage: &Coverage) -> Value {
    let goals: Vec<Value> = coverage
        .goals
        .iter()
        .map(|goal| {
            let way = match &goal.kind {
                GoalKind::Step => None,
                GoalKind::Branch(way) => Some(way),
            };
            json!({"step": goal.step, "way": way, "line": line(coverage, goal), "hits": goal.hits})
        })
        .collect();
    let part = |(all, reached): (usize, usize)| json!({"all": all, "reached": reached});
    json!({
        "automation": coverage.automation.id,
        "path": coverage.automation.source.path(),
        "steps": part(coverage.steps()),
        "ways": part(coverage.branches()),
        "goals": goals,
    })
}
