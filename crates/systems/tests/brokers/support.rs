//! Registries, clients and calls of the tests of all brokers.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use connector::{
    AllowList, Call, EventSource, FileAccess, Http, HttpOptions, LogSink, Message, MessageSource, Registry,
    ResolvedConnection, SourceOptions, TakeLimits, UncountedAnswers, check_event_inputs, check_inputs,
};
use model::{ActionError, LogLevel};
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

pub(crate) fn connect(registry: &Registry, kind: &str, with: serde_json::Value) -> ResolvedConnection {
    let kind = registry.connection_type(kind).expect("a type");
    kind.resolve("bus", &json(with)).expect("a connection")
}

/// A server of a test with a connection to it.
pub(crate) struct Broker<S> {
    pub server: S,
    pub registry: Registry,
    pub http: Http,
    pub connection: ResolvedConnection,
}

impl<S> Broker<S> {
    pub(crate) fn of(server: S, kind: &str, with: serde_json::Value) -> Self {
        let (registry, http) = (registry(), http(&["127.0.0.1"]));
        let connection = connect(&registry, kind, with);
        Self { server, registry, http, connection }
    }

    pub(crate) async fn call(&self, action: &str, inputs: serde_json::Value) -> Result<Value, ActionError> {
        self.call_as(action, inputs, "execution.step").await
    }

    /// Calls an action in the step with this key.
    pub(crate) async fn call_as(
        &self,
        action: &str,
        inputs: serde_json::Value,
        key: &str,
    ) -> Result<Value, ActionError> {
        call(&self.registry, &self.http, &self.connection, action, (inputs, key)).await
    }

    /// Opens a source, with `with` over another connection of this kind.
    pub(crate) async fn source(
        &self,
        with: Option<(&str, serde_json::Value)>,
        event: (&str, serde_json::Value),
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        let other = with.map(|(kind, with)| connect(&self.registry, kind, with));
        let connection = other.as_ref().unwrap_or(&self.connection);
        open(&self.registry, &self.http, connection, event).await
    }
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
            may_repeat: false,
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
    (event, inputs): (&str, serde_json::Value),
) -> Result<Box<dyn MessageSource>, ActionError> {
    let event = registry.event(event).expect("an event");
    let EventSource::Stream(broker) = &event.source else { panic!("a broker brings it") };
    let from_oldest = inputs["start"] == "all";
    let consumer = inputs["of"].as_str().unwrap_or("cogwork:orders#messages/0").to_owned();
    let mut inputs = json(inputs);
    inputs.remove("start");
    inputs.remove("of");
    let inputs = check_event_inputs(&event.name, &event.inputs, &inputs)?;
    let options = SourceOptions {
        http,
        connection,
        inputs: &inputs,
        from_oldest,
        consumer: &consumer,
        prefetch: 200,
        log: &Silent,
    };
    broker.broker.open(options).await
}

/// Takes the messages that are there, and waits for the first.
pub(crate) async fn take(source: &mut dyn MessageSource, messages: usize) -> Vec<Message> {
    assert!(source.wait(PATIENCE).await.expect("it waits"), "no message came");
    let limits = TakeLimits { messages, bytes: 8 << 20, fill: Duration::ZERO };
    source.take(limits).await.expect("they are taken")
}

/// Opens a source and calls an action, which both fail. Returns the error of the source.
pub(crate) async fn fails(
    kind: &str,
    (with, allowed): (serde_json::Value, &[&str]),
    (event, inputs): (&str, serde_json::Value),
    action: &str,
) -> ActionError {
    let registry = registry();
    let (http, connection) = (http(allowed), connect(&registry, kind, with));
    let of_source = open(&registry, &http, &connection, (event, inputs)).await;
    let of_source = of_source.err().expect("the source is refused");
    let of_action = call(&registry, &http, &connection, action, (serde_json::json!({}), "")).await;
    assert_eq!(of_action.expect_err("the action is refused").kind, of_source.kind);
    assert!(!of_source.message.contains(PASSWORD), "{of_source:?}");
    of_source
}

/// Makes an authority, and a certificate of it for `bus.example.com`.
pub(crate) fn certificates(folder: &Path) {
    let run = |arguments: &str| {
        let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
        let made = made.expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    run(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"));
    run(&format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").expect("a file");
    run(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
}
