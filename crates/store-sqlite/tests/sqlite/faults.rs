//! Failing disks, and the sharing of commits.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use futures_util::future::join_all;
use futures_util::poll;
use model::failpoint::{Failpoint, FailpointAction, Failpoints};
use store::{Durability, Error, Options, PruneFilter, PruneRule, StateWrite, Store};
use tempfile::TempDir;
use tokio::task::unconstrained;

use crate::blobs::{LARGE, input, open, options};
use crate::common::{self, accept, at, blob_files, end, id, new, pause, prepare, step, text, whole};

/// The outcome of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitFault {
    /// It fails without writing.
    NotWritten,
    /// It fails after writing: an error of the sync.
    Written,
    /// The disk is full.
    Full,
}

/// The faults of the writer of a store.
#[derive(Clone, Default)]
struct Faults(Arc<Arming>);

#[derive(Default)]
struct Arming {
    commit: Mutex<Option<CommitFault>>,
    is_held: Mutex<bool>,
    released: Condvar,
}

/// Holds the writer until it is dropped.
struct Held(Arc<Arming>);

impl Faults {
    fn failpoints(&self) -> Failpoints {
        let arming = self.0.clone();
        Failpoints::new(move |boundary| arming.at(boundary))
    }

    /// Makes the next commit fail.
    fn fail_next_commit(&self, fault: CommitFault) {
        *self.0.commit.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// Holds the current commit, so that other writes queue up.
    fn hold_writer(&self) -> Held {
        *self.0.is_held.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Held(self.0.clone())
    }
}

impl Arming {
    fn at(&self, boundary: Failpoint) -> Option<FailpointAction> {
        if boundary == Failpoint::BeforeCommit {
            let held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.released.wait_while(held, |is_held| *is_held));
        }
        let mut commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let mishap = match (*commit, boundary) {
            (Some(CommitFault::Full), Failpoint::BeforeCommit) => FailpointAction::Error,
            (Some(CommitFault::NotWritten), Failpoint::BeforeCommit) => FailpointAction::UnknownOutcome,
            (Some(CommitFault::Written), Failpoint::AfterCommit) => FailpointAction::Error,
            _ => return None,
        };
        *commit = None;
        Some(mishap)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.is_held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.released.notify_all();
    }
}

async fn store(faults: &Faults) -> (TempDir, Arc<dyn Store>) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { failpoints: faults.failpoints(), ..Options::default() };
    let store = common::open(directory.path(), options).expect("it opens");
    prepare(&*store).await;
    (directory, store)
}

fn reopen(directory: &TempDir) -> Arc<dyn Store> {
    common::open(directory.path(), Options::default()).expect("it opens")
}

#[tokio::test]
async fn queued_writes_share_a_commit() {
    let faults = Faults::default();
    let (_directory, store) = store(&faults).await;
    let before = store.metrics();
    let held = faults.hold_writer();
    let accepts: Vec<_> = (1..=200).map(|number| accept(number, 10)).collect();
    let mut writes = pin!(unconstrained(join_all(accepts.iter().map(|accept| store.accept(accept)))));
    assert!(poll!(&mut writes).is_pending());
    drop(held);
    for accepted in writes.await {
        accepted.expect("it is accepted");
    }
    let after = store.metrics();
    assert_eq!(after.writes - before.writes, 200);
    // One for the commit that was held, one for all others.
    assert!(after.commits - before.commits <= 2, "{after:?}");
    assert!(after.last_batch > 0 && after.last_commit_time <= after.slowest_commit_time, "{after:?}");
    assert_eq!(after.queued, 0);
}

#[tokio::test]
async fn a_failed_commit_leaves_the_outcome_unknown_and_stops_all_writes() {
    for (fault, kept) in [(CommitFault::NotWritten, false), (CommitFault::Written, true)] {
        let faults = Faults::default();
        let (directory, store) = store(&faults).await;
        store.accept(&accept(1, 10)).await.expect("it is accepted");
        let held = faults.hold_writer();
        let accepts: Vec<_> = (2..=9).map(|number| accept(number, 10)).collect();
        let answers = {
            let mut writes = pin!(unconstrained(join_all(accepts.iter().map(|accept| store.accept(accept)))));
            assert!(poll!(&mut writes).is_pending());
            faults.fail_next_commit(fault);
            drop(held);
            writes.await
        };
        assert!(
            answers.iter().all(|answer| answer.as_ref().is_err_and(Error::outcome_unknown)),
            "{answers:?}"
        );
        assert!(matches!(answers[0], Err(Error::Commit { .. })), "{answers:?}");

        let late = store.append(&step(1, 1, 10)).await;
        assert!(matches!(late, Err(Error::Poisoned { .. })), "{late:?}");
        // Confirmed writes can still be read.
        assert!(store.execution(id(1)).await.expect("it is read").is_some());
        assert!(matches!(store.close().await, Err(Error::Poisoned { .. })));
        drop(store);

        let store = reopen(&directory);
        assert!(store.execution(id(1)).await.expect("it is read").is_some());
        assert_eq!(store.execution(id(2)).await.expect("it is read").is_some(), kept);
        store.accept(&accept(99, 10)).await.expect("it writes again");
    }
}

#[tokio::test]
async fn a_commit_without_disk_space_fails_and_the_next_one_succeeds() {
    let faults = Faults::default();
    let (_directory, store) = store(&faults).await;
    faults.fail_next_commit(CommitFault::Full);
    let refused = store.accept(&accept(1, 10)).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    assert_eq!(store.execution(id(1)).await.expect("it is read"), None);
    store.accept(&accept(1, 10)).await.expect("there is space again");
    store.close().await.expect("it closes well");
}

#[tokio::test]
async fn a_store_at_its_size_limit_accepts_writes_after_pruning() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { max_bytes: Some(2 << 20), durability: Durability::Relaxed, ..Options::default() };
    let store = common::open(directory.path(), options).expect("it opens");
    prepare(&*store).await;
    // An ended execution, so that pruning can free space.
    store.accept(&accept(1, 50_000)).await.expect("it is accepted");
    store.append(&end(1, 1)).await.expect("it ends");
    let mut stored = 1;
    let refused = loop {
        match store.accept(&accept(stored + 1, 50_000)).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the limit holds");
    };
    assert!(matches!(refused, Error::Full), "{refused}");
    assert!(stored > 10, "{stored}");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), u64::from(stored) - 1);
    let all = PruneFilter::new(PruneRule::EndedBefore(at(5000)));
    assert_eq!(store.prune(all.clone(), 1000).await.expect("it prunes without room"), 1);
    for number in 2..=stored {
        store.append(&end(number, 1)).await.expect("there is room for little things");
    }
    assert_eq!(store.prune(all, 1000).await.expect("it prunes"), u64::from(stored) - 1);
    store.accept(&accept(500, 50_000)).await.expect("there is room again");
}

#[tokio::test]
async fn waits_and_state_are_atomic_with_their_commit() {
    for (fault, kept) in
        [(CommitFault::NotWritten, false), (CommitFault::Written, true), (CommitFault::Full, false)]
    {
        let faults = Faults::default();
        let (directory, store) = store(&faults).await;
        store.accept(&accept(1, 10)).await.expect("it is accepted");
        store.append(&pause(1, 1, 10)).await.expect("it is appended");
        faults.fail_next_commit(fault);
        let failed = store.append(&pause(1, 2, 10)).await.expect_err("the commit fails");
        assert_eq!(failed.outcome_unknown(), fault != CommitFault::Full, "{failed}");
        drop(store);
        assert_eq!(whole(&*reopen(&directory), 1).await, if kept { 3 } else { 2 });
    }
}

#[tokio::test]
async fn an_append_that_runs_out_of_space_is_rolled_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { max_bytes: Some(1 << 20), durability: Durability::Relaxed, ..Options::default() };
    let store = common::open(directory.path(), options).expect("it opens");
    prepare(&*store).await;
    store.accept(&accept(1, 10)).await.expect("it is accepted");
    let mut events = 1;
    let refused = loop {
        // The row of the execution is written first and fits; the events do not.
        match store.append(&pause(1, events, 50_000)).await {
            Ok(()) => events += 1,
            Err(error) => break error,
        }
        assert!(events < 100, "the limit holds");
    };
    assert!(matches!(refused, Error::Full), "{refused}");
    assert_eq!(whole(&*store, 1).await, usize::try_from(events).expect("it fits"));
}

#[tokio::test]
async fn within_one_commit_the_first_conflicting_write_wins_and_others_roll_back() {
    // With and without a write that makes the writer use savepoints.
    for spoiled in [false, true] {
        let faults = Faults::default();
        let (_directory, store) = store(&faults).await;
        for number in 1..=6 {
            store.accept(&accept(number, 10)).await.expect("it is accepted");
            store.append(&pause(number, 1, 10)).await.expect("it is appended");
        }
        let held = faults.hold_writer();
        let shared = |number: u32| {
            let mut append = pause(number, 2, 10);
            let own = append.state[0].clone();
            append.state.push(StateWrite { scope: "shared".to_owned(), key: "turn".to_owned(), ..own });
            append
        };
        let refused = async { if spoiled { Some(store.accept(&accept(1, 10)).await) } else { None } };
        let appends: Vec<_> = (1..=6).map(shared).collect();
        let appends = join_all(appends.iter().map(|append| store.append(append)));
        let mut writes = pin!(unconstrained(futures_util::future::join(appends, refused)));
        assert!(poll!(&mut writes).is_pending());
        drop(held);
        let (appended, refused) = writes.await;
        assert!(refused.is_none_or(|refused| matches!(refused, Err(Error::AlreadyExists(_)))));
        assert!(appended[0].is_ok(), "{appended:?}");
        for (number, result) in (1..=6).zip(&appended) {
            if number > 1 {
                assert!(matches!(result, Err(Error::StateChanged { .. })), "{result:?}");
            }
            assert_eq!(whole(&*store, number).await, if number == 1 { 3 } else { 2 });
        }
    }
}

#[tokio::test]
async fn a_blob_of_a_failed_commit_is_garbage_collected() {
    let directory = tempfile::tempdir().expect("a directory");
    let faults = Faults::default();
    let store = open(directory.path(), Options { failpoints: faults.failpoints(), ..options() }).await;
    faults.fail_next_commit(CommitFault::NotWritten);
    let error = store.accept(&accept(1, LARGE)).await.expect_err("it is not committed");
    assert!(error.outcome_unknown());
    assert_eq!(blob_files(directory.path()).len(), 1, "a blob is written before the row that names it");
    drop(store);
    let store = open(directory.path(), options()).await;
    assert!(store.events(id(1)).await.expect("it is read").is_none());
    store.accept(&accept(2, LARGE)).await.expect("it is accepted");
    assert_eq!(store.collect_garbage().await.expect("it is tidied"), 1);
    assert_eq!(input(&*store, 2).await.expect("it is read"), text(2, LARGE));
    assert_eq!(store.collect_garbage().await.expect("it is tidied"), 0);
}

#[tokio::test]
async fn a_blob_pinned_by_a_pending_write_is_not_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let faults = Faults::default();
    let store = open(directory.path(), Options { failpoints: faults.failpoints(), ..options() }).await;
    // Its only user is deleted except for its events, so its deletion is next.
    store.accept(&accept(1, LARGE)).await.expect("it is accepted");
    store.append(&end(1, 1)).await.expect("it ends");
    let held = faults.hold_writer();
    let executions = vec![store::NewExecution { id: id(2), ..new(1, LARGE) }];
    let accept = store::Accept { executions, ..Default::default() };
    let accepting = store.accept(&accept);
    let pruning = async {
        let pruned = store.prune(PruneFilter::new(PruneRule::EndedBefore(at(5000))), 10).await;
        pruned.expect("it prunes");
        store.collect_garbage().await.expect("it is tidied")
    };
    {
        let mut both = pin!(unconstrained(futures_util::future::join(accepting, pruning)));
        // Until one write waits for the writer with its blob pinned; the other waits behind it.
        assert!(poll!(&mut both).is_pending());
        drop(held);
        let (accepted, strays) = both.await;
        accepted.expect("it is accepted");
        assert_eq!(strays, 0);
    }
    assert_eq!(input(&*store, 2).await.expect("it is read"), text(1, LARGE));
}
