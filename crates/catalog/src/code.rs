//! Code blocks: cached analyses of modules, and the worker pool that runs them.
//!
//! All engines of a process share the workers, which start when code is first checked or run.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use model::automation::{Automation, Code};
use script::{Digest, Module, ModuleInfo, Origin, Pool, PoolSettings, SyntaxError};

/// Maximum number of cached analyses.
const MAX_CACHED: usize = 20_000;

/// Maximum time a step waits for a worker. Generous, because a burst of executions must not fail for lack of workers.
const MAX_WAIT: Duration = Duration::from_secs(15 * 60);

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

static LIMITS: OnceLock<CodeLimits> = OnceLock::new();
static WORKERS: LazyLock<Workers> = LazyLock::new(Workers::start);

/// Body of the hidden subcommand: runs a worker of code until the daemon disconnects, or one task on a document.
#[must_use]
pub fn serve_code() -> ExitCode {
    script::work(systems::TASKS)
}

/// Says what the workers may have; the first engine of the process decides.
pub fn set_code_limits(limits: CodeLimits) {
    let _ = LIMITS.set(limits);
}

/// Analysis of a module, or its syntax errors.
pub type AnalysisResult = Result<ModuleInfo, Vec<SyntaxError>>;

/// Worker pool of this process, with a cache of module analyses.
pub struct Workers {
    pool: Pool,
    cache: Mutex<HashMap<Digest, Arc<AnalysisResult>>>,
}

/// Builds the module for a code block; `None` if its file does not exist.
pub fn module(code: &Code, automation: &Automation) -> Option<Module> {
    // Positions are relative to the module; `Code` maps them to the file.
    Some(Module::new(code.text(automation)?, Origin::start_of("code")))
}

impl Workers {
    /// The workers of this process, started at the first use.
    #[must_use]
    pub fn shared() -> &'static Self {
        &WORKERS
    }

    fn start() -> Self {
        let (program, arguments) = script::worker_program();
        let limits = LIMITS.get().cloned().unwrap_or_default();
        let mut settings = PoolSettings::new(program, arguments);
        settings.memory = limits.memory.unwrap_or(settings.memory);
        settings.workers = limits.workers.unwrap_or(settings.workers);
        settings.queue = limits.queue.max(settings.queue);
        settings.wait_at_most = MAX_WAIT;
        Self { pool: Pool::new(settings), cache: Mutex::new(HashMap::new()) }
    }

    /// The state of the worker processes of this process. Starts none.
    #[must_use]
    pub fn status() -> script::PoolStatus {
        Self::shared().pool.status()
    }

    /// The pool of worker processes.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Analyses a module, using the cache.
    pub async fn analyze(&self, module: &Module) -> Result<Arc<AnalysisResult>, script::Error> {
        match self.look_up(module.digest()) {
            Some(cache) => Ok(cache),
            None => Ok(self.insert(module.digest(), self.pool.check(module).await?)),
        }
    }

    /// Blocking variant of [`Workers::analyze`].
    pub(crate) fn analyze_blocking(&self, module: &Module) -> Result<Arc<AnalysisResult>, script::Error> {
        match self.look_up(module.digest()) {
            Some(cache) => Ok(cache),
            None => Ok(self.insert(module.digest(), self.pool.check_blocking(module)?)),
        }
    }

    /// Returns the cached analysis of a module.
    pub fn cached(&self, module: &Module) -> Option<Arc<AnalysisResult>> {
        self.look_up(module.digest())
    }

    fn look_up(&self, digest: Digest) -> Option<Arc<AnalysisResult>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    fn insert(&self, digest: Digest, verdict: AnalysisResult) -> Arc<AnalysisResult> {
        let verdict = Arc::new(verdict);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // Any one makes room: of a few more modules than fit, only the few are analysed again.
        if cache.len() >= MAX_CACHED
            && let Some(any) = cache.keys().next().copied()
        {
            cache.remove(&any);
        }
        cache.insert(digest, verdict.clone());
        verdict
    }
}
