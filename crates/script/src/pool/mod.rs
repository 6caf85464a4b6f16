//! The pool: admission of runs, their assignment to workers, and the reuse or replacement of workers.
//!
//! A run, or a sequence of runs, borrows a worker and talks to it from its own task, without a hop to another thread. Runs
//! wait in a bounded FIFO queue. A worker that exceeded its deadline, died or violated the protocol is killed by dropping it,
//! and a replacement is started immediately.

mod analysis;
mod inflight;
mod sequence;
mod settings;
mod supervisor;
mod worker_handle;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::metric::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::{Call, Outcome, SequenceCall};
use crate::error::Error;
use crate::module::{Digest, Module};
use crate::protocol::{Tag, encode};

use inflight::too_large;
pub use sequence::Sequence;
pub use settings::PoolSettings;
use supervisor::Supervisor;
use worker_handle::{WorkerFailure, WorkerHandle};

/// The time between the deadline of a run and its kill. Code that polls the interrupt handler ends within a millisecond or
/// two; the rest is for a busy machine.
const GRACE: Duration = Duration::from_millis(50);

/// A pool of worker processes. Cheap to clone; starts no process before it is needed; its workers end with it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// The state that the pool's handles and its supervisor share.
struct Shared {
    settings: PoolSettings,
    /// Idle workers, the most recently used last.
    idle: Mutex<Vec<WorkerHandle>>,
    /// A permit for each concurrent run.
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Worker processes that were started.
    started: Counter,
    /// Worker processes that ended while running code: killed at a deadline, or died.
    lost: Counter,
    analyses: analysis::AnalysisQueue,
    supervisor: Supervisor,
}

impl Pool {
    /// Creates a pool. No process starts before the first run.
    #[must_use]
    pub fn new(settings: PoolSettings) -> Self {
        let settings = settings.sane();
        let workers = settings.workers;
        let shared = Arc::new_cyclic(|weak| Shared {
            idle: Mutex::new(Vec::with_capacity(workers)),
            slots: Arc::new(Semaphore::new(workers)),
            waiting: AtomicUsize::new(0),
            started: Counter::default(),
            lost: Counter::default(),
            analyses: analysis::AnalysisQueue::new(workers),
            supervisor: Supervisor::new(weak.clone(), settings.clone()),
            settings,
        });
        Self { shared }
    }

    /// Runs a module once. Dropping the future kills the worker.
    ///
    /// # Errors
    /// The code threw, exceeded its deadline or its memory; its worker ended; no worker was available.
    pub async fn run(&self, call: Call<'_>) -> Result<Outcome, Error> {
        let (outcome, _) = self.run_sequence(&[SequenceCall { call, earlier: &[] }]).await?;
        Ok(outcome)
    }

    /// Runs the first of several modules like [`Pool::run`]. The others follow on the same worker, each isolated: as many of
    /// them as can be sent together ([`Sequence::left`]).
    ///
    /// # Errors
    /// Like [`Pool::run`], for the first module.
    pub async fn run_sequence(&self, members: &[SequenceCall<'_>]) -> Result<(Outcome, Sequence), Error> {
        let mut sequence = Sequence::begin(&self.shared, members).await?;
        let first = sequence.next().await?;
        let first = first.ok_or_else(|| WorkerFailure::ProtocolViolation.into_error(Vec::new()))?;
        Ok((first, sequence))
    }

    /// Sends bytes to a worker and back, to measure the minimum cost of a run.
    ///
    /// # Errors
    /// No worker was available, or it ended.
    #[doc(hidden)]
    pub async fn echo(&self, bytes: &[u8]) -> Result<usize, Error> {
        let _slot = self.shared.slot().await?;
        let mut worker_handle = self.shared.worker(None).await?;
        let limits = &self.shared.settings;
        let broken = |broken: WorkerFailure| broken.into_error(Vec::new());
        worker_handle.greeting(limits.start_within).await.map_err(broken)?;
        let message = encode(Tag::Echo, &[bytes]).map_err(|_| too_large("what is sent"))?;
        let answer =
            worker_handle.exchange(&message, Instant::now() + limits.start_within).await.map_err(broken)?;
        self.shared.put_back(worker_handle);
        Ok(answer.parts.first().map_or(0, bytes::Bytes::len))
    }

    /// Starts a worker if none is idle, and returns how the kernel confines it, in a few words.
    ///
    /// # Errors
    /// No worker was available, or it cannot be confined.
    pub async fn confinement(&self) -> Result<String, Error> {
        let _slot = self.shared.slot().await?;
        let mut worker_handle = self.shared.worker(None).await?;
        let ready = worker_handle.greeting(self.shared.settings.start_within).await;
        ready.map_err(|broken| broken.into_error(Vec::new()))?;
        let confinement = worker_handle.confinement().to_owned();
        self.shared.put_back(worker_handle);
        Ok(confinement)
    }

    /// The time limit of a sequence, after which none of its further runs starts.
    #[must_use]
    pub fn together(&self) -> Duration {
        self.shared.settings.together
    }

    /// The state of the pool.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        let shared = &*self.shared;
        let limit = shared.settings.workers;
        PoolStatus {
            limit,
            busy: limit.saturating_sub(shared.slots.available_permits()),
            idle: self.idle_workers(),
            waiting: shared.waiting.load(Ordering::Relaxed),
            started: shared.started.get(),
            lost: shared.lost.get(),
        }
    }

    /// The number of idle workers.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.shared.idle().len()
    }
}

/// The current state of a pool, and its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// The maximum number of concurrent runs.
    pub limit: usize,
    /// Workers that are running code.
    pub busy: usize,
    /// Idle workers.
    pub idle: usize,
    /// Runs that wait for a worker.
    pub waiting: usize,
    /// Worker processes that were started.
    pub started: u64,
    /// Worker processes that ended while running code: killed at a deadline, or died.
    pub lost: u64,
}

/// A position in the queue, released when dropped.
struct Queued<'pool>(&'pool Shared);

impl<'pool> Queued<'pool> {
    fn enter(shared: &'pool Shared) -> Result<Self, Error> {
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed);
        let queued = Self(shared);
        if waiting < shared.settings.queue { Ok(queued) } else { Err(Error::Busy { waiting }) }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Ignores a poisoned lock: the list of workers is consistent after every operation.
    fn idle(&self) -> MutexGuard<'_, Vec<WorkerHandle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the permit of one run, in the order of the callers.
    async fn slot(&self) -> Result<OwnedSemaphorePermit, Error> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(permit);
        }
        let queue = Queued::enter(self)?;
        let waited = self.settings.wait_at_most;
        let permit = tokio::time::timeout(waited, Arc::clone(&self.slots).acquire_owned()).await;
        drop(queue);
        permit.ok().and_then(Result::ok).ok_or(Error::Waited { waited })
    }

    /// Takes an idle worker, or starts one.
    async fn worker(&self, module: Option<Digest>) -> Result<WorkerHandle, Error> {
        match self.take_idle(module) {
            Some(worker_handle) => Ok(worker_handle),
            None => self.supervisor.start().await.map_err(Error::Start),
        }
    }

    /// Takes an idle worker: one with the module if possible, else the most recently used.
    fn take_idle(&self, module: Option<Digest>) -> Option<WorkerHandle> {
        let mut idle = self.idle();
        let known =
            module.and_then(|module| idle.iter().rposition(|worker_handle| worker_handle.has_module(module)));
        let index = known.or_else(|| idle.len().checked_sub(1))?;
        Some(idle.remove(index))
    }

    /// Returns a worker to the idle ones, unless it is spent or there are enough idle workers.
    fn put_back(&self, mut worker_handle: WorkerHandle) {
        if worker_handle.is_spent(&self.settings) {
            worker_handle.drop_without_replacement();
            return;
        }
        worker_handle.mark_idle();
        let mut idle = self.idle();
        if idle.len() < self.settings.workers {
            idle.push(worker_handle);
        } else {
            worker_handle.drop_without_replacement();
        }
    }

    /// Ends workers that have been idle too long or are too old.
    fn sweep(&self) {
        let over: Vec<WorkerHandle> =
            self.idle().extract_if(.., |worker_handle| worker_handle.is_stale(&self.settings)).collect();
        over.into_iter().for_each(|mut worker_handle| worker_handle.drop_without_replacement());
    }
}
