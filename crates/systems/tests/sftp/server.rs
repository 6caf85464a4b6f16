//! An OpenSSH server of a test, from the program that the system has installed, and calls to it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, Registry, ResolvedConnection, Timer,
    UncountedAnswers, check_inputs,
};
use jiff::Timestamp;
use model::{ActionError, LogLevel};
use serde_json::{Value as Json, json};
use servers::openssh::user;
use value::{Data, FileStorage, FileWriter, JsonLimits, Map, Reserved, Value};

/// A running server, and a client of it. Dropping it ends it.
pub(crate) struct Server {
    pub openssh: servers::openssh::Server,
    pub registry: Registry,
    pub http: Http,
    pub clock: Arc<Clock>,
    pub connection: ResolvedConnection,
    pub lines: Lines,
    /// True for calls of later attempts.
    pub repeats: AtomicBool,
    calls: AtomicU32,
}

/// A clock that a test moves.
pub(crate) struct Clock(Mutex<Timestamp>);

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("not poisoned")
    }

    async fn pause(&self, wait: Duration) {
        self.forward(wait);
    }
}

impl Clock {
    pub(crate) fn forward(&self, time: Duration) {
        *self.0.lock().expect("not poisoned") += time;
    }
}

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

/// A file on disk.
#[derive(Debug)]
struct OnDisk(std::fs::File, [u8; 32]);

impl value::Blob for OnDisk {
    fn digest(&self) -> [u8; 32] {
        self.1
    }

    fn length(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset)
    }
}

/// The bytes of a file on disk, whose digest nobody needs.
pub(crate) fn on_disk(path: &Path) -> Data {
    let file = std::fs::File::open(path).expect("a file");
    Data::External(value::ExternalBytes::new(Arc::new(OnDisk(file, [0; 32]))))
}

/// Writes each file into a folder.
#[derive(Debug)]
struct Folder(PathBuf);

struct Writer(std::fs::File, PathBuf);

impl FileStorage for Folder {
    fn create(&self) -> std::io::Result<Box<dyn FileWriter>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = self.0.join(format!("stored{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        Ok(Box::new(Writer(std::fs::File::create(&path)?, path)))
    }
}

impl FileWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        std::io::Write::write_all(&mut self.0, bytes)
    }

    fn finish(self: Box<Self>) -> std::io::Result<Data> {
        Ok(on_disk(&self.1))
    }
}

impl Server {
    /// A server with keys of its own; `None`, with a line, if OpenSSH is not installed.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with("").await
    }

    /// As [`Self::start`], with further arguments for the program that has the files.
    pub(crate) async fn start_with(arguments: &str) -> Option<Self> {
        let openssh = servers::openssh::Server::start(arguments)?;
        let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let registry = systems::register(builtin).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let clock = Arc::new(Clock(Mutex::new(Timestamp::from_second(1_800_000_000).expect("an instant"))));
        let allow = AllowList::parse(["127.0.0.0/8"]).expect("entries");
        let options = HttpOptions { allow, timer: clock.clone(), ..HttpOptions::default() };
        let http = Http::new(options).expect("a client");
        let login = login(&openssh);
        let connection = registry.connection_type("sftp.key").expect("a type").resolve("files", &login);
        let connection = connection.expect("a connection");
        let (lines, repeats, calls) = (Lines::default(), AtomicBool::new(false), AtomicU32::new(0));
        Some(Self { openssh, registry, http, clock, connection, lines, repeats, calls })
    }

    /// The inputs of the connection.
    pub(crate) fn login(&self) -> Map {
        login(&self.openssh)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        self.openssh.read(name)
    }

    /// A file of the account.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.openssh.home(name)
    }

    pub(crate) fn connect(&self, kind: &str, with: &Map) -> ResolvedConnection {
        self.registry.connection_type(kind).expect("a type").resolve("files", with).expect("a connection")
    }

    pub(crate) async fn try_with(
        &self,
        connection: &ResolvedConnection,
        action: &str,
        inputs: &Map,
        (key, limit): (&str, Option<Duration>),
    ) -> Result<Value, ActionError> {
        let action = self.registry.action(&format!("sftp.{action}")).expect("an action");
        let inputs = check_inputs(action.spec(), inputs, &Reserved::nothing())?;
        let result = action
            .call(Call {
                inputs: &inputs,
                connection: Some(connection),
                idempotency_key: key,
                may_repeat: self.repeats.load(Ordering::Relaxed),
                memory: &Reserved::nothing(),
                answers: &UncountedAnswers,
                http: &self.http,
                debug: true,
                log: &self.lines,
                trace: None,
                files: FileAccess { storage: Arc::new(Folder(self.openssh.folder().to_owned())), dir: None },
                time_left: limit,
            })
            .await?;
        let spec = action.spec();
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        Ok(result)
    }

    pub(crate) async fn try_map(&self, action: &str, inputs: &Map) -> Result<Value, ActionError> {
        let key = format!("execution.step{}", self.calls.fetch_add(1, Ordering::Relaxed));
        self.try_with(&self.connection, action, inputs, (&key, None)).await
    }

    pub(crate) async fn call(&self, action: &str, inputs: Json) -> Value {
        let shown = inputs.to_string();
        match self.try_map(action, &map(inputs)).await {
            Ok(value) => value,
            Err(error) => panic!("sftp.{action} {shown}: {error:?}"),
        }
    }

    pub(crate) async fn fails(&self, action: &str, inputs: Json) -> ActionError {
        let shown = inputs.to_string();
        match self.try_map(action, &map(inputs)).await {
            Ok(value) => panic!("sftp.{action} {shown} gave {}", value.to_json()),
            Err(error) => error,
        }
    }
}

fn login(openssh: &servers::openssh::Server) -> Map {
    map(json!({
        "host": "127.0.0.1", "port": openssh.port, "user": user(), "privateKey": openssh.read("user"),
        "hostKey": openssh.read("host.pub"),
    }))
}

/// The value at a dotted path, in which a number is the place in a list.
pub(crate) fn at(value: &Value, path: &str) -> Option<Value> {
    path.split('.').try_fold(value.clone(), |value, key| match (value.as_list(), key.parse::<usize>()) {
        (Some(list), Ok(index)) => list.get(index).cloned(),
        _ => value.get(key),
    })
}

/// The bytes of the file in a result.
pub(crate) fn bytes_of(result: &Value) -> Vec<u8> {
    let Some(Value::File(file)) = result.get("file") else { panic!("no file: {}", result.to_json()) };
    let mut bytes = Vec::new();
    file.data.for_each_chunk(|chunk| bytes.extend_from_slice(chunk)).expect("it is read");
    bytes
}
