//! The counts in a file of the repository.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::callgrind::Counts;
use crate::Error;
use crate::report::Report;

/// The share by which a count may grow before the comparison fails, in per cent.
const TOLERANCE: f64 = 1.0;

/// The name of this build in the file: the counts of a debug build are some ten times those of a released program.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "dist" };

/// The counts of each build by its name.
type Builds = BTreeMap<String, Figures>;

/// The counts of one operation by its name.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(BTreeMap<String, Counts>);

impl Figures {
    /// Adds the least counts of some rounds.
    pub(super) fn add(&mut self, name: String, rounds: &[Counts]) {
        let instructions = rounds.iter().map(|counts| counts.instructions).min().unwrap_or(0);
        let allocations = rounds.iter().map(|counts| counts.allocations).min().unwrap_or(0);
        self.0.insert(name, Counts { instructions, allocations });
    }

    /// Adds the operations of other figures.
    pub(super) fn join(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The names and counts.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&String, &Counts)> {
        self.0.iter()
    }

    /// Replaces the counts of this build in a file.
    pub(super) fn write(self, file: &Path) -> Result<(), Error> {
        let mut builds = if file.exists() { read(file)? } else { Builds::new() };
        builds.insert(BUILD.to_owned(), self);
        let text =
            serde_json::to_string_pretty(&builds).map_err(|error| Error::Server(error.to_string()))? + "\n";
        std::fs::write(file, text).map_err(Error::io(file.display()))
    }

    /// Adds a line to the report for each count that differs from that of this build in a file.
    ///
    /// # Errors
    /// Returns the counts that have grown by more than 1 %; a count that the file lacks has grown from 0.
    pub(super) fn compare(&self, file: &Path, report: &mut Report) -> Result<(), Error> {
        let recorded = read(file)?.remove(BUILD).unwrap_or_default();
        let mut grown = Vec::new();
        for change in self.changes(&recorded) {
            if change.per_cent > TOLERANCE {
                grown.push(change.to_string());
            }
            report.note(change.to_string());
        }
        if grown.is_empty() {
            return Ok(());
        }
        Err(Error::Server(format!(
            "more than {TOLERANCE} % above {}:\n{}\nreduce the cost, or replace the file with `--record` and give the reason in the commit",
            file.display(),
            grown.join("\n")
        )))
    }

    fn changes(&self, recorded: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, counts) in &self.0 {
            let before = recorded.0.get(name).copied().unwrap_or_default();
            for (what, now, before) in [
                ("instructions", counts.instructions, before.instructions),
                ("allocations", counts.allocations, before.allocations),
            ] {
                #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
                let per_cent = (now.max(1) as f64 / before.max(1) as f64 - 1.0) * 100.0;
                if per_cent.abs() > TOLERANCE / 2.0 {
                    changes.push(Change { name: format!("{name}: {what}"), before, now, per_cent });
                }
            }
        }
        changes
    }
}

fn read(file: &Path) -> Result<Builds, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::io(file.display()))?;
    serde_json::from_str(&text).map_err(|error| Error::Server(format!("{}: {error}", file.display())))
}

/// A count that differs by more than its measurement varies.
struct Change {
    name: String,
    before: u64,
    now: u64,
    per_cent: f64,
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, before, now, per_cent } = self;
        write!(formatter, "{name} {before} → {now} ({per_cent:+.1} %)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(instructions: u64, allocations: u64) -> Figures {
        let mut figures = Figures::default();
        figures.add("ack".to_owned(), &[Counts { instructions, allocations }]);
        figures
    }

    #[test]
    fn an_operation_that_the_file_lacks_fails_the_comparison() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("counts.json");
        Figures::default().write(&file).expect("written");
        let compared = of(10_000, 0).compare(&file, &mut Report::new(vec![]));
        let message = compared.expect_err("it is not recorded").to_string();
        assert!(message.contains("ack: instructions 0 → 10000"), "{message}");
        assert!(!message.contains("allocations"), "{message}");
    }

    #[test]
    fn only_growth_above_one_per_cent_fails_the_comparison() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("counts.json");
        of(10_000, 100).write(&file).expect("written");
        let mut report = Report::new(vec![]);
        for (instructions, allocations, is_accepted) in [
            (10_000, 100, true),
            (9_000, 90, true),
            (10_090, 100, true),
            (10_200, 100, false),
            (10_000, 102, false),
        ] {
            let compared = of(instructions, allocations).compare(&file, &mut report);
            assert_eq!(compared.is_ok(), is_accepted, "{instructions} {allocations}");
        }
    }
}
