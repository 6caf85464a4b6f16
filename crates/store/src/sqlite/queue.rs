//! The way from the callers to the writer: bounded in number and in bytes, and never blocking a runtime's thread.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::encode::{Done, Work};
use crate::Error;

/// How many writes may wait in the queue.
const QUEUE_WRITES: usize = 1024;

/// How many bytes may wait in the queue, and the most bytes of one write.
const QUEUE_BYTES: usize = 64 << 20;

/// Bytes are counted in units of so many.
const UNIT: usize = 1024;

/// What the writer receives.
#[derive(Debug)]
pub(super) enum Message {
    /// Work to do.
    Write(Write),
    /// Finish what is queued, let go of the file and say so.
    Close(oneshot::Sender<()>),
}

/// Work, and who waits for it.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Done, Error>>,
    /// Its share of the queue's bytes, given back when it is dropped.
    _share: OwnedSemaphorePermit,
}

/// The callers' end.
#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Message>,
    bytes: Arc<Semaphore>,
}

/// A queue, and the end that the writer receives from.
pub(super) fn queue() -> (Queue, mpsc::Receiver<Message>) {
    let (sender, receiver) = mpsc::channel(QUEUE_WRITES);
    (Queue { sender, bytes: Arc::new(Semaphore::new(QUEUE_BYTES / UNIT)) }, receiver)
}

impl Queue {
    /// Waits for room, queues the work, and waits until it is durable.
    pub(super) async fn write(&self, work: Work) -> Result<Done, Error> {
        let bytes = work.bytes();
        let units = u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX);
        if bytes > QUEUE_BYTES {
            return Err(Error::TooLarge { bytes, limit: QUEUE_BYTES });
        }
        let share = self.bytes.clone().acquire_many_owned(units).await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let message = Message::Write(Write { work, reply, _share: share });
        self.sender.send(message).await.map_err(|_| Error::Closed)?;
        // The writer answers all it received; if it did not, it died in the midst of a batch.
        answer.await.unwrap_or_else(|_| {
            Err(Error::Commit { reason: "the writer ended before it answered".to_owned() })
        })
    }

    /// Has the writer finish, and waits until it has let go of the file. At once if it has already.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.sender.send(Message::Close(reply)).await.is_ok() {
            // A writer that was already closing drops the reply when it is done.
            let _ = closed.await;
        }
        self.sender.closed().await;
    }

    /// How many writes wait.
    pub(super) fn len(&self) -> usize {
        self.sender.max_capacity().saturating_sub(self.sender.capacity())
    }
}
