//! The way from the callers to the writer: bounded in number and in bytes, and never blocking a runtime's thread.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::encode::{Done, Work};
use crate::Error;

/// How many writes may wait in the queue.
const QUEUE_WRITES: usize = 1024;

/// How many bytes may wait in the queue, and the most bytes of one write.
pub(super) const QUEUE_BYTES: usize = 64 << 20;

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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::join_all;
    use futures_util::poll;
    use model::{ExecutionId, Status};
    use tokio::task::unconstrained;

    use super::super::blobs::Apart;
    use super::super::encode::AppendRow;
    use super::*;

    fn work(bytes: usize) -> Work {
        Work::Append(Box::new(AppendRow {
            execution: ExecutionId::from_bytes([1; 16]),
            first: 1,
            count: 1,
            body: Some("x".repeat(bytes)),
            apart: Apart::default(),
            lines: None,
            status: Status::Running,
            shelf: 0,
            finished_ns: None,
            error: None,
            waits: None,
            state: Vec::new(),
        }))
    }

    #[tokio::test]
    async fn callers_wait_when_the_queue_is_full_of_bytes_and_go_on_when_there_is_room() {
        let (queue, mut receiver) = queue();
        let mut writes =
            pin!(unconstrained(join_all((0..4).map(|_| queue.write(work(QUEUE_BYTES / 2 - 1024))))));
        assert!(poll!(&mut writes).is_pending());
        assert_eq!(queue.len(), 2);
        for left in [2, 2, 1, 0] {
            let Ok(Message::Write(write)) = receiver.try_recv() else { panic!("one more is queued") };
            drop(write.work);
            assert!(write.reply.send(Ok(Done::Nothing)).is_ok());
            drop(write._share);
            let _ = poll!(&mut writes);
            assert_eq!(queue.len(), left);
        }
    }

    #[tokio::test]
    async fn callers_wait_when_the_queue_is_full_of_writes() {
        let (queue, _receiver) = queue();
        let count = QUEUE_WRITES + 5;
        let mut writes = pin!(unconstrained(join_all((0..count).map(|_| queue.write(work(1))))));
        assert!(poll!(&mut writes).is_pending());
        assert_eq!(queue.len(), QUEUE_WRITES);
    }

    #[tokio::test]
    async fn a_write_that_the_queue_could_never_hold_is_refused() {
        let (queue, _receiver) = queue();
        let refused = queue.write(work(QUEUE_BYTES + 1)).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn a_writer_that_ends_before_it_answers_leaves_the_outcome_unknown() {
        let (queue, mut receiver) = queue();
        let mut write = pin!(queue.write(work(1)));
        assert!(poll!(&mut write).is_pending());
        drop(receiver.try_recv());
        assert!(write.await.is_err_and(|error| error.outcome_unknown()));
        drop(receiver);
        assert!(matches!(queue.write(work(1)).await, Err(Error::Closed)));
    }
}
