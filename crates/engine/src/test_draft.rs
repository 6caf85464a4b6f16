//! A test from a recorded execution: the change of the file beside the automation that would add it.

use std::sync::Arc;

use authoring::{ProjectText, append_case, load_suite};
use catalog::Catalog;
use model::automation::Automation;
use model::execution::ExecutionId;
use runtime::Error;
use testing::{RealSecrets, RecordedExecution, Strictness, TestRunner, case_text};

use crate::engine::Engine;

/// The maximum number of characters of the name of a test.
const NAME_CHARS: usize = 200;
/// The indentation of the tests of a new file.
const INDENT: usize = 2;

/// A test that is not written yet.
#[derive(Clone, Debug)]
pub struct TestDraft {
    /// The path of the test file, relative to the project folder.
    pub path: String,
    /// The current text of the file; `None` if the file does not exist.
    pub before: Option<ProjectText>,
    /// The text with the test.
    pub text: String,
    /// The name of the test.
    pub name: String,
    /// The part of the recorded outcome that it expects.
    pub strictness: Strictness,
}

impl Engine {
    /// Writes a test that repeats a recorded execution offline, and runs it. Changes nothing.
    ///
    /// # Errors
    /// The execution cannot be written as a test, the test would not pass, its automation is not in force, or the store
    /// failed.
    pub async fn test_from_execution(
        &self,
        id: ExecutionId,
        name: Option<String>,
    ) -> Result<TestDraft, Error> {
        let memory = self.reserve_for_histories(&[id]).await?;
        let recorded = self.recorded(id).await?.map_err(Error::NotReplayable)?;
        let catalog = self.catalog();
        let automation = catalog.find(recorded.automation.automation.id.as_str())?.automation.clone();
        let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("as in execution {id}"));
        if name.chars().count() > NAME_CHARS || name.chars().any(char::is_control) {
            return Err(Error::Input(format!(
                "the name of a test has at most {NAME_CHARS} characters in one line"
            )));
        }
        let engine = self.clone();
        // A test drives a runtime of its own, on a thread that may block.
        let work = tokio::task::spawn_blocking(move || {
            let _memory = memory;
            engine.draft_test(&catalog, &automation, &recorded, name)
        });
        work.await.map_err(|error| Error::Input(format!("the test ended early: {error}")))?
    }

    fn draft_test(
        &self,
        catalog: &Arc<Catalog>,
        automation: &Automation,
        recorded: &RecordedExecution,
        name: String,
    ) -> Result<TestDraft, Error> {
        let (settings, dir) = (self.settings(), self.project_dir());
        let path = test_path(automation.source.path());
        let before =
            authoring::read_file(&dir, &path).map_err(|error| Error::NotReplayable(error.to_string()))?;
        let real = RealSecrets::local(settings.dir.join("secrets"), settings.env_allow.clone());
        let variable = |name: &str| real.variable(name);
        let runner = TestRunner::new(catalog.clone(), &dir).with_secrets(real.clone());
        let mut reason = String::new();
        // Values such as times and ids differ in each execution: then less is expected.
        for strictness in [Strictness::Full, Strictness::Endings, Strictness::Outcome] {
            let case = |indent| case_text(recorded, catalog.registry(), &name, strictness, &variable, indent);
            let text = match &before {
                Some(before) => append_case(&before.text, &case),
                None => case(INDENT).map(|case| format!("tests:\n{case}")),
            };
            let text = text.map_err(Error::NotReplayable)?;
            let file = load_suite(catalog, &path, &text);
            let Some(suite) = file.suite else {
                return Err(Error::NotReplayable(format!(
                    "the test would not load:\n{}",
                    file.report.render(false)
                )));
            };
            let Some(case) = suite.cases.iter().rfind(|case| case.name.name == name) else { continue };
            let result = runner.run(&suite, case, None);
            if result.passes() {
                return Ok(TestDraft { path, before, text, name, strictness });
            }
            reason = result.report.render(false);
        }
        Err(Error::NotReplayable(format!("the test would not pass on the current version:\n{reason}")))
    }
}

/// The path of the test file beside an automation.
fn test_path(path: &str) -> String {
    let stem = path.strip_suffix(".yaml").or_else(|| path.strip_suffix(".yml")).unwrap_or(path);
    format!("{stem}{}", model::test_suite::FILE_SUFFIXES[0])
}
