//! Futures that run to completion even if their caller stops waiting.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A future that continues as a task of its own if it is dropped before it completes. Until then it runs in the task of its
/// caller and needs none.
pub struct SpawnOnDrop<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    tracker: TaskTracker,
    /// Keeps the tracker from completing before this future.
    _token: TaskTrackerToken,
}

/// Runs `work` to completion, as one of the tasks of `tracker`.
pub fn spawn_on_drop<T: Send + 'static>(
    tracker: &TaskTracker,
    work: impl Future<Output = T> + Send + 'static,
) -> SpawnOnDrop<T> {
    SpawnOnDrop { work: Some(Box::pin(work)), tracker: tracker.clone(), _token: tracker.token() }
}

impl<T: Send + 'static> Future for SpawnOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out during the poll, so that a future that panicked is not polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for SpawnOnDrop<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // Without a runtime the process is exiting.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tracker.spawn_on(work, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_future_dropped_before_its_end_continues_and_the_tracker_waits_for_it() {
        let tracker = TaskTracker::new();
        let ((go, gone), (done, seen)) = (oneshot::channel::<()>(), oneshot::channel());
        let mut work = spawn_on_drop(&tracker, async move {
            let _ = gone.await;
            done.send(7)
        });
        assert!(futures_util::poll!(&mut work).is_pending());
        drop(work);
        tracker.close();
        assert_eq!(tracker.len(), 1);
        assert!(go.send(()).is_ok());
        tracker.wait().await;
        assert_eq!(seen.await, Ok(7));
    }

    #[tokio::test]
    async fn a_completed_future_leaves_no_task() {
        let tracker = TaskTracker::new();
        assert_eq!(spawn_on_drop(&tracker, async { 7 }).await, 7);
        assert!(tracker.is_empty());
    }
}
