//! Recorded executions, and the tests of a file, on a text that is not saved: nothing is called.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use authoring::{find_test_files, load_suite};
use catalog::{Catalog, Deployment};
use model::execution::{ExecutionId, Outcome};
use runtime::{Error, ReadMemory};
use testing::{RealSecrets, RecordedExecution, TestRunner, Trial};
use text::diagnostic::Report;

use crate::engine::Engine;

/// The maximum number of executions of one request.
pub const MAX_TRIALS: usize = 50;
/// The time after which no further trial of a request begins.
const MAX_TIME: Duration = Duration::from_secs(30);
/// The longest wait of a request for another one to end.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The maximum number of recorded events of an execution that is tried.
const MAX_EVENTS: u32 = 10_000;

/// The recorded executions and the text on which they are tried.
#[derive(Clone, Debug, Default)]
pub struct TrialRequest {
    /// The path of the automation, relative to the project folder.
    pub path: String,
    /// The text that it would have.
    pub text: String,
    /// The executions, at most [`MAX_TRIALS`].
    pub executions: Vec<ExecutionId>,
    /// True to run the tests of the automation too.
    pub tests: bool,
    /// Changed texts of test files, for example after a step was renamed. Other test files are read from disk.
    pub test_files: Vec<TestText>,
}

/// The text that a file of tests would have.
#[derive(Clone, Debug)]
pub struct TestText {
    /// Its path, relative to the project folder.
    pub path: String,
    /// The text.
    pub text: String,
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

/// The limits of one request: its time, and the presence of its caller.
#[derive(Clone)]
struct Patience {
    begun: Instant,
    is_dropped: Arc<AtomicBool>,
}

impl Patience {
    /// Returns the reason why no further trial starts; `None` if one may start.
    fn reason(&self) -> Option<String> {
        if self.is_dropped.load(Ordering::Relaxed) {
            return Some("the request was cancelled".to_owned());
        }
        (self.begun.elapsed() > MAX_TIME)
            .then(|| format!("the trials took longer than {} s", MAX_TIME.as_secs()))
    }
}

/// Tells the blocking work that the future which waits for it was dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Engine {
    /// Tries recorded executions on a text that is not saved. Nothing is called, and nothing changes. If the future is dropped,
    /// the trial under way is the last one.
    ///
    /// # Errors
    /// The text has errors, there are too many executions, another request runs for long, or the store failed.
    pub async fn try_draft(&self, request: TrialRequest) -> Result<Trials, Error> {
        if request.executions.len() > MAX_TRIALS {
            return Err(Error::Input(format!("at most {MAX_TRIALS} executions are tried at once")));
        }
        let Ok(turn) = tokio::time::timeout(MAX_WAIT, self.trials.clone().lock_owned()).await else {
            return Err(Error::Busy { retry_after: Duration::from_secs(1) });
        };
        let is_dropped = Arc::new(AtomicBool::new(false));
        let patience = Patience { begun: Instant::now(), is_dropped: is_dropped.clone() };
        let _cancel = CancelOnDrop(is_dropped);
        let memory = self.reserve_for_histories(&request.executions).await?;
        let mut recorded = Vec::with_capacity(request.executions.len());
        for id in &request.executions {
            recorded.push((*id, self.recorded(*id).await?));
        }
        let engine = self.clone();
        // Trials drive runtimes of their own, on a thread that may block.
        let work = tokio::task::spawn_blocking(move || {
            let (_turn, _memory) = (turn, memory);
            engine.try_on(&request, recorded, &patience)
        });
        work.await.map_err(|error| Error::Input(format!("the trial ended early: {error}")))?
    }

    /// Reserves memory for the values of these executions together.
    pub(crate) async fn reserve_for_histories(&self, ids: &[ExecutionId]) -> Result<ReadMemory, Error> {
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            rows.push(self.store().execution(*id).await?.ok_or(Error::NoSuchExecution(*id))?);
        }
        rows.retain(|row| row.events <= MAX_EVENTS);
        self.context().reserve_for_events(&rows).await
    }

    /// Reads a recorded execution with the version that it ran on; an error if it cannot be tried.
    pub(crate) async fn recorded(&self, id: ExecutionId) -> Result<Result<RecordedExecution, String>, Error> {
        let store = self.store();
        let row = store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?;
        if row.events > MAX_EVENTS {
            return Ok(Err(format!("it has more than {MAX_EVENTS} events")));
        }
        let events = store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        Ok(match self.records().replayed_deployment(&row, true).await {
            Ok(automation) => {
                Ok(RecordedExecution { id, automation, events, secret: self.context().secret.clone() })
            }
            Err(Error::NotReplayable(reason)) => Err(reason),
            Err(error) => return Err(error),
        })
    }

    fn try_on(
        &self,
        request: &TrialRequest,
        recorded: Vec<(ExecutionId, Result<RecordedExecution, String>)>,
        patience: &Patience,
    ) -> Result<Trials, Error> {
        let catalog = Arc::new(self.draft(&request.path, &request.text)?);
        let draft = deployment_of(&catalog, &request.path)?;
        let settings = self.settings();
        let real = RealSecrets::local(settings.dir.join("secrets"), settings.env_allow.clone());
        let runner = TestRunner::new(catalog, self.project_dir()).with_secrets(real);
        let mut results = Trials::default();
        for (id, execution) in recorded {
            let outcome = execution.as_ref().ok().and_then(RecordedExecution::outcome).cloned();
            let trial = execution.and_then(|execution| {
                if execution.automation.automation.id != draft.automation.id {
                    return Err(format!("it is an execution of `{}`", execution.automation.automation.id));
                }
                if let Some(reason) = patience.reason() {
                    return Err(reason);
                }
                runner.try_recorded(&draft, &execution)
            });
            results.executions.push(TrialOutcome { id, recorded: outcome, trial });
        }
        if request.tests {
            results.tests = run_tests(&runner, &draft, &request.test_files, patience);
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
fn run_tests(
    runner: &TestRunner,
    draft: &Deployment,
    texts: &[TestText],
    patience: &Patience,
) -> Vec<TestOutcome> {
    let mut found = Vec::new();
    let own: Vec<PathBuf> = model::test_suite::FILE_SUFFIXES
        .iter()
        .filter_map(|suffix| {
            Some(PathBuf::from(format!("{}{suffix}", stem(draft.automation.source.path())?)))
        })
        .collect();
    for on_disk in find_test_files(runner.dir(), runner.catalog(), &own) {
        let file = match texts.iter().find(|given| given.path == on_disk.path) {
            Some(given) => load_suite(runner.catalog(), &given.path, &given.text),
            None => on_disk,
        };
        let Some(suite) = file.suite else {
            found.push(TestOutcome { name: file.path, report: file.report, skipped: None });
            continue;
        };
        if suite.automation.name != draft.automation.id.as_str() {
            continue;
        }
        for case in &suite.cases {
            let skipped = patience.reason().or_else(|| match case.cassette {
                Some(_) => Some("it replays a recording; `cogwork test` runs it".to_owned()),
                None => case.skip.clone(),
            });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_request_starts_no_further_trial() {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let patience = Patience { begun: Instant::now(), is_dropped: is_dropped.clone() };
        let guard = CancelOnDrop(is_dropped);
        assert_eq!(patience.reason(), None);
        drop(guard);
        assert_eq!(patience.reason().as_deref(), Some("the request was cancelled"));
    }

    #[test]
    fn no_further_trial_starts_after_the_time_limit_of_a_request() {
        let begun = |ago: Duration| {
            let begun = Instant::now().checked_sub(ago).expect("an instant");
            Patience { begun, is_dropped: Arc::default() }.reason()
        };
        assert_eq!(begun(MAX_TIME / 2), None);
        assert_eq!(
            begun(MAX_TIME + Duration::from_millis(1)).as_deref(),
            Some("the trials took longer than 30 s")
        );
    }
}
