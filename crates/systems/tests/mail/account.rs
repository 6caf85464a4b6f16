//! A server of a test with a connection to it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, Registry, ResolvedConnection, UncountedAnswers,
    check_inputs,
};
use model::{ActionError, LogLevel};
use serde_json::{Value as Json, json};
use servers::dovecot::{Server, USER};
use value::{JsonLimits, Map, Reserved, Value};

/// The password in tests, which must not be in any error.
pub(crate) const PASSWORD: &str = "canary-41c7-\"pass\\word\"";

#[derive(Default)]
pub(crate) struct Lines(pub Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, _: LogLevel, message: &str) {
        self.0.lock().expect("not poisoned").push(message.to_owned());
    }
}

pub(crate) fn map(value: Json) -> Map {
    let value = Value::from_json(value.to_string().as_bytes(), JsonLimits::default()).expect("JSON");
    value.as_map().cloned().expect("a map")
}

pub(crate) fn json_of(value: &Value) -> Json {
    serde_json::from_str(&value.to_json()).expect("JSON")
}

/// The connector, a client and a connection.
pub(crate) struct Client {
    pub registry: Registry,
    pub http: Http,
    pub connection: ResolvedConnection,
    pub lines: Lines,
    calls: AtomicU32,
}

impl Client {
    pub(crate) fn new(with: Json) -> Self {
        Self::allowed(with, &["127.0.0.1"])
    }

    pub(crate) fn allowed(with: Json, allow: &[&str]) -> Self {
        connector::install_crypto();
        let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let registry = systems::register(builtin).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let allow = AllowList::parse(allow.iter().copied()).expect("entries");
        let http = Http::new(HttpOptions { allow, ..HttpOptions::default() }).expect("a client");
        let connection = registry.connection_type("mail.imap").expect("a type").resolve("box", &map(with));
        let connection = connection.expect("a connection");
        Self { registry, http, connection, lines: Lines::default(), calls: AtomicU32::new(0) }
    }

    pub(crate) async fn try_with(
        &self,
        action: &str,
        inputs: &Map,
        (key, limit): (&str, Option<Duration>),
    ) -> Result<Value, ActionError> {
        let action = self.registry.action(&format!("mail.{action}")).expect("an action");
        let inputs = check_inputs(action.spec(), inputs, &Reserved::nothing())?;
        let result = action.call(self.call_of(&inputs, (key, limit), &Reserved::nothing())).await?;
        let spec = action.spec();
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        Ok(result)
    }

    pub(crate) fn call_of<'a>(
        &'a self,
        inputs: &'a Map,
        (key, limit): (&'a str, Option<Duration>),
        memory: &'a Reserved,
    ) -> Call<'a> {
        Call {
            inputs,
            connection: Some(&self.connection),
            idempotency_key: key,
            may_repeat: false,
            memory,
            answers: &UncountedAnswers,
            http: &self.http,
            debug: true,
            log: &self.lines,
            trace: None,
            files: FileAccess::in_memory(),
            time_left: limit,
        }
    }

    pub(crate) async fn try_call(&self, action: &str, inputs: Json) -> Result<Value, ActionError> {
        let key = format!("execution.step{}", self.calls.fetch_add(1, Ordering::Relaxed));
        self.try_with(action, &map(inputs), (&key, None)).await
    }

    pub(crate) async fn call(&self, action: &str, inputs: Json) -> Value {
        let shown = inputs.to_string();
        match self.try_call(action, inputs).await {
            Ok(value) => value,
            Err(error) => panic!("mail.{action} {shown}: {error:?}"),
        }
    }

    pub(crate) async fn fails(&self, action: &str, inputs: Json) -> ActionError {
        let shown = inputs.to_string();
        let error = match self.try_call(action, inputs).await {
            Ok(value) => panic!("mail.{action} {shown} gave {}", value.to_json()),
            Err(error) => error,
        };
        let lines = self.lines.0.lock().expect("not poisoned").join("\n");
        assert!(!format!("{error:?}{lines}").contains("canary"), "{error:?} {lines}");
        error
    }

    /// The messages that a search finds.
    pub(crate) async fn found(&self, inputs: Json) -> Vec<Json> {
        let result = json_of(&self.call("search", inputs).await);
        result["results"].as_array().expect("a list").clone()
    }
}

/// A running server, and a client of it.
pub(crate) struct Account {
    pub server: Server,
    pub client: Client,
}

impl Account {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let server = Server::start(PASSWORD)?;
        let client = Client::new(login(&server));
        Some(Self { server, client })
    }

    pub(crate) fn deliver(&self, message: &str) {
        self.server.deliver("INBOX", message.replace('\n', "\r\n").as_bytes()).expect("delivered");
    }

    /// Delivers a message of a few words.
    pub(crate) fn deliver_plain(&self, subject: &str) {
        self.deliver(&format!("From: a@example.com\nSubject: {subject}\nMessage-ID: <{subject}@x>\n\nhi\n"));
    }
}

/// The inputs of a connection with TLS.
pub(crate) fn login(server: &Server) -> Json {
    json!({
        "host": "127.0.0.1", "port": server.tls_port, "username": USER, "password": PASSWORD,
        "ca": server.authority().expect("a certificate"),
    })
}
