//! The pool's settings.

use std::path::PathBuf;
use std::time::Duration;

/// The number, the limits and the lifetime of the workers.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// The worker program: this executable.
    pub program: PathBuf,
    /// The arguments of a worker: the hidden subcommand.
    pub arguments: Vec<String>,
    /// The maximum number of concurrent runs.
    pub workers: usize,
    /// The maximum number of runs that wait for a worker.
    pub queue: usize,
    /// The maximum time that a run waits for a worker.
    pub wait_at_most: Duration,
    /// The time limit of a batch, after which no further run of it starts, since others wait for the worker too.
    pub together: Duration,
    /// The maximum number of runs of a worker.
    pub runs_per_worker: u32,
    /// The maximum age of a worker.
    pub age: Duration,
    /// The maximum idle time of a worker.
    pub idle: Duration,
    /// The maximum time until a worker is ready.
    pub start_within: Duration,
    /// The time limit of an analysis.
    pub check_within: Duration,
    /// The heap of a run, in bytes.
    pub memory: usize,
}

impl PoolSettings {
    /// Creates the settings for workers of `program` with `arguments`: one per processor, with the documented limits.
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

    /// Clamps the settings to a range that works.
    pub(super) fn sane(mut self) -> Self {
        self.workers = self.workers.clamp(1, 256);
        self.memory = self.memory.clamp(8 * 1024 * 1024, 1024 * 1024 * 1024);
        self
    }
}
