//! Databases of the tests, and calls to them.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, Registry, ResolvedConnection, UncountedAnswers,
    check_inputs,
};
use model::{ActionError, LogLevel};
use postgres_server::{Server, Setup};
use tempfile::TempDir;
use value::{JsonLimits, Map, MemoryFiles, Reserved, Value};

/// The password of the role in tests, which must not be in any error.
pub(crate) const PASSWORD: &str = "canary-8f2c-password";

/// A database with a connection to it.
pub(crate) struct Database {
    pub name: &'static str,
    pub connection: ResolvedConnection,
    pub registry: Registry,
    pub http: Http,
    pub dir: TempDir,
    pub server: Option<Server>,
    #[cfg(feature = "mysql")]
    _mariadb: Option<servers::mariadb::MariaDb>,
    pub address: String,
    pub lines: Lines,
    calls: AtomicU32,
}

#[derive(Default)]
pub(crate) struct Lines(pub Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, _: LogLevel, message: &str) {
        self.0.lock().expect("not poisoned").push(message.to_owned());
    }
}

pub(crate) fn json(value: serde_json::Value) -> Map {
    let value = Value::from_json(value.to_string().as_bytes(), JsonLimits::default()).expect("JSON");
    value.as_map().cloned().expect("a map")
}

pub(crate) fn registry() -> Registry {
    let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    systems::register(builtin).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn http() -> Http {
    let allow = AllowList::parse(["127.0.0.0/8"]).expect("entries");
    Http::new(HttpOptions { allow, ..HttpOptions::default() }).expect("a client")
}

/// An address of this machine that no other test has.
fn own_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}", 10 + next % 200, (process >> 8) & 0xff, 1 + (process & 0xff) % 250)
}

impl Database {
    fn new(name: &'static str, kind: &str, address: String, server: Option<Server>, with: Map) -> Self {
        let (registry, dir) = (registry(), tempfile::tempdir().expect("a folder"));
        let connection = registry.connection_type(kind).expect("a type").resolve("books", &with);
        Self {
            name,
            connection: connection.expect("a connection"),
            registry,
            http: http(),
            dir,
            server,
            #[cfg(feature = "mysql")]
            _mariadb: None,
            address,
            lines: Lines::default(),
            calls: AtomicU32::new(0),
        }
    }

    pub(crate) fn sqlite() -> Self {
        Self::new("sqlite", "sql.sqlite", String::new(), None, json(serde_json::json!({"file": "books.db"})))
    }

    /// A server of its own; `None`, with a line, if PostgreSQL is not installed.
    pub(crate) fn postgres() -> Option<Self> {
        let address = own_address();
        let setup = Setup {
            initdb: vec!["--auth-host=scram-sha-256".to_owned()],
            arguments: format!("-c listen_addresses={address} -c fsync=off"),
            ..Setup::default()
        };
        let server = match Server::start_as(setup) {
            Ok(server) => server,
            Err(error) => return skipped("PostgreSQL", &error),
        };
        server.sql(&format!("alter role cogwork password '{PASSWORD}'")).expect("a password");
        let with = Self::login(&address, PASSWORD);
        Some(Self::new("postgres", "sql.postgres", address, Some(server), with))
    }

    pub(crate) fn login(address: &str, password: &str) -> Map {
        json(serde_json::json!({
            "host": address, "database": "postgres", "user": "cogwork", "password": password, "tls": "none"
        }))
    }

    /// Every database that is there.
    pub(crate) fn all() -> Vec<Self> {
        let all = [Some(Self::sqlite()), Self::postgres()].into_iter();
        #[cfg(feature = "mysql")]
        let all = all.chain([Self::mysql()]);
        all.flatten().collect()
    }

    /// A server of its own; `None`, with a line, if MariaDB is not installed.
    #[cfg(feature = "mysql")]
    pub(crate) fn mysql() -> Option<Self> {
        Self::mysql_with(|_| Vec::new())
    }

    /// As [`Self::mysql`], with further arguments for its address.
    #[cfg(feature = "mysql")]
    pub(crate) fn mysql_with(arguments: impl FnOnce(&str) -> Vec<String>) -> Option<Self> {
        let address = own_address();
        let arguments = arguments(&address);
        let server = match servers::mariadb::MariaDb::start(&address, PASSWORD, &arguments) {
            Ok(server) => server,
            Err(error) => return skipped("MariaDB", &error),
        };
        let with = Self::login(&address, PASSWORD);
        Some(Self { _mariadb: Some(server), ..Self::new("mysql", "sql.mysql", address, None, with) })
    }

    /// A name in the quotes of the database.
    pub(crate) fn quoted(&self, name: &str) -> String {
        if self.name == "mysql" { format!("`{name}`") } else { format!("\"{name}\"") }
    }

    pub(crate) fn connect(&self, with: &Map) -> Result<ResolvedConnection, ActionError> {
        self.registry.connection_type(&self.connection.kind).expect("a type").resolve("books", with)
    }

    pub(crate) async fn try_with(
        &self,
        connection: &ResolvedConnection,
        action: &str,
        inputs: &Map,
        (key, limit): (&str, Option<Duration>),
    ) -> Result<Value, ActionError> {
        let action = self.registry.action(&format!("sql.{action}")).expect("an action");
        let inputs = check_inputs(action.spec(), inputs, &Reserved::nothing())?;
        let result = action
            .call(Call {
                inputs: &inputs,
                connection: Some(connection),
                idempotency_key: key,
                may_repeat: false,
                memory: &Reserved::nothing(),
                answers: &UncountedAnswers,
                http: &self.http,
                debug: false,
                log: &self.lines,
                trace: None,
                files: FileAccess { storage: Arc::new(MemoryFiles), dir: Some(self.files()) },
                time_left: limit,
            })
            .await?;
        let spec = action.spec();
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        Ok(result)
    }

    pub(crate) fn files(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) async fn try_call(
        &self,
        action: &str,
        inputs: serde_json::Value,
    ) -> Result<Value, ActionError> {
        let key = format!("execution.step{}", self.calls.fetch_add(1, Ordering::Relaxed));
        self.try_with(&self.connection, action, &json(inputs), (&key, None)).await
    }

    pub(crate) async fn call(&self, action: &str, inputs: serde_json::Value) -> Value {
        let shown = inputs.to_string();
        match self.try_call(action, inputs).await {
            Ok(value) => value,
            Err(error) => panic!("{}: sql.{action} {shown}: {error:?}", self.name),
        }
    }

    pub(crate) async fn fails(&self, action: &str, inputs: serde_json::Value) -> ActionError {
        let shown = inputs.to_string();
        match self.try_call(action, inputs).await {
            Ok(value) => panic!("{}: sql.{action} {shown} gave {}", self.name, value.to_json()),
            Err(error) => error,
        }
    }

    pub(crate) async fn execute(&self, sql: &str) -> Value {
        self.call("execute", serde_json::json!({"sql": sql})).await
    }

    /// The rows of a query as JSON.
    pub(crate) async fn rows(&self, sql: &str) -> String {
        let result = self.call("query", serde_json::json!({"sql": sql})).await;
        result.get("rows").expect("rows").to_json()
    }
}

fn skipped(program: &str, error: &dyn std::fmt::Display) -> Option<Database> {
    assert!(std::env::var_os("COGWORK_REQUIRE_SERVERS").is_none(), "{program}: {error}");
    eprintln!("skipped: {program}: {error}");
    None
}
