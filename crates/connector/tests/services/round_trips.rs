//! Each example with an answer makes a round trip over real HTTP to a double on the loopback interface, which gives the answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use connector::{
    Action, AllowList, Call, FileAccess, Http, HttpOptions, LogSink, Progress, Reached, Registry,
    ResolvedConnection, UncountedAnswers, check_inputs, show,
};
use model::{InputType, LogLevel};
use pretty_assertions::assert_eq;
use text::Source;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use value::{Map, Reserved, Value};

/// A credential that no log may have.
const SECRET: &str = "s3cret-Credential";

/// The double of a service: it gives each request the answer that is set, and keeps its head and body.
struct Double {
    address: String,
    answer: Arc<Mutex<String>>,
    request: Arc<Mutex<String>>,
}

impl Double {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (answer, request) = (Arc::<Mutex<String>>::default(), Arc::<Mutex<String>>::default());
        let double = Self { address, answer: answer.clone(), request: request.clone() };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let received = read(&mut stream).await;
                *request.lock().expect("not poisoned") = received;
                let body = answer.lock().expect("not poisoned").clone();
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let reply = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(reply.as_bytes()).await.expect("the client reads");
            }
        });
        double
    }

    fn head(&self) -> String {
        let request = self.request.lock().expect("not poisoned");
        request.split("\r\n\r\n").next().unwrap_or_default().to_owned()
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.expect("the client writes");
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        // A form with parts ends with its boundary.
        let is_whole = length.map_or_else(
            || !head.contains("multipart/form-data") || body.ends_with("--\r\n"),
            |length: usize| body.len() >= length,
        );
        if count == 0 || (text.contains("\r\n\r\n") && is_whole) {
            return text;
        }
    }
}

#[derive(Default)]
struct Lines(Mutex<String>);

impl LogSink for Lines {
    fn line(&self, _: LogLevel, message: &str) {
        self.0.lock().expect("not poisoned").push_str(message);
    }
}

/// Loads a connector with the address of the double in place of its service's.
fn registry_at(name: &str, address: &str) -> Registry {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("manifests/{name}.yaml"));
    let text = std::fs::read_to_string(path).expect("a manifest");
    let lines = text.lines().map(|line| match line.strip_prefix("baseUrl: https://") {
        Some(rest) => {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            format!("baseUrl: {address}{path}\n")
        }
        None => format!("{line}\n"),
    });
    let source = Arc::new(Source::new("connectors/own.yaml", lines.collect::<String>()));
    let (registry, reports) = super::registry().with_manifests(vec![source]);
    assert!(reports.is_empty(), "{}", reports.iter().map(|report| report.render(false)).collect::<String>());
    registry
}

/// Resolves a connection of the connector's first type with made-up inputs.
fn connection(registry: &Registry, name: &str, address: &str) -> ResolvedConnection {
    let kind = &registry.connector(name).expect("a connector").connections[0];
    let kind = registry.connection_type(kind).expect("a type");
    let inputs = kind.inputs.iter().filter(|input| input.spec.required || input.spec.name == "address");
    let inputs = inputs.filter(|input| input.spec.kind == InputType::Text).map(|input| {
        let value = match input.spec.name.as_str() {
            "site" | "address" => address,
            _ => SECRET,
        };
        (input.spec.name.as_str(), value)
    });
    kind.resolve("mine", &inputs.collect::<Map>()).expect("it resolves")
}

/// Makes the call, with its looks at an operation. Returns the result, and the head of the first request.
async fn made(action: &dyn Action, call: Call<'_>, double: &Double) -> (Value, String) {
    let name = &action.spec().name;
    let Some(status) = action.example_status() else {
        let result = action.call(call).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        return (result, double.head());
    };
    let begun = action.advance(call.clone(), None).await;
    let Ok(Progress::Reached(checkpoint)) = begun else { panic!("{name}: {begun:?}") };
    let head = double.head();
    *double.answer.lock().expect("not poisoned") = status.answer.to_json();
    let reached = Reached { data: &checkpoint.data, age: Duration::from_secs(2) };
    let looked = action.advance(call, Some(reached)).await;
    let Ok(Progress::Ended(result)) = looked else { panic!("{name}: {looked:?}") };
    let line = double.head().lines().next().unwrap_or_default().to_owned();
    assert_eq!(line.strip_suffix(" HTTP/1.1"), Some(status.request.as_str()), "{name}");
    (result, head)
}

async fn round_trips(name: &str) -> usize {
    let double = Double::start().await;
    let registry = registry_at(name, &double.address);
    let connection = connection(&registry, name, &double.address);
    let allow = AllowList::parse(["127.0.0.1"]).expect("an entry");
    let http = Http::new(HttpOptions { allow, ..HttpOptions::default() }).expect("a client");
    let mut count = 0;
    for action in registry.connector(name).expect("a connector").actions.clone() {
        let action = registry.action(&action).expect("an action");
        let Some(answer) = action.example_answer() else { continue };
        if action.has_stages() && action.example_status().is_none() {
            // An upload needs a double that takes it: `manifest::tests::upload`.
            continue;
        }
        *double.answer.lock().expect("not poisoned") = answer.to_json();
        let spec = action.spec();
        let with = spec.example.as_map().cloned().unwrap_or_default();
        let inputs = check_inputs(spec, &with, &Reserved::nothing()).expect("inputs");
        let log = Lines::default();
        let call = Call {
            inputs: &inputs,
            connection: Some(&connection),
            idempotency_key: "execution.step",
            may_repeat: false,
            memory: &Reserved::nothing(),
            answers: &UncountedAnswers,
            files: FileAccess::in_memory(),
            http: &http,
            debug: true,
            log: &log,
            trace: None,
            time_left: None,
        };
        let (result, head) = made(&**action, call, &double).await;
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        let shown = show(&**action).expect("it sends a request").expect("an example");
        let (method, target) = shown.request.split_once(' ').expect("a request line");
        let line = head.lines().next().unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        assert!(line.starts_with(&format!("{method} ")) && line.contains(path), "{}: {line}", spec.name);
        assert!(!log.0.lock().expect("not poisoned").contains(SECRET), "{}", spec.name);
        count += 1;
    }
    count
}

#[tokio::test]
async fn an_example_makes_a_round_trip() {
    for (name, _) in super::descriptions() {
        assert!(round_trips(&name).await > 0, "{name}");
    }
}
