//! One timer for whatever acts at instants that follow from what is in force: schedules, polls, subscriptions.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, MonotonicTime};

/// What acts at instants.
pub trait Timed: Send {
    /// Takes over what was decided upon since it was last asked.
    fn adopt(&mut self) -> impl Future<Output = ()> + Send;

    /// When it has to act next, if ever.
    fn next(&self) -> Option<Due>;

    /// Acts on all that is due.
    fn act(&mut self) -> impl Future<Output = ()> + Send;

    /// Comes back when the next instant may be another one. By default only what is decided upon changes it.
    fn moved(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// When the wall clock shows this: it is on a calendar.
    Shown(Timestamp),
    /// When this is reached on the steady scale: it comes after a certain time.
    Passed(MonotonicTime),
}

/// What a timer goes by.
pub struct Timer {
    pub(crate) clock: Arc<dyn Clock>,
    /// Told of every snapshot that is in force.
    pub(crate) generation: watch::Receiver<u64>,
    /// When it is over.
    pub(crate) closing: CancellationToken,
}

impl Timer {
    /// Has something act at its instants until the engine stops.
    pub async fn run(mut self, mut timed: impl Timed) {
        loop {
            // What is decided upon from here on is told by another generation.
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
                    () = timed.moved() => {}
                    () = reached(&*self.clock, next) => timed.act().await,
                }
            }
        }
    }
}

async fn reached(clock: &dyn Clock, next: Option<Due>) {
    match next {
        Some(Due::Passed(at)) => until_monotonic(clock, Some(at)).await,
        Some(Due::Shown(at)) => until(clock, Some(at)).await,
        None => until(clock, None).await,
    }
}

/// Comes back once the instant has been reached; never where there is none.
pub(crate) async fn until(clock: &dyn Clock, next: Option<Timestamp>) {
    match next {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The same on the steady scale.
pub(crate) async fn until_monotonic(clock: &dyn Clock, next: Option<MonotonicTime>) {
    match next {
        Some(at) => clock.sleep_until_monotonic(at).await,
        None => std::future::pending().await,
    }
}
