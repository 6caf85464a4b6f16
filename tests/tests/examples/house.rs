//! A running example with its engine, store, listeners, clock and wiki, all in this process.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, stores::Location};
use jiff::Timestamp;
use model::{AutomationId, ExecutionId, Origin, Outcome, Payload};
use reqwest::header::HeaderMap;
use runtime::{EngineEvent, ManualClock, Settings};
use serde_json::{Value, json};
use server::{Server, ServerOptions};
use tests::canary;
use tests::project::{Project, repository};
use tokio::sync::broadcast::Receiver;
use value::Map;
use wiki_simulator::{DEMO_EMAIL, DEMO_TOKEN, Running, Simulator};

/// The longest wait for something that a test expects.
const PATIENCE: Duration = Duration::from_secs(30);
/// The expression for the wiki's host in the examples.
const WIKI_HOST: &str = "${{ env.WIKI_HOST | default('http://127.0.0.1:7099') }}";

/// A daemon with one example and a wiki.
pub(crate) struct House {
    pub(crate) wiki: Running,
    pub(crate) clock: ManualClock,
    engine: Engine,
    server: Server,
    http: reqwest::Client,
    id: AutomationId,
    /// Last, so that the folder is deleted after everything that uses it.
    project: Project,
}

/// A response that has been read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl House {
    /// Runs the example `name` of the repository, with a clock at 2026-01-15T09:00:00Z.
    pub(crate) async fn with(name: &str) -> Self {
        connector::install_crypto();
        let wiki = Simulator::builder().demo().start().await.unwrap();
        let project = Project::new().unwrap();
        project.secret("wikiToken", DEMO_TOKEN).unwrap();
        for file in ["connections/mainWiki.yaml".to_owned(), format!("automations/{name}.yaml")] {
            let text = std::fs::read_to_string(repository().join(&file)).unwrap();
            // The tests of one process share their environment variables.
            project.write(&file, &text.replace(WIKI_HOST, wiki.base_url())).unwrap();
        }
        let local = "127.0.0.1:0".parse().unwrap();
        let options = ServerOptions { hooks: local, admin: local, ..ServerOptions::new(project.data_dir()) };
        let bound = Server::bind(options).await.unwrap();
        let addresses = bound.addresses();
        let settings = Settings {
            public_url: Some(format!("http://{}", addresses.hooks)),
            outbound_allow: vec!["127.0.0.1".to_owned()],
            own_addresses: vec![addresses.hooks, addresses.admin],
            watch: false,
            ..Settings::new(project.path())
        };
        let store =
            engine::stores::open(&Location::from(project.data_dir()), store::Options::default()).unwrap();
        let clock = ManualClock::new("2026-01-15T09:00:00Z".parse().unwrap());
        let engine = Engine::start(settings, store, Arc::new(clock.clone())).await.unwrap();
        let server = bound.serve(engine.clone()).unwrap();
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let id = AutomationId::parse(name).unwrap();
        Self { wiki, clock, engine, server, http, id, project }
    }

    /// Returns the example's live address.
    pub(crate) fn url(&self) -> String {
        let catalog = self.engine.catalog();
        let base = format!("http://{}", self.server.hooks_addr());
        catalog.find(self.id.as_str()).unwrap().mounts().next().unwrap().live_url(&base).unwrap()
    }

    /// Sends JSON to the example's live address.
    pub(crate) async fn post(&self, body: Value) -> Answer {
        self.send(self.http.post(self.url()).json(&body)).await
    }

    /// Sends a GET request to the example's live address with `tail` after the token.
    pub(crate) async fn get(&self, tail: &str) -> Answer {
        self.send(self.http.get(self.url() + tail)).await
    }

    /// Posts bytes with a content type to the example's live address with `tail` after the token.
    pub(crate) async fn post_bytes(&self, tail: &str, content_type: &str, bytes: &'static [u8]) -> Answer {
        self.send(self.http.post(self.url() + tail).header("content-type", content_type).body(bytes)).await
    }

    /// Sends a GET request to a URL.
    pub(crate) async fn open(&self, url: &str) -> Answer {
        self.send(self.http.get(url)).await
    }

    /// Posts a form to its URL and follows the redirect.
    pub(crate) async fn fill_in(&self, url: &str, fields: &[(&str, &str)]) -> Answer {
        self.send(self.http.post(url).form(fields)).await
    }

    /// Returns the execution that was started last.
    pub(crate) async fn newest(&self) -> String {
        let page = store::Page { before: None, limit: 1 };
        let rows = self.engine.store().executions(&store::ExecutionFilter::default(), page).await.unwrap();
        rows[0].id.to_string()
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        canary::look(&text, "an answer");
        Answer { status, headers, text }
    }

    /// Starts the example by hand.
    pub(crate) async fn start(&self, inputs: Value) -> ExecutionId {
        let Value::Object(inputs) = inputs else { panic!("inputs are a map") };
        let inputs = inputs.into_iter().map(|(name, value)| (name, value::Value::from_serde(value)));
        let payload = Payload::manual(inputs.collect::<Map>());
        self.engine
            .ingress()
            .start(&self.id.clone().into(), runtime::ManualStart::new(payload, Origin::Manual))
            .await
            .unwrap()
    }

    /// Waits for the outcome of an execution.
    pub(crate) async fn end(&self, id: ExecutionId) -> Outcome {
        tokio::time::timeout(PATIENCE, self.engine.admission().wait(id))
            .await
            .expect("the execution ends")
            .unwrap()
    }

    /// Runs the example by hand, asserts its success, and returns its result.
    pub(crate) async fn run(&self, inputs: Value) -> Value {
        succeeded(self.end(self.start(inputs).await).await)
    }

    /// Waits for the success of an execution and returns its result.
    pub(crate) async fn result_of(&self, execution: &str) -> Value {
        succeeded(self.end(execution.parse().unwrap()).await)
    }

    /// Advances the clock to this instant once the engine waits for it, and returns the execution that starts then.
    pub(crate) async fn tick_at(&self, instant: &str) -> ExecutionId {
        let at: Timestamp = instant.parse().unwrap();
        let mut notices = self.engine.subscribe();
        self.advance_to(at).await;
        tokio::time::timeout(PATIENCE, next_execution(&mut notices)).await.expect("an execution begins")
    }

    /// Advances the clock to this instant once a task sleeps until then.
    pub(crate) async fn advance_to(&self, at: Timestamp) {
        use runtime::Clock as _;
        tokio::time::timeout(PATIENCE, self.clock.somebody_sleeps_until(at))
            .await
            .expect("somebody sleeps until then");
        self.clock.advance(Duration::try_from(at.duration_since(self.clock.now())).unwrap());
    }

    /// Returns the log lines of an execution.
    pub(crate) async fn log(&self, id: ExecutionId) -> Vec<String> {
        let lines = self.engine.store().logs(id, 0, 100).await.unwrap();
        lines.into_iter().map(|line| line.message).collect()
    }

    /// Returns the wiki's response to a GET, such as `/pages/4300000005?body-format=storage`.
    pub(crate) async fn in_wiki(&self, path: &str) -> Value {
        let url = format!("{}/wiki/api/v2{path}", self.wiki.base_url());
        let request = self.http.get(url).basic_auth(DEMO_EMAIL, Some(DEMO_TOKEN));
        self.send(request).await.json()
    }

    /// Returns the pages of the wiki with this title.
    pub(crate) async fn pages_titled(&self, title: &str) -> Vec<Value> {
        let title = title.replace(' ', "%20").replace(':', "%3A");
        let found = self.in_wiki(&format!("/pages?title={title}&body-format=storage")).await;
        found["results"].as_array().unwrap().clone()
    }

    /// Returns the titles of the current pages of a space, sorted.
    pub(crate) async fn titles_in(&self, space: u64) -> Vec<String> {
        let found = self.in_wiki(&format!("/spaces/{space}/pages?status=current&limit=250&sort=title")).await;
        let pages = found["results"].as_array().unwrap();
        pages.iter().map(|page| page["title"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let searched = canary::search(&self.project.data_dir());
            assert!(searched.is_ok_and(|files| files > 0), "the data folder cannot be searched for secrets");
        }
    }
}

fn succeeded(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Succeeded { result } => serde_json::from_str(&result.to_json()).unwrap(),
        other => panic!("{}", json!(other)),
    }
}

async fn next_execution(notices: &mut Receiver<EngineEvent>) -> ExecutionId {
    loop {
        if let EngineEvent::ExecutionEvents { id, .. } = notices.recv().await.unwrap() {
            return id;
        }
    }
}
