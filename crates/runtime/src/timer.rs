//! The timer loop shared by schedules, polls and subscriptions, whose due times follow from the snapshot in force.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, MonotonicTime};

/// A component with due times.
pub trait Timed: Send {
    /// Applies the changes of the snapshot since the last call.
    fn adopt(&mut self) -> impl Future<Output = ()> + Send;

    /// The next due time; `None` if nothing is planned.
    fn next(&self) -> Option<Due>;

    /// Processes everything that is due.
    fn run_due(&mut self) -> impl Future<Output = ()> + Send;

    /// Completes when the next due time may have changed. By default only a new snapshot changes it.
    fn rescheduled(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Wall-clock time, for events on a calendar.
    WallClock(Timestamp),
    /// Monotonic time, for delays.
    Monotonic(MonotonicTime),
}

/// Inputs of the timer loop.
pub struct Timer {
    pub(crate) clock: Arc<dyn Clock>,
    /// Number of the snapshot in force.
    pub(crate) generation: watch::Receiver<u64>,
    /// Cancelled when the engine stops.
    pub(crate) closing: CancellationToken,
}

impl Timer {
    /// Runs `timed` until the engine stops.
    pub async fn run(mut self, mut timed: impl Timed) {
        loop {
            // Later changes increment the generation and are seen by `changed`.
            self.generation.mark_unchanged();
            timed.adopt().await;
            loop {
                let next = timed.next();
                tokio::select! {
                    biased;
                    () = self.closing.cancelled() => return,
                    changed = self.generation.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        break;
                    }
                    () = timed.rescheduled() => {}
                    () = sleep_until_due(&*self.clock, next) => timed.run_due().await,
                }
            }
        }
    }
}

async fn sleep_until_due(clock: &dyn Clock, next: Option<Due>) {
    match next {
        Some(Due::Monotonic(at)) => until_monotonic(clock, Some(at)).await,
        Some(Due::WallClock(at)) => until(clock, Some(at)).await,
        None => until(clock, None).await,
    }
}

/// Sleeps until a wall-clock time; forever if `None`.
pub(crate) async fn until(clock: &dyn Clock, next: Option<Timestamp>) {
    match next {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Sleeps until a monotonic time; forever if `None`.
pub(crate) async fn until_monotonic(clock: &dyn Clock, next: Option<MonotonicTime>) {
    match next {
        Some(at) => clock.sleep_until_monotonic(at).await,
        None => std::future::pending().await,
    }
}
