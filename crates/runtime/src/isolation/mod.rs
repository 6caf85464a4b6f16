//! The isolation of executions that were computing when the process died. A crash counts against these only, and each of
//! them computes alone until it has passed the step it was in.
//!
//! An execution *computes* while a thread polls it. An execution that waits for the network, a pause, a timer, a slot or a
//! permit is not polled, so no crash counts against it. After a crash, the next process *observes* the interrupted
//! executions: whenever one of them computes, the [crash record](record) names it. After another crash, the next process
//! reads the record: the named executions are the *suspects*. While a suspect computes, no other execution does. A further
//! crash therefore counts against that suspect only, and no execution becomes `stuck` because of another one. Isolation is
//! not held across a wait: while a suspect waits, pauses or calls, the others compute, so there is no deadlock.
//!
//! For an execution that no crash has interrupted, each poll costs one atomic load and one thread-local flag.

mod record;

use std::cell::Cell;
use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use model::ExecutionId;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use record::CrashRecord;
#[cfg(any(test, feature = "simulation"))]
pub use record::RecordMemory;

/// The name of the crash record in the data folder.
const FILE: &str = "crash-record";

/// Controls which executions may compute side by side.
pub struct Isolation {
    record: CrashRecord,
    state: Mutex<State>,
    /// The number of executions that compute alone, loaded or not. If it is zero, no execution takes the lock.
    alone: AtomicUsize,
    /// Locked shared by executions that may compute in parallel, and exclusively by an execution that computes alone; only
    /// during a poll.
    turns: Arc<RwLock<()>>,
}

#[derive(Default)]
struct State {
    /// The executions that the crash record named when this process began, until their logs record the crash.
    suspects: HashSet<ExecutionId>,
    /// The executions in memory that compute alone.
    isolated: HashSet<ExecutionId>,
}

/// The observation of an interrupted execution, until it has passed the step it was in or leaves memory.
pub(crate) struct Observation {
    isolation: Arc<Isolation>,
    id: ExecutionId,
    is_over: AtomicBool,
    is_alone: bool,
}

/// The lock under which an execution is polled once.
#[expect(dead_code, reason = "the lock is released when it is dropped")]
enum PollLock {
    Shared(OwnedRwLockReadGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

impl Isolation {
    /// An isolation without a crash record, for an engine that has no successor.
    pub fn none() -> Arc<Self> {
        Self::on(CrashRecord::none())
    }

    /// Opens the crash record in the data folder.
    pub(crate) fn in_folder(data_dir: &std::path::Path) -> std::io::Result<Arc<Self>> {
        std::fs::create_dir_all(data_dir)?;
        Ok(Self::on(CrashRecord::open(&data_dir.join(FILE))?))
    }

    /// Keeps the crash record in memory, for simulations.
    #[cfg(any(test, feature = "simulation"))]
    pub fn in_memory(memory: &Arc<RecordMemory>) -> Arc<Self> {
        Self::on(memory.open())
    }

    fn on(record: CrashRecord) -> Arc<Self> {
        let suspects: HashSet<ExecutionId> = record.named().into_iter().collect();
        let alone = AtomicUsize::new(suspects.len());
        let state = Mutex::new(State { suspects, isolated: HashSet::new() });
        Arc::new(Self { record, state, alone, turns: Arc::default() })
    }

    /// True if the execution computed when the previous process died and its log does not record that yet.
    pub(crate) fn is_suspect(&self, id: ExecutionId) -> bool {
        self.state().suspects.contains(&id)
    }

    /// Removes a suspect: its log records the crash, or it does not continue.
    pub(crate) fn clear_suspect(&self, id: ExecutionId) {
        self.retain_suspects(|suspect| suspect != id);
    }

    /// Removes all suspects for which `is_suspect` returns false.
    pub(crate) fn retain_suspects(&self, is_suspect: impl Fn(ExecutionId) -> bool) {
        let mut state = self.state();
        let acquitted: Vec<ExecutionId> = state.suspects.extract_if(|id| !is_suspect(*id)).collect();
        for id in acquitted {
            self.record.remove(id);
        }
        self.count(&state);
    }

    /// Starts to observe an execution that a crash interrupted. `interruptions` counts the earlier crashes since a step of it
    /// last ended.
    pub(crate) fn observe(self: &Arc<Self>, id: ExecutionId, interruptions: u32) -> Observation {
        let mut state = self.state();
        let is_alone = interruptions > 0 || state.suspects.contains(&id);
        if is_alone {
            state.isolated.insert(id);
            self.count(&state);
        }
        Observation { isolation: self.clone(), id, is_over: AtomicBool::new(false), is_alone }
    }

    fn count(&self, state: &State) {
        self.alone.store(state.suspects.union(&state.isolated).count(), Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the lock for one poll; `None` if no execution computes alone, so that none is needed.
    fn poll_turn(
        &self,
        is_alone: bool,
        waiting: &mut Option<BoxFuture<'static, PollLock>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<PollLock>> {
        if waiting.is_none() {
            if self.alone.load(Ordering::Acquire) == 0 {
                return Poll::Ready(None);
            }
            let turns = self.turns.clone();
            let free = match is_alone {
                true => turns.clone().try_write_owned().map(PollLock::Alone),
                false => turns.clone().try_read_owned().map(PollLock::Shared),
            };
            if let Ok(turn) = free {
                return Poll::Ready(Some(turn));
            }
            *waiting = Some(match is_alone {
                true => async move { PollLock::Alone(turns.write_owned().await) }.boxed(),
                false => async move { PollLock::Shared(turns.read_owned().await) }.boxed(),
            });
        }
        let turn = match waiting {
            Some(waiting) => ready!(waiting.poll_unpin(context)),
            None => return Poll::Ready(None),
        };
        *waiting = None;
        Poll::Ready(Some(turn))
    }

    /// Runs an execution under these rules. `has_passed` returns true once it has passed the step that a crash interrupted.
    pub(crate) async fn run(
        &self,
        observation: Option<&Observation>,
        has_passed: impl Fn() -> bool,
        mut work: Pin<&mut impl Future<Output = ()>>,
    ) {
        let mut waiting = None;
        poll_fn(|context| {
            let observed = observation.filter(|observation| !observation.is_over(&has_passed));
            let is_alone = observed.is_some_and(|observation| observation.is_alone);
            let nesting = Nesting::begin();
            // The outer execution holds the lock: taking it again could deadlock.
            let _turn = if nesting.is_inside() {
                waiting = None;
                None
            } else {
                ready!(self.poll_turn(is_alone, &mut waiting, context))
            };
            let _entry = observed.and_then(|observation| self.record.enter(observation.id));
            work.as_mut().poll(context)
        })
        .await;
        if let Some(observation) = observation {
            observation.end();
        }
    }
}

thread_local! {
    /// True while this thread polls an execution.
    static POLLS: Cell<bool> = const { Cell::new(false) };
}

/// One poll of an execution. A `call` step may poll the execution that it starts within its own poll.
struct Nesting {
    is_inside: bool,
}

impl Nesting {
    fn begin() -> Self {
        Self { is_inside: POLLS.replace(true) }
    }

    /// True if this poll is within the poll of another execution.
    fn is_inside(&self) -> bool {
        self.is_inside
    }
}

impl Drop for Nesting {
    fn drop(&mut self) {
        POLLS.set(self.is_inside);
    }
}

impl Observation {
    fn is_over(&self, has_passed: impl Fn() -> bool) -> bool {
        if has_passed() {
            self.end();
        }
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the observation: the execution has passed the step it was in, or leaves memory.
    pub(crate) fn end(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) && self.is_alone {
            let mut state = self.isolation.state();
            state.isolated.remove(&self.id);
            self.isolation.count(&state);
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
