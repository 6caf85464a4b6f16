//! Servers of the tests, and calls to them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, Registry, ResolvedConnection, Transport,
    UncountedAnswers, check_inputs,
};
use model::{ActionError, LogLevel};
use serde_json::{Value as Json, json};
use servers::objects::Server;
use tempfile::TempDir;
use value::{Data, File, FileStorage, FileWriter, JsonLimits, Map, Reserved, Value};

/// The secret key, which must not be in any error.
pub(crate) const SECRET: &str = "canary-5d1e-secret-key";
pub(crate) const ACCESS: &str = "AKCOGWORKTEST";
/// The time limit for the start of a server.
const PATIENCE: Duration = Duration::from_secs(90);
/// The time between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A running server with a bucket. Dropping it ends it.
pub(crate) struct Store {
    server: Server,
    pub endpoint: String,
    pub registry: Registry,
    pub http: Http,
    pub connection: ResolvedConnection,
    pub lines: Lines,
    pub files: Arc<Files>,
    calls: AtomicU32,
}

#[derive(Default)]
pub(crate) struct Lines(pub Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, _: LogLevel, message: &str) {
        self.0.lock().expect("not poisoned").push(message.to_owned());
    }
}

/// Files on disk that are deleted with the test.
#[derive(Debug)]
pub(crate) struct Files(pub TempDir, AtomicU32);

struct Writer(std::fs::File, PathBuf);

#[derive(Debug)]
struct OnDisk {
    file: std::fs::File,
    digest: [u8; 32],
}

impl FileStorage for Files {
    fn create(&self) -> std::io::Result<Box<dyn FileWriter>> {
        let path = self.0.path().join(self.1.fetch_add(1, Ordering::Relaxed).to_string());
        Ok(Box::new(Writer(std::fs::File::create(&path)?, path)))
    }
}

impl FileWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        std::io::Write::write_all(&mut self.0, bytes)
    }

    fn finish(self: Box<Self>) -> std::io::Result<Data> {
        on_disk(&self.1)
    }
}

impl value::Blob for OnDisk {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, offset)
    }
}

/// The bytes of a file on disk.
pub(crate) fn on_disk(path: &std::path::Path) -> std::io::Result<Data> {
    use sha2::Digest as _;
    let mut file = std::fs::File::open(path)?;
    let mut hash = sha2::Sha256::new();
    let mut chunk = vec![0; 128 << 10];
    loop {
        let count = std::io::Read::read(&mut file, &mut chunk)?;
        if count == 0 {
            break;
        }
        hash.update(&chunk[..count]);
    }
    let blob = OnDisk { file, digest: hash.finalize().into() };
    Ok(Data::External(value::ExternalBytes::new(Arc::new(blob))))
}

/// A file whose bytes are known by their position.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index / 7 + index / 8191) as u8).collect()
}

pub(crate) fn map(value: Json) -> Map {
    let value = Value::from_json(value.to_string().as_bytes(), JsonLimits::default()).expect("JSON");
    value.as_map().cloned().expect("a map")
}

pub(crate) fn registry() -> Registry {
    let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    systems::register(builtin).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

/// Takes each name for this machine.
struct Loopback;

#[async_trait::async_trait]
impl connector::Lookup for Loopback {
    async fn lookup(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

pub(crate) fn http(transport: Transport) -> Http {
    let allow = AllowList::parse(["127.0.0.0/8"]).expect("entries");
    let lookup = Arc::new(Loopback);
    Http::new(HttpOptions { allow, transport, lookup, ..HttpOptions::default() }).expect("a client")
}

impl Store {
    /// SeaweedFS, which checks signatures; `None`, with a line, if it is not installed.
    pub(crate) async fn weed() -> Option<Self> {
        Self::of(Server::weed(ACCESS, SECRET)?).await
    }

    /// moto, which refuses as AWS does, and gives keys for tokens; `None`, with a line, if it is not installed.
    pub(crate) async fn moto() -> Option<Self> {
        Self::of(Server::moto()?).await
    }

    async fn of(server: Server) -> Option<Self> {
        let endpoint = server.endpoint.clone();
        let registry = registry();
        let kind = registry.connection_type("s3.keys").expect("a type");
        let connection = kind.resolve("files", &Self::login(&endpoint, "tests")).expect("a connection");
        let files = Arc::new(Files(tempfile::tempdir().expect("a folder"), AtomicU32::new(0)));
        let (http, lines) = (http(Transport::Network), Lines::default());
        let calls = AtomicU32::new(0);
        let store = Self { server, endpoint, registry, http, connection, lines, files, calls };
        store.wait().await;
        Some(store)
    }

    /// Waits until the bucket is there.
    async fn wait(&self) {
        let began = Instant::now();
        let bucket = self.connect("s3.keys", &Self::login(&self.endpoint, "tests"));
        loop {
            // A client of its own: after several failures a client pauses.
            let http = http(Transport::Network);
            let made = self.make_bucket(&http).await;
            let listed = self.try_over(&http, &bucket, "list", &map(json!({})), "").await;
            match listed {
                Ok(_) => return,
                Err(error) => {
                    assert!(began.elapsed() < PATIENCE, "{made:?} {error:?}");
                    std::thread::park_timeout(CHECK_INTERVAL);
                }
            }
        }
    }

    async fn make_bucket(&self, http: &Http) -> Result<(), ActionError> {
        use connector::http::{Method, Request};
        let base = connector::BaseUrl::parse(&self.endpoint, None).expect("an address");
        let url = base.join_encoded("/tests").expect("a path");
        let keys = connector::SigningKeys {
            service: "s3",
            region: "us-east-1".to_owned(),
            access_key: ACCESS.to_owned(),
            secret_key: value::Secret::new(SECRET),
            session_token: None,
        };
        let connection = self.connection.clone().signed(base, keys);
        let to = connector::Exchanged {
            subject: "the store",
            connection: Some(&connection),
            body: None,
            is_recorded: false,
        };
        let inputs = Map::new();
        self.call_of(&inputs, None, "", http).exchange(&Request::new(Method::PUT, url), &to).await.map(|_| ())
    }

    pub(crate) fn login(endpoint: &str, bucket: &str) -> Map {
        map(json!({"endpoint": endpoint, "bucket": bucket, "accessKey": ACCESS, "secretKey": SECRET}))
    }

    pub(crate) fn connect(&self, kind: &str, with: &Map) -> ResolvedConnection {
        self.registry.connection_type(kind).expect("a type").resolve("files", with).expect("a connection")
    }

    fn call_of<'a>(
        &'a self,
        inputs: &'a Map,
        connection: Option<&'a ResolvedConnection>,
        key: &'a str,
        http: &'a Http,
    ) -> Call<'a> {
        static NOTHING: Reserved = Reserved::nothing();
        Call {
            inputs,
            connection,
            idempotency_key: key,
            may_repeat: false,
            memory: &NOTHING,
            answers: &UncountedAnswers,
            http,
            debug: true,
            log: &self.lines,
            trace: None,
            files: FileAccess { storage: self.files.clone(), dir: None },
            time_left: None,
        }
    }

    pub(crate) async fn try_over(
        &self,
        http: &Http,
        connection: &ResolvedConnection,
        action: &str,
        inputs: &Map,
        key: &str,
    ) -> Result<Value, ActionError> {
        let action = self.registry.action(&format!("s3.{action}")).expect("an action");
        let inputs = check_inputs(action.spec(), inputs, &Reserved::nothing())?;
        let result = action.call(self.call_of(&inputs, Some(connection), key, http)).await?;
        let spec = action.spec();
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        Ok(result)
    }

    pub(crate) async fn try_with(
        &self,
        connection: &ResolvedConnection,
        action: &str,
        inputs: &Map,
        key: &str,
    ) -> Result<Value, ActionError> {
        self.try_over(&self.http, connection, action, inputs, key).await
    }

    /// Calls with inputs that may have files.
    pub(crate) async fn try_map(&self, action: &str, inputs: &Map) -> Result<Value, ActionError> {
        let key = format!("execution.step{}", self.calls.fetch_add(1, Ordering::Relaxed));
        self.try_with(&self.connection, action, inputs, &key).await
    }

    pub(crate) async fn call(&self, action: &str, inputs: Json) -> Value {
        let shown = inputs.to_string();
        match self.try_map(action, &map(inputs)).await {
            Ok(value) => value,
            Err(error) => panic!("s3.{action} {shown}: {error:?}"),
        }
    }

    pub(crate) async fn fails(&self, action: &str, inputs: Json) -> ActionError {
        let shown = inputs.to_string();
        match self.try_map(action, &map(inputs)).await {
            Ok(value) => panic!("s3.{action} {shown} gave {}", value.to_json()),
            Err(error) => error,
        }
    }

    /// Writes an object.
    pub(crate) async fn put(&self, key: &str, data: Data) -> Value {
        let file = File { content_type: "application/pdf".into(), filename: None, data };
        let inputs = Map::from_iter([("key", Value::from(key)), ("content", Value::from(file))]);
        self.try_map("put", &inputs).await.expect("it is written")
    }

    /// The signal ends or freezes the server and everything that it has started.
    pub(crate) fn signal(&self, signal: &str) {
        self.server.signal(signal).expect("it runs");
    }
}

/// Calls an action without a server of the tests, with a client whose answers may pause for 200 ms.
pub(crate) async fn once(
    registry: &Registry,
    connection: &ResolvedConnection,
    action: &str,
    inputs: Json,
    time_left: Option<Duration>,
) -> Result<Value, ActionError> {
    let files = FileAccess::in_memory();
    once_with(registry, connection, action, &map(inputs), (files, time_left)).await
}

/// As [`once`], with files.
pub(crate) async fn once_with(
    registry: &Registry,
    connection: &ResolvedConnection,
    action: &str,
    inputs: &Map,
    (files, time_left): (FileAccess<'_>, Option<Duration>),
) -> Result<Value, ActionError> {
    let action = registry.action(&format!("s3.{action}")).expect("an action");
    let inputs = check_inputs(action.spec(), inputs, &Reserved::nothing())?;
    let allow = AllowList::parse(["127.0.0.0/8"]).expect("entries");
    let idle_timeout = Duration::from_millis(200);
    let http = Http::new(HttpOptions { allow, idle_timeout, ..HttpOptions::default() }).expect("a client");
    let call = Call {
        inputs: &inputs,
        connection: Some(connection),
        idempotency_key: "execution.step",
        may_repeat: false,
        memory: &Reserved::nothing(),
        answers: &UncountedAnswers,
        http: &http,
        debug: true,
        log: &Lines::default(),
        trace: None,
        files,
        time_left,
    };
    action.call(call).await
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
