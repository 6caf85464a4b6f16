//! The settings of an engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use model::automation::Retention;
use model::failpoint::Failpoints;
use value::redact::Redactor;

use crate::observer::Observer;
use crate::secrets::{ProviderNetwork, SecretSources};
use crate::vault::KeySource;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project folder, with `automations/`, `connections/` and `connectors/`.
    pub dir: PathBuf,
    /// The data folder: the database, tokens, the crash record.
    pub data_dir: PathBuf,
    /// The folder of secrets, one file per secret.
    pub secrets_dir: PathBuf,
    /// The sources of secrets, and their providers.
    pub secret_sources: SecretSources,
    /// The source of the keys that seal the secrets of the store.
    pub keys: KeySource,
    /// The redactor of the secrets that were read, for the history of executions and the log of the process.
    pub redactor: Redactor,
    /// The folder in which `files.*` reads and writes; `None` disables these actions.
    pub files_dir: Option<PathBuf>,
    /// The base of the webhook URLs that people are shown, such as `http://127.0.0.1:7070`.
    pub public_url: Option<String>,
    /// The base of the addresses of pages in the web UI, such as `http://127.0.0.1:7071`.
    pub admin_url: Option<String>,
    /// Private hosts and networks that outgoing calls may reach.
    pub outbound_allow: Vec<String>,
    /// The variables of the environment that files may read, with `*` at the end for a prefix; `None` for all except Cogwork's own.
    pub env_allow: Option<Vec<String>>,
    /// The addresses of the daemon's own listeners, which outgoing calls never reach.
    pub own_addresses: Vec<SocketAddr>,
    /// The servers of the store by name and port, which outgoing calls never reach.
    pub own_servers: Vec<(String, u16)>,
    /// True if a Raw GraphQL request with Debug Request on logs its credentials, as its specification says.
    pub allow_credential_debug: bool,
    /// The default retention of finished executions, which an automation may override; `None` keeps them forever.
    pub retention: Option<Retention>,
    /// Limits on work, memory and counts.
    pub limits: Limits,
    /// Faults that are injected around effects and answers, for fault tests.
    pub failpoints: Failpoints,
    /// Exports traces and logs; `None` without a collector.
    pub observer: Option<Arc<dyn Observer>>,
    /// True if the project folder is watched for changes.
    pub watch: bool,
    /// True if each change of the project folder is deployed into the store, for all nodes that share it.
    pub auto_deploy: bool,
    /// True if the engine does a daemon's background work: recover unfinished executions, fire schedules, poll, delete old
    /// executions. False for a command that runs one execution and exits.
    pub background: bool,
}

/// Limits on work, memory and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of executions that run at one time: the slots.
    pub in_flight: usize,
    /// Maximum number of executions that wait for a slot; beyond it a request is answered with 503.
    pub queue: usize,
    /// Maximum size of a step's result as JSON, in bytes.
    pub result_bytes: usize,
    /// Maximum size of a file that a step writes, in bytes.
    pub file_bytes: u64,
    /// Memory for the large bodies and values of all requests and executions, in bytes: half for bodies, half for values.
    pub memory: usize,
    /// Maximum number of iterations of one loop.
    pub loop_turns: usize,
    /// Number of crashes during the same step after which the execution becomes `stuck`.
    pub interruptions: u32,
    /// Maximum number of executions that start one another in a row, over HTTP or by events.
    pub chain: u32,
    /// Maximum number of code runs at one time; `None` for one per processor.
    pub code_workers: Option<usize>,
    /// Memory of one code run, in bytes.
    pub code_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 1000,
            queue: 100_000,
            result_bytes: 16 << 20,
            file_bytes: connector::http::MAX_FILE,
            memory: 64 << 20,
            loop_turns: 1_000_000,
            interruptions: 5,
            chain: 10,
            code_workers: None,
            code_memory: 64 << 20,
        }
    }
}

impl Settings {
    /// The default settings of a project folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            secrets_dir: dir.join("secrets"),
            secret_sources: SecretSources::default(),
            keys: KeySource::in_folder(&dir.join(".cogwork")),
            data_dir: dir.join(".cogwork"),
            dir,
            redactor: Redactor::default(),
            files_dir: None,
            public_url: None,
            admin_url: None,
            outbound_allow: Vec::new(),
            env_allow: None,
            own_addresses: Vec::new(),
            own_servers: Vec::new(),
            allow_credential_debug: true,
            retention: Some(Retention { days: Some(14), keep_failed: Some(false), ..Retention::default() }),
            limits: Limits::default(),
            failpoints: Failpoints::default(),
            observer: None,
            watch: true,
            auto_deploy: false,
            background: true,
        }
    }

    /// The addresses that clients of secret providers may call, and must not call.
    #[must_use]
    pub fn provider_network(&self) -> ProviderNetwork {
        ProviderNetwork {
            allow: self.outbound_allow.clone(),
            own: self.own_addresses.clone(),
            servers: self.own_servers.clone(),
        }
    }
}

impl Limits {
    /// The limits of the code workers.
    #[must_use]
    pub fn code(&self) -> catalog::CodeLimits {
        catalog::CodeLimits {
            workers: self.code_workers,
            memory: Some(self.code_memory),
            queue: self.in_flight,
        }
    }
}
