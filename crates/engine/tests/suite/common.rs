//! A project folder, an engine over it, and an HTTP server whose responses the test decides.

use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use engine::{Engine, stores::Location};
use jiff::Timestamp;
use model::Status;
use model::execution::{Event, ExecutionId, Origin, Outcome, StepOutcome};
use model::payload::Payload;
use runtime::{Clock as _, EngineEvent, ManualClock, Settings};
use store::{ExecutionFilter, ExecutionRow, Page, Store, Subscription};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use value::{JsonLimits, Map, Value};

use crate::watched::Watched;

/// The longest wait of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for a future, for at most [`PATIENCE`].
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens in time")
}

/// Waits until a condition holds, for at most [`PATIENCE`].
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    until_async(async || holds()).await;
}

/// Waits until a condition holds that is read from a store, for at most [`PATIENCE`].
pub(crate) async fn until_async(mut holds: impl AsyncFnMut() -> bool) {
    soon(async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Makes code run in workers of the separate worker program, since a test binary has no hidden subcommand.
pub(crate) fn workers() {
    static SET: Once = Once::new();
    SET.call_once(|| catalog::set_code_program(env!("CARGO_BIN_EXE_engine-worker").into(), Vec::new()));
}

/// A project folder with a store.
pub(crate) struct Project {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) settings: Settings,
}

impl Project {
    pub(crate) fn new() -> Self {
        connector::install_crypto();
        workers();
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("automations")).expect("a folder");
        std::fs::create_dir(dir.path().join("connections")).expect("a folder");
        let mut settings = Settings::new(dir.path());
        settings.watch = false;
        settings.outbound_allow = vec!["127.0.0.1".to_owned()];
        let start: Timestamp = "2026-03-02T08:00:00Z".parse().expect("an instant");
        Self { dir, clock: ManualClock::new(start), settings }
    }

    /// Creates a project with this Automation in `automations/test.yaml`.
    pub(crate) fn with(yaml: &str) -> Self {
        let project = Self::new();
        project.write("automations/test.yaml", yaml);
        project
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.dir.path().join(path), text).expect("the file is written");
    }

    pub(crate) fn path(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn open_store(&self) -> Arc<dyn Store> {
        open_store(&self.settings.data_dir)
    }

    pub(crate) async fn start(&self) -> Engine {
        self.start_on(self.open_store()).await
    }

    pub(crate) async fn start_on(&self, store: Arc<dyn Store>) -> Engine {
        let engine = Engine::start(self.settings.clone(), store, Arc::new(self.clock.clone())).await;
        let engine = engine.expect("the engine starts");
        for broken in engine.catalog().invalid_files() {
            println!("{}", broken.report.render(false));
        }
        engine
    }

    /// Starts the engine on a store that the test observes, blocks or makes fail.
    pub(crate) async fn start_watched(&self) -> (Engine, Arc<Watched>) {
        let watched = Watched::new(self.open_store());
        (self.start_on(watched.store()).await, watched)
    }
}

impl Drop for Project {
    /// Asserts that no file of the data folder contains a secret.
    fn drop(&mut self) {
        if self.settings.data_dir.is_dir() && !std::thread::panicking() {
            tests::canary::search(&self.settings.data_dir).expect("the data folder can be read");
        }
    }
}

/// Opens the store of a data folder: a file in it, or, if `COGWORK_TEST_STORE` is `postgres`, a schema of its own on a server that
/// all tests of the process share.
pub(crate) fn open_store(dir: &Path) -> Arc<dyn Store> {
    open_store_with(dir, store::Options::default())
}

pub(crate) fn open_store_with(dir: &Path, options: store::Options) -> Arc<dyn Store> {
    #[cfg(unix)]
    if std::env::var_os("COGWORK_TEST_STORE").is_some_and(|kind| kind == "postgres") {
        return open_on_server(dir, options);
    }
    engine::stores::open(&Location::from(dir), options).expect("the store opens")
}

#[cfg(unix)]
fn open_on_server(dir: &Path, options: store::Options) -> Arc<dyn Store> {
    use std::collections::HashMap;
    use std::path::PathBuf;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use store::conformance::{PostgresServer, PostgresSpace};

    static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);
    static SPACES: LazyLock<Mutex<HashMap<PathBuf, PostgresSpace>>> = LazyLock::new(Mutex::default);
    let mut spaces = SPACES.lock().unwrap_or_else(PoisonError::into_inner);
    let space = spaces.entry(dir.to_owned()).or_insert_with(|| SERVER.space()).clone();
    drop(spaces);
    let options = store::Options { local: Some(dir.to_owned()), ..options };
    engine::stores::open(&Location::parse(&space.url(), dir).expect("an address"), options)
        .expect("the store opens")
}

/// Stops an engine and closes its store, so that another can open it.
pub(crate) async fn stop(engine: Engine) {
    soon(engine.shutdown(Duration::from_secs(10))).await;
    engine.store().close().await.expect("the store closes");
}

/// Waits until a task sleeps until `next`: everything due earlier has run.
pub(crate) async fn settled(project: &Project, next: &str) {
    soon(project.clock.somebody_sleeps_until(next.parse().expect("an instant"))).await;
}

/// Waits until a task sleeps for this time, and lets it pass.
pub(crate) async fn pass(project: &Project, time: Duration) {
    soon(project.clock.somebody_sleeps_until(project.clock.now() + time)).await;
    project.clock.advance(time);
}

/// Waits until executions are suspended and none runs.
pub(crate) async fn until_suspended(engine: &Engine) {
    until(|| engine.status().resting > 0 && engine.status().in_flight == 0).await;
}

/// Waits until there are subscriptions, for all of which this holds.
pub(crate) async fn subscribed(engine: &Engine, holds: impl Fn(&Subscription) -> bool) {
    until(|| {
        let all = engine.ingress().subscriptions();
        !all.is_empty() && all.iter().all(&holds)
    })
    .await;
}

/// Returns the executions, newest first.
pub(crate) async fn rows(engine: &Engine) -> Vec<ExecutionRow> {
    let page = Page { before: None, limit: 1000 };
    engine.store().executions(&ExecutionFilter::default(), page).await.expect("they are read")
}

pub(crate) fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes(), JsonLimits::default()).expect("it is JSON")
}

/// Starts `automations/test.yaml` by hand with these inputs.
pub(crate) async fn start_with(engine: &Engine, inputs: &str) -> ExecutionId {
    let inputs: Map = json(inputs).as_map().expect("a map").clone();
    let start = runtime::ManualStart::new(Payload::manual(inputs), Origin::Manual);
    let id = model::AutomationId::parse("test").expect("an id");
    engine.ingress().start(&id.clone().into(), start).await.expect("it starts")
}

/// Runs an Automation to its end. Returns its result as JSON, or `status: message`.
pub(crate) async fn outcome_of(yaml: &str) -> String {
    outcome_with(yaml, "{}").await
}

pub(crate) async fn outcome_with(yaml: &str, inputs: &str) -> String {
    let project = Project::with(yaml);
    let engine = project.start().await;
    let id = start_with(&engine, inputs).await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
    show(&outcome)
}

pub(crate) fn show(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded { result } => result.to_json(),
        Outcome::Failed { error } => format!("failed: {}", error.message),
        Outcome::Cancelled { reason } => format!("cancelled: {reason}"),
        Outcome::Stuck { error } => format!("stuck: {}", error.message),
    }
}

/// Returns the outcomes of the steps of an execution as `step=result`, in the order of their record.
pub(crate) async fn steps_of(engine: &Engine, id: ExecutionId) -> Vec<String> {
    let events = engine.store().events(id).await.expect("the events are read").expect("it exists");
    let ends = events.into_iter().filter_map(|event| match event {
        Event::StepFinished { step, outcome, .. } => Some(match outcome {
            StepOutcome::Succeeded { result } => format!("{step}={}", result.to_json()),
            StepOutcome::Skipped => format!("{step} skipped"),
            StepOutcome::Jumped { by, .. } => format!("{step} left by {by:?}").to_lowercase(),
            StepOutcome::Failed { handled: Some(value), .. } => format!("{step} handled={}", value.to_json()),
            StepOutcome::Failed { error, .. } => format!("{step} failed: {}", error.message),
        }),
        _ => None,
    });
    ends.collect()
}

/// A server on loopback that passes each request to the test and sends the response that the test gives.
pub(crate) struct Peer {
    pub(crate) base: String,
    requests: mpsc::Receiver<PeerRequest>,
    accept: tokio::task::JoinHandle<()>,
}

/// A request that waits for its response.
pub(crate) struct PeerRequest {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    stream: TcpStream,
}

impl Peer {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, requests) = mpsc::channel(1024);
        let accept = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    if let Some(asked) = PeerRequest::read(stream).await {
                        let _ = sender.send(asked).await;
                    }
                });
            }
        });
        Self { base, requests, accept }
    }

    /// Waits for the next request.
    pub(crate) async fn next_request(&mut self) -> PeerRequest {
        soon(self.requests.recv()).await.expect("the server runs")
    }

    /// Returns a request that has already arrived, if any.
    pub(crate) fn pending_request(&mut self) -> Option<PeerRequest> {
        self.requests.try_recv().ok()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

impl PeerRequest {
    async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        while bytes.len() < head + length.unwrap_or(0) {
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
        let line = String::from_utf8_lossy(&bytes).lines().next()?.to_owned();
        let line = line.rsplit_once(' ')?.0.to_owned();
        let body = bytes.split_off(head);
        Some(Self { line, head: text, body, stream })
    }

    /// Returns the value of a header by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Answers with JSON.
    pub(crate) async fn answer(self, status: u16, body: &str) {
        self.answer_with(status, "", body).await;
    }

    /// Answers with JSON and further headers, each with its line break.
    pub(crate) async fn answer_with(mut self, status: u16, headers: &str, body: &str) {
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        // The caller may have given up.
        let _ = self.stream.write_all(answer.as_bytes()).await;
        let _ = self.stream.shutdown().await;
    }
}

/// Formats a step that sends a POST request to the peer.
pub(crate) fn call(id: &str, base: &str, path: &str) -> String {
    format!("  - id: {id}\n    action: http.request\n    with: {{method: POST, url: \"{base}{path}\"}}\n")
}

/// Formats an Automation with a manual trigger and these steps.
pub(crate) fn manual(steps: &str) -> String {
    format!("trigger: {{manual: {{}}}}\ninputs: {{name: {{}}}}\nsteps:\n{steps}")
}

/// Stops an engine without a grace period, which leaves the journal as a crash does.
pub(crate) async fn crash(engine: Engine) {
    soon(engine.shutdown(Duration::ZERO)).await;
    engine.store().close().await.expect("the store closes");
}

/// Starts the Automation and waits until it is suspended.
pub(crate) async fn start_and_suspend(engine: &Engine, inputs: &str) -> ExecutionId {
    let mut notices = engine.subscribe();
    let id = start_with(engine, inputs).await;
    soon(async {
        loop {
            if let EngineEvent::ExecutionEvents { id: of, status: Status::Waiting, .. } =
                notices.recv().await.expect("notices come")
                && of == id
            {
                break;
            }
        }
        while engine.status().resting == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    id
}

/// Waits for the end of an execution and returns its outcome as text.
pub(crate) async fn end(engine: &Engine, id: ExecutionId) -> String {
    show(&soon(engine.admission().wait(id)).await.expect("it ends"))
}
