//! Threads for work on large values, apart from tokio's pool of blocking threads.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::JoinHandle;

/// The time that an idle thread stays.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The threads of the process for work on large values and on parts of large bodies.
const MAX_THREADS: usize = 8;

/// A few threads that work on large values.
///
/// The allocator keeps some of the memory that a thread has freed for that thread. Tokio's pool of blocking threads has
/// dozens of threads, also where few of them have work at a time, and each of them would keep the memory of the largest value that
/// it handled. After the work, freed memory returns to the system.
#[derive(Debug)]
pub struct LargeWork {
    /// Has no task but blocking ones. `None` only while it is dropped, or if the system refused it.
    threads: Option<Runtime>,
}

impl LargeWork {
    /// Prepares at most `count` threads, which start when there is work for them.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let threads = Builder::new_current_thread()
            .max_blocking_threads(count.max(1))
            .thread_keep_alive(KEEP_ALIVE)
            .thread_name("large-work")
            .build();
        Self { threads: threads.ok() }
    }

    /// Runs `work` on one of the threads, after the work that was passed before.
    ///
    /// On a runtime of one thread, as tests with a stopped clock use it, the work runs in that runtime's own pool: the
    /// clock of such a runtime stands still only for its own tasks.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let work = || {
            let result = work();
            crate::request_purge();
            result
        };
        match &self.threads {
            Some(threads) if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread => {
                threads.spawn_blocking(work)
            }
            _ => tokio::task::spawn_blocking(work),
        }
    }
}

/// Works on a large value, or reads or writes a part of a large body, on one of a few threads of the process. `work` may wait for the
/// disk and the store alone.
pub fn large_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    static THREADS: LazyLock<LargeWork> = LazyLock::new(|| LargeWork::new(MAX_THREADS));
    THREADS.run(work)
}

impl Drop for LargeWork {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            // A runtime may be dropped in a task only without waiting for its threads.
            threads.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn large_work_uses_at_most_its_number_of_threads() {
        let large_work = LargeWork::new(2);
        let running: Vec<_> = (0..50).map(|_| large_work.run(|| std::thread::current().id())).collect();
        let mut threads = HashSet::new();
        for work in running {
            threads.insert(work.await.unwrap());
        }
        assert!((1..=2).contains(&threads.len()), "{threads:?}");
    }
}
