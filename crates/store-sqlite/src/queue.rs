//! The queue from the callers to the writer: bounded in number and in bytes, and never blocking a runtime thread.
//!
//! A commit costs nearly the same for one write and for a hundred, so the first write does not wake the writer. Its caller
//! spawns a task that does so after all tasks that are ready now: at once on an idle runtime, and after at most about
//! sixty tasks on a busy one.

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::encode::{WriteOp, WriteResult};
use store::Error;

/// The capacity of the queue in bytes, which also limits a single write.
pub(super) const QUEUE_BYTES: usize = 64 << 20;

/// The capacity of the queue in writes.
const QUEUE_WRITES: usize = 1024;

/// The unit of the capacity, in bytes.
const UNIT: usize = 1024;

/// The least units of a write, so that at most [`QUEUE_WRITES`] fit.
const LEAST_UNITS: usize = QUEUE_BYTES / UNIT / QUEUE_WRITES;

/// A queued operation with the channel for its result.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) work: WriteOp,
    pub(super) reply: oneshot::Sender<Result<WriteResult, Error>>,
    /// The capacity that it occupies, released when it is dropped.
    _share: OwnedSemaphorePermit,
}

/// The sending end. Dropping it ends the writer.
#[derive(Debug)]
pub(super) struct Queue {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Shared>);

/// The state that both ends share.
#[derive(Debug)]
struct Shared {
    waiting: Mutex<Pending>,
    /// Signals the writer.
    woken: Condvar,
}

/// The writes that the writer has not received yet.
#[derive(Debug)]
struct Pending {
    writes: Vec<Write>,
    /// The callers of `close`, which wait until the file is closed.
    closers: Vec<oneshot::Sender<()>>,
    /// True if the writer should receive now.
    is_due: bool,
    /// True if the queue accepts no more writes.
    is_closed: bool,
    /// The number of the next batch, unique over all queues.
    round: u64,
}

/// Wakes the writer when it is dropped. A runtime that ends drops it too, so no wake is lost.
struct Wake(Arc<Shared>);

thread_local! {
    /// The last batch for which this thread has spawned a [`Wake`], and the runtime that runs it.
    static WAKES: Cell<(u64, Option<runtime::Id>)> = const { Cell::new((0, None)) };
}

/// Creates a queue.
pub(super) fn queue() -> (Queue, Receiver) {
    let waiting = Pending {
        writes: Vec::new(),
        closers: Vec::new(),
        is_due: false,
        is_closed: false,
        round: next_round(),
    };
    let shared = Arc::new(Shared { waiting: Mutex::new(waiting), woken: Condvar::new() });
    let room = Arc::new(Semaphore::new(QUEUE_BYTES / UNIT));
    (Queue { shared: shared.clone(), room }, Receiver(shared))
}

fn next_round() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Queue {
    /// Waits for capacity, queues the operation, and waits until it is durable.
    pub(super) async fn write(&self, work: WriteOp) -> Result<WriteResult, Error> {
        let bytes = work.bytes();
        if bytes > QUEUE_BYTES {
            return Err(Error::TooLarge { bytes, limit: QUEUE_BYTES });
        }
        let units = u32::try_from(bytes.div_ceil(UNIT).max(LEAST_UNITS)).unwrap_or(u32::MAX);
        let share = self.room.clone().acquire_many_owned(units).await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        self.shared.push(Write { work, reply, _share: share })?;
        // The writer answers every write; if it does not, it died within a batch.
        answer.await.unwrap_or_else(|_| {
            Err(Error::Commit { reason: "the writer ended before it answered".to_owned() })
        })
    }

    /// Lets the writer finish, and waits until it has closed the file. Returns at once if the queue is closed already.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        {
            let mut waiting = self.shared.lock();
            if waiting.is_closed {
                return;
            }
            waiting.closers.push(reply);
        }
        self.shared.close();
        // A writer that failed to start drops the sender.
        let _ = closed.await;
    }

    /// Returns the number of queued writes.
    pub(super) fn len(&self) -> usize {
        self.shared.lock().writes.len()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Receiver {
    /// Waits for writes, at most for `longest`, and moves all of them into the empty `writes`, and the callers of `close` into
    /// `closers`. Returns false once the queue is closed and empty.
    pub(super) fn receive(
        &self,
        writes: &mut Vec<Write>,
        closers: &mut Vec<oneshot::Sender<()>>,
        longest: Option<Duration>,
    ) -> bool {
        let idle = |waiting: &mut Pending| !waiting.is_due && !waiting.is_closed;
        let mut waiting = match longest {
            None => self.0.woken.wait_while(self.0.lock(), idle).unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let waiting = self.0.woken.wait_timeout_while(self.0.lock(), longest, idle);
                waiting.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        waiting.is_due = false;
        waiting.round = next_round();
        closers.append(&mut waiting.closers);
        mem::swap(writes, &mut waiting.writes);
        !(writes.is_empty() && waiting.is_closed)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.close();
        let mut waiting = self.0.lock();
        let left = (mem::take(&mut waiting.writes), mem::take(&mut waiting.closers));
        drop(waiting);
        drop(left);
    }
}

impl Shared {
    /// Locks the state. A panic cannot leave it inconsistent.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a write, and schedules a [`Wake`] on this thread unless there is one for this batch.
    fn push(self: &Arc<Self>, write: Write) -> Result<(), Error> {
        let round = {
            let mut waiting = self.lock();
            if waiting.is_closed {
                return Err(Error::Closed);
            }
            waiting.writes.push(write);
            waiting.round
        };
        let runtime = runtime::Handle::try_current().ok();
        let coming = (round, runtime.as_ref().map(runtime::Handle::id));
        if WAKES.replace(coming) != coming || runtime.is_none() {
            let wake = Wake(self.clone());
            // Without a runtime it wakes the writer at once. It is a task of its own, since the caller's future may not be
            // polled for a while.
            if let Some(runtime) = runtime {
                runtime.spawn(async move {
                    tokio::task::yield_now().await;
                    drop(wake);
                });
            }
        }
        Ok(())
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.woken.notify_one();
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        if !waiting.writes.is_empty() && !mem::replace(&mut waiting.is_due, true) {
            drop(waiting);
            self.0.woken.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::join_all;
    use futures_util::{FutureExt as _, poll};
    use model::{ExecutionId, Status};
    use tokio::task::{unconstrained, yield_now};

    use super::super::blobs::ExternalValues;
    use super::super::encode::AppendRow;
    use super::*;

    fn work(bytes: usize) -> WriteOp {
        WriteOp::Append(Box::new(AppendRow {
            execution: ExecutionId::from_bytes([1; 16]),
            first: 1,
            count: 1,
            body: Some("x".repeat(bytes)),
            external: ExternalValues::default(),
            lines: None,
            status: Status::Running,
            keeps_permit: false,
            finished_ns: None,
            error: None,
            waits: None,
            snapshot: store::SnapshotChange::Keep,
            state: Vec::new(),
            emits: Vec::new(),
        }))
    }

    /// All that waits, whether the writer is to take it or not.
    fn taken(receiver: &Receiver) -> Vec<Write> {
        mem::take(&mut receiver.0.lock().writes)
    }

    fn is_due(receiver: &Receiver) -> bool {
        receiver.0.lock().is_due
    }

    #[tokio::test]
    async fn callers_wait_while_the_queue_is_full_of_bytes() {
        let (queue, receiver) = queue();
        let mut writes =
            pin!(unconstrained(join_all((0..4).map(|_| queue.write(work(QUEUE_BYTES / 2 - 1024))))));
        assert!(poll!(&mut writes).is_pending());
        assert_eq!(queue.len(), 2);
        let mut first = taken(&receiver);
        for waiting in [0, 1] {
            assert_eq!(queue.len(), waiting);
            let Some(Write { reply, _share, .. }) = first.pop() else { panic!("two were queued") };
            drop(_share);
            assert!(reply.send(Ok(WriteResult::Nothing)).is_ok());
            let _ = poll!(&mut writes);
        }
        assert_eq!(taken(&receiver).len(), 2);
    }

    #[tokio::test]
    async fn callers_wait_while_the_queue_is_full_of_writes() {
        let (queue, _receiver) = queue();
        let count = QUEUE_WRITES + 5;
        let mut writes = pin!(unconstrained(join_all((0..count).map(|_| queue.write(work(1))))));
        assert!(poll!(&mut writes).is_pending());
        assert_eq!(queue.len(), QUEUE_WRITES);
    }

    #[tokio::test]
    async fn a_write_larger_than_the_queue_is_rejected() {
        let (queue, _receiver) = queue();
        let refused = queue.write(work(QUEUE_BYTES + 1)).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn the_writer_is_woken_after_all_ready_tasks_have_run() {
        let (queue, receiver) = queue();
        let queue = Arc::new(queue);
        for _ in 0..20 {
            let queue = queue.clone();
            tokio::spawn(async move { queue.write(work(1)).await });
        }
        // Each of these yields is a turn of the runtime: in the first the tasks run, behind them what wakes the writer.
        yield_now().await;
        assert!(!is_due(&receiver), "others may come in this turn");
        yield_now().await;
        let (mut writes, mut closers) = (Vec::new(), Vec::new());
        assert!(is_due(&receiver) && receiver.receive(&mut writes, &mut closers, None));
        assert_eq!(writes.len(), 20);
        assert!(!is_due(&receiver), "nothing is left");
    }

    #[tokio::test]
    async fn a_caller_that_is_never_polled_again_blocks_no_other() {
        let (queue, receiver) = queue();
        let mut forgotten = pin!(queue.write(work(1)));
        assert!(poll!(&mut forgotten).is_pending());
        let mut second = pin!(queue.write(work(1)));
        assert!(poll!(&mut second).is_pending());
        yield_now().await;
        yield_now().await;
        assert!(is_due(&receiver));
    }

    #[test]
    fn an_undriven_runtime_blocks_no_other_on_the_same_thread() {
        let (queue, receiver) = queue();
        let runtime = || runtime::Builder::new_current_thread().build().expect("a runtime");
        let (left_alone, driven) = (runtime(), runtime());
        left_alone.block_on(async {
            assert!(queue.write(work(1)).now_or_never().is_none());
        });
        driven.block_on(async {
            assert!(queue.write(work(1)).now_or_never().is_none());
            yield_now().await;
            yield_now().await;
        });
        assert!(is_due(&receiver));
    }

    #[test]
    fn the_writer_is_woken_without_a_runtime_and_after_its_shutdown() {
        let (queue, receiver) = queue();
        assert!(queue.write(work(1)).now_or_never().is_none());
        assert!(is_due(&receiver));
        receiver.receive(&mut Vec::new(), &mut Vec::new(), None);
        let runtime = runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            assert!(queue.write(work(1)).now_or_never().is_none());
        });
        assert!(!is_due(&receiver));
        drop(runtime);
        assert!(is_due(&receiver));
    }

    #[tokio::test]
    async fn writes_queued_before_close_are_processed_and_none_after() {
        let (queue, receiver) = queue();
        let mut write = pin!(queue.write(work(1)));
        let mut close = pin!(queue.close());
        assert!(poll!(&mut write).is_pending() && poll!(&mut close).is_pending());
        assert!(matches!(queue.write(work(1)).await, Err(Error::Closed)));
        let (mut writes, mut closers) = (Vec::new(), Vec::new());
        assert!(receiver.receive(&mut writes, &mut closers, None));
        assert_eq!((writes.drain(..).count(), closers.len()), (1, 1));
        assert!(!receiver.receive(&mut writes, &mut closers, None));
        drop(closers);
        close.await;
    }

    #[tokio::test]
    async fn a_writer_that_ends_before_replying_leaves_the_outcome_unknown() {
        let (queue, receiver) = queue();
        let mut write = pin!(queue.write(work(1)));
        assert!(poll!(&mut write).is_pending());
        drop(taken(&receiver));
        assert!(write.await.is_err_and(|error| error.outcome_unknown()));
        drop(receiver);
        assert!(matches!(queue.write(work(1)).await, Err(Error::Closed)));
    }
}
