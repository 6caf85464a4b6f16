//! Tests of Automations: files of tests found, read and checked, and each test played and judged.
//!
//! A test is played by a real engine over a real store in a folder of its own, without network and without waiting: what
//! has an effect outside is answered by doubles, and the clock stands still but where everything waits for it.

mod begin;
mod check;
mod coverage;
mod desk;
mod direct;
mod files;
mod judge;
mod play;
mod result;
mod seen;
mod still;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connector::Tape;
use model::Span;
use model::automation::{Automation, Named};
use model::diagnostic::{Diagnostic, Report};
use model::execution::{Event, LogLine};
use model::trial::{CASSETTES, Case, Suite};

use catalog::Catalog;
use play::Props;
use runtime::Vault;

pub use coverage::{Coverage, Goal, GoalKind};
pub use files::{Tests, check_text, find};

/// Where tests are played: a project with its Automations, connections and connectors.
pub struct Stage {
    catalog: Arc<Catalog>,
    /// The project folder.
    dir: PathBuf,
    outbound_allow: Vec<String>,
    real: RealSecrets,
}

/// Where the secrets of this machine are, for recording, which calls the real system.
#[derive(Clone)]
pub struct RealSecrets {
    /// Those of the project's store.
    pub vault: Option<Arc<Vault>>,
    /// The folder with a file for each.
    pub folder: PathBuf,
}

/// What came of a test.
pub struct Verdict {
    /// What is not as it must be, at the places of the file that say so. Empty: the test passes.
    pub report: Report,
    /// The execution of the test, where one started.
    pub execution: Option<Execution>,
    /// What was reached of each Automation that ran.
    pub coverage: Vec<Coverage>,
}

/// An execution of a test.
pub struct Execution {
    /// Of which Automation.
    pub automation: Arc<Automation>,
    /// What happened.
    pub events: Vec<Event>,
    /// What it logged.
    pub logs: Vec<LogLine>,
}

impl Verdict {
    /// Whether everything is as it must be.
    #[must_use]
    pub fn passes(&self) -> bool {
        !self.report.has_errors()
    }
}

impl Stage {
    /// A stage over the Automations of a project folder.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let real = RealSecrets { vault: None, folder: dir.join("secrets") };
        Self { catalog, dir, outbound_allow: Vec::new(), real }
    }

    /// The same where recording reads the secrets of this machine there.
    #[must_use]
    pub fn with_secrets(self, real: RealSecrets) -> Self {
        Self { real, ..self }
    }

    /// The same where recording may call these hosts and networks though they are private.
    #[must_use]
    pub fn with_outbound(self, allow: Vec<String>) -> Self {
        Self { outbound_allow: allow, ..self }
    }

    /// Plays one test of a file and judges it. `tape` is the recording of a test that names one: a blank one calls the
    /// real system. Blocks the thread that it is called on, which should do nothing else.
    #[must_use]
    pub fn play(&self, suite: &Suite, case: &Case, tape: Option<Arc<Tape>>) -> Verdict {
        let failed = |diagnostic| Verdict {
            report: Report::new(suite.source.clone(), [diagnostic]),
            execution: None,
            coverage: Vec::new(),
        };
        let deployed = match self.catalog.find(&suite.automation.name) {
            Ok(deployed) => deployed.clone(),
            Err(error) => return failed(Trouble::of(case, error.to_string()).diagnostic()),
        };
        if let (Some(name), None) = (&case.cassette, &tape) {
            return failed(Trouble::no_recording(name).diagnostic());
        }
        let folder = Path::new(suite.source.path()).parent().unwrap_or(Path::new(""));
        let props = Props {
            catalog: self.catalog.clone(),
            dir: self.dir.clone(),
            folder: folder.to_owned(),
            tape,
            outbound_allow: self.outbound_allow.clone(),
            real: self.real.clone(),
        };
        match play::play(&props, case, &deployed) {
            Ok(played) => {
                let found = judge::judge(case, &deployed.automation, &played);
                let mut coverage = coverage::of(&played);
                if played.filtered {
                    coverage.push(coverage::filtered(&deployed.automation));
                }
                let execution = played.executions.into_iter().next().map(|execution| Execution {
                    automation: execution.deployed.automation.clone(),
                    events: execution.events,
                    logs: execution.logs,
                });
                Verdict { report: Report::new(suite.source.clone(), found), execution, coverage }
            }
            Err(trouble) => failed(trouble.diagnostic()),
        }
    }

    /// The Automations of the project.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The project folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The file of a recording, relative to the project folder: in the folder `cassettes` beside the tests.
#[must_use]
pub fn cassette_path(suite: &Suite, name: &str) -> PathBuf {
    let tests = Path::new(suite.source.path());
    tests.parent().unwrap_or(Path::new("")).join(CASSETTES).join(name)
}

/// Why a test could not be played.
#[derive(Debug)]
struct Trouble {
    message: String,
    /// The place of the file that it is about.
    span: Span,
    help: Option<String>,
}

impl Trouble {
    fn of(case: &Case, message: String) -> Self {
        Self { message, span: case.name.span, help: None }
    }

    fn no_recording(name: &Named) -> Self {
        Self {
            message: format!("there is no recording `{}` yet", name.name),
            span: name.span,
            help: Some("make it with `cogwork test --record`, which calls the real system".to_owned()),
        }
    }

    /// Something of the machine, not of the test.
    fn system(what: &str, error: &dyn std::fmt::Display) -> Self {
        Self { message: format!("{what}: {error}"), span: Span::default(), help: None }
    }

    fn store(error: store::Error) -> Self {
        Self::system("the store of the test failed", &error)
    }

    fn engine(error: runtime::Error) -> Self {
        Self::system("the engine of the test failed", &error)
    }

    fn diagnostic(self) -> Diagnostic {
        let diagnostic = Diagnostic::error("cannot-play", self.message, self.span);
        match self.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}
