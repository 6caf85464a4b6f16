//! The writes that wait for a lane.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::op::{Claim, Done, Item, Op};
use store::Error;
use store::poison::Poison;

/// Maximum number of writes, and of bytes approximately, of a batch.
const BATCH_WRITES: usize = 512;
const BATCH_BYTES: usize = 8 << 20;
/// Maximum number of writes of a batch that are a call of a function each.
const BATCH_CALLS: usize = 64;
/// Maximum number of bytes of all writes that wait. A caller waits for room.
pub(super) const QUEUE_BYTES: usize = 64 << 20;
/// The unit of the room, in bytes.
const UNIT: usize = 1 << 10;

/// The queue, shared by callers and lanes.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waiting: Mutex<Waiting>,
    /// Wakes the first lane, and the others.
    first: Notify,
    others: Notify,
    room: Arc<Semaphore>,
    poison: Poison,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Writes for the first lane only, and for any.
    shared: VecDeque<Queued>,
    any: VecDeque<Queued>,
    is_closed: bool,
}

#[derive(Debug)]
struct Queued {
    item: Item,
    bytes: usize,
    room: OwnedSemaphorePermit,
}

/// Writes that a lane commits together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) items: Vec<Item>,
    /// Their room in the queue, which is free again once they are written.
    rooms: Vec<OwnedSemaphorePermit>,
}

impl Batch {
    /// Takes the writes out; their room stays taken until the batch is dropped.
    pub(super) fn take(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }
}

impl Queue {
    pub(super) fn new(poison: Poison) -> Self {
        Self(Arc::new(Inner {
            waiting: Mutex::default(),
            first: Notify::new(),
            others: Notify::new(),
            room: Arc::new(Semaphore::new(QUEUE_BYTES / UNIT)),
            poison,
        }))
    }

    /// Queues a write and waits for its result.
    pub(super) async fn write(&self, op: Op) -> Result<Done, Error> {
        self.send(op, None).await
    }

    /// Queues a write and waits for its result. Withdraws it with the error of `refusal` once that completes, unless a lane has begun
    /// to send it.
    pub(super) async fn write_unless(
        &self,
        op: Op,
        refusal: impl Future<Output = Error>,
    ) -> Result<Done, Error> {
        let claim = Claim::default();
        let written = self.send(op, Some(claim.clone()));
        tokio::pin!(written);
        tokio::select! {
            biased;
            written = &mut written => return written,
            error = refusal => if claim.take() {
                return Err(error);
            }
        }
        written.await
    }

    async fn send(&self, op: Op, claim: Option<Claim>) -> Result<Done, Error> {
        let bytes = op.bytes();
        if bytes > QUEUE_BYTES {
            return Err(Error::TooLarge { bytes, limit: QUEUE_BYTES });
        }
        let units = u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX);
        let room = self.0.room.clone().acquire_many_owned(units).await.map_err(|_| Error::Closed)?;
        let (reply, result) = oneshot::channel();
        let is_shared = op.is_shared();
        {
            let mut waiting = self.waiting();
            if let Some(reason) = self.0.poison.reason() {
                return Err(Error::Poisoned { reason: reason.to_owned() });
            }
            if waiting.is_closed {
                return Err(Error::Closed);
            }
            let slow = !op.is_simple_append();
            let queued = Queued { item: Item { op, alone: false, slow, claim, reply }, bytes, room };
            if is_shared { waiting.shared.push_back(queued) } else { waiting.any.push_back(queued) }
        }
        self.0.first.notify_one();
        if !is_shared {
            self.0.others.notify_one();
        }
        // A lane that ends without an answer has seen the failure of the store.
        result.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Waits for writes and takes a batch; `None` once the queue is closed and empty. The first lane takes all kinds.
    pub(super) async fn next(&self, is_first: bool) -> Option<Batch> {
        let notify = if is_first { &self.0.first } else { &self.0.others };
        loop {
            let notified = notify.notified();
            {
                let mut waiting = self.waiting();
                let mut batch = Batch::default();
                let mut filled = Filled::default();
                if is_first {
                    filled.take(&mut waiting.shared, &mut batch);
                }
                filled.take(&mut waiting.any, &mut batch);
                if !batch.items.is_empty() {
                    return Some(batch);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            notified.await;
        }
    }

    /// Takes no more writes. Those that wait are written.
    pub(super) fn close(&self) {
        self.waiting().is_closed = true;
        self.0.first.notify_one();
        self.0.others.notify_waiters();
        self.0.others.notify_one();
    }

    /// Refuses all writes that wait, and all later ones.
    pub(super) fn abandon(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        let refused: Vec<_> = waiting.shared.drain(..).collect();
        let others: Vec<_> = waiting.any.drain(..).collect();
        drop(waiting);
        for Queued { item, .. } in refused.into_iter().chain(others) {
            let _ = item.reply.send(Err(self.ended()));
        }
        self.0.others.notify_one();
        self.0.first.notify_one();
    }

    /// Returns the number of writes that wait.
    pub(super) fn len(&self) -> usize {
        let waiting = self.waiting();
        waiting.shared.len() + waiting.any.len()
    }

    fn ended(&self) -> Error {
        match self.0.poison.reason() {
            Some(reason) => Error::Poisoned { reason: reason.to_owned() },
            None => Error::Closed,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The contents of a batch so far.
#[derive(Default)]
struct Filled {
    bytes: usize,
    calls: usize,
    executions: HashSet<uuid::Uuid>,
}

impl Filled {
    /// Moves writes to the batch, in order, until one does not fit or has an execution that is in it.
    fn take(&mut self, from: &mut VecDeque<Queued>, batch: &mut Batch) {
        while batch.items.len() < BATCH_WRITES
            && let Some(next) = from.front()
        {
            let calls =
                usize::from(next.item.slow && !matches!(&next.item.op, Op::Accept(one) if one.is_plain()));
            let is_full = self.bytes + next.bytes > BATCH_BYTES || self.calls + calls > BATCH_CALLS;
            if !batch.items.is_empty() && is_full {
                break;
            }
            if next.item.op.execution().is_some_and(|id| !self.executions.insert(id)) {
                break;
            }
            let Some(Queued { item, bytes, room }) = from.pop_front() else { break };
            self.bytes += bytes;
            self.calls += calls;
            batch.items.push(item);
            batch.rooms.push(room);
        }
    }
}
