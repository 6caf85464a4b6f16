//! Work that is carried to its end although whoever waits for it may go away.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A future that goes on as a task of its own where it is dropped before its end. While somebody waits for it, it needs
/// no task: it runs in that of whoever waits.
pub struct Lasting<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    tracker: TaskTracker,
    /// Whoever waits for the tracker waits for this as well.
    _token: TaskTrackerToken,
}

/// Carries `work` to its end among the tasks of `tracker`.
pub fn lasting<T: Send + 'static>(
    tracker: &TaskTracker,
    work: impl Future<Output = T> + Send + 'static,
) -> Lasting<T> {
    Lasting { work: Some(Box::pin(work)), tracker: tracker.clone(), _token: tracker.token() }
}

impl<T: Send + 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out meanwhile: what panics is not polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // Without a runtime the process ends.
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
    async fn what_is_dropped_before_its_end_goes_on_and_is_waited_for() {
        let tracker = TaskTracker::new();
        let ((go, gone), (done, seen)) = (oneshot::channel::<()>(), oneshot::channel());
        let mut work = lasting(&tracker, async move {
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
    async fn what_has_ended_leaves_nothing() {
        let tracker = TaskTracker::new();
        assert_eq!(lasting(&tracker, async { 7 }).await, 7);
        assert!(tracker.is_empty());
    }
}
