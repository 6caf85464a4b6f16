//! The report of the tests, as text and as JSON.

use std::time::Duration;

use model::execution::{History, StepHistory, StepOutcome, StepProgress};
use serde_json::{Value, json};
use testing::{Coverage, TestResult};

use super::play::{PlayedFile, PlayedTest};
use crate::commands::executions::tree;
use crate::history::Step;
use crate::output::{self, BAD, GOOD, QUIET, STRONG, WARN, paint, plain};
use crate::time;

/// The maximum number of printed steps of a failed test.
const STEPS: usize = 60;

/// Lists the tests as they end.
pub(super) struct Listing {
    shows: bool,
}

impl Listing {
    pub(super) fn new(shows: bool) -> Self {
        Self { shows }
    }

    /// Lists the tests of a completed file. A closed stdout is reported later.
    pub(super) fn show(&mut self, file: &PlayedFile<'_>) {
        if !self.shows || (file.tests.is_empty() && !file.file.report.has_errors()) {
            return;
        }
        let mut lines = vec![paint(STRONG, &file.file.path)];
        if file.file.report.has_errors() {
            lines.push(format!("  {} {}", paint(BAD, "✗"), paint(BAD, "the file has errors")));
        }
        lines.extend(file.tests.iter().map(line));
        let _ = output::data(lines.join("\n"));
    }
}

fn line(test: &PlayedTest<'_>) -> String {
    let name = plain(&test.case.name.name);
    let took = paint(QUIET, time::took(test.took));
    match (test.status(), &test.case.skip) {
        ("passed", _) => format!("  {} {name}  {took}", paint(GOOD, "✓")),
        ("skipped", Some(reason)) => {
            format!(
                "  {} {name}  {}",
                paint(WARN, "–"),
                paint(QUIET, format_args!("skipped: {}", plain(reason)))
            )
        }
        _ => format!("  {} {}  {took}", paint(BAD, "✗"), paint(BAD, name)),
    }
}

/// Prints all failures: errors of files, and for each failed test the steps of its execution. While recording,
/// only errors of files are printed: a warning may be about the missing recording.
pub(super) fn failures(played: &[PlayedFile<'_>], records: bool) -> anyhow::Result<()> {
    for file in played {
        if file.file.report.has_errors() || !(file.file.report.is_empty() || records) {
            output::data(format_args!("\n{}", file.file.report.render(true).trim_end()))?;
        }
        for test in file.tests.iter().filter(|test| test.status() == "failed") {
            let Some(verdict) = &test.verdict else { continue };
            let title = format!("✗ {} › {}", file.file.path, plain(&test.case.name.name));
            output::data(format_args!("\n{}\n", paint(BAD.bold(), title)))?;
            output::data(verdict.report.render(true).trim_end())?;
            for line in steps(verdict) {
                output::data(line)?;
            }
        }
    }
    Ok(())
}

/// The steps of an execution as a tree.
fn steps(verdict: &TestResult) -> Vec<String> {
    let Some(execution) = &verdict.execution else { return Vec::new() };
    let steps = ran(&History::new(&execution.events));
    if steps.is_empty() {
        return Vec::new();
    }
    let mut lines = tree::lines(Some(&execution.automation), &steps);
    if lines.len() > STEPS {
        let more = lines.len() - STEPS;
        lines.truncate(STEPS);
        lines.push(paint(QUIET, format_args!("… and {more} more lines")));
    }
    lines.insert(0, format!("\n{}", paint(QUIET, "what ran:")));
    lines
}

/// The steps of an execution.
fn ran(history: &History<'_>) -> Vec<Step> {
    history.steps().iter().map(step).collect()
}

fn step(step: &StepHistory<'_>) -> Step {
    let (status, result) = match step.outcome {
        Some(StepOutcome::Jumped { by, .. }) if by.cuts() => ("left", None),
        // Its `onError` list ended the enclosing block.
        Some(StepOutcome::Jumped { .. }) if step.failure.is_some() => ("failed", None),
        Some(StepOutcome::Succeeded { result } | StepOutcome::Jumped { result, .. }) => {
            ("succeeded", Some(result))
        }
        Some(StepOutcome::Failed { handled, .. }) => ("failed", handled.as_ref()),
        Some(StepOutcome::Skipped) => ("skipped", None),
        None if step.progress == StepProgress::Handling => ("handling", None),
        None => ("running", None),
    };
    Step {
        step: step.key.to_owned(),
        status: status.to_owned(),
        attempts: step.last_retry + 1,
        result: result.map(value::Value::to_serde),
        error: if status == "failed" { step.error.or(step.failure) } else { step.error }.cloned(),
        ..Step::default()
    }
}

/// The result of all tests together.
pub(super) struct Summary {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// Files that have errors, so that none of their tests ran.
    pub(super) broken: usize,
    pub(super) files: usize,
    pub(super) took: Duration,
}

impl Summary {
    pub(super) fn new(played: &[PlayedFile<'_>], took: Duration) -> Self {
        let with = |status: &str| {
            played.iter().flat_map(|file| &file.tests).filter(|test| test.status() == status).count()
        };
        Self {
            passed: with("passed"),
            failed: with("failed"),
            skipped: with("skipped"),
            broken: played.iter().filter(|file| file.file.report.has_errors()).count(),
            files: played.iter().filter(|file| !file.tests.is_empty()).count(),
            took,
        }
    }

    /// The number of selected tests.
    pub(super) fn ran(&self) -> usize {
        self.passed + self.failed + self.skipped
    }

    pub(super) fn is_good(&self) -> bool {
        self.failed == 0 && self.broken == 0
    }

    /// The summary on one line.
    pub(super) fn line(&self) -> String {
        let passed = format!("{} passed", self.passed);
        let mut parts = vec![if self.passed > 0 { paint(GOOD, passed) } else { passed }];
        if self.failed > 0 {
            parts.push(paint(BAD.bold(), format_args!("{} failed", self.failed)));
        }
        if self.skipped > 0 {
            parts.push(paint(WARN, format_args!("{} skipped", self.skipped)));
        }
        if self.broken > 0 {
            let files = output::count(self.broken, "file");
            parts.push(paint(BAD.bold(), format_args!("{files} with errors")));
        }
        let tests = output::count(self.ran(), "test");
        let files = output::count(self.files, "file");
        format!("\n{tests} in {files}: {}  {}", parts.join(", "), paint(QUIET, time::took(self.took)))
    }
}

/// All results as JSON.
pub(super) fn to_json(played: &[PlayedFile<'_>], summary: &Summary, coverage: &[Coverage]) -> Value {
    let files: Vec<Value> = played
        .iter()
        .map(|file| {
            let tests: Vec<Value> = file.tests.iter().map(test_json).collect();
            json!({
                "path": file.file.path,
                "automation": file.file.suite.as_ref().map(|suite| &suite.automation.name),
                "diagnostics": file.file.report.entries(),
                "tests": tests,
            })
        })
        .collect();
    json!({
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "filesWithErrors": summary.broken,
        "tookMs": millis(summary.took),
        "files": files,
        "coverage": coverage.iter().map(super::coverage::to_json).collect::<Vec<_>>(),
    })
}

fn test_json(test: &PlayedTest<'_>) -> Value {
    let diagnostics = test.verdict.as_ref().map(|verdict| verdict.report.entries()).unwrap_or_default();
    json!({
        "name": test.case.name.name,
        "status": test.status(),
        "skip": test.case.skip,
        "tookMs": millis(test.took),
        "diagnostics": diagnostics,
    })
}

fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
