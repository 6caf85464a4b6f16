//! `cogwork test`

mod cassettes;
mod coverage;
mod junit;
mod play;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use authoring::{TestFile, find_test_files};
use clap::Args;
use runtime::Vault;
use testing::{RealSecrets, TestRunner};
use tokio::runtime::Runtime;

use super::Subcommand;
use crate::context::{Context, LogProfile};
use crate::exit::{CommandError, Exit};
use crate::output::{self, count};
use crate::paths::{self, Named};
use crate::settings::Config;
use crate::{daemon, history, project};

const EXAMPLES: &str = "\
Examples:
  cogwork test                                     every test of the project
  cogwork test automations/order-desk.yaml         the tests of one automation
  cogwork test --name \"refused\"                    the tests with this text in their name
  cogwork test --coverage                          also report what no test reached
  cogwork test --complete                          fail if a test is missing
  cogwork test --junit target/tests.xml            for a build server
  cogwork test --record automations/sync.yaml      call the real system and record it

Test files are beside their automations: automations/order-desk.test.yaml.";

/// Run the tests of automations, offline and with a simulated clock
///
/// A test states the input of an automation, the answers of its actions, and the expected results. Tests call no other
/// system and take no real time. Exits with 1 if a test fails or a test file has errors.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Test {
    /// Test files, automations, or folders; default: all tests of the project
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only tests with this text in their name; case is ignored
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Run only the tests that name a cassette, call the real system, and record its answers
    #[arg(long, conflicts_with = "jobs")]
    record: bool,
    /// Report the steps and branches that no test reached
    #[arg(long)]
    coverage: bool,
    /// Fail if a step or branch is not reached; implies --coverage
    #[arg(long, conflicts_with = "record")]
    complete: bool,
    /// Print one JSON object instead of a list
    #[arg(long)]
    json: bool,
    /// Write the results as JUnit XML too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The number of parallel tests; default: the number of processors
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<std::num::NonZeroUsize>,
}

impl Subcommand for Test {
    const NAME: &'static str = "test";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        // The log of an execution is evaluated by its test, not printed.
        let config = context.config(&[], LogProfile::Tool)?;
        let dir = context.dir();
        let checked = project::check(dir, &[])?;
        let wanted = select_tests(dir, &self.paths)?;
        let files = find_test_files(dir, &checked.catalog, &wanted);
        if files.is_empty() {
            return Err(nothing(&self.paths));
        }
        let runtime = daemon::runtime()?;
        let runner = TestRunner::new(Arc::new(checked.catalog), dir)
            .with_outbound(config.engine().outbound_allow)
            .with_files(config.files_dir.clone())
            .with_secrets(secrets(&config, self.record, &runtime)?);
        let begun = Instant::now();
        let mut listing = report::Listing::new(!self.json);
        let plan =
            play::Plan { files: &files, name: self.name.as_deref(), jobs: self.jobs, records: self.record };
        let played = play::all(&runner, &plan, &mut |file| listing.show(file))?;
        let summary = report::Summary::new(&played, begun.elapsed());
        if summary.ran() == 0 && summary.broken == 0 {
            return Err(CommandError::usage(match self.name {
                Some(text) => format!("no test has `{text}` in its name"),
                None => "no test names a cassette; add `cassette: NAME.yaml` to the one to record".to_owned(),
            }));
        }
        if self.record {
            play::recorded(&runner, &played).write()?;
        }
        let coverage = coverage::measure(&runner, &played);
        if let Some(path) = &self.junit {
            write(path, &junit::text(&played, &summary)?)?;
        }
        if self.json {
            output::json(&report::to_json(&played, &summary, &coverage))?;
        } else {
            report::failures(&played, self.record)?;
            if self.coverage || self.complete {
                coverage::show(&coverage)?;
            }
            output::data(summary.line())?;
        }
        let is_complete = !self.complete || coverage.iter().all(coverage::is_complete);
        Ok(if summary.is_good() && is_complete { Exit::Done } else { Exit::Failed })
    }
}

/// The secrets for recording, from the sources of the settings: of the store with or without a daemon.
fn secrets(config: &Config, records: bool, runtime: &Runtime) -> anyhow::Result<RealSecrets> {
    let store = if records { history::open(config)? } else { None };
    let vault = match store {
        Some(store) => Some(runtime.block_on(Vault::open(store, config.keys()))?.for_reading()),
        None => None,
    };
    Ok(RealSecrets::new(crate::secrets::reader(config, vault), runtime.handle().clone()))
}

/// Converts arguments to paths relative to the project folder: an automation selects its tests.
fn select_tests(dir: &Path, given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut wanted = Vec::with_capacity(given.len());
    for path in given {
        match paths::resolve(dir, path)? {
            Named::Inside(below) if below.as_os_str().is_empty() => return Ok(Vec::new()),
            Named::Inside(below) => match below.to_str().and_then(tests_of) {
                Some(tests) => wanted.extend(tests),
                None => wanted.push(below),
            },
            Named::Outside(path) => {
                let message =
                    format!("`{}` is outside the project; name the project with --dir", path.display());
                return Err(CommandError::usage(message));
            }
        }
    }
    Ok(wanted)
}

/// The test files of an automation; `None` if the path is not an automation's.
fn tests_of(path: &str) -> Option<[PathBuf; 2]> {
    if model::test_suite::suite_stem(path).is_some() {
        return None;
    }
    let stem = path.strip_suffix(".yaml").or_else(|| path.strip_suffix(".yml"))?;
    Some(model::test_suite::FILE_SUFFIXES.map(|ending| PathBuf::from(format!("{stem}{ending}"))))
}

fn nothing(paths: &[PathBuf]) -> anyhow::Error {
    let way_out = "write one beside the automation: automations/NAME.test.yaml";
    match paths {
        [] => CommandError::usage(format!("this project has no tests; {way_out}")),
        _ => CommandError::usage(format!("there are no tests in {}; {way_out}", count(paths.len(), "path"))),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    crate::scaffold::make_parent(path)?;
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// The tests of a file.
fn cases(file: &TestFile) -> &[model::test_suite::Case] {
    file.suite.as_ref().map_or(&[], |suite| suite.cases.as_slice())
}
