//! Backups of a store in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use store::{Durability, Error, Options, PruneFilter, PruneRule};

use crate::common::{self, accept, at, blob_files, end, id, new, pause, prepare, text, whole};

fn options() -> Options {
    Options { durability: Durability::Relaxed, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_backup_under_load_is_a_consistent_prefix() {
    const WRITERS: u32 = 4;
    let directory = tempfile::tempdir().expect("a directory");
    let from = directory.path().join("data");
    let store = common::open(&from, options()).expect("it opens");
    prepare(&*store).await;
    // The number of confirmed executions of each writer. They write until the copy is complete.
    let told: Arc<[AtomicU32; WRITERS as usize]> = Arc::default();
    let done = Arc::new(AtomicU32::new(0));
    let writers = (0..WRITERS).map(|writer| {
        let (store, told, done) = (store.clone(), told.clone(), done.clone());
        tokio::spawn(async move {
            for turn in 0..u32::MAX {
                let number = 1 + turn * WRITERS + writer;
                let bytes = if turn % 4 == 0 { 80_000 } else { 200 };
                store.accept(&accept(number, bytes)).await.expect("it is accepted");
                for first in [1, 2] {
                    store.append(&pause(number, first, 200)).await.expect("it is appended");
                }
                told[writer as usize].store(turn + 1, Ordering::SeqCst);
                if done.load(Ordering::SeqCst) > 0 && turn > 20 {
                    break;
                }
            }
        })
    });
    let writing = tokio::spawn(join_all(writers));
    let to = directory.path().join("copy");
    while told.iter().any(|count| count.load(Ordering::SeqCst) < 10) {
        tokio::task::yield_now().await;
    }
    let before: Vec<u32> = told.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    let (source, target) = (from.clone(), to.clone());
    let copying = tokio::task::spawn_blocking(move || common::back_up(source, target));
    let backup = copying.await.expect("it ends").expect("it is copied");
    done.store(1, Ordering::SeqCst);
    for writer in writing.await.expect("they end") {
        writer.expect("it wrote");
    }
    assert!(backup.blobs > 0 && backup.executions >= u64::from(before.iter().sum::<u32>()), "{backup:?}");

    let copy = common::open(&to, options()).expect("the copy is a store");
    let mut found = 0;
    for writer in 0..WRITERS {
        for turn in 0.. {
            let number = 1 + turn * WRITERS + writer;
            if copy.execution(id(number)).await.expect("it is read").is_none() {
                assert!(turn >= before[writer as usize], "{turn} of {writer} was stored before");
                break;
            }
            let events = whole(&*copy, number).await;
            assert!(events == 3 || turn >= before[writer as usize], "{number} has {events} events");
            found += 1;
        }
    }
    assert_eq!(found, backup.executions, "without a gap");
    assert_eq!(blob_files(&to).len(), usize::try_from(backup.blobs).expect("a few"));
    assert_eq!(copy.collect_garbage().await.expect("it is tidied"), 0);
}

#[tokio::test]
async fn a_backup_works_online_and_offline_and_never_overwrites() {
    let directory = tempfile::tempdir().expect("a directory");
    let (from, to) = (directory.path().join("data"), directory.path().join("copy"));
    let store = common::open(&from, options()).expect("it opens");
    prepare(&*store).await;
    store.accept(&accept(1, 80_000)).await.expect("it is accepted");
    common::back_up(&from, &to).expect("it is copied");
    let refused = common::back_up(&from, &to).expect_err("there is one");
    assert!(matches!(refused, Error::Backup { .. }), "{refused}");
    store.append(&end(1, 1)).await.expect("it ends");
    store.prune(PruneFilter::new(PruneRule::EndedBefore(at(5000))), 10).await.expect("it prunes");
    store.close().await.expect("it closes");
    assert_eq!(blob_files(&from).len(), 0, "pruning goes on when the copy is made");

    let again = directory.path().join("again");
    let backup = common::back_up(&to, &again).expect("a copy of the copy, with nobody at it");
    assert_eq!((backup.executions, backup.blobs), (1, 1));
    let copy = common::open(&again, options()).expect("it opens");
    let events = copy.events(id(1)).await.expect("it is read").expect("it is there");
    assert_eq!(events, [new(1, 80_000).started]);
    let none = common::back_up(directory.path().join("none"), directory.path().join("copy 2"));
    assert!(none.is_err(), "there is nothing to copy");
    assert!(!directory.path().join("copy 2").exists());
}

#[tokio::test]
async fn a_backup_of_a_damaged_store_is_rejected_and_leaves_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let (from, to) = (directory.path().join("data"), directory.path().join("copy"));
    let store = common::open(&from, options()).expect("it opens");
    prepare(&*store).await;
    store.accept(&accept(1, 80_000)).await.expect("it is accepted");
    let file = blob_files(&from).remove(0);
    std::fs::write(&file, text(1, 80_000)).expect("it is written");
    let refused = common::back_up(&from, &to).expect_err("it is damaged");
    assert!(matches!(&refused, Error::RecordDamaged { detail } if detail.contains("blob")), "{refused}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("it is read").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
