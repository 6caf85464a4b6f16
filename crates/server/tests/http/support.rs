//! A daemon in this process, and a client that sends exactly the bytes it is given.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use engine::{Engine, stores::Location};
use model::ExecutionId;
use runtime::{Settings, SystemClock};
use serde_json::Value;
use server::{Client, Server, ServerOptions};
use store::{ExecutionFilter, Options, Page};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::described::assert_described;

/// Responds immediately with the execution id.
pub(crate) const ASYNC: &str = "trigger:\n  webhook: {}\nsteps:\n  - stop:\n      result: 1\n";

/// Responds with the request.
pub(crate) const ECHO: &str = "trigger:
  webhook:
    mode: sync
    methods: [POST, GET]
steps:
  - set:
      fragment: ${{ trigger.results.pathFragment }}
      query: ${{ trigger.results.queryParameters }}
      headers: ${{ trigger.results.headers }}
      data: ${{ trigger.results.body.data }}
";

/// Responds once the URL in its payload has responded.
pub(crate) const GATED: &str = "trigger:
  webhook:
    mode: sync
steps:
  - id: call
    action: http.request
    with:
      method: GET
      url: ${{ trigger.results.body.data.url }}
";

/// Started by hand, with an input.
pub(crate) const MANUAL: &str = "trigger:
  manual: {}
inputs:
  name: {type: text, required: true}
steps:
  - id: greet
    action: log.info
    with:
      message: Hello ${{ inputs.name }}
  - id: out
    set:
      greeting: Hello ${{ inputs.name }}
";

/// Started manually; ends once the URL in its inputs has responded.
pub(crate) const MANUAL_GATED: &str = "trigger:
  manual: {}
inputs:
  url: {type: text, required: true}
steps:
  - id: call
    action: http.request
    with:
      method: GET
      url: ${{ inputs.url }}
  - stop:
      result: through
";

/// A daemon with its own ports and folder.
pub(crate) struct Daemon {
    pub(crate) server: Option<Server>,
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
    pub(crate) hooks: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) token: String,
}

/// A daemon over these automations, by id.
pub(crate) async fn daemon(automations: &[(&str, &str)]) -> Daemon {
    daemon_with(automations, |_| ()).await
}

/// A daemon whose listeners are configured by `change`.
pub(crate) async fn daemon_with(
    automations: &[(&str, &str)],
    change: impl FnOnce(&mut ServerOptions),
) -> Daemon {
    let folder = tempfile::tempdir().unwrap();
    for (id, text) in automations {
        write(folder.path(), &format!("automations/{id}.yaml"), text);
    }
    let mut settings = Settings::new(folder.path());
    settings.watch = false;
    settings.outbound_allow = vec!["127.0.0.1".to_owned()];
    let mut options = ServerOptions::new(&settings.data_dir);
    (options.hooks, options.admin) =
        (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 0)));
    change(&mut options);
    let bound = Server::bind(options).await.unwrap();
    settings.own_addresses = vec![bound.addresses().hooks, bound.addresses().admin];
    let location = Location::from(settings.data_dir.as_path());
    let store = engine::stores::open(&location, Options::default()).unwrap();
    let engine = Engine::start(settings, store, Arc::new(SystemClock)).await.unwrap();
    if let Some(broken) = engine.catalog().invalid_files().first() {
        panic!("{}", broken.report.render(false));
    }
    let server = bound.serve(engine.clone()).unwrap();
    let (hooks, admin) = (server.hooks_addr(), server.admin_addr());
    let token = server.admin_token().expose().to_owned();
    Daemon { server: Some(server), engine, folder, hooks, admin, token }
}

pub(crate) fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

impl Daemon {
    /// The path of an automation's live address.
    pub(crate) fn path(&self, id: &str) -> String {
        let catalog = self.engine.catalog();
        catalog.find(id).unwrap().mounts().next().unwrap().live_url("").unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.admin), &value::Secret::new(self.token.as_str())).unwrap()
    }

    /// Sends bytes to the hook listener and returns everything received until the connection ends.
    pub(crate) async fn hook_bytes(&self, bytes: &[u8]) -> String {
        talk(self.hooks, bytes).await
    }

    /// Sends one request to the hook listener, after which the connection closes.
    pub(crate) async fn hook(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> Answer {
        Answer::parse(&talk(self.hooks, &request(self.hooks, method, path, fields, body)).await)
    }

    /// Sends one request to the admin listener with the token.
    pub(crate) async fn api(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let fields = format!("authorization: Bearer {}\r\n{fields}", self.token);
        self.api_without_token(method, path, &fields, body).await
    }

    /// Sends one request to the admin listener with only these fields.
    pub(crate) async fn api_without_token(
        &self,
        method: &str,
        path: &str,
        fields: &str,
        body: &str,
    ) -> Answer {
        let bytes = request(self.admin, method, path, fields, body.as_bytes());
        let answer = Answer::parse(&talk(self.admin, &bytes).await);
        assert_described(method, path, answer.status, &answer.body);
        answer
    }

    /// The number of executions.
    pub(crate) async fn executions(&self) -> usize {
        let page = Page { before: None, limit: 1000 };
        self.engine.store().executions(&ExecutionFilter::default(), page).await.unwrap().len()
    }

    pub(crate) async fn shutdown(&mut self) {
        self.server.take().unwrap().shutdown().await;
    }
}

/// The bytes of a request; each of the `fields` includes its line end.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let host = if fields.to_ascii_lowercase().contains("host:") {
        String::new()
    } else {
        format!("host: {address}\r\n")
    };
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let mut bytes =
        format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n{length}{fields}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends bytes, and returns everything received until the peer closes. A reset counts as the end: a client would have seen
/// what came before it.
pub(crate) async fn talk(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The peer may reject the request before it has read everything.
    let _ = stream.write_all(bytes).await;
    rest(&mut stream).await
}

/// Everything received until the peer closes.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads up to and including `end`.
pub(crate) async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(stream.read_u8().await.expect("more bytes"));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A parsed response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.json()["executionId"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// A server that responds only when allowed to.
pub(crate) struct Gate {
    listener: TcpListener,
}

impl Gate {
    pub(crate) async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.listener.local_addr().unwrap())
    }

    /// Waits for the next request.
    pub(crate) async fn arrival(&self) -> Visitor {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        until(&mut stream, "\r\n\r\n").await;
        Visitor { stream }
    }
}

/// A request without credentials.
pub(crate) struct Visitor {
    stream: TcpStream,
}

impl Visitor {
    pub(crate) async fn let_through(mut self) {
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nconnection: close\r\n\r\nopen";
        self.stream.write_all(answer.as_bytes()).await.unwrap();
    }
}
