//! A server of a test with a connection to it.

use std::sync::Arc;
use std::time::Duration;

use connector::{
    AllowList, Call, EventSource, FileAccess, Http, HttpOptions, LogSink, Message, MessageSource, Registry,
    ResolvedConnection, SourceOptions, TakeLimits, UncountedAnswers, check_event_inputs, check_inputs,
};
use model::{ActionError, LogLevel};
use servers::nats::Server;
use value::{JsonLimits, Map, MemoryFiles, Reserved, Value};

/// The password in tests, which must not be in any error.
pub(crate) const PASSWORD: &str = "canary-8f2c-password";
/// The longest wait for a message.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Silent;

impl LogSink for Silent {
    fn line(&self, _: LogLevel, _: &str) {}
}

pub(crate) fn json(value: serde_json::Value) -> Map {
    let value = Value::from_json(value.to_string().as_bytes(), JsonLimits::default()).expect("JSON");
    value.as_map().cloned().expect("a map")
}

pub(crate) fn registry() -> Registry {
    connector::install_crypto();
    let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    systems::register(builtin).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

pub(crate) fn http(allowed: &[&str]) -> Http {
    let allow = AllowList::parse(allowed.iter().copied()).expect("entries");
    Http::new(HttpOptions { allow, ..HttpOptions::default() }).expect("a client")
}

pub(crate) struct Broker {
    pub server: Server,
    pub registry: Registry,
    pub http: Http,
    pub connection: ResolvedConnection,
}

impl Broker {
    /// Starts a server with a stream `ORDERS`; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let server = Server::start()?;
        server.client().create_stream("ORDERS");
        let (registry, http) = (registry(), http(&["127.0.0.1"]));
        let connection = connect(&registry, with(server.port));
        Some(Self { server, registry, http, connection })
    }

    pub(crate) async fn call(
        &self,
        action: &str,
        inputs: serde_json::Value,
        key: &str,
    ) -> Result<Value, ActionError> {
        call(&self.registry, &self.http, &self.connection, action, (inputs, key)).await
    }

    /// Opens a source of the stream.
    pub(crate) async fn open(
        &self,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        open(&self.registry, &self.http, &self.connection, inputs).await
    }

    /// Opens a source of the stream through another port.
    pub(crate) async fn open_at(
        &self,
        port: u16,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        let connection = connect(&self.registry, with(port));
        open(&self.registry, &self.http, &connection, inputs).await
    }
}

fn with(port: u16) -> serde_json::Value {
    serde_json::json!({"host": "127.0.0.1", "port": port, "tls": "none"})
}

pub(crate) fn connect(registry: &Registry, with: serde_json::Value) -> ResolvedConnection {
    let kind = registry.connection_type("nats.server").expect("a type");
    kind.resolve("bus", &json(with)).expect("a connection")
}

pub(crate) async fn call(
    registry: &Registry,
    http: &Http,
    connection: &ResolvedConnection,
    action: &str,
    (inputs, key): (serde_json::Value, &str),
) -> Result<Value, ActionError> {
    let action = registry.action(action).expect("an action");
    let inputs = check_inputs(action.spec(), &json(inputs), &Reserved::nothing())?;
    let result = action
        .call(Call {
            inputs: &inputs,
            connection: Some(connection),
            idempotency_key: key,
            memory: &Reserved::nothing(),
            answers: &UncountedAnswers,
            http,
            debug: false,
            log: &Silent,
            trace: None,
            files: FileAccess { storage: Arc::new(MemoryFiles), dir: None },
            time_left: None,
        })
        .await?;
    let spec = action.spec();
    assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
    Ok(result)
}

pub(crate) async fn open(
    registry: &Registry,
    http: &Http,
    connection: &ResolvedConnection,
    inputs: serde_json::Value,
) -> Result<Box<dyn MessageSource>, ActionError> {
    let event = registry.event("nats.message").expect("an event");
    let EventSource::Stream(broker) = &event.source else { panic!("a broker brings it") };
    let from_oldest = inputs["start"] == "all";
    let mut inputs = json(inputs);
    inputs.remove("start");
    let inputs = check_event_inputs(&event.name, &event.inputs, &inputs)?;
    broker.0.open(SourceOptions { http, connection, inputs: &inputs, from_oldest, log: &Silent }).await
}

/// Takes the messages that are there, and waits for the first.
pub(crate) async fn take(source: &mut dyn MessageSource, messages: usize) -> Vec<Message> {
    assert!(source.wait(PATIENCE).await.expect("it waits"), "no message came");
    let limits = TakeLimits { messages, bytes: 8 << 20, fill: Duration::ZERO };
    source.take(limits).await.expect("they are taken")
}
