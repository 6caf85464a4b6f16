//! The pool's settings.

use std::path::PathBuf;
use std::time::Duration;

/// How many workers there are, what they may have, and how long they live.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// The program that becomes a worker: this one.
    pub program: PathBuf,
    /// The arguments of a worker: the hidden subcommand.
    pub arguments: Vec<String>,
    /// The most runs at the same time.
    pub workers: usize,
    /// How many runs may wait for a worker.
    pub queue: usize,
    /// How long a run waits for a worker at the most.
    pub wait_at_most: Duration,
    /// How long runs that were sent together may take before no more of them is begun: others wait for the worker, too.
    pub together: Duration,
    /// How many runs a worker does in its life.
    pub runs_per_worker: u32,
    /// How long a worker lives.
    pub age: Duration,
    /// How long a worker stays with nothing to do.
    pub idle: Duration,
    /// How long a worker may take until it is ready.
    pub start_within: Duration,
    /// How long a look into a module may take.
    pub check_within: Duration,
    /// The heap of a run, in bytes.
    pub memory: usize,
}

impl PoolSettings {
    /// Workers of `program` with `arguments`, as many as there are processors, with the figures of the manual.
    #[must_use]
    pub fn new(program: PathBuf, arguments: Vec<String>) -> Self {
        Self {
            program,
            arguments,
            workers: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            queue: 1_000,
            wait_at_most: Duration::from_secs(30),
            together: Duration::from_millis(20),
            runs_per_worker: 50_000,
            age: Duration::from_secs(600),
            idle: Duration::from_secs(60),
            start_within: Duration::from_secs(10),
            check_within: Duration::from_secs(5),
            memory: 64 * 1024 * 1024,
        }
    }

    /// The same within what can work at all.
    pub(super) fn sane(mut self) -> Self {
        self.workers = self.workers.clamp(1, 256);
        self.memory = self.memory.clamp(8 * 1024 * 1024, 1024 * 1024 * 1024);
        self
    }
}
