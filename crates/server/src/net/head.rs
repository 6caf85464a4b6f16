//! By when the head of the next request must have come. The HTTP library asks for a timer for each of them; here that is a
//! number, which the connection looks at from time to time, so that a request costs no timer of the runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant as StdInstant};

use hyper::rt::{Sleep, Timer};
use tokio::time::Instant;

use super::stream::FramingState;
use crate::options::Deadlines;

/// The deadline of the head that a connection waits for.
#[derive(Debug)]
pub(super) struct HeadDeadline {
    began: Instant,
    /// Nanoseconds after the beginning of the connection; 0 where no head is waited for.
    due: AtomicU64,
}

impl HeadDeadline {
    /// Of a connection that begins now.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), due: AtomicU64::new(0) })
    }

    fn set(&self, at: StdInstant) {
        let after = Instant::from_std(at).saturating_duration_since(self.began).as_nanos();
        self.due.store(u64::try_from(after).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    fn clear(&self) {
        self.due.store(0, Ordering::Relaxed);
    }

    fn due(&self) -> Option<Instant> {
        let after = self.due.load(Ordering::Relaxed);
        (after > 0).then(|| self.began + Duration::from_nanos(after))
    }

    /// When to look again whether a head is late; `None` where one is. A deadline that is set after a look lies no
    /// nearer than the time between two requests, so that it is always looked at in time.
    pub(super) fn next_look(
        &self,
        framing: &FramingState,
        deadlines: &Deadlines,
        now: Instant,
    ) -> Option<Instant> {
        let first = (!framing.has_request()).then(|| self.began + deadlines.head);
        let next = self.due().unwrap_or(now + deadlines.keep_alive);
        let nearest = first.map_or(next, |first| first.min(next));
        (nearest > now).then_some(nearest)
    }
}

/// The timer of the HTTP library.
#[derive(Debug)]
pub(super) struct HeadTimer(pub(super) Arc<HeadDeadline>);

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn Sleep>> {
        self.0.set(deadline);
        Box::pin(Awaited(self.0.clone()))
    }

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }

    fn reset(&self, _: &mut Pin<Box<dyn Sleep>>, deadline: StdInstant) {
        self.0.set(deadline);
    }
}

/// A head that is waited for. It never says that it is late, which ends the connection instead.
#[derive(Debug)]
struct Awaited(Arc<HeadDeadline>);

impl Future for Awaited {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Sleep for Awaited {}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_head_is_late_only_after_its_deadline() {
        let deadlines = Deadlines { head: SECOND * 10, keep_alive: SECOND * 15, ..Deadlines::default() };
        let (head, framing) = (HeadDeadline::new(), FramingState::default());
        let at = |seconds| head.began + SECOND * seconds;
        let look = |seconds: u32| {
            let next = head.next_look(&framing, &deadlines, at(seconds));
            next.map(|next| (next - head.began).as_secs())
        };
        let timer = HeadTimer(head.clone());
        let mut awaited = timer.sleep_until(at(15).into_std());
        assert_eq!([look(0), look(9), look(10)], [Some(10), Some(10), None], "the first has less time");
        framing.set_request();
        assert_eq!([look(10), look(15)], [Some(15), None]);
        timer.reset(&mut awaited, at(20).into_std());
        assert_eq!([look(15), look(20)], [Some(20), None], "as late as it was put off");
        drop(awaited);
        assert_eq!(look(20), Some(35), "a request is under way: the next one has its time yet");
        let _awaited = timer.sleep_until(at(40).into_std());
        assert_eq!([look(35), look(39), look(40)], [Some(40), Some(40), None]);
    }
}
