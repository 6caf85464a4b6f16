//! The memory for answers of called hosts. Bytes that arrive take room in a budget of their own, so hosts that answer slowly delay
//! other large answers, but no evaluation. A whole answer takes room among the large values, as much as its value is estimated to
//! take.
//!
//! No two calls wait for each other. A call does not wait while it holds memory for files that it loads, or while its execution
//! exceeds the memory or another execution waits for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use connector::AnswerMemory;

use crate::clock::{Clock, MonotonicTime};
use crate::context::Context;
use crate::memory::{Memory, Share};

/// The budgets that answers take room in.
#[derive(Clone, Copy)]
struct Budgets<'a> {
    values: &'a Memory,
    arriving: &'a Memory,
    clock: &'a dyn Clock,
}

/// The answers of one call, or of the calls of one poll.
pub struct Answers<'a> {
    budgets: Budgets<'a>,
    /// The share among the large values.
    share: &'a Share,
    /// The memory of the other values of `share`, in bytes, which include `counted`.
    held: Arc<AtomicUsize>,
    /// The memory of further values of `share`, in bytes, which do not change meanwhile.
    fixed: usize,
    /// The memory that the answers so far are counted with, in bytes.
    counted: AtomicUsize,
    /// True once the value that the answers have become is counted.
    is_settled: AtomicBool,
    arriving: Share,
    waits: bool,
    waited: Mutex<Waited>,
}

/// The waits of a call for room.
#[derive(Default)]
struct Waited {
    before: Duration,
    since: Option<MonotonicTime>,
}

impl Context {
    /// Creates the memory for answers that take room in `share`, apart from an execution.
    pub fn answer_memory<'a>(&'a self, share: &'a Share) -> Answers<'a> {
        Answers::new(self.answer_budgets(), share, Arc::default())
    }

    /// Creates the memory for the responses to a call of an execution. Its `share` covers values of `fixed` bytes and the bytes
    /// that `held` counts. The call waits for memory if `waits` is true.
    pub(crate) fn answers_of_run<'a>(
        &'a self,
        share: &'a Share,
        held: Arc<AtomicUsize>,
        fixed: usize,
        waits: bool,
    ) -> Answers<'a> {
        let mut answers = Answers::new(self.answer_budgets(), share, held);
        (answers.fixed, answers.waits) = (fixed, waits);
        answers
    }

    fn answer_budgets(&self) -> Budgets<'_> {
        Budgets { values: &self.memory, arriving: &self.arriving_answers, clock: &*self.clock }
    }
}

impl<'a> Answers<'a> {
    fn new(budgets: Budgets<'a>, share: &'a Share, held: Arc<AtomicUsize>) -> Self {
        Self {
            budgets,
            share,
            held,
            fixed: 0,
            counted: AtomicUsize::new(0),
            is_settled: AtomicBool::new(false),
            arriving: Share::default(),
            waits: true,
            waited: Mutex::default(),
        }
    }

    /// Counts the value that all answers together have become, in bytes, in place of the estimates.
    pub(crate) fn settle(&self, bytes: usize) {
        self.is_settled.store(true, Ordering::Relaxed);
        if self.counted.load(Ordering::Relaxed) > 0 {
            self.count(bytes);
            self.budgets.values.resize_at_once(self.share, self.held());
        }
    }

    fn held(&self) -> usize {
        self.fixed.saturating_add(self.held.load(Ordering::Relaxed))
    }

    fn count(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_sub(self.counted.swap(bytes, Ordering::Relaxed), Ordering::Relaxed);
    }

    async fn measure(&self, waiting: impl Future<Output = ()>) {
        self.waits().since = Some(self.budgets.clock.monotonic_now());
        waiting.await;
        let waited = self.waited();
        *self.waits() = Waited { before: waited, since: None };
    }

    fn waits(&self) -> MutexGuard<'_, Waited> {
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn reserve_arriving(&self, bytes: usize) {
        if self.waits {
            tokio::select! {
                biased;
                () = self.share.overdrawn() => {}
                () = self.budgets.arriving.resize(&self.arriving, bytes) => return,
            }
        }
        self.budgets.arriving.resize_at_once(&self.arriving, bytes);
    }

    async fn reserve_value(&self, memory: usize) {
        self.count(self.counted.load(Ordering::Relaxed).saturating_add(memory));
        if self.waits {
            self.budgets.values.resize(self.share, self.held()).await;
        } else {
            self.budgets.values.resize_at_once(self.share, self.held());
        }
        self.arriving.release();
    }
}

#[async_trait]
impl AnswerMemory for Answers<'_> {
    async fn arriving(&self, bytes: usize) {
        self.measure(self.reserve_arriving(bytes)).await;
    }

    async fn arrived(&self, memory: usize) {
        self.measure(self.reserve_value(memory)).await;
    }

    fn waited(&self) -> Duration {
        let now = self.budgets.clock.monotonic_now();
        let waits = self.waits();
        waits.before + waits.since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        // A call that has failed keeps nothing. A result is counted from here on where other steps can read it.
        let is_settled = self.is_settled.load(Ordering::Relaxed);
        if !is_settled && self.counted.load(Ordering::Relaxed) > 0 {
            self.settle(0);
        }
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::clock::ManualClock;

    const KB: usize = 1 << 10;

    /// Budgets of 64 KiB each.
    struct Rig {
        values: Memory,
        arriving: Memory,
        clock: ManualClock,
    }

    impl Rig {
        fn new() -> Self {
            let clock = ManualClock::new("2026-03-02T08:00:00Z".parse().expect("an instant"));
            Self { values: Memory::new(64 * KB), arriving: Memory::new(64 * KB), clock }
        }

        fn budgets(&self) -> Budgets<'_> {
            Budgets { values: &self.values, arriving: &self.arriving, clock: &self.clock }
        }

        fn answers<'a>(&'a self, share: &'a Share) -> Answers<'a> {
            Answers::new(self.budgets(), share, Arc::default())
        }
    }

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        future.now_or_never().is_some()
    }

    #[test]
    fn slow_responses_delay_other_responses_but_no_values() {
        let (rig, shares) = (Rig::new(), [(); 4].map(|()| Share::default()));
        let [one, other, third] = [0, 1, 2].map(|at: usize| rig.answers(&shares[at]));
        assert!(is_ready(one.arriving(60 * KB)));
        assert!(is_ready(other.arriving(60 * KB)), "one exceeds the budget");
        let mut waiting = third.arriving(60 * KB);
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(is_ready(rig.values.resize(&shares[3], 60 * KB)));
        rig.clock.advance(Duration::from_secs(2));
        assert_eq!(third.waited(), Duration::from_secs(2), "also while it waits");
        drop(one);
        assert!(is_ready(waiting));
        assert_eq!(third.waited(), Duration::from_secs(2));
    }

    #[test]
    fn a_response_waits_for_memory_and_keeps_only_the_size_of_its_value() {
        let (rig, shares) = (Rig::new(), [(); 3].map(|()| Share::default()));
        let [one, other] = [0, 1].map(|at: usize| rig.answers(&shares[at]));
        assert!(is_ready(rig.values.resize(&shares[2], 64 * KB)));
        assert!(is_ready(one.arriving(20 * KB)) && is_ready(one.arrived(40 * KB)), "one exceeds the memory");
        assert!(is_ready(other.arriving(60 * KB)));
        let mut waiting = other.arrived(60 * KB);
        assert!(waiting.as_mut().now_or_never().is_none());
        one.settle(10 * KB);
        shares[2].release();
        assert!(is_ready(waiting), "the room of the values that are gone is taken");
        other.settle(KB);
        assert!(is_ready(rig.values.resize(&shares[2], 63 * KB)), "the estimate is given back");
        assert!(rig.arriving.try_reserve(&Share::default(), 64 * KB), "what has arrived counts as a value");
    }

    #[test]
    fn a_call_that_fails_after_its_response_releases_its_memory() {
        let (rig, share) = (Rig::new(), Share::default());
        let call = rig.answers(&share);
        assert!(is_ready(call.arrived(60 * KB)));
        drop(call);
        assert!(rig.values.try_reserve(&Share::default(), 64 * KB));
    }

    #[test]
    fn an_execution_over_the_memory_budget_does_not_wait_for_responses() {
        let (rig, shares) = (Rig::new(), [(); 3].map(|()| Share::default()));
        let [one, other, third] = [0, 1, 2].map(|at: usize| rig.answers(&shares[at]));
        assert!(is_ready(one.arriving(64 * KB)) && is_ready(other.arriving(64 * KB)));
        let mut waiting = third.arriving(64 * KB);
        assert!(waiting.as_mut().now_or_never().is_none());
        // Another branch of the execution gets the right to exceed the memory.
        assert!(is_ready(rig.values.resize(&shares[0], 64 * KB)));
        assert!(is_ready(rig.values.resize(&shares[2], 64 * KB)));
        assert!(is_ready(waiting));
    }

    #[test]
    fn parallel_calls_add_up_in_the_share_of_their_execution() {
        let (rig, share, held) = (Rig::new(), Share::default(), Arc::new(AtomicUsize::new(0)));
        let call = || Answers::new(rig.budgets(), &share, held.clone());
        let (one, other) = (call(), call());
        assert!(is_ready(one.arrived(30 * KB)) && is_ready(other.arrived(30 * KB)));
        assert!(!rig.values.try_reserve(&Share::default(), 5 * KB));
        drop((one, other));
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }
}
