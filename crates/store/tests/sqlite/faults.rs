//! What the writer does when the disk does not do as it is told, and how it shares commits.

use std::pin::pin;

use crate::common::{accept, at, end, id, prepare, step};
use futures_util::future::join_all;
use futures_util::poll;
use store::{CommitFault, Durability, Error, Failpoints, Options, Prune, SqliteStore, Store};
use tempfile::TempDir;
use tokio::task::unconstrained;

async fn store(failpoints: &Failpoints) -> (TempDir, SqliteStore) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { failpoints: failpoints.clone(), ..Options::default() };
    let store = SqliteStore::open(directory.path(), options).expect("it opens");
    prepare(&store).await;
    (directory, store)
}

fn reopen(directory: &TempDir) -> SqliteStore {
    SqliteStore::open(directory.path(), Options::default()).expect("it opens")
}

#[tokio::test]
async fn writes_that_wait_together_share_a_commit() {
    let failpoints = Failpoints::default();
    let (_directory, store) = store(&failpoints).await;
    let before = store.metrics();
    let held = failpoints.hold_writer();
    let mut writes = pin!(unconstrained(join_all((1..=200).map(|number| store.accept(accept(number, 10))))));
    assert!(poll!(&mut writes).is_pending());
    drop(held);
    for accepted in writes.await {
        accepted.expect("it is accepted");
    }
    let after = store.metrics();
    assert_eq!(after.writes - before.writes, 200);
    // One for what the writer had in hand when it was held, one for all the rest.
    assert!(after.commits - before.commits <= 2, "{after:?}");
    assert!(after.last_batch > 0 && after.last_commit_time <= after.slowest_commit_time, "{after:?}");
    assert_eq!(after.queued, 0);
}

#[tokio::test]
async fn a_failed_commit_leaves_the_outcome_unknown_and_ends_all_writing() {
    for (fault, kept) in [(CommitFault::NotWritten, false), (CommitFault::Written, true)] {
        let failpoints = Failpoints::default();
        let (directory, store) = store(&failpoints).await;
        store.accept(accept(1, 10)).await.expect("it is accepted");
        let held = failpoints.hold_writer();
        let answers = {
            let mut writes =
                pin!(unconstrained(join_all((2..=9).map(|number| store.accept(accept(number, 10))))));
            assert!(poll!(&mut writes).is_pending());
            failpoints.fail_next_commit(fault);
            drop(held);
            writes.await
        };
        assert!(
            answers.iter().all(|answer| answer.as_ref().is_err_and(Error::outcome_unknown)),
            "{answers:?}"
        );
        assert!(matches!(answers[0], Err(Error::Commit { .. })), "{answers:?}");

        let late = store.append(step(1, 1, 10)).await;
        assert!(matches!(late, Err(Error::Poisoned { .. })), "{late:?}");
        // What had been answered is still read.
        assert!(store.execution(id(1)).await.expect("it is read").is_some());
        assert!(matches!(store.close().await, Err(Error::Poisoned { .. })));
        drop(store);

        let store = reopen(&directory);
        assert!(store.execution(id(1)).await.expect("it is read").is_some());
        assert_eq!(store.execution(id(2)).await.expect("it is read").is_some(), kept);
        store.accept(accept(99, 10)).await.expect("it writes again");
    }
}

#[tokio::test]
async fn a_commit_that_finds_no_space_is_refused_and_the_next_is_not() {
    let failpoints = Failpoints::default();
    let (_directory, store) = store(&failpoints).await;
    failpoints.fail_next_commit(CommitFault::Full);
    let refused = store.accept(accept(1, 10)).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    assert_eq!(store.execution(id(1)).await.expect("it is read"), None);
    store.accept(accept(1, 10)).await.expect("there is space again");
    store.close().await.expect("it closes well");
}

#[tokio::test]
async fn a_store_at_its_size_limit_takes_writes_again_after_pruning() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { max_bytes: Some(2 << 20), durability: Durability::Relaxed, ..Options::default() };
    let store = SqliteStore::open(directory.path(), options).expect("it opens");
    prepare(&store).await;
    // One that has ended, for pruning to make room.
    store.accept(accept(1, 50_000)).await.expect("it is accepted");
    store.append(end(1, 1)).await.expect("it ends");
    let mut stored = 1;
    let refused = loop {
        match store.accept(accept(stored + 1, 50_000)).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the limit holds");
    };
    assert!(matches!(refused, Error::Full), "{refused}");
    assert!(stored > 10, "{stored}");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), u64::from(stored) - 1);
    let all = Prune { before: at(5000), automation: None, except: Vec::new(), keep_failed: false };
    assert_eq!(store.prune(all.clone(), 1000).await.expect("it prunes without room"), 1);
    for number in 2..=stored {
        store.append(end(number, 1)).await.expect("there is room for little things");
    }
    assert_eq!(store.prune(all, 1000).await.expect("it prunes"), u64::from(stored) - 1);
    store.accept(accept(500, 50_000)).await.expect("there is room again");
}
