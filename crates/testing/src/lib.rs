//! Tests of automations: runs each test and compares its result with the expectations.
//!
//! A test runs on a real engine with a real store in its own folder, without network and without waiting: doubles
//! answer actions with external effects, and the clock advances only while all tasks wait.
//!
//! Modules, in reading order:
//!
//! * `test_run`: the engine of a test, and its trace
//! * `runner`: runs one test
//! * `start`: starts the execution of a test
//! * `driver`: moves the clock and sends events
//! * `quiescence`: finds when the clock may move
//! * `stubs`: answers actions
//! * `observed`: the steps that ran
//! * `expectations`: compares them with the test
//! * `coverage`: the steps that tests reached
//! * `trial`: runs recorded executions on another version
//! * `from_execution`: writes a test from a recorded execution
//! * `error`: the error of this crate

mod coverage;
mod driver;
mod error;
mod expectations;
mod from_execution;
mod observed;
mod quiescence;
mod runner;
mod start;
mod stubs;
mod test_run;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use connector::Cassette;
use model::LogLine;
use model::automation::Automation;
use model::execution::Event;
use model::test_suite::{Case, Suite};
use text::diagnostic::Report;

use catalog::Catalog;
use error::TestError;
use test_run::TestSetup;

pub use coverage::{Coverage, Goal, GoalKind};
pub use from_execution::{Strictness, case_text};
pub use test_run::RealSecrets;
pub use trial::{CallDifference, RecordedExecution, Side, StepDifference, Trial, Verdict};

/// Environment for running tests: a project with its automations, connections and connectors.
pub struct TestRunner {
    catalog: Arc<Catalog>,
    /// Project folder.
    dir: PathBuf,
    outbound_allow: Vec<String>,
    files_dir: Option<PathBuf>,
    real: RealSecrets,
    /// Maximum real time of a test.
    time_limit: Duration,
}

/// Result of a test.
pub struct TestResult {
    /// Unmet expectations, at their positions in the file. Empty if the test passes.
    pub report: Report,
    /// Execution of the test; `None` if none started.
    pub execution: Option<Execution>,
    /// Coverage of each automation that ran.
    pub coverage: Vec<Coverage>,
}

/// Execution of a test.
pub struct Execution {
    /// Automation that ran.
    pub automation: Arc<Automation>,
    /// Recorded events.
    pub events: Vec<Event>,
    /// Log lines.
    pub logs: Vec<LogLine>,
}

impl TestResult {
    /// Returns true if all expectations are met.
    #[must_use]
    pub fn passes(&self) -> bool {
        !self.report.has_errors()
    }
}

impl TestRunner {
    /// Creates an environment for a project folder.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let real = RealSecrets::local(dir.join("secrets"), None);
        let time_limit = runner::MAX_TEST_TIME;
        Self { catalog, dir, outbound_allow: Vec::new(), files_dir: None, real, time_limit }
    }

    /// Sets the secrets for recordings.
    #[must_use]
    pub fn with_secrets(self, real: RealSecrets) -> Self {
        Self { real, ..self }
    }

    /// Sets the private hosts and networks that recordings may call.
    #[must_use]
    pub fn with_outbound(self, allow: Vec<String>) -> Self {
        Self { outbound_allow: allow, ..self }
    }

    /// Sets the folder of files for recordings, instead of an empty one.
    #[must_use]
    pub fn with_files(self, files_dir: Option<PathBuf>) -> Self {
        Self { files_dir, ..self }
    }

    /// Sets the maximum real time of a test, instead of a minute.
    #[must_use]
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Runs one test of a file and checks its expectations. `cassette` is the recording of a test that names one; an
    /// empty one calls the real system. Blocks the calling thread.
    #[must_use]
    pub fn run(&self, suite: &Suite, case: &Case, cassette: Option<Arc<Cassette>>) -> TestResult {
        let failed = |diagnostic| TestResult {
            report: Report::new(suite.source.clone(), [diagnostic]),
            execution: None,
            coverage: Vec::new(),
        };
        let deployment = match self.catalog.find(&suite.automation.name) {
            Ok(deployment) => deployment.clone(),
            Err(error) => return failed(TestError::new(case, error.to_string()).diagnostic()),
        };
        if let (Some(name), None) = (&case.cassette, &cassette) {
            return failed(TestError::no_recording(name).diagnostic());
        }
        let folder = Path::new(suite.source.path()).parent().unwrap_or(Path::new(""));
        let setup = TestSetup {
            catalog: self.catalog.clone(),
            dir: self.dir.clone(),
            folder: folder.to_owned(),
            cassette,
            outbound_allow: self.outbound_allow.clone(),
            files_dir: self.files_dir.clone(),
            real: self.real.clone(),
            trial: None,
        };
        match runner::play(&setup, case, &deployment, self.time_limit) {
            Ok(trace) => {
                let found = expectations::check_expectations(case, &deployment.automation, &trace);
                let mut coverage = coverage::from_trace(&trace);
                if trace.filtered {
                    let trigger = case.trigger_of(&deployment.automation);
                    let trigger = trigger.map(|trigger| trigger.id.clone()).unwrap_or_default();
                    coverage.push(coverage::filtered(&deployment.automation, &trigger));
                }
                let execution = trace.executions.into_iter().next().map(|execution| Execution {
                    automation: execution.deployment.automation.clone(),
                    events: execution.events,
                    logs: execution.logs,
                });
                TestResult { report: Report::new(suite.source.clone(), found), execution, coverage }
            }
            Err(trouble) => failed(trouble.diagnostic()),
        }
    }

    /// Returns the project's snapshot.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the project folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

#[cfg(test)]
mod tests;
