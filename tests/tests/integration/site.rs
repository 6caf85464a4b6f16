//! A project with its daemon, and a client for both of its listeners.

use std::process::{ExitStatus, Output};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use store::conformance::PostgresServer;
use tests::canary;
use tests::daemon::{Builder, Daemon, cogwork};
use tests::project::Project;
use tests::recorder::Recorder;
use wiki_simulator::{DEMO_EMAIL, DEMO_TOKEN};

/// The environment variable that selects the store of the daemons: with `postgresql`, each site has its own server; otherwise
/// the store is a file.
const STORE: &str = "COGWORK_TEST_STORE";
/// The longest wait for something that a test expects.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A project and the daemon that runs on it, while one does.
pub(crate) struct Site {
    /// First, so that its data can be searched for secrets before the project is deleted.
    daemon: Option<Daemon>,
    pub(crate) project: Project,
    http: Client,
    /// Environment variables of the daemon.
    variables: Vec<(String, String)>,
    /// The server with the store; `None` if the store is a file.
    _server: Option<PostgresServer>,
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
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the execution id in the response to an asynchronous start.
    pub(crate) fn execution(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()["executionId"].as_str().unwrap().to_owned()
    }

    /// Returns the status and the error code.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl Site {
    /// A project with these automations, by name, and no daemon yet.
    pub(crate) fn new(automations: &[(&str, &str)]) -> Self {
        let project = Project::new().unwrap();
        for (name, yaml) in automations {
            project.automation(name, yaml).unwrap();
        }
        Self::of(project, None)
    }

    /// A project with the daemon that runs on it.
    pub(crate) fn over(project: Project, daemon: Daemon) -> Self {
        Self::of(project, Some(daemon))
    }

    fn of(project: Project, daemon: Option<Daemon>) -> Self {
        let server = std::env::var_os(STORE).filter(|store| store == "postgresql");
        let server = server.map(|_| PostgresServer::start());
        let variables = server.iter().map(|server| ("COGWORK_STORE".to_owned(), server.space().url()));
        let variables = variables.collect();
        Self { daemon, project, http: client(), variables, _server: server }
    }

    /// A project with these automations, served.
    pub(crate) async fn serving(automations: &[(&str, &str)]) -> Self {
        let mut site = Self::new(automations);
        site.start().await;
        site
    }

    /// Writes the connection `wiki` to a wiki at this address.
    pub(crate) fn connect_wiki(&self, host: &str) {
        self.project.secret("wikiToken", DEMO_TOKEN).unwrap();
        let with =
            format!("email: {DEMO_EMAIL}, apiToken: \"${{{{ secrets.wikiToken }}}}\", host: \"{host}\"");
        self.project.connection("wiki", &format!("type: wiki.basic\nwith: {{{with}}}\n")).unwrap();
    }

    pub(crate) async fn start(&mut self) {
        self.start_with(&[]).await;
    }

    /// Starts the daemon with these variables.
    pub(crate) async fn start_in(&mut self, variables: &[(&str, &str)]) {
        assert!(self.daemon.is_none(), "it runs already");
        let daemon = variables.iter().fold(self.builder(), |daemon, (name, value)| daemon.env(name, value));
        self.daemon = Some(daemon.start().await.unwrap());
    }

    /// Sets environment variables of the daemon, from its next start on.
    pub(crate) fn surround(&mut self, variables: Vec<(String, String)>) {
        self.variables.extend(variables);
    }

    /// Starts the daemon with further arguments.
    pub(crate) async fn start_with(&mut self, arguments: &[&str]) {
        assert!(self.daemon.is_none(), "it runs already");
        let daemon = arguments.iter().fold(self.builder(), |daemon, argument| daemon.argument(argument));
        self.daemon = Some(daemon.start().await.unwrap());
    }

    fn builder(&self) -> Builder<'_> {
        let builder = Daemon::builder(&self.project);
        self.variables.iter().fold(builder, |daemon, (name, value)| daemon.env(name, value))
    }

    /// Kills the daemon without a warning.
    pub(crate) async fn kill(&mut self) {
        self.daemon.take().unwrap().kill().await.unwrap();
    }

    /// Asks the daemon to stop and waits for its end.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        self.daemon.take().unwrap().stop().await.unwrap()
    }

    /// Asks the daemon to stop.
    pub(crate) fn terminate(&self) {
        self.daemon().terminate().unwrap();
    }

    /// Waits for the daemon's end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        self.daemon.take().unwrap().ended().await.unwrap()
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("a daemon runs")
    }

    /// Runs `cogwork` in the project, and asserts that its output contains no secret.
    pub(crate) async fn cogwork(&self, arguments: &[&str]) -> Output {
        let mut command = cogwork(&self.project).unwrap();
        command.args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().await.unwrap();
        canary::look(&output.stdout, "what a command printed");
        canary::look(&output.stderr, "what a command said");
        output
    }

    /// A request to the API.
    pub(crate) fn api(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v1{path}", self.daemon().admin_url());
        self.http.request(method, url).bearer_auth(self.daemon().admin_token().unwrap())
    }

    /// Returns the API's response to a GET.
    pub(crate) async fn ask(&self, path: &str) -> Value {
        let answer = send(self.api(Method::GET, path)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    }

    /// Returns an automation as the API shows it.
    pub(crate) async fn automation(&self, id: &str) -> Value {
        self.ask(&format!("/automations/{id}")).await
    }

    /// Returns the live address of an automation.
    pub(crate) async fn url(&self, id: &str) -> String {
        let automation = self.automation(id).await;
        automation["liveUrl"].as_str().unwrap_or_else(|| panic!("no address: {automation}")).to_owned()
    }

    /// Returns the token in the live address of an automation.
    pub(crate) async fn token(&self, id: &str) -> String {
        let url = self.url(id).await;
        url.rsplit_once("/trigger/").unwrap().1.to_owned()
    }

    /// A request to an address.
    pub(crate) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.http.request(method, url)
    }

    /// Sends JSON to the live address of an automation.
    pub(crate) async fn post(&self, id: &str, body: &Value) -> Answer {
        let url = self.url(id).await;
        send(self.http.post(url).json(body)).await
    }

    /// Starts an automation by hand and returns the execution id.
    pub(crate) async fn run(&self, id: &str) -> String {
        let answer = send(self.api(Method::POST, &format!("/automations/{id}/run"))).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.json()["executionId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of an execution and returns it as the API shows it.
    pub(crate) async fn end_of(&self, execution: &str) -> Value {
        let mut events = self.events(&format!("/executions/{execution}/events")).await;
        events.next("end").await;
        self.ask(&format!("/executions/{execution}")).await
    }

    /// Returns the executions of an automation, newest first.
    pub(crate) async fn executions_of(&self, id: &str) -> Vec<Value> {
        let page = self.ask(&format!("/executions?automation={id}&limit=200")).await;
        page["executions"].as_array().unwrap().clone()
    }

    /// A stream of the API.
    pub(crate) async fn events(&self, path: &str) -> Events {
        let answer = self.api(Method::GET, path).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        Events { answer, text: String::new() }
    }
}

fn client() -> Client {
    // Fails if another test of this process has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().timeout(PATIENCE).build().unwrap()
}

/// Emits an event, and returns the answer without the id of the event, which is a new one.
pub(crate) async fn emit(request: RequestBuilder) -> Value {
    let mut answer = send(request).await.json();
    let id = answer.as_object_mut().and_then(|members| members.remove("id"));
    assert!(id.is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty())), "{answer}");
    answer
}

/// Sends a request, reads the whole response, and asserts that it contains no secret.
pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.unwrap();
    canary::look(format!("{headers:?}"), "the head of an answer");
    canary::look(&text, "an answer");
    Answer { status, headers, text }
}

/// Server-sent events as they come.
pub(crate) struct Events {
    answer: reqwest::Response,
    text: String,
}

impl Events {
    /// Returns the data of the next event with this name, and skips others.
    pub(crate) async fn next(&mut self, name: &str) -> Value {
        let found = tokio::time::timeout(PATIENCE, self.find(name)).await;
        found.unwrap_or_else(|_| panic!("no event `{name}` within {} s", PATIENCE.as_secs()))
    }

    async fn find(&mut self, name: &str) -> Value {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let field =
                    |field: &str| event.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
                let found =
                    (field("event:") == Some(name)).then(|| field("data:").unwrap_or_default().to_owned());
                canary::look(event, "an event");
                self.text = rest.to_owned();
                if let Some(data) = found {
                    return serde_json::from_str(&data).unwrap();
                }
            }
            let piece = self.answer.chunk().await.unwrap();
            let piece = piece.unwrap_or_else(|| panic!("the stream ended without an event `{name}`"));
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

/// Formats a step for each name that posts the name to the recorder, under a path of the same name.
pub(crate) fn posts(recorder: &Recorder, names: &[&str]) -> String {
    names.iter().map(|name| post_step(recorder, name)).collect()
}

/// Formats a step that posts its name to the recorder, under a path of the same name.
pub(crate) fn post_step(recorder: &Recorder, name: &str) -> String {
    let url = recorder.url();
    format!(
        "  - id: {name}\n    action: http.request\n    with: {{url: \"{url}/{name}\", method: POST, body: {{step: {name}}}}}\n"
    )
}
