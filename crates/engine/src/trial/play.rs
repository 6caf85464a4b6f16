//! One test from its start to its end: a real engine on a real store of its own, on a thread of its own, on a clock that
//! moves only while everything waits.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{Trigger, WebhookTrigger};
use model::execution::{Event, ExecutionId, LogLine, Origin, WaitReason};
use model::payload::{HttpResponse, Payload};
use model::trial::{Case, Happening, Request, RequestBody, Start, What};
use model::value::{Map, Value};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use store::{ExecutionFilter, Page, SqliteStore, StateWrite};

use super::Trouble;
use super::desk::{Account, Desk};
use super::still::{Noticed, Still};
use crate::catalog::{Catalog, Deployed, Mounted};
use crate::clock::{Clock as _, ManualClock};
use crate::engine::{Engine, Foundation, Services};
use crate::intake::{Answer, Pending, Terms};
use crate::reload::Loader;
use crate::run::Secret;
use crate::settings::Settings;

/// The longest that one test may take of real time: it waits for nothing, so it is caught in a loop.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most executions of one test that are looked at, its own and those it calls.
const MOST_EXECUTIONS: u32 = 1000;
/// How many lines of a log are read at one time.
const PAGE: u32 = 1000;
/// What cannot stand in a path as it is (RFC 3986, 3.3).
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

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
    /// Happenings that nobody waited for, and what was left waiting in the end.
    pub(super) stuck: Option<Stuck>,
    /// What is remembered, by key.
    pub(super) state: Map,
}

/// An execution as it is in the store.
pub(super) struct Execution {
    pub(super) deployed: Arc<Deployed>,
    pub(super) events: Vec<Event>,
    pub(super) logs: Vec<LogLine>,
}

/// Nothing goes on, and nothing that is still to come would change that.
pub(super) struct Stuck {
    /// What it waits for, in words.
    pub(super) waits: String,
}

/// Plays a test. `folder` is that of its file.
pub(super) fn play(
    catalog: &Arc<Catalog>,
    folder: &Path,
    case: &Case,
    deployed: &Arc<Deployed>,
) -> Result<Played, Trouble> {
    let still = Still::default();
    let watcher = still.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || watcher.idle())
        .build()
        .map_err(|error| Trouble::system("cannot start a thread for the test", &error))?;
    let played = runtime.block_on(async {
        let scene = Scene::set(catalog, folder, case, deployed, still)?;
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
struct Scene<'a> {
    case: &'a Case,
    deployed: &'a Arc<Deployed>,
    dir: &'a Path,
    still: Still,
    clock: ManualClock,
    desk: Arc<Desk>,
    engine: Engine,
    /// Set once whoever starts the execution has got an answer.
    started: Cell<bool>,
    /// Deleted with everything in it at the end.
    _folder: tempfile::TempDir,
}

impl<'a> Scene<'a> {
    fn set(
        catalog: &Arc<Catalog>,
        dir: &'a Path,
        case: &'a Case,
        deployed: &'a Arc<Deployed>,
        still: Still,
    ) -> Result<Self, Trouble> {
        let folder = tempfile::tempdir()
            .map_err(|error| Trouble::system("cannot make a folder for the test", &error))?;
        // The folder is deleted at the end, so nothing need survive a power cut.
        let options = store::Options { durability: store::Durability::Relaxed, ..store::Options::default() };
        let store = SqliteStore::open(folder.path(), options)
            .map_err(|error| Trouble::system("cannot open a store for the test", &error))?;
        let clock = ManualClock::new(now(case, deployed));
        let desk = Arc::new(Desk::new(case, &deployed.automation.id, clock.clone()));
        let settings = Settings { watch: false, background: false, ..Settings::new(folder.path()) };
        let http = connector::Http::new(connector::HttpOptions::default())
            .map_err(|error| Trouble::system("cannot set up HTTP for the test", &error))?;
        let services = Services::on(Foundation {
            settings,
            store: Arc::new(Noticed { store, still: still.clone() }),
            // Whoever guesses an address of this engine reaches nobody.
            secret: Secret::new([0; 32]),
            clock: Arc::new(clock.clone()),
            http,
            // Nothing is loaded here: the files were read once for all tests.
            loader: Loader::new(folder.path(), catalog.registry().clone(), Vec::new()),
            catalog: catalog.clone(),
            doubles: Some(desk.clone()),
        });
        services.tracker.spawn(services.clone().dispatch());
        services.tracker.spawn(services.clone().wake_in_time());
        let engine = Engine::over(services);
        Ok(Self {
            case,
            deployed,
            dir,
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
        let (begun, stuck) = tokio::join!(begin, self.direct());
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
        Ok(Played { response, refused, filtered, executions, account, unused, stuck: stuck?, state })
    }

    /// Starts the execution as the test says.
    async fn begin(&self) -> Result<Begun, Trouble> {
        let automation = &self.deployed.automation;
        match (&self.case.start, &automation.trigger) {
            (Start::Request(request), Trigger::Webhook(webhook)) => self.request(request, webhook).await,
            (Start::Usual, Trigger::Webhook(webhook)) => self.request(&Request::default(), webhook).await,
            (Start::Due(at), Trigger::Schedule(_)) => self.tick(*at).await,
            (Start::Usual, Trigger::Schedule(_)) => self.tick(self.clock.now()).await,
            (Start::Inputs(inputs), _) => self.by_hand(inputs).await,
            (Start::Usual, Trigger::Manual) => self.by_hand(&[]).await,
            (Start::Request(_) | Start::Due(_), trigger) => Err(Trouble::of(
                self.case,
                format!(
                    "`{}` is not started in this way: its trigger is `{}`",
                    automation.id,
                    trigger.word()
                ),
            )),
        }
    }

    async fn request(&self, request: &Request, webhook: &WebhookTrigger) -> Result<Begun, Trouble> {
        let mounted = Mounted {
            deployed: self.deployed.clone(),
            // The live address of a disabled Automation is not there; its test address is.
            test: !self.deployed.automation.enabled,
        };
        let request = self.as_sent(request, webhook)?;
        let answer = self.engine.receive_at(&mounted, request).await;
        Ok(Begun::Answered(answer.unwrap_or_else(|rejection| rejection.response())))
    }

    fn as_sent(
        &self,
        request: &Request,
        webhook: &WebhookTrigger,
    ) -> Result<trigger::webhook::Request, Trouble> {
        let usual =
            || webhook.methods.iter().find(|method| *method == "POST").or(webhook.methods.first()).cloned();
        let method = request.method.as_ref().map(|method| method.name.clone()).or_else(usual);
        let (body, content_type) = match &request.body {
            RequestBody::Empty => (bytes::Bytes::new(), None),
            RequestBody::Value(Value::String(text)) => {
                (text.as_bytes().to_vec().into(), Some("text/plain; charset=utf-8"))
            }
            RequestBody::Value(value) => (value.to_json().into(), Some("application/json")),
            RequestBody::Bytes(bytes) => (bytes.clone(), Some("application/octet-stream")),
            RequestBody::File(name) => {
                let path = self.dir.join(&name.name);
                let bytes = std::fs::read(&path).map_err(|error| {
                    let message = format!("the file `{}` cannot be read: {error}", path.display());
                    Trouble { message, span: name.span, help: None }
                })?;
                (bytes.into(), Some("application/octet-stream"))
            }
        };
        let mut headers: Vec<(String, Vec<u8>)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.name.to_ascii_lowercase(), value.clone().into_bytes()))
            .collect();
        if let Some(content_type) = content_type
            && !headers.iter().any(|(name, _)| name == "content-type")
        {
            headers.push(("content-type".to_owned(), content_type.into()));
        }
        let fragment = &request.path_fragment;
        let slash = if fragment.is_empty() || fragment.starts_with('/') { "" } else { "/" };
        Ok(trigger::webhook::Request {
            method: method.unwrap_or_else(|| "POST".to_owned()),
            fragment: format!("{slash}{}", utf8_percent_encode(fragment, PATH)),
            raw_query: query(&request.query_parameters),
            headers,
            body,
        })
    }

    async fn tick(&self, at: Timestamp) -> Result<Begun, Trouble> {
        let automation = &self.deployed.automation;
        let Some(schedule) = &self.deployed.schedule else {
            return Err(Trouble::of(self.case, "the schedule of the automation was not compiled".to_owned()));
        };
        let just_before = at.checked_sub(Duration::from_nanos(1)).unwrap_or(at);
        let fires = schedule.next_after(just_before);
        if fires != Some(at) {
            let next = fires.map_or_else(|| "never again".to_owned(), |next| format!("next at {next}"));
            return Err(Trouble {
                message: format!("the schedule does not fire at {at}"),
                span: self.case.start_span,
                help: Some(format!("it fires {next} ({})", schedule.describe())),
            });
        }
        self.clock.advance_to(at);
        let services = self.engine.services();
        let payload = schedule.payload(at, self.clock.now());
        if !services.scheduled_condition_holds(automation, &payload) {
            return Ok(Begun::Accepted);
        }
        let start = crate::Start { payload, origin: Origin::Schedule { instant: at } };
        match services.accept(self.deployed, start, Terms::default()).await {
            Ok(_) => Ok(Begun::Accepted),
            Err(error) => Ok(Begun::Refused(error.to_string())),
        }
    }

    async fn by_hand(&self, inputs: &[(model::automation::Named, Value)]) -> Result<Begun, Trouble> {
        let inputs: Map = inputs.iter().map(|(name, value)| (name.name.as_str(), value.clone())).collect();
        let start = crate::Start { payload: Payload::manual(inputs), origin: Origin::Manual };
        match self.engine.run(&self.deployed.automation.id, start).await {
            Ok(_) => Ok(Begun::Accepted),
            Err(error) => Ok(Begun::Refused(error.to_string())),
        }
    }

    /// Moves the clock on whenever everything waits, and lets happen what is to happen, until all has ended.
    async fn direct(&self) -> Result<Option<Stuck>, Trouble> {
        let begun = self.clock.now();
        let mut upcoming: Vec<&Happening> = self.case.happenings.iter().collect();
        loop {
            self.still.rest().await;
            let unfinished = self.engine.store().unfinished_count().await.map_err(Trouble::store)?;
            if self.started.get() && unfinished == 0 {
                return Ok(None);
            }
            if let Some(at) = self.first_awaited(&upcoming).await? {
                let happening = upcoming.remove(at);
                self.let_happen(happening).await?;
                continue;
            }
            let due = |happening: &&Happening| happening.after.map(|after| begun.checked_add(after));
            let next = upcoming.iter().enumerate();
            let next = next.filter_map(|(index, happening)| Some((due(happening)?.ok()?, index))).min();
            let wake = self.clock.sleeping_until().into_iter().next();
            match (next, wake) {
                (Some((at, index)), wake) if wake.is_none_or(|wake| at <= wake) => {
                    self.clock.advance_to(at);
                    let happening = upcoming.remove(index);
                    self.let_happen(happening).await?;
                }
                (_, Some(wake)) => self.clock.advance_to(wake),
                (_, None) => return Ok(Some(Stuck { waits: self.what_waits().await? })),
            }
        }
    }

    /// The first of what is to happen as soon as somebody waits for it, if somebody does.
    async fn first_awaited(&self, upcoming: &[&Happening]) -> Result<Option<usize>, Trouble> {
        for (index, happening) in upcoming.iter().enumerate() {
            if happening.after.is_some() {
                continue;
            }
            let awaited = match &happening.what {
                What::Cancel { .. } => self.test_execution().await?.is_some(),
                What::Event { name, .. } => {
                    let waiting = self.engine.store().waiting_for_event(&name.name, None, 1).await;
                    !waiting.map_err(Trouble::store)?.is_empty()
                }
                What::Approval { step, .. } => {
                    self.pending().await?.iter().any(|pending| pending.step == step.name)
                }
            };
            if awaited {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    async fn let_happen(&self, happening: &Happening) -> Result<(), Trouble> {
        match &happening.what {
            What::Event { name, data } => {
                self.engine.emit(&name.name, data.clone(), None).await.map_err(Trouble::engine)?;
            }
            What::Approval { step, option, form } => {
                let Some(id) = self.test_execution().await? else { return Ok(()) };
                let answer = Answer { option: option.name.clone(), form: form.clone(), by: None };
                self.engine.answer(id, Some(&step.name), answer).await.map_err(|error| Trouble {
                    message: format!("the step `{}` does not take this answer: {error}", step.name),
                    span: option.span,
                    help: None,
                })?;
            }
            What::Cancel { reason } => {
                let Some(id) = self.test_execution().await? else { return Ok(()) };
                self.engine.cancel(id, reason).await.map_err(Trouble::engine)?;
            }
        }
        Ok(())
    }

    /// The steps of the test's execution that pause.
    async fn pending(&self) -> Result<Vec<Pending>, Trouble> {
        match self.test_execution().await? {
            Some(id) => self.engine.services().pending(id).await.map_err(Trouble::engine),
            None => Ok(Vec::new()),
        }
    }

    /// What is left waiting, in words, with the way out.
    async fn what_waits(&self) -> Result<String, Trouble> {
        let pending = self.pending().await?;
        let waits = pending.iter().map(|pending| match &pending.on {
            WaitReason::Event { name } => {
                format!("the step `{}` waits for the event `{name}`: give it below `events:`", pending.step)
            }
            WaitReason::Approval { options, .. } => {
                let options = options.join(", ");
                format!(
                    "the step `{}` waits for an answer ({options}): give it below `approvals:`",
                    pending.step
                )
            }
            WaitReason::Call { .. } => {
                format!("the step `{}` waits for the automation that it calls", pending.step)
            }
            WaitReason::Time => format!("the step `{}` waits for a time that does not come", pending.step),
        });
        let waits: Vec<String> = waits.collect();
        Ok(if waits.is_empty() { "nothing goes on any more".to_owned() } else { waits.join("; ") })
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
    async fn test_execution(&self) -> Result<Option<ExecutionId>, Trouble> {
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

/// What came of a start.
enum Begun {
    /// The caller was answered.
    Answered(HttpResponse),
    /// Nothing was started.
    Refused(String),
    /// It was started, or passed over by the trigger's condition.
    Accepted,
}

/// Where the clock stands at the start: for a usual start of a schedule, where it fires next.
fn now(case: &Case, deployed: &Deployed) -> Timestamp {
    let just_before = case.now.checked_sub(Duration::from_nanos(1)).unwrap_or(case.now);
    let next = deployed.schedule.as_ref().and_then(|schedule| schedule.next_after(just_before));
    match case.start {
        Start::Usual => next.unwrap_or(case.now),
        _ => case.now,
    }
}

/// The query: a list repeats its parameter.
fn query(parameters: &[(model::automation::Named, Value)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter().flat_map(|(name, value)| {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        values.iter().map(move |value| format!("{}={}", encode(&name.name), encode(&value.to_text())))
    });
    pairs.collect::<Vec<_>>().join("&")
}
