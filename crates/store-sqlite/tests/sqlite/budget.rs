//! The size limit of a store.

use std::path::Path;
use std::sync::Arc;

use store::{Capacity, Durability, Error, Options, PruneFilter, PruneRule, Store};

use crate::common::{self, accept, end, id, prepare, step};

const MOST: u64 = 4 << 20;

async fn open(directory: &Path) -> Arc<dyn Store> {
    let options = Options { max_bytes: Some(MOST), durability: Durability::Relaxed, ..Options::default() };
    let store = common::open(directory, options).expect("it opens");
    prepare(&*store).await;
    store
}

/// Returns the bytes of the file and all blobs.
async fn taken(store: &dyn Store, directory: &Path) -> u64 {
    let file = std::fs::metadata(directory.join("cogwork.db")).expect("it is there").len();
    file + store.info().await.expect("it is told").blob_bytes
}

#[tokio::test]
async fn a_nearly_full_store_rejects_starts_and_lets_running_executions_end() {
    for bytes in [20_000, 100_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path()).await;
        let mut stored = 0;
        let refused = loop {
            match store.accept(&accept(stored + 1, bytes)).await {
                Ok(_) => stored += 1,
                Err(error) => break error,
            }
            assert!(stored < 1000, "the limit holds");
        };
        assert!(matches!(refused, Error::Full), "{refused}");
        assert_eq!(
            (store.capacity(), store.info().await.expect("it is read").capacity),
            (Capacity::Exhausted, Capacity::Exhausted)
        );
        assert!(taken(&*store, directory.path()).await <= MOST);
        // One more step, and the end, of each accepted execution.
        for number in 1..=stored {
            store.append(&step(number, 1, 200)).await.expect("there is room for what was accepted");
            store.append(&end(number, 2)).await.expect("it ends");
        }
        assert_eq!(store.unfinished_count().await.expect("it is counted"), 0);
        // Ended executions may take less space than running ones: fill the remaining space.
        let mut more = stored + 1;
        while store.accept(&accept(more, bytes)).await.is_ok() {
            more += 1;
        }
        store.close().await.expect("it closes");
        let store = open(directory.path()).await;
        assert_eq!(store.capacity(), Capacity::Exhausted, "it is known from the start");
        let oldest = PruneFilter::new(PruneRule::Oldest);
        while store.capacity() != Capacity::Ample {
            assert_eq!(store.prune(oldest.clone(), 5).await.expect("it prunes"), 5);
        }
        assert!(store.execution(id(1)).await.expect("it is read").is_none(), "the oldest went");
        assert!(store.execution(id(stored)).await.expect("it is read").is_some());
        store.accept(&accept(more, bytes)).await.expect("there is room again");
        assert!(taken(&*store, directory.path()).await <= MOST);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_large_values_stay_within_the_size_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path()).await;
    let writing = (0..8_u32).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for turn in 0..20 {
                let refused = store.accept(&accept(1 + turn * 8 + writer, 300_000)).await.err();
                assert!(matches!(refused, None | Some(Error::Full)), "{refused:?}");
            }
        })
    });
    for writer in futures_util::future::join_all(writing).await {
        writer.expect("it writes");
    }
    let taken = taken(&*store, directory.path()).await;
    assert!((MOST / 2..=MOST).contains(&taken), "{taken}");
}
