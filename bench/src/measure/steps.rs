//! The cost of a step that waits for nothing, in an engine of this process.

use std::sync::Arc;
use std::time::Instant;

use engine::{Engine, stores::Location};
use model::execution::{Origin, Outcome};
use model::{AutomationId, Payload};
use runtime::{ManualStart, Settings, SystemClock};
use value::Map;

use super::Terms;
use crate::Error;
use crate::project::{self, Project};
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// Steps of the long automation; the short one has one.
const STEPS: usize = 1000;
/// The least number of runs of each, independent of their time.
const LEAST_RUNS: usize = 3;

/// The number of different automations that run in turn, and the steps of each.
const AUTOMATIONS: usize = 1000;
const STEPS_IN_TURN: usize = 40;

type Automation = fn(usize) -> String;

/// The kinds of steps, by the name of their row, with the microseconds that one may take.
const KINDS: [(&str, &str, Automation, f64); 3] = [
    ("copies", "a pure step that hands a value on", project::copies, 2.0),
    ("sums", "a pure step that computes", project::sums, 2.0),
    ("lines", "an action without network (log.info)", project::log_lines, 40.0),
];

/// Measures each kind: the time of a long execution less that of one of a single step, by the steps between them. Once with
/// one automation, and once with 1,000 different automations in turn.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for (count, steps) in [(1, STEPS), (AUTOMATIONS, STEPS_IN_TURN)] {
        of_automations(terms, report, count, steps).await?;
    }
    Ok(())
}

async fn of_automations(
    terms: Terms<'_>,
    report: &mut Report,
    count: usize,
    steps: usize,
) -> Result<(), Error> {
    let project = Project::new()?;
    for (id, _, automation, _) in KINDS {
        for number in 0..count {
            // Another name is another definition.
            let text = |steps| format!("name: Measured {number}\n{}", automation(steps));
            project.put(&format!("{id}-long-{number}"), &text(steps))?;
            project.put(&format!("{id}-short-{number}"), &text(1))?;
        }
    }
    // Long chains of pure steps commit now and then; how long the disk takes to sync is no part of a step's cost.
    let options = store::Options { durability: store::Durability::Relaxed, ..store::Options::default() };
    let store = engine::stores::open(&Location::from(project.data()), options)?;
    let mut settings = Settings::new(project.path());
    (settings.watch, settings.background) = (false, false);
    let engine = Engine::start(settings, store.clone(), Arc::new(SystemClock)).await?;
    for (id, name, _, most) in KINDS {
        let until = Instant::now() + terms.options.time;
        let mut differences = Vec::new();
        while Instant::now() < until || differences.len() < LEAST_RUNS {
            let number = differences.len() % count;
            let (long, short) =
                (id_of(&format!("{id}-long-{number}"))?, id_of(&format!("{id}-short-{number}"))?);
            let short = run(&engine, &short).await?;
            differences.push(run(&engine, &long).await? - short);
        }
        #[expect(clippy::cast_precision_loss, reason = "there are at most 999")]
        let each = median(differences) / (steps - 1) as f64;
        let name = if count == 1 { name.to_owned() } else { format!("{name}, {count} automations in turn") };
        let row = Row::new("steps", name, each, Unit::Microseconds);
        report.add(row.target(Some(Target::AtMost(most))));
    }
    engine.shutdown(std::time::Duration::from_secs(1)).await;
    store.close().await?;
    Ok(())
}

fn id_of(text: &str) -> Result<AutomationId, Error> {
    AutomationId::parse(text).ok_or_else(|| Error::Server(format!("`{text}` is no id")))
}

/// Runs it once, and returns its microseconds.
async fn run(engine: &Engine, id: &AutomationId) -> Result<f64, Error> {
    let start = ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
    let started = Instant::now();
    let execution = engine.ingress().start(&id.clone().into(), start).await?;
    let outcome = engine.admission().wait(execution).await?;
    let took = started.elapsed().as_secs_f64() * 1e6;
    match outcome {
        Outcome::Succeeded { .. } => Ok(took),
        other => Err(Error::Server(format!("`{id}` ended otherwise than well: {other:?}"))),
    }
}
