//! Recorded executions, and the tests of a file, on a text that is not saved: nothing is called.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Catalog, Deployment};
use model::diagnostic::Report;
use model::execution::{ExecutionId, Outcome};
use runtime::Error;
use testing::{RealSecrets, RecordedExecution, TestRunner, Trial, find_test_files};

use crate::engine::Engine;

/// The maximum number of executions of one request.
pub const MAX_TRIALS: usize = 50;
/// The time after which no further trial of a request begins.
const MAX_TIME: Duration = Duration::from_secs(30);
/// The maximum number of recorded events of an execution that is tried.
const MAX_EVENTS: u32 = 10_000;

/// The recorded executions and the text on which they are tried.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    /// The path of the automation, relative to the project folder.
    pub path: String,
    /// The text that it would have.
    pub text: String,
    /// The executions, at most [`MAX_TRIALS`].
    pub executions: Vec<ExecutionId>,
    /// True to run the tests of the automation too.
    pub tests: bool,
}

/// The trial of one execution.
pub struct TrialOutcome {
    /// The recorded execution.
    pub id: ExecutionId,
    /// The recorded outcome; `None` if it has not ended.
    pub recorded: Option<Outcome>,
    /// The trial, or the reason for which it did not run.
    pub trial: Result<Trial, String>,
}

/// The result of a test on the text.
pub struct TestOutcome {
    /// The name of the test.
    pub name: String,
    /// The unmet expectations; empty if the test passes.
    pub report: Report,
    /// The reason for which it did not run.
    pub skipped: Option<String>,
}

/// The results of a request.
#[derive(Default)]
pub struct Trials {
    /// The trials, in the order of the request.
    pub executions: Vec<TrialOutcome>,
    /// The tests, in the order of their file.
    pub tests: Vec<TestOutcome>,
}

impl Engine {
    /// Tries recorded executions on a text that is not saved. Nothing is called, and nothing changes.
    ///
    /// # Errors
    /// The text has errors, there are too many executions, another request runs, or the store failed.
    pub async fn try_draft(&self, request: TrialRequest) -> Result<Trials, Error> {
        if request.executions.len() > MAX_TRIALS {
            return Err(Error::Input(format!("at most {MAX_TRIALS} executions are tried at once")));
        }
        let Ok(turn) = self.trials.clone().try_lock_owned() else {
            return Err(Error::Busy { retry_after: Duration::from_secs(1) });
        };
        let mut recorded = Vec::with_capacity(request.executions.len());
        for id in &request.executions {
            recorded.push((*id, self.recorded(*id).await?));
        }
        let engine = self.clone();
        // Trials drive runtimes of their own, on a thread that may block.
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            engine.try_on(&request, recorded)
        });
        work.await.map_err(|error| Error::Input(format!("the trial ended early: {error}")))?
    }

    /// Reads a recorded execution with the version that it ran on; an error if it cannot be tried.
    pub(crate) async fn recorded(&self, id: ExecutionId) -> Result<Result<RecordedExecution, String>, Error> {
        let (runtime, store) = (self.runtime(), self.store());
        let row = store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?;
        if row.events > MAX_EVENTS {
            return Ok(Err(format!("it has more than {MAX_EVENTS} events")));
        }
        let events = store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        Ok(match runtime.replayed_deployment(&row, true).await {
            Ok(automation) => {
                Ok(RecordedExecution { id, automation, events, secret: runtime.secret.clone() })
            }
            Err(Error::NotReplayable(reason)) => Err(reason),
            Err(error) => return Err(error),
        })
    }

    fn try_on(
        &self,
        request: &TrialRequest,
        recorded: Vec<(ExecutionId, Result<RecordedExecution, String>)>,
    ) -> Result<Trials, Error> {
        let catalog = Arc::new(self.draft(&request.path, &request.text)?);
        let draft = deployment_of(&catalog, &request.path)?;
        let settings = self.settings();
        let real = RealSecrets { vault: None, folder: settings.dir.join("secrets") };
        let runner = TestRunner::new(catalog, &settings.dir).with_secrets(real);
        let begun = Instant::now();
        let mut results = Trials::default();
        for (id, execution) in recorded {
            let outcome = execution.as_ref().ok().and_then(RecordedExecution::outcome).cloned();
            let trial = execution.and_then(|execution| {
                if execution.automation.automation.id != draft.automation.id {
                    return Err(format!("it is an execution of `{}`", execution.automation.automation.id));
                }
                if begun.elapsed() > MAX_TIME {
                    return Err(format!("the trials took longer than {} s", MAX_TIME.as_secs()));
                }
                runner.try_recorded(&draft, &execution)
            });
            results.executions.push(TrialOutcome { id, recorded: outcome, trial });
        }
        if request.tests {
            results.tests = run_tests(&runner, &draft, begun);
        }
        Ok(results)
    }
}

/// The automation that the file defines.
fn deployment_of(catalog: &Catalog, path: &str) -> Result<Arc<Deployment>, Error> {
    let found = catalog.automations().find(|deployment| deployment.automation.source.path() == path);
    let found = found.filter(|deployment| deployment.stale.is_none()).cloned();
    found.ok_or_else(|| Error::Input(format!("`{path}` defines no automation")))
}

/// Runs the tests in the files of the project that test this automation.
fn run_tests(runner: &TestRunner, draft: &Deployment, begun: Instant) -> Vec<TestOutcome> {
    let mut found = Vec::new();
    let own: Vec<PathBuf> = model::test_suite::FILE_SUFFIXES
        .iter()
        .filter_map(|suffix| {
            Some(PathBuf::from(format!("{}{suffix}", stem(draft.automation.source.path())?)))
        })
        .collect();
    for file in find_test_files(runner.dir(), runner.catalog(), &own) {
        let Some(suite) = file.suite else {
            found.push(TestOutcome { name: file.path, report: file.report, skipped: None });
            continue;
        };
        if suite.automation.name != draft.automation.id.as_str() {
            continue;
        }
        for case in &suite.cases {
            let skipped = match () {
                () if begun.elapsed() > MAX_TIME => Some("there was no time left".to_owned()),
                () if case.cassette.is_some() => {
                    Some("it replays a recording; `cogwork test` runs it".to_owned())
                }
                () => case.skip.clone(),
            };
            let report = match &skipped {
                Some(_) => Report::new(suite.source.clone(), []),
                None => runner.run(&suite, case, None).report,
            };
            found.push(TestOutcome { name: case.name.name.clone(), report, skipped });
        }
    }
    found
}

/// The path of a file without its ending.
fn stem(path: &str) -> Option<&str> {
    path.strip_suffix(".yaml").or_else(|| path.strip_suffix(".yml"))
}
