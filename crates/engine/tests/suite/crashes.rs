//! A crash at each commit of the store in turn: the commit fails with an unknown outcome, and the engine ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use engine::Engine;
use model::failpoint::{Failpoint, FailpointAction, Failpoints};

use crate::common::{Project, open_store_with, soon};

/// The maximum number of commits of a scenario.
const MOST: i64 = 60;

/// Runs a scenario with a crash at each commit, before and behind it. It returns false if it had fewer commits.
pub(crate) async fn at_each_commit(scenario: impl AsyncFn(CrashAt) -> bool) {
    for boundary in [Failpoint::BeforeCommit, Failpoint::AfterCommit] {
        let mut number = 0;
        while scenario(CrashAt { boundary, number }).await {
            number += 1;
            assert!(number < MOST, "the scenario has {MOST} commits or more");
        }
        assert!(number > 0, "no commit was reached");
    }
}

/// The place of a crash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrashAt {
    boundary: Failpoint,
    /// The number of commits before it.
    number: i64,
}

/// An engine that crashes at a commit.
pub(crate) struct Crashing {
    pub(crate) engine: Engine,
    at: CrashAt,
    /// The commits before the crash; negative after it.
    left: Arc<AtomicI64>,
}

impl CrashAt {
    /// Starts an engine whose commits do not count yet.
    pub(crate) async fn start(self, project: &Project) -> Crashing {
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let seen = left.clone();
        let failpoints = Failpoints::new(move |at| {
            let is_due = at == self.boundary && seen.fetch_sub(1, Ordering::SeqCst) == 0;
            is_due.then_some(FailpointAction::UnknownOutcome)
        });
        let options = store::Options { failpoints, ..store::Options::default() };
        let engine = project.start_on(open_store_with(&project.settings.data_dir, options)).await;
        Crashing { engine, at: self, left }
    }
}

impl Crashing {
    /// Begins to count the commits.
    pub(crate) fn arm(&self) {
        self.left.store(self.at.number, Ordering::SeqCst);
    }

    /// True after the crash.
    pub(crate) fn has_crashed(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }

    /// Waits for the crash, or until `is_over` is true. Returns true after the crash.
    pub(crate) async fn run_until(&self, is_over: impl AsyncFn() -> bool) -> bool {
        soon(async {
            loop {
                if self.has_crashed() {
                    return true;
                }
                if is_over().await {
                    return false;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Ends the engine as a crash does.
    pub(crate) async fn end(self) {
        soon(self.engine.shutdown(Duration::ZERO)).await;
        let _ = self.engine.store().close().await;
    }
}
