//! The isolation of executions that were computing when a process died: a crash counts against those alone, and each of
//! them computes alone until it has passed the step it was in.
//!
//! An execution *computes* while a thread polls it. One that waits for the network, a pause, a timer, a slot or its
//! turn is not polled, so no crash counts against it. The process after a crash *observes* the executions that were
//! interrupted: whenever one of them computes, the [crash record](record) names it. The process after the next crash
//! reads from it which executions to *suspect*. While a suspect computes, no other execution does; so the crash after
//! that is counted against nobody but the one that was alone, and a bystander never becomes `stuck` because of a
//! neighbour. Nobody holds anything across a wait: suspects that wait, pause, call or end let the others compute, and
//! there is nothing that could deadlock.
//!
//! An execution that no crash has interrupted costs one load of an atomic number, and a flag of the thread, each time it
//! is polled.

mod record;

use std::cell::Cell;
use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
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

/// Who may compute beside whom.
pub struct Isolation {
    record: CrashRecord,
    state: Mutex<State>,
    /// How many executions compute alone, those that have yet to be read back among them. Others take turns with them
    /// only where there are any.
    alone: AtomicUsize,
    /// Shared by executions that may compute side by side, held exclusively by one that computes alone; only while a
    /// thread polls it.
    turns: Arc<RwLock<()>>,
}

#[derive(Default)]
struct State {
    /// The executions that the crash record named when this process began, until that is in their logs.
    suspects: HashSet<ExecutionId>,
    /// The executions in memory that compute alone.
    isolated: HashSet<ExecutionId>,
}

/// The observation of an execution that a crash interrupted, until it has passed the step it was in or leaves memory.
pub(crate) struct Observation {
    isolation: Arc<Isolation>,
    id: ExecutionId,
    is_over: AtomicBool,
    is_alone: bool,
}

/// The right to compute, for as long as one poll takes.
#[expect(dead_code, reason = "the lock is released when it is dropped")]
enum Turn {
    Shared(OwnedRwLockReadGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

impl Isolation {
    /// The isolation of an engine after which no other begins.
    pub fn none() -> Arc<Self> {
        Self::on(CrashRecord::none())
    }

    /// The isolation of an engine with this data folder.
    pub(crate) fn in_folder(data_dir: &std::path::Path) -> std::io::Result<Arc<Self>> {
        std::fs::create_dir_all(data_dir)?;
        Ok(Self::on(CrashRecord::open(&data_dir.join(FILE))?))
    }

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

    /// Whether an execution computed when the process before this one died, and that is not in its log yet.
    pub(crate) fn is_suspect(&self, id: ExecutionId) -> bool {
        self.state().suspects.contains(&id)
    }

    /// Suspects an execution no longer: the crash is in its log, or it does not go on.
    pub(crate) fn acquit(&self, id: ExecutionId) {
        self.acquit_all_but(|suspect| suspect != id);
    }

    /// Suspects only those executions that `is_suspect` affirms.
    pub(crate) fn acquit_all_but(&self, is_suspect: impl Fn(ExecutionId) -> bool) {
        let mut state = self.state();
        let acquitted: Vec<ExecutionId> = state.suspects.extract_if(|id| !is_suspect(*id)).collect();
        for id in acquitted {
            self.record.remove(id);
        }
        self.count(&state);
    }

    /// Begins to observe an execution that a crash interrupted, and so often before that without a step that ended in
    /// between.
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

    /// Gives the right to compute once; `None` where nobody needs it, since nobody computes alone.
    fn poll_turn(
        &self,
        is_alone: bool,
        waiting: &mut Option<BoxFuture<'static, Turn>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Turn>> {
        if waiting.is_none() {
            if self.alone.load(Ordering::Acquire) == 0 {
                return Poll::Ready(None);
            }
            let turns = self.turns.clone();
            let free = match is_alone {
                true => turns.clone().try_write_owned().map(Turn::Alone),
                false => turns.clone().try_read_owned().map(Turn::Shared),
            };
            if let Ok(turn) = free {
                return Poll::Ready(Some(turn));
            }
            *waiting = Some(match is_alone {
                true => async move { Turn::Alone(turns.write_owned().await) }.boxed(),
                false => async move { Turn::Shared(turns.read_owned().await) }.boxed(),
            });
        }
        let turn = match waiting {
            Some(waiting) => ready!(waiting.poll_unpin(context)),
            None => return Poll::Ready(None),
        };
        *waiting = None;
        Poll::Ready(Some(turn))
    }

    /// Runs an execution, or what is left of it, by these rules. `has_passed` says whether the step is behind it that a
    /// crash interrupted.
    pub(crate) async fn run(
        &self,
        observation: Option<&Observation>,
        has_passed: impl Fn() -> bool,
        work: impl Future<Output = ()>,
    ) {
        let mut work = pin!(work);
        let mut waiting = None;
        poll_fn(|context| {
            let observed = observation.filter(|observation| !observation.is_over(&has_passed));
            let is_alone = observed.is_some_and(|observation| observation.is_alone);
            let nesting = Nesting::begin();
            // It would wait for what the execution around it holds, or hold what that one needs to poll it again.
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
    /// Whether this thread polls an execution.
    static POLLS: Cell<bool> = const { Cell::new(false) };
}

/// One poll of an execution. A `call` step may poll the execution that it starts for the first time within its own poll.
struct Nesting {
    is_inside: bool,
}

impl Nesting {
    fn begin() -> Self {
        Self { is_inside: POLLS.replace(true) }
    }

    /// Whether this is within the poll of another execution.
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
