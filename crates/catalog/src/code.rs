//! Code blocks: what is known of each module, and where it runs.
//!
//! The workers belong to the process, as its threads do: every engine in it shares them, and they are started when the
//! first code is checked or run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use model::automation::{Automation, Code};
use script::{Digest, Facts, Module, Origin, Pool, PoolSettings, SyntaxError};

/// The hidden subcommand of this program that serves as a worker.
pub const WORKER: &str = "code-worker";
/// The most modules of which it is kept what they are made of.
const MAX_KNOWN: usize = 20_000;

/// The longest that a step waits for a worker. Many executions may come to their code at one time, and none is to fail
/// over it.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// The limits of the code workers of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodeLimits {
    /// Workers that run code at one time; `None`: one for each processor.
    pub workers: Option<usize>,
    /// Bytes of memory of one run of code; `None`: the default of the pool.
    pub memory: Option<usize>,
    /// Runs of code that may wait for a worker.
    pub queue: usize,
}

static PROGRAM: OnceLock<(PathBuf, Vec<String>)> = OnceLock::new();
static LIMITS: OnceLock<CodeLimits> = OnceLock::new();
static WORKERS: LazyLock<Workers> = LazyLock::new(Workers::start);

/// Says which program serves as a worker where it is not this one with [`WORKER`] behind it. It has an effect before the
/// first code is checked or run.
pub fn set_code_program(program: PathBuf, arguments: Vec<String>) {
    let _ = PROGRAM.set((program, arguments));
}

/// The body of the hidden subcommand: serves as a worker until the daemon has no more use for it.
#[must_use]
pub fn serve_code() -> ExitCode {
    script::work()
}

/// Says what the workers may have; the first engine of the process decides.
pub fn set_code_limits(limits: CodeLimits) {
    let _ = LIMITS.set(limits);
}

/// What a module is made of, or what is wrong with its text.
pub type Verdict = Result<Facts, Vec<SyntaxError>>;

/// The workers of this process, and what they said of modules.
pub struct Workers {
    pool: Pool,
    known: Mutex<HashMap<Digest, Arc<Verdict>>>,
}

/// A module of an Automation.
pub fn module(code: &Code, automation: &Automation) -> Option<Module> {
    // Places are within the module: where each of its characters stands in the file, the code itself knows.
    Some(Module::new(code.text(automation)?, Origin::start_of("code")))
}

impl Workers {
    pub fn shared() -> &'static Self {
        &WORKERS
    }

    fn start() -> Self {
        let (program, arguments) = PROGRAM.get().cloned().unwrap_or_else(|| {
            let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("cogwork"));
            (program, vec![WORKER.to_owned()])
        });
        let limits = LIMITS.get().cloned().unwrap_or_default();
        let mut settings = PoolSettings::new(program, arguments);
        settings.memory = limits.memory.unwrap_or(settings.memory);
        settings.workers = limits.workers.unwrap_or(settings.workers);
        settings.queue = limits.queue.max(settings.queue);
        settings.wait_at_most = LONGEST_WAIT;
        Self { pool: Pool::new(settings), known: Mutex::new(HashMap::new()) }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What a module is made of; it is asked once.
    pub async fn facts(&self, module: &Module) -> Result<Arc<Verdict>, script::Error> {
        match self.look_up(module.digest()) {
            Some(known) => Ok(known),
            None => Ok(self.keep(module.digest(), self.pool.check(module).await?)),
        }
    }

    /// As [`Workers::facts`], for a thread that may wait.
    pub(crate) fn facts_blocking(&self, module: &Module) -> Result<Arc<Verdict>, script::Error> {
        match self.look_up(module.digest()) {
            Some(known) => Ok(known),
            None => Ok(self.keep(module.digest(), self.pool.check_blocking(module)?)),
        }
    }

    /// What a module is made of, if that was asked for before.
    pub fn known(&self, module: &Module) -> Option<Arc<Verdict>> {
        self.look_up(module.digest())
    }

    fn look_up(&self, digest: Digest) -> Option<Arc<Verdict>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    fn keep(&self, digest: Digest, verdict: Verdict) -> Arc<Verdict> {
        let verdict = Arc::new(verdict);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(digest, verdict.clone());
        verdict
    }
}
