//! The engine of a running test, with its own store, its clock and its stubs, and the trace that it leaves.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connector::secret_provider::ProvidedSecret;
use connector::{AllowList, Cassette, Http, HttpOptions, Timer, Transport};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::LogLine;
use model::automation::Trigger;
use model::execution::{Event, ExecutionId};
use model::payload::HttpResponse;
use model::test_suite::{Case, Start};
use store::{ExecutionFilter, Page, StateWrite};
use text::Span;
use tokio::runtime::Handle;
use value::Map;
use value::redact::Redactor;

use crate::error::TestError;
use crate::quiescence::Quiescence;
use crate::stubs::{Call, CallLog, DoubleTable};
use crate::trial::TrialStart;
use catalog::{Catalog, Deployment};
use ingress::Ingress;
use runtime::{Clock as _, ManualClock};
use runtime::{Error, Isolation, Runtime, RuntimeParts, Secret, Secrets, Settings};

/// Maximum number of executions examined per test, including called ones.
const MAX_EXECUTIONS: u32 = 1000;
/// Log lines and state entries read per page.
const PAGE: u32 = 1000;

/// Secrets and variables of this machine. Recordings, which call the real system, read both.
#[derive(Clone)]
pub struct RealSecrets {
    secrets: Arc<Secrets>,
    /// Asks providers, since the clock of a test must not advance meanwhile; `None` if no provider is asked.
    runtime: Option<Handle>,
}

impl RealSecrets {
    /// The secrets of a folder, and the variables of the environment that files may read: all except Cogwork's own if `env_allow` is `None`.
    #[must_use]
    pub fn local(folder: PathBuf, env_allow: Option<Vec<String>>) -> Self {
        let secrets = Secrets::new(None, folder, Redactor::default(), None);
        Self { secrets: Arc::new(secrets.with_allowed_variables(env_allow)), runtime: None }
    }

    /// The secrets of any source. Providers are asked on the threads of `runtime`, which is not the runtime of a test.
    #[must_use]
    pub fn new(secrets: Secrets, runtime: Handle) -> Self {
        Self { secrets: Arc::new(secrets), runtime: Some(runtime) }
    }

    /// Reads an environment variable of this process; `None` if it is not set.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.secrets.variable(name)
    }

    /// Reads a secret; `hide` gets its versions. Blocks the thread until a provider has answered, or failed.
    pub(super) fn read(
        &self,
        name: &str,
        hide: impl Fn(&ProvidedSecret) + Send + Sync + 'static,
    ) -> Result<Option<Arc<ProvidedSecret>>, Error> {
        let (secrets, name) = (self.secrets.clone(), name.to_owned());
        let reading = async move { secrets.whole_secret(&name, &hide).await };
        let found = match &self.runtime {
            None => reading.now_or_never(),
            Some(runtime) => {
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                runtime.spawn(async move { sender.send(reading.await) });
                receiver.recv().ok()
            }
        };
        match found {
            // The time of a test passes at once, so it does not wait until the provider answers again.
            Some(Err(Error::SecretProvider(message))) => Err(Error::Input(message)),
            Some(found) => found,
            None => Err(Error::Input("no provider can be asked".to_owned())),
        }
    }
}

/// Trace of a finished test.
pub(super) struct TestTrace {
    /// Response to the caller; `None` if there was none.
    pub(super) response: Option<HttpResponse>,
    /// Reason why the start was refused; `None` if it was not.
    pub(super) refused: Option<String>,
    /// True if the trigger's condition rejected the start.
    pub(super) filtered: bool,
    /// Executions in the order of their start; the first is the test's own, the others were called by it.
    pub(super) executions: Vec<Execution>,
    pub(super) call_log: CallLog,
    /// Doubles defined by the test itself that no call used.
    pub(super) unused: Vec<model::test_suite::Stub>,
    /// Explanation if an execution waits for something that never happens.
    pub(super) stuck: Option<String>,
    /// Positions of events, approvals and cancellations that no step waited for.
    pub(super) unawaited: Vec<Span>,
    /// State at the end, by key.
    pub(super) state: Map,
    /// Recording; `None` if the test has none.
    pub(super) cassette: Option<Arc<Cassette>>,
    /// The call that ended a trial, since the record has no answer for it.
    pub(super) new_call: Option<Call>,
}

/// Execution as stored.
pub(super) struct Execution {
    pub(super) deployment: Arc<Deployment>,
    pub(super) events: Vec<Event>,
    pub(super) logs: Vec<LogLine>,
}

/// Inputs of a test run, beside the test itself.
pub(super) struct TestSetup {
    pub(super) catalog: Arc<Catalog>,
    /// Project folder.
    pub(super) dir: PathBuf,
    /// Folder of the test file, relative to the project folder.
    pub(super) folder: PathBuf,
    /// Recording; `None` if the test has none.
    pub(super) cassette: Option<Arc<Cassette>>,
    /// Private hosts and networks that a recording may call.
    pub(super) outbound_allow: Vec<String>,
    /// The folder of files that a recording reads and writes; `None` for an empty one.
    pub(super) files_dir: Option<PathBuf>,
    /// Secrets for calls to the real system.
    pub(super) real: RealSecrets,
    /// The recorded start that a trial repeats; `None` for a test.
    pub(super) trial: Option<TrialStart>,
}

/// Running test with its engine.
pub(super) struct TestRun<'a> {
    pub(super) case: &'a Case,
    pub(super) deployment: &'a Arc<Deployment>,
    pub(super) setup: &'a TestSetup,
    pub(super) quiescence: Quiescence,
    pub(super) clock: ManualClock,
    pub(super) doubles: Arc<DoubleTable>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) ingress: Arc<Ingress>,
    /// True once the start request has been answered.
    pub(super) started: Cell<bool>,
    /// Temporary folder of the store, deleted on drop.
    _folder: tempfile::TempDir,
}

impl<'a> TestRun<'a> {
    /// Creates the engine of a test.
    pub(super) fn new(
        setup: &'a TestSetup,
        case: &'a Case,
        deployment: &'a Arc<Deployment>,
        quiescence: Quiescence,
    ) -> Result<Self, TestError> {
        let folder = tempfile::tempdir()
            .map_err(|error| TestError::system("cannot make a folder for the test", &error))?;
        // The folder is deleted at the end, so the data need not survive a power failure.
        let options = store::Options { durability: store::Durability::Relaxed, ..store::Options::default() };
        let store = store_sqlite::open(folder.path(), options)
            .map_err(|error| TestError::system("cannot open a store for the test", &error))?;
        let clock = ManualClock::new(now(case, deployment));
        let automation = &deployment.automation.id;
        let doubles = Arc::new(DoubleTable::new(setup, case, automation, clock.clone(), quiescence.clone()));
        let is_recording = setup.cassette.as_ref().is_some_and(|cassette| cassette.is_recording());
        let own = setup.files_dir.clone().filter(|_| is_recording);
        let files_dir = own.map_or_else(|| empty_folder(&folder.path().join("files")), Ok)?;
        let settings = Settings {
            watch: false,
            background: false,
            files_dir: Some(files_dir),
            ..Settings::new(folder.path())
        };
        let http = http(setup, &clock)?;
        let runtime = Runtime::from_parts(RuntimeParts {
            isolation: Isolation::none(),
            settings,
            store: Arc::new(store::Layered { store, layer: Arc::new(quiescence.clone()) }),
            // No other process can reach this engine, so the tokens need not be secret.
            secret: setup.trial.as_ref().map_or(Secret::new([0; 32]), |trial| trial.secret.clone()),
            clock: Arc::new(clock.clone()),
            http,
            // The files were read once for all tests.
            catalog: setup.catalog.clone(),
            vault: None,
            doubles: Some(doubles.clone()),
        });
        runtime.start_tasks();
        let ingress = Ingress::new(&runtime);
        Ok(Self {
            case,
            deployment,
            setup,
            quiescence,
            clock,
            doubles,
            runtime,
            ingress,
            started: Cell::new(false),
            _folder: folder,
        })
    }

    /// Shuts the engine down. Tasks that still wait are dropped with the runtime.
    pub(super) async fn shut_down(&self) {
        self.runtime.context.closing.cancel();
        self.runtime.context.abort.cancel();
        // If the store does not close in time, its folder is deleted anyway.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.runtime.context.store.close()).await;
    }

    /// Returns the state scope of the automation; test URLs have a separate one.
    fn scope(&self) -> String {
        let automation = &self.deployment.automation;
        let is_test = match &self.setup.trial {
            Some(trial) => trial.plan.origin.is_test(),
            None => {
                let trigger = self.case.trigger_of(automation);
                trigger.is_ok_and(|trigger| {
                    !automation.is_mounted(trigger) && matches!(trigger.on, Trigger::Webhook(_))
                })
            }
        };
        format!("{}automation:{}", if is_test { "test:" } else { "" }, automation.id)
    }

    /// Writes the initial state given by the test.
    pub(super) async fn write_initial_state(&self) -> Result<(), TestError> {
        let scope = self.scope();
        let writes = self.case.state.iter().map(|(key, value)| StateWrite {
            scope: scope.clone(),
            key: key.name.clone(),
            expected: None,
            value: Some(value.clone()),
            expires_at: None,
        });
        let writes: Vec<StateWrite> = writes.collect();
        if writes.is_empty() {
            return Ok(());
        }
        self.runtime.context.store.write_state(writes).await.map_err(TestError::store)
    }

    /// Reads the state at the end.
    pub(super) async fn final_state(&self) -> Result<Map, TestError> {
        let now = self.clock.now();
        let rows = self
            .runtime
            .context
            .store
            .list_state(&self.scope(), None, PAGE)
            .await
            .map_err(TestError::store)?;
        let alive = rows.into_iter().filter(|row| row.entry.expires_at.is_none_or(|expires| expires > now));
        Ok(alive.map(|row| (row.key, row.entry.value)).collect())
    }

    /// Returns the execution that the test started; `None` if it started none.
    pub(super) async fn test_execution(&self) -> Result<Option<ExecutionId>, TestError> {
        let filter = ExecutionFilter {
            automation: Some(self.deployment.automation.id.clone()),
            ..ExecutionFilter::default()
        };
        let page = Page { before: None, limit: MAX_EXECUTIONS };
        let rows = self.runtime.context.store.executions(&filter, page).await.map_err(TestError::store)?;
        Ok(rows.last().map(|row| row.id))
    }

    /// Reads all executions, oldest first; the first is the test's own.
    pub(super) async fn executions(&self) -> Result<Vec<Execution>, TestError> {
        let store = &self.runtime.context.store;
        let page = Page { before: None, limit: MAX_EXECUTIONS };
        let rows = store.executions(&ExecutionFilter::default(), page).await.map_err(TestError::store)?;
        let mut executions = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            let catalog = self.runtime.context.catalog();
            let Some(deployment) = catalog.get(&row.automation).cloned() else { continue };
            let events = store.events(row.id).await.map_err(TestError::store)?.unwrap_or_default();
            let mut logs = Vec::new();
            loop {
                let after = u32::try_from(logs.len()).unwrap_or(u32::MAX);
                let more = store.logs(row.id, after, PAGE).await.map_err(TestError::store)?;
                let is_last = more.len() < PAGE as usize;
                logs.extend(more);
                if is_last {
                    break;
                }
            }
            executions.push(Execution { deployment, events, logs });
        }
        Ok(executions)
    }
}

fn empty_folder(path: &Path) -> Result<PathBuf, TestError> {
    std::fs::create_dir(path)
        .map_err(|error| TestError::system("cannot make a folder for the files of the test", &error))?;
    Ok(path.to_owned())
}

/// Creates the HTTP client, which uses the recording or has no network.
fn http(setup: &TestSetup, clock: &ManualClock) -> Result<Http, TestError> {
    let wrong = |error: &dyn std::fmt::Display| TestError::system("cannot set up HTTP for the test", error);
    let usual = HttpOptions::default();
    let options = match &setup.cassette {
        None => HttpOptions { transport: Transport::Disabled, ..usual },
        Some(cassette) if cassette.is_recording() => HttpOptions {
            transport: Transport::Cassette(cassette.clone()),
            allow: AllowList::parse(setup.outbound_allow.iter().map(String::as_str))
                .map_err(|error| wrong(&error))?,
            ..usual
        },
        Some(cassette) => HttpOptions {
            transport: Transport::Cassette(cassette.clone()),
            timer: Arc::new(Stopped(clock.clone())),
            ..usual
        },
    };
    Http::new(options).map_err(|error| wrong(&error))
}

/// Timer for actions that runs on the test clock.
struct Stopped(ManualClock);

#[async_trait]
impl Timer for Stopped {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn pause(&self, wait: Duration) {
        self.0.sleep_until(self.0.now().checked_add(wait).unwrap_or(Timestamp::MAX)).await;
    }
}

/// Returns the initial time: by default the next fire time of a schedule, otherwise the test's `now`.
fn now(case: &Case, deployment: &Arc<Deployment>) -> Timestamp {
    let just_before = case.now.checked_sub(Duration::from_nanos(1)).unwrap_or(case.now);
    let mount = crate::start::mount(case, deployment).ok();
    let next = mount.and_then(|mount| mount.schedule()?.next_after(just_before));
    match case.start {
        Start::Default => next.unwrap_or(case.now),
        _ => case.now,
    }
}
