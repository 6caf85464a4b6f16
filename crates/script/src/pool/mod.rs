//! The pool: who may run, on which worker, and what becomes of a worker afterwards.
//!
//! A run, or a sequence of them, borrows a worker for itself and speaks with it from its own task: no hop to another
//! thread. Runs wait in a bounded queue, first come first served. A worker that overran, died or said what no worker says is killed by
//! dropping it, and another is started in its place at once.

mod checking;
mod keeper;
mod link;
mod sent;
mod sequence;
mod settings;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::{Call, Member, Outcome};
use crate::error::Error;
use crate::module::{Digest, Module};
use crate::protocol::{Tag, encode};

use keeper::Keeper;
use link::{Broken, Link};
use sent::too_large;
pub use sequence::Sequence;
pub use settings::PoolSettings;

/// How long after its deadline a run that has not ended by itself is killed. What asks the interrupt handler needs
/// a millisecond or two; the rest is for a busy machine.
const GRACE: Duration = Duration::from_millis(50);

/// A pool of worker processes. Cheap to clone; starts nothing before it is needed; its workers end with it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// What the pool's handles and its keeper share.
struct Shared {
    settings: PoolSettings,
    /// Workers with nothing to do, the one used last at the end.
    idle: Mutex<Vec<Link>>,
    /// One for each run at a time.
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    checks: checking::Gate,
    keeper: Keeper,
}

impl Pool {
    /// A pool by these settings. No process is started before the first run.
    #[must_use]
    pub fn new(settings: PoolSettings) -> Self {
        let settings = settings.sane();
        let workers = settings.workers;
        let shared = Arc::new_cyclic(|weak| Shared {
            idle: Mutex::new(Vec::with_capacity(workers)),
            slots: Arc::new(Semaphore::new(workers)),
            waiting: AtomicUsize::new(0),
            checks: checking::Gate::new(workers),
            keeper: Keeper::new(weak.clone(), settings.clone()),
            settings,
        });
        Self { shared }
    }

    /// Runs a module once. Dropping the future kills the worker.
    ///
    /// # Errors
    /// The code threw, overran or ran out of memory; its worker ended; no worker was to be had.
    pub async fn run(&self, call: Call<'_>) -> Result<Outcome, Error> {
        let (outcome, _) = self.run_sequence(&[Member { call, earlier: &[] }]).await?;
        Ok(outcome)
    }

    /// Runs the first of several modules as [`Pool::run`] does. The others run behind it on the same worker, each as if it
    /// were the only one: as many of them as can be sent together ([`Sequence::left`]).
    ///
    /// # Errors
    /// As there, of the first.
    pub async fn run_sequence(&self, members: &[Member<'_>]) -> Result<(Outcome, Sequence), Error> {
        let mut sequence = Sequence::begin(&self.shared, members).await?;
        let first = sequence.next().await?;
        let first = first.ok_or_else(|| Broken::Garbled.into_error(Vec::new()))?;
        Ok((first, sequence))
    }

    /// Sends bytes to a worker and back: what a run costs at the least.
    ///
    /// # Errors
    /// No worker was to be had, or it ended.
    #[doc(hidden)]
    pub async fn echo(&self, bytes: &[u8]) -> Result<usize, Error> {
        let _slot = self.shared.slot().await?;
        let mut link = self.shared.worker(None).await?;
        let limits = &self.shared.settings;
        let broken = |broken: Broken| broken.into_error(Vec::new());
        link.greeting(limits.start_within).await.map_err(broken)?;
        let message = encode(Tag::Echo, &[bytes]).map_err(|_| too_large("what is sent"))?;
        let answer = link.exchange(&message, Instant::now() + limits.start_within).await.map_err(broken)?;
        self.shared.put_back(link);
        Ok(answer.parts.first().map_or(0, bytes::Bytes::len))
    }

    /// How long runs that are sent together may take before no more of them is begun.
    #[must_use]
    pub fn together(&self) -> Duration {
        self.shared.settings.together
    }

    /// How many worker processes there are with nothing to do.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.shared.idle().len()
    }
}

/// A place in the queue, given back however the waiting ends.
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
    /// A poisoned lock is no harm: a list of workers is whole after every step.
    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of one run. Whoever comes first has it first.
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

    /// A worker: one that rests, or a new one.
    async fn worker(&self, module: Option<Digest>) -> Result<Link, Error> {
        match self.resting(module) {
            Some(link) => Ok(link),
            None => self.keeper.start().await.map_err(Error::Start),
        }
    }

    /// A worker that rests: one that knows the module if there is one, else the one used last.
    fn resting(&self, module: Option<Digest>) -> Option<Link> {
        let mut idle = self.idle();
        let known = module.and_then(|module| idle.iter().rposition(|link| link.knows(module)));
        let index = known.or_else(|| idle.len().checked_sub(1))?;
        Some(idle.remove(index))
    }

    /// Takes a worker back, unless its time is over or there are enough.
    fn put_back(&self, mut link: Link) {
        if link.is_spent(&self.settings) {
            link.retire();
            return;
        }
        link.rests();
        let mut idle = self.idle();
        if idle.len() < self.settings.workers {
            idle.push(link);
        } else {
            link.retire();
        }
    }

    /// The workers that have had nothing to do for long, or have lived for long, end.
    fn sweep(&self) {
        let over: Vec<Link> = self.idle().extract_if(.., |link| link.is_stale(&self.settings)).collect();
        over.into_iter().for_each(|mut link| link.retire());
    }
}
