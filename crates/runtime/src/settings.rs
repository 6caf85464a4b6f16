//! What a person can set of an engine.

use std::net::SocketAddr;
use std::path::PathBuf;

use model::automation::Retention;
use model::failpoint::Mishaps;
use model::redact::Redactor;

use crate::vault::KeySource;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project folder, with `automations/`, `connections/` and `connectors/`.
    pub dir: PathBuf,
    /// Where data lives: the database, tokens.
    pub data_dir: PathBuf,
    /// The folder of secrets, one file each.
    pub secrets_dir: PathBuf,
    /// Where the keys are that seal the secrets of the store.
    pub keys: KeySource,
    /// What hides the secrets that were read, in the history here and in the log of the process.
    pub redactor: Redactor,
    /// The folder that `files.*` reads and writes in; without it there are no files.
    pub files_dir: Option<PathBuf>,
    /// The base of the hook addresses that people are shown, such as `http://127.0.0.1:7070`.
    pub public_url: Option<String>,
    /// Hosts and networks that outgoing calls may reach though they are private.
    pub outbound_allow: Vec<String>,
    /// Our own listeners: outgoing calls never go there.
    pub own_addresses: Vec<SocketAddr>,
    /// Whether a Raw GraphQL request with Debug Request on logs its credentials, as its specification says.
    pub allow_credential_debug: bool,
    /// How long finished executions are kept, unless their Automation says otherwise; `None`: nothing is deleted.
    pub retention: Option<Retention>,
    /// What nothing may exceed.
    pub limits: Limits,
    /// What goes wrong around effects and answers, in a test of the whole.
    pub mishaps: Mishaps,
    /// Whether the folder is watched.
    pub watch: bool,
    /// Whether it does a daemon's work besides what it is asked for: executions that another process left go on,
    /// schedules fire, old executions are cleared away. Off for a command that runs one execution and ends.
    pub background: bool,
}

/// What nothing may exceed (interfaces, "Limits").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Executions whose steps run at one time.
    pub in_flight: usize,
    /// Executions accepted and not begun; beyond it a request is answered 503.
    pub queue: usize,
    /// Bytes of one step's result, as JSON.
    pub result_bytes: usize,
    /// Bytes of the large bodies and values of all requests and executions together: half for bodies, half for values.
    pub memory: usize,
    /// Turns of one loop.
    pub loop_turns: usize,
    /// How often a crash may interrupt the same step before the execution is set aside as stuck.
    pub interruptions: u32,
    /// How much code runs at one time; as many as there are processors where nothing is said.
    pub code_workers: Option<usize>,
    /// Bytes of memory of one run of code.
    pub code_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 1000,
            queue: 100_000,
            result_bytes: 16 << 20,
            memory: 128 << 20,
            loop_turns: 1_000_000,
            interruptions: 5,
            code_workers: None,
            code_memory: 64 << 20,
        }
    }
}

impl Settings {
    /// The defaults over this project folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            secrets_dir: dir.join("secrets"),
            keys: KeySource::in_folder(&dir.join(".cogwork")),
            data_dir: dir.join(".cogwork"),
            dir,
            redactor: Redactor::default(),
            files_dir: None,
            public_url: None,
            outbound_allow: Vec::new(),
            own_addresses: Vec::new(),
            allow_credential_debug: true,
            retention: Some(Retention { days: Some(14), keep_failed: Some(false), ..Retention::default() }),
            limits: Limits::default(),
            mishaps: Mishaps::default(),
            watch: true,
            background: true,
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
