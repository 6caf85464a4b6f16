//! What it costs to read and check one file.

use std::time::Instant;

use super::Terms;
use crate::Error;
use crate::project::{Project, numbered};
use crate::report::{Report, Row, Unit};
use crate::statistics::median;

/// Files between two looks at the clock.
const BATCH: usize = 100;

/// Measures parsing and checking a text in memory.
pub(super) fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let project = Project::new()?;
    let catalog = engine::check_project(project.path(), &[])?.catalog;
    let texts: Vec<String> = (0..BATCH).map(|number| numbered(number, "POST")).collect();
    let until = Instant::now() + terms.options.time;
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < until {
        let started = Instant::now();
        for text in &texts {
            let said = engine::check_text(&catalog, "automations/measured.yaml", text);
            if said.has_errors() {
                return Err(Error::Server(said.render(false)));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "there are 100")]
        times.push(started.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    let lines = texts[0].lines().count();
    let name = format!("parsing and checking a file of {lines} lines");
    report.add(Row::new("loading", name, median(times), Unit::Microseconds));
    Ok(())
}
