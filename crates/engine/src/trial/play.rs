//! One test from its start to its end: a real engine on a real store of its own, on a thread of its own, on a clock that
//! moves only while everything waits.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connector::{AllowList, Http, HttpOptions, Tape, Timer, Transport};
use jiff::Timestamp;
use model::Span;
use model::automation::Trigger;
use model::execution::{Event, ExecutionId, LogLine};
use model::payload::HttpResponse;
use model::trial::Case;
use model::value::Map;
use store::{ExecutionFilter, Location, Page, StateWrite};

use super::begin::{Begun, now};
use super::desk::{Account, Desk};
use super::direct::Directed;
use super::still::{Noticed, Still};
use super::{RealSecrets, Trouble};
use crate::catalog::{Catalog, Deployed};
use crate::clock::{Clock as _, ManualClock};
use crate::engine::Engine;
use crate::reload::Loader;
use crate::run::Secret;
use crate::services::{Foundation, Services};
use crate::settings::Settings;

/// The longest that one test may take of real time: it waits for nothing, so it is caught in a loop.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most executions of one test that are looked at, its own and those it calls.
const MOST_EXECUTIONS: u32 = 1000;
/// How many lines of a log are read at one time.
const PAGE: u32 = 1000;

/// What happened.
pub(super) struct Played {
    /// The answer to the caller, where there was one.
    pub(super) response: Option<HttpResponse>,
    /// Why nothing started, where that was refused.
    pub(super) refused: Option<String>,
    /// Whether the trigger's condition let nothing start.
    pub(super) filtered: bool,
    /// The executions, that of the test first and then those that it called, in the order in which they began.
    pub(super) executions: Vec<Execution>,
    pub(super) account: Account,
    /// Doubles of the test alone that nobody asked for.
    pub(super) unused: Vec<model::trial::Double>,
    /// What was left waiting for something that does not come, in words.
    pub(super) stuck: Option<String>,
    /// Where it is written what was to happen once somebody waits for it, and nobody did.
    pub(super) unawaited: Vec<Span>,
    /// What is remembered, by key.
    pub(super) state: Map,
    /// The recording, where the test has one.
    pub(super) tape: Option<Arc<Tape>>,
}

/// An execution as it is in the store.
pub(super) struct Execution {
    pub(super) deployed: Arc<Deployed>,
    pub(super) events: Vec<Event>,
    pub(super) logs: Vec<LogLine>,
}

/// What a test is played with.
pub(super) struct Props {
    pub(super) catalog: Arc<Catalog>,
    /// The project folder.
    pub(super) dir: PathBuf,
    /// The folder of the file of tests, relative to it.
    pub(super) folder: PathBuf,
    /// The recording, where the test has one.
    pub(super) tape: Option<Arc<Tape>>,
    /// What may be called although it is private, when the real system is.
    pub(super) outbound_allow: Vec<String>,
    /// The secrets that the real system is called with.
    pub(super) real: RealSecrets,
}

/// Plays a test.
pub(super) fn play(props: &Props, case: &Case, deployed: &Arc<Deployed>) -> Result<Played, Trouble> {
    let still = Still::default();
    let watcher = still.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || watcher.idle())
        .build()
        .map_err(|error| Trouble::system("cannot start a thread for the test", &error))?;
    let played = runtime.block_on(async {
        let scene = Scene::set(props, case, deployed, still)?;
        let played = tokio::time::timeout(PATIENCE, scene.play()).await;
        scene.clear().await;
        played.unwrap_or_else(|_| {
            let seconds = PATIENCE.as_secs();
            Err(Trouble::of(
                case,
                format!("the test does not come to an end: it was stopped after {seconds}s"),
            ))
        })
    });
    runtime.shutdown_background();
    played
}

/// Everything around one test.
pub(super) struct Scene<'a> {
    pub(super) case: &'a Case,
    pub(super) deployed: &'a Arc<Deployed>,
    pub(super) props: &'a Props,
    pub(super) still: Still,
    pub(super) clock: ManualClock,
    desk: Arc<Desk>,
    pub(super) engine: Engine,
    /// Set once whoever starts the execution has got an answer.
    pub(super) started: Cell<bool>,
    /// Deleted with everything in it at the end.
    _folder: tempfile::TempDir,
}

impl<'a> Scene<'a> {
    fn set(
        props: &'a Props,
        case: &'a Case,
        deployed: &'a Arc<Deployed>,
        still: Still,
    ) -> Result<Self, Trouble> {
        let folder = tempfile::tempdir()
            .map_err(|error| Trouble::system("cannot make a folder for the test", &error))?;
        // The folder is deleted at the end, so nothing need survive a power cut.
        let options = store::Options { durability: store::Durability::Relaxed, ..store::Options::default() };
        let store = store::open(&Location::from(folder.path()), options)
            .map_err(|error| Trouble::system("cannot open a store for the test", &error))?;
        let clock = ManualClock::new(now(case, deployed));
        let automation = &deployed.automation.id;
        let desk = Arc::new(Desk::new(props, case, automation, clock.clone(), still.clone()));
        let files_dir = Some(folder.path().join("files"));
        let settings =
            Settings { watch: false, background: false, files_dir, ..Settings::new(folder.path()) };
        let http = http(props, &clock)?;
        let services = Services::on(Foundation {
            isolation: crate::isolation::Isolation::none(),
            settings,
            store: Arc::new(Noticed { store, still: still.clone() }),
            // Whoever guesses an address of this engine reaches nobody.
            secret: Secret::new([0; 32]),
            clock: Arc::new(clock.clone()),
            http,
            // Nothing is loaded here: the files were read once for all tests.
            loader: Loader::new(folder.path(), props.catalog.registry().clone(), Vec::new()),
            catalog: props.catalog.clone(),
            vault: None,
            doubles: Some(desk.clone()),
        });
        services.tracker.spawn(services.clone().dispatch());
        services.tracker.spawn(services.clone().wake_in_time());
        let engine = Engine::over(services);
        Ok(Self {
            case,
            deployed,
            props,
            still,
            clock,
            desk,
            engine,
            started: Cell::new(false),
            _folder: folder,
        })
    }

    /// Lets go of everything: what still waits is dropped with the runtime.
    async fn clear(&self) {
        self.engine.services().closing.cancel();
        self.engine.services().abort.cancel();
        // What cannot be closed in a moment is deleted all the same.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.engine.store().close()).await;
    }

    async fn play(&self) -> Result<Played, Trouble> {
        self.remember().await?;
        let begin = async {
            let begun = self.begin().await;
            self.started.set(true);
            begun
        };
        let (begun, directed) = tokio::join!(begin, self.direct());
        let Directed { stuck, unawaited } = directed?;
        let (account, unused) = self.desk.close();
        let executions = self.executions().await?;
        let (response, refused, passed) = match begun? {
            Begun::Answered(response) => {
                let passed = response.status == 200;
                (Some(response), None, passed)
            }
            Begun::Refused(message) => (None, Some(message), false),
            Begun::Accepted => (None, None, true),
        };
        let filtered = passed && executions.is_empty();
        let state = self.remembered().await?;
        let tape = self.props.tape.clone();
        Ok(Played { response, refused, filtered, executions, account, unused, stuck, unawaited, state, tape })
    }

    /// Whose state the Automation reads: that of a start on a test address is kept apart.
    fn scope(&self) -> String {
        let automation = &self.deployed.automation;
        let is_test = !automation.enabled && matches!(automation.trigger, Trigger::Webhook(_));
        format!("{}automation:{}", if is_test { "test:" } else { "" }, automation.id)
    }

    /// Puts in place what the test says is remembered.
    async fn remember(&self) -> Result<(), Trouble> {
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
        self.engine.store().write_state(writes).await.map_err(Trouble::store)
    }

    /// What is remembered in the end.
    async fn remembered(&self) -> Result<Map, Trouble> {
        let now = self.clock.now();
        let rows = self.engine.store().list_state(&self.scope(), None, PAGE).await.map_err(Trouble::store)?;
        let alive = rows.into_iter().filter(|row| row.entry.expires_at.is_none_or(|expires| expires > now));
        Ok(alive.map(|row| (row.key, row.entry.value)).collect())
    }

    /// The execution that the test started, if it started one.
    pub(super) async fn test_execution(&self) -> Result<Option<ExecutionId>, Trouble> {
        let filter = ExecutionFilter {
            automation: Some(self.deployed.automation.id.clone()),
            ..ExecutionFilter::default()
        };
        let page = Page { before: None, limit: MOST_EXECUTIONS };
        let rows = self.engine.store().executions(&filter, page).await.map_err(Trouble::store)?;
        Ok(rows.last().map(|row| row.id))
    }

    /// All executions, oldest first: nothing begins before that of the test.
    async fn executions(&self) -> Result<Vec<Execution>, Trouble> {
        let store = self.engine.store();
        let page = Page { before: None, limit: MOST_EXECUTIONS };
        let rows = store.executions(&ExecutionFilter::default(), page).await.map_err(Trouble::store)?;
        let mut executions = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            let catalog = self.engine.catalog();
            let Some(deployed) = catalog.get(&row.automation).cloned() else { continue };
            let events = store.events(row.id).await.map_err(Trouble::store)?.unwrap_or_default();
            let mut logs = Vec::new();
            loop {
                let after = u32::try_from(logs.len()).unwrap_or(u32::MAX);
                let more = store.logs(row.id, after, PAGE).await.map_err(Trouble::store)?;
                let is_last = more.len() < PAGE as usize;
                logs.extend(more);
                if is_last {
                    break;
                }
            }
            executions.push(Execution { deployed, events, logs });
        }
        Ok(executions)
    }
}

/// The way out: onto the tape, or nowhere.
fn http(props: &Props, clock: &ManualClock) -> Result<Http, Trouble> {
    let wrong = |error: &dyn std::fmt::Display| Trouble::system("cannot set up HTTP for the test", error);
    let usual = HttpOptions::default();
    let options = match &props.tape {
        None => HttpOptions { transport: Transport::Nowhere, ..usual },
        Some(tape) if tape.records() => HttpOptions {
            transport: Transport::Tape(tape.clone()),
            allow: AllowList::parse(props.outbound_allow.iter().map(String::as_str))
                .map_err(|error| wrong(&error))?,
            ..usual
        },
        Some(tape) => HttpOptions {
            transport: Transport::Tape(tape.clone()),
            timer: Arc::new(Stopped(clock.clone())),
            ..usual
        },
    };
    Http::new(options).map_err(|error| wrong(&error))
}

/// The test's clock, for what waits inside an action.
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
